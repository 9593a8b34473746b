/*
 * segment/bundle.h: counted references of an object to others, in one block.
 *
 * A bundle is a block of the object that names it. Its words are records like those of a ledger (hold.h): each has a
 * count of its object. While the block is OWNED they are that slot's, while it is LIVE the object's. So one commit
 * hands all of them over, and the CAS of one block's word decides which thread drops them.
 */
#ifndef MU_SEGMENT_BUNDLE_H
#define MU_SEGMENT_BUNDLE_H

#include "segment/hold.h"

/* A new bundle for `count` references, all 0, and so many bytes of data, OWNED by ctx. Its reference has MU_REF_HOLDS.
 */
enum muster_status mu_bundle_new(struct mu_ctx *ctx, uint32_t count, size_t bytes, uint64_t *ret_ref);

/* Its words, from `count` on; and its data, behind the references. Of one that this thread has, or that its object has
 * and cannot lose meanwhile. */
static inline struct mu_bundle *mu_bundle_at(const struct muster_segment *seg, uint64_t ref)
{
    return (struct mu_bundle *)mu_heap_at(seg, MU_REF_INDEX(ref))->body;
}
static inline uint64_t *mu_bundle_data(const struct muster_segment *seg, uint64_t ref)
{
    struct mu_bundle *b = mu_bundle_at(seg, ref);

    return b->refs + b->count;
}

/* Whether a bundle lies there that has so many references, and so many bytes of data at least. */
bool mu_bundle_is_sound(const struct muster_segment *seg, uint64_t ref, uint32_t count, uint64_t bytes);

/* The i-th reference, another count of which becomes the bundle's: of one that ctx has. */
enum muster_status mu_bundle_hold(struct mu_ctx *ctx, uint64_t ref, uint32_t i, uint64_t object);

/* Drop the references of all that are ending. */
void mu_bundle_finish(struct mu_ctx *ctx);
/* For the scavenger. One that no object reaches becomes the dead slot's. */
void mu_bundle_orphan(struct muster_segment *seg, uint32_t slot, uint16_t incarnation, uint64_t ref);
/* Whether the OWNED block is a bundle of the dead slot's, or of nobody's. */
bool mu_bundle_is_of(const struct mu_block *b, uint64_t word, uint32_t slot, uint16_t incarnation);
/* It becomes ctx's, and its references end with mu_bundle_finish(). Without a context it becomes nobody's. */
void mu_bundle_inherit(struct muster_segment *seg, struct mu_ctx *ctx, uint32_t index, uint64_t word);

#endif
