/*
 * tests/segment/done_test.c: records of calls that were done: found again with their result, refused when stray,
 * forgotten when told, passed over by all who read, and never more than a page may hold.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "segment/file.h"
#include "segment/slot.h"
#include "segment/table.h"

static struct test_job job;
static struct muster_segment *seg;
static struct muster *m;
static struct mu_ctx *ctx;
static struct mu_table table;

static int setup(void)
{
    const struct muster_segment_config config = {.num_buckets = 1};
    struct muster_options o;

    muster_options_init(&o);
    o.flags = MUSTER_JOIN_OBSERVER | MUSTER_JOIN_NO_CREATE;
    ctx = malloc(sizeof *ctx);
    if (test_job_create(&job, &config) || mu_segment_open(job.name, true, &seg) || mu_slot_claim(seg, 0, ctx))
        return -1;
    o.job = job.name;
    table = mu_table_kv(seg);
    return muster_join(&o, &m) ? -1 : 0;
}

static int teardown(void)
{
    muster_leave(m);
    mu_slot_release(ctx);
    free(ctx);
    muster_segment_close(seg);
    return test_job_end(&job) ? -1 : 0;
}

/* Adds to a counter; the sum is the call's result. */
static enum mu_verdict add(struct mu_edit *e)
{
    uint64_t *sum = e->arg;

    *sum = 1;
    if (e->version)
        *sum += *(const uint64_t *)e->old;
    e->value = sum;
    e->len = sizeof *sum;
    e->done->result[0] = *sum;
    e->done->result[1] = ~*sum;
    return MU_PUT;
}

static enum muster_status add_as(const char *key, uint64_t id, uint64_t number, mu_forget_fn forget, void *arg,
                                 uint64_t *ret_sum, bool *ret_before)
{
    struct mu_done done = {.id = id, .number = number};
    uint64_t sum;
    struct mu_edit e = {.arg = &sum, .done = &done, .forget = forget, .forget_arg = arg};
    struct mu_key k;
    enum muster_status status;

    mu_key_make(&k, seg, key, strlen(key));
    status = mu_table_edit(&table, ctx, &k, MU_EDIT_WANTS_OLD, add, &e, NULL);
    *ret_sum = done.result[0];
    if (!status)
        assert_true(done.result[1] == ~done.result[0]);
    *ret_before = e.was_done;
    return status;
}

static void assert_counter(const char *key, uint64_t expected)
{
    uint64_t sum = 0;
    struct mu_found f;
    struct mu_key k;

    mu_key_make(&k, seg, key, strlen(key));
    assert_ok(mu_table_get(&table, ctx, &k, &sum, sizeof sum, &f));
    assert_int_equal(sum, expected);
}

TEST_WITH(test_a_call_is_done_once, setup, teardown)
{
    uint64_t sum;
    bool before;

    assert_ok(add_as("n", MU_DONE_ID(1, 2), 10, NULL, NULL, &sum, &before));
    assert_false(before);
    for (int i = 0; i < 3; i++) {
        assert_ok(add_as("n", MU_DONE_ID(1, 2), 10, NULL, NULL, &sum, &before));
        assert_true(before);
        assert_int_equal(sum, 1);
    }
    assert_ok(add_as("n", MU_DONE_ID(2, 1), 10, NULL, NULL, &sum, &before)); /* another slot's */
    assert_int_equal(sum, 2);
    assert_ok(add_as("n", MU_DONE_ID(1, 2), 11, NULL, NULL, &sum, &before));
    assert_int_equal(sum, 3);
    assert_status(MUSTER_CANCELLED, add_as("n", MU_DONE_ID(1, 2), 10, NULL, NULL, &sum, &before));
    assert_ok(add_as("n", MU_DONE_ID(2, 1), 10, NULL, NULL, &sum, &before));
    assert_true(before);
    assert_int_equal(sum, 2);
    assert_counter("n", 3);
}

static bool always(void *arg, uint64_t id, uint64_t number)
{
    (void)id;
    (void)number;
    ++*(unsigned *)arg;
    return true;
}

static bool odd(void *arg, uint64_t id, uint64_t number)
{
    (void)arg;
    (void)number;
    return id % 2;
}

/* One bucket: all keys and records share a page. */
TEST_WITH(test_records_are_no_keys, setup, teardown)
{
    struct muster_kv_list *list;
    struct muster_audit sum;
    size_t count;
    uint64_t n;
    unsigned dropped = 0;
    bool before;
    struct mu_key k;
    char key[16];

    for (unsigned i = 0; i < 20; i++) {
        snprintf(key, sizeof key, "d/%02u", i);
        assert_ok(add_as(key, MU_DONE_ID(3, i), 1, NULL, NULL, &n, &before));
    }
    assert_ok(muster_kv_count(m, "/", 1, &count));
    assert_int_equal(count, 20);
    assert_ok(muster_kv_get_dir(m, "d", 1, &list));
    assert_int_equal(list->count, 20);
    muster_kv_list_free(list);
    assert_ok(muster_segment_check(seg, NULL, NULL, &sum));
    assert_int_equal(sum.keys, 20);
    assert_int_equal(sum.problems, 0);
    assert_ok(muster_kv_set(m, "d/03", 4, "overwrite", 9, NULL)); /* a local edit keeps them */
    assert_ok(muster_kv_set(m, "d/03", 4, "verwritten", 10, NULL));
    assert_ok(add_as("d/00", MU_DONE_ID(3, 0), 1, NULL, NULL, &n, &before));
    assert_true(before);
    mu_key_make(&k, seg, "anything", 8);
    assert_ok(mu_table_forget(&table, ctx, &k, odd, NULL));
    assert_ok(add_as("d/00", MU_DONE_ID(3, 0), 1, NULL, NULL, &n, &before));
    assert_true(before);
    assert_ok(add_as("d/01", MU_DONE_ID(3, 1), 1, NULL, NULL, &n, &before));
    assert_false(before); /* it had been forgotten */
    assert_ok(mu_table_forget(&table, ctx, &k, always, &dropped));
    assert_int_equal(dropped, 11);
    assert_ok(muster_kv_delete(m, "/", 1, &count));
    assert_int_equal(count, 20);
    assert_ok(muster_segment_check(seg, NULL, NULL, &sum));
    assert_int_equal(sum.blocks_live, 0);
}

/* Deleting the last key leaves the page to the records; forgetting them empties the bucket. */
TEST_WITH(test_records_outlive_their_key, setup, teardown)
{
    uint64_t n;
    unsigned dropped = 0;
    bool before;
    struct mu_key k;
    struct muster_audit sum;

    assert_ok(add_as("n", 5, 1, NULL, NULL, &n, &before));
    assert_ok(muster_kv_delete(m, "n", 1, NULL));
    assert_ok(add_as("n", 5, 1, NULL, NULL, &n, &before));
    assert_true(before);
    assert_int_equal(n, 1);
    mu_key_make(&k, seg, "n", 1);
    assert_ok(mu_table_forget(&table, ctx, &k, always, &dropped));
    assert_ok(mu_table_forget(&table, ctx, &k, always, &dropped)); /* of an empty bucket */
    assert_int_equal(dropped, 1);
    assert_ok(muster_segment_check(seg, NULL, NULL, &sum));
    assert_int_equal(sum.blocks_live, 0);
}

TEST_WITH(test_a_page_holds_so_many, setup, teardown)
{
    uint64_t n;
    unsigned dropped = 0;
    bool before;

    for (unsigned i = 0; i < MU_DONE_MAX; i++)
        assert_ok(add_as("n", i, 1, NULL, NULL, &n, &before));
    assert_status(MUSTER_UNAVAILABLE, add_as("n", MU_DONE_MAX, 1, NULL, NULL, &n, &before));
    assert_ok(add_as("n", 7, 2, NULL, NULL, &n, &before)); /* in the place of its own */
    assert_ok(add_as("n", 8, 1, NULL, NULL, &n, &before));
    assert_true(before);
    assert_int_equal(n, 9);
    assert_ok(add_as("n", MU_DONE_MAX, 1, always, &dropped, &n, &before));
    assert_int_equal(n, MU_DONE_MAX + 2);
    assert_int_equal(dropped, MU_DONE_MAX);
}

/* A copy keeps the version that it was given. */
static enum mu_verdict put(struct mu_edit *e)
{
    (void)e;
    return MU_PUT;
}

TEST_WITH(test_a_copy_has_its_own_version, setup, teardown)
{
    struct mu_edit e = {.value = "v", .len = 1, .version_as = 1000000};
    uint64_t version;
    size_t len;
    struct mu_key k;
    char buffer[8];

    mu_key_make(&k, seg, "copy", 4);
    assert_ok(mu_table_edit(&table, ctx, &k, 0, put, &e, NULL));
    assert_ok(muster_kv_try_get(m, "copy", 4, buffer, sizeof buffer, &len, &version));
    assert_int_equal(version, 1000000);
    assert_ok(muster_kv_delete(m, "copy", 4, NULL)); /* the auditor knows copies on followers only */
}
