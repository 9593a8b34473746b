/*
 * tests/bridge/fresh_test.c: with fresh reads (muster_kv_sync() before each) the keys of a job of three hosts are
 * linearizable, whatever connections break, agents die and callers are killed.
 *
 * Time goes in windows, as in tests/lin: five workers on three hosts do random operations on three keys and write calls
 * and answers to a log that survives them; meanwhile connections are cut and agents and workers killed. At the window's
 * end everything is mended, no call is open any more, and each key's history is judged by tests/lin's checker.
 */
#include "cm.h"
#include "child.h"
#include "history.h"
#include "hosts.h"
#include "perform.h"

#include <muster/muster.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { WORKERS = 5, KEYS = 3, PER_WINDOW = 24, WINDOWS = 120, MOST = 4000000 };

struct shared {
    _Atomic uint32_t window, stop;
    _Atomic uint32_t done[WORKERS];
    struct entry log[WORKERS][PER_WINDOW];
};
static struct shared *shared;
static const uint32_t host_of[WORKERS] = {0, 1, 1, 2, 2};

static const char *const key_names[KEYS] = {"k0", "k1", "k2"};

/* ---- workers ---- */

static void one_entry(struct muster *m, struct test_random *r, int self, int n, uint64_t versions[KEYS],
                      uint32_t lens[KEYS])
{
    struct entry *e = &shared->log[self][n];
    struct op o;

    e->key = (uint32_t)test_below(r, KEYS);
    choose(r, &o, self, n, versions[e->key], lens[e->key]);
    entry_call(e, &o);
    o.status = perform(m, key_names[e->key], &o, get_fresh);
    o.returned = muster_now_ns();
    entry_return(e, &o);
    remember(&o, &versions[e->key], &lens[e->key]);
}

struct place {
    int self;
    uint32_t window;
    uint64_t seed;
};

static int work(struct muster *m, void *arg)
{
    struct place p = *(struct place *)arg;
    struct test_random r = {p.seed};
    uint64_t versions[KEYS] = {0};
    uint32_t lens[KEYS] = {0};

    for (;;) {
        while (atomic_load(&shared->window) == p.window) {
            if (atomic_load(&shared->stop))
                return 0;
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); /* sleep: between looks for the next window */
        }
        p.window = atomic_load(&shared->window);
        for (int n = 0; n < PER_WINDOW; n++)
            one_entry(m, &r, p.self, n, versions, lens);
        atomic_store(&shared->done[p.self], p.window);
    }
}

/* ---- the director ---- */

struct director {
    struct hosts *h;
    struct muster *at[3]; /* on each host */
    struct test_random random;
    pid_t workers[WORKERS];
    struct reg states[KEYS];
    uint64_t operations, cut_off, kills, faults, steps;
    struct mu_ctx *ctx;
    int open;
};

static void start(struct director *d, int w)
{
    struct place p = {w, atomic_load(&shared->window), test_random(&d->random)};

    d->workers[w] = hosts_visitor(d->h, host_of[w], work, &p);
}

static bool window_is_done(struct director *d)
{
    for (int w = 0; w < WORKERS; w++)
        if (d->workers[w] && atomic_load(&shared->done[w]) != atomic_load(&shared->window))
            return false;
    return true;
}

static void count_open(void *arg, uint32_t slot)
{
    struct director *d = arg;
    struct mu_request r;

    assert_ok(mu_remote_read(d->ctx, slot, &r));
    d->open += r.op != MU_OP_NONE;
    mu_request_done(&r);
}

/* A killed worker's call has been taken back, or was answered. */
static bool no_call_is_open(struct director *d)
{
    d->open = 0;
    for (int i = 1; i < 3; i++) {
        assert_ok(mu_enter(d->at[i], &d->ctx));
        mu_remote_collect_all(d->at[i]->seg, count_open, d);
        mu_exit(d->ctx);
    }
    return !d->open;
}

static void break_something(struct director *d)
{
    uint32_t follower = 1 + (uint32_t)test_below(&d->random, 2), any = (uint32_t)test_below(&d->random, 3);

    d->faults++;
    switch (test_below(&d->random, 4)) {
    case 0: hosts_cut_after(d->h, follower, (uint32_t)test_below(&d->random, 60)); break;
    case 1: hosts_kill_after(d->h, any, (uint32_t)test_below(&d->random, 200)); break;
    case 2: hosts_kill(d->h, any); break;
    default: hosts_cut(d->h, follower);
    }
}

static void kill_one(struct director *d)
{
    int w = (int)test_below(&d->random, WORKERS);

    if (!d->workers[w])
        return;
    kill(d->workers[w], SIGKILL);
    assert_int_equal(test_reap(d->workers[w]), 1000 + SIGKILL);
    d->workers[w] = 0;
    d->kills++;
}

static bool has_entries(void)
{
    for (int w = 0; w < WORKERS; w++)
        if (atomic_load(&shared->log[w][PER_WINDOW / 3].state))
            return true;
    return false;
}

static void run_window(struct director *d)
{
    for (int w = 0; w < WORKERS; w++) {
        if (!d->workers[w])
            start(d, w);
        for (int n = 0; n < PER_WINDOW; n++)
            atomic_store(&shared->log[w][n].state, 0);
    }
    atomic_fetch_add(&shared->window, 1);
    break_something(d);
    hosts_mend(d->h);
    hosts_await(d->h, has_entries(), "the window has entries");
    break_something(d);
    if (test_below(&d->random, 2))
        kill_one(d);
    hosts_mend(d->h);
    break_something(d);
    hosts_mend(d->h);
    hosts_await(d->h, window_is_done(d), "the window is done");
    hosts_await(d->h, no_call_is_open(d), "no call is open");
    for (int i = 0; i < 3; i++) /* whatever was sent before this has been carried out, or never will be */
        assert_ok(muster_kv_sync(d->at[i], MUSTER_FOREVER));
}

/* One key's window, with the director's own fresh reads at its end; the last of them is where the next one starts. */
static void check(struct director *d, uint32_t key)
{
    static struct op ops[OPS_MAX];
    struct reg *start_state = &d->states[key];
    uint64_t steps;
    size_t count = 0;
    enum verdict v;

    for (int w = 0; w < WORKERS; w++)
        count += entries_of(shared->log[w], PER_WINDOW, key, ops + count, &d->cut_off);
    d->operations += count;
    for (int i = 2; i >= 0; i--) {
        struct op *o = &ops[count++];

        *o = (struct op){.kind = OP_GET, .called = muster_now_ns()};
        o->status = get_fresh(d->at[i], key_names[key], o);
        o->returned = muster_now_ns();
    }
    v = history_check(start_state, ops, count, MOST, &steps);
    d->steps += steps;
    if (v != LINEARIZABLE) {
        printf("window %u, key %s, from '%.*s' version %d:\n", atomic_load(&shared->window), key_names[key],
               (int)start_state->len, start_state->bytes, (int)start_state->version);
        history_print(ops, count);
        fail_msg("%s", v == UNDECIDED ? "the search was given up" : "no order explains these operations");
    }
    history_go_on(start_state, ops, count);
}

TEST(fresh_reads_make_all_hosts_linearizable)
{
    struct muster_segment_config c = {.num_buckets = 2};
    struct director d = {
        .h = hosts_open(&(struct hosts_config){.tasks = {1, 1, 1}, .timeout_ns = 600000000000u, .segment = c}),
        .random = {test_seed()}};

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (uint32_t i = 0; i < 3; i++)
        d.at[i] = hosts_observer(d.h, i);
    for (int n = 0; n < WINDOWS; n++) {
        run_window(&d);
        for (uint32_t k = 0; k < KEYS; k++)
            check(&d, k);
    }
    atomic_store(&shared->stop, 1);
    for (int w = 0; w < WORKERS; w++)
        if (d.workers[w])
            assert_int_equal(hosts_reap(d.h, d.workers[w]), 0);
    print_message("%d windows, %d operations, %d faults, %d workers killed, %d operations cut off by it; %d "
                  "configurations searched\n",
                  WINDOWS, (int)d.operations, (int)d.faults, (int)d.kills, (int)d.cut_off, (int)d.steps);
    assert_true(d.kills > 0);
    for (int i = 0; i < 3; i++)
        assert_ok(muster_leave(d.at[i]));
    munmap(shared, sizeof *shared);
    assert_int_equal(hosts_close(d.h), 0);
}
