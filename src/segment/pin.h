/*
 * segment/pin.h: reading a large value in place.
 *
 * A reader that cannot finish an optimistic copy (the value is longer than a block, or changes faster than it can be
 * copied) says in its slot which block it reads, and of which object; a writer that replaces that block leaves it; the
 * last to unpin it, reader or scavenger, frees it.
 */
#ifndef MU_SEGMENT_PIN_H
#define MU_SEGMENT_PIN_H

#include "segment/heap.h"

/*
 * Pin `ref`, found in the object when its word was `seen`, and confirmed by a look at the word since: ending the pin of
 * a block that was never the object's would free it. False: the object has changed; look again. One pin a thread, and
 * none while a transaction is under way: ending it uses the intent.
 */
bool mu_pin(struct mu_ctx *ctx, const mu_a64 *object, uint64_t seen, uint64_t ref);
void mu_unpin(struct mu_ctx *ctx);

/* Whether a live slot other than `except` pins the block. Called after the commit that replaced it. */
bool mu_pin_others(struct muster_segment *seg, uint64_t ref, uint32_t except);

/* Free the block unless its object still has it or somebody pins it: called at the end of each pin. */
void mu_pin_settle(struct muster_segment *seg, struct mu_ctx *ctx, uint64_t object_offset, uint64_t ref,
                   uint32_t except);

#endif
