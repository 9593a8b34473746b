/*
 * tests/sim/last.c: the last to leave a job that no launcher keeps closes it, while others join.
 *
 * Oracle: a job is never closed under somebody who has joined it; and when nobody died, the last one did close it.
 */
#include "segment/file.h"
#include "sim.h"

enum { CLIENTS = 4 };

static uint32_t inside, joins;

static void check_open(void)
{
    SIM_CHECK(MU_STATE(sim_segment.header->state) != MU_CLOSED, "the job was closed under %u who had joined", inside);
}

/* As in task/join.c: slot first, then the state. */
static bool join(struct sim_task *t)
{
    while (MU_STATE(sim_segment.header->state) != MU_CLOSED) {
        struct mu_ctx *ctx;
        enum muster_status status;
        bool open;

        sim_handle(t, -1);
        sim_begin("join");
        status = mu_enter(&t->handle, &ctx);
        SIM_CHECK(!status, "join: %s", muster_last_error());
        open = MU_STATE(mu_load32_acquire(&sim_segment.header->state)) == MU_OPEN;
        inside += open;
        t->joined = open;
        mu_exit(ctx);
        if (!open) {
            mu_handle_detach_thread(&t->handle);
            mu_segment_last_out(&sim_segment);
        }
        sim_end(MUSTER_OK);
        if (open)
            return true;
    }
    return false;
}

static void client(struct sim_task *t)
{
    for (uint64_t n = 1 + sim_random(4); n && join(t); n--) {
        joins++;
        check_open();
        sim_begin("set");
        sim_end(muster_kv_set(&t->handle, "k", 1, "v", 1, NULL));
        check_open();
        inside--;
        t->joined = false;
        sim_begin("leave");
        mu_handle_detach_thread(&t->handle);
        mu_segment_last_out(&sim_segment);
        sim_end(MUSTER_OK);
    }
}

static void start(void)
{
    inside = joins = 0;
    sim_fate.kills = (uint32_t)sim_random(3);
    sim_fate.scavengers = 0; /* else one of them would be the last */
    for (uint64_t n = 2 + sim_random(CLIENTS - 1); n; n--)
        sim_add(client, -1, NULL);
}

static void finish(void)
{
    if (!sim_anybody_died())
        SIM_CHECK(MU_STATE(sim_segment.header->state) == MU_CLOSED, "%u joined, all left, and the job is still open",
                  joins);
}

const struct sim_workload sim_last = {.name = "last", .start = start, .finish = finish};
