/*
 * segment/mapping.c: the mappings of a segment: its users, further ones of parts of the file, and their end.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/file.h"

void mu_segment_ref(struct muster_segment *seg)
{
    /* relaxed, process-local: the caller already holds one */
    atomic_fetch_add_explicit(&seg->users, 1, memory_order_relaxed);
}

bool mu_segment_is_whole(const struct muster_segment *seg)
{
    struct stat st;

    return seg->fd < 0 || fstat(seg->fd, &st) || (uint64_t)st.st_size >= seg->file_bytes;
}

uint8_t *mu_segment_map(struct muster_segment *seg, _Atomic(uint8_t *) *at, uint64_t offset, uint64_t bytes,
                        bool writable)
{
    uint8_t *there = atomic_load_explicit(at, memory_order_acquire), *mapped; /* process-local: pairs with the CAS */

    if (there || seg->fd < 0)
        return there ? there : seg->base + offset;
    /* in three steps: where the process locks all memory to come, all pages of the file would be made at once */
    mapped = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, seg->fd, (off_t)offset);
    if (mapped == MAP_FAILED)
        return NULL;
    munlock(mapped, bytes);
    if (mprotect(mapped, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ)) {
        munmap(mapped, bytes);
        return NULL;
    }
    madvise(mapped, bytes, MADV_DONTFORK);
    madvise(mapped, bytes, MADV_DONTDUMP);
    /* acq_rel, process-local: of two threads one's mapping stays */
    if (atomic_compare_exchange_strong_explicit(at, &there, mapped, memory_order_acq_rel, memory_order_acquire))
        return mapped;
    munmap(mapped, bytes);
    return there;
}

static void mapping_end(_Atomic(uint8_t *) *at, uint64_t bytes)
{
    uint8_t *mapped = atomic_load_explicit(at, memory_order_relaxed); /* process-local: nobody else is left */

    if (mapped)
        munmap(mapped, bytes);
}

void mu_segment_unref(struct muster_segment *seg)
{
    /* acq_rel, process-local: all users' accesses come before the last one unmaps */
    if (!seg || atomic_fetch_sub_explicit(&seg->users, 1, memory_order_acq_rel) > 1)
        return;
    if (mu_segment_is_whole(seg)) /* else libc's list of held mutexes still runs through it */
        munmap(seg->base, seg->size);
    mapping_end(&seg->views, seg->size);
    mapping_end(&seg->arena, (uint64_t)seg->num_units * MU_UNIT);
    mapping_end(&seg->arena_views, (uint64_t)seg->num_units * MU_UNIT);
    mu_segment_abandon(seg);
}

void mu_segment_abandon(struct muster_segment *seg)
{
    close(seg->fd);
    free(atomic_load_explicit(&seg->names, memory_order_relaxed)); /* relaxed, process-local: nobody else is left */
    free(seg);
}

void muster_segment_close(struct muster_segment *segment)
{
    mu_segment_unref(segment);
}

int muster_segment_fd(struct muster_segment *segment)
{
    return segment->fd;
}
