/*
 * segment/scavenge.c: cleaning up after the dead.
 *
 * For a slot that is LIVE without an owner: mark it DEAD (CAS); tell the task's room, which sets the error; move the
 * epoch, which wakes everybody, also sleepers of a waker that died between its commit and its wake; then free what the
 * intent names and its object does not reach; sweep the blocks that are OWNED by {slot, incarnation}; settle its pin;
 * and last the CAS DEAD -> FREE, incarnation + 1, after which the slot may be claimed.
 *
 * Every step is a CAS on the exact word that was seen, so it may be repeated, interleaved with another scavenger's or
 * cut off by a SIGKILL; the slot stays DEAD until all are done. A scavenger that was stopped half-way for a long time
 * may find the slot re-used: so after reading the intent it looks again whether the slot is still that death; and what
 * it sweeps names the incarnation. It never writes the dead one's intent: only the slot's next owner clears it.
 */
#include "segment/scavenge.h"

#include "base/process.h"
#include "segment/bundle.h"
#include "segment/work.h"
#include "segment/heap.h"
#include "segment/hold.h"
#include "segment/hosts.h"
#include "segment/object.h"
#include "segment/pin.h"
#include "segment/slot.h"
#include "sync/futex.h"

struct intent {
    uint64_t act, news[MU_INTENT_REFS], olds[MU_INTENT_REFS], pin, pin_object;
};

/* Copy the dead one's private line; false when the slot is no longer that death, so that the copy means nothing. */
static bool read_intent(const struct mu_slot *s, uint64_t dead, struct intent *in)
{
    in->act = mu_load_acquire(&s->act); /* acquire: pairs with record() in object.c */
    mu_copy_out(in->news, s->news, MU_INTENT_REFS);
    mu_copy_out(in->olds, s->olds, MU_INTENT_REFS);
    in->pin = mu_load_relaxed(&s->pin); /* relaxed: re-checked next */
    in->pin_object = mu_load_relaxed(&s->pin_object);
    return mu_recheck(&s->word) == dead;
}

/* Nothing reaches the block any more. A bundle becomes the dead slot's; the sweep follows. */
static void block_undo(struct muster_segment *seg, uint32_t slot, uint16_t incarnation, uint64_t ref)
{
    if (mu_pin_others(seg, ref, slot))
        return;
    if (ref & MU_REF_HOLDS)
        mu_bundle_orphan(seg, slot, incarnation, ref);
    else
        mu_heap_free(seg, NULL, ref);
}

static void intent_undo(struct muster_segment *seg, uint32_t slot, uint16_t incarnation, const struct intent *in)
{
    const mu_a64 *object = mu_slot_object(seg, MU_ACT_OFFSET(in->act));
    uint32_t news = MU_ACT_NEWS(in->act), olds = MU_ACT_OLDS(in->act);

    if (!in->act || !object)
        return;
    /* What the dead one replaced, or had just committed and a peer has replaced since, somebody may still be reading:
     * the end of that pin frees it. */
    for (uint32_t i = 0; i < news && i < MU_INTENT_REFS; i++)
        if (in->news[i] && !mu_object_reaches(seg, object, in->news[i]))
            block_undo(seg, slot, incarnation, in->news[i]);
    for (uint32_t i = 0; i < olds && i < MU_INTENT_REFS; i++)
        if (in->olds[i] && !mu_object_reaches(seg, object, in->olds[i]))
            block_undo(seg, slot, incarnation, in->olds[i]);
}

/* A ledger's block was made a slot's that had ended by then, and the thread that made it so died before it freed it. */
static bool ledger_is_lost(const struct muster_segment *seg, const struct mu_block *b, uint64_t word)
{
    /* relaxed: a guess, for the CAS that frees it is of the very word; acquire: behind the block's word, for the owner
     * of an OWNED block held its slot before */
    return MU_META_TYPE(mu_load_relaxed(&b->meta)) == MU_TYPE_LEDGER && MU_BLOCK_SLOT(word) < seg->num_slots &&
           MU_SLOT_INCARNATION(mu_load_acquire(&seg->slots[MU_BLOCK_SLOT(word)].word)) != MU_BLOCK_INCARNATION(word);
}

/* Every block that is OWNED by {slot, incarnation}, wherever it is. */
static void owned_sweep(struct muster_segment *seg, struct mu_ctx *ctx, uint32_t slot, uint16_t incarnation)
{
    for (uint32_t c = 0; c < seg->num_chunks; c++) {
        uint32_t class_index = MU_CHUNK_CLASS(mu_load32_acquire(&seg->chunks[c])); /* acquire: pairs with the claim */
        uint32_t step, blocks;

        if (!class_index || class_index > MU_CLASSES)
            continue;
        blocks = mu_heap_chunk_blocks(class_index - 1);
        step = (uint32_t)(mu_heap_class_bytes(class_index - 1) + MU_BLOCK_HEADER) / MU_GRANULE;
        for (uint32_t i = 0; i < blocks; i++) {
            struct mu_block *b = mu_heap_block(seg, c * MU_CHUNK_GRANULES + i * step + 1, NULL);
            uint64_t w = mu_load_acquire(&b->word); /* acquire: the dead one's own CAS; the kernel ordered it */

            if (MU_BLOCK_STATE(w) == MU_OWNED && mu_bundle_is_of(b, w, slot, incarnation))
                mu_bundle_inherit(seg, ctx, c * MU_CHUNK_GRANULES + i * step + 1, w);
            else if (MU_BLOCK_STATE(w) == MU_OWNED &&
                     ((MU_BLOCK_SLOT(w) == slot && MU_BLOCK_INCARNATION(w) == incarnation) ||
                      ledger_is_lost(seg, b, w)))
                mu_cas(&b->word, w, /* acq_rel: pairs with mu_heap_take() */
                       MU_BLOCK_WORD(MU_BLOCK_GENERATION(w) + 1, 0, 0, MU_FREE));
        }
    }
}

/* What cannot be dropped now is no failure of the call that cleans up. */
static bool ledger_end(struct mu_ctx *ctx, uint32_t slot, uint64_t dead)
{
    char kept[MU_SENTENCE_MAX];
    bool done;

    mu_error_keep(kept);
    done = mu_hold_inherit(ctx, slot, dead) && mu_hold_empty(ctx, slot, dead);
    mu_error_restore(kept);
    return done;
}

/*
 * `dead`: the slot's word in state DEAD. Returns whether this call did the last step. Without a context (NULL) no slot
 * is finished that has a ledger: none of those that are kept for cleaning up has.
 */
static bool dead_slot_finish(struct muster_segment *seg, struct mu_ctx *ctx, uint32_t slot, uint64_t dead)
{
    struct mu_slot *s = &seg->slots[slot];
    struct intent in;

    if (!read_intent(s, dead, &in))
        return false;
    intent_undo(seg, slot, MU_SLOT_INCARNATION(dead), &in);
    if (!mu_hold_resolve(seg, slot, dead))
        return false;
    /* acq_rel: no first block comes from now on; pairs with ledger_extend() */
    mu_cas(&s->ledger, MU_LEDGER_NONE(MU_SLOT_INCARNATION(dead)), MU_LEDGER_CLOSED(MU_SLOT_INCARNATION(dead)));
    if (MU_LEDGER_IS_BLOCK(mu_load_acquire(&s->ledger)) && /* acquire: pairs with a new block's */
        !(ctx && ledger_end(ctx, slot, dead)))
        return false;
    if (ctx && !mu_work_bury(ctx, slot, dead))
        return false;
    owned_sweep(seg, ctx, slot, MU_SLOT_INCARNATION(dead));
    if (ctx)
        mu_bundle_finish(ctx);
    mu_fence_seq_cst(); /* the mark DEAD comes before this look at the object; pairs with mu_pin_others() */
    mu_pin_settle(seg, NULL, in.pin_object, in.pin, slot);
    mu_heap_tell(seg, MU_WANTED_RUNS); /* of all that was freed here, or by the dead one just before it died */
    /* acq_rel: everything above comes before the slot's next claim */
    return mu_cas(&s->word, dead, MU_SLOT_WORD(0, 0, MU_SLOT_INCARNATION(dead) + 1, MU_SLOT_FREE));
}

static void waiters_wake(struct muster_segment *seg)
{
    mu_work_rescan(seg); /* what the dead one was about to put into the queue, or had just taken, is in none */
    mu_epoch_move(seg);
    mu_bell_ring(seg); /* the dead one may have committed something and not rung */
}

static bool dead_slot_bury(struct mu_ctx *ctx, uint32_t slot, uint64_t word, mu_death_fn on_death, void *arg)
{
    struct mu_slot *s = &ctx->seg->slots[slot];
    uint64_t dead = (word & ~3ull) | MU_SLOT_DEAD;
    bool first, done;
    uint64_t task;

    /* acq_rel: of all scavengers that saw it LIVE and without an owner, one marks it; the others carry on with the same
     * death */
    first = MU_SLOT_STATE(word) == MU_SLOT_LIVE && mu_cas(&s->word, word, dead);
    if (!first && mu_load_acquire(&s->word) != dead) /* acquire: pairs with that CAS */
        return false;
    task = mu_load_relaxed(&s->task); /* relaxed: re-checked next */
    if (mu_recheck(&s->word) != dead)
        return false;
    if (on_death)
        on_death(arg, ctx, &(struct mu_death){slot, dead, task, !first});
    /* Once by the thread that marked it, and once by the one that ended it, for the first may have died in between. A
     * slot that stays DEAD for a while, since another is at it, wakes nobody again. */
    if (first)
        waiters_wake(ctx->seg);
    done = dead_slot_finish(ctx->seg, ctx, slot, dead);
    if (done && !first)
        waiters_wake(ctx->seg);
    return done;
}

uint32_t mu_scavenge(struct mu_ctx *ctx, mu_death_fn on_death, void *arg)
{
    uint32_t high = mu_slot_high(ctx->seg), done = 0, before, left;

    do { /* again, as long as that finishes something: a ledger waits for what other dead slots were changing in it */
        before = done;
        left = 0;
        for (uint32_t i = 0; i < high; i++) {
            uint64_t w = mu_load_acquire(&ctx->seg->slots[i].word); /* acquire: pairs with the claim */

            if (i == ctx->slot || (MU_SLOT_STATE(w) != MU_SLOT_DEAD && !mu_slot_is_dead(ctx->seg, i, w)))
                continue;
            if (dead_slot_bury(ctx, i, w, on_death, arg))
                done++;
            else
                left++;
        }
    } while (left && done != before);
    return done;
}

uint32_t mu_scavenge_process(struct mu_ctx *ctx, uint32_t pid, uint64_t task_word, mu_death_fn on_death, void *arg)
{
    uint32_t high = mu_slot_high(ctx->seg), done = 0;

    for (uint32_t i = 0; i < high; i++) {
        const struct mu_slot *s = &ctx->seg->slots[i];
        uint64_t w = mu_load_acquire(&s->word); /* acquire: pairs with the claim */

        if (i == ctx->slot || MU_SLOT_STATE(w) == MU_SLOT_FREE || MU_SLOT_PID(w) != pid)
            continue;
        mu_slot_settle(ctx->seg, i); /* so that the slot can be claimed again */
        /* relaxed, both: of the owner that the word names, or dead_slot_bury()'s CAS from that word fails */
        if (MU_SLOT_STATE(w) == MU_SLOT_DEAD || mu_slot_is_dead(ctx->seg, i, w) ||
            (mu_load_relaxed(&s->task) == task_word && mu_load_relaxed(&s->pid_namespace) == mu_namespace("pid")))
            done += dead_slot_bury(ctx, i, w, on_death, arg);
    }
    return done;
}

void mu_scavenge_reserved(struct muster_segment *seg)
{
    for (uint32_t i = seg->num_slots - seg->reserved_slots; i < seg->num_slots; i++) {
        struct mu_slot *s = &seg->slots[i];
        uint64_t w = mu_load_acquire(&s->word), dead = (w & ~3ull) | MU_SLOT_DEAD; /* acquire: pairs with the claim */

        if (MU_SLOT_STATE(w) != MU_SLOT_DEAD && !mu_slot_is_dead(seg, i, w))
            continue;
        if (w == dead || mu_cas(&s->word, w, dead)) /* as in dead_slot_bury() */
            dead_slot_finish(seg, NULL, i, dead);
    }
}
