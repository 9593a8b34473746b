/*
 * tests/segment/audit_test.c: the auditor finds damage of every kind, each planted by hand in a sound segment.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "job.h"
#include "segment/audit.h"
#include "segment/entry.h"
#include "segment/file.h"
#include "segment/heap.h"
#include "segment/slot.h"

static struct muster_segment *seg;
static const char *seg_job;

/* The block that an object's word names, and where its data begins. */
static struct mu_block *root_of(mu_a64 *word)
{
    struct mu_block *b = mu_heap_block(seg, MU_WORD_INDEX(mu_load_relaxed(word)), NULL);

    assert_non_null(b);
    return b;
}

static mu_a64 *data_of(struct mu_block *b)
{
    return b->body + MU_META_REFS(mu_load_relaxed(&b->meta));
}

/* The n-th bucket whose page has at least `refs` references. */
static mu_a64 *bucket_with(uint32_t refs, uint32_t n)
{
    for (uint32_t i = 0; i < seg->num_buckets; i++)
        if (MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[i])) &&
            MU_META_REFS(mu_load_relaxed(&root_of(&seg->buckets[i])->meta)) >= refs && !n--)
            return &seg->buckets[i];
    fail_msg("no such bucket");
    return NULL;
}

static mu_a64 *empty_bucket(void)
{
    for (uint32_t i = 0; i < seg->num_buckets; i++)
        if (!MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[i])))
            return &seg->buckets[i];
    fail_msg("no empty bucket");
    return NULL;
}

static void set_field(mu_a64 *word, uint64_t clear, uint64_t set)
{
    mu_store_relaxed(word, (mu_load_relaxed(word) & ~clear) | set);
}

/* Whether a value of the page is in parts. */
static bool has_parts(struct mu_block *page)
{
    for (uint32_t i = 0; i < MU_META_REFS(mu_load_relaxed(&page->meta)); i++)
        if (MU_META_REFS(mu_load_relaxed(&mu_heap_block(seg, MU_REF_INDEX(page->body[i]), NULL)->meta)))
            return true;
    return false;
}

/* An entry alone in its page, or one behind others, whose value lies in the page or outside; NULL: there is none. */
static mu_a64 *entry_find(bool alone, bool outside)
{
    for (uint32_t i = 0; i < seg->num_buckets; i++) {
        mu_a64 *e;
        uint64_t count;

        if (!MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[i])) || has_parts(root_of(&seg->buckets[i])))
            continue;
        e = data_of(root_of(&seg->buckets[i]));
        count = mu_load_relaxed(&e[2]);
        e += MU_PAGE_WORDS;
        for (uint64_t k = 0; k < count; k++, e += MU_SHAPE_WORDS(mu_load_relaxed(&e[2])))
            if ((alone ? count == 1 : k > 0) &&
                outside == (MU_SHAPE_FLAGS(mu_load_relaxed(&e[2])) == MU_ENTRY_EXTERNAL))
                return e;
    }
    return NULL;
}

/*
 * A word of such an entry. Which keys share a page is the segment's own secret, so there may be none yet: then keys are
 * tried, and those taken back that bring none.
 */
static mu_a64 *entry_word(bool alone, bool outside, uint32_t word)
{
    struct muster *m = test_join(seg_job, -1, 0);
    static const char value[3000];
    char key[32];

    assert_non_null(m);
    for (int i = 0; !entry_find(alone, outside); i++) {
        assert_in_range(i, 0, 4000);
        snprintf(key, sizeof key, "tried/%d", i);
        assert_ok(muster_kv_set(m, key, MUSTER_NTS, value, outside ? sizeof value : 8, NULL));
        if (!entry_find(alone, outside))
            assert_ok(muster_kv_delete(m, key, MUSTER_NTS, NULL));
    }
    assert_ok(muster_leave(m));
    return &entry_find(alone, outside)[word];
}

static void points_beyond_the_heap(void)
{
    mu_a64 *bucket = bucket_with(0, 0);

    mu_store_relaxed(bucket, MU_WORD(MU_INDEX_MAX, 5));
}

static void points_into_a_block(void)
{
    mu_a64 *bucket = bucket_with(1, 0);
    mu_a64 *ref = &root_of(bucket)->body[0];

    mu_store_relaxed(ref, MU_REF(MU_REF_GENERATION(mu_load_relaxed(ref)), 0));
    mu_store_relaxed(ref, mu_load_relaxed(ref) | (seg->num_chunks * MU_CHUNK_GRANULES - 5));
}

static void refers_to_another_generation(void)
{
    mu_a64 *ref = &root_of(bucket_with(1, 0))->body[0];

    mu_store_relaxed(ref, mu_load_relaxed(ref) + (1ull << 32));
}

static void refers_to_a_block_twice(void)
{
    mu_a64 *a = &root_of(bucket_with(1, 0))->body[0], *b = &root_of(bucket_with(1, 1))->body[0];

    mu_store_relaxed(a, mu_load_relaxed(b));
}

/* The reference of a page that is that walker's of two; NULL: there is none. */
static mu_a64 *ref_of_walker(uint32_t walker)
{
    for (uint32_t i = 0; i < seg->num_buckets; i++) {
        uint32_t index = MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[i]));

        if (index && (index - 1) / MU_CHUNK_GRANULES / MU_AUDIT_STRIPE % 2 == walker &&
            MU_META_REFS(mu_load_relaxed(&root_of(&seg->buckets[i])->meta)))
            return &root_of(&seg->buckets[i])->body[0];
    }
    return NULL;
}

/* The class, and so the chunk, of the pages that have references is no less secret: pages grow until each has one. */
static void two_walkers_meet_one_block(void)
{
    struct muster *m = test_join(seg_job, -1, 0);
    static char value[3000];
    char key[32];

    assert_non_null(m);
    for (int i = 0; !ref_of_walker(0) || !ref_of_walker(1); i++) {
        assert_in_range(i, 0, 4000);
        snprintf(key, sizeof key, "walked/%d", i);
        assert_ok(muster_kv_set(m, key, MUSTER_NTS, value, sizeof value, NULL));
    }
    assert_ok(muster_leave(m));
    mu_store_relaxed(ref_of_walker(0), mu_load_relaxed(ref_of_walker(1)));
}

static void two_words_name_one_block(void)
{
    mu_store_relaxed(empty_bucket(), mu_load_relaxed(bucket_with(0, 0)));
}

static void root_is_free(void)
{
    set_field(&root_of(bucket_with(0, 0))->word, 3, MU_FREE);
}

static void root_is_owned(void)
{
    set_field(&root_of(bucket_with(0, 0))->word, 3, MU_OWNED);
}

static void block_has_a_fourth_state(void)
{
    set_field(&root_of(bucket_with(0, 0))->word, 0, 3);
}

static void root_is_no_page(void)
{
    set_field(&root_of(bucket_with(0, 0))->meta, 0xffff, MU_TYPE_EVENT);
}

static void root_is_longer_than_its_block(void)
{
    set_field(&root_of(bucket_with(0, 0))->meta, 0, 0xffffull << 32);
}

static void root_has_more_references_than_room(void)
{
    set_field(&root_of(bucket_with(0, 0))->meta, 0, 0xffffull << 16);
}

static void page_counts_more_entries_than_it_has(void)
{
    mu_a64 *data = data_of(root_of(bucket_with(0, 0)));

    mu_store_relaxed(&data[2], mu_load_relaxed(&data[2]) + 1);
}

static void page_counts_fewer_entries(void)
{
    mu_a64 *data = data_of(root_of(bucket_with(1, 0)));

    mu_store_relaxed(&data[2], 0);
}

static void entry_is_longer_than_the_page(void)
{
    set_field(entry_word(true, false, 2), 0xffff, 0xfff0);
}

static void entry_is_of_another_bucket(void)
{
    mu_a64 *hash = &data_of(root_of(bucket_with(0, 0)))[MU_PAGE_WORDS];

    mu_store_relaxed(hash, mu_load_relaxed(hash) ^ (1ull << 20));
}

static void entry_is_newer_than_its_page(void)
{
    mu_store_relaxed(&data_of(root_of(bucket_with(0, 0)))[MU_PAGE_WORDS + 1], 1ull << 40);
}

static void entry_has_no_version(void)
{
    mu_store_relaxed(&data_of(root_of(bucket_with(0, 0)))[MU_PAGE_WORDS + 1], 0);
}

static void later_entry_is_of_another_bucket(void)
{
    mu_a64 *hash = entry_word(false, false, 0);

    mu_store_relaxed(hash, mu_load_relaxed(hash) ^ (1ull << 20));
}

static void entry_is_shorter_than_its_head(void)
{
    set_field(entry_word(true, true, 2), 0xffff, MU_ENTRY_WORDS - 1);
}

static void entry_has_too_long_a_key(void)
{
    set_field(entry_word(true, true, 2), 0xffffull << 48, (MU_KEY_MAX + 1ull) << 48);
}

static void entry_has_too_long_a_value(void)
{
    mu_store_relaxed(entry_word(true, true, 3), MU_ENTRY_MAX + 1ull);
}

static void entry_has_no_room_for_its_value(void)
{
    set_field(entry_word(true, true, 2), (uint64_t)MU_ENTRY_EXTERNAL << 32, 0);
}

static void entry_outside_has_no_reference(void)
{
    set_field(entry_word(true, true, 2), 0xffffull << 16, 0);
}

static void page_has_a_reference_of_no_entry(void)
{
    set_field(entry_word(true, true, 2), 0xffffull << 16, 2ull << 16);
}

static void value_is_free(void)
{
    uint64_t ref = mu_load_relaxed(&root_of(bucket_with(1, 0))->body[0]);

    set_field(&mu_heap_block(seg, MU_REF_INDEX(ref), NULL)->word, 3, MU_FREE);
}

static void value_refers_to_its_page(void)
{
    mu_a64 *bucket = bucket_with(1, 0);
    struct mu_block *page = root_of(bucket), *value;
    uint64_t ref = mu_load_relaxed(&page->body[0]);

    value = mu_heap_block(seg, MU_REF_INDEX(ref), NULL);
    set_field(&value->meta, 0xffffull << 16, 1ull << 16);
    mu_store_relaxed(&value->body[0],
                     MU_REF(MU_BLOCK_GENERATION(mu_load_relaxed(&page->word)), MU_WORD_INDEX(mu_load_relaxed(bucket))));
}

static void word_is_lost(void)
{
    mu_a64 *bucket = bucket_with(1, 0);

    mu_store_relaxed(bucket, MU_WORD(0, 9));
}

/* The first block that is free, whatever its class. */
static struct mu_block *free_block(void)
{
    for (uint32_t c = 0; c < seg->num_chunks; c++)
        for (uint32_t g = 0; g < MU_CHUNK_GRANULES; g++) {
            struct mu_block *b = mu_heap_block(seg, c * MU_CHUNK_GRANULES + g + 1, NULL);

            if (b && MU_BLOCK_STATE(mu_load_relaxed(&b->word)) == MU_FREE)
                return b;
        }
    fail_msg("no free block");
    return NULL;
}

static void block_is_leaked(void)
{
    struct mu_block *b = free_block();

    mu_store_relaxed(&b->word, MU_BLOCK_WORD(MU_BLOCK_GENERATION(mu_load_relaxed(&b->word)), 0, 0, MU_LIVE));
}

static void block_is_owned_by_nobody(void)
{
    struct mu_block *b = free_block();

    mu_store_relaxed(&b->word, MU_BLOCK_WORD(MU_BLOCK_GENERATION(mu_load_relaxed(&b->word)), 77, 3, MU_OWNED));
}

static void block_is_owned_by_a_slot_that_is_not(void)
{
    struct mu_block *b = free_block();

    mu_store_relaxed(&b->word, MU_BLOCK_WORD(MU_BLOCK_GENERATION(mu_load_relaxed(&b->word)), 0, 16000, MU_OWNED));
}

static void chunk_has_no_class(void)
{
    mu_store32_release(&seg->chunks[seg->num_chunks - 1], MU_CLASSES + 1);
}

static void chunk_has_unknown_flags(void)
{
    mu_store32_release(&seg->chunks[seg->num_chunks - 1], 0x200 | 1);
}

static void slot_has_a_fourth_state(void)
{
    mu_store_relaxed(&seg->slots[seg->num_slots - 1].word, 3);
}

static void slot_above_all_is_held(void)
{
    mu_store_relaxed(&seg->slots[seg->num_slots - 1].word, MU_SLOT_WORD(1, 1, 1, MU_SLOT_LIVE));
}

static void part_of_a_value_is_free(void)
{
    for (uint32_t i = 0; i < seg->num_buckets; i++) {
        struct mu_block *page, *head;
        uint32_t refs;

        if (!MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[i])))
            continue;
        page = root_of(&seg->buckets[i]);
        refs = MU_META_REFS(mu_load_relaxed(&page->meta));
        for (uint32_t k = 0; k < refs; k++) {
            head = mu_heap_block(seg, MU_REF_INDEX(mu_load_relaxed(&page->body[k])), NULL);
            if (!MU_META_REFS(mu_load_relaxed(&head->meta)))
                continue;
            head = mu_heap_block(seg, MU_REF_INDEX(mu_load_relaxed(&head->body[1])), NULL);
            set_field(&head->word, 3, MU_FREE);
            return;
        }
    }
    fail_msg("no value in parts");
}

static void event_word_is_lost(void)
{
    set_field(&seg->events[1], ~0ull << 37, 0);
}

static void cluster_word_is_lost(void)
{
    mu_store_relaxed(&seg->header->cluster, MU_WORD(0, 9));
}

static void cluster_word_is_wild(void)
{
    mu_store_relaxed(&seg->header->cluster, MU_WORD(3, 9));
}

static void make_content(const char *job)
{
    struct muster *m = test_join(job, 0, 0);
    static char value[200000];
    char key[32];

    assert_non_null(m);
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "key/%d", i);
        assert_ok(muster_kv_set(m, key, MUSTER_NTS, value, (size_t)(i * i), NULL));
    }
    assert_ok(muster_kv_set(m, "outside/1", MUSTER_NTS, value, 3000, NULL));
    assert_ok(muster_kv_set(m, "outside/2", MUSTER_NTS, value, 4000, NULL));
    assert_ok(muster_kv_set(m, "outside/3", MUSTER_NTS, value, 4000, NULL));
    assert_ok(muster_kv_set(m, "parts", MUSTER_NTS, value, sizeof value, NULL));
    for (int i = 0; i < 5; i++)
        assert_ok(muster_event_send(m, 0, "event", 5, NULL));
    assert_ok(muster_error_report(m, 0, MUSTER_INTERNAL, "a message"));
    assert_ok(muster_leave(m));
}

struct findings {
    unsigned long count;
    const char *part;
    int found;
    char first[256];
};

static void note(void *arg, const char *sentence)
{
    struct findings *f = arg;

    if (!f->count++)
        snprintf(f->first, sizeof f->first, "%s", sentence);
    f->found |= strstr(sentence, f->part) != NULL;
}

#define DAMAGE(f, part)                                                                                                \
    {                                                                                                                  \
        f, #f, part                                                                                                    \
    }
static const struct {
    void (*plant)(void);
    const char *name, *part;
} damages[] = {
    DAMAGE(points_beyond_the_heap, "no sound block"),
    DAMAGE(points_into_a_block, "where no block can be"),
    DAMAGE(refers_to_another_generation, "not alive"),
    DAMAGE(refers_to_a_block_twice, "something else refers to as well"),
    DAMAGE(two_walkers_meet_one_block, "something else refers to as well"),
    DAMAGE(two_words_name_one_block, "something else names as well"),
    DAMAGE(root_is_free, "not alive"),
    DAMAGE(root_is_owned, "not alive"),
    DAMAGE(block_has_a_fourth_state, "impossible state 3"),
    DAMAGE(root_is_no_page, "not a page"),
    DAMAGE(root_is_longer_than_its_block, "no sound block"),
    DAMAGE(root_has_more_references_than_room, "no sound block"),
    DAMAGE(page_counts_more_entries_than_it_has, "not well formed"),
    DAMAGE(page_counts_fewer_entries, "not well formed"),
    DAMAGE(entry_is_longer_than_the_page, "not well formed"),
    DAMAGE(entry_is_of_another_bucket, "another bucket"),
    DAMAGE(entry_is_newer_than_its_page, "version"),
    DAMAGE(entry_has_no_version, "version"),
    DAMAGE(later_entry_is_of_another_bucket, "another bucket"),
    DAMAGE(entry_is_shorter_than_its_head, "not well formed"),
    DAMAGE(entry_has_too_long_a_key, "not well formed"),
    DAMAGE(entry_has_too_long_a_value, "not well formed"),
    DAMAGE(entry_has_no_room_for_its_value, "not well formed"),
    DAMAGE(entry_outside_has_no_reference, "not well formed"),
    DAMAGE(page_has_a_reference_of_no_entry, "not well formed"),
    DAMAGE(value_is_free, "not alive"),
    DAMAGE(value_refers_to_its_page, "something else refers to as well"),
    DAMAGE(word_is_lost, "leaked"),
    DAMAGE(block_is_leaked, "leaked"),
    DAMAGE(block_is_owned_by_nobody, "not held"),
    DAMAGE(block_is_owned_by_a_slot_that_is_not, "not held"),
    DAMAGE(chunk_has_no_class, "impossible class"),
    DAMAGE(chunk_has_unknown_flags, "impossible class"),
    DAMAGE(slot_has_a_fourth_state, "impossible state"),
    DAMAGE(slot_above_all_is_held, "above slots_high"),
    DAMAGE(part_of_a_value_is_free, "not alive"),
    DAMAGE(event_word_is_lost, "leaked"),
    DAMAGE(cluster_word_is_lost, "leaked"),
    DAMAGE(cluster_word_is_wild, "cluster"),
};

/* By one walker or by two: before the damage nothing is found, then what it is. */
static struct muster_audit check(size_t i, enum mu_audit_how how, bool sound)
{
    struct findings f = {.part = damages[i].part};
    struct muster_audit sum;

    assert_ok(mu_audit_check(seg, how, note, &f, &sum));
    assert_int_equal(sum.problems, f.count);
    if (sound && sum.problems)
        fail_msg("before %s: %s", damages[i].name, f.first);
    if (!sound && !f.found)
        fail_msg("%s: %lu problems, none says \"%s\"; the first is: %s", damages[i].name, f.count, f.part, f.first);
    return sum;
}

TEST(every_kind_of_damage_is_found_and_named)
{
    /* few enough for entries to share a page, and for some to stay empty */
    const struct muster_segment_config config = {.num_tasks = 1, .num_buckets = 64};

    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct muster_audit alone, helped;
        struct test_job job;

        assert_ok(test_job_create(&job, &config));
        make_content(job.name);
        assert_ok(mu_segment_open(job.name, true, &seg));
        seg_job = job.name;
        alone = check(i, MU_AUDIT_ALONE, true);
        helped = check(i, MU_AUDIT_HELPED, true);
        assert_memory_equal(&alone, &helped, sizeof alone);
        damages[i].plant();
        alone = check(i, MU_AUDIT_ALONE, false);
        helped = check(i, MU_AUDIT_HELPED, false);
        assert_memory_equal(&alone, &helped, sizeof alone);
        muster_segment_close(seg);
        assert_ok(muster_segment_remove(job.name));
        muster_segment_close(job.segment);
    }
}

TEST(the_sums_are_those_of_what_is_stored)
{
    struct muster_audit empty, full;
    struct test_job job;
    struct muster *m;

    assert_ok(test_job_create(&job, NULL));
    assert_ok(muster_segment_check(job.segment, NULL, NULL, &empty));
    assert_int_equal(empty.problems, 0);
    assert_int_equal(empty.keys, 0);
    assert_int_equal(empty.blocks_live, 0);
    make_content(job.name);
    assert_ok(muster_segment_check(job.segment, NULL, NULL, &full));
    assert_int_equal(full.keys, 44);
    assert_int_equal(full.blocks_owned, 0);
    assert_true(full.blocks_live > 30 && full.blocks_free > 0);
    assert_true(full.bytes_live >= 200000 + 11000);
    m = test_join(job.name, -1, 0);
    assert_ok(muster_kv_delete(m, "", 0, NULL));
    muster_leave(m);
    assert_ok(muster_segment_check(job.segment, NULL, NULL, &empty));
    assert_int_equal(empty.keys, 0);
    assert_true(empty.blocks_live < full.blocks_live - 40);
    assert_int_equal(test_job_end(&job), 0);
}

static int dies_holding_blocks(void *arg)
{
    struct muster_segment *mine;
    struct mu_ctx *ctx = malloc(sizeof *ctx);
    struct mu_block *b;
    uint64_t ref;

    CHECK(mu_segment_open(arg, true, &mine) == MUSTER_OK);
    CHECK(mu_slot_claim(mine, 0, ctx) == MUSTER_OK);
    for (int i = 0; i < 10; i++)
        CHECK(mu_heap_alloc(ctx, 100, 0, &ref, &b) == MUSTER_OK);
    return 0; /* without a word to anybody */
}

TEST(what_the_dead_hold_is_no_damage_and_gone_after_scavenging)
{
    struct muster_audit sum;
    struct test_job job;
    struct muster *m;
    size_t deaths;

    assert_ok(test_job_create(&job, NULL));
    assert_int_equal(test_in_child(dies_holding_blocks, job.name), 0);
    assert_ok(muster_segment_check(job.segment, NULL, NULL, &sum));
    assert_int_equal(sum.problems, 0);
    assert_int_equal(sum.blocks_owned, 10);
    m = test_join(job.name, -1, 0);
    assert_ok(muster_scavenge(m, &deaths));
    assert_int_equal(deaths, 1);
    assert_ok(muster_scavenge(m, &deaths));
    assert_int_equal(deaths, 0);
    assert_ok(muster_segment_check(job.segment, NULL, NULL, &sum));
    assert_int_equal(sum.blocks_owned, 0);
    muster_leave(m);
    assert_int_equal(test_job_end(&job), 0);
}
