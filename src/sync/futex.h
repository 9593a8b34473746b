/* sync/futex.h: sleeping on words of the segment. */
#ifndef MU_SYNC_FUTEX_H
#define MU_SYNC_FUTEX_H

#include <muster/status.h>

#include "sync/shm.h"

/*
 * Sleep while *word's low half is `value` and *epoch is `seen`, until woken on either or until the absolute deadline
 * (CLOCK_MONOTONIC ns). Returns for any reason or none: the caller looks again. Works through read-only mappings.
 */
void mu_futex_wait(const mu_a64 *word, uint32_t value, const mu_a32 *epoch, uint32_t seen, muster_deadline deadline);

/* Wake all sleepers on the word (its low half), or on the epoch. */
void mu_futex_wake(mu_a64 *word);
void mu_futex_wake32(mu_a32 *word);

/* Sleep until one of `count` (at most 127) 32-bit words differs from its value; liveness words. */
void mu_futex_wait_any(mu_a32 *const *words, const uint32_t *values, size_t count, muster_deadline deadline);

#endif
