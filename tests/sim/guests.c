/*
 * tests/sim/guests.c: agents with guests, beside processes that join by themselves, all after the same few ids; agents
 * die, leave with their guests still connected, and are followed by others.
 *
 * Oracle: while a process that has joined by itself lives, its id is nobody else's; at the end only agents that have
 * left still have guests, those of the dead are in error, and the records agree with the counters.
 */
#include <string.h>

#include "sim.h"
#include "task/client.h"
#include "task/task.h"

enum { TASKS = 3, AGENTS = 3, PROCESSES = 3, STEPS = 5 };

static struct sim_task *joined[TASKS]; /* has joined by itself, and has not begun to leave */
static bool recoverable;
static struct {
    uint32_t slot, incarnation;
} left[AGENTS];
static uint32_t num_left;

static void welcome(struct sim_task *t, uint32_t id)
{
    struct mu_client g = {.task = id, .incarnation = sim_random(3), .reconnects = sim_chance(2)};
    const struct sim_task *before = joined[id];
    enum muster_status status;
    struct mu_ctx *ctx;

    g.flags = recoverable ? MUSTER_JOIN_RECOVERABLE : 0;
    sim_begin("guest %u comes", id);
    status = mu_enter(&t->handle, &ctx);
    SIM_CHECK(!status, "an agent's slot: %s", muster_last_error());
    status = mu_client_register(ctx, &g);
    mu_exit(ctx);
    sim_end(status);
    SIM_CHECK(!status || status == MUSTER_ABORTED || status == MUSTER_ALREADY_EXISTS || status == MUSTER_UNAVAILABLE,
              "guest %u: %s", id, muster_last_error());
    if (!status && before && joined[id] == before && !sim_is_over(before))
        sim_fail("guest %u has come, and task %u lives", id, before->number);
}

static void send_off(struct sim_task *t, uint32_t id)
{
    enum muster_status status;
    struct mu_ctx *ctx;

    sim_begin("guest %u goes", id);
    status = mu_enter(&t->handle, &ctx);
    SIM_CHECK(!status, "an agent's slot: %s", muster_last_error());
    if (sim_chance(2))
        status = mu_client_disconnect(ctx, id);
    else
        status = mu_client_lost(ctx, id, sim_random(3), "its connection went");
    mu_exit(ctx);
    sim_end(status);
    SIM_CHECK(!status || status == MUSTER_FAILED_PRECONDITION, "guest %u: %s", id, muster_last_error());
}

static void agent(struct sim_task *t)
{
    struct mu_ctx *ctx;

    sim_handle(t, -1);
    for (uint64_t n = 1 + sim_random(STEPS); n; n--) {
        uint32_t id = (uint32_t)sim_random(TASKS);

        if (sim_chance(3))
            send_off(t, id);
        else
            welcome(t, id);
    }
    sim_begin("the agent leaves");
    ctx = mu_handle_peek(&t->handle);
    left[num_left].slot = ctx->slot + 1;
    left[num_left++].incarnation = ctx->incarnation;
    mu_handle_detach_thread(&t->handle);
    sim_end(MUSTER_OK);
}

static void process(struct sim_task *t)
{
    uint32_t id = (uint32_t)t->id;
    enum muster_status status = sim_join(t, MUSTER_JOIN_NO_HEARTBEAT | (recoverable ? MUSTER_JOIN_RECOVERABLE : 0));
    struct muster_task_info info;

    SIM_CHECK(!status || status == MUSTER_ALREADY_EXISTS || status == MUSTER_ABORTED, "join: %s", muster_last_error());
    if (status)
        return;
    joined[id] = t;
    sim_begin("get task %u", id);
    status = muster_task_get(&t->handle, (int32_t)id, &info);
    sim_end(status);
    SIM_CHECK(!status, "get: %s", muster_last_error());
    SIM_CHECK(!info.guest && info.state == MUSTER_TASK_CONNECTED && info.incarnation == t->handle.incarnation,
              "task %u is not the process's that has joined: state %d, guest %d", id, info.state, info.guest);
    joined[id] = NULL;
    SIM_CHECK(!sim_leave(t), "leave: %s", muster_last_error());
}

static void start(void)
{
    memset(joined, 0, sizeof joined);
    num_left = 0;
    recoverable = sim_chance(2);
    sim_fate.kills = 3;
    for (int i = 0; i < AGENTS; i++)
        sim_add(agent, -1, NULL);
    for (int i = 0; i < PROCESSES; i++)
        sim_add(process, (int)sim_random(TASKS), NULL);
}

static bool has_left(const struct mu_task_record *r)
{
    for (uint32_t i = 0; i < num_left; i++)
        if (left[i].slot == r->slot && left[i].incarnation == r->slot_incarnation)
            return true;
    return false;
}

static void finish(void)
{
    struct mu_task_record records[TASKS];
    char texts[TASKS][MU_TEXT_MAX];
    struct mu_cluster c;
    uint64_t errors = 0;

    SIM_CHECK(!mu_cluster_all(&sim_segment, records, texts, &c), "%s", muster_last_error());
    for (uint32_t i = 0; i < TASKS; i++) {
        const struct mu_task_record *r = &records[i];
        bool error = r->state == MUSTER_TASK_ERROR;

        errors += error && !(r->flags & MU_TASK_RECOVERABLE);
        SIM_CHECK(error == (texts[i][0] != 0) && error == (r->code != MUSTER_OK), "task %u: state %u, code %u, '%s'", i,
                  r->state, r->code, texts[i]);
        if (r->state == MUSTER_TASK_CONNECTED)
            SIM_CHECK((r->flags & MU_TASK_GUEST) && has_left(r), "task %u is connected, and nobody is there", i);
    }
    SIM_CHECK(c.root.errors == errors, "%llu errors are counted, there are %llu", (unsigned long long)c.root.errors,
              (unsigned long long)errors);
}

const struct sim_workload sim_guests = {
    .name = "guests", .config = {.num_tasks = TASKS}, .start = start, .finish = finish};
