/*
 * tests/sim/group.c: groups: meeting, barriers and collectives against deaths and deadlines, and building anew.
 *
 * Oracle: all who return from one instance of one group return the same; OK only when all had called, and then with
 * everybody's data; a failure only with a reason; nobody hangs; at the end nothing is left of what was freed (the
 * audit's check).
 */
#include <string.h>

#include "barrier/group.h"
#include "sim.h"

enum { TASKS = 4, INSTANCES = 5, MEETINGS = 64, BUILDS = 2, REBUILDS = 10 };

static uint32_t tasks, instances;
static bool deadlines, restarts, anybody_done;
/* One for each time that a group came together, known by its first member's area: a generation may come again. */
static struct meeting {
    uint64_t area;
    struct {
        bool called[TASKS], known;
        enum muster_status outcome;
    } instance[INSTANCES];
} meetings[MEETINGS];

static struct meeting *meeting_of(const struct muster_group *g)
{
    const struct mu_block *b = (const struct mu_block *)((const uint8_t *)g->areas[0] - MU_BLOCK_HEADER);
    uint64_t area = MU_REF(MU_BLOCK_GENERATION(b->word), mu_offset_of(&sim_segment, b) / MU_GRANULE);

    for (int i = 0; i < MEETINGS; i++)
        if (!meetings[i].area || meetings[i].area == area) {
            meetings[i].area = area;
            return &meetings[i];
        }
    sim_fail("more than %d groups", MEETINGS);
}

static uint64_t datum(uint64_t generation, uint32_t instance, uint32_t task)
{
    return generation * 10000 + instance * 100 + task + 1;
}

static void settle(struct meeting *m, uint32_t instance, enum muster_status status)
{
    if (m->instance[instance].known)
        SIM_CHECK(m->instance[instance].outcome == status, "instance %u is %s for one, %s for another: %s", instance,
                  muster_status_name(m->instance[instance].outcome), muster_status_name(status), muster_last_error());
    m->instance[instance].known = true;
    m->instance[instance].outcome = status;
    for (uint32_t i = 0; i < tasks && !status; i++)
        SIM_CHECK(m->instance[instance].called[i], "instance %u passed, but task %u has not come", instance, i);
    if (status == MUSTER_DEADLINE_EXCEEDED)
        SIM_CHECK(deadlines, "nobody has a deadline");
    else if (status)
        SIM_CHECK(status == MUSTER_UNAVAILABLE && (sim_anybody_died() || deadlines), "%s: %s",
                  muster_status_name(status), muster_last_error());
}

static enum muster_status collective(struct muster_group *g, uint32_t instance, uint32_t me, muster_deadline deadline)
{
    uint64_t mine = datum(g->generation, instance, me), all[TASKS], sum = 0;
    enum muster_status status;

    for (uint32_t i = 0; i < tasks; i++)
        sum += datum(g->generation, instance, i);
    switch (instance % 4) {
    case 0: return muster_group_barrier(g, deadline);
    case 1:
        status = muster_group_allreduce(g, &mine, 1, MUSTER_TYPE_UINT64, MUSTER_OP_SUM, deadline);
        SIM_CHECK(status || mine == sum, "the sum is %llu, not %llu", (unsigned long long)mine,
                  (unsigned long long)sum);
        return status;
    case 2:
        status = muster_group_allgather(g, &mine, sizeof mine, all, deadline);
        for (uint32_t i = 0; i < tasks && !status; i++)
            SIM_CHECK(all[i] == datum(g->generation, instance, i), "%llu came from member %u",
                      (unsigned long long)all[i], i);
        return status;
    default:
        status = muster_group_broadcast(g, instance % tasks, &mine, sizeof mine, deadline);
        SIM_CHECK(status || mine == datum(g->generation, instance, instance % tasks), "%llu was broadcast",
                  (unsigned long long)mine);
        return status;
    }
}

static muster_deadline draw_deadline(uint32_t one_in)
{
    return deadlines && sim_chance(one_in) ? sim_clock() + 1000000 * (1 + sim_random(8)) : MUSTER_FOREVER;
}

/* Build, use, free. True: everything went well. */
static bool round_of(struct sim_task *t)
{
    struct muster_group *g;
    struct meeting *m;
    enum muster_status status;

    sim_begin("create");
    status = muster_group_create(&t->handle, "g", (const int32_t[]){0, 1, 2, 3}, tasks, 16, draw_deadline(1), &g);
    sim_end(status);
    if (status) {
        SIM_CHECK((status == MUSTER_UNAVAILABLE && (sim_anybody_died() || deadlines)) ||
                      (status == MUSTER_DEADLINE_EXCEEDED && deadlines),
                  "create: %s: %s", muster_status_name(status), muster_last_error());
        return false;
    }
    m = meeting_of(g);
    for (uint32_t i = 0; i < instances && !status; i++) {
        m->instance[i].called[t->id] = true;
        sim_begin("collective %u", i);
        status = collective(g, i, (uint32_t)t->id, draw_deadline(3));
        sim_end(status);
        settle(m, i, status);
    }
    sim_begin("free");
    muster_group_free(g);
    sim_end(MUSTER_OK);
    return !status;
}

static void member(struct sim_task *t)
{
    enum muster_status status;

    t->shielded = !restarts;
    do {
        status = sim_join(t, MUSTER_JOIN_NO_HEARTBEAT | (restarts ? MUSTER_JOIN_RECOVERABLE : 0));
        SIM_CHECK(!status || (status == MUSTER_ALREADY_EXISTS && restarts), "join: %s", muster_last_error());
        if (status)
            sim_yield(); /* its predecessor is dead, but not all of it yet */
    } while (status);
    t->shielded = false;
    for (int i = 0; i < (restarts ? REBUILDS : BUILDS) && !(restarts && anybody_done); i++)
        if (round_of(t)) {
            anybody_done = true;
            break;
        }
    sim_leave(t);
}

/* Comes when the first is dead, and takes its place in the next group. */
static void successor(struct sim_task *t)
{
    while (!sim_is_over(t->arg))
        sim_idle(t);
    if (((const struct sim_task *)t->arg)->state == SIM_KILLED)
        member(t);
}

static void prepare(bool with_restarts)
{
    tasks = 2 + (uint32_t)sim_random(TASKS - 1);
    instances = 1 + (uint32_t)sim_random(INSTANCES);
    restarts = with_restarts;
    deadlines = restarts || sim_chance(2);
    anybody_done = false;
    memset(meetings, 0, sizeof meetings);
    for (uint32_t i = 0; i < tasks; i++)
        sim_add(member, (int)i, NULL);
}

static void start(void)
{
    prepare(false);
}

static void start_restarting(void)
{
    prepare(true);
    sim_fate.kills = 4;
    for (uint32_t i = 0; i < tasks; i++)
        sim_add(successor, (int)i, sim_task(i));
}

static void finish(void)
{
}

const struct sim_workload sim_group = {
    .name = "group", .config = {.num_tasks = TASKS}, .start = start, .finish = finish};
const struct sim_workload sim_regroup = {
    .name = "regroup", .config = {.num_tasks = TASKS}, .start = start_restarting, .finish = finish};
