/*
 * tests/sim/alive.c: which tasks are alive, agreed by all of them, while some die or leave.
 *
 * Oracle: everybody who is in an answer, and returned, has the same answer; a task is in the answer that it gets; a
 * task in an answer had called; nobody hangs (the scheduler's own check).
 */
#include <string.h>

#include "sim.h"

enum { TASKS = 4 };

static uint32_t tasks;
static bool called[TASKS];
static struct answer {
    bool given;
    size_t count;
    int32_t ids[TASKS];
    uint64_t incarnations[TASKS];
} answers[TASKS];

static void compare(const struct answer *a, uint32_t me)
{
    bool found = false;

    for (size_t i = 0; i < a->count; i++) {
        uint32_t id = (uint32_t)a->ids[i];
        const struct answer *b = &answers[id];

        SIM_CHECK(id < tasks && called[id] && (!i || a->ids[i - 1] < a->ids[i]), "task %u is in the answer", id);
        found |= id == me;
        if (b->given)
            SIM_CHECK(b->count == a->count && !memcmp(b->ids, a->ids, a->count * sizeof a->ids[0]) &&
                          !memcmp(b->incarnations, a->incarnations, a->count * sizeof a->incarnations[0]),
                      "tasks %u and %u have different answers", me, id);
    }
    SIM_CHECK(found, "task %u is told that it is dead", me);
}

static void member(struct sim_task *t)
{
    struct answer *a = &answers[t->id];
    enum muster_status status;

    t->shielded = true;
    status = sim_join(t, MUSTER_JOIN_NO_HEARTBEAT | (sim_chance(2) ? MUSTER_JOIN_RECOVERABLE : 0));
    SIM_CHECK(!status, "join: %s", muster_last_error());
    t->shielded = false;
    if (!sim_chance(8)) { /* else it leaves without a call */
        called[t->id] = true;
        sim_begin("who is alive");
        status = muster_task_alive(&t->handle, (const int32_t[]){3, 1, 0, 2}, TASKS, MUSTER_FOREVER, a->ids,
                                   a->incarnations, &a->count);
        sim_end(status);
        SIM_CHECK(!status, "alive: %s", muster_last_error());
        compare(a, (uint32_t)t->id);
        a->given = true;
    }
    sim_leave(t);
}

static void start(void)
{
    tasks = 1 + (uint32_t)sim_random(TASKS);
    memset(called, 0, sizeof called);
    memset(answers, 0, sizeof answers);
    for (uint32_t i = 0; i < tasks; i++)
        sim_add(member, (int)i, NULL);
}

static void finish(void)
{
}

const struct sim_workload sim_alive = {
    .name = "alive", .config = {.num_tasks = TASKS}, .start = start, .finish = finish};
