/*
 * segment/commit.h: the steps of a commit, inline, so that the hottest caller (overwrite.c) and everybody else
 * (mu_txn_commit() in object.c) run the same code. What each step leaves behind is said in object.c.
 */
#ifndef MU_SEGMENT_COMMIT_H
#define MU_SEGMENT_COMMIT_H

#include "segment/object.h"
#include "segment/pin.h"
#include "sync/futex.h"

static inline void mu_commit_begin(struct mu_txn *t, struct mu_ctx *ctx, mu_a64 *word)
{
    t->ctx = ctx;
    t->word = word;
    t->num_news = 1;
    t->news[0] = 0;
    t->num_olds = 0;
    t->live = 0;
    t->unpinned = false;
    t->woke = false;
}

/* The intent: contents first, then the word that says how much of it counts. */
static inline void mu_commit_record(struct mu_txn *t)
{
    struct mu_slot *own = t->ctx->own;

    /* relaxed: ordered by the release below for a scavenger that reads `act` first; after a death the kernel orders
     * everything. A scavenger may see this attempt's words with the last attempt's count: all of them are of this
     * operation, each read after a confirming look at the word, so freeing by exact generation stays right. */
    for (uint32_t i = 0; i < t->num_news; i++)
        mu_store_relaxed(&own->news[i], t->news[i]);
    for (uint32_t i = 0; i < t->num_olds; i++)
        mu_store_relaxed(&own->olds[i], t->olds[i]);
    /* release: pairs with the acquire in read_intent() */
    mu_store_release(&own->act, MU_ACT(mu_offset_of(t->ctx->seg, t->word), t->num_news, t->num_olds));
}

static inline void mu_commit_forget(struct mu_txn *t)
{
    /* release: the frees before it are done when a scavenger finds no intent */
    mu_store_release(&t->ctx->own->act, 0);
}

/* OWNED -> LIVE for all that are new: parts, then what lists them, then the root. */
static inline void mu_commit_publish(struct mu_txn *t)
{
    for (uint32_t i = t->num_news; i-- > 0;) {
        uint64_t ref = t->news[i];

        if (!ref || (t->live & 1u << i))
            continue;
        if (ref & MU_REF_DEEP) {
            struct mu_block *b = mu_heap_at(t->ctx->seg, MU_REF_INDEX(ref));
            uint32_t refs = MU_META_REFS(mu_load_relaxed(&b->meta)); /* relaxed: our own block */

            for (uint32_t k = 0; k < refs; k++)
                mu_heap_publish(t->ctx, mu_load_relaxed(&b->body[k])); /* relaxed: likewise */
        }
        mu_heap_publish(t->ctx, ref);
        t->live |= 1u << i;
    }
}

static inline void mu_commit_free_olds(struct mu_txn *t)
{
    struct mu_ctx *ctx = t->ctx;

    if (t->num_olds) /* a root: never pinned, without parts, and its index was looked at when it was read */
        mu_heap_free_word(ctx->seg, ctx, MU_REF_INDEX(t->olds[0]),
                          MU_BLOCK_WORD(MU_REF_GENERATION(t->olds[0]), 0, 0, MU_LIVE));
    for (uint32_t i = 1; i < t->num_olds; i++)
        if (t->unpinned || !mu_pin_others(ctx->seg, t->olds[i], ctx->slot))
            mu_heap_free(ctx->seg, ctx, t->olds[i]);
}

/*
 * The word's tag becomes `tag`, which nobody has seen there before. Quietly: the sleepers sleep on, and S stays for
 * the commit that is for them.
 */
static inline enum mu_commit mu_commit_as(struct mu_txn *t, uint64_t tag, bool quietly)
{
    struct mu_ctx *ctx = t->ctx;
    uint32_t index = MU_WORD_INDEX(t->seen);
    uint64_t seen = t->seen;
    uint64_t next = MU_WORD(t->news[0] ? MU_REF_INDEX(t->news[0]) : 0, tag);

    if (index) {
        uint64_t w = mu_load_acquire(&mu_heap_at(ctx->seg, index)->word); /* acquire: before the look at the object */

        if (!mu_word_same(mu_recheck(t->word), seen))
            return MU_RETRY;
        t->olds[0] = MU_REF(MU_BLOCK_GENERATION(w), index);
    }
    mu_commit_record(t);
    mu_commit_publish(t);
    /* The commit. acq_rel: releases the new blocks to every reader of the word; acquires the last commit: its blocks
     * we are about to free. Fails spuriously for us when only S came: then the object is the same and we go on. */
    while (!mu_cas_seen(t->word, &seen, quietly ? next | (seen & MU_WORD_S) : next))
        if (!mu_word_same(seen, t->seen))
            return MU_RETRY;
    t->woke = !quietly && (seen & MU_WORD_S);
    if (t->woke)
        mu_futex_wake(t->word);
    mu_commit_free_olds(t);
    mu_commit_forget(t);
    return MU_COMMITTED;
}

static inline enum mu_commit mu_commit_try(struct mu_txn *t)
{
    return mu_commit_as(t, MU_WORD_TAG(t->seen) + 1, false);
}

#endif
