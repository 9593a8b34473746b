/*
 * schedule/next.c: which call a worker takes.
 *
 * First a parked one that can have what it asks for now, where somebody has asked for a look at those; else one of the
 * queue's. A worker that finds neither sets its bit as idle, looks again, and sleeps on its slot's bell. Each sleep
 * ends after 100 ms (wait.c), so that it sees the deadlines of parked calls.
 */
#include "schedule/private.h"
#include "segment/lease.h"
#include "segment/slot.h"
#include "segment/wait.h"

/* What the call asks for, and the call: *ret_call. NULL: it is another's, or nobody's now. */
static enum muster_status next_claim(struct muster *m, struct mu_ctx *ctx, const struct mu_object *o, uint64_t maker,
                                     struct muster_call **ret_call)
{
    enum muster_status status = o->meta ? mu_schedule_lease(ctx, o->ref) : MUSTER_OK;

    if (!status)
        status = mu_work_claim(ctx, o->ref, MU_OBJECT_CALL_QUEUED, 0, maker, (uint32_t)m->task_id + 1);
    if (status == MUSTER_NOT_FOUND)
        return MUSTER_OK;
    if (!status)
        return mu_schedule_begin(m, ctx, o, 0, maker, ret_call);
    mu_queue_put(m->seg, o->ref); /* no memory now: for another worker, or later */
    return status;
}

static enum muster_status next_of_parked(struct muster *m, struct mu_ctx *ctx, uint64_t maker,
                                         struct muster_call **ret_call)
{
    enum muster_status status = MUSTER_OK;

    while (!status && !*ret_call && mu_lease_asked(m->seg)) {
        uint64_t ref = mu_lease_next(ctx);
        struct mu_object o;

        if (ref && !mu_object_peek(m->seg, ref, ctx->scratch, &o) && o.state == MU_OBJECT_CALL_QUEUED)
            status = next_claim(m, ctx, &o, maker, ret_call);
    }
    return status;
}

/* Of the queue's hints one that holds. */
static enum muster_status next_of_queue(struct muster *m, struct mu_ctx *ctx, uint64_t maker,
                                        struct muster_call **ret_call)
{
    enum muster_status status = MUSTER_OK;
    uint32_t index;

    while (!status && !*ret_call && mu_queue_take(m->seg, &index)) {
        struct mu_object o;

        if (index < mu_objects_high(m->seg) && !mu_object_at(m->seg, index, ctx->scratch, &o) &&
            o.state == MU_OBJECT_CALL_QUEUED)
            status = next_claim(m, ctx, &o, maker, ret_call);
    }
    return status;
}

enum muster_status mu_schedule_next(struct muster *m, struct mu_ctx *ctx, uint64_t maker, muster_deadline deadline,
                                    struct muster_call **ret_call)
{
    bool waits = false;
    enum muster_status status;
    struct mu_wait w;

    *ret_call = NULL;
    mu_wait_begin(&w, m->seg, ctx, deadline, "a call");
    for (;;) {
        uint64_t seen = mu_load_acquire(&ctx->own->bell); /* acquire: pairs with bell_ring() */

        if (waits)
            mu_wait_look(&w);
        mu_work_rescan_if_asked(ctx, waits);
        status = next_of_parked(m, ctx, maker, ret_call);
        if (!status && !*ret_call)
            status = next_of_queue(m, ctx, maker, ret_call);
        if (status || *ret_call)
            break;
        if (!waits || !mu_crew_is_idle(m->seg, ctx->slot)) { /* look once more, with the bit and the epoch noted */
            mu_crew_idle(ctx);
            waits = true;
            continue;
        }
        status = mu_wait_on(&w, &ctx->own->bell, seen);
        if (status)
            break;
    }
    /* a call for which this thread was rung, and that it does not take, finds another worker */
    if (waits && !mu_crew_busy(ctx) && status && mu_queue_length(m->seg))
        mu_crew_wake(m->seg);
    mu_wait_end(&w);
    return status;
}
