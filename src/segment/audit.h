/* segment/audit.h: what the two halves of the auditor share. audit.c walks; audit_suspect.c looks at suspects again. */
#ifndef MU_SEGMENT_AUDIT_H
#define MU_SEGMENT_AUDIT_H

#include "segment/heap.h"

#define MU_AUDIT_NO_HOME UINT32_MAX

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
 * A suspect, whose word was `w`: OWNED by a slot that is not held, or LIVE and met nowhere. Is the word the same still,
 * and still without an excuse, at several looks?
 */
bool mu_audit_is_guilty(const struct muster_segment *seg, const struct mu_block *b, uint32_t index, uint32_t limit,
                        uint64_t w);

#endif
