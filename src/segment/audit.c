/*
 * segment/audit.c: the auditor: is every structural rule kept?
 *
 * Each object (cluster, cells, events, buckets) is gone down from through all references. Each block that is met is
 * marked, and references are complained about that are out of range, to blocks that are not LIVE at that generation, or
 * to blocks that were met before. Every block of the heap is looked at, too: LIVE but not met is a leak, unless an
 * intent or a pin names it; OWNED must name a slot that is held, at its incarnation.
 *
 * There may be a million buckets, and their pages lie all over the heap: a miss or more for each of them, if one went
 * from bucket to page. So the heap is gone over in the order of memory, once (audit_heap.c), and each page says by its
 * first entry's hash in which bucket to look for its name. It is proven where it lies: every rule is looked at, nothing
 * is said. What could not be proven is left to the walk over the buckets behind it, which goes down from each bucket
 * without proof, and is the one to complain. The proof may be stricter than that walk, never laxer.
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

#include "segment/audit.h"
#include "segment/entry.h"
#include "segment/heap.h"
#include "segment/hosts.h"
#include "segment/object.h"
#include "segment/reserve.h"
#include "segment/table.h"

enum { DEPTH_MAX = 4 };

void mu_audit_complain(struct mu_auditor *a, const char *format, ...)
{
    va_list args;

    if (a->found && a->sum->problems < MU_AUDIT_SENTENCES) {
        va_start(args, format);
        vsnprintf(a->found[a->sum->problems], MU_AUDIT_SENTENCE, format, args);
        va_end(args);
    }
    a->sum->problems++;
}

/* What hangs below a block that is held still by the commit `seen` of `word`; false: the object has changed. */
static bool audit_descend(struct mu_auditor *a, const mu_a64 *word, uint64_t seen, const char *what, size_t at,
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
            mu_audit_complain(a, "%s %zu refers to index %u, where no block can be", what, at, MU_REF_INDEX(ref));
        else if (!live)
            mu_audit_complain(a, "%s %zu refers to block %u at generation %u, which is not alive", what, at,
                              MU_REF_INDEX(ref), MU_REF_GENERATION(ref));
        else if (!mu_audit_mark(a, MU_REF_INDEX(ref)))
            mu_audit_complain(a, "%s %zu refers to block %u, which something else refers to as well", what, at,
                              MU_REF_INDEX(ref));
        else if (n > 2048 || depth >= DEPTH_MAX)
            mu_audit_complain(a, "%s %zu: block %u has impossible references", what, at, MU_REF_INDEX(ref));
        else if (!audit_descend(a, word, seen, what, at, below, n, depth + 1))
            return false;
    }
    return true;
}

static void check_page(struct mu_auditor *a, const char *what, size_t at, const struct mu_root *root, uint32_t mask)
{
    struct mu_page page;
    struct mu_entry e;
    uint32_t index = 0, refs = 0;
    bool corrupt = false;

    if (!mu_page_open(&page, root)) {
        mu_audit_complain(a, "%s %zu: its block is not a page", what, at);
        return;
    }
    while (mu_page_next(&page, &index, &e, &corrupt)) {
        refs += e.refs;
        a->sum->keys += !(e.flags & MU_ENTRY_DONE);
        if (((e.hash >> 20) & mask) != at)
            mu_audit_complain(a, "%s %zu holds an entry of another bucket", what, at);
        if (!e.version || (e.version > page.data[0] && !mu_is_follower(a->seg))) /* there it is the leader's */
            mu_audit_complain(a, "%s %zu: an entry's version %" PRIu64 " is not among the page's %" PRIu64, what, at,
                              e.version, page.data[0]);
    }
    if (corrupt || index != page.count || refs != root->refs)
        mu_audit_complain(a, "%s %zu: its page is not well formed", what, at);
}

/* Marks made for a commit that was replaced while we looked must not count: take them back. */
static void audit_unmark(struct mu_auditor *a, const uint64_t *refs, uint32_t count, int depth)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t below[2048];
        uint32_t n = refs[i] ? mu_heap_refs(a->seg, refs[i], below, 2048) : 0;

        if (!refs[i] || !mu_heap_block(a->seg, MU_REF_INDEX(refs[i]), NULL))
            continue;
        mu_audit_take_back(a, MU_REF_INDEX(refs[i]));
        if (n <= 2048 && depth < DEPTH_MAX)
            audit_unmark(a, below, n, depth + 1);
    }
}

static void check_object(struct mu_auditor *a, const mu_a64 *word, const char *what, size_t at, uint32_t mask)
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
            mu_audit_complain(a, "%s %zu names index %u, which is no sound block", what, at, index);
            return;
        }
        w = mu_load_acquire(&b->word); /* acquire: pairs with publish */
        if (mu_word_same(mu_recheck(word), root.word)) {
            bool fresh = mu_audit_mark(a, index);

            if (MU_BLOCK_STATE(w) != MU_LIVE)
                mu_audit_complain(a, "%s %zu names block %u, which is not alive", what, at, index);
            else if (!fresh)
                mu_audit_complain(a, "%s %zu names block %u, which something else names as well", what, at, index);
            if (mask)
                check_page(a, what, at, &root, mask);
            if (audit_descend(a, word, root.word, what, at, root.body, root.refs, 1))
                return;
            mu_audit_take_back(a, index);
            audit_unmark(a, root.body, root.refs, 1);
        }
        *a->sum = before; /* changed while we looked: again; a very busy object is let go, its blocks are in motion */
        if (tries > 10000)
            return;
    }
}

static void check_slots(struct mu_auditor *a)
{
    struct muster_segment *seg = a->seg;
    uint32_t high = mu_slot_high(seg);

    for (uint32_t i = 0; i < seg->num_slots; i++) {
        uint64_t w = mu_load_acquire(&seg->slots[i].word); /* acquire: pairs with the claim */

        if (MU_SLOT_STATE(w) > MU_SLOT_DEAD)
            mu_audit_complain(a, "slot %u has impossible state %u", i, MU_SLOT_STATE(w));
        else if (MU_SLOT_STATE(w) != MU_SLOT_FREE && i >= high && i >= mu_slot_high(seg))
            mu_audit_complain(a, "slot %u is held but lies above slots_high %u", i, high);
    }
}

/*
 * Which buckets are not empty? All in a row, before the heap: their words are then near when they are asked for one by
 * one. And without a branch, for whether one is empty cannot be guessed.
 */
static void list_buckets(struct mu_auditor *a)
{
    const struct muster_segment *seg = a->seg;

    for (uint32_t i = 0; i < seg->num_buckets; i += 64) {
        uint32_t n = seg->num_buckets - i < 64 ? seg->num_buckets - i : 64;
        uint64_t used = 0;

        for (uint32_t k = 0; k < n; k++)
            used |= (uint64_t)(MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[i + k])) != 0) << k; /* relaxed: a look */
        a->used[i / 64] = used;
    }
}

/* Those that were not empty, and were not proven. */
static void check_buckets(struct mu_auditor *a)
{
    struct muster_segment *seg = a->seg;

    for (uint32_t i = 0; i < seg->num_buckets; i += 64)
        for (uint64_t left = a->used[i / 64] & ~a->proven[i / 64]; left; left &= left - 1) {
            uint32_t at = i + (uint32_t)__builtin_ctzll(left);

            check_object(a, &seg->buckets[at], "bucket", at, seg->num_buckets - 1);
        }
}

/* False: see mu_audit_heap(). */
static bool audit_walk(struct mu_auditor *a, enum mu_audit_how how)
{
    struct muster_segment *seg = a->seg;

    memset(a->sum, 0, sizeof *a->sum);
    check_slots(a);
    check_object(a, &seg->header->cluster, "cluster", 0, 0);
    check_object(a, &seg->header->members, "membership", 0, 0);
    for (uint32_t i = 0; i < seg->num_cells; i++)
        check_object(a, &seg->cells[i], "cell", i, seg->num_cells - 1);
    a->sum->keys = 0; /* only the store's count */
    for (uint32_t i = 0; i < seg->num_events; i++)
        check_object(a, &seg->events[i], "event", i, 0);
    for (uint32_t i = 0, high = mu_objects_high(seg); i < high; i++)
        if (MU_WORD_INDEX(mu_load_relaxed(&seg->objects[i]))) /* relaxed: looked at again */
            check_object(a, &seg->objects[i], "object", i, 0);
    if (!mu_audit_holds(a))
        return false;
    mu_audit_arena(a);
    list_buckets(a);
    if (!mu_audit_heap(a, how))
        return false;
    check_buckets(a);
    mu_audit_doubted(a);
    return true;
}

/* Fresh from the kernel, they cost nothing where nothing is noted. */
bool mu_audit_begin(struct mu_auditor *a)
{
    size_t blocks = (size_t)a->seg->num_chunks * MU_CHUNK_GRANULES / 64, buckets = a->seg->num_buckets / 64 + 1;

    free(a->met);
    a->met = calloc(2 * (blocks + buckets), sizeof *a->met);
    if (!a->met)
        return false;
    a->doubted = a->met + blocks;
    a->used = a->doubted + blocks;
    a->proven = a->used + buckets;
    return true;
}

/* Anew, by one walker. */
static bool walk_alone(struct mu_auditor *a)
{
    return mu_audit_begin(a) && audit_walk(a, MU_AUDIT_ALONE);
}

static enum muster_status audit_no_memory(const struct muster_segment *seg)
{
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory to audit job %s", seg->job);
}

/* Walk again, and keep of what the first walk found only what is found again. */
static enum muster_status audit_confirm(struct mu_auditor *a)
{
    char(*before)[MU_AUDIT_SENTENCE] = a->found;
    uint64_t count = a->sum->problems < MU_AUDIT_SENTENCES ? a->sum->problems : MU_AUDIT_SENTENCES, again, kept = 0;

    a->found = malloc(MU_AUDIT_SENTENCES * sizeof *a->found);
    if (!a->found || !walk_alone(a)) {
        free(before);
        return audit_no_memory(a->seg);
    }
    again = a->sum->problems < MU_AUDIT_SENTENCES ? a->sum->problems : MU_AUDIT_SENTENCES;
    for (uint64_t i = 0; i < again; i++) {
        bool both = false;

        for (uint64_t k = 0; k < count && !both; k++)
            both = !strcmp(a->found[i], before[k]);
        if (both && kept++ != i)
            memcpy(a->found[kept - 1], a->found[i], MU_AUDIT_SENTENCE);
    }
    if (kept < MU_AUDIT_SENTENCES) /* else there are more than fit: they all count */
        a->sum->problems = kept;
    free(before);
    return MUSTER_OK;
}

enum muster_status mu_audit_check(struct muster_segment *seg, enum mu_audit_how how,
                                  void (*report)(void *arg, const char *sentence), void *arg,
                                  struct muster_audit *ret_audit)
{
    struct mu_auditor *a = calloc(1, sizeof *a);
    enum muster_status status = mu_segment_commit(seg);

    if (status) {
        free(a);
        return status;
    }
    if (!a)
        return audit_no_memory(seg);
    a->seg = seg;
    a->sum = ret_audit;
    a->found = malloc(MU_AUDIT_SENTENCES * sizeof *a->found);
    if (!a->found || !mu_audit_begin(a) || (!audit_walk(a, how) && !walk_alone(a)))
        status = audit_no_memory(seg);
    else if (ret_audit->problems)
        status = audit_confirm(a);
    for (uint64_t i = 0; !status && report && i < ret_audit->problems && i < MU_AUDIT_SENTENCES; i++)
        report(arg, a->found[i]);
    free(a->met);
    free(a->found);
    free(a);
    return status;
}

enum muster_status muster_segment_check(struct muster_segment *segment, void (*report)(void *arg, const char *sentence),
                                        void *arg, struct muster_audit *ret_audit)
{
    return mu_audit_check(segment, MU_AUDIT_AS_FITS, report, arg, ret_audit);
}
