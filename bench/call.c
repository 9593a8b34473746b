/*
 * bench/call.c: calls of C functions in other processes, and what a sleeper of an object waits for, beside the futex.
 *
 *   call.seal    from just before an object is sealed to the return of a get that has slept for 300 us; futex: from
 * just before a store and FUTEX_WAKE to the return of FUTEX_WAIT call.one     a call: submitted, run by a worker that
 * has slept for 300 us, its result got; futex: two such wake-ups, there and back call.many    2,000 calls submitted at
 * once to two workers, and all results got: each memory.object, memory.call   committed bytes that each of 100,000
 * objects of 8 bytes takes beside these, and each of as many calls that no worker has taken, without arguments
 *
 * Usage: call SECONDS      (for each row)
 */
#include "job.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { MANY = 2000, OWN = 100000, ASLEEP_NS = 300000, WORKERS = 2, GETTER = WORKERS + 1, NUM_TASKS };

struct handoff {
    _Alignas(BENCH_LINE) _Atomic uint32_t there, back; /* words that are slept on: the number of the round */
    _Alignas(BENCH_LINE) _Atomic uint64_t object;   /* for the getter to get; 1: it waits for the futex; 2: it ends */
    _Alignas(BENCH_LINE) _Atomic uint64_t returned; /* when it had: ticks; 0: it has not */
};

static struct {
    struct bench_job job;
    struct bench_cpus cpus;
    struct muster *muster;
    struct handoff *handoff;
    muster_function function;
    double seconds, tick_ns;
} all;

static void word_wait(_Atomic uint32_t *word, uint32_t before)
{
    /* acquire: pairs with word_wake() */
    while (atomic_load_explicit(word, memory_order_acquire) == before)
        syscall(SYS_futex, word, FUTEX_WAIT, before, NULL, NULL, 0);
}

static void word_wake(_Atomic uint32_t *word, uint32_t now)
{
    atomic_store_explicit(word, now, memory_order_release); /* release: pairs with word_wait() */
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* ---- the other processes ---- */

static void be_worker(int task)
{
    struct muster *m = bench_job_join(&all.job, task, MUSTER_JOIN_RECOVERABLE);
    struct muster_object_room room;
    struct muster_call *call;

    bench_pin(&all.cpus, task);
    while (muster_worker_next(m, 0, MUSTER_FOREVER, &call) == MUSTER_OK) {
        bench_ok(muster_call_result(call, 0, 8, 0, &room), "muster_call_result");
        memcpy(room.data, "8 bytes ", 8);
        bench_ok(muster_call_done(call), "muster_call_done");
    }
    exit(0);
}

/* It gets each object that it is told of, and says when that has returned; and it answers the futex. */
static void be_getter(void)
{
    struct muster *m = bench_job_join(&all.job, GETTER, MUSTER_JOIN_RECOVERABLE);
    struct muster_object_view view;
    struct handoff *h = all.handoff;

    bench_pin(&all.cpus, 1);
    for (;;) {
        uint32_t there = atomic_load_explicit(&h->there, memory_order_relaxed);
        uint64_t object, now;

        while (!(object = atomic_exchange(&h->object, 0)))
            bench_pause();
        if (object == 2)
            break;
        if (object == 1) {
            word_wait(&h->there, there);
            now = bench_ticks();
            word_wake(&h->back, there + 1);
        } else {
            bench_ok(muster_object_get(m, &object, 1, MUSTER_FOREVER, &view, NULL), "muster_object_get");
            now = bench_ticks();
            muster_object_unview(m, &view, 1);
        }
        atomic_store_explicit(&h->returned, now, memory_order_release); /* release: pairs with returned() */
    }
    bench_ok(muster_leave(m), "muster_leave");
    exit(0);
}

static uint64_t returned(void)
{
    uint64_t at;

    while (!(at = atomic_exchange(&all.handoff->returned, 0))) /* acquire half: pairs with be_getter() */
        bench_pause();
    return at;
}

/* ---- rows ---- */

static void emit(const char *metric, const char *who, struct bench_samples *s, int batch)
{
    bench_emit(metric, who, s, all.tick_ns, batch, batch);
    bench_samples_free(s);
}

/* In turn, so that all see the same machine. */
static void row_seal(void)
{
    struct bench_samples seal, wake, both;
    uint64_t end = bench_now_ns() + (uint64_t)(all.seconds * 2e9);
    struct handoff *h = all.handoff;

    bench_samples_init(&seal, 1u << 16);
    bench_samples_init(&wake, 1u << 16);
    bench_samples_init(&both, 1u << 16);
    while (bench_goes_on(&seal, end)) {
        uint32_t there = atomic_load_explicit(&h->there, memory_order_relaxed);
        struct muster_object_room room;
        muster_object object;
        uint64_t start;

        bench_ok(muster_object_create(all.muster, 8, 0, 0, &object, &room), "muster_object_create");
        atomic_store(&h->object, object);
        bench_spin_ns(ASLEEP_NS);
        start = bench_ticks();
        bench_ok(muster_object_seal(all.muster, object), "muster_object_seal");
        bench_add(&seal, returned() - start);
        bench_ok(muster_object_drop(all.muster, &object, 1), "muster_object_drop");
        atomic_store(&h->object, 1);
        bench_spin_ns(ASLEEP_NS);
        start = bench_ticks();
        word_wake(&h->there, there + 1);
        word_wait(&h->back, there);
        bench_add(&both, bench_ticks() - start);
        bench_add(&wake, returned() - start);
    }
    emit("call.seal", "muster", &seal, 1);
    emit("call.seal", "futex", &wake, 1);
    emit("call.one", "futex", &both, 1);
}

static muster_object call_submit(void)
{
    muster_object o;

    bench_ok(muster_submit(all.muster, all.function, NULL, 0, NULL, &o), "muster_submit");
    return o;
}

static void call_get(muster_object o)
{
    struct muster_object_view view;

    bench_ok(muster_object_get(all.muster, &o, 1, MUSTER_FOREVER, &view, NULL), "muster_object_get");
    muster_object_unview(all.muster, &view, 1);
    bench_ok(muster_object_drop(all.muster, &o, 1), "muster_object_drop");
}

static void row_one(void)
{
    uint64_t end = bench_now_ns() + (uint64_t)(all.seconds * 1e9);
    struct bench_samples samples;

    bench_samples_init(&samples, 1u << 16);
    while (bench_goes_on(&samples, end)) {
        uint64_t start;

        bench_spin_ns(ASLEEP_NS);
        start = bench_ticks();
        call_get(call_submit());
        bench_add(&samples, bench_ticks() - start);
    }
    emit("call.one", "muster", &samples, 1);
}

static void row_many(void)
{
    uint64_t end = bench_now_ns() + (uint64_t)(all.seconds * 1e9);
    static muster_object calls[MANY];
    struct bench_samples samples;

    bench_samples_init(&samples, 1u << 14);
    while (bench_goes_on(&samples, end)) {
        uint64_t start = bench_ticks();

        for (int i = 0; i < MANY; i++)
            calls[i] = call_submit();
        for (int i = 0; i < MANY; i++)
            call_get(calls[i]);
        bench_add(&samples, bench_ticks() - start);
    }
    emit("call.many", "muster", &samples, MANY);
}

static uint64_t committed(void)
{
    struct muster_segment_info info;

    bench_ok(muster_segment_info(muster_segment_of(all.muster), &info), "muster_segment_info");
    return info.committed_bytes;
}

static void row_memory(void)
{
    static muster_object own[OWN];
    uint64_t before = committed();

    for (int i = 0; i < OWN; i++)
        bench_ok(muster_object_put(all.muster, "8 bytes ", 8, NULL, 0, 0, &own[i]), "muster_object_put");
    bench_emit_value("memory.object", "muster", (double)(committed() - before) / OWN - 8, "B");
    bench_ok(muster_object_drop(all.muster, own, OWN), "muster_object_drop");
}

/* In a job without workers, and from nothing. */
static void row_memory_of_calls(void)
{
    static muster_object own[OWN];
    uint64_t before = committed();

    for (int i = 0; i < OWN; i++)
        own[i] = call_submit();
    bench_emit_value("memory.call", "muster", (double)(committed() - before) / OWN, "B");
    for (int i = 0; i < OWN; i++)
        bench_ok(muster_call_cancel(all.muster, own[i]), "muster_call_cancel");
    bench_ok(muster_object_drop(all.muster, own, OWN), "muster_object_drop");
}

static void job_begin(const char *tag)
{
    struct muster_function_text text = {.name = "f", .kind = MUSTER_FUNCTION_OWN, .num_results = 1};

    bench_job_init(&all.job, tag, NUM_TASKS);
    all.muster = bench_job_join(&all.job, 0, MUSTER_JOIN_RECOVERABLE);
    bench_ok(muster_function_export(all.muster, &text, &all.function), "muster_function_export");
}

static void timed_rows(void)
{
    pid_t pids[WORKERS], getter;

    bench_job_init(&all.job, "call", NUM_TASKS);
    getter = bench_fork(120);
    if (!getter)
        be_getter();
    job_begin("call");
    row_seal();
    atomic_store(&all.handoff->object, 2);
    bench_reap(getter, "the getter");
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = bench_fork(120);
        if (!pids[i])
            be_worker(i + 1);
        if (!i)
            row_one();
    }
    row_many();
    for (int i = 0; i < WORKERS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    bench_ok(muster_leave(all.muster), "muster_leave");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        bench_die("usage: call SECONDS");
    all.seconds = bench_number(argv[1], 0.001, 60);
    all.tick_ns = bench_tick_ns();
    all.handoff = bench_shared(sizeof(*all.handoff));
    bench_cpus_read(&all.cpus);
    alarm(120);
    bench_pin(&all.cpus, 0);
    job_begin("memory");
    row_memory();
    bench_ok(muster_leave(all.muster), "muster_leave");
    job_begin("calls");
    row_memory_of_calls();
    bench_ok(muster_leave(all.muster), "muster_leave");
    timed_rows();
    return 0;
}
