/* segment/heap.h: blocks. The word protocol is drawn in shm_layout/layout.h. */
#ifndef MU_SEGMENT_HEAP_H
#define MU_SEGMENT_HEAP_H

#include "segment/segment.h"

/* The size class for a body, or MU_CLASSES when none is large enough; and a class's body bytes. */
uint32_t mu_heap_class(size_t body_bytes);
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

/* How many blocks fit a chunk of this class, and the index of the i-th. */
uint32_t mu_heap_chunk_blocks(uint32_t class_index);

#define MU_HEAP_SYSTEM 1u /* may use the chunks kept for the cluster's records */

/* Take a free block: OWNED by this thread. Its body is garbage. RESOURCE_EXHAUSTED when there is none. */
enum muster_status mu_heap_alloc(struct mu_ctx *ctx, size_t body_bytes, uint32_t flags, uint64_t *ret_ref,
                                 struct mu_block **ret_block);

/* OWNED -> LIVE. Only by the owner, and only while an intent names the block. */
void mu_heap_publish(struct mu_ctx *ctx, uint64_t ref);

/* OWNED by this thread -> FREE: nobody else ever saw it. */
void mu_heap_discard(struct mu_ctx *ctx, uint64_t ref);

/*
 * LIVE at exactly this generation -> FREE. False when it was no longer that. Deep references free what they name
 * first, parts before head: whoever repeats it after a death finishes it. ctx (may be NULL) remembers the block.
 */
bool mu_heap_free(struct muster_segment *seg, struct mu_ctx *ctx, uint64_t ref);

/* Whether the reference still names a LIVE block of that generation. */
bool mu_heap_is_live(const struct muster_segment *seg, uint64_t ref);

/*
 * Copy up to `capacity` references of the block that `ref` names; returns how many there are, or UINT32_MAX when the
 * block is no longer (or not yet) that generation or is not well formed.
 */
uint32_t mu_heap_refs(const struct muster_segment *seg, uint64_t ref, uint64_t *refs, uint32_t capacity);

#endif
