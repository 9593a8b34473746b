/*
 * segment/audit.h: what the parts of the auditor share. audit.c walks the objects, audit_heap.c the heap;
 * audit_suspect.c looks at suspects again.
 */
#ifndef MU_SEGMENT_AUDIT_H
#define MU_SEGMENT_AUDIT_H

#include <muster/segment.h>

#include "segment/heap.h"

#define MU_AUDIT_NO_HOME UINT32_MAX
#define MU_AUDIT_STRIPE  1u /* chunks in a row that one walker takes, where there are two */

enum { MU_AUDIT_SENTENCE = 256, MU_AUDIT_SENTENCES = 512 };

/* One walk, or a helper's part of it. */
struct mu_auditor {
    struct muster_segment *seg;
    struct muster_audit *sum;
    char (*found)[MU_AUDIT_SENTENCE]; /* the first MU_AUDIT_SENTENCES of this walk; NULL: they are only counted */
    uint64_t *met;                    /* a bit per granule of the heap: a block that starts there was met */
    uint64_t *doubted;                /* likewise: it was LIVE, and not met so far */
    uint64_t *used;                   /* a bit per bucket: it was not empty */
    uint64_t *proven;                 /* likewise: it and all below it is sound */
    uint64_t body[MU_CHUNK / 8];
};

/* Two walkers of a heap that is not large cost more than one. */
enum mu_audit_how { MU_AUDIT_AS_FITS, MU_AUDIT_ALONE, MU_AUDIT_HELPED };

/* muster_segment_check(). */
enum muster_status mu_audit_check(struct muster_segment *seg, enum mu_audit_how how,
                                  void (*report)(void *arg, const char *sentence), void *arg,
                                  struct muster_audit *ret_audit);

/* audit.c */
__attribute__((format(printf, 2, 3))) void mu_audit_complain(struct mu_auditor *a, const char *format, ...);
/* Notes for one walk, all zero, in place of those that there are. False: no memory. */
bool mu_audit_begin(struct mu_auditor *a);

/* audit_heap.c */
/* Every block, in the order of memory. False: two walkers have met the same: all is to be walked again, by one. */
bool mu_audit_heap(struct mu_auditor *a, enum mu_audit_how how);
/* Those that were alive, and that nothing led to. */
void mu_audit_doubted(struct mu_auditor *a);

/* audit_arena.c */
/* The units and their owners. */
void mu_audit_arena(struct mu_auditor *a);

/* audit_hold.c */
/* The counts of objects. False: no memory. */
bool mu_audit_holds(struct mu_auditor *a);

/* Set bit i; false when it was set before. */
static inline bool mu_audit_set(uint64_t *bits, uint32_t i)
{
    uint64_t bit = 1ull << (i & 63);
    bool fresh = !(bits[i >> 6] & bit);

    bits[i >> 6] |= bit;
    return fresh;
}

/* Mark the block as met; false when it was before. Its index must be one at which a block can be. */
static inline bool mu_audit_mark(struct mu_auditor *a, uint32_t index)
{
    return mu_audit_set(a->met, index - 1);
}

static inline void mu_audit_take_back(struct mu_auditor *a, uint32_t index)
{
    a->met[(index - 1) >> 6] &= ~(1ull << ((index - 1) & 63));
}

/* Of which bucket may it be the page? By its first entry, and no more than a hint. MU_AUDIT_NO_HOME: it is no page. */
static inline uint32_t mu_audit_home(const struct muster_segment *seg, const struct mu_block *b, uint32_t limit)
{
    uint64_t meta = mu_load_relaxed(&b->meta); /* relaxed, as all here: a hint */
    uint32_t refs = MU_META_REFS(meta);

    if (MU_META_TYPE(meta) != MU_TYPE_PAGE || MU_BLOCK_HEADER + (refs + MU_PAGE_WORDS + 1) * 8 > limit)
        return MU_AUDIT_NO_HOME;
    return (uint32_t)(mu_load_relaxed(&b->body[refs + MU_PAGE_WORDS]) >> 20) & (seg->num_buckets - 1);
}

/*
 * A suspect with the word `w`: OWNED by a slot that is not held, or LIVE and met nowhere. Is the word the same still,
 * and still without an excuse, at several looks?
 */
bool mu_audit_is_guilty(const struct muster_segment *seg, const struct mu_block *b, uint32_t index, uint32_t limit,
                        uint64_t w);

#endif
