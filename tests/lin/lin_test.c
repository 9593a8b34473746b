/*
 * tests/lin/lin_test.c: lin_test [--seconds N] [--seed S]: histories of the key-value store by real processes, some of
 * them killed in mid-operation, each checked for linearizability key by key.
 *
 * Time goes in windows. In each, four workers do random operations on three keys, all in a bucket or two, and write
 * calls and answers to a log in shared memory, which survives them. The director kills some, waits until nobody is at
 * it, scavenges, reads every key, and checks each key's window; what it read is where the next one starts. A killed
 * operation has happened before that reading or never will.
 *
 * It fails, too, when a worker dies of anything but the director's own kill, when a search is given up, and when it has
 * recorded no operations that overlap or none that were cut off.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <muster/muster.h>

#include "history.h"
#include "perform.h"

enum { WORKERS = 4, KEYS = 3, PER_WINDOW = 60, MOST = 4000000 };

struct shared {
    _Atomic uint32_t window; /* moves: go */
    _Atomic uint32_t stop;
    _Atomic uint32_t done[WORKERS];
    struct entry log[WORKERS][PER_WINDOW];
};

static struct shared *shared;
static pid_t workers[WORKERS];
static char job[48];
static struct test_random randoms;
static struct {
    uint64_t windows, operations, overlapped, killed, kills, undecided, steps;
} total;

static uint64_t draw(uint64_t below)
{
    return test_below(&randoms, below);
}

static void short_pause(long ns)
{
    struct timespec t = {.tv_nsec = ns};

    nanosleep(&t, NULL); /* sleep: between two looks at a state */
}

static struct muster *join(int32_t task)
{
    struct muster_segment_config c = {.num_tasks = WORKERS, .num_buckets = 2, .heap_bytes = 16u << 20};
    struct muster_options o;
    struct muster *m;

    muster_options_init(&o);
    o.job = job;
    o.config = &c;
    o.task_id = task;
    o.flags = task < 0 ? MUSTER_JOIN_OBSERVER : MUSTER_JOIN_RECOVERABLE | MUSTER_JOIN_NO_HEARTBEAT;
    o.deadline = muster_after_ns(60000000000u);
    if (muster_join(&o, &m) != MUSTER_OK) {
        fprintf(stderr, "lin: task %d cannot join: %s\n", (int)task, muster_last_error());
        _exit(4);
    }
    return m;
}

static void key_of(uint32_t key, char name[8])
{
    snprintf(name, 8, "k%u", key);
}

_Noreturn static void work(int self, uint64_t seed, uint32_t window)
{
    uint64_t versions[KEYS] = {0};
    uint32_t lens[KEYS] = {0};
    struct muster *m = join(self);

    randoms.state = seed;
    for (;;) {
        while (atomic_load(&shared->window) == window) {
            if (atomic_load(&shared->stop))
                _exit(muster_leave(m) ? 5 : 0);
            sched_yield();
        }
        window = atomic_load(&shared->window);
        for (int n = 0; n < PER_WINDOW; n++) {
            struct entry *e = &shared->log[self][n];
            struct op o;
            char name[8];

            e->key = (uint32_t)draw(KEYS);
            key_of(e->key, name);
            choose(&randoms, &o, self, n, versions[e->key], lens[e->key]);
            if (draw(40) == 0)
                sched_yield();
            entry_call(e, &o);
            o.status = perform(m, name, &o, get_here);
            o.returned = muster_now_ns();
            entry_return(e, &o);
            remember(&o, &versions[e->key], &lens[e->key]);
        }
        atomic_store(&shared->done[self], window);
    }
}

static void start(int w)
{
    pid_t director = getpid();
    uint64_t seed = draw(UINT64_MAX);
    uint32_t window = atomic_load(&shared->window);

    fflush(NULL);
    workers[w] = fork();
    if (!workers[w]) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != director)
            _exit(3);
        work(w, seed, window);
    }
}

/* How a worker ended, for people. */
static void say_end(int w, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        fprintf(stderr, "lin: worker %d died of a SIGKILL that this test did not send (out of memory?)\n", w);
    else if (WIFSIGNALED(status))
        fprintf(stderr, "lin: worker %d died of signal %d (%s)\n", w, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "lin: worker %d ended by itself with exit status %d\n", w, WEXITSTATUS(status));
}

/* False, with words: it has ended, though nobody told it to. */
static bool lives(int w)
{
    int status;

    if (waitpid(workers[w], &status, WNOHANG) != workers[w])
        return true;
    workers[w] = 0;
    say_end(w, status);
    return false;
}

/* SIGKILL, reaped. False: it had ended before, by itself or by somebody else. */
static bool kill_one(int w)
{
    int status = 0;

    if (!lives(w))
        return false;
    kill(workers[w], SIGKILL);
    total.kills++;
    waitpid(workers[w], &status, 0);
    workers[w] = 0;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    say_end(w, status);
    return false;
}

/* All who live have finished the window. False: somebody ended, or does not end its window at all. */
static bool finish(uint32_t window)
{
    uint64_t end = muster_after_ns(60000000000u);

    for (int w = 0; w < WORKERS; w++)
        while (workers[w] && atomic_load(&shared->done[w]) != window) {
            if (!lives(w))
                return false;
            if (muster_now_ns() > end) {
                fprintf(stderr, "lin: worker %d does not end its window\n", w);
                return false;
            }
            short_pause(20000);
        }
    return true;
}

/* One key's window, with the director's reading at its end, which becomes the next start. */
static bool check(struct muster *m, uint32_t key, struct reg *start_state)
{
    static struct op ops[OPS_MAX];
    size_t count = 0;
    uint64_t steps;
    char name[8];
    struct op *last;
    enum verdict v;

    for (int w = 0; w < WORKERS; w++)
        count += entries_of(shared->log[w], PER_WINDOW, key, ops + count, &total.killed);
    total.operations += count;
    total.overlapped += count_overlapped(ops, count);
    key_of(key, name);
    last = &ops[count++];
    *last = (struct op){.kind = OP_GET, .called = muster_now_ns()};
    last->status = get_here(m, name, last);
    last->returned = muster_now_ns();
    v = history_check(start_state, ops, count, MOST, &steps);
    total.steps += steps;
    total.undecided += v == UNDECIDED;
    if (v != LINEARIZABLE) {
        printf("lin: window %" PRIu64 ", key %s: %s these %zu operations, from '%.*s' version %" PRIu64 "\n",
               total.windows, name, v == UNDECIDED ? "the search was given up for" : "no order explains", count,
               (int)start_state->len, start_state->bytes, start_state->version);
        history_print(ops, count);
        return false;
    }
    history_go_on(start_state, ops, count);
    return true;
}

static bool one_window(struct muster *m, struct reg states[KEYS])
{
    uint32_t window;
    int victim = draw(3) ? -1 : (int)draw(WORKERS);
    volatile uint64_t dawdle = draw(60000);

    for (int w = 0; w < WORKERS; w++) {
        if (!workers[w])
            start(w);
        for (int n = 0; n < PER_WINDOW; n++)
            atomic_store(&shared->log[w][n].state, 0);
    }
    window = atomic_fetch_add(&shared->window, 1) + 1;
    if (victim >= 0) {
        while (dawdle)
            dawdle--;
        if (!kill_one(victim))
            return false;
    }
    if (!finish(window))
        return false;
    if (muster_scavenge(m, NULL) != MUSTER_OK)
        return false;
    for (uint32_t k = 0; k < KEYS; k++)
        if (!check(m, k, &states[k]))
            return false;
    total.windows++;
    return true;
}

static void print_problem(void *arg, const char *sentence)
{
    (void)arg;
    fprintf(stderr, "lin: audit: %s\n", sentence);
}

static bool end_all(struct muster *m, bool ok)
{
    struct muster_audit audit;

    atomic_store(&shared->stop, 1);
    for (int w = 0; w < WORKERS; w++) {
        int status = 0;

        if (!workers[w])
            continue;
        if (!ok)
            kill(workers[w], SIGKILL);
        waitpid(workers[w], &status, 0);
        if (ok && status)
            say_end(w, status);
        ok = ok && status == 0;
    }
    muster_scavenge(m, NULL);
    ok = muster_segment_check(muster_segment_of(m), print_problem, NULL, &audit) == MUSTER_OK && !audit.problems && ok;
    return muster_leave(m) == MUSTER_OK && ok;
}

/* A run in which nothing met, or nobody was killed in the midst of anything, has shown nothing. */
static bool is_enough(void)
{
    return total.windows && total.overlapped && total.killed;
}

int main(int argc, char **argv)
{
    const char *variant = getenv("VARIANT");
    uint64_t seconds = variant && !strncmp(variant, "asan", 4) ? 3 : 6; /* the release build records the most */
    uint64_t seed = muster_now_ns() ^ (uint64_t)getpid() << 32, end, last;
    struct reg states[KEYS] = {{0}};
    struct muster *m;
    bool ok = true;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seconds"))
            seconds = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
    }
    printf("lin: %" PRIu64 " seconds, --seed %" PRIu64 "\n", seconds, seed);
    randoms.state = seed;
    snprintf(job, sizeof job, "lin-%d", (int)getpid());
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    m = join(-1);
    end = muster_after_ns(seconds * 1000000000u);
    last = end + 60000000000u; /* a machine that is busy with other things gets the time that it needs */
    while (ok && (muster_now_ns() < end || (!is_enough() && muster_now_ns() < last)))
        ok = one_window(m, states);
    ok = end_all(m, ok);
    if (ok && !is_enough()) {
        printf("lin: recorded nothing worth checking: some of the numbers below are 0\n");
        ok = false;
    }
    printf("%" PRIu64 " windows, %" PRIu64 " operations, %" PRIu64 " of them overlapping, %" PRIu64 " kills, %" PRIu64
           " operations cut off by them; %" PRIu64 " configurations searched, %" PRIu64 " key windows undecided: %s\n",
           total.windows, total.operations, total.overlapped, total.kills, total.killed, total.steps, total.undecided,
           ok ? "linearizable" : "FAILED");
    return ok ? 0 : 1;
}
