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

static bool any_is_free(const struct muster_segment *seg)
{
    for (uint32_t i = 0; i < seg->num_slots - seg->reserved_slots; i++)
        if (MU_SLOT_STATE(mu_load_relaxed(&seg->slots[i].word)) == MU_SLOT_FREE) /* relaxed: the claim decides */
            return true;
    return false;
}

enum muster_status mu_claim(struct muster_segment *seg, uint64_t task, struct mu_ctx *ctx)
{
    enum muster_status status = mu_slot_claim(seg, task, ctx);
    void (*clean_up)(struct mu_ctx *) = mu_wait_recheck;
    uint64_t drops;

    if (status != MUSTER_RESOURCE_EXHAUSTED || !clean_up)
        return status;
    mu_scavenge_reserved(seg);
    if (!mu_slot_claim_reserved(seg, ctx)) /* others are cleaning up, and may have freed one by now */
        return mu_slot_claim(seg, task, ctx);
    do { /* once, or for as long as the ledgers of the dead need */
        drops = ctx->drops;
        clean_up(ctx);
    } while (ctx->drops != drops && !any_is_free(seg));
    mu_slot_release(ctx);
    return mu_slot_claim(seg, task, ctx);
}
