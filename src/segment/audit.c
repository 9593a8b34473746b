/*
 * segment/audit.c: the auditor: is every structural rule kept?
 *
 * Two walks. The first goes down from every object (cluster, buckets, cells, events) through all references and marks
 * each block it meets, complaining about references that are out of range, to blocks that are not LIVE at that
 * generation, or to blocks that were met before. The second goes over every block: LIVE but not met is a leak, unless
 * an intent or a pin names it; OWNED must name a slot that is held, at its incarnation.
 *
 * While others write, a block may be between two states when it is looked at, or have moved from an object behind us to
 * one before us. So a suspected leak is looked at again by itself; and when anything was found wrong, all is walked a
 * second time, and only what both walks found, word for word, is reported.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment/entry.h"
#include "segment/heap.h"
#include "segment/object.h"
#include "segment/slot.h"
#include "segment/table.h"

enum { DEPTH_MAX = 4, LOOKS = 3, SENTENCE = 256, SENTENCES = 512 };

struct audit {
    struct muster_segment *seg;
    struct muster_audit *sum;
    char (*found)[SENTENCE]; /* the first SENTENCES of this walk */
    uint8_t *met;            /* a bit per granule of the heap: a block that starts there was met */
    uint64_t body[MU_CHUNK / 8];
};

__attribute__((format(printf, 2, 3))) static void complain(struct audit *a, const char *format, ...)
{
    va_list args;

    if (a->sum->problems < SENTENCES) {
        va_start(args, format);
        vsnprintf(a->found[a->sum->problems], SENTENCE, format, args);
        va_end(args);
    }
    a->sum->problems++;
}

/* Mark; false when it was marked before. */
static bool mark(struct audit *a, uint32_t index)
{
    uint8_t bit = (uint8_t)(1u << (index & 7));
    bool fresh = !(a->met[index >> 3] & bit);

    a->met[index >> 3] |= bit;
    return fresh;
}

/* What hangs below a block that is held still by the commit `seen` of `word`; false: the object has changed. */
static bool descend(struct audit *a, const mu_a64 *word, uint64_t seen, const char *what, size_t at,
                    const uint64_t *refs, uint32_t count, int depth)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t below[2048], ref = refs[i];
        uint32_t n;
        bool live;

        if (!ref)
            continue;
        live = mu_heap_is_live(a->seg, ref);
        n = mu_heap_refs(a->seg, ref, below, 2048);
        if (!mu_word_same(mu_recheck(word), seen))
            return false;
        if (!mu_heap_block(a->seg, MU_REF_INDEX(ref), NULL))
            complain(a, "%s %zu refers to index %u, where no block can be", what, at, MU_REF_INDEX(ref));
        else if (!live)
            complain(a, "%s %zu refers to block %u at generation %u, which is not alive", what, at, MU_REF_INDEX(ref),
                     MU_REF_GENERATION(ref));
        else if (!mark(a, MU_REF_INDEX(ref)))
            complain(a, "%s %zu refers to block %u, which something else refers to as well", what, at,
                     MU_REF_INDEX(ref));
        else if (n > 2048 || depth >= DEPTH_MAX)
            complain(a, "%s %zu: block %u has impossible references", what, at, MU_REF_INDEX(ref));
        else if (!descend(a, word, seen, what, at, below, n, depth + 1))
            return false;
    }
    return true;
}

static void check_page(struct audit *a, const char *what, size_t at, const struct mu_root *root, uint32_t mask)
{
    struct mu_page page;
    struct mu_entry e;
    uint32_t index = 0, refs = 0;
    bool corrupt = false;

    if (!mu_page_open(&page, root)) {
        complain(a, "%s %zu: its block is not a page", what, at);
        return;
    }
    while (mu_page_next(&page, &index, &e, &corrupt)) {
        refs += e.refs;
        a->sum->keys++;
        if (((e.hash >> 20) & mask) != at)
            complain(a, "%s %zu holds an entry of another bucket", what, at);
        if (!e.version || e.version > page.data[0])
            complain(a, "%s %zu: an entry's version %" PRIu64 " is not among the page's %" PRIu64, what, at, e.version,
                     page.data[0]);
    }
    if (corrupt || index != page.count || refs != root->refs)
        complain(a, "%s %zu: its page is not well formed", what, at);
}

/* Marks made for a commit that was replaced while we looked must not count: take them back. */
static void unmark(struct audit *a, const uint64_t *refs, uint32_t count, int depth)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t below[2048];
        uint32_t n = refs[i] ? mu_heap_refs(a->seg, refs[i], below, 2048) : 0;

        if (!refs[i] || !mu_heap_block(a->seg, MU_REF_INDEX(refs[i]), NULL))
            continue;
        a->met[MU_REF_INDEX(refs[i]) >> 3] &= (uint8_t) ~(1u << (MU_REF_INDEX(refs[i]) & 7));
        if (n <= 2048 && depth < DEPTH_MAX)
            unmark(a, below, n, depth + 1);
    }
}

static void check_object(struct audit *a, const mu_a64 *word, const char *what, size_t at, uint32_t mask)
{
    for (int tries = 0;; tries++) {
        struct muster_audit before = *a->sum;
        struct mu_root root;
        enum mu_read rc = mu_object_read(a->seg, word, a->body, &root);
        uint32_t index = MU_WORD_INDEX(root.word);
        struct mu_block *b;
        uint64_t w;

        if (rc == MU_READ_EMPTY)
            return;
        b = mu_heap_block(a->seg, index, NULL);
        if (rc == MU_READ_CORRUPT || !b) {
            complain(a, "%s %zu names index %u, which is no sound block", what, at, index);
            return;
        }
        w = mu_load_acquire(&b->word); /* acquire: pairs with publish */
        if (mu_word_same(mu_recheck(word), root.word)) {
            bool fresh = mark(a, index);

            if (MU_BLOCK_STATE(w) != MU_LIVE)
                complain(a, "%s %zu names block %u, which is not alive", what, at, index);
            else if (!fresh)
                complain(a, "%s %zu names block %u, which something else names as well", what, at, index);
            if (mask)
                check_page(a, what, at, &root, mask);
            if (descend(a, word, root.word, what, at, root.body, root.refs, 1))
                return;
            a->met[index >> 3] &= (uint8_t) ~(1u << (index & 7));
            unmark(a, root.body, root.refs, 1);
        }
        *a->sum = before; /* changed while we looked: again; a very busy object is let go, its blocks are in motion */
        if (tries > 10000)
            return;
    }
}

/* Objects' roots lie all over the heap: ask for the one that comes AHEAD objects later, so that they arrive together.
 */
static void fetch_ahead(const struct muster_segment *seg, const mu_a64 *words, uint32_t i, uint32_t count)
{
    enum { AHEAD = 16, LINES = 3 };
    const struct mu_block *b;

    if (i + AHEAD >= count)
        return;
    b = mu_heap_block(seg, MU_WORD_INDEX(mu_load_relaxed(&words[i + AHEAD])), NULL); /* relaxed: a hint */
    for (int k = 0; b && k < LINES; k++)
        __builtin_prefetch((const char *)b + k * 64);
}

/* Is it the block that `named` names, or one of its parts, if these belong to it alone? */
static bool covers(const struct muster_segment *seg, uint64_t named, uint64_t ref)
{
    uint64_t parts[2048];
    uint32_t n;

    if ((named & ~MU_REF_DEEP) == ref)
        return true;
    n = named & MU_REF_DEEP ? mu_heap_refs(seg, named, parts, 2048) : 0;
    for (uint32_t p = 0; n <= 2048 && p < n; p++)
        if ((parts[p] & ~MU_REF_DEEP) == ref)
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
        if (pin && covers(seg, pin, ref))
            return true;
        if (!mu_load_acquire(&s->act)) /* acquire: pairs with record() */
            continue;
        for (uint32_t k = 0; k < MU_INTENT_REFS; k++) /* relaxed: a look */
            if (covers(seg, mu_load_relaxed(&s->news[k]), ref) || covers(seg, mu_load_relaxed(&s->olds[k]), ref))
                return true;
    }
    return false;
}

/* Is it reachable from anywhere right now? The slow and certain way, for suspects. */
static bool is_reached(const struct muster_segment *seg, uint64_t ref)
{
    const mu_a64 *const rows[] = {seg->buckets, seg->cells, seg->events, &seg->header->cluster};
    const uint32_t counts[] = {seg->num_buckets, seg->num_cells, seg->num_events, 1};

    for (int k = 0; k < 4; k++)
        for (uint32_t i = 0; i < counts[k]; i++)
            if (MU_WORD_INDEX(mu_load_relaxed(&rows[k][i])) && mu_object_reaches(seg, &rows[k][i], ref)) /* a look */
                return true;
    return false;
}

static bool holds(const struct muster_segment *seg, uint64_t w)
{
    uint32_t slot = MU_BLOCK_SLOT(w);
    uint64_t s = slot < seg->num_slots ? mu_load_acquire(&seg->slots[slot].word) : 0; /* acquire: as the claim */

    return MU_SLOT_STATE(s) != MU_SLOT_FREE && MU_SLOT_INCARNATION(s) == MU_BLOCK_INCARNATION(w);
}

/* A suspect: the same word still, and still without an excuse, at several looks. */
static bool is_guilty(const struct muster_segment *seg, struct mu_block *b, uint32_t index, uint64_t w)
{
    for (int i = 0; i < LOOKS; i++) {
        uint64_t ref = MU_REF(MU_BLOCK_GENERATION(w), index);

        if (mu_load_acquire(&b->word) != w) /* acquire: as heap.c */
            return false;
        if (MU_BLOCK_STATE(w) == MU_OWNED ? holds(seg, w)
                                          : is_named(seg, index, MU_BLOCK_GENERATION(w)) || is_reached(seg, ref))
            return false;
    }
    return mu_load_acquire(&b->word) == w; /* acquire: as heap.c */
}

static void check_block(struct audit *a, uint32_t index, uint32_t bytes_limit)
{
    struct mu_block *b = mu_heap_block(a->seg, index, NULL);
    uint64_t w = mu_load_acquire(&b->word); /* acquire: as heap.c */
    bool met = a->met[index >> 3] & (1u << (index & 7));

    switch (MU_BLOCK_STATE(w)) {
    case MU_FREE: a->sum->blocks_free++; break;
    case MU_OWNED:
        a->sum->blocks_owned++;
        if (!holds(a->seg, w) && is_guilty(a->seg, b, index, w))
            complain(a, "block %u is owned by slot %u, incarnation %u, which is not held", index, MU_BLOCK_SLOT(w),
                     MU_BLOCK_INCARNATION(w));
        break;
    case MU_LIVE: {
        uint64_t meta = mu_load_relaxed(&b->meta); /* relaxed: for the sum only */

        a->sum->blocks_live++;
        if (MU_META_BYTES(meta) <= bytes_limit)
            a->sum->bytes_live += MU_META_BYTES(meta);
        if (!met && is_guilty(a->seg, b, index, w))
            complain(a, "block %u (type %u, generation %u) is alive but nothing refers to it: leaked", index,
                     MU_META_TYPE(meta), MU_BLOCK_GENERATION(w));
        break;
    }
    default: complain(a, "block %u has impossible state %u", index, MU_BLOCK_STATE(w)); break;
    }
}

static void check_heap(struct audit *a)
{
    struct muster_segment *seg = a->seg;

    for (uint32_t c = 0; c < seg->num_chunks; c++) {
        uint32_t w = mu_load32_acquire(&seg->chunks[c]), class_index = MU_CHUNK_CLASS(w); /* acquire: as heap.c */
        uint32_t blocks, step;

        if (!w)
            continue;
        if (!class_index || class_index > MU_CLASSES || (w & ~(0xffu | MU_CHUNK_SYSTEM))) {
            complain(a, "chunk %u has an impossible class word %08x", c, w);
            continue;
        }
        blocks = mu_heap_chunk_blocks(class_index - 1);
        step = (uint32_t)(mu_heap_class_bytes(class_index - 1) + MU_BLOCK_HEADER) / MU_GRANULE;
        for (uint32_t i = 0; i < blocks; i++)
            check_block(a, c * MU_CHUNK_GRANULES + i * step + 1, step * MU_GRANULE);
    }
}

static void check_slots(struct audit *a)
{
    struct muster_segment *seg = a->seg;
    uint32_t high = mu_slot_high(seg);

    for (uint32_t i = 0; i < seg->num_slots; i++) {
        uint64_t w = mu_load_acquire(&seg->slots[i].word); /* acquire: pairs with the claim */

        if (MU_SLOT_STATE(w) > MU_SLOT_DEAD)
            complain(a, "slot %u has impossible state %u", i, MU_SLOT_STATE(w));
        else if (MU_SLOT_STATE(w) != MU_SLOT_FREE && i >= high && i >= mu_slot_high(seg))
            complain(a, "slot %u is held but lies above slots_high %u", i, high);
    }
}

static void walk(struct audit *a)
{
    struct muster_segment *seg = a->seg;

    memset(a->sum, 0, sizeof *a->sum);
    memset(a->met, 0, (size_t)seg->num_chunks * MU_CHUNK_GRANULES / 8 + 1);
    check_slots(a);
    check_object(a, &seg->header->cluster, "cluster", 0, 0);
    for (uint32_t i = 0; i < seg->num_cells; i++)
        check_object(a, &seg->cells[i], "cell", i, seg->num_cells - 1);
    a->sum->keys = 0; /* only the store's count */
    for (uint32_t i = 0; i < seg->num_buckets; i++) {
        fetch_ahead(seg, seg->buckets, i, seg->num_buckets);
        check_object(a, &seg->buckets[i], "bucket", i, seg->num_buckets - 1);
    }
    for (uint32_t i = 0; i < seg->num_events; i++)
        check_object(a, &seg->events[i], "event", i, 0);
    check_heap(a);
}

/* Walk again, and keep of what the first walk found only what is found again. */
static enum muster_status confirm(struct audit *a)
{
    char(*before)[SENTENCE] = a->found;
    uint64_t count = a->sum->problems < SENTENCES ? a->sum->problems : SENTENCES, again, kept = 0;

    a->found = malloc(SENTENCES * sizeof *a->found);
    if (!a->found) {
        a->found = before;
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to audit job %s", a->seg->job);
    }
    walk(a);
    again = a->sum->problems < SENTENCES ? a->sum->problems : SENTENCES;
    for (uint64_t i = 0; i < again; i++) {
        bool both = false;

        for (uint64_t k = 0; k < count && !both; k++)
            both = !strcmp(a->found[i], before[k]);
        if (both && kept++ != i)
            memcpy(a->found[kept - 1], a->found[i], SENTENCE);
    }
    if (kept < SENTENCES) /* else there are more than fit: they all count */
        a->sum->problems = kept;
    free(before);
    return MUSTER_OK;
}

enum muster_status muster_segment_check(struct muster_segment *segment, void (*report)(void *arg, const char *sentence),
                                        void *arg, struct muster_audit *ret_audit)
{
    struct audit *a = calloc(1, sizeof *a);
    enum muster_status status = MUSTER_OK;

    if (a) {
        a->met = malloc((size_t)segment->num_chunks * MU_CHUNK_GRANULES / 8 + 1);
        a->found = malloc(SENTENCES * sizeof *a->found);
    }
    if (a && a->met && a->found) {
        a->seg = segment;
        a->sum = ret_audit;
        walk(a);
        if (ret_audit->problems)
            status = confirm(a);
        for (uint64_t i = 0; !status && report && i < ret_audit->problems && i < SENTENCES; i++)
            report(arg, a->found[i]);
    } else {
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to audit job %s", segment->job);
    }
    if (a) {
        free(a->met);
        free(a->found);
    }
    free(a);
    return status;
}
