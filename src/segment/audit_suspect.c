/*
 * segment/audit_suspect.c: the auditor's second thoughts: has what looks like a lost block an excuse?
 *
 * A block in motion is owned by a slot, or named by an intent or a pin, or by an object that has moved on since it was
 * looked at. Each look is at the segment as it is now; a block without any of these at all looks is guilty.
 */
#include "segment/audit.h"
#include "segment/object.h"

enum { LOOKS = 3 };

/* Is it the block that `named` names, or one of its parts, if these belong to it alone? */
static bool name_covers(const struct muster_segment *seg, uint64_t named, uint64_t ref)
{
    uint64_t parts[2048];
    uint32_t n;

    if ((named & ~MU_REF_FLAGS) == ref)
        return true;
    n = named & MU_REF_DEEP ? mu_heap_refs(seg, named, parts, 2048) : 0;
    for (uint32_t p = 0; n <= 2048 && p < n; p++)
        if ((parts[p] & ~MU_REF_FLAGS) == ref)
            return true;
    return false;
}

/* Does any slot's intent or pin name the block? */
static bool is_named(const struct muster_segment *seg, uint32_t index, uint32_t generation)
{
    uint32_t high = mu_slot_high(seg);

    for (uint32_t i = 0; i < high; i++) {
        const struct mu_slot *s = &seg->slots[i];
        uint64_t ref = MU_REF(generation, index), pin = mu_load_acquire(&s->pin); /* acquire: pairs with mu_pin() */

        if (MU_SLOT_STATE(mu_load_acquire(&s->word)) == MU_SLOT_FREE) /* acquire: pairs with the claim */
            continue;
        if (pin && name_covers(seg, pin, ref))
            return true;
        if (!mu_load_acquire(&s->act)) /* acquire: pairs with record() */
            continue;
        for (uint32_t k = 0; k < MU_INTENT_REFS; k++) /* relaxed: a look */
            if (name_covers(seg, mu_load_relaxed(&s->news[k]), ref) ||
                name_covers(seg, mu_load_relaxed(&s->olds[k]), ref))
                return true;
    }
    return false;
}

/* Is it reachable from anywhere right now? The slow and certain way, for suspects. */
static bool is_reached(const struct muster_segment *seg, uint64_t ref)
{
    const mu_a64 *const rows[] = {seg->buckets,          seg->cells,           seg->events, seg->objects,
                                  &seg->header->cluster, &seg->header->members};
    const uint32_t counts[] = {seg->num_buckets, seg->num_cells, seg->num_events, mu_objects_high(seg), 1, 1};

    for (int k = 0; k < 6; k++)
        for (uint32_t i = 0; i < counts[k]; i++)
            if (MU_WORD_INDEX(mu_load_relaxed(&rows[k][i])) && mu_object_reaches(seg, &rows[k][i], ref)) /* a look */
                return true;
    return false;
}

static bool word_holds(const struct muster_segment *seg, uint64_t w)
{
    uint32_t slot = MU_BLOCK_SLOT(w);
    uint64_t s = slot < seg->num_slots ? mu_load_acquire(&seg->slots[slot].word) : 0; /* acquire: as the claim */

    if (slot == MU_BUNDLE_NOBODY) /* the next scavenger's */
        return true;
    return MU_SLOT_STATE(s) != MU_SLOT_FREE && MU_SLOT_INCARNATION(s) == MU_BLOCK_INCARNATION(w);
}

/* The quick way: is it a page that its bucket names? */
static bool is_at_home(const struct muster_segment *seg, const struct mu_block *b, uint32_t index, uint32_t limit)
{
    uint32_t at = mu_audit_home(seg, b, limit);

    return at != MU_AUDIT_NO_HOME && MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[at])) == index; /* relaxed: a look */
}

bool mu_audit_is_guilty(const struct muster_segment *seg, const struct mu_block *b, uint32_t index, uint32_t limit,
                        uint64_t w)
{
    for (int i = 0; i < LOOKS; i++) {
        uint64_t ref = MU_REF(MU_BLOCK_GENERATION(w), index);

        if (mu_load_acquire(&b->word) != w) /* acquire: as heap.c */
            return false;
        if (MU_BLOCK_STATE(w) == MU_OWNED ? word_holds(seg, w)
                                          : is_at_home(seg, b, index, limit) ||
                                                is_named(seg, index, MU_BLOCK_GENERATION(w)) || is_reached(seg, ref))
            return false;
    }
    return mu_load_acquire(&b->word) == w; /* acquire: as heap.c */
}
