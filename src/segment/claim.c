/*
 * segment/claim.c: a slot for this thread, cleaning up first if none is free.
 *
 * Cleaning up after a task needs a slot, for the error that it sets allocates; and if the dead hold every slot there is
 * none to clean up with. So the last slots are kept for this: claimed as an observer's, for as long as the cleaning
 * takes. A process that dies in it leaves a reserved slot dead; the next one frees that without any slot.
 */
#include "segment/claim.h"

#include "segment/scavenge.h"
#include "segment/slot.h"
#include "segment/wait.h"

enum muster_status mu_claim(struct muster_segment *seg, uint64_t task, struct mu_ctx *ctx)
{
    enum muster_status status = mu_slot_claim(seg, task, ctx);
    void (*clean_up)(struct mu_ctx *) = mu_wait_recheck;

    if (status != MUSTER_RESOURCE_EXHAUSTED || !clean_up)
        return status;
    mu_scavenge_reserved(seg);
    if (!mu_slot_claim_reserved(seg, ctx)) /* others are cleaning up */
        return status;
    clean_up(ctx);
    mu_slot_release(ctx);
    return mu_slot_claim(seg, task, ctx);
}
