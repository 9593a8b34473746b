/*
 * tests/segment/full_test.c: a full segment, a full /dev/shm: what fails says so, nothing is lost, and what is freed
 * can be used again.
 */
#include "cm.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "seed.h"
#include "shm.h"

/* Sets keys of `size` bytes until there is no room: returns how many went in. */
static size_t fill(struct muster *m, const char *directory, size_t size, size_t most)
{
    static char value[70000];
    enum muster_status status = MUSTER_OK;
    size_t n = 0;

    memset(value, 'f', sizeof value);
    while (!status && n < most) {
        char key[64];

        snprintf(key, sizeof key, "%s/%zu", directory, n);
        status = muster_kv_set(m, key, MUSTER_NTS, value, size, NULL);
        n += !status;
    }
    CHECK(n == most || status == MUSTER_RESOURCE_EXHAUSTED);
    return n;
}

static size_t count(struct muster *m, const char *directory)
{
    size_t n = 0;

    CHECK(muster_kv_count(m, directory, MUSTER_NTS, &n) == MUSTER_OK);
    return n;
}

TEST(a_store_filled_with_keys_of_any_size_keeps_them_and_can_be_emptied)
{
    static const size_t sizes[] = {0, 20, 100, 400, 2000, 15000, 65000};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct muster_segment_config config = {.heap_bytes = 1 << 20, .num_buckets = 4096};
        struct test_job job;
        struct muster *m;
        size_t n, again, gone;

        assert_ok(test_job_create(&job, &config));
        m = test_join(job.name, 0, 0);
        n = fill(m, "fill", sizes[i], SIZE_MAX);
        assert_true(n > 5);
        assert_says("full");
        assert_int_equal(count(m, "fill"), n);
        assert_int_equal(test_audit(job.name), 0);
        assert_ok(muster_kv_delete(m, "fill/1", MUSTER_NTS, &gone));
        assert_int_equal(gone, 1);
        assert_ok(muster_kv_delete(m, "fill", MUSTER_NTS, &gone));
        assert_int_equal(gone, n - 1);
        again = fill(m, "fill", sizes[i], SIZE_MAX);
        print_message("values of %zu bytes: %zu keys, then %zu\n", sizes[i], n, again);
        assert_true(again >= n / 2); /* pages that outlive their keys take some */
        muster_leave(m);
        assert_int_equal(test_job_end(&job), 0);
    }
}

TEST(keys_one_at_a_time_can_be_deleted_from_a_full_store_in_any_order)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20, .num_buckets = 64};
    struct test_random r = {test_seed()};
    struct test_job job;
    struct muster *m;
    size_t n[3];

    assert_ok(test_job_create(&job, &config));
    m = test_join(job.name, 0, 0);
    n[0] = fill(m, "0", 3000, 30); /* pages of every size, until nothing fits */
    n[1] = fill(m, "1", 60000, SIZE_MAX);
    n[2] = fill(m, "2", 30, SIZE_MAX);
    for (int step = 0; step < 4000; step++) {
        char key[64];
        size_t which = test_below(&r, 3);
        enum muster_status status;

        snprintf(key, sizeof key, "%zu/%zu", which, (size_t)test_below(&r, n[which]));
        assert_ok(muster_kv_delete(m, key, MUSTER_NTS, NULL));
        status = muster_kv_set(m, key, MUSTER_NTS, key, sizeof key, NULL);
        if (status)
            assert_status(MUSTER_RESOURCE_EXHAUSTED, status);
        if (step % 500 == 0) {
            fill(m, "1", 60000, SIZE_MAX);
            fill(m, "2", 30, SIZE_MAX);
        }
    }
    muster_leave(m);
    assert_int_equal(test_job_end(&job), 0);
}

/* In a full store, everybody deletes what is his and puts it back if he can; others' keys stay as they were. */
static struct test_job crowded;

static int deletes_in_a_crowd(void *arg)
{
    struct muster *m = test_join(crowded.name, -1, 0);
    struct test_random r = {test_seed() + *(unsigned *)arg};
    static char value[3000];

    CHECK(m != NULL);
    for (int step = 0; step < 1500; step++) {
        char key[64];
        enum muster_status status;

        snprintf(key, sizeof key, "own/%u/%u", *(unsigned *)arg, (unsigned)test_below(&r, 40));
        CHECK(muster_kv_delete(m, key, MUSTER_NTS, NULL) == MUSTER_OK);
        status = muster_kv_set(m, key, MUSTER_NTS, value, test_below(&r, sizeof value), NULL);
        CHECK(status == MUSTER_OK || status == MUSTER_RESOURCE_EXHAUSTED);
    }
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST(four_processes_may_delete_from_a_full_store_at_once)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20, .num_buckets = 16};
    unsigned numbers[4] = {0, 1, 2, 3};
    struct muster *m;
    pid_t pids[4];
    size_t n;

    assert_ok(test_job_create(&crowded, &config));
    m = test_join(crowded.name, 0, 0);
    for (int i = 0; i < 4; i++) {
        char directory[32];

        snprintf(directory, sizeof directory, "own/%d", i);
        fill(m, directory, 1000, 40);
    }
    n = fill(m, "fill", 200, SIZE_MAX);
    for (int i = 0; i < 4; i++)
        pids[i] = test_fork(deletes_in_a_crowd, &numbers[i]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(test_reap(pids[i]), 0);
    assert_int_equal(count(m, "fill"), n);
    muster_leave(m);
    assert_int_equal(test_job_end(&crowded), 0);
}

TEST(what_cannot_be_written_changes_nothing)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20};
    struct test_job job;
    static char big[2 << 20], got[16];
    uint64_t before, after;
    struct muster *m;
    int64_t sum;
    size_t len;

    assert_ok(test_job_create(&job, &config));
    m = test_join(job.name, 0, 0);
    assert_ok(muster_kv_set(m, "key", 3, "12", 2, &before));
    assert_status(MUSTER_RESOURCE_EXHAUSTED, muster_kv_set(m, "key", 3, big, sizeof big, NULL));
    assert_status(MUSTER_RESOURCE_EXHAUSTED, muster_kv_append(m, "key", 3, big, sizeof big, &len));
    assert_status(MUSTER_RESOURCE_EXHAUSTED, muster_kv_compare_and_set(m, "key", 3, before, big, sizeof big, NULL));
    assert_status(MUSTER_RESOURCE_EXHAUSTED, muster_kv_insert(m, "other", 5, big, sizeof big));
    assert_ok(muster_kv_try_get(m, "key", 3, got, sizeof got, &len, &after));
    assert_int_equal(len, 2);
    assert_true(before == after);
    assert_ok(muster_kv_increment(m, "key", 3, 1, &sum));
    assert_int_equal(sum, 13);
    muster_leave(m);
    assert_int_equal(test_job_end(&job), 0);
}

TEST(the_deaths_of_tasks_are_recorded_in_a_full_segment)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20, .num_tasks = 16};
    struct muster_error error;
    struct test_job job;
    struct muster *m;

    assert_ok(test_job_create(&job, &config));
    m = test_join(job.name, 0, 0);
    fill(m, "a", 60000, SIZE_MAX);
    fill(m, "b", 10, SIZE_MAX);
    for (int32_t i = 1; i < 16; i++) {
        struct muster *other = test_join(job.name, i, 0);

        assert_non_null(other);
        assert_ok(muster_error_report(other, i, MUSTER_INTERNAL, "a message that needs a block of its own"));
    }
    assert_ok(muster_error_wait(m, 1, &error));
    assert_int_equal(error.task_id, 1);
    muster_leave(m);
    assert_int_equal(test_job_end(&job), 0);
}

TEST(events_need_no_more_room_than_their_ring)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20, .num_events = 8};
    struct test_job job;
    struct muster *m;
    uint64_t sent = 0;

    assert_ok(test_job_create(&job, &config));
    m = test_join(job.name, 0, 0);
    for (int i = 0; i < 20; i++)
        assert_ok(muster_event_send(m, 0, "event", 5, NULL));
    fill(m, "a", 60000, SIZE_MAX);
    fill(m, "b", 10, SIZE_MAX);
    for (int i = 0; i < 100; i++) /* in the places of those it replaces, or not at all */
        sent += muster_event_send(m, 0, "event", 5, NULL) == MUSTER_OK;
    assert_int_equal(sent, 100);
    muster_leave(m);
    assert_int_equal(test_job_end(&job), 0);
}

static int creates_in_200_kib(void *arg)
{
    struct muster_segment_config config = {.num_tasks = 4, .num_buckets = 256};
    struct muster_segment *segment;
    struct statvfs vfs;
    char directory[64];

    (void)arg;
    if (!test_small_shm(200 << 10, directory))
        return TEST_NOT_ALLOWED;
    CHECK(muster_segment_create("full", &config, &segment) == MUSTER_RESOURCE_EXHAUSTED);
    CHECK(strstr(muster_last_error(), directory) && strstr(muster_last_error(), "memfd"));
    CHECK(!statvfs(directory, &vfs) && vfs.f_bfree == vfs.f_blocks); /* nothing is left of the attempt */
    CHECK(muster_segment_open("full", &segment) == MUSTER_NOT_FOUND);
    config.memfd = 1; /* what the sentence advises */
    CHECK(muster_segment_create("full", &config, &segment) == MUSTER_OK);
    muster_segment_close(segment);
    test_small_shm_end(directory);
    return 0;
}

TEST(too_small_a_shm_is_refused_at_creation_with_advice)
{
    test_with_small_shm(creates_in_200_kib);
}

static int runs_full(void *arg)
{
    struct muster_segment_config config = {.num_tasks = 4, .num_buckets = 256, .heap_bytes = 64 << 20};
    char directory[64], ballast[128];
    struct muster_segment *segment;
    struct muster_kv_list *list;
    size_t n, more, gone_keys;
    struct muster *m;

    (void)arg;
    if (!test_small_shm(6 << 20, directory))
        return TEST_NOT_ALLOWED;
    CHECK(muster_segment_create("full", &config, &segment) == MUSTER_OK);
    m = test_join("full", 0, TEST_WITH_HEARTBEAT);
    CHECK(m != NULL);
    n = fill(m, "first", 5000, 20);
    CHECK(n == 20);
    test_fill_shm(directory, ballast);
    more = fill(m, "second", 60000, SIZE_MAX);
    CHECK(!strncmp(muster_last_error(), directory, strlen(directory)) && strstr(muster_last_error(), " is full"));
    CHECK(count(m, "first") == n && count(m, "second") == more);
    /* every word of the heap can be touched: nothing was handed out that is not there */
    CHECK(muster_kv_get_dir(m, "", 0, &list) == MUSTER_OK && list->count == n + more);
    muster_kv_list_free(list);
    CHECK(test_audit("full") == 0);
    CHECK(muster_event_send(m, 1, "x", 1, NULL) == MUSTER_OK || strstr(muster_last_error(), "shm"));
    /* what is freed inside serves again */
    CHECK(muster_kv_delete(m, "first", MUSTER_NTS, &gone_keys) == MUSTER_OK && gone_keys == n);
    CHECK(fill(m, "first", 5000, 20) == 20);
    /* what is freed outside too, at once */
    unlink(ballast);
    CHECK(fill(m, "third", 60000, 10) == 10);
    CHECK(count(m, "second") == more && count(m, "first") == 20);
    CHECK(muster_leave(m) == MUSTER_OK);
    CHECK(test_audit("full") == 0);
    CHECK(muster_segment_remove("full") == MUSTER_OK);
    muster_segment_close(segment);
    test_small_shm_end(directory);
    return 0;
}

TEST(a_shm_that_fills_up_in_mid_run_loses_nothing_and_serves_again)
{
    test_with_small_shm(runs_full);
}
