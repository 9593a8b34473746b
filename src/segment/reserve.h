/* segment/reserve.h: the first pages of a segment, where its creator has left them to the first task that joins. */
#ifndef MU_SEGMENT_RESERVE_H
#define MU_SEGMENT_RESERVE_H

#include "segment/hosts.h"

/* Whether all first pages are there, as they are once somebody has joined. */
bool mu_segment_is_committed(const struct muster_segment *seg);

/* Have them. RESOURCE_EXHAUSTED: there is no room. Repeating it, or dying in it, leaves pages reserved and no more. */
enum muster_status mu_segment_commit(struct muster_segment *seg);

#endif
