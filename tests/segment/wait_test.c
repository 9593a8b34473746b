/*
 * tests/segment/wait_test.c: waits that must end: the segment cut short under them, the job closed, the waker killed,
 * the wake-up lost; and who spins before it sleeps.
 */
#include "cm.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "kv/key.h"
#include "segment/handle.h"
#include "segment/table.h"
#include "segment/wait.h"

static struct test_gate gate, second;

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

TEST(a_waiter_is_told_that_the_segment_was_truncated_under_it)
{
    static int (*const waiters[])(void *) = {waits_on_a_segment_that_is_cut, task_waits_on_a_segment_that_is_cut,
                                             member_waits_on_a_segment_that_is_cut};
    const struct muster_segment_config two = {.num_tasks = 2};

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
    CHECK(strstr(muster_last_error(), "was removed by 'muster segment rm --force'"));
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST(closing_the_job_wakes_every_sleeper)
{
    struct test_job job;
    pid_t pids[3];

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

TEST(a_waiter_learns_of_a_killed_task_by_itself)
{
    struct test_job job;
    pid_t waiter, victim;

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

static int waits_for_a_key_without_a_deadline(void *arg)
{
    struct muster *m = test_join(arg, 0, 0);
    char value[8];
    size_t len;

    CHECK(m != NULL);
    CHECK(muster_kv_get(m, "late", 4, MUSTER_FOREVER, value, sizeof value, &len, NULL) == MUSTER_OK);
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

/* Until when the process sleeps in futex_waitv(), by the kernel's word; 0: that cannot be read here. */
static uint64_t sleeps_until(pid_t pid)
{
    enum { FUTEX_WAITV = 449 };
    unsigned long long arguments[6];
    struct timespec t = {0};
    char path[64], line[256];
    uint64_t until = 0;
    long number = 0;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/syscall", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    for (int i = 0; number != FUTEX_WAITV && i < 10000; i++) {
        ssize_t n = pread(fd, line, sizeof line - 1, 0);

        line[n > 0 ? n : 0] = 0;
        if (sscanf(line, "%ld %llx %llx %llx %llx", &number, &arguments[0], &arguments[1], &arguments[2],
                   &arguments[3]) != 5)
            number = 0; /* it runs, at a recheck */
    }
    close(fd);
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    fd = number == FUTEX_WAITV ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && pread(fd, &t, sizeof t, (off_t)arguments[3]) == (ssize_t)sizeof t)
        until = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (fd >= 0)
        close(fd);
    return until;
}

/* The waiter's bit is taken away behind its back, so that the commit wakes nobody; nor does anything else. */
TEST(a_waiter_whose_wake_up_is_lost_looks_again_by_itself)
{
    for (int i = 0; i < 5; i++) {
        struct test_job job;
        struct muster *m;
        struct mu_table t;
        struct mu_key k;
        uint64_t until;
        mu_a64 *bucket;
        pid_t waiter;

        assert_ok(test_job_create(&job, NULL));
        m = test_join(job.name, -1, 0);
        assert_non_null(m);
        assert_ok(mu_kv_key(m->seg, "late", 4, &k));
        t = mu_table_kv(m->seg);
        bucket = mu_table_bucket(&t, &k);
        waiter = test_fork(waits_for_a_key_without_a_deadline, job.name);
        while (!(mu_load_acquire(bucket) & MU_WORD_S)) /* acquire: pairs with the CAS in sleep_on() */
            ;
        test_until_asleep(waiter);
        until = sleeps_until(waiter);
        if (until)
            assert_true(until <= muster_now_ns() + 100000000u); /* it may not sleep longer, whatever its deadline is */
        else
            print_message("not read: until when a process sleeps\n");
        assert_true(mu_cas(bucket, MU_WORD_S, 0)); /* pairs with sleep_on(): as if nobody slept */
        assert_ok(muster_kv_set(m, "late", 4, "x", 1, NULL));
        assert_int_equal(test_reap(waiter), 0);
        muster_leave(m);
        assert_int_equal(test_job_end(&job), 0);
    }
}

TEST(a_wait_says_where_it_is_to_whoever_asks)
{
    struct muster_task_info info;
    struct test_job job;
    struct muster *m;
    pid_t pid;

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

/* Who has spun before, a group's member say, takes that stage away; also of a wait that would have it. */
TEST(a_wait_whose_spins_were_taken_away_does_not_spin)
{
    const struct muster_segment_config one = {.num_tasks = 1};
    mu_a64 word = MU_WORD(1, 1);
    struct test_job job;
    struct muster *m;

    assert_ok(test_job_create(&job, &one));
    m = test_join(job.name, -1, 0);
    assert_non_null(m);
    for (int taken = 0; taken < 2; taken++) {
        struct mu_wait w;

        mu_wait_begin(&w, m->seg, NULL, MUSTER_FOREVER, "nothing");
        if (taken)
            w.spins = 0;
        mu_wait_look(&w);
        assert_ok(mu_wait_on(&w, &word, 0)); /* changed already: what is left is seen */
        mu_wait_end(&w);
        assert_true(taken ? w.spins == 0 : w.spins > 0);
        assert_true(w.spins < MU_WAIT_UNCHOSEN);
    }
    muster_leave(m);
    assert_int_equal(test_job_end(&job), 0);
}

struct bound {
    const char *job;
    int first, other; /* processors */
};

static void bind_to(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

/* Whether a wait that begins now spins: for a word that has changed already, so spins or yields are left over. */
static bool would_spin(struct muster *m)
{
    mu_a64 word = MU_WORD(1, 1);
    struct mu_wait w;

    mu_wait_begin(&w, muster_segment_of(m), NULL, MUSTER_FOREVER, "nothing");
    mu_wait_look(&w);
    CHECK(mu_wait_on(&w, &word, 0) == MUSTER_OK);
    mu_wait_end(&w);
    return w.spins > 0;
}

static int is_bound_and_looks(void *arg)
{
    const struct bound *b = arg;
    struct muster *m;

    bind_to(b->first);
    m = test_join(b->job, 0, 0);
    CHECK(m != NULL);
    CHECK(mu_wait_processors(muster_segment_of(m), 2) == 1 && !would_spin(m)); /* the other has not come yet */
    test_gate_arrive(&gate);
    test_gate_pass(&gate);
    CHECK(mu_wait_processors(muster_segment_of(m), 2) == (b->first == b->other ? 1 : 2));
    CHECK(would_spin(m) == (b->first != b->other));
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

static int is_bound_and_stays(void *arg)
{
    const struct bound *b = arg;
    struct muster *m;

    bind_to(b->other);
    m = test_join(b->job, 1, 0);
    CHECK(m != NULL);
    test_gate_arrive(&second);
    test_gate_pass(&second);
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST(who_is_bound_spins_when_the_others_are_bound_elsewhere)
{
    const struct muster_segment_config two = {.num_tasks = 2};
    int found[2], n = 0;
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set))
        skip();
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, &set))
            found[n++] = i;
    if (n < 2)
        skip();
    for (int apart = 0; apart < 2; apart++) {
        struct test_job job;
        struct bound b = {job.name, found[0], found[apart]};
        struct muster *observer;
        pid_t looks, stays;

        assert_int_equal(test_gate_open(&gate), 0);
        assert_int_equal(test_gate_open(&second), 0);
        assert_ok(test_job_create(&job, &two));
        looks = test_fork(is_bound_and_looks, &b);
        test_gate_await(&gate);
        stays = test_fork(is_bound_and_stays, &b);
        test_gate_await(&second);
        observer = test_join(job.name, -1, 0); /* its processors are no task's */
        assert_non_null(observer);
        assert_ok(muster_kv_set(observer, "here", 4, "", 0, NULL));
        test_gate_release(&gate);
        assert_int_equal(test_reap(looks), 0);
        muster_leave(observer);
        test_gate_release(&second);
        assert_int_equal(test_reap(stays), 0);
        assert_int_equal(test_job_end(&job), 0);
        test_gate_close(&gate);
        test_gate_close(&second);
    }
}
