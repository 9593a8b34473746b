/* segment/heap.h: blocks. The word protocol is drawn in shm_layout/layout.h. */
#ifndef MU_SEGMENT_HEAP_H
#define MU_SEGMENT_HEAP_H

#include "segment/segment.h"

/* The size class for a body, or MU_CLASSES when none is large enough; and a class's body bytes. */
uint32_t mu_heap_class_large(size_t granules);
static inline uint32_t mu_heap_class(size_t body_bytes)
{
    static const uint8_t small[17] = {0, 0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7}; /* by granules */
    size_t granules = (body_bytes + MU_BLOCK_HEADER + MU_GRANULE - 1) / MU_GRANULE;

    return granules <= 16 ? small[granules] : mu_heap_class_large(granules);
}
size_t mu_heap_class_bytes(uint32_t class_index);

extern const uint16_t mu_class_granules[MU_CLASSES];

/*
 * The block at `index`, or NULL when no block can start there: whatever a corrupt word names, the result is inside the
 * heap and ret_limit bytes (header included) may be read. ret_limit may be NULL.
 */
static inline struct mu_block *mu_heap_block(const struct muster_segment *seg, uint32_t index, uint32_t *ret_limit)
{
    uint32_t granule = index - 1, chunk = granule / MU_CHUNK_GRANULES, within = granule % MU_CHUNK_GRANULES;
    uint32_t class_index, granules;

    if (!index || chunk >= seg->num_chunks)
        return NULL;
    /* acquire: pairs with the claim in chunk_claim(); the chunk's pages are committed before it */
    class_index = MU_CHUNK_CLASS(mu_load32_acquire(&seg->chunks[chunk]));
    if (class_index - 1 >= MU_CLASSES)
        return NULL;
    granules = mu_class_granules[class_index - 1];
    if (within % granules || within + granules > MU_CHUNK_GRANULES)
        return NULL;
    if (ret_limit)
        *ret_limit = granules * MU_GRANULE;
    return (struct mu_block *)(seg->heap + (uint64_t)granule * MU_GRANULE);
}

/*
 * The first lines of a block at once, before its head has told where in it to look: one miss less in a row. A prefetch
 * beyond the block, or the mapping, does nothing.
 */
static inline void mu_heap_prefetch(const struct mu_block *b)
{
    __builtin_prefetch((const char *)b + 64);
    __builtin_prefetch((const char *)b + 128);
}

/* The block of a reference that this thread holds, or of a search: no checks. */
static inline struct mu_block *mu_heap_at(const struct muster_segment *seg, uint32_t index)
{
    return (struct mu_block *)(seg->heap + (uint64_t)(index - 1) * MU_GRANULE);
}

/* One try to take a block: 0, or its reference, now OWNED by ctx. */
static inline uint64_t mu_heap_take(struct mu_ctx *ctx, uint32_t index)
{
    struct mu_block *b = mu_heap_at(ctx->seg, index);
    uint64_t w = mu_load_relaxed(&b->word); /* relaxed: the CAS below decides */

    if (MU_BLOCK_STATE(w) != MU_FREE)
        return 0;
    /* acq_rel: pairs with the CAS that freed it; its last reader-visible contents come before ours */
    if (!mu_cas(&b->word, w, MU_BLOCK_WORD(MU_BLOCK_GENERATION(w), ctx->incarnation, ctx->slot, MU_OWNED)))
        return 0;
    return MU_REF(MU_BLOCK_GENERATION(w), index);
}

/* One of the blocks that this thread freed lately, the oldest first; 0 when they are all taken. */
static inline uint64_t mu_heap_take_hinted(struct mu_ctx *ctx, struct mu_hints *h)
{
    while (h->count) {
        uint64_t ref = mu_heap_take(ctx, h->ring[h->head]);

        h->head = (h->head + 1) % MU_HINTS;
        h->count--;
        if (ref)
            return ref;
    }
    return 0;
}

/*
 * A block of this class was freed: the threads that knew the heap to be full of what it would have served as are told.
 * A free without a context is a scavenger's, which tells at its end, for all that it and the dead one freed.
 */
void mu_heap_end_wanted(struct muster_segment *seg, uint32_t classes);
/* Ask to be told of frees of this class, or of MU_WANTED_RUNS: the word, to sleep on when a search that begins behind
 * this finds nothing. */
uint64_t mu_heap_want(struct muster_segment *seg, uint32_t class_index);
static inline void mu_heap_tell(struct muster_segment *seg, uint32_t class_index)
{
    uint32_t classes = (2u << class_index) - 1;

    /* seq_cst: after the CAS that freed; pairs with the fence in search_all(): it finds the block, or we its bit */
    if (MU_WANTED_CLASSES(mu_load_seq_cst(&seg->header->wanted)) & classes)
        mu_heap_end_wanted(seg, classes);
}

/* The CAS by which a block becomes free; exactly one of all threads that try succeeds. ctx (may be NULL) remembers it.
 */
static inline bool mu_heap_free_word(struct muster_segment *seg, struct mu_ctx *ctx, uint32_t index, uint64_t seen)
{
    struct mu_block *b = mu_heap_at(seg, index);

    /* release half: pairs with mu_heap_take(); all reads and writes of the block come before its next owner's. seq_cst:
     * see mu_heap_tell() */
    if (!mu_cas_seq_cst(&b->word, seen, MU_BLOCK_WORD(MU_BLOCK_GENERATION(seen) + 1, 0, 0, MU_FREE)))
        return false;
    if (ctx) {
        /* relaxed: the block was used, so its chunk was claimed; unless somebody has written over that */
        uint32_t cw = mu_load32_relaxed(&seg->chunks[(index - 1) / MU_CHUNK_GRANULES]);
        uint32_t class_index = MU_CHUNK_CLASS(cw) - 1;
        struct mu_hints *h;

        if (class_index >= MU_CLASSES)
            return true;
        h = &ctx->hints[cw & MU_CHUNK_SYSTEM ? 1 : 0][class_index];
        if (h->count < MU_HINTS) {
            h->ring[(h->head + h->count) % MU_HINTS] = index;
            h->count++;
        }
        mu_heap_tell(seg, class_index);
    }
    return true;
}

/* How many blocks fit a chunk of this class, and the index of the i-th. */
uint32_t mu_heap_chunk_blocks(uint32_t class_index);

#define MU_HEAP_SYSTEM 1u /* may use the chunks kept for the cluster's records */
#define MU_HEAP_RESERVE                                                                                                \
    2u /* may use a block kept for deletes and for the ends of objects, when nothing else is left                      \
        */

/*
 * Take a free block: OWNED by this thread. Its body is garbage. RESOURCE_EXHAUSTED when a search of everything met none
 * and no free that was complete before the call is forgotten.
 */
enum muster_status mu_heap_alloc(struct mu_ctx *ctx, size_t body_bytes, uint32_t flags, uint64_t *ret_ref,
                                 struct mu_block **ret_block);

/* Whether the block, which this thread holds, is one of the deletes' reserve. */
bool mu_heap_is_reserve(const struct muster_segment *seg, uint64_t ref);

/* OWNED -> LIVE. Only by the owner, and only while an intent names the block. */
static inline void mu_heap_publish(struct mu_ctx *ctx, uint64_t ref)
{
    struct mu_block *b = mu_heap_at(ctx->seg, MU_REF_INDEX(ref));

    /* release: pairs with the acquire of the thread that frees it; a plain store, for nobody else may touch it
     * meanwhile */
    mu_store_release(&b->word, MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, 0, MU_LIVE));
}

/* OWNED by this thread -> FREE: nobody else ever saw it. */
void mu_heap_discard(struct mu_ctx *ctx, uint64_t ref);

/* OWNED by another thread of this process, which has put it down -> OWNED by this one. False: it is not OWNED. */
bool mu_heap_inherit(struct mu_ctx *ctx, uint64_t ref);

bool mu_heap_free_deep(struct muster_segment *seg, struct mu_ctx *ctx, uint64_t ref);

/*
 * LIVE at exactly this generation -> FREE. False when it was no longer that. Deep references free what they name
 * first, parts before head: a repetition after a death finishes it. A bundle becomes ctx's, to be ended. ctx (may be
 * NULL, but not for a bundle) remembers the block.
 */
static inline bool mu_heap_free(struct muster_segment *seg, struct mu_ctx *ctx, uint64_t ref)
{
    if (ref & MU_REF_FLAGS)
        return mu_heap_free_deep(seg, ctx, ref);
    return mu_heap_block(seg, MU_REF_INDEX(ref), NULL) &&
           mu_heap_free_word(seg, ctx, MU_REF_INDEX(ref), MU_BLOCK_WORD(MU_REF_GENERATION(ref), 0, 0, MU_LIVE));
}

/* A bundle (bundle.h) that ctx has: its references end with the next mu_bundle_finish(). */
void mu_bundle_end(struct mu_ctx *ctx, uint64_t ref);

/* Whether the reference still names a LIVE block of that generation. */
bool mu_heap_is_live(const struct muster_segment *seg, uint64_t ref);

/*
 * Copy up to `capacity` references of the block that `ref` names; returns how many there are, or UINT32_MAX when the
 * block is no longer (or not yet) that generation or is not well formed.
 */
uint32_t mu_heap_refs(const struct muster_segment *seg, uint64_t ref, uint64_t *refs, uint32_t capacity);

#endif
