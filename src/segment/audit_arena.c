/*
 * segment/audit_arena.c: does each unit that somebody has belong to the extent that its block says, and does each large
 * object have the units that its root says? A block that is OWNED is between two states: its units are left out.
 */
#include <inttypes.h>

#include "segment/audit.h"
#include "segment/hold.h"

static void unit_check(struct mu_auditor *a, uint32_t at)
{
    const struct muster_segment *seg = a->seg;
    uint64_t w = mu_load_acquire(&seg->units[at]); /* acquire: pairs with the claims */
    const struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(MU_UNIT_REF(w)), NULL);
    uint64_t word;
    uint32_t start = 0, units = 0;

    if (mu_unit_is_free(seg, w))
        return;
    if (!b) {
        if (mu_recheck(&seg->units[at]) == w)
            mu_audit_complain(a, "unit %u is index %u's, where no block can be", at, MU_REF_INDEX(w));
        return;
    }
    word = mu_load_acquire(&b->word); /* acquire: pairs with publish */
    if (MU_BLOCK_STATE(word) == MU_OWNED || MU_BLOCK_GENERATION(word) != MU_REF_GENERATION(w))
        return;
    if (MU_BLOCK_STATE(word) == MU_LIVE && mu_arena_extent(seg, MU_UNIT_REF(w), &start, &units) && at >= start &&
        at - start < units)
        return;
    if (mu_recheck(&b->word) == word && mu_recheck(&seg->units[at]) == w)
        mu_audit_complain(a, "unit %u is block %u's, which is no extent that has it", at, MU_REF_INDEX(w));
}

static void extent_check(struct mu_auditor *a, const mu_a64 *object, const struct mu_object *o)
{
    struct muster_segment *seg = a->seg;
    uint32_t start = 0, units = 0, high = mu_units_high(seg), others = 0;
    bool is_extent = mu_arena_extent(seg, o->data, &start, &units) && start == o->extent - 1 &&
                     units >= mu_arena_units(mu_object_whole(o));

    for (uint32_t i = 0; is_extent && i < units; i++) /* acquire: pairs with the claims */
        others += start + i >= high || MU_UNIT_REF(mu_load_acquire(&seg->units[start + i])) != o->data;
    if (!mu_word_same(mu_recheck(object), o->word))
        return;
    if (!is_extent)
        mu_audit_complain(a, "object 0x%" PRIx64 " lies in unit %u, and its block %u says otherwise", o->ref,
                          o->extent - 1, MU_REF_INDEX(o->data));
    else if (others)
        mu_audit_complain(a, "object 0x%" PRIx64 " has %u units, of which %u are not its block's", o->ref, units,
                          others);
}

void mu_audit_arena(struct mu_auditor *a)
{
    struct muster_segment *seg = a->seg;
    uint32_t high = mu_units_high(seg), objects = high ? mu_objects_high(seg) : 0;

    for (uint32_t i = 0; i < high; i++)
        unit_check(a, i);
    for (uint32_t i = 0; i < objects; i++) {
        struct mu_object o;

        if (MU_WORD_INDEX(mu_load_relaxed(&seg->objects[i])) && /* relaxed: looked at again */
            !mu_object_at(seg, i, a->body, &o) && o.extent)
            extent_check(a, &seg->objects[i], &o);
    }
}
