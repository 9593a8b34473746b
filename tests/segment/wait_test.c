/*
 * tests/segment/wait_test.c: waits that must end: the segment cut short under them, the job closed, the waker killed.
 */
#include "cm.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "job.h"

static struct test_gate gate;

static int waits_on_a_segment_that_is_cut(void *arg)
{
    struct muster *m = test_join(arg, -1, 0);
    size_t len;

    CHECK(m != NULL);
    test_gate_arrive(&gate);
    CHECK(muster_kv_get(m, "never", 5, MUSTER_FOREVER, NULL, 0, &len, NULL) == MUSTER_DATA_LOSS);
    CHECK(strstr(muster_last_error(), "truncated"));
    CHECK(muster_leave(m) == MUSTER_DATA_LOSS);
    return 0;
}

static int task_waits_on_a_segment_that_is_cut(void *arg)
{
    struct muster *m = test_join(arg, 0, TEST_WITH_HEARTBEAT);

    CHECK(m != NULL);
    test_gate_arrive(&gate);
    CHECK(muster_barrier_wait(m, "never", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) == MUSTER_DATA_LOSS);
    CHECK(strstr(muster_last_error(), "truncated"));
    CHECK(muster_leave(m) == MUSTER_DATA_LOSS);
    return 0;
}

static void *meets(void *arg)
{
    struct muster_group *group;

    return muster_group_create(arg, "g", NULL, 0, 0, MUSTER_FOREVER, &group) ? "failed" : NULL;
}

/* The other member, in the same process, never comes to the barrier. */
static int member_waits_on_a_segment_that_is_cut(void *arg)
{
    struct muster *m = test_join(arg, 0, 0), *other = test_join(arg, 1, 0);
    struct muster_group *group;
    pthread_t t;
    void *result;

    CHECK(m != NULL && other != NULL);
    CHECK(pthread_create(&t, NULL, meets, other) == 0);
    CHECK(muster_group_create(m, "g", NULL, 0, 0, MUSTER_FOREVER, &group) == MUSTER_OK);
    CHECK(pthread_join(t, &result) == 0 && !result);
    test_gate_arrive(&gate);
    CHECK(muster_group_barrier(group, MUSTER_FOREVER) == MUSTER_DATA_LOSS);
    CHECK(strstr(muster_last_error(), "truncated"));
    CHECK(muster_group_barrier(group, MUSTER_FOREVER) == MUSTER_FAILED_PRECONDITION);
    muster_group_free(group);
    CHECK(muster_leave(m) == MUSTER_DATA_LOSS);
    CHECK(muster_leave(other) == MUSTER_DATA_LOSS);
    return 0;
}

static void a_waiter_is_told_that_the_segment_was_truncated_under_it(void **state)
{
    static int (*const waiters[])(void *) = {waits_on_a_segment_that_is_cut, task_waits_on_a_segment_that_is_cut,
                                             member_waits_on_a_segment_that_is_cut};
    const struct muster_segment_config two = {.num_tasks = 2};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct test_job job;
        pid_t pid;

        assert_int_equal(test_gate_open(&gate), 0);
        assert_ok(test_job_create(&job, i % 3 == 2 ? &two : NULL));
        pid = test_fork(waiters[i % 3], job.name);
        test_gate_await(&gate);
        test_until_asleep(pid);
        assert_int_equal(ftruncate(muster_segment_fd(job.segment), i < 3 ? 0 : 8192), 0);
        assert_int_equal(test_reap(pid), 0);
        assert_ok(muster_segment_remove(job.name)); /* truncated: only its name can be removed */
        muster_segment_close(job.segment);
        test_gate_close(&gate);
    }
}

static int waits_for_a_job_that_is_closed(void *arg)
{
    struct muster *m = test_join(arg, -1, 0);
    size_t len;

    CHECK(m != NULL);
    CHECK(muster_kv_get(m, "never", 5, MUSTER_FOREVER, NULL, 0, &len, NULL) == MUSTER_CANCELLED);
    CHECK(strstr(muster_last_error(), "closed"));
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

static void closing_the_job_wakes_every_sleeper(void **state)
{
    struct test_job job;
    pid_t pids[3];

    (void)state;
    assert_ok(test_job_create(&job, NULL));
    for (int i = 0; i < 3; i++)
        pids[i] = test_fork(waits_for_a_job_that_is_closed, job.name);
    for (int i = 0; i < 3; i++)
        test_until_asleep(pids[i]);
    assert_ok(muster_segment_remove(job.name));
    for (int i = 0; i < 3; i++)
        assert_int_equal(test_reap(pids[i]), 0);
    muster_segment_close(job.segment);
}

static int waits_for_a_task_that_dies(void *arg)
{
    struct muster *m = test_join(arg, 0, 0);
    size_t len;

    CHECK(m != NULL);
    test_gate_arrive(&gate);
    CHECK(muster_kv_get(m, "never", 5, MUSTER_FOREVER, NULL, 0, &len, NULL) == MUSTER_UNAVAILABLE);
    CHECK(strstr(muster_last_error(), "task 1"));
    muster_leave(m);
    return 0;
}

static int is_killed(void *arg)
{
    struct muster *m = test_join(arg, 1, TEST_WITH_HEARTBEAT);

    CHECK(m != NULL);
    test_gate_arrive(&gate);
    while (pause() < 0)
        ;
    return 0;
}

static void a_waiter_learns_of_a_killed_task_by_itself(void **state)
{
    struct test_job job;
    pid_t waiter, victim;

    (void)state;
    assert_int_equal(test_gate_open(&gate), 0);
    assert_ok(test_job_create(&job, NULL));
    victim = test_fork(is_killed, job.name);
    test_gate_await(&gate);
    waiter = test_fork(waits_for_a_task_that_dies, job.name);
    test_gate_await(&gate);
    test_until_asleep(waiter);
    kill(victim, SIGKILL);
    assert_int_equal(test_reap(victim), 1000 + SIGKILL);
    assert_int_equal(test_reap(waiter), 0);
    assert_int_equal(test_job_end(&job), 0);
    test_gate_close(&gate);
}

static void a_wait_says_where_it_is_to_whoever_asks(void **state)
{
    struct muster_task_info info;
    struct test_job job;
    struct muster *m;
    pid_t pid;

    (void)state;
    assert_int_equal(test_gate_open(&gate), 0);
    assert_ok(test_job_create(&job, NULL));
    pid = test_fork(waits_for_a_task_that_dies, job.name);
    test_gate_await(&gate);
    m = test_join(job.name, 1, 0);
    do
        assert_ok(muster_task_get(m, 0, &info));
    while (!info.waiting[0]);
    assert_string_equal(info.waiting, "key never");
    assert_true(info.waiting_since_ns <= muster_now_ns());
    assert_ok(muster_error_report(m, 1, MUSTER_INTERNAL, "so that it ends"));
    assert_int_equal(test_reap(pid), 0);
    muster_leave(m);
    assert_int_equal(test_job_end(&job), 0);
    test_gate_close(&gate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_is_told_that_the_segment_was_truncated_under_it),
        cmocka_unit_test(closing_the_job_wakes_every_sleeper),
        cmocka_unit_test(a_waiter_learns_of_a_killed_task_by_itself),
        cmocka_unit_test(a_wait_says_where_it_is_to_whoever_asks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
