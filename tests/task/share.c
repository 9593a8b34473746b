/*
 * tests/task/share.c: what muster_join() does, but with a segment that is mapped already.
 */
#include "share.h"

#include <unistd.h>

#include "base/process.h"
#include "segment/file.h"
#include "task/task.h"

struct muster *share_join(int32_t task, uint32_t flags)
{
    struct muster_segment *seg = muster_segment_of(stage_observer);
    struct mu_registration r = {.task = (uint32_t)task, .flags = flags, .pid = (uint32_t)getpid()};
    struct muster *m;
    struct mu_ctx *ctx;

    r.start = mu_process_start(getpid());
    mu_segment_ref(seg);
    m = mu_handle_new(seg, flags);
    if (!m)
        return NULL;
    m->task_id = task;
    mu_random(&m->incarnation, sizeof m->incarnation);
    if (mu_enter(m, &ctx) != MUSTER_OK)
        return NULL;
    r.incarnation = m->incarnation;
    r.slot = ctx->slot;
    r.slot_incarnation = ctx->incarnation;
    if (!(flags & MUSTER_JOIN_NO_HEARTBEAT) && mu_heartbeat_start(m, 1000000, &r.slot, &r.slot_incarnation))
        return NULL;
    m->pulse = &seg->slots[r.slot];
    r.slot++;
    if (mu_task_register(ctx, &r) != MUSTER_OK)
        return NULL;
    mu_exit(ctx);
    return m;
}
