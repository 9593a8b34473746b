/*
 * segment/pin.c: pins.
 *
 * Invariant: a block that was reachable when it was pinned by a slot in state LIVE is not freed while that pin stands.
 * The reader stores its pin, then looks at the object's word; the freer commits, then looks at the pins; between store
 * and look each has a sequentially consistent fence, so at least one sees the other (Dekker). Symmetrically at the end:
 * the reader clears its pin, then looks whether the object still has the block; the freer committed before it looked.
 * A dead reader's pin counts until its slot is marked DEAD; the scavenger marks, then settles: the same argument.
 * A SIGKILL between the clearing and the freeing would lose the block, so the intent names it first: ending a pin is an
 * ordinary free. A scan reads a slot's state before its pin: the other order could join the last owner's pin with
 * the next owner's LIVE, and leave the block for ever.
 */
#include "segment/pin.h"

#include "segment/object.h"
#include "segment/slot.h"

bool mu_pin(struct mu_ctx *ctx, const mu_a64 *object, uint64_t seen, uint64_t ref)
{
    struct mu_slot *own = ctx->own;

    /* relaxed: the fence below orders them; a scavenger reads them after a death only */
    mu_store_relaxed(&own->pin_object, mu_offset_of(ctx->seg, object));
    mu_store_relaxed(&own->pin, ref);
    mu_fence_seq_cst(); /* pairs with the fence in mu_pin_others() */
    if (mu_word_same(mu_recheck(object), seen))
        return true;
    mu_unpin(ctx); /* the block may have been replaced in between by a writer that saw the pin */
    return false;
}

void mu_unpin(struct mu_ctx *ctx)
{
    struct mu_slot *own = ctx->own;
    uint64_t ref = mu_load_relaxed(&own->pin);           /* relaxed: our own words */
    uint64_t object = mu_load_relaxed(&own->pin_object); /* likewise */

    mu_store_relaxed(&own->olds[0], ref); /* relaxed: the release below orders it */
    /* release: pairs with the acquire in read_intent() */
    mu_store_release(&own->act, MU_ACT(object, 0, 1));
    /* release: our reads of the block come before its release; pairs with the load in mu_pin_others() */
    mu_store_release(&own->pin, 0);
    mu_fence_seq_cst(); /* pairs with the fence in mu_pin_others() */
    mu_pin_settle(ctx->seg, ctx, object, ref, ctx->slot);
    mu_store_release(&own->act, 0); /* release: the free, if any, is done when no intent is found */
}

bool mu_pin_others(struct muster_segment *seg, uint64_t ref, uint32_t except)
{
    uint32_t high;

    mu_fence_seq_cst();       /* after the commit, before the pins; pairs with mu_pin() and mu_unpin() */
    high = mu_slot_high(seg); /* behind the fence, too: a new slot's pin is not to be missed */
    for (uint32_t i = 0; i < high; i++) {
        struct mu_slot *s = &seg->slots[i];

        /* acquire: pairs with the claim, which cleared the last owner's pin; so state first, then pin */
        if (i == except || MU_SLOT_STATE(mu_load_acquire(&s->word)) != MU_SLOT_LIVE)
            continue;
        if (((mu_load_acquire(&s->pin) ^ ref) & ~MU_REF_DEEP) == 0) /* acquire: pairs with mu_unpin() */
            return true;
    }
    return false;
}

void mu_pin_settle(struct muster_segment *seg, struct mu_ctx *ctx, uint64_t object_offset, uint64_t ref,
                   uint32_t except)
{
    const mu_a64 *object = mu_slot_object(seg, object_offset);

    if (!ref || !object || !mu_heap_is_live(seg, ref))
        return;
    if (mu_object_reaches(seg, object, ref) || mu_pin_others(seg, ref, except))
        return;
    mu_heap_free(seg, ctx, ref);
}
