/*
 * segment/object.c: the one mechanism: word -> immutable block; copy, change, CAS, free the old.
 *
 * Invariant: the word's tag changes with every commit and never goes back, so an equal {index, tag} before and after a
 * copy means that the copy is whole. Linearization: an update at the CAS in mu_txn_commit(); a read at the load of the
 * word that its re-check confirmed.
 *
 * What a SIGKILL leaves, and how segment/scavenge.c repairs it:
 *   before the intent is written    OWNED blocks                          the sweep frees them
 *   before the CAS                  LIVE new blocks named by the intent    freed, for the object does not reach them
 *   after it                        old blocks named by the intent         freed, for the object no longer does
 *   after it, sleepers not woken    they sleep on                          the death's epoch wakes everybody
 *
 * Two rules that look superfluous and are not. The old root's generation is read, then the object's word is looked at
 * again, before it goes into the intent: else it might be the generation of a block that a peer has taken meanwhile
 * and not yet published, and the scavenger would free it. Each reference is one word: else a scavenger could read the
 * index of one attempt with the generation of another.
 */
#include "segment/object.h"

#include "segment/commit.h"
#include "segment/hosts.h"

enum { DEPTH = 3 /* cluster -> records -> text; page -> value -> parts */ };

/* One look: 1 consistent, 0 changed meanwhile, -1 not well formed. */
static int read_once(const struct muster_segment *seg, const mu_a64 *word, uint64_t *body, struct mu_root *r)
{
    uint32_t limit, words;
    struct mu_block *b;
    uint64_t meta;

    r->refs = r->bytes = r->type = 0;
    r->body = body;
    /* acquire: pairs with the commit CAS; the root's contents come with its word */
    r->word = mu_load_acquire(word);
    if (!MU_WORD_INDEX(r->word))
        return 1;
    b = mu_heap_block(seg, MU_WORD_INDEX(r->word), &limit);
    if (!b)
        return mu_word_same(mu_recheck(word), r->word) ? -1 : 0;
    meta = mu_load_relaxed(&b->meta); /* relaxed: re-checked below, like the copy */
    r->refs = MU_META_REFS(meta);
    r->bytes = MU_META_BYTES(meta);
    r->type = MU_META_TYPE(meta);
    if (r->bytes > limit || MU_BLOCK_HEADER + r->refs * 8 + r->bytes > limit)
        return mu_word_same(mu_recheck(word), r->word) ? -1 : 0;
    words = r->refs + (r->bytes + 7) / 8;
    mu_copy_out(body, b->body, words);
    return mu_word_same(mu_recheck(word), r->word);
}

enum mu_read mu_object_read(const struct muster_segment *seg, const mu_a64 *word, uint64_t *body,
                            struct mu_root *ret_root)
{
    int rc;

    do
        rc = read_once(seg, word, body, ret_root);
    while (!rc);
    if (rc < 0)
        return MU_READ_CORRUPT;
    return MU_WORD_INDEX(ret_root->word) ? MU_READ_OK : MU_READ_EMPTY;
}

/*
 * Does the block refer to `ref`, at most `depth` steps away? *left counts the references still to be followed: a sound
 * segment reaches each block once, so it never runs out; where it does, blocks name one another in circles, and nothing
 * there may be freed.
 */
static bool block_reaches(const struct muster_segment *seg, struct mu_block *b, uint32_t limit, uint64_t ref, int depth,
                          uint64_t *left)
{
    uint32_t refs = MU_META_REFS(mu_load_relaxed(&b->meta)); /* relaxed: the caller re-checks the word */

    for (uint32_t i = 0; i < refs && MU_BLOCK_HEADER + (i + 1) * 8 <= limit; i++) {
        uint64_t r = mu_load_relaxed(&b->body[i]); /* relaxed: likewise */
        struct mu_block *next;
        uint32_t next_limit;

        if (!*left)
            return true;
        --*left;
        if (!r)
            continue;
        if (((r ^ ref) & ~MU_REF_FLAGS) == 0)
            return true;
        if (depth <= 1)
            continue;
        next = mu_heap_block(seg, MU_REF_INDEX(r), &next_limit);
        if (next && block_reaches(seg, next, next_limit, ref, depth - 1, left))
            return true;
    }
    return false;
}

bool mu_object_reaches(const struct muster_segment *seg, const mu_a64 *word, uint64_t ref)
{
    for (;;) {
        uint64_t w = mu_load_acquire(word); /* acquire: pairs with the commit CAS */
        uint32_t limit, index = MU_WORD_INDEX(w);
        struct mu_block *b = index ? mu_heap_block(seg, index, &limit) : NULL;
        uint64_t left = (uint64_t)seg->num_chunks * (MU_CHUNK / 8); /* words of the heap */
        bool found = false;

        if (b)
            found = index == MU_REF_INDEX(ref) ? MU_BLOCK_GENERATION(mu_load_acquire(&b->word)) ==
                                                     MU_REF_GENERATION(ref) /* acquire: pairs with publish */
                                               : block_reaches(seg, b, limit, ref, DEPTH, &left);
        if (mu_word_same(mu_recheck(word), w))
            return found;
    }
}

void mu_txn_begin(struct mu_txn *t, struct mu_ctx *ctx, mu_a64 *word)
{
    mu_commit_begin(t, ctx, word);
}

enum mu_read mu_txn_read(struct mu_txn *t, struct mu_root *ret_root)
{
    enum mu_read rc = mu_object_read(t->ctx->seg, t->word, t->ctx->scratch, ret_root);

    t->seen = ret_root->word;
    t->num_olds = MU_WORD_INDEX(t->seen) ? 1 : 0;
    return rc;
}

/* Give back news[i], whichever state it is in. */
static void news_give_back(struct mu_txn *t, uint32_t i)
{
    struct mu_ctx *ctx = t->ctx;
    uint64_t ref = t->news[i];

    if (!ref)
        return;
    if (t->live & 1u << i) {
        mu_heap_free(ctx->seg, ctx, ref);
    } else {
        if (ref & MU_REF_DEEP) { /* its parts are OWNED like itself */
            struct mu_block *b = mu_heap_block(ctx->seg, MU_REF_INDEX(ref), NULL);
            uint32_t refs = MU_META_REFS(mu_load_relaxed(&b->meta)); /* relaxed: our own block */

            for (uint32_t k = 0; k < refs; k++) {
                uint64_t part = mu_load_relaxed(&b->body[k]); /* relaxed: likewise */

                if (part)
                    mu_heap_discard(ctx, part);
            }
        }
        if (ref & MU_REF_HOLDS)
            mu_bundle_end(ctx, ref);
        else
            mu_heap_discard(ctx, ref);
    }
    t->live &= ~(1u << i);
    t->news[i] = 0;
}

enum muster_status mu_txn_root(struct mu_txn *t, uint32_t type, uint32_t refs, size_t bytes, uint32_t flags,
                               mu_a64 **ret_body)
{
    struct mu_block *b;
    enum muster_status status;
    uint64_t ref;

    news_give_back(t, 0);
    status = mu_heap_alloc(t->ctx, refs * 8 + bytes, flags, &ref, &b);
    if (status)
        return status;
    t->news[0] = ref;
    mu_store_relaxed(&b->meta, MU_META(bytes, refs, type)); /* relaxed: the commit CAS publishes */
    *ret_body = b->body;
    return MUSTER_OK;
}

void mu_txn_no_root(struct mu_txn *t)
{
    news_give_back(t, 0);
}

void mu_txn_new(struct mu_txn *t, uint64_t ref)
{
    t->news[t->num_news++] = ref;
}

void mu_txn_drop_last(struct mu_txn *t)
{
    news_give_back(t, t->num_news - 1);
    t->num_news--;
}

void mu_txn_old(struct mu_txn *t, uint64_t ref)
{
    t->olds[t->num_olds++] = ref;
}

enum mu_commit mu_txn_commit(struct mu_txn *t)
{
    return mu_commit_try(t);
}

enum mu_commit mu_txn_commit_as(struct mu_txn *t, uint64_t tag)
{
    return mu_commit_as(t, tag, false);
}

enum mu_commit mu_txn_commit_quietly(struct mu_txn *t)
{
    return mu_commit_as(t, MU_WORD_TAG(t->seen) + 1, true);
}

void mu_txn_ring(struct mu_txn *t)
{
    if (t->woke && mu_is_bridged(t->ctx->seg))
        mu_bell_ring(t->ctx->seg);
}

void mu_txn_abort(struct mu_txn *t)
{
    for (uint32_t i = 0; i < t->num_news; i++)
        news_give_back(t, i);
    mu_commit_forget(t);
}
