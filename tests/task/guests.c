/*
 * tests/task/guests.c: the director as the agent of guests.
 */
#include "guests.h"

#include "segment/handle.h"

void guests_open(uint32_t tasks)
{
    struct muster_segment_config c = {
        .num_buckets = 1024, .num_events = 64, .heap_bytes = 64u << 20, .heartbeat_timeout_ns = 3600000000000u};

    stage_open(tasks, &c); /* nothing falls silent by itself */
}

enum muster_status guest_comes(const struct mu_client *g)
{
    struct mu_ctx *ctx;
    enum muster_status status;

    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    status = mu_client_register(ctx, g);
    mu_exit(ctx);
    return status;
}

enum muster_status guest_comes_as(uint32_t task, uint64_t incarnation, uint32_t flags)
{
    return guest_comes(&(struct mu_client){.task = task, .incarnation = incarnation, .flags = flags});
}

enum muster_status guest_goes(uint32_t task)
{
    struct mu_ctx *ctx;
    enum muster_status status;

    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    status = mu_client_disconnect(ctx, task);
    mu_exit(ctx);
    return status;
}

void guest_is_lost(uint32_t task, uint64_t incarnation, const char *text)
{
    struct mu_ctx *ctx;

    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    assert_int_equal(mu_client_lost(ctx, task, incarnation, text), MUSTER_OK);
    mu_exit(ctx);
}

uint64_t guests_version(void)
{
    uint64_t v;

    assert_int_equal(muster_task_list(stage_observer, NULL, 0, NULL, &v), MUSTER_OK);
    return v;
}
