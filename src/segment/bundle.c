/*
 * segment/bundle.c: counted references of an object to others, in one block.
 *
 * Invariant: the references in a bundle are counted once each, from mu_bundle_hold() until its drop, and one thread at
 * most changes them: the owner of the block, which is OWNED; nobody while it is LIVE.
 *
 *   mu_bundle_new()    FREE -> OWNED by ctx, filled, the type last
 *   a commit           OWNED -> LIVE, with the object that names it
 *   mu_heap_free()     LIVE -> OWNED by ctx, by CAS, behind the commit by which the object lost it
 *   ...                its references are dropped one by one, the type goes, OWNED -> FREE
 *
 * What a SIGKILL leaves: a block that is OWNED by the dead slot, or LIVE and named by its intent alone, which
 * mu_bundle_orphan() makes the dead slot's. The sweep finds either, and by CAS of the block's word one scavenger
 * has it; the dead slot's operation is resolved before. If that scavenger dies, the next one finds it likewise. What
 * cannot be dropped, for want of memory or of a context, becomes nobody's, and the next sweep takes it.
 */
#include "segment/bundle.h"

enum muster_status mu_bundle_new(struct mu_ctx *ctx, uint32_t count, size_t bytes, uint64_t *ret_ref)
{
    size_t whole = sizeof(struct mu_bundle) + count * 8ull + (bytes + 7) / 8 * 8;
    struct mu_block *b;
    uint64_t ref;
    enum muster_status status = mu_heap_alloc(ctx, whole, 0, &ref, &b);

    if (status)
        return status;
    /* relaxed, as all here: our own block */
    mu_store_relaxed(&b->body[0], 0);
    mu_store_relaxed(&b->body[1], count);
    for (uint32_t i = 0; i < count; i++)
        mu_store_relaxed(&b->body[2 + i], 0);
    mu_store_release(&b->meta, MU_META(whole, 0, MU_TYPE_BUNDLE)); /* release: pairs with mu_bundle_is_of() */
    *ret_ref = ref | MU_REF_HOLDS;
    return MUSTER_OK;
}

bool mu_bundle_is_sound(const struct muster_segment *seg, uint64_t ref, uint32_t count, uint64_t bytes)
{
    uint32_t limit;
    struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(ref), &limit);

    /* relaxed: the caller has it, or holds the object that has */
    return (ref & MU_REF_HOLDS) && b && mu_load_relaxed(&b->body[1]) == count && bytes <= limit &&
           MU_BLOCK_HEADER + sizeof(struct mu_bundle) + count * 8ull + bytes <= limit;
}

enum muster_status mu_bundle_hold(struct mu_ctx *ctx, uint64_t ref, uint32_t i, uint64_t object)
{
    return mu_hold_take(ctx, (mu_a64 *)&mu_bundle_at(ctx->seg, ref)->refs[i], object);
}

/* True: nothing of it is counted any more. */
static bool refs_drop(struct mu_ctx *ctx, struct mu_block *b)
{
    uint64_t count = mu_load_relaxed(&b->body[1]); /* relaxed, as all here: our own block */
    bool empty = true;

    for (uint64_t i = 0; i < count; i++) {
        mu_a64 *record = &b->body[2 + i];
        uint64_t ref = mu_load_relaxed(record);

        if (!ref)
            continue;
        mu_hold_drop(ctx, record, ref, 0, true);
        empty = empty && !mu_load_relaxed(record);
    }
    return empty;
}

/* Not one within another: what a drop ends is added to the list. */
void mu_bundle_finish(struct mu_ctx *ctx)
{
    char kept[MU_SENTENCE_MAX];

    if (ctx->ending || !ctx->ended)
        return;
    ctx->ending = true;
    mu_error_keep(kept);
    while (ctx->ended) {
        uint64_t ref = ctx->ended;
        struct mu_block *b = mu_heap_at(ctx->seg, MU_REF_INDEX(ref));

        ctx->ended = mu_load_relaxed(&b->body[0]); /* relaxed: our own block */
        if (refs_drop(ctx, b)) {
            mu_store_release(&b->meta, 0); /* release: no bundle any more, before it is free; pairs with the sweep */
            mu_heap_discard(ctx, ref);
        } else { /* release: pairs with the CAS in mu_bundle_inherit() */
            mu_store_release(&b->word, MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, MU_BUNDLE_NOBODY, MU_OWNED));
        }
    }
    mu_error_restore(kept);
    ctx->ending = false;
}

void mu_bundle_orphan(struct muster_segment *seg, uint32_t slot, uint16_t incarnation, uint64_t ref)
{
    struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(ref), NULL);

    /* acq_rel: pairs with the sweep. Failed: another scavenger was here, or the dead one itself. */
    if (b)
        mu_cas(&b->word, MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, 0, MU_LIVE),
               MU_BLOCK_WORD(MU_REF_GENERATION(ref), incarnation, slot, MU_OWNED));
}

bool mu_bundle_is_of(const struct mu_block *b, uint64_t word, uint32_t slot, uint16_t incarnation)
{
    /* acquire: behind the type, which is written last, stand the references */
    return ((MU_BLOCK_SLOT(word) == slot && MU_BLOCK_INCARNATION(word) == incarnation) ||
            MU_BLOCK_SLOT(word) == MU_BUNDLE_NOBODY) &&
           MU_META_TYPE(mu_load_acquire(&b->meta)) == MU_TYPE_BUNDLE;
}

void mu_bundle_inherit(struct muster_segment *seg, struct mu_ctx *ctx, uint32_t index, uint64_t word)
{
    struct mu_block *b = mu_heap_at(seg, index);
    uint64_t ref = MU_REF(MU_BLOCK_GENERATION(word), index) | MU_REF_HOLDS;

    /* acq_rel, both: one scavenger has it; pairs with the dead one's, or the last scavenger's, changes of it */
    if (!ctx)
        mu_cas(&b->word, word, MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, MU_BUNDLE_NOBODY, MU_OWNED));
    else if (mu_cas(&b->word, word, MU_BLOCK_WORD(MU_REF_GENERATION(ref), ctx->incarnation, ctx->slot, MU_OWNED)))
        mu_bundle_end(ctx, ref);
}
