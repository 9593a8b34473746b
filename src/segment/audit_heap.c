/*
 * segment/audit_heap.c: the auditor's way over the heap, in the order of memory.
 *
 * Each page is proven where it lies (audit.c says why). The heap is a stream from memory, and one processor cannot ask
 * for it as fast as memory gives it: so of a large heap every other chunk is a helper's, a thread that lasts as long as
 * this. It reads the same segment, and marks, doubts and counts in notes of its own, which are put together at the end:
 * what one has doubted the other may have met. What both have met is an error, or was moved by a writer from before the
 * one to before the other; and of what the helper complains nobody keeps the words. Then nothing of this counts, and
 * all is walked again by one.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/process.h"
#include "segment/audit.h"
#include "segment/entry.h"
#include "segment/hosts.h"
#include "segment/table.h"

#define HELP_FROM 256u /* chunks in use: what one walker needs some hundred microseconds for, and a thread fifty */

enum {
    AHEAD = 16,       /* blocks before us, of which the buckets' words are asked for: far enough for them to arrive */
    STREAM = 4096,    /* bytes before us at which blocks are: the processor's own look-ahead ends with each page */
    STREAM_MAX = 256, /* bytes of a block that are asked for: more than most pages have */
};

static bool has_bit(const uint64_t *bits, uint32_t i)
{
    return bits[i >> 6] >> (i & 63) & 1;
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
    /* relaxed, as all here: page_prove() re-checks the bucket's word. A copy's version is the leader's, and may be any.
     */
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
        /* acquire: pairs with mu_heap_publish(); relaxed: page_prove() re-checks the bucket's word */
        if (!b || mu_load_acquire(&b->word) != MU_BLOCK_WORD(MU_REF_GENERATION(refs[i]), 0, 0, MU_LIVE) ||
            MU_META_REFS(mu_load_relaxed(&b->meta)))
            return false;
    }
    return true;
}

/* Mark the page at `index` and what it refers to; or, when something of that was met before, nothing. */
static bool mark_page(struct mu_auditor *a, uint32_t index, const uint64_t *refs, uint32_t count)
{
    if (!mu_audit_mark(a, index))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!refs[i] || mu_audit_mark(a, MU_REF_INDEX(refs[i])))
            continue;
        while (i-- > 0)
            if (refs[i])
                mu_audit_take_back(a, MU_REF_INDEX(refs[i]));
        mu_audit_take_back(a, index);
        return false;
    }
    return true;
}

/* Is the block a sound page, named by bucket `at`, and are its values sound? Then it and they are met. */
static inline bool page_prove(struct mu_auditor *a, const struct mu_block *b, uint32_t index, uint32_t limit,
                              uint32_t at)
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
    if (mu_audit_set(a->proven, at)) /* else it moved on before us: its keys are counted */
        a->sum->keys += keys;
    return true;
}

/*
 * Ask for what lies before us: a block further on, not to be kept, for it would drive the buckets' words out of the
 * caches; and what page_prove() will need of block b: its bucket's word and its first value. Returns its home.
 */
static inline uint32_t fetch_ahead(const struct mu_auditor *a, const struct mu_block *b, uint32_t limit)
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

static inline void check_block(struct mu_auditor *a, const struct mu_block *b, uint32_t index, uint32_t limit,
                               uint32_t at)
{
    uint64_t w = mu_load_acquire(&b->word); /* acquire: as heap.c */

    switch (MU_BLOCK_STATE(w)) {
    case MU_FREE: a->sum->blocks_free++; break;
    case MU_OWNED:
        a->sum->blocks_owned++;
        if (mu_audit_is_guilty(a->seg, b, index, limit, w))
            mu_audit_complain(a, "block %u is owned by slot %u, incarnation %u, which is not held", index,
                              MU_BLOCK_SLOT(w), MU_BLOCK_INCARNATION(w));
        break;
    case MU_LIVE: {
        uint32_t bytes = MU_META_BYTES(mu_load_relaxed(&b->meta)); /* relaxed: for the sum only */

        a->sum->blocks_live++;
        if (bytes <= limit)
            a->sum->bytes_live += bytes;
        if (!has_bit(a->met, index - 1) && !page_prove(a, b, index, limit, at))
            mu_audit_set(a->doubted, index - 1);
        break;
    }
    default: mu_audit_complain(a, "block %u has impossible state %u", index, MU_BLOCK_STATE(w)); break;
    }
}

/* It was alive when we came past it, and nothing led to it. */
static void check_leak(struct mu_auditor *a, uint32_t index)
{
    uint32_t limit;
    const struct mu_block *b = mu_heap_block(a->seg, index, &limit);
    uint64_t w = b ? mu_load_acquire(&b->word) : 0; /* acquire: as heap.c */

    if (MU_BLOCK_STATE(w) == MU_LIVE && mu_audit_is_guilty(a->seg, b, index, limit, w))
        mu_audit_complain(a, "block %u (type %u, generation %u) is alive but nothing refers to it: leaked", index,
                          MU_META_TYPE(mu_load_relaxed(&b->meta)), MU_BLOCK_GENERATION(w)); /* relaxed: for people */
}

static void check_chunk(struct mu_auditor *a, uint32_t chunk, uint32_t class_index)
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

/* Those that were alive, and that nothing led to. */
void mu_audit_doubted(struct mu_auditor *a)
{
    enum { WORDS = MU_CHUNK_GRANULES / 64 };

    for (uint32_t c = 0; c < a->seg->num_chunks; c++) {
        uint32_t w, class = class_of(a->seg, c, &w);

        for (uint32_t i = c * WORDS; class && i < (c + 1) * WORDS; i++)
            for (uint64_t left = a->doubted[i] & ~a->met[i]; left; left &= left - 1)
                check_leak(a, i * 64 + (uint32_t)__builtin_ctzll(left) + 1);
    }
}

/* Every chunk; or of each so many stripes the one with this number. */
static void walk_chunks(struct mu_auditor *a, uint32_t stripe, uint32_t of)
{
    for (uint32_t c = 0; c < a->seg->num_chunks; c++) {
        uint32_t w, class;

        if (c / MU_AUDIT_STRIPE % of != stripe)
            continue;
        class = class_of(a->seg, c, &w);
        if (class)
            check_chunk(a, c, class - 1);
        else if (w)
            mu_audit_complain(a, "chunk %u has an impossible class word %08x", c, w);
    }
}

static void *helper_run(void *arg)
{
    struct mu_auditor *helper = arg;

    mu_own_thread(1);
    walk_chunks(helper, 1, 2);
    mu_own_thread(-1);
    return NULL;
}

/* NULL: without one, then. */
static struct mu_auditor *start_helper(const struct mu_auditor *a, pthread_t *ret_thread)
{
    struct mu_auditor *helper = calloc(1, sizeof *helper + sizeof *helper->sum);
    sigset_t all, old;
    bool started = false;

    if (!helper)
        return NULL;
    helper->seg = a->seg;
    helper->sum = (struct muster_audit *)(helper + 1);
    if (mu_audit_begin(helper)) {
        sigfillset(&all); /* the program's signals are the program's */
        pthread_sigmask(SIG_SETMASK, &all, &old);
        started = pthread_create(ret_thread, NULL, helper_run, helper) == 0;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    if (started)
        return helper;
    free(helper->met);
    free(helper);
    return NULL;
}

/* False: both have met the same, or the helper has something to say. */
static bool put_together(struct mu_auditor *a, const struct mu_auditor *helper)
{
    enum { WORDS = MU_CHUNK_GRANULES / 64 };
    uint64_t twice = 0;

    for (uint32_t c = 0; c < a->seg->num_chunks; c++) {
        uint32_t w, class = class_of(a->seg, c, &w);

        for (uint32_t i = c * WORDS; class && i < (c + 1) * WORDS; i++) {
            twice |= a->met[i] & helper->met[i];
            a->met[i] |= helper->met[i];
            a->doubted[i] |= helper->doubted[i];
        }
    }
    for (uint32_t i = 0; i < (a->seg->num_buckets + 63) / 64; i++) {
        twice |= a->proven[i] & helper->proven[i];
        a->proven[i] |= helper->proven[i];
    }
    a->sum->blocks_free += helper->sum->blocks_free;
    a->sum->blocks_owned += helper->sum->blocks_owned;
    a->sum->blocks_live += helper->sum->blocks_live;
    a->sum->bytes_live += helper->sum->bytes_live;
    a->sum->keys += helper->sum->keys;
    return !twice && !helper->sum->problems;
}

static bool is_large(const struct muster_segment *seg)
{
    uint32_t used = 0;

    for (uint32_t c = 0; c < seg->num_chunks && used < HELP_FROM; c++)
        used += MU_CHUNK_CLASS(mu_load32_acquire(&seg->chunks[c])) != 0; /* acquire: as heap.c */
    return used == HELP_FROM && mu_processors() > 1;
}

bool mu_audit_heap(struct mu_auditor *a, enum mu_audit_how how)
{
    bool helped = how == MU_AUDIT_HELPED || (how == MU_AUDIT_AS_FITS && is_large(a->seg));
    pthread_t thread;
    struct mu_auditor *helper = helped ? start_helper(a, &thread) : NULL;
    bool good;
    int old;

    walk_chunks(a, 0, helper ? 2 : 1);
    if (!helper)
        return true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old); /* or it would be left with what we free */
    pthread_join(thread, NULL);
    pthread_setcancelstate(old, &old);
    good = put_together(a, helper);
    free(helper->met);
    free(helper);
    return good;
}
