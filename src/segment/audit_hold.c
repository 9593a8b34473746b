/*
 * segment/audit_hold.c: are the objects' counts those of the records that hold them? The auditor leaves out
 * objects with a change of the count under way, and what a record claims: those are between two states.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "segment/audit.h"
#include "segment/hold.h"
#include "segment/slot.h"

#define IN_MOTION UINT32_MAX

static void record_count(struct mu_auditor *a, uint32_t *counts, uint32_t high, uint32_t slot, const mu_a64 *record,
                         uint64_t ref)
{
    struct mu_object o;
    uint32_t index = MU_OBJECT_INDEX(ref);

    if (MU_OBJECT_HOST(ref) != a->seg->host || index >= high)
        mu_audit_complain(a, "the ledger, or a bundle, of slot %u holds 0x%" PRIx64 ", which can be no object", slot,
                          ref);
    else if (counts[index] != IN_MOTION && mu_object_look(a->seg, ref, a->body, &o) && mu_recheck(record) == ref)
        mu_audit_complain(a, "the ledger, or a bundle, of slot %u holds object 0x%" PRIx64 ", which is gone", slot,
                          ref);
    else if (counts[index] != IN_MOTION)
        counts[index]++;
}

static void ledger_count(struct mu_auditor *a, uint32_t *counts, uint32_t high, uint32_t slot)
{
    const struct mu_slot *s = &a->seg->slots[slot];
    uint64_t word = mu_load_acquire(&s->word); /* acquire: pairs with the claim */
    struct mu_ledger_walk walk;
    mu_a64 *records;
    uint32_t n;

    if (MU_SLOT_STATE(word) == MU_SLOT_FREE)
        return;
    mu_ledger_walk(&walk, a->seg, slot, MU_SLOT_INCARNATION(word));
    while ((records = mu_ledger_next(&walk, &n)) != NULL)
        for (uint32_t i = 0; i < n; i++) {
            uint64_t ref = mu_load_acquire(&records[i]); /* acquire: pairs with the stores of the record */

            if (MU_OBJECT_GENERATION(ref))
                record_count(a, counts, high, slot, &records[i], ref);
        }
}

/* A bundle's references count, whether an object has it, or a slot that makes it, or ends it. */
static void bundle_count(struct mu_auditor *a, uint32_t *counts, uint32_t high, struct mu_block *b, uint32_t limit)
{
    uint64_t w = mu_load_acquire(&b->word); /* acquire: pairs with mu_bundle_new() */
    uint64_t refs;

    if (MU_BLOCK_STATE(w) == MU_FREE ||
        MU_META_TYPE(mu_load_acquire(&b->meta)) != MU_TYPE_BUNDLE) /* acquire: likewise */
        return;
    refs = mu_load_relaxed(&b->body[1]); /* relaxed: constant while it is a bundle */
    if (MU_BLOCK_HEADER + (2 + refs) * 8 > limit && mu_recheck(&b->word) == w)
        mu_audit_complain(a, "a bundle has %" PRIu64 " references, more than its block has room for", refs);
    for (uint64_t i = 0; i < refs && MU_BLOCK_HEADER + (3 + i) * 8 <= limit; i++) {
        uint64_t ref = mu_load_acquire(&b->body[2 + i]); /* acquire: as a record of a ledger */

        if (MU_OBJECT_GENERATION(ref))
            record_count(a, counts, high, MU_BLOCK_SLOT(w), &b->body[2 + i], ref);
    }
}

static void bundles_count(struct mu_auditor *a, uint32_t *counts, uint32_t high)
{
    const struct muster_segment *seg = a->seg;

    for (uint32_t c = 0; c < seg->num_chunks; c++) {
        uint32_t class_index = MU_CHUNK_CLASS(mu_load32_acquire(&seg->chunks[c])); /* acquire: pairs with the claim */
        uint32_t step, blocks;

        if (!class_index || class_index > MU_CLASSES)
            continue;
        blocks = mu_heap_chunk_blocks(class_index - 1);
        step = mu_class_granules[class_index - 1];
        for (uint32_t i = 0; i < blocks; i++)
            bundle_count(a, counts, high, mu_heap_at(seg, c * MU_CHUNK_GRANULES + i * step + 1), step * MU_GRANULE);
    }
}

/* Mark the objects with a change of their count under way. */
static void find_moving(const struct muster_segment *seg, uint32_t *counts, uint32_t high)
{
    uint32_t slots = mu_slot_high(seg);

    for (uint32_t i = 0; i < slots; i++) {
        uint64_t op = mu_load_acquire(&seg->slots[i].op); /* acquire: pairs with op_begin() */
        uint32_t index = MU_OBJECT_INDEX(mu_load_relaxed(&seg->slots[i].op_object)); /* relaxed: a look */

        if (MU_HOLD_KIND(op) != MU_HOLD_NONE && index < high &&
            MU_SLOT_STATE(mu_load_acquire(&seg->slots[i].word)) != MU_SLOT_FREE) /* acquire: pairs with the claim */
            counts[index] = IN_MOTION;
    }
}

bool mu_audit_holds(struct mu_auditor *a)
{
    struct muster_segment *seg = a->seg;
    uint32_t high = mu_objects_high(seg), slots = mu_slot_high(seg);
    uint64_t *words = high ? calloc(high, sizeof *words + sizeof(uint32_t)) : NULL;
    uint32_t *counts;

    if (!high)
        return true;
    if (!words)
        return false;
    counts = (uint32_t *)(words + high);
    /* An operation that began and ended between these looks has changed the object's word. */
    for (uint32_t i = 0; i < high; i++)
        words[i] = mu_load_acquire(&seg->objects[i]); /* acquire: pairs with the commit's CAS */
    find_moving(seg, counts, high);
    for (uint32_t i = 0; i < slots; i++)
        ledger_count(a, counts, high, i);
    bundles_count(a, counts, high);
    find_moving(seg, counts, high);
    for (uint32_t i = 0; i < high; i++) {
        struct mu_object o;

        if (counts[i] == IN_MOTION || mu_object_at(seg, i, a->body, &o) || !mu_word_same(o.word, words[i]))
            continue;
        if (o.count != counts[i])
            mu_audit_complain(a, "object 0x%" PRIx64 " counts %u references, and %u records hold it", o.ref, o.count,
                              counts[i]);
    }
    free(words);
    return true;
}
