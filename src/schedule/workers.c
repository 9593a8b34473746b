/*
 * schedule/workers.c: how many threads take calls, and how many of them are blocked in one, for owners of a pool.
 *
 * Each slot says what its owner does, under its incarnation, and a word of the header moves with each change. A look
 * reads that word first: what changes while it goes over the slots ends the wait that is given the word's number.
 */
#include "schedule/private.h"
#include "segment/slot.h"
#include "segment/wait.h"

bool mu_schedule_worker(const struct muster_segment *seg, uint32_t slot, struct muster_worker_look *ret_look)
{
    const struct mu_slot *s = &seg->slots[slot];
    uint64_t w = mu_load_acquire(&s->word), says = mu_load_acquire(&s->worker); /* acquire, both: as the claim */

    if (MU_SLOT_STATE(w) != MU_SLOT_LIVE || says >> 2 != MU_SLOT_INCARNATION(w) || !(says & 3))
        return false;
    *ret_look = (struct muster_worker_look){
        .pid = MU_SLOT_PID(w),
        .task = (int32_t)mu_load_relaxed(&s->task) - 1, /* relaxed, both: for people */
        .blocked = (says & 3) == MU_WORKER_BLOCKED,
        .call = mu_load_relaxed(&s->calls[0]),
    };
    ret_look->idle = !ret_look->blocked && mu_load32_acquire(&seg->header->queue_there) && /* acquire: as it says */
                     mu_crew_is_idle(seg, slot);
    return true;
}

static void workers_count(const struct muster_segment *seg, struct muster_workers_info *ret_info)
{
    uint32_t high = mu_slot_high(seg);

    *ret_info = (struct muster_workers_info){.queued = mu_queue_length(seg)};
    ret_info->change = mu_load_acquire(&seg->header->workers) >> 1; /* acquire: pairs with bell_ring() */
    for (uint32_t i = 0; i < high; i++) {
        struct muster_worker_look look;

        if (!mu_schedule_worker(seg, i, &look))
            continue;
        ret_info->workers++;
        ret_info->blocked += (uint32_t)look.blocked;
        ret_info->idle += (uint32_t)look.idle;
    }
}

enum muster_status muster_workers_get(struct muster *muster, struct muster_workers_info *ret_info)
{
    enum muster_status status = mu_enter_read(muster);

    if (status)
        return status;
    workers_count(muster->seg, ret_info);
    mu_exit_read();
    return MUSTER_OK;
}

enum muster_status muster_workers_wait(struct muster *muster, uint64_t change, muster_deadline deadline,
                                       struct muster_workers_info *ret_info)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);
    struct muster_workers_info before;
    struct mu_wait w;

    if (status)
        return status;
    workers_count(muster->seg, &before);
    mu_wait_begin(&w, muster->seg, ctx, deadline, "a change of the workers");
    do {
        uint64_t seen = mu_load_acquire(&muster->seg->header->workers); /* acquire: as above */

        mu_wait_look(&w);
        workers_count(muster->seg, ret_info); /* one that has left has moved the epoch alone */
        if (seen >> 1 != change || ret_info->workers != before.workers)
            break;
        status = mu_wait_on(&w, &muster->seg->header->workers, seen);
    } while (!status);
    mu_wait_end(&w);
    workers_count(muster->seg, ret_info);
    mu_exit(ctx);
    return status;
}
