/*
 * bench/wait.c: a get that waits: from just before the set to the reader's return, beside what the hardware allows.
 *
 * Two processes on two processors. In turn, so that all see the same machine:
 *   wait.spin    line     the reader spins on a plain word; the setter stores into it
 *   wait.spin    muster   the reader is in muster_kv_get() of an absent key since half a microsecond; muster_kv_set()
 *   wait.parked  futex    the reader sleeps in FUTEX_WAIT since 300 us; the setter stores and calls FUTEX_WAKE
 *   wait.parked  muster   the reader is in muster_kv_get() since 300 us, so asleep; muster_kv_set()
 * Both ends read the same TSC (or CLOCK_MONOTONIC); its offset between the processors is below the one-way line.
 *
 * Usage: wait ROUNDS
 */
#include "job.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>

enum row { SPIN_LINE, SPIN_MUSTER, PARKED_FUTEX, PARKED_MUSTER, NUM_ROWS };

static const struct {
    const char *metric, *who;
    uint64_t delay_ns;
} rows[NUM_ROWS] = {
    [SPIN_LINE] = {"wait.spin", "line", 500},
    [SPIN_MUSTER] = {"wait.spin", "muster", 500},
    [PARKED_FUTEX] = {"wait.parked", "futex", 300000},
    [PARKED_MUSTER] = {"wait.parked", "muster", 300000},
};

struct handoff {
    _Alignas(BENCH_LINE) _Atomic uint64_t ready;    /* reader: about to wait for the nth time */
    _Alignas(BENCH_LINE) _Atomic uint32_t word;     /* setter: the raw rows' word */
    _Alignas(BENCH_LINE) _Atomic uint64_t returned; /* reader: n times back, `at` is set */
    uint64_t at;
};

static void wait_once(struct muster *muster, struct handoff *handoff, enum row row, uint32_t round)
{
    char value[8];
    size_t len;

    switch (row) {
    case SPIN_LINE:
        while (atomic_load_explicit(&handoff->word, memory_order_acquire) != round)
            bench_pause();
        break;
    case PARKED_FUTEX:
        for (uint32_t now; (now = atomic_load_explicit(&handoff->word, memory_order_acquire)) != round;)
            syscall(SYS_futex, &handoff->word, FUTEX_WAIT, now, NULL, NULL, 0);
        break;
    default:
        if (muster_kv_get(muster, "wait", 4, MUSTER_FOREVER, value, sizeof(value), &len, NULL))
            bench_die("muster_kv_get: %s", muster_last_error());
    }
}

static void reader(struct muster *muster, struct handoff *handoff, uint32_t rounds)
{
    for (uint32_t round = 1; round <= rounds; round++) {
        atomic_store(&handoff->ready, round);
        wait_once(muster, handoff, round % NUM_ROWS, round);
        handoff->at = bench_ticks();
        atomic_store(&handoff->returned, round);
        /* The key must be gone before the next wait for it. */
        while (atomic_load(&handoff->ready) == round)
            bench_pause();
    }
}

static uint64_t release_once(struct muster *muster, struct handoff *handoff, enum row row, uint32_t round)
{
    uint64_t start = bench_ticks();

    switch (row) {
    case SPIN_LINE: atomic_store_explicit(&handoff->word, round, memory_order_release); break;
    case PARKED_FUTEX:
        atomic_store_explicit(&handoff->word, round, memory_order_release);
        syscall(SYS_futex, &handoff->word, FUTEX_WAKE, 1, NULL, NULL, 0);
        break;
    default:
        if (muster_kv_set(muster, "wait", 4, "x", 1, NULL))
            bench_die("muster_kv_set: %s", muster_last_error());
    }
    return start;
}

static void setter(struct muster *muster, struct handoff *handoff, struct bench_samples *samples, uint32_t rounds)
{
    for (uint32_t round = 1; round <= rounds; round++) {
        enum row row = round % NUM_ROWS;
        uint64_t start;
        while (atomic_load(&handoff->ready) != round)
            bench_pause();
        bench_spin_ns(rows[row].delay_ns);
        start = release_once(muster, handoff, row, round);
        while (atomic_load(&handoff->returned) != round)
            bench_pause();
        bench_add(&samples[row], handoff->at - start);
        if (row == SPIN_MUSTER || row == PARKED_MUSTER)
            bench_ok(muster_kv_delete(muster, "wait", 4, NULL), "muster_kv_delete");
        atomic_store(&handoff->ready, 0);
    }
}

int main(int argc, char **argv)
{
    struct handoff *handoff = bench_shared(sizeof(*handoff));
    struct bench_samples samples[NUM_ROWS];
    struct bench_cpus cpus;
    struct bench_job job;
    struct muster *muster;
    uint32_t rounds;
    double tick_ns;
    pid_t child;

    if (argc != 2)
        bench_die("usage: wait ROUNDS");
    rounds = (uint32_t)bench_number(argv[1], 1, 1e6) * NUM_ROWS;
    alarm(120);
    bench_cpus_read(&cpus);
    if (cpus.count < 2)
        bench_die("needs two processors, may use %d", cpus.count);
    tick_ns = bench_tick_ns();
    bench_job_init(&job, "wait", 2);
    child = bench_fork(120);
    muster = bench_job_join(&job, child == 0, 0);
    bench_pin(&cpus, child == 0);
    if (child == 0) {
        reader(muster, handoff, rounds);
    } else {
        for (int row = 0; row < NUM_ROWS; row++)
            bench_samples_init(&samples[row], rounds / NUM_ROWS);
        setter(muster, handoff, samples, rounds);
        for (int row = 0; row < NUM_ROWS; row++)
            bench_emit(rows[row].metric, rows[row].who, &samples[row], tick_ns, 1, 1);
    }
    bench_ok(muster_leave(muster), "muster_leave");
    if (child)
        bench_reap(child, "the reader");
    return 0;
}
