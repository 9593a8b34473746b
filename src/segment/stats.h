/* segment/stats.h: counting, in words that the calling thread alone writes. */
#ifndef MU_SEGMENT_STATS_H
#define MU_SEGMENT_STATS_H

#include "segment/segment.h"

/* No atomic addition: there is one writer. Readers see the value before or after. */
static inline void mu_count(mu_a64 *counter, uint64_t by)
{
    mu_store_relaxed(counter,
                     mu_load_relaxed(counter) + by); /* relaxed: pairs with slot_sum() in stats.c; orders nothing */
}

#endif
