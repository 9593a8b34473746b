/*
 * segment/arena.h: the bytes of objects that no block can hold: runs of units, each owned by a block.
 *
 * A block of type MU_TYPE_EXTENT owns a run of units for as long as it is at one generation. Whatever frees it, a drop,
 * an abort or the sweep after a death, frees them at that instant. See shm_layout/layout.h for the units' words.
 */
#ifndef MU_SEGMENT_ARENA_H
#define MU_SEGMENT_ARENA_H

#include "segment/segment.h"

/* Units for so many bytes, which fit the largest arena. */
static inline uint32_t mu_arena_units(uint64_t bytes)
{
    return (uint32_t)((bytes + MU_UNIT - 1) / MU_UNIT);
}

/* Words of units that are committed, from the first on. */
static inline uint32_t mu_units_high(const struct muster_segment *seg)
{
    /* acquire: pairs with the CAS in unit_range_commit(); the words below it are there */
    uint32_t high = mu_load32_acquire(&seg->header->units_high);

    return high < seg->num_units ? high : seg->num_units;
}

/*
 * A run for so many bytes (not 0), and the block that owns it, OWNED by ctx: as with any block, mu_heap_discard() takes
 * it back. Its pages are there; their contents are garbage. OUT_OF_RANGE: the arena is smaller; RESOURCE_EXHAUSTED: no
 * free run is as long, or no memory. A run that another thread claims and gives up at the same time counts as not free.
 */
enum muster_status mu_arena_take(struct mu_ctx *ctx, uint64_t bytes, uint64_t *ret_ref, uint32_t *ret_start);

/* This thread freed the block of the run: waiters for room are told, and its next run is looked for there first, while
 * the pages are warm. */
void mu_arena_freed(struct mu_ctx *ctx, uint32_t start, uint32_t units);

/* Whether a unit with the word `w` (loaded with acquire) is free. */
bool mu_unit_is_free(const struct muster_segment *seg, uint64_t w);

/* What an OWNED or LIVE block of type MU_TYPE_EXTENT at this generation says; false: the reference names none. */
bool mu_arena_extent(const struct muster_segment *seg, uint64_t ref, uint32_t *ret_start, uint32_t *ret_units);

/* The arena, mapped at the first call, to write to or read-only; NULL: the kernel has no address space to give. */
uint8_t *mu_arena_map(struct muster_segment *seg, bool writable);

#endif
