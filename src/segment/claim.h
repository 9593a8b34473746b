/* segment/claim.h: a slot for this thread, cleaning up first if none is free. */
#ifndef MU_SEGMENT_CLAIM_H
#define MU_SEGMENT_CLAIM_H

#include "segment/segment.h"

/*
 * As mu_slot_claim(); but when every slot is held, look whether dead ones hold them, clean up after those, and try
 * again.
 */
enum muster_status mu_claim(struct muster_segment *seg, uint64_t task, struct mu_ctx *ctx);

#endif
