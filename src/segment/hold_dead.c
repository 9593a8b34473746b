/*
 * segment/hold_dead.c: counted references after a death: what the dead one was changing is decided by its mark, and
 * what its ledger holds is dropped. What each death leaves stands in hold.c.
 *
 * Any number of scavengers may resolve: that is one CAS of a claim, which is never made twice. But a record that holds
 * a reference looks the same when its block is another process's, so one scavenger alone drops what a ledger holds, the
 * heir, and frees the slot: while it lives nobody else does. A heir that dies is followed by another, which finds what
 * the first was at by its slot's own operation. A heir that is stopped delays the freeing of what the dead one held,
 * and nobody's wait: what the dead one had not sealed is made an error before, by everybody.
 */
#include "segment/hold.h"

#include "segment/slot.h"

enum { AT_ONCE = 4096 /* records that a heir drops before it goes on to its other duties */ };

mu_a64 *mu_ledger_records(const struct muster_segment *seg, uint64_t ref, uint32_t slot, uint16_t incarnation,
                          uint32_t *ret_count, uint64_t *ret_before)
{
    uint32_t limit, bytes;
    struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(ref), &limit);

    /* acquire: pairs with the store that made it the slot's, behind its records and what it names */
    if (!b || mu_load_acquire(&b->word) != MU_BLOCK_WORD(MU_REF_GENERATION(ref), incarnation, slot, MU_OWNED))
        return NULL;
    bytes = MU_META_BYTES(mu_load_relaxed(&b->meta)); /* relaxed: constant while the slot has it */
    if (bytes < 16 || bytes > limit - MU_BLOCK_HEADER ||
        MU_META_TYPE(mu_load_relaxed(&b->meta)) != MU_TYPE_LEDGER) /* relaxed: likewise */
        return NULL;
    *ret_before = mu_load_relaxed(&b->body[0]); /* relaxed: likewise */
    *ret_count = bytes / 8 - 1;
    return (mu_a64 *)b->body + 1;
}

void mu_ledger_walk(struct mu_ledger_walk *walk, const struct muster_segment *seg, uint32_t slot, uint16_t incarnation)
{
    walk->seg = seg;
    walk->block = mu_load_acquire(&seg->slots[slot].ledger); /* acquire: pairs with the store of a new block */
    walk->left = seg->num_objects + MU_BODY_MAX / 8;         /* records: no sound ledger has more */
    walk->slot = slot;
    walk->incarnation = incarnation;
}

mu_a64 *mu_ledger_next(struct mu_ledger_walk *walk, uint32_t *ret_count)
{
    mu_a64 *records;
    uint64_t before;

    if (!MU_LEDGER_IS_BLOCK(walk->block))
        return NULL;
    records = mu_ledger_records(walk->seg, walk->block, walk->slot, walk->incarnation, ret_count, &before);
    if (!records || *ret_count > walk->left)
        return NULL;
    walk->left -= *ret_count;
    walk->block = before;
    return records;
}

/* The record at an offset taken from shared memory, or NULL when none can be there. */
static mu_a64 *record_at(const struct muster_segment *seg, uint64_t offset)
{
    uint64_t heap = mu_offset_of(seg, seg->heap);
    bool inside = offset >= heap && offset < heap + (uint64_t)seg->num_chunks * MU_CHUNK;
    /* acquire: pairs with the claim of the chunk; its pages are there before */
    bool there = inside && mu_load32_acquire(&seg->chunks[(offset - heap) / MU_CHUNK]);

    return there && offset % 8 == 0 ? (mu_a64 *)(seg->base + offset) : NULL;
}

/* Whether the object's count has the mark; *ret_gone: there is no such object any more. */
static bool object_has_mark(const struct muster_segment *seg, uint64_t ref, uint64_t mark, bool *ret_gone)
{
    const mu_a64 *word = mu_object_word(seg, ref);

    for (;;) {
        uint64_t w = word ? mu_load_acquire(word) : 0; /* acquire: pairs with the commit's CAS */
        uint32_t limit, n;
        struct mu_block *b = mu_heap_block(seg, MU_WORD_INDEX(w), &limit);
        bool found = false;

        *ret_gone = !b || mu_load_relaxed(&b->body[1]) != ref; /* relaxed, as all here: the word is looked at again */
        n = b && !*ret_gone ? MU_OBJECT_MARKS(mu_load_relaxed(&b->body[2])) : 0;
        for (uint32_t i = 0; i < n && MU_BLOCK_HEADER + (8 + i) * 8 <= limit; i++)
            found |= mu_load_relaxed(&b->body[7 + i]) == mark;
        if (!word || mu_word_same(mu_recheck(word), w))
            return found;
    }
}

bool mu_hold_resolve(struct muster_segment *seg, uint32_t slot, uint64_t dead)
{
    struct mu_slot *s = &seg->slots[slot];
    uint64_t op = mu_load_acquire(&s->op);            /* acquire: pairs with op_begin() */
    uint64_t ref = mu_load_relaxed(&s->op_object);    /* relaxed: the slot is looked at again */
    uint64_t offset = mu_load_relaxed(&s->op_record); /* likewise */
    uint64_t number = MU_HOLD_OP_NUMBER(op), claim = MU_HOLD_CLAIM(slot, number);
    bool takes = MU_HOLD_KIND(op) == MU_HOLD_TAKE, gone, counted;
    mu_a64 *record;

    if (mu_recheck(&s->word) != dead)
        return false;
    record = record_at(seg, offset);
    /* acquire: pairs with the claim, before which came the commit's count if it came */
    if (MU_HOLD_KIND(op) == MU_HOLD_NONE || !record || mu_load_acquire(record) != claim)
        return true;
    counted = object_has_mark(seg, ref, MU_HOLD_MARK(slot, number), &gone);
    if (gone) /* so a drop was the last one's; what a take had counted would have kept it */
        counted = !takes;
    /* acq_rel: other scavengers that resolve it have seen the same; pairs with the loads of records below */
    mu_cas(record, claim, takes == counted ? ref : 0);
    return true;
}

/* The dead maker will not seal the object: it becomes an error, for its waiters. No count changes, so any scavenger may
 * do it. */
static enum muster_status object_orphaned(struct mu_object *o, void *arg)
{
    return mu_object_orphan(o, *(const uint64_t *)arg) ? MUSTER_OK : MUSTER_ALREADY_EXISTS;
}

/* False: not now. The record may name another object by now; only one of the dead maker's becomes an error. */
static bool unsealed_fails(struct mu_ctx *ctx, uint64_t ref, uint64_t maker)
{
    struct mu_object o;
    enum muster_status status = mu_object_peek(ctx->seg, ref, ctx->scratch, &o);

    if (!status && (o.state == MU_OBJECT_WRITING || o.state == MU_OBJECT_PLACE) && o.maker == maker)
        status = mu_object_change(ctx, ref, 0, object_orphaned, &maker, false);
    return status != MUSTER_RESOURCE_EXHAUSTED && status != MUSTER_UNAVAILABLE;
}

/*
 * Whether the membership of the dead slot has another slot that is held: its thread may still be at the records, for
 * the kernel ends the threads of a process one after the other. A program that this one has exec'ed, or that joined
 * again, is another member.
 */
static bool member_lives(const struct muster_segment *seg, uint32_t slot, uint64_t dead)
{
    uint32_t high = mu_slot_high(seg);
    /* relaxed, as below: of the word's owner */
    uint64_t namespace = mu_load_relaxed(&seg->slots[slot].pid_namespace),
             task = mu_load_relaxed(&seg->slots[slot].task);
    uint64_t member = mu_load_relaxed(&seg->slots[slot].member);

    for (uint32_t i = 0; i < high; i++) {
        const struct mu_slot *s = &seg->slots[i];
        uint64_t w = mu_load_acquire(&s->word), its; /* acquire: pairs with the claim */

        if (i == slot || MU_SLOT_STATE(w) != MU_SLOT_LIVE || MU_SLOT_PID(w) != MU_SLOT_PID(dead) ||
            MU_SLOT_START(w) != MU_SLOT_START(dead) || mu_load_relaxed(&s->pid_namespace) != namespace ||
            mu_load_relaxed(&s->task) != task)
            continue;
        its = mu_load_acquire(&s->member); /* acquire: pairs with the stores behind a claim */
        if ((!its || !member || its == member) && !mu_slot_is_dead(seg, i, w) && !mu_slot_is_orphan(seg, i, w))
            return true;
    }
    return false;
}

/*
 * Make errors of all unsealed objects in the dead slot's ledger. Once no thread is left that could add to it, no record
 * was claimed, and there was memory, the slot's `failed` says so, and no scavenger looks again.
 */
static void unsealed_fail(struct mu_ctx *ctx, uint32_t slot, uint64_t dead, bool is_last)
{
    struct mu_slot *s = &ctx->seg->slots[slot];
    uint64_t maker = MU_OBJECT_MAKER(slot, MU_SLOT_INCARNATION(dead)), ref;
    struct mu_ledger_walk walk;
    bool whole = is_last;
    mu_a64 *records;
    uint32_t count;

    if (mu_load_acquire(&s->failed) == MU_SLOT_INCARNATION(dead) + 1ull) /* acquire: pairs with the store below */
        return;
    mu_ledger_walk(&walk, ctx->seg, slot, MU_SLOT_INCARNATION(dead));
    while ((records = mu_ledger_next(&walk, &count)) != NULL)
        for (uint32_t i = 0; i < count; i++) {
            ref = mu_load_acquire(&records[i]); /* acquire: pairs with the stores of the record */
            if (ref && !(MU_OBJECT_GENERATION(ref) && unsealed_fails(ctx, ref, maker)))
                whole = false;
        }
    if (whole && mu_recheck(&s->word) == dead)
        mu_store_release(&s->failed, MU_SLOT_INCARNATION(dead) + 1ull); /* release: behind those commits */
}

/* Whether the heir that the word names can still act. */
static bool heir_lives(const struct muster_segment *seg, uint64_t heir)
{
    uint32_t slot = MU_HEIR_SLOT(heir);
    uint64_t w;

    if (slot >= seg->num_slots)
        return false;
    w = mu_load_acquire(&seg->slots[slot].word); /* acquire: pairs with the claim and the burial */
    return MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_SLOT_INCARNATION(w) == MU_HEIR_INCARNATION(heir) &&
           !mu_slot_is_dead(seg, slot, w);
}

bool mu_hold_inherit(struct mu_ctx *ctx, uint32_t slot, uint64_t dead)
{
    struct mu_slot *s = &ctx->seg->slots[slot];
    uint16_t incarnation = MU_SLOT_INCARNATION(dead);
    uint64_t own = MU_HEIR(incarnation, ctx->slot, ctx->incarnation);
    uint64_t heir = mu_load_acquire(&s->heir); /* acquire: pairs with the CAS below */
    bool lives;

    mu_fence_seq_cst(); /* the mark DEAD comes before the look at other slots; pairs with the fence in mu_ledger_lock()
                         */
    lives = member_lives(ctx->seg, slot, dead);
    unsealed_fail(ctx, slot, dead, !lives);
    if (lives)
        return false;
    while (heir != own) {
        /* The word that was read is of this death, or of an earlier one, for the next owner changes it first: so the
         * CAS below fails where the slot has another owner by then. */
        if (mu_recheck(&s->word) != dead)
            return false;
        /* the word never goes back to an earlier death: a scavenger that comes too late for this one leaves it alone */
        if (MU_HEIR_IS_LATER(heir, incarnation) || (MU_HEIR_IS_OF(heir, incarnation) && heir_lives(ctx->seg, heir)))
            return false;
        /* acq_rel: one follows; what the last heir did before its death the kernel has ordered */
        if (mu_cas_seen(&s->heir, &heir, own))
            break;
    }
    /* behind the CAS: of a slot that has another owner by now the word names an old incarnation, and means nothing */
    return mu_recheck(&s->word) == dead;
}

/*
 * Drop what the record holds. What the dead one had not sealed is an error before the record is claimed, so that nobody
 * waits for a heir that is stopped behind the claim; where there is no memory for that, with the drop.
 */
static enum muster_status record_end(struct mu_ctx *ctx, mu_a64 *record, uint64_t ref, uint64_t maker)
{
    enum muster_status status;

    unsealed_fails(ctx, ref, maker);
    status = mu_hold_drop(ctx, record, ref, maker, false);
    if (status != MUSTER_RESOURCE_EXHAUSTED && status != MUSTER_UNAVAILABLE)
        ctx->drops++;
    return status;
}

/* Whether the record's is the last reference: its drop needs no memory, and makes room. */
static bool record_is_last(struct mu_ctx *ctx, uint64_t ref)
{
    struct mu_object o;

    return mu_object_peek(ctx->seg, ref, ctx->scratch, &o) || o.count == 1;
}

/* True: no record holds anything, or is claimed. */
static bool ledger_empty(struct mu_ctx *ctx, uint32_t slot, uint16_t incarnation)
{
    uint64_t maker = MU_OBJECT_MAKER(slot, incarnation);
    uint32_t count, drops = AT_ONCE, looks = 16 * AT_ONCE;
    bool empty = true, full = false;
    struct mu_ledger_walk walk;
    mu_a64 *records;

    mu_ledger_walk(&walk, ctx->seg, slot, incarnation);
    while ((records = mu_ledger_next(&walk, &count)) != NULL)
        for (uint32_t i = 0; i < count; i++) {
            uint64_t ref = mu_load_acquire(&records[i]); /* acquire: pairs with the stores of the record */

            if (!ref)
                continue;
            if (!drops || !looks--)
                return false;
            if (MU_OBJECT_GENERATION(ref) && (!full || record_is_last(ctx, ref))) {
                drops--;
                full = record_end(ctx, &records[i], ref, maker) == MUSTER_RESOURCE_EXHAUSTED;
            }
            empty = empty && !mu_load_acquire(&records[i]); /* acquire: likewise; claimed, or there is no memory */
        }
    return empty;
}

bool mu_hold_empty(struct mu_ctx *ctx, uint32_t slot, uint64_t dead)
{
    struct mu_slot *s = &ctx->seg->slots[slot];
    uint16_t incarnation = MU_SLOT_INCARNATION(dead);

    if (ledger_empty(ctx, slot, incarnation))
        return mu_recheck(&s->word) == dead;
    /* Others may go on with it. acq_rel: what was dropped comes before the next heir. Failed: the slot is another's by
     * now. */
    mu_cas(&s->heir, MU_HEIR(incarnation, ctx->slot, ctx->incarnation), MU_HEIR(incarnation, MU_HEIR_NOBODY, 0));
    return false;
}
