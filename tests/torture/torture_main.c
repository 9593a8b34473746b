/*
 * tests/torture/torture_main.c: torture [--seconds N] [--seed S]: eight tasks under mixed load that are killed, stopped
 * and started again at random, with an agent that is killed too; then the account.
 *
 * The director never touches the segment while it runs, except to audit it read-only: so nothing but the victims and
 * the next ones repair what the dead leave. At the end everybody leaves, and it must be so that: all waits had ended;
 * the audit finds nothing; counters, logs and values are right; nothing is left in /dev/shm. Exit 1 otherwise.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "torture.h"

#define STUCK_NS 60000000000u

enum { AGENT = WORKERS, VICTIMS = WORKERS + 1 };

static struct {
    pid_t pid;
    uint64_t stopped_until; /* 0: runs */
} victims[VICTIMS];

static struct {
    uint64_t seed, kills, agent_kills, stops, starts, audits;
} total;

static void start(int v)
{
    uint64_t seed = draw(UINT64_MAX);
    pid_t director = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        violation("fork: %s", strerror(errno));
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != director)
            _exit(3);
        if (v == AGENT)
            agent_run();
        worker_run(v, seed);
    }
    victims[v].pid = pid;
    victims[v].stopped_until = 0;
    total.starts++;
    if (v < WORKERS)
        atomic_store(&board->workers[v].busy_since, muster_now_ns());
}

static void kill_victim(int v)
{
    kill(victims[v].pid, SIGKILL);
    total.kills++;
    total.agent_kills += v == AGENT;
}

/* Collect the dead; start new ones unless it is the end. False: a victim says that a rule is broken. */
static bool collect(bool again)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int v = 0; v < VICTIMS; v++)
            if (victims[v].pid == pid) {
                victims[v].pid = 0;
                if (WIFEXITED(status) ? WEXITSTATUS(status) != 0 : WTERMSIG(status) != SIGKILL) {
                    fprintf(stderr, "torture: victim %d ended with %s %d\n", v, WIFEXITED(status) ? "status" : "signal",
                            WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
                    return false;
                }
                /* a death of its own choice may cut off an operation of its other thread's, like a kill */
                total.kills += again && WIFEXITED(status);
                if (again)
                    start(v);
            }
    return !atomic_load(&board->violated);
}

static void print_problem(void *arg, const char *sentence)
{
    fprintf(stderr, "torture: audit%s: %s\n", (const char *)arg, sentence);
}

static bool audit(const char *when, struct muster_audit *a)
{
    struct muster_segment *seg;
    bool ok = false;

    total.audits++;
    if (muster_segment_open(job, &seg) != MUSTER_OK || muster_segment_check(seg, print_problem, (void *)when, a))
        fprintf(stderr, "torture: audit%s: %s\n", when, muster_last_error());
    else
        ok = a->problems == 0;
    muster_segment_close(seg);
    return ok;
}

/* Half of the time a storm; else, so that all eight can meet at all, only a shot now and then. */
static void torment(uint64_t now)
{
    static bool was_storm;
    int v = (int)draw(VICTIMS);
    bool storm = now / 100000000 % 7 < 3, calms = was_storm && !storm;

    for (int i = 0; i < VICTIMS; i++)
        if (victims[i].pid && victims[i].stopped_until && (calms || victims[i].stopped_until <= now)) {
            kill(victims[i].pid, SIGCONT);
            victims[i].stopped_until = 0;
            if (i < WORKERS)
                atomic_store(&board->workers[i].busy_since, now);
        }
    if (calms)
        atomic_fetch_add(&board->group_call, 1);
    was_storm = storm;
    if (!victims[v].pid || (!storm && draw(25)))
        return;
    switch (draw(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: kill_victim(v); break;
    case 5: /* several at once, the agent among them */
        for (int i = 0; i < VICTIMS; i++)
            if (victims[i].pid && (i == AGENT || draw(2)))
                kill_victim(i);
        break;
    case 6:
    case 7:
        if (!victims[v].stopped_until) {
            kill(victims[v].pid, SIGSTOP);
            victims[v].stopped_until = now + 1000000 + draw(draw(10) ? 20000000 : 400000000);
            total.stops++;
        }
        break;
    case 8: atomic_fetch_add(&board->group_call, 1); break;
    case 9: atomic_fetch_add(&board->barrier_call, 1); break;
    case 10:
        if (victims[AGENT].pid)
            kill_victim(AGENT);
        break;
    default: break; /* quiet time */
    }
}

/* A wait that does not end: nobody who runs may be at one operation for so long. */
static bool is_anybody_stuck(uint64_t now)
{
    for (int v = 0; v < WORKERS; v++) {
        struct worker *w = &board->workers[v];
        uint64_t since = atomic_load(&w->busy_since);

        if (victims[v].pid && !victims[v].stopped_until && now > since && now - since > STUCK_NS) {
            fprintf(stderr, "torture: worker %d (pid %d) is stuck in '%s'\n", v, (int)victims[v].pid,
                    load_names[atomic_load(&w->busy_with)]);
            return true;
        }
    }
    return false;
}

static uint64_t operations(void)
{
    uint64_t n = 0;

    for (int v = 0; v < WORKERS; v++)
        for (int l = 0; l < LOADS; l++)
            n += atomic_load(&board->workers[v].ops[l]);
    return n;
}

static void pause_ns(uint64_t ns)
{
    struct timespec t = {.tv_nsec = (long)ns};

    nanosleep(&t, NULL); /* sleep: the pace of the torment, not a synchronisation */
}

static bool run(uint64_t seconds)
{
    uint64_t start_ns = muster_now_ns(), end = start_ns + seconds * 1000000000u, told = start_ns, audited = start_ns,
             now;
    struct muster_audit a;

    for (int v = 0; v < VICTIMS; v++)
        start(v);
    while ((now = muster_now_ns()) < end) {
        torment(now);
        pause_ns(500000 + draw(6000000));
        if (!collect(true) || is_anybody_stuck(now))
            return false;
        if (now - audited > 1000000000u) {
            audited = now;
            if (!audit(" in mid-run", &a))
                return false;
        }
        if (now - told > 3000000000u && isatty(STDERR_FILENO)) {
            told = now;
            fprintf(stderr, "\r%3" PRIu64 " s: %" PRIu64 " operations, %" PRIu64 " kills, %" PRIu64 " stops ",
                    (now - start_ns) / 1000000000u, operations(), total.kills, total.stops);
        }
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\n");
    return true;
}

/* Let everybody finish and leave. */
static bool quiesce(void)
{
    uint64_t end = muster_now_ns() + STUCK_NS;
    bool left = true;

    for (int v = 0; v < VICTIMS; v++)
        if (victims[v].pid)
            kill(victims[v].pid, SIGCONT);
    atomic_store(&board->stop, 1);
    while (left) {
        if (!collect(false))
            return false;
        left = false;
        for (int v = 0; v < VICTIMS; v++)
            left |= victims[v].pid != 0;
        if (muster_now_ns() > end) {
            fprintf(stderr, "torture: not everybody leaves:\n");
            for (int v = 0; v < WORKERS; v++)
                if (victims[v].pid)
                    fprintf(stderr, "torture: worker %d (pid %d) in '%s'\n", v, (int)victims[v].pid,
                            load_names[atomic_load(&board->workers[v].busy_with)]);
            return false;
        }
        pause_ns(1000000);
    }
    return true;
}

/* Groups of the dead are taken apart by who builds the next: a few at a time. */
static void reap_groups(void)
{
    static const int32_t alone[] = {0};
    struct muster_options o;
    struct muster *t;

    muster_options_init(&o);
    o.job = job;
    o.task_id = 0;
    o.flags = MUSTER_JOIN_RECOVERABLE | MUSTER_JOIN_NO_HEARTBEAT | MUSTER_JOIN_NO_CREATE;
    if (muster_join(&o, &t) != MUSTER_OK)
        violation("the director cannot join: %s", muster_last_error());
    for (int i = 0; i < 64; i++) {
        struct muster_group *g;

        if (muster_group_create(t, "reaper", alone, 1, 0, MUSTER_FOREVER, &g) != MUSTER_OK)
            violation("no group can be built: %s", muster_last_error());
        muster_group_free(g);
    }
    if (muster_leave(t) != MUSTER_OK)
        violation("leave: %s", muster_last_error());
}

static bool account(void)
{
    struct muster_options o;
    struct muster *observer;
    struct muster_segment_info info;
    struct muster_audit a;

    muster_options_init(&o);
    o.job = job;
    o.flags = MUSTER_JOIN_OBSERVER | MUSTER_JOIN_NO_CREATE;
    if (muster_join(&o, &observer) != MUSTER_OK)
        violation("the observer cannot join: %s", muster_last_error());
    if (muster_scavenge(observer, NULL) != MUSTER_OK)
        violation("scavenge: %s", muster_last_error());
    reap_groups();
    verify(observer, total.kills);
    if (muster_segment_info(muster_segment_of(observer), &info) != MUSTER_OK || info.slots_live != 1)
        violation("%u slots are held, and only the director is left", info.slots_live);
    if (!audit(" at the end", &a))
        return false;
    if (a.blocks_owned)
        violation("%" PRIu64 " blocks are owned by nobody who lives", a.blocks_owned);
    printf("audit: %" PRIu64 " live blocks, %" PRIu64 " free, %" PRIu64 " keys, 0 problems; %" PRIu64
           " audits in mid-run\n",
           a.blocks_live, a.blocks_free, a.keys, total.audits - 1);
    return muster_leave(observer) == MUSTER_OK;
}

static void report(double seconds)
{
    uint64_t full = 0, groups = 0, failed = 0;

    printf("operations:");
    for (int l = 0; l < LOADS; l++) {
        uint64_t n = 0;

        for (int v = 0; v < WORKERS; v++)
            n += atomic_load(&board->workers[v].ops[l]);
        if (l != LOAD_DIE)
            printf(" %s %" PRIu64, load_names[l], n);
    }
    for (int v = 0; v < WORKERS; v++)
        full += atomic_load(&board->workers[v].full);
    for (int i = 0; i < OUTCOMES; i++) {
        groups += atomic_load(&board->outcomes[i].group) != 0;
        failed += atomic_load(&board->outcomes[i].failed) != 0;
    }
    printf("\n%" PRIu64 " groups ran, %" PRIu64 " of them failed, each for all its members alike; %" PRIu64
           " operations refused for lack of memory\n",
           groups, failed, full);
    printf("%.0f operations/s, %.1f kills/s: %" PRIu64 " kills (%" PRIu64 " of agents), %" PRIu64 " stops, %" PRIu64
           " starts, %" PRIu64 " deaths found by agents\n",
           (double)operations() / seconds, (double)total.kills / seconds, total.kills, total.agent_kills, total.stops,
           total.starts, atomic_load(&board->deaths));
}

static void end_all(void)
{
    for (int v = 0; v < VICTIMS; v++)
        if (victims[v].pid) {
            kill(victims[v].pid, SIGKILL);
            waitpid(victims[v].pid, NULL, 0);
        }
    muster_segment_remove(job);
}

int main(int argc, char **argv)
{
    struct muster_segment_config c = {
        .num_tasks = WORKERS, .num_slots = 128, .num_buckets = 256, .num_events = 256, .heap_bytes = 512u << 20};
    struct muster_segment *kept, *gone;
    uint64_t seconds = 10, began;
    bool ok;

    total.seed = muster_now_ns() ^ (uint64_t)getpid() << 40;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seconds"))
            seconds = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--seed"))
            total.seed = strtoull(argv[i + 1], NULL, 10);
    }
    printf("torture: %" PRIu64 " seconds, --seed %" PRIu64 "\n", seconds, total.seed);
    random_seed(total.seed);
    snprintf(job, sizeof job, "torture-%d", (int)getpid());
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED || muster_segment_create(job, &c, &kept) != MUSTER_OK) {
        fprintf(stderr, "torture: %s\n", muster_last_error());
        return 1;
    }
    muster_segment_close(kept);
    began = muster_now_ns();
    ok = run(seconds) && quiesce();
    if (ok) {
        double took = (double)(muster_now_ns() - began) / 1e9;

        ok = account();
        report(took);
    }
    end_all();
    if (ok && muster_segment_open(job, &gone) != MUSTER_NOT_FOUND) {
        fprintf(stderr, "torture: the segment is still there\n");
        ok = false;
    }
    if (!ok)
        fprintf(stderr, "torture: FAILED; again with: --seed %" PRIu64 "\n", total.seed);
    return ok ? 0 : 1;
}
