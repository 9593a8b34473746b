/*
 * tests/torture/victims.c: the processes that are killed: workers, each a task that does one random operation after
 * the other, and the agent, which waits for deaths and scavenges. All are recoverable: whoever is killed joins again.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "torture.h"

struct muster *m;
int32_t self;

void expect(enum muster_status status, uint32_t allowed, const char *what)
{
    if (status == MUSTER_OK || (allowed & 1u << status))
        return;
    if (status == MUSTER_RESOURCE_EXHAUSTED) {
        atomic_fetch_add(&board->workers[self].full, 1);
        return;
    }
    violation("worker %d: %s: %s: %s", (int)self, what, muster_status_name(status), muster_last_error());
}

/* Shares out of 1000. */
static const struct {
    enum load load;
    unsigned share;
} mixture[] = {
    {LOAD_SET, 200}, {LOAD_GET, 246},   {LOAD_DIR, 3},     {LOAD_INSERT, 60}, {LOAD_DELETE, 60}, {LOAD_CAS, 80},
    {LOAD_WATCH, 3}, {LOAD_COUNT, 200}, {LOAD_APPEND, 40}, {LOAD_SEND, 80},   {LOAD_READ, 12},   {LOAD_BARRIER, 3},
    {LOAD_ALIVE, 2}, {LOAD_TASKS, 3},   {LOAD_THREAD, 2},  {LOAD_REJOIN, 2},  {LOAD_DIE, 4},
};

static enum load pick(void)
{
    unsigned n = (unsigned)draw(1000);

    for (size_t i = 0; i < sizeof mixture / sizeof mixture[0]; i++) {
        if (n < mixture[i].share)
            return mixture[i].load;
        n -= mixture[i].share;
    }
    return LOAD_GET;
}

static void join(void)
{
    struct muster_options o;

    muster_options_init(&o);
    o.job = job;
    o.task_id = self;
    o.flags = MUSTER_JOIN_RECOVERABLE | MUSTER_JOIN_NO_CREATE;
    o.heartbeat_period_ns = 20000000;
    o.deadline = muster_after_ns(60000000000u);
    if (muster_join(&o, &m) != MUSTER_OK)
        violation("worker %d cannot join: %s", (int)self, muster_last_error());
}

/* A second thread writes at the same time as the first, under the same task. */
static void *in_a_thread(void *arg)
{
    char key[32];

    (void)arg;
    snprintf(key, sizeof key, "thread/%d", (int)self);
    expect(muster_kv_set(m, key, MUSTER_NTS, key, MUSTER_NTS, NULL), 0, "set in a thread");
    return NULL;
}

static void do_thread(void)
{
    pthread_t t;

    if (pthread_create(&t, NULL, in_a_thread, NULL))
        return;
    load_kv(LOAD_COUNT);
    pthread_join(t, NULL);
}

static void do_die(void)
{
    switch (draw(3)) {
    case 0: _exit(0);
    case 1: execl("/bin/true", "true", (char *)NULL); _exit(0);
    default: raise(SIGKILL);
    }
}

static void run(enum load load)
{
    switch (load) {
    case LOAD_SEND:
    case LOAD_READ: load_events(load); break;
    case LOAD_BARRIER:
    case LOAD_GROUP:
    case LOAD_ALIVE:
    case LOAD_TASKS: load_meet(load); break;
    case LOAD_THREAD: do_thread(); break;
    case LOAD_REJOIN:
        expect(muster_leave(m), 0, "leave");
        join();
        break;
    case LOAD_DIE: do_die(); break;
    default: load_kv(load); break;
    }
}

_Noreturn void worker_run(int32_t id, uint64_t seed)
{
    struct worker *w = &board->workers[id];
    uint32_t group_call, barrier_call;

    self = id;
    random_seed(seed);
    group_call = atomic_load(&board->group_call);
    barrier_call = atomic_load(&board->barrier_call);
    atomic_store(&w->busy_with, LOAD_REJOIN);
    atomic_store(&w->busy_since, muster_now_ns());
    join();
    while (!atomic_load(&board->stop)) {
        enum load load = pick();

        if (group_call != atomic_load(&board->group_call)) {
            group_call = atomic_load(&board->group_call);
            load = LOAD_GROUP;
        } else if (barrier_call != atomic_load(&board->barrier_call)) {
            barrier_call = atomic_load(&board->barrier_call);
            load = LOAD_BARRIER;
        } else if (load == LOAD_DIE && draw(50)) {
            load = LOAD_GET;
        }
        atomic_store(&w->busy_with, (uint32_t)load);
        atomic_store(&w->busy_since, muster_now_ns());
        /* short ones in bursts: a death that comes at a random time shall find them at it */
        for (uint64_t n = load <= LOAD_SEND && load != LOAD_DIR && load != LOAD_WATCH ? 1 + draw(60) : 1; n; n--) {
            run(load);
            atomic_fetch_add(&w->ops[load], 1);
        }
    }
    atomic_store(&w->busy_with, LOAD_REJOIN);
    expect(muster_leave(m), 0, "leave");
    _exit(0);
}

_Noreturn void agent_run(void)
{
    struct muster_options o;

    muster_options_init(&o);
    o.job = job;
    o.flags = MUSTER_JOIN_OBSERVER | MUSTER_JOIN_NO_CREATE;
    if (muster_join(&o, &m) != MUSTER_OK)
        violation("the agent cannot join: %s", muster_last_error());
    while (!atomic_load(&board->stop)) {
        size_t deaths = 0;
        enum muster_status s = muster_death_wait(m, muster_after_ns(50000000), &deaths);

        if (s && s != MUSTER_DEADLINE_EXCEEDED)
            violation("the agent: %s", muster_last_error());
        atomic_fetch_add(&board->deaths, deaths);
    }
    muster_leave(m);
    _exit(0);
}
