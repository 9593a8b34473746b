/*
 * tests/segment/reserve_test.c: a segment whose first pages are left to whoever joins first: until then it costs a few,
 * and afterwards, or where there is no room for them, it is as any other.
 */
#include "cm.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "segment/file.h"
#include "segment/reserve.h"
#include "shm.h"
#include "task/task.h"

enum { FEW = 192 << 10, ALL = 700 << 10 };

static const struct muster_segment_config config = {.num_tasks = 8};

static struct test_job new_job(void)
{
    struct test_job job;

    test_name(job.name, "reserve");
    CHECK(mu_segment_create_hosts(job.name, &config, NULL, MU_SEGMENT_KEPT | MU_SEGMENT_LATE, &job.segment) ==
          MUSTER_OK);
    return job;
}

static uint64_t committed(struct muster_segment *segment)
{
    struct muster_segment_info info;

    CHECK(muster_segment_info(segment, &info) == MUSTER_OK);
    return info.committed_bytes;
}

TEST(until_somebody_joins_it_has_few_pages_and_then_all)
{
    struct test_job job = new_job();
    struct muster_segment *other;
    struct muster *m;

    assert_true(committed(job.segment) < FEW);
    assert_false(mu_segment_is_committed(job.segment));
    assert_int_equal(muster_segment_open(job.name, &other), MUSTER_OK); /* to look who is there adds none */
    assert_true(committed(other) < FEW);
    muster_segment_close(other);
    m = test_join(job.name, 3, 0);
    assert_non_null(m);
    assert_true(committed(job.segment) > ALL);
    assert_true(mu_segment_is_committed(job.segment));
    assert_int_equal(muster_kv_set(m, "a", MUSTER_NTS, "b", 1, NULL), MUSTER_OK);
    muster_leave(m);
    assert_int_equal(test_job_end(&job), 0);
}

TEST(who_only_reads_has_them_first_as_well)
{
    struct test_job job = new_job();
    struct muster *m = test_join(job.name, -1, MUSTER_JOIN_READ_ONLY);
    size_t n = 7;

    assert_non_null(m);
    assert_true(mu_segment_is_committed(job.segment));
    assert_int_equal(muster_kv_count(m, "", MUSTER_NTS, &n), MUSTER_OK);
    assert_int_equal(n, 0);
    muster_leave(m);
    assert_int_equal(test_job_end(&job), 0);
}

TEST(the_creator_joins_like_anybody)
{
    struct test_job job = new_job();
    struct muster *m;

    assert_int_equal(mu_task_join_open(job.segment, &m), MUSTER_OK);
    assert_true(mu_segment_is_committed(job.segment));
    assert_int_equal(muster_leave(m), MUSTER_OK);
    assert_int_equal(test_job_end(&job), 0);
}

TEST(an_audit_of_one_that_nobody_has_joined_finds_it_sound)
{
    struct test_job job = new_job();

    assert_int_equal(test_audit(job.name), 0);
    assert_int_equal(test_job_end(&job), 0);
}

TEST(one_that_nobody_has_joined_is_removed_as_any)
{
    struct test_job job = new_job();

    assert_int_equal(muster_segment_remove(job.name), MUSTER_OK);
    assert_false(test_exists(job.name));
    assert_true(committed(job.segment) < FEW);
    muster_segment_close(job.segment);
}

static int joins_in_a_full_one(void *arg)
{
    struct muster_options options;
    char directory[64], path[128];
    struct muster_audit audit;
    struct test_job job;
    struct muster *m;

    (void)arg;
    if (!test_small_shm(4 << 20, directory))
        return TEST_NOT_ALLOWED;
    job = new_job();
    CHECK(!mu_segment_is_committed(job.segment));
    test_fill_shm(directory, path);
    muster_options_init(&options);
    options.job = job.name;
    for (int reader = 0; reader < 2; reader++) {
        options.task_id = reader ? -1 : 2;
        options.flags = MUSTER_JOIN_NO_CREATE | (reader ? MUSTER_JOIN_READ_ONLY : 0);
        CHECK(muster_join(&options, &m) == MUSTER_RESOURCE_EXHAUSTED);
        CHECK(!strncmp(muster_last_error(), directory, strlen(directory)));
        CHECK(strstr(muster_last_error(), " is full") && strstr(muster_last_error(), job.name));
    }
    CHECK(muster_segment_check(job.segment, NULL, NULL, &audit) == MUSTER_RESOURCE_EXHAUSTED);
    CHECK(committed(job.segment) < FEW); /* nothing is left of the attempts */
    unlink(path);
    m = test_join(job.name, 2, 0);
    CHECK(m != NULL && muster_kv_set(m, "a", MUSTER_NTS, "b", 1, NULL) == MUSTER_OK);
    muster_leave(m);
    CHECK(test_job_end(&job) == 0);
    test_small_shm_end(directory);
    return 0;
}

static int creates_where_room_is_short(void *arg)
{
    struct muster_segment *segment;
    char directory[64];

    (void)arg;
    if (!test_small_shm(1 << 20, directory))
        return TEST_NOT_ALLOWED;
    CHECK(mu_segment_create_hosts("short", &config, NULL, MU_SEGMENT_KEPT | MU_SEGMENT_LATE, &segment) == MUSTER_OK);
    CHECK(mu_segment_is_committed(segment));
    muster_segment_close(segment);
    test_small_shm_end(directory);
    return 0;
}

TEST(where_shm_has_been_filled_meanwhile_joining_fails_in_words)
{
    test_with_small_shm(joins_in_a_full_one);
}

TEST(where_room_is_short_nothing_is_left_for_later)
{
    test_with_small_shm(creates_where_room_is_short);
}
