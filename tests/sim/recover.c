/*
 * tests/sim/recover.c: a named barrier of recoverable tasks, whose successors come again.
 *
 * A task that dies at the barrier has not arrived; its successor joins and calls anew. There is no timeout: the
 * instance must pass for all, and nobody may hang (the scheduler's own check).
 */
#include "sim.h"

enum { TASKS = 3 };

static uint32_t tasks;
static bool passed[TASKS];

static void call(struct sim_task *t)
{
    enum muster_status status;

    do {
        status = sim_join(t, MUSTER_JOIN_NO_HEARTBEAT | MUSTER_JOIN_RECOVERABLE);
        SIM_CHECK(!status || status == MUSTER_ALREADY_EXISTS, "join: %s", muster_last_error());
        if (status)
            sim_yield(); /* its predecessor is dead, but not all of it yet */
    } while (status);
    sim_begin("barrier");
    status = muster_barrier_wait(&t->handle, "b", 0, (const int32_t[]){0, 1, 2}, tasks, 0, MUSTER_FOREVER);
    sim_end(status);
    SIM_CHECK(!status, "barrier: %s: %s", muster_status_name(status), muster_last_error());
    passed[t->id] = true;
    sim_leave(t);
}

static void first(struct sim_task *t)
{
    call(t);
}

/* Waits for the death of the first, which may not come. */
static void successor(struct sim_task *t)
{
    const struct sim_task *before = t->arg;

    while (!sim_is_over(before))
        sim_idle(t);
    if (!passed[t->id])
        call(t);
}

static void start(void)
{
    tasks = 2 + (uint32_t)sim_random(TASKS - 1);
    sim_fate.kills = 3;
    for (uint32_t i = 0; i < tasks; i++)
        sim_add(first, (int)i, NULL);
    for (uint32_t i = 0; i < tasks; i++) {
        passed[i] = false;
        sim_add(successor, (int)i, sim_task(i))->never_kill = true;
    }
}

static void finish(void)
{
    for (uint32_t i = 0; i < tasks; i++)
        SIM_CHECK(passed[i], "task %u did not pass", i);
}

const struct sim_workload sim_recover = {
    .name = "recover", .config = {.num_tasks = TASKS}, .start = start, .finish = finish, .restarts = true};
