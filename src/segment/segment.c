/*
 * segment/segment.c: two words of the header that the whole room uses.
 *
 * The room's other files call each other in layers, and this is the lowest: it calls none of them. `slots_high` only
 * grows, so a reader may keep it; `epoch` only moves, so a waiter that kept it sees that something has happened.
 */
#include "segment/segment.h"

#include "sync/futex.h"

uint32_t mu_slot_high(const struct muster_segment *seg)
{
    /* acquire: pairs with raise_high(); a slot that we may meet through its words is below it */
    uint32_t high = mu_load32_acquire(&seg->header->slots_high);

    return high < seg->num_slots ? high : seg->num_slots;
}

void mu_epoch_move(struct muster_segment *seg)
{
    /* seq_cst: what happened before is visible to a waiter that sees the new epoch; it loads the epoch first, then
     * looks, then sleeps only while it is unchanged (mu_wait_on) */
    mu_fetch_add32(&seg->header->epoch, 1);
    mu_futex_wake32(&seg->header->epoch);
}
