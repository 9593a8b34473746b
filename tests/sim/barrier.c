/*
 * tests/sim/barrier.c: named barriers: arrivals against deaths, timeouts and cancellations.
 *
 * Oracle: all who return from one instance return the same; OK only when all had called; a failure only with a reason;
 * nobody hangs (the scheduler's own check).
 */
#include "sim.h"

enum { TASKS = 4, INSTANCES = 4 };

static uint32_t tasks, instances;
static bool called[INSTANCES][TASKS], known[INSTANCES], cancelled;
static enum muster_status outcome[INSTANCES];
static uint64_t timeout_ns, began[INSTANCES];

static void settle(uint32_t instance, enum muster_status status)
{
    if (known[instance])
        SIM_CHECK(outcome[instance] == status, "instance %u is %s for one, %s for another: %s", instance,
                  muster_status_name(outcome[instance]), muster_status_name(status), muster_last_error());
    known[instance] = true;
    outcome[instance] = status;
    if (!status) {
        for (uint32_t i = 0; i < tasks; i++)
            SIM_CHECK(called[instance][i], "instance %u passed, but task %u has not come", instance, i);
        return;
    }
    if (status == MUSTER_DEADLINE_EXCEEDED)
        SIM_CHECK(timeout_ns && sim_clock() >= began[instance] + timeout_ns, "it timed out early");
    else if (status == MUSTER_CANCELLED)
        SIM_CHECK(cancelled, "nobody cancelled it: %s", muster_last_error());
    else
        SIM_CHECK(status == MUSTER_INTERNAL && sim_anybody_died(), "%s: %s", muster_status_name(status),
                  muster_last_error());
}

static void member(struct sim_task *t)
{
    muster_deadline patience;
    enum muster_status status;

    t->shielded = true;
    status = sim_join(t, MUSTER_JOIN_NO_HEARTBEAT);
    SIM_CHECK(!status, "join: %s", muster_last_error());
    t->shielded = false;
    for (uint32_t i = 0; i < instances && !status; i++) {
        if (!began[i])
            began[i] = sim_clock();
        called[i][t->id] = true;
        do { /* whose own patience ends comes again, before the others can be at the next: its arrival stands */
            patience = instances == 1 && sim_chance(4) ? sim_clock() + 1000000 * (1 + sim_random(20)) : MUSTER_FOREVER;
            sim_begin("barrier %u", i);
            status =
                muster_barrier_wait(&t->handle, "b", i, (const int32_t[]){0, 1, 2, 3}, tasks, timeout_ns, patience);
            sim_end(status);
        } while (status == MUSTER_DEADLINE_EXCEEDED && sim_clock() >= patience);
        settle(i, status);
    }
    sim_leave(t);
}

static void canceller(struct sim_task *t)
{
    enum muster_status status;

    sim_handle(t, -1);
    cancelled = true;
    sim_begin("cancel");
    status = muster_barrier_cancel(&t->handle, "b", sim_random(instances));
    sim_end(status);
    SIM_CHECK(!status || status == MUSTER_FAILED_PRECONDITION, "cancel: %s", muster_last_error());
}

static void start(void)
{
    tasks = 2 + (uint32_t)sim_random(TASKS - 1);
    instances = 1 + (uint32_t)sim_random(INSTANCES);
    timeout_ns = sim_chance(3) ? 1000000 * (1 + sim_random(50)) : 0;
    cancelled = false;
    for (uint32_t i = 0; i < INSTANCES; i++) {
        known[i] = false;
        began[i] = 0;
        for (uint32_t k = 0; k < TASKS; k++)
            called[i][k] = false;
    }
    for (uint32_t i = 0; i < tasks; i++)
        sim_add(member, (int)i, NULL);
    if (sim_chance(4))
        sim_add(canceller, -1, NULL);
}

static void finish(void)
{
}

const struct sim_workload sim_barrier = {
    .name = "barrier", .config = {.num_tasks = TASKS}, .start = start, .finish = finish};
