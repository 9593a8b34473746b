/*
 * bucket.c: two writers of one bucket, and a reader.
 *
 * Stands for: mu_table_edit() and all below it in src/segment/edit.c, mu_table_get() in src/segment/table.c, for
 * entries that lie in their page.
 *
 * The bucket's page holds key A. The first writer deletes A, so that the page goes when it is empty, while the second
 * inserts key B. With COUNT both add one to A; with PUT_BACK the second writes A, after its deletion or before; with
 * ONE_WRITER the first does both, so that the new page fills the block of the old. A writer may die at any access. No
 * edit is lost, in whichever order they come; what a reader finds was whole, with the version that it had; versions
 * never come again; and ownership equals reachability.
 *
 * Bounds: one edit a writer (ONE_WRITER: two), READS looks at key A or, with READ_B, key B; pages of at most two
 * entries, keys and values of one word, four blocks. GenMC cannot assign a struct through a pointer, so mu_page_next(),
 * which looks only at a private copy, is written again here, field by field; memset(), memcpy() and memcmp() of private
 * memory are loops of words.
 *
 * RUN short ok      -                              : a delete and an insert, and a reader of the key that goes
 * RUN full  ok      -DREAD_B                       : likewise, and a reader of the key that comes
 * RUN short ok      -DCOUNT                        : two increments, and a reader
 * RUN full  ok      -DPUT_BACK                     : a delete and a write of the same key, and a reader
 * RUN short ok      -DONE_WRITER                   : a delete, then an insert, and a reader of the key that goes
 * RUN full  ok      -DONE_WRITER -DREAD_B          : likewise, and a reader of the key that comes
 * RUN full  ok      -DREADS=2                      : a delete and an insert, and a reader that looks twice
 * RUN short ok      -DREADS=0 -DVICTIM=0           : who deletes may die at any access, the other inserts
 * RUN short ok      -DREADS=0 -DVICTIM=1           : who inserts may die at any access, the other deletes
 * RUN short reach   -DREADS=0 -DVICTIM=0 -DREACH   : it does die
 * RUN short gone    -DREACH_GONE                   : the reader does find that the key is gone
 * RUN short come    -DREAD_B -DREACH_COME          : the reader does find the key that comes
 * RUN short lost    -DCOUNT -DBREAK_COMMIT_BLIND   : a commit does not care what came since the page was copied
 * RUN short torn    -DCOUNT -DBREAK_RELAXED_BUCKET : the reader loads the bucket's word without acquiring
 * RUN short torn    -DONE_WRITER -DBREAK_READER_NO_RECHECK : it does not look at the word again
 * RUN short torn    -DONE_WRITER -DBREAK_NO_ACQUIRE_FENCE : its second look is not ordered behind the copy
 * RUN short torn    -DONE_WRITER -DBREAK_NO_RELEASE_FENCE : a recycled block is filled without a fence
 * RUN short version -DPUT_BACK -DREADS=0 -DBREAK_COUNT_AFRESH : a page that begins again counts from one
 * RUN short leak    -DREADS=0 -DVICTIM=1 -DBREAK_NO_INTENT : a writer does not say what it is about to do
 */
#ifndef READS
#define READS 1
#endif
#define MODEL_GRANULE 192u
#define MODEL_BLOCKS  4u
#define MODEL_SLOTS   3u
#include "shm_layout/layout.h"
#define MODEL_ROOT_WORDS 16
enum { VALUE_A = 10, VALUE_B = 20, HASH_A = 0x101, HASH_B = 0x201, KEY_A = 0x41, KEY_B = 0x42 };
enum { ENTRY_WORDS = MU_ENTRY_WORDS + 2 };
/* block 1: a page of one commit, with A in it */
#define MODEL_IMAGE                                                                                                    \
    [AT_OBJECTS] = MU_WORD(1, 1), [AT_HEAP] = MU_BLOCK_WORD(0, 0, 0, MU_LIVE),                                         \
    [AT_HEAP + 1] = MU_META((MU_PAGE_WORDS + ENTRY_WORDS) * 8, 0, MU_TYPE_PAGE), [AT_HEAP + 2] = 1, [AT_HEAP + 4] = 1, \
    [AT_HEAP + 5] = HASH_A, [AT_HEAP + 6] = 1, [AT_HEAP + 7] = MU_SHAPE(8, 0, 0, ENTRY_WORDS), [AT_HEAP + 8] = 8,      \
    [AT_HEAP + 9] = KEY_A, [AT_HEAP + 10] = VALUE_A
#include "mechanism.h"

#include <stdlib.h>
#include <string.h>

#include "segment/entry.h"
#include "segment/table.h"

static void copy_word(void *to, const void *from, size_t size)
{
    MUST(word, size == 8);
    *(uint64_t *)to = *(const uint64_t *)from;
}
static int differ(const uint64_t *a, const uint64_t *b, size_t size)
{
    for (size_t i = 0; i < size / 8; i++)
        if (a[i] != b[i])
            return 1;
    return 0;
}
#undef memset
#define memset(p, value, size) ((p)->entry_words = (p)->entry_refs = 0, (p)->external = false) /* page_plan()'s */
#define memcpy(to, from, size) copy_word(to, from, size)
#define memcmp(a, b, size)     differ(a, b, size)
#define free(p)                ((void)(p)) /* nothing here is fetched from outside the page */
#define malloc(size)           NULL
#define mu_page_next           mu_page_next_of_table
#ifdef BREAK_RELAXED_BUCKET
#define mu_load_acquire(p) mu_load_relaxed(p)
#endif
#ifdef BREAK_READER_NO_RECHECK
#define mu_word_same(a, b) ((void)(a), (void)(b), true)
#endif
#include "segment/table.c"
#undef mu_load_acquire
#undef mu_word_same
#undef mu_page_next
#ifdef BREAK_COUNT_AFRESH /* a page that begins again begins at one */
#undef MU_WORD_TAG
#define MU_WORD_TAG(w) 0
#endif
#include "segment/edit.c"
#undef memset
#undef memcpy
#undef MU_WORD_TAG
#define MU_WORD_TAG(w) (((w) >> 1) & MU_WORD_TAG_MASK)

/* As in table.c. */
bool mu_page_next(const struct mu_page *p, uint32_t *index, struct mu_entry *e, bool *corrupt)
{
    uint64_t shape;

    if (*index >= p->count)
        return false;
    e->at = *index ? e->at + e->words : MU_PAGE_WORDS;
    e->ref_at = *index ? e->ref_at + e->refs : 0;
    *corrupt = true;
    if (e->at + MU_ENTRY_WORDS > p->words)
        return false;
    shape = p->data[e->at + 2];
    e->hash = p->data[e->at];
    e->version = p->data[e->at + 1];
    e->value_len = p->data[e->at + 3];
    e->words = MU_SHAPE_WORDS(shape);
    e->refs = MU_SHAPE_REFS(shape);
    e->flags = MU_SHAPE_FLAGS(shape);
    e->key_len = MU_SHAPE_KEY_LEN(shape);
    if (e->words != ENTRY_WORDS || e->at + e->words > p->words || e->refs || e->flags || e->key_len != 8)
        return false;
    *corrupt = false;
    ++*index;
    return true;
}

/* The first words of a struct mu_key. */
struct key {
    uint64_t hash;
    uint32_t len;
    uint64_t words[1];
};
static const struct key keys[2] = {{HASH_A, 8, {KEY_A}}, {HASH_B, 8, {KEY_B}}};
#define KEY(i) ((const struct mu_key *)(const void *)&keys[i])

static void table(struct mu_table *t)
{
    t->seg = view();
    t->buckets = OBJECT;
    t->mask = 0;
}

static enum mu_verdict decide(struct mu_edit *e)
{
    uint64_t *value = e->arg;

#ifdef COUNT
    MUST(lost, e->version && e->old_len == 8);
    *value = *(const uint64_t *)e->old + 1;
#endif
    e->value = value;
    e->len = 8;
    return *value ? MU_PUT : MU_DELETE;
}

/* Write the value, or delete the key when it is 0; returns the version. */
static uint64_t edit(uint32_t key, uint64_t value)
{
    struct mu_table t;
    struct mu_edit e;
    uint64_t version = 0;

    table(&t);
    e.arg = &value;
    e.more_len = 0;
    e.num_refs = 0;
    e.new_ref = 0;
    e.version_as = 0;
    e.done = NULL;
    e.forget = NULL;
    e.status = MUSTER_OK;
#ifdef COUNT
    MUST(status, !mu_table_edit(&t, own(), KEY(key), MU_EDIT_WANTS_OLD, decide, &e, &version));
#else
    MUST(status, !mu_table_edit(&t, own(), KEY(key), 0, decide, &e, &version));
#endif
    return version;
}

/* The key's value, 0 when it is not there. */
static uint64_t look(uint32_t key, uint64_t *ret_version)
{
    struct mu_table t;
    struct mu_found f;
    uint64_t value = 0;

    table(&t);
    MUST(corrupt, !mu_table_get(&t, NULL, KEY(key), &value, 8, &f));
    MUST(torn, !f.version || f.len == 8);
    *ret_version = f.version;
    return f.version ? value : 0;
}

#ifdef VICTIM
#define MORTAL(slot) ((slot) == VICTIM ? (slot) + 1 : 0)
#else
#define MORTAL(slot) 0
#endif

static void *first(void *arg)
{
    (void)arg;
    become(0);
    mortal = MORTAL(0);
    edit(0, 0); /* COUNT: what is written does not come from here */
#ifdef ONE_WRITER
    edit(1, VALUE_B);
#endif
    mortal = 0;
    return NULL;
}

static void *second(void *arg)
{
    (void)arg;
    become(1);
    mortal = MORTAL(1);
#if defined(COUNT) || defined(PUT_BACK)
    edit(0, VALUE_B);
#elif !defined(ONE_WRITER)
    edit(1, VALUE_B);
#endif
    mortal = 0;
    return NULL;
}

/* It writes nothing. */
static void *reader(void *arg)
{
    uint64_t value = 0, last = 0, version;

    (void)arg;
    become(MAIN);
    for (int i = 0; i < READS; i++) {
        uint64_t before = value;

#ifdef READ_B
        value = look(1, &version);
        MUST(torn, !value || value == VALUE_B);
        MUST(version, !value == !version && version != 1 && version <= 3);
        MUST(order, value >= before);
#ifdef REACH_COME
        MUST(come, !value);
#endif
#else
        value = look(0, &version);
#if defined(COUNT)
        MUST(torn, value == VALUE_A + version - 1 && version >= 1 && version <= 3);
#elif defined(PUT_BACK)
        MUST(torn, !value || (version == 1 ? value == VALUE_A : value == VALUE_B && version <= 3));
#else
        MUST(torn, !value || (value == VALUE_A && version == 1));
        MUST(order, i == 0 || value <= before);
#endif
#ifdef REACH_GONE
        MUST(gone, value);
#endif
#endif
        MUST(order, !version || version >= last);
        last = version;
        (void)before;
    }
    return NULL;
}

int main(void)
{
    pthread_t a, b, r;
    void *died[2] = {NULL, NULL};
    uint64_t value, version;

    become(MAIN);
    pthread_create(&a, NULL, first, NULL);
    pthread_create(&b, NULL, second, NULL);
    if (READS)
        pthread_create(&r, NULL, reader, NULL);
#ifdef VICTIM
    kill_owner(VICTIM);
#endif
    pthread_join(a, &died[0]);
#ifdef VICTIM
    pthread_join(b, &died[1]);
    mu_scavenge(own(), NULL, NULL);
#ifdef REACH
    MUST(reach, !died[VICTIM]);
#endif
#else
    pthread_join(b, &died[1]);
#endif
    if (READS)
        pthread_join(r, NULL);
    value = look(0, &version);
#if defined(COUNT)
    MUST(lost, value == VALUE_A + 2 && version == 3);
#elif defined(PUT_BACK)
    MUST(lost, value == 0 || value == VALUE_B);
    MUST(version, !value || version > 1);
#else
    MUST(lost, died[0] ? !value || (value == VALUE_A && version == 1) : !value);
    value = look(1, &version);
    MUST(lost, died[1] ? !value || value == VALUE_B : value == VALUE_B);
    MUST(version, !value || version > 1);
#endif
    audit();
    return 0;
}
