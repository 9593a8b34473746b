/*
 * tests/segment/table_test.c: buckets: collisions of every kind, pages that grow until values move out, references of
 * entries, versions, and what a corrupt page gives.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "seed.h"
#include "segment/entry.h"
#include "segment/file.h"
#include "segment/slot.h"

static struct test_job job;
static struct muster_segment *seg;
static struct mu_ctx *ctx;
static struct mu_table table;

static int setup(void)
{
    const struct muster_segment_config config = {.num_buckets = 4};

    ctx = malloc(sizeof *ctx);
    if (test_job_create(&job, &config) || mu_segment_open(job.name, true, &seg) || mu_slot_claim(seg, 0, ctx))
        return -1;
    table = mu_table_kv(seg);
    return 0;
}

static int teardown(void)
{
    mu_slot_release(ctx);
    free(ctx);
    muster_segment_close(seg);
    return test_job_end(&job) ? -1 : 0;
}

static enum mu_verdict put(struct mu_edit *e)
{
    (void)e;
    return MU_PUT;
}

static enum mu_verdict delete_it(struct mu_edit *e)
{
    e->status = e->version ? MUSTER_OK : MUSTER_NOT_FOUND;
    return MU_DELETE;
}

static enum muster_status set(const struct mu_key *k, const void *value, size_t len, uint64_t *version)
{
    struct mu_edit e = {.value = value, .len = len};

    return mu_table_edit(&table, ctx, k, 0, put, &e, version);
}

/* A key with the hash that we want: as if 64 bits had come out equal by chance. */
static struct mu_key *forged(struct mu_key *k, const char *bytes, size_t len, uint64_t hash)
{
    mu_key_make(k, seg, bytes, len);
    k->hash = hash;
    return k;
}

static void assert_found(const struct mu_key *k, const void *value, size_t len)
{
    uint8_t *buffer = malloc(len + 1);
    struct mu_found f;

    assert_ok(mu_table_get(&table, NULL, k, buffer, len, &f));
    assert_true(f.version > 0);
    assert_int_equal(f.len, len);
    assert_memory_equal(buffer, value, len);
    free(buffer);
}

static void assert_absent(const struct mu_key *k)
{
    struct mu_found f;

    assert_ok(mu_table_get(&table, NULL, k, NULL, 0, &f));
    assert_int_equal(f.version, 0);
}

TEST_WITH(keys_with_one_hash_are_told_apart_wherever_their_values_lie, setup, teardown)
{
    static const size_t sizes[] = {3, 3000, 150000, 20}; /* in the page, outside, in parts, in the page */
    uint8_t *value = malloc(150000);
    struct mu_key k;

    for (unsigned round = 0; round < 8; round++) {
        for (unsigned i = 0; i < 8; i++) {
            char key[8] = "key 0";

            key[4] = (char)('0' + i);
            memset(value, (int)(i * 16 + round), 150000);
            assert_ok(set(forged(&k, key, 5, 0x123456789abcdefull), value, sizes[(i + round) % 4], NULL));
        }
        for (unsigned i = 0; i < 8; i++) {
            char key[8] = "key 0";

            key[4] = (char)('0' + i);
            memset(value, (int)(i * 16 + round), 150000);
            assert_found(forged(&k, key, 5, 0x123456789abcdefull), value, sizes[(i + round) % 4]);
        }
        assert_absent(forged(&k, "key 9", 5, 0x123456789abcdefull));
        assert_absent(forged(&k, "key 01", 6, 0x123456789abcdefull));
    }
    for (unsigned i = 0; i < 8; i++) {
        struct mu_edit e = {0};
        char key[8] = "key 0";

        key[4] = (char)('0' + (i * 3) % 8);
        assert_ok(mu_table_edit(&table, ctx, forged(&k, key, 5, 0x123456789abcdefull), 0, delete_it, &e, NULL));
        assert_absent(&k);
    }
    free(value);
}

TEST_WITH(hashes_with_equal_buckets_share_a_page, setup, teardown)
{
    struct mu_key k;
    char key[16];

    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_ok(set(forged(&k, key, strlen(key), ((uint64_t)i << 40) | 1), &i, sizeof i, NULL));
    }
    assert_int_equal(MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[1])), 0);
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_found(forged(&k, key, strlen(key), ((uint64_t)i << 40) | 1), &i, sizeof i);
    }
}

TEST_WITH(a_page_that_grows_moves_its_values_out_and_is_full_at_last, setup, teardown)
{
    static uint8_t value[400];
    enum muster_status status = MUSTER_OK;
    struct mu_key k;
    uint32_t n = 0;
    char key[16];

    while (!status) {
        snprintf(key, sizeof key, "%u", n);
        memset(value, (int)n, sizeof value);
        status = set(forged(&k, key, strlen(key), ((uint64_t)n << 40) | 1), value, sizeof value, NULL);
        n += !status;
    }
    assert_status(MUSTER_RESOURCE_EXHAUSTED, status);
    assert_says("bucket");
    assert_true(n > 1000); /* a page has 64 KiB; an entry outside takes 40 bytes of it */
    for (uint32_t i = 0; i < n; i += 7) {
        snprintf(key, sizeof key, "%u", i);
        memset(value, (int)i, sizeof value);
        assert_found(forged(&k, key, strlen(key), ((uint64_t)i << 40) | 1), value, sizeof value);
    }
    for (uint32_t i = 0; i < n; i++) { /* and everything can be deleted */
        struct mu_edit e = {0};

        snprintf(key, sizeof key, "%u", i);
        assert_ok(
            mu_table_edit(&table, ctx, forged(&k, key, strlen(key), ((uint64_t)i << 40) | 1), 0, delete_it, &e, NULL));
    }
    assert_int_equal(MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[0])), 0);
}

TEST_WITH(versions_go_on_when_a_bucket_was_empty, setup, teardown)
{
    struct mu_bucket_info info, before = {0};
    const struct mu_walk walk = {NULL, NULL, NULL, false};
    uint64_t version, last = 0;
    struct mu_key k;

    forged(&k, "key", 3, 1);
    for (int i = 0; i < 20; i++) {
        struct mu_edit e = {0};

        for (int w = 0; w <= i % 3; w++) {
            assert_ok(set(&k, "v", 1, &version));
            assert_true(version > last);
            last = version;
        }
        assert_ok(mu_table_walk(&table, ctx, 0, &walk, &info));
        assert_true(info.deletes == before.deletes); /* what is not a deletion does not count as one */
        assert_ok(mu_table_edit(&table, ctx, &k, 0, delete_it, &e, &version));
        assert_true(version > last);
        last = version;
        assert_int_equal(MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[0])), 0);
        assert_ok(mu_table_walk(&table, ctx, 0, &walk, &info));
        assert_true(info.deletes > before.deletes);
        before = info;
    }
}

/* An entry with two references of its own; each place is filled, replaced, emptied. */
struct place {
    uint32_t at;
    uint64_t ref;
    bool last;
};

static enum mu_verdict set_place(struct mu_edit *e)
{
    const struct place *p = e->arg;

    e->value = "owner";
    e->len = 5;
    e->num_refs = 2;
    e->ref_at = (int32_t)p->at;
    if (e->version)
        assert_int_equal(e->old_refs, 2);
    return MU_PUT;
}

static void set_reference(const struct mu_key *k, uint32_t at, uint64_t *ret_ref)
{
    struct place p = {.at = at};
    struct mu_edit e = {.arg = &p};
    struct mu_block *b;

    if (ret_ref) {
        assert_ok(mu_heap_alloc(ctx, 500, 0, ret_ref, &b));
        mu_store_relaxed(&b->meta, MU_META(500, 0, MU_TYPE_AREA));
        e.new_ref = *ret_ref;
    }
    assert_ok(mu_table_edit(&table, ctx, k, 0, set_place, &e, NULL));
}

TEST_WITH(an_entry_keeps_its_references_and_frees_those_replaced, setup, teardown)
{
    static uint8_t big[100000];
    uint64_t a, b, c;
    struct mu_key k, other;

    forged(&k, "owner", 5, 1);
    forged(&other, "other", 5, 2ull << 40 | 1);
    assert_ok(set(&other, big, 3000, NULL));
    set_reference(&k, 0, &a);
    set_reference(&k, 1, &b);
    assert_true(mu_heap_is_live(seg, a) && mu_heap_is_live(seg, b));
    assert_ok(set(&other, big, sizeof big, NULL)); /* a neighbour's edits carry them over */
    assert_true(mu_heap_is_live(seg, a) && mu_heap_is_live(seg, b));
    set_reference(&k, 0, &c);
    assert_false(mu_heap_is_live(seg, a));
    assert_true(mu_heap_is_live(seg, c));
    assert_int_equal(test_audit(job.name), 0);
    {
        struct mu_edit e = {0};

        assert_status(MUSTER_INTERNAL, mu_table_edit(&table, ctx, &k, 0, delete_it, &e, NULL));
    }
    set_reference(&k, 0, NULL);
    set_reference(&k, 1, NULL);
    assert_false(mu_heap_is_live(seg, b) || mu_heap_is_live(seg, c));
    {
        struct mu_edit e = {0};

        assert_ok(mu_table_edit(&table, ctx, &k, 0, delete_it, &e, NULL));
    }
    assert_found(&other, big, sizeof big);
}

static enum muster_status give_up(void *arg, const struct mu_item *item)
{
    (void)item;
    ++*(int *)arg;
    return MUSTER_CANCELLED;
}

TEST_WITH(a_walk_ends_with_the_visitors_status, setup, teardown)
{
    struct mu_bucket_info info;
    struct mu_key k;
    int visits = 0;
    const struct mu_walk walk = {NULL, give_up, &visits, false};

    assert_ok(set(forged(&k, "a", 1, 1), "v", 1, NULL));
    assert_ok(set(forged(&k, "b", 1, 1), "v", 1, NULL));
    assert_status(MUSTER_CANCELLED, mu_table_walk(&table, ctx, 0, &walk, &info));
    assert_int_equal(visits, 1);
}

TEST_WITH(an_entry_whose_value_is_gone_is_data_loss_for_readers_and_writers, setup, teardown)
{
    static uint8_t big[100000], buffer[100000];
    static const size_t sizes[] = {3000, 100000};

    for (int i = 0; i < 2; i++) {
        const struct mu_walk walk = {NULL, NULL, NULL, false};
        struct mu_bucket_info info;
        struct mu_block *page, *b;
        struct mu_found f;
        struct mu_edit e = {0};
        struct mu_key k;
        uint64_t ref;

        assert_ok(set(forged(&k, "gone", 4, 1), big, sizes[i], NULL));
        page = mu_heap_block(seg, MU_WORD_INDEX(mu_load_relaxed(&seg->buckets[0])), NULL);
        ref = mu_load_relaxed(&page->body[0]);
        b = mu_heap_block(seg, MU_REF_INDEX(ref), NULL);
        mu_store_relaxed(&b->word, mu_load_relaxed(&b->word) + (1ull << 32)); /* another generation */
        assert_status(MUSTER_DATA_LOSS, mu_table_get(&table, NULL, &k, buffer, sizeof buffer, &f));
        assert_status(MUSTER_DATA_LOSS, mu_table_get(&table, ctx, &k, buffer, sizeof buffer, &f));
        assert_status(MUSTER_DATA_LOSS, set(&k, "new", 3, NULL));
        assert_status(MUSTER_DATA_LOSS, mu_table_edit(&table, ctx, &k, 0, delete_it, &e, NULL));
        assert_status(MUSTER_DATA_LOSS, mu_table_walk(&table, ctx, 0, &walk, &info));
        mu_store_relaxed(&b->word, mu_load_relaxed(&b->word) - (1ull << 32)); /* as it was */
        assert_ok(mu_table_edit(&table, ctx, &k, 0, delete_it, &e, NULL));
    }
}

static enum mu_verdict put_quietly(struct mu_edit *e)
{
    e->quiet = true;
    return MU_PUT;
}

TEST_WITH(a_quiet_edit_leaves_the_sleepers_to_the_next_that_is_not, setup, teardown)
{
    struct mu_edit e = {.value = "2", .len = 1};
    struct mu_key k;
    mu_a64 *bucket;
    uint64_t w;

    mu_key_make(&k, seg, "/key", 4);
    bucket = mu_table_bucket(&table, &k);
    assert_ok(set(&k, "1", 1, NULL));
    assert_ok(mu_table_edit(&table, ctx, &k, 0, put_quietly, &e, NULL));
    w = mu_load_acquire(bucket);
    assert_false(w & MU_WORD_S); /* nobody slept */
    assert_true(mu_cas(bucket, w, w | MU_WORD_S));
    assert_ok(mu_table_edit(&table, ctx, &k, 0, put_quietly, &e, NULL));
    assert_false(mu_word_same(mu_load_acquire(bucket), w));
    assert_true(mu_load_acquire(bucket) & MU_WORD_S);
    assert_ok(set(&k, "3", 1, NULL));
    assert_false(mu_load_acquire(bucket) & MU_WORD_S);
    assert_found(&k, "3", 1);
}

/* The value's end lies elsewhere: wherever it is cut, in the page, in a block, across parts. */
TEST_WITH(a_value_in_two_pieces_is_one_value, setup, teardown)
{
    static const size_t sizes[] = {0, 1, 7, 8, 9, 33, 600, 4096, MU_BODY_MAX - 8, MU_BODY_MAX, MU_BODY_MAX + 1, 200001};
    uint8_t *bytes = malloc(200001);
    struct mu_key k;

    for (size_t i = 0; i < 200001; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 11);
    mu_key_make(&k, seg, "in two", 6);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t first = 0; first <= sizes[s]; first += first < 40 ? 1 : sizes[s] / 13 + 1) {
            uint8_t *end = malloc(sizes[s] - first + 1); /* exactly: what is behind is seen */
            struct mu_edit e = {.value = bytes, .len = sizes[s], .more = end, .more_len = sizes[s] - first};

            memcpy(end, bytes + first, sizes[s] - first);
            assert_ok(mu_table_edit(&table, ctx, &k, 0, put, &e, NULL));
            assert_found(&k, bytes, sizes[s]);
            free(end);
        }
    free(bytes);
}
