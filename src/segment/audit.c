/*
 * segment/audit.c: the auditor: is every structural rule kept?
 *
 * Each object (cluster, cells, events, buckets) is gone down from through all references. Each block that is met is
 * marked, and references are complained about that are out of range, to blocks that are not LIVE at that generation, or
 * to blocks that were met before. Every block of the heap is looked at, too: LIVE but not met is a leak, unless an
 * intent or a pin names it; OWNED must name a slot that is held, at its incarnation.
 *
 * There may be a million buckets, and their pages lie all over the heap: a miss or more for each of them, if one went
 * from bucket to page. So the heap is gone over in the order of memory, once, and each page says by the hash of its
 * first entry in which bucket to look for its name. A page is proven where it lies: every rule is looked at, nothing
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
#include "segment/slot.h"
#include "segment/table.h"

enum { DEPTH_MAX = 4, SENTENCE = 256, SENTENCES = 512 };
enum {
    AHEAD = 16,       /* blocks before us whose buckets' words are asked for: far enough for them to arrive */
    STREAM = 4096,    /* bytes before us at which blocks are: the processor's own look-ahead ends with each page */
    STREAM_MAX = 256, /* bytes of a block that are asked for: more than most pages have */
};

struct audit {
    struct muster_segment *seg;
    struct muster_audit *sum;
    char (*found)[SENTENCE]; /* the first SENTENCES of this walk */
    uint64_t *met;           /* a bit per granule of the heap: a block that starts there was met */
    uint64_t *doubted;       /* likewise: it was LIVE, and not met so far */
    uint64_t *used;          /* a bit per bucket: it was not empty */
    uint64_t *proven;        /* likewise: it and all below it is sound */
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

/* Set bit i; false when it was set before. */
static bool set_bit(uint64_t *bits, uint32_t i)
{
    uint64_t bit = 1ull << (i & 63);
    bool fresh = !(bits[i >> 6] & bit);

    bits[i >> 6] |= bit;
    return fresh;
}

static bool has_bit(const uint64_t *bits, uint32_t i)
{
    return bits[i >> 6] >> (i & 63) & 1;
}

/* Mark the block as met; false when it was before. Its index must be one at which a block can be. */
static bool mark(struct audit *a, uint32_t index)
{
    return set_bit(a->met, index - 1);
}

static void take_back(struct audit *a, uint32_t index)
{
    a->met[(index - 1) >> 6] &= ~(1ull << ((index - 1) & 63));
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
        a->sum->keys += !(e.flags & MU_ENTRY_DONE);
        if (((e.hash >> 20) & mask) != at)
            complain(a, "%s %zu holds an entry of another bucket", what, at);
        if (!e.version || (e.version > page.data[0] && !mu_is_follower(a->seg))) /* there it is the leader's */
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
        take_back(a, MU_REF_INDEX(refs[i]));
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
            take_back(a, index);
            unmark(a, root.body, root.refs, 1);
        }
        *a->sum = before; /* changed while we looked: again; a very busy object is let go, its blocks are in motion */
        if (tries > 10000)
            return;
    }
}

/*
 * All the rules of a page of bucket `at`, as check_page() and those below it have them, where the page lies. Each word
 * is read once. Few branches, for this is run for every page.
 */
static inline bool is_sound_page(const struct mu_block *b, uint64_t meta, uint32_t limit, uint32_t at, uint32_t mask,
                                 bool copies, uint32_t *ret_keys)
{
    uint32_t keys = 0;
    uint32_t refs = MU_META_REFS(meta), bytes = MU_META_BYTES(meta), words = bytes / 8, e = MU_PAGE_WORDS, below = 0;
    const mu_a64 *data = b->body + refs;
    uint64_t commits, count;

    if (MU_META_TYPE(meta) != MU_TYPE_PAGE || bytes > limit || MU_BLOCK_HEADER + refs * 8 + bytes > limit ||
        words < MU_PAGE_WORDS)
        return false;
    /* relaxed, as all here: prove() re-checks the bucket's word. A copy's version is the leader's, and may be any. */
    commits = copies ? UINT64_MAX : mu_load_relaxed(&data[0]);
    count = mu_load_relaxed(&data[2]);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t hash, version, shape, len;
        uint32_t n, need;

        if (e + MU_ENTRY_WORDS > words)
            return false;
        hash = mu_load_relaxed(&data[e]);
        version = mu_load_relaxed(&data[e + 1]);
        shape = mu_load_relaxed(&data[e + 2]);
        len = mu_load_relaxed(&data[e + 3]);
        n = MU_SHAPE_WORDS(shape);
        need = MU_ENTRY_WORDS;
        if (!(MU_SHAPE_FLAGS(shape) & MU_ENTRY_EXTERNAL))
            need += mu_words(MU_SHAPE_KEY_LEN(shape)) + mu_words(len);
        else if (!MU_SHAPE_REFS(shape))
            return false;
        /* version - 1: 0 is beyond all others */
        if ((((uint32_t)(hash >> 20) ^ at) & mask) | (version - 1 >= commits) | (n < need) | (n > words - e) |
            (MU_SHAPE_KEY_LEN(shape) > MU_KEY_MAX) | (len > MU_ENTRY_MAX))
            return false;
        e += n;
        below += MU_SHAPE_REFS(shape);
        keys += !(MU_SHAPE_FLAGS(shape) & MU_ENTRY_DONE);
    }
    *ret_keys = keys;
    return below == refs;
}

/* Does each of them name a block that is LIVE at that generation and refers to nothing itself? */
static bool are_sound_leaves(const struct muster_segment *seg, const uint64_t *refs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct mu_block *b = mu_heap_block(seg, MU_REF_INDEX(refs[i]), NULL);

        if (!refs[i])
            continue;
        /* acquire: pairs with mu_heap_publish(); relaxed: prove() re-checks the bucket's word */
        if (!b || mu_load_acquire(&b->word) != MU_BLOCK_WORD(MU_REF_GENERATION(refs[i]), 0, 0, MU_LIVE) ||
            MU_META_REFS(mu_load_relaxed(&b->meta)))
            return false;
    }
    return true;
}

/* Mark the page at `index` and what it refers to; or, when something of that was met before, nothing. */
static bool mark_page(struct audit *a, uint32_t index, const uint64_t *refs, uint32_t count)
{
    if (!mark(a, index))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!refs[i] || mark(a, MU_REF_INDEX(refs[i])))
            continue;
        while (i-- > 0)
            if (refs[i])
                take_back(a, MU_REF_INDEX(refs[i]));
        take_back(a, index);
        return false;
    }
    return true;
}

/* Is the block a sound page, named by bucket `at`, and are its values sound? Then it and they are met. */
static inline bool prove(struct audit *a, const struct mu_block *b, uint32_t index, uint32_t limit, uint32_t at)
{
    const struct muster_segment *seg = a->seg;
    uint32_t keys, refs;
    uint64_t seen, meta;

    if (at == MU_AUDIT_NO_HOME)
        return false;
    /* acquire: pairs with the commit CAS; all that counts is read between two looks at the word */
    seen = mu_load_acquire(&seg->buckets[at]);
    if (MU_WORD_INDEX(seen) != index || MU_BLOCK_STATE(mu_load_acquire(&b->word)) != MU_LIVE) /* acquire: publish */
        return false;
    meta = mu_load_relaxed(&b->meta); /* relaxed: re-checked below */
    if (!is_sound_page(b, meta, limit, at, seg->num_buckets - 1, mu_is_follower(seg), &keys))
        return false;
    refs = MU_META_REFS(meta);
    if (refs) {
        mu_copy_out(a->body, b->body, refs);
        if (!are_sound_leaves(seg, a->body, refs))
            return false;
    }
    if (!mu_word_same(mu_recheck(&seg->buckets[at]), seen) || !mark_page(a, index, a->body, refs))
        return false;
    if (set_bit(a->proven, at)) /* else it moved on before us: its keys are counted */
        a->sum->keys += keys;
    return true;
}

/*
 * Ask for what lies before us: a block further on, not to be kept, for it would drive the buckets' words out of the
 * caches; and what prove() will need of block b: its bucket's word and its first value. Returns its home.
 */
static inline uint32_t fetch_ahead(const struct audit *a, const struct mu_block *b, uint32_t limit)
{
    const struct muster_segment *seg = a->seg;
    uint32_t at = mu_audit_home(seg, b, limit);

    for (uint32_t k = 0; k < limit && k < STREAM_MAX; k += MU_GRANULE) /* beyond the heap, perhaps: it cannot fault */
        __builtin_prefetch((const char *)b + STREAM + k, 0, 0);
    if (at == MU_AUDIT_NO_HOME)
        return at;
    __builtin_prefetch((const void *)&seg->buckets[at]);
    __builtin_prefetch(&a->proven[at >> 6], 1);
    if (MU_META_REFS(mu_load_relaxed(&b->meta))) /* relaxed, as all here: a hint */
        __builtin_prefetch(mu_heap_block(seg, MU_REF_INDEX(mu_load_relaxed(&b->body[0])), NULL));
    return at;
}

static inline void check_block(struct audit *a, const struct mu_block *b, uint32_t index, uint32_t limit, uint32_t at)
{
    uint64_t w = mu_load_acquire(&b->word); /* acquire: as heap.c */

    switch (MU_BLOCK_STATE(w)) {
    case MU_FREE: a->sum->blocks_free++; break;
    case MU_OWNED:
        a->sum->blocks_owned++;
        if (mu_audit_is_guilty(a->seg, b, index, limit, w))
            complain(a, "block %u is owned by slot %u, incarnation %u, which is not held", index, MU_BLOCK_SLOT(w),
                     MU_BLOCK_INCARNATION(w));
        break;
    case MU_LIVE: {
        uint32_t bytes = MU_META_BYTES(mu_load_relaxed(&b->meta)); /* relaxed: for the sum only */

        a->sum->blocks_live++;
        if (bytes <= limit)
            a->sum->bytes_live += bytes;
        if (!has_bit(a->met, index - 1) && !prove(a, b, index, limit, at))
            set_bit(a->doubted, index - 1);
        break;
    }
    default: complain(a, "block %u has impossible state %u", index, MU_BLOCK_STATE(w)); break;
    }
}

/* It was alive when we came past it, and nothing led to it. */
static void check_leak(struct audit *a, uint32_t index)
{
    uint32_t limit;
    const struct mu_block *b = mu_heap_block(a->seg, index, &limit);
    uint64_t w = b ? mu_load_acquire(&b->word) : 0; /* acquire: as heap.c */

    if (MU_BLOCK_STATE(w) == MU_LIVE && mu_audit_is_guilty(a->seg, b, index, limit, w))
        complain(a, "block %u (type %u, generation %u) is alive but nothing refers to it: leaked", index,
                 MU_META_TYPE(mu_load_relaxed(&b->meta)), MU_BLOCK_GENERATION(w)); /* relaxed: for people */
}

static void check_chunk(struct audit *a, uint32_t chunk, uint32_t class_index)
{
    uint32_t granules = mu_class_granules[class_index], limit = granules * MU_GRANULE;
    uint32_t blocks = mu_heap_chunk_blocks(class_index), first = chunk * MU_CHUNK_GRANULES + 1;
    uint32_t home[AHEAD]; /* of the blocks before us, in turn */

    for (uint32_t i = 0; i < blocks + AHEAD; i++) {
        uint32_t index = first + (i - AHEAD) * granules;

        if (i >= AHEAD)
            check_block(a, mu_heap_at(a->seg, index), index, limit, home[i % AHEAD]);
        if (i < blocks)
            home[i % AHEAD] = fetch_ahead(a, mu_heap_at(a->seg, first + i * granules), limit);
    }
}

/* The chunk's class + 1; 0: it has none. */
static uint32_t class_of(const struct muster_segment *seg, uint32_t chunk, uint32_t *ret_word)
{
    uint32_t w = mu_load32_acquire(&seg->chunks[chunk]), class = MU_CHUNK_CLASS(w); /* acquire: as heap.c */

    *ret_word = w;
    return class > MU_CLASSES || (w & ~(0xffu | MU_CHUNK_SYSTEM)) ? 0 : class;
}

static void check_heap(struct audit *a)
{
    for (uint32_t c = 0; c < a->seg->num_chunks; c++) {
        uint32_t w, class = class_of(a->seg, c, &w);

        if (class)
            check_chunk(a, c, class - 1);
        else if (w)
            complain(a, "chunk %u has an impossible class word %08x", c, w);
    }
}

/* Those that were alive, and that nothing led to. */
static void check_doubted(struct audit *a)
{
    enum { WORDS = MU_CHUNK_GRANULES / 64 };

    for (uint32_t c = 0; c < a->seg->num_chunks; c++) {
        uint32_t w, class = class_of(a->seg, c, &w);

        for (uint32_t i = c * WORDS; class && i < (c + 1) * WORDS; i++)
            for (uint64_t left = a->doubted[i] & ~a->met[i]; left; left &= left - 1)
                check_leak(a, i * 64 + (uint32_t)__builtin_ctzll(left) + 1);
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

/*
 * Which buckets are not empty? All in a row, before the heap: their words are then near when they are asked for one by
 * one. And without a branch, for whether one is empty cannot be guessed.
 */
static void list_buckets(struct audit *a)
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
static void check_buckets(struct audit *a)
{
    struct muster_segment *seg = a->seg;

    for (uint32_t i = 0; i < seg->num_buckets; i += 64)
        for (uint64_t left = a->used[i / 64] & ~a->proven[i / 64]; left; left &= left - 1) {
            uint32_t at = i + (uint32_t)__builtin_ctzll(left);

            check_object(a, &seg->buckets[at], "bucket", at, seg->num_buckets - 1);
        }
}

static void walk(struct audit *a)
{
    struct muster_segment *seg = a->seg;

    memset(a->sum, 0, sizeof *a->sum);
    check_slots(a);
    check_object(a, &seg->header->cluster, "cluster", 0, 0);
    for (uint32_t i = 0; i < seg->num_cells; i++)
        check_object(a, &seg->cells[i], "cell", i, seg->num_cells - 1);
    a->sum->keys = 0; /* only the store's count */
    for (uint32_t i = 0; i < seg->num_events; i++)
        check_object(a, &seg->events[i], "event", i, 0);
    list_buckets(a);
    check_heap(a);
    check_buckets(a);
    check_doubted(a);
}

/* Notes for one walk, all zero; false: no memory. Fresh from the kernel, they cost nothing where nothing is noted. */
static bool begin(struct audit *a)
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

/* Walk again, and keep of what the first walk found only what is found again. */
static enum muster_status confirm(struct audit *a)
{
    char(*before)[SENTENCE] = a->found;
    uint64_t count = a->sum->problems < SENTENCES ? a->sum->problems : SENTENCES, again, kept = 0;

    a->found = malloc(SENTENCES * sizeof *a->found);
    if (!a->found || !begin(a)) {
        free(before);
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
        a->seg = segment;
        a->sum = ret_audit;
        a->found = malloc(SENTENCES * sizeof *a->found);
    }
    if (a && a->found && begin(a)) {
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
