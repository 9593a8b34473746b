/*
 * tests/sim/tasks.c: the lives of tasks: joining, errors, deaths, successors, resets, watches.
 *
 * Several processes want each task id, one after the other: a successor joins when its predecessor has left, was
 * reset, or is recoverable and dead. Oracle: a join is refused only for a reason; the job's version grows; at the end
 * the records agree with the counters, no dead process is connected, registrations are counted; watches and waits for
 * errors end.
 */
#include <string.h>

#include "segment/cluster.h"
#include "sim.h"

enum { TASKS = 20, WANTED = 3, LIVES = 2 };

static uint32_t tasks, stride; /* tasks 0, stride, 2 * stride: in one block of records, or in two */
static uint32_t joined[TASKS], tried[TASKS];
static struct sim_task *holder[TASKS]; /* joined and has not begun to leave */
static bool errors, recoverable[TASKS];
static uint64_t version;

static void note_version(uint64_t v)
{
    SIM_CHECK(v >= version, "the job's version fell from %llu to %llu", (unsigned long long)version,
              (unsigned long long)v);
    version = v;
}

/* A watch of the job's state, or for an error; with a deadline, for nothing may happen. */
static void wait_a_while(struct sim_task *t)
{
    muster_deadline deadline = sim_clock() + 1000000 * (1 + sim_random(20));
    enum muster_status status;

    if (sim_chance(2)) {
        struct muster_error e = {0};

        sim_begin("wait for an error");
        status = muster_error_wait(&t->handle, deadline, &e);
        sim_end(status);
        SIM_CHECK(!status || status == MUSTER_DEADLINE_EXCEEDED, "error_wait: %s", muster_last_error());
        if (!status)
            SIM_CHECK(e.task_id >= 0 && (uint32_t)e.task_id < TASKS && (errors || sim_anybody_died()),
                      "an error of task %d although nobody failed", e.task_id);
    } else {
        struct muster_task_info infos[TASKS];
        size_t n = 0;
        uint64_t v = 0, from = version;

        sim_begin("watch the job");
        status = muster_task_watch(&t->handle, from, deadline, infos, TASKS, &n, &v);
        sim_end(status);
        SIM_CHECK(!status || status == MUSTER_DEADLINE_EXCEEDED, "task_watch: %s", muster_last_error());
        if (!status) {
            SIM_CHECK(n == TASKS && (v > from || !from), "watch: %zu tasks, version %llu", n, (unsigned long long)v);
            note_version(v > version ? v : version);
        }
    }
}

static void ask_who_lives(struct sim_task *t)
{
    struct muster_task_info info;
    uint32_t id = (uint32_t)sim_random(tasks) * stride;
    enum muster_status status;

    sim_begin("get task %u", id);
    status = muster_task_get(&t->handle, (int32_t)id, &info);
    sim_end(status);
    SIM_CHECK(!status, "task_get: %s", muster_last_error());
    SIM_CHECK((info.error != MUSTER_OK) == (info.state == MUSTER_TASK_ERROR), "state %d with error %d", info.state,
              info.error);
    if (info.state == MUSTER_TASK_ERROR)
        SIM_CHECK(errors || sim_anybody_died(), "task %u is in error although nobody failed", id);
}

static void meddle(struct sim_task *t)
{
    int32_t id = (int32_t)(sim_random(tasks) * stride);
    enum muster_status status;

    if (sim_chance(4)) {
        uint64_t incarnation = sim_chance(2) ? t->handle.incarnation : 1 + sim_random(9);

        errors = true; /* another incarnation's heartbeat puts it in error */
        sim_begin("heartbeat of %d", id);
        status = muster_task_heartbeat(&t->handle, id, incarnation);
        sim_end(status);
        SIM_CHECK(!status || status == MUSTER_ABORTED || status == MUSTER_INVALID_ARGUMENT, "%s", muster_last_error());
        return;
    }
    if (sim_chance(2)) {
        errors = true;
        sim_begin("report %d", id);
        status = muster_error_report(&t->handle, id, MUSTER_ABORTED, "reported");
    } else {
        if (holder[id] == t) /* itself it may, and then another may join before it knows */
            holder[id] = NULL;
        sim_begin("reset %d", id);
        status = muster_task_reset(&t->handle, id);
    }
    sim_end(status);
    SIM_CHECK(!status || status == MUSTER_FAILED_PRECONDITION, "%s", muster_last_error());
}

static bool enter(struct sim_task *t)
{
    for (int i = 0; i < 3; i++) {
        enum muster_status status;

        tried[t->id]++;
        status = sim_join(t, MUSTER_JOIN_NO_HEARTBEAT | (recoverable[t->id] ? MUSTER_JOIN_RECOVERABLE : 0));
        if (!status)
            return true;
        if (status == MUSTER_ABORTED)
            SIM_CHECK(errors || sim_anybody_died(), "join: %s", muster_last_error());
        else
            SIM_CHECK(status == MUSTER_ALREADY_EXISTS, "join: %s", muster_last_error());
    }
    return false;
}

static void process(struct sim_task *t)
{
    if (!enter(t))
        return;
    joined[t->id]++;
    if (holder[t->id] && holder[t->id]->state != SIM_KILLED && !errors)
        sim_fail("task %d was joined twice", t->id);
    holder[t->id] = t;
    for (uint64_t n = sim_random(4); n; n--)
        switch (sim_random(4)) {
        case 0: meddle(t); break;
        case 1: ask_who_lives(t); break;
        default: wait_a_while(t); break;
        }
    if (holder[t->id] == t)
        holder[t->id] = NULL;
    SIM_CHECK(!sim_leave(t), "leave: %s", muster_last_error());
}

static void start(void)
{
    uint32_t lives = 1 + (uint32_t)sim_random(LIVES);

    tasks = 1 + (uint32_t)sim_random(WANTED);
    stride = sim_chance(2) ? 1 : 8;
    memset(joined, 0, sizeof joined);
    memset(tried, 0, sizeof tried);
    memset(holder, 0, sizeof holder);
    errors = false;
    version = 0;
    sim_fate.kills = 3;
    for (uint32_t i = 0; i < tasks; i++) {
        recoverable[i * stride] = sim_chance(2);
        for (uint32_t k = 0; k < lives; k++)
            sim_add(process, (int)(i * stride), NULL);
    }
}

static void check_record(uint32_t id, const struct mu_task_record *r)
{
    const struct sim_task *t = NULL;

    for (uint32_t i = 0; sim_task(i); i++)
        if (sim_task(i)->tid == r->pid) /* its first thread */
            t = sim_task(i);
    SIM_CHECK(r->attempt >= joined[id] && r->attempt <= tried[id], "task %u: %u registrations, %u joins of %u tries",
              id, r->attempt, joined[id], tried[id]);
    SIM_CHECK(!r->attempt || (t && t->id == (int)id), "task %u belongs to process %u", id, r->pid);
    if (r->state == MUSTER_TASK_CONNECTED)
        SIM_CHECK(t && t->state != SIM_KILLED && t->state != SIM_ENDED, "task %u is connected, but its process has %s",
                  id, t && t->state == SIM_KILLED ? "died" : "left");
    SIM_CHECK((r->state == MUSTER_TASK_ERROR) == (r->code != MUSTER_OK), "task %u: state %u, error %u", id, r->state,
              r->code);
}

static void finish(void)
{
    struct mu_task_record records[TASKS];
    char texts[TASKS][MU_TEXT_MAX];
    struct mu_cluster c;
    uint64_t count = 0;

    SIM_CHECK(!mu_cluster_all(&sim_segment, records, texts, &c), "%s", muster_last_error());
    note_version(c.root.version);
    for (uint32_t i = 0; i < TASKS; i++) {
        bool error = records[i].state == MUSTER_TASK_ERROR;

        check_record(i, &records[i]);
        count += error && !(records[i].flags & MU_TASK_RECOVERABLE);
        SIM_CHECK(error == (texts[i][0] != 0), "task %u: state %u, message '%s'", i, records[i].state, texts[i]);
    }
    SIM_CHECK(c.root.errors == count, "%llu errors are counted, there are %llu", (unsigned long long)c.root.errors,
              (unsigned long long)count);
    SIM_CHECK(!c.root.first_error == !count, "%llu errors, the first is %llu", (unsigned long long)count,
              (unsigned long long)c.root.first_error);
    if (count)
        SIM_CHECK(c.root.first_error <= TASKS && records[c.root.first_error - 1].state == MUSTER_TASK_ERROR &&
                      !(records[c.root.first_error - 1].flags & MU_TASK_RECOVERABLE),
                  "the first error is task %llu's, which has none", (unsigned long long)c.root.first_error - 1);
}

const struct sim_workload sim_tasks = {
    .name = "tasks", .config = {.num_tasks = TASKS}, .start = start, .finish = finish};
