/*
 * tests/lin/across_main.c: histories of the keys of a real job of several hosts: real agents, over sockets.
 *
 *   across work FILE                          a task of the job: worker.c
 *   across direct FILE JOB HOSTS WORKERS      opens windows, kills workers, and judges, until its input ends
 *
 * Time goes in windows, as in lin_test.c. In each, all workers do operations on three keys; one or the other is killed
 * in the midst of them. What else happens to the job, to its agents and its connections, is the caller's
 * (across_test.py), at any time. At the window's end no call is open any more on any host; the director reads every key
 * on every host afresh, and each key's history must be linearizable. At the end reads are made to lie, until both
 * judges have noticed.
 */
#include "across.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "segment/remote.h"

enum { MOST = 4000000, LIES_MOST = 200, WINDOWS_MOST = 400 };

static struct {
    struct board *board;
    uint32_t hosts, workers;
    struct muster *at[HOSTS_MOST];
    struct reg states[KEYS];
    struct test_random random;
    uint64_t operations, overlapping, kills, cut_off, steps, swapped;
} d;

__attribute__((format(printf, 1, 2))) _Noreturn static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("across: FAILED: ");
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    exit(1);
}

static void must(const char *what, enum muster_status status)
{
    if (status)
        fail("%s: %s: %s", what, muster_status_name(status), muster_last_error());
}

static void between_looks(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL); /* sleep: between two looks at a state */
    for (uint32_t w = 0; w < d.workers; w++)
        if (atomic_load(&d.board->workers[w].faulty))
            fail("worker %u: %s", w, d.board->workers[w].fault);
}

/* ---- a window ---- */

static void kill_one(uint32_t w)
{
    struct worker *worker = &d.board->workers[w];
    int32_t pid = atomic_load(&worker->pid);

    if (!pid || kill(pid, SIGKILL))
        fail("worker %u ended by itself", w);
    while (atomic_load(&worker->pid))
        between_looks();
    atomic_store(&worker->done, atomic_load(&d.board->window));
    atomic_fetch_add(&worker->lives, 1);
    d.kills++;
}

static bool has_begun(uint32_t w)
{
    return atomic_load(&d.board->workers[w].log[test_below(&d.random, PER_WINDOW)].state) != 0;
}

struct calls {
    uint32_t host, open;
};

static void count_open(void *arg, uint32_t slot)
{
    struct calls *calls = arg;
    struct mu_request r;
    struct mu_ctx *ctx;

    must("a look at a call", mu_enter(d.at[calls->host], &ctx));
    must("a look at a call", mu_remote_read(ctx, slot, &r));
    mu_exit(ctx);
    calls->open += r.op != MU_OP_NONE;
    mu_request_done(&r);
}

/* A killed worker's call has been taken back, or was answered. */
static bool is_call_open(uint32_t host)
{
    struct calls calls = {.host = host};

    mu_remote_collect_all(d.at[host]->seg, count_open, &calls);
    return calls.open > 0;
}

static void run_window(void)
{
    uint32_t victim = (uint32_t)test_below(&d.random, 2 * d.workers);

    for (uint32_t w = 0; w < d.workers; w++)
        for (int n = 0; n < PER_WINDOW; n++)
            atomic_store(&d.board->workers[w].log[n].state, 0);
    atomic_fetch_add(&d.board->window, 1);
    if (victim < d.workers) {
        while (!has_begun(victim))
            between_looks();
        kill_one(victim);
    }
    for (uint32_t w = 0; w < d.workers; w++)
        while (atomic_load(&d.board->workers[w].done) != atomic_load(&d.board->window))
            between_looks();
    for (uint32_t host = 1; host < d.hosts; host++)
        while (is_call_open(host))
            between_looks();
    for (uint32_t host = 0; host < d.hosts; host++) /* what was sent before has been carried out, or never will be */
        must("a director's call", muster_kv_sync(d.at[host], MUSTER_FOREVER));
}

/* ---- the judge ---- */

static size_t collect(uint32_t key, struct op *ops)
{
    size_t count = 0;

    for (uint32_t w = 0; w < d.workers; w++)
        count += entries_of(d.board->workers[w].log, PER_WINDOW, key, ops + count, &d.cut_off);
    d.operations += count;
    d.overlapping += count_overlapped(ops, count);
    for (uint32_t host = d.hosts; host-- > 0;) {
        struct op *o = &ops[count++];

        *o = (struct op){.kind = OP_GET, .called = muster_now_ns()};
        o->status = get_fresh(d.at[host], across_keys[key], o);
        o->returned = muster_now_ns();
    }
    return count;
}

static void swap_answers(struct op *a, struct op *b)
{
    struct op old = *a;

    a->version = b->version;
    a->found_len = b->found_len;
    memcpy(a->found, b->found, sizeof a->found);
    b->version = old.version;
    b->found_len = old.found_len;
    memcpy(b->found, old.found, sizeof b->found);
}

/* Two reads, one after the other, get each other's answers, so that the version goes back: it must be noticed. */
static void swap_and_judge(const struct reg *start, struct op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            if (ops[i].kind != OP_GET || ops[i].status || ops[k].kind != OP_GET || ops[k].status ||
                ops[i].returned >= ops[k].called || ops[i].version == ops[k].version || ops[k].returned == UINT64_MAX)
                continue;
            swap_answers(&ops[i], &ops[k]);
            if (history_check(start, ops, count, MOST, NULL) == LINEARIZABLE) {
                history_print(ops, count);
                fail("two answers of this were swapped, and nothing was noticed");
            }
            swap_answers(&ops[i], &ops[k]);
            d.swapped++;
            return;
        }
}

/* False: a read that had been told to lie was noticed. */
static bool is_linearizable(uint32_t key)
{
    static struct op ops[OPS_MAX];
    struct reg *start = &d.states[key];
    size_t count = collect(key, ops);
    uint64_t steps;
    enum verdict v = history_check(start, ops, count, MOST, &steps);

    d.steps += steps;
    if (v != LINEARIZABLE && atomic_load(&d.board->lies)) {
        history_go_on(start, ops, count);
        return false;
    }
    if (v != LINEARIZABLE) {
        printf("window %u, key %s, from '%.*s' version %" PRIu64 ":\n", atomic_load(&d.board->window), across_keys[key],
               (int)start->len, start->bytes, start->version);
        history_print(ops, count);
        fail("%s", v == UNDECIDED ? "the search was given up" : "no order explains these operations");
    }
    swap_and_judge(start, ops, count);
    history_go_on(start, ops, count);
    return true;
}

static bool one_window(void)
{
    bool sound = true;

    run_window();
    for (uint32_t key = 0; key < KEYS; key++)
        sound = is_linearizable(key) && sound;
    printf("window %u\n", atomic_load(&d.board->window));
    fflush(stdout);
    return sound;
}

/* ---- from the beginning to the end ---- */

static bool input_has_ended(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char bytes[16];

    return poll(&input, 1, 0) > 0 && read(0, bytes, sizeof bytes) == 0;
}

static void join_all(const char *job)
{
    for (uint32_t host = 0; host < d.hosts; host++) {
        struct muster_options o;
        enum muster_status status;
        char name[80];

        snprintf(name, sizeof name, host ? "%s.h%u" : "%s", job, host);
        muster_options_init(&o);
        o.job = name;
        o.flags = MUSTER_JOIN_OBSERVER | MUSTER_JOIN_NO_CREATE;
        while ((status = muster_join(&o, &d.at[host])) == MUSTER_NOT_FOUND)
            between_looks();
        must("it cannot join", status);
    }
}

static void say_problem(void *arg, const char *sentence)
{
    (void)arg;
    printf("across: audit: %s\n", sentence);
}

static void end_all(void)
{
    for (uint32_t host = 0; host < d.hosts; host++) {
        struct muster_audit audit;

        must("an audit", muster_segment_check(muster_segment_of(d.at[host]), say_problem, NULL, &audit));
        if (audit.problems)
            fail("host %u's segment is not sound", host);
        must("it cannot leave", muster_leave(d.at[host]));
    }
    atomic_store(&d.board->stop, 1);
}

/* It was worth judging. */
static bool has_seen_enough(void)
{
    return d.overlapping && d.cut_off && d.swapped && atomic_load(&d.board->learned);
}

static int direct(const char *job)
{
    uint32_t lies = 0, noticed = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    d.random.state = test_seed();
    if (!board_direct(d.board))
        fail("its file cannot be locked");
    join_all(job);
    while (!input_has_ended() || (!has_seen_enough() && atomic_load(&d.board->window) < WINDOWS_MOST))
        one_window();
    printf("%u windows, %" PRIu64 " operations, %" PRIu64 " of them overlapping, %" PRIu64 " workers killed, %" PRIu64
           " operations cut off by it: linearizable, %" PRIu64
           " configurations searched; swapped answers noticed %" PRIu64 " times\n",
           atomic_load(&d.board->window), d.operations, d.overlapping, d.kills, d.cut_off, d.steps, d.swapped);
    printf("%" PRIu64 " local reads, %" PRIu64 " of them taught of writes of other keys, %" PRIu64 " writes, %" PRIu64
           " events: causal\n",
           atomic_load(&d.board->reads), atomic_load(&d.board->learned), atomic_load(&d.board->writes),
           atomic_load(&d.board->events));
    if (!has_seen_enough())
        fail("it has seen nothing worth judging: some of these are 0");
    atomic_store(&d.board->lies, 1);
    while ((!noticed || !atomic_load(&d.board->caught)) && lies++ < LIES_MOST)
        noticed += !one_window();
    if (lies > LIES_MOST)
        fail("reads lie, and that is not noticed: %u histories, %" PRIu64 " local reads", noticed,
             atomic_load(&d.board->caught));
    printf("reads that lie were noticed: in histories %u times, in local reads %" PRIu64 " times\n", noticed,
           atomic_load(&d.board->caught));
    end_all();
    return 0;
}

int main(int argc, char **argv)
{
    struct board *board = argc > 2 ? board_open(argv[2]) : NULL;

    if (board && argc == 3 && !strcmp(argv[1], "work"))
        return across_work(board);
    if (!board || argc != 6 || strcmp(argv[1], "direct")) {
        fprintf(stderr, "across work FILE | across direct FILE JOB HOSTS WORKERS\n");
        return 2;
    }
    d.board = board;
    d.hosts = (uint32_t)strtoul(argv[4], NULL, 10);
    d.workers = (uint32_t)strtoul(argv[5], NULL, 10);
    if (d.hosts < 1 || d.hosts > HOSTS_MOST || d.workers < 1 || d.workers > WORKERS_MOST)
        return 2;
    return direct(argv[3]);
}
