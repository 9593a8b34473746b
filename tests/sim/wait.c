/*
 * tests/sim/wait.c: waiting for keys: gets and watches against sets, deaths, errors and deadlines.
 *
 * Two patterns. Ring: each task sets a key a round, and gets its neighbour's. Watch: one task writes a key again and
 * again, the others watch it to the end. Oracle: values are right and grow; a wait ends in an error only when a task is
 * in error, by a deadline only past it; nobody sleeps past its reason to wake (the scheduler's own check).
 */
#include <stdio.h>
#include <string.h>

#include "segment/file.h"
#include "sim.h"

enum { TASKS = 4, ROUNDS = 3, WRITES = 4 };

static uint32_t tasks, rounds;
static bool errors, closed; /* somebody reported one; the job was closed */

/* True: go on. */
static bool check(enum muster_status status, muster_deadline deadline)
{
    if (status == MUSTER_UNAVAILABLE)
        SIM_CHECK(sim_anybody_died() || errors, "an error although nobody failed: %s", muster_last_error());
    else if (status == MUSTER_CANCELLED)
        SIM_CHECK(closed || sim_self()->handle.interrupt, "cancelled for nothing: %s", muster_last_error());
    else if (status == MUSTER_DEADLINE_EXCEEDED)
        SIM_CHECK(sim_clock() >= deadline, "the deadline has not passed");
    else
        SIM_CHECK(!status, "%s: %s", muster_status_name(status), muster_last_error());
    return !status;
}

static muster_deadline draw_deadline(void)
{
    return sim_chance(4) ? sim_clock() + 1000000 * (1 + sim_random(20)) : MUSTER_FOREVER;
}

static bool set(struct sim_task *t, const char *key, uint64_t value)
{
    enum muster_status status;

    sim_begin("set %s", key);
    status = muster_kv_set(&t->handle, key, MUSTER_NTS, &value, sizeof value, NULL);
    sim_end(status);
    return check(status, 0);
}

static bool ring(struct sim_task *t, uint32_t round)
{
    char key[32];
    uint32_t neighbour = ((uint32_t)t->id + 1) % tasks;
    uint64_t value = 0, version;
    size_t len = 0;
    muster_deadline deadline = draw_deadline();
    enum muster_status status;

    snprintf(key, sizeof key, "%u/%d", round, t->id);
    if (!set(t, key, round * 100 + (uint64_t)t->id))
        return false;
    snprintf(key, sizeof key, "%u/%u", round, neighbour);
    do {
        muster_resume(&t->handle);
        sim_begin("get %s", key);
        status = muster_kv_get(&t->handle, key, MUSTER_NTS, deadline, &value, sizeof value, &len, &version);
        sim_end(status);
    } while (status == MUSTER_CANCELLED && t->handle.interrupt);
    if (!check(status, deadline))
        return status == MUSTER_DEADLINE_EXCEEDED;
    SIM_CHECK(len == sizeof value && value == round * 100 + neighbour, "got %llu for %s", (unsigned long long)value,
              key);
    return true;
}

static bool watch(struct sim_task *t)
{
    uint64_t last = 0, version = 0;

    while (last < WRITES) {
        uint64_t value = 0, after = version;
        size_t len;
        muster_deadline deadline = draw_deadline();
        enum muster_status status;

        muster_resume(&t->handle);
        sim_begin("watch after %llu", (unsigned long long)after);
        status = muster_kv_watch(&t->handle, "w", 1, after, deadline, &value, sizeof value, &len, &version);
        sim_end(status);
        if (status)
            version = after;
        if (status == MUSTER_CANCELLED && t->handle.interrupt)
            continue;
        if (!check(status, deadline) && status != MUSTER_DEADLINE_EXCEEDED)
            return false;
        if (status)
            continue;
        SIM_CHECK(version > after && value > last && value <= WRITES, "value %llu, version %llu after %llu, %llu",
                  (unsigned long long)value, (unsigned long long)version, (unsigned long long)last,
                  (unsigned long long)after);
        last = value;
    }
    return true;
}

static void ring_task(struct sim_task *t)
{
    enum muster_status status;
    bool go_on = true;

    t->shielded = true;
    status = sim_join(t, MUSTER_JOIN_NO_HEARTBEAT);
    SIM_CHECK(!status, "join: %s", muster_last_error());
    t->shielded = false;
    for (uint32_t i = 0; i < rounds && go_on; i++)
        go_on = ring(t, i);
    if (sim_chance(16)) {
        errors = true;
        sim_begin("report");
        sim_end(muster_error_report(&t->handle, t->id, MUSTER_UNKNOWN, "reported"));
    }
    sim_leave(t);
}

static void watch_task(struct sim_task *t)
{
    enum muster_status status;

    t->shielded = true;
    status = sim_join(t, MUSTER_JOIN_NO_HEARTBEAT);
    SIM_CHECK(!status, "join: %s", muster_last_error());
    t->shielded = false;
    if (t->id)
        watch(t);
    else
        for (uint64_t i = 1; i <= WRITES; i++)
            SIM_CHECK(set(t, "w", i), "the writer is never refused");
    sim_leave(t);
}

/* Closes the job, or interrupts a task as a signal handler would. */
static void canceller(struct sim_task *t)
{
    sim_handle(t, -1);
    if (sim_chance(2)) {
        closed = true;
        sim_begin("close");
        mu_segment_mark_closed(&sim_segment, MU_CLOSED);
    } else {
        sim_begin("interrupt");
        muster_interrupt(&sim_task((uint32_t)sim_random(tasks))->handle);
    }
    sim_end(MUSTER_OK);
}

static void start(void)
{
    bool in_ring = !sim_chance(3);

    tasks = 2 + (uint32_t)sim_random(TASKS - 1);
    rounds = 1 + (uint32_t)sim_random(ROUNDS);
    errors = closed = false;
    for (uint32_t i = 0; i < tasks; i++)
        sim_add(in_ring ? ring_task : watch_task, (int)i, NULL);
    if (sim_chance(6))
        sim_add(canceller, -1, NULL);
}

static void finish(void)
{
}

const struct sim_workload sim_wait = {
    .name = "wait", .config = {.num_tasks = TASKS, .num_buckets = 2}, .start = start, .finish = finish};
