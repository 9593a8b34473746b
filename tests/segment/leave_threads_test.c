/*
 * tests/segment/leave_threads_test.c: leaving while other threads of the process hold slots, end, or fork; and what a
 * forked child gives back.
 */
#include "cm.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "child.h"
#include "job.h"

static char name[128];
static struct muster *volatile mine;
static pthread_barrier_t meeting;

static struct muster *join(uint32_t tasks, uint32_t slots, int32_t task, uint32_t flags)
{
    struct muster_segment_config config = {
        .num_buckets = 64, .num_events = 64, .num_slots = slots, .heap_bytes = 4u << 20};
    struct muster_options o;
    struct muster *m = NULL;

    muster_options_init(&o);
    o.job = name;
    o.num_tasks = tasks;
    o.task_id = task;
    o.flags = flags;
    o.config = &config;
    if (muster_join(&o, &m))
        fprintf(stderr, "%s\n", muster_last_error());
    return m;
}

/* Their own allocators and threads do not survive what the test does. */
static void skip_under_sanitizers(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("not under a sanitizer\n");
    skip();
#endif
}

static int descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static int setup(void)
{
    test_name(name, "leave");
    pthread_barrier_init(&meeting, NULL, 2);
    return 0;
}

static int teardown(void)
{
    pthread_barrier_destroy(&meeting);
    muster_segment_remove(name);
    return 0;
}

/* Takes a slot, and lives on until it is told to end. */
static void *writes_and_stays(void *arg)
{
    enum muster_status status = muster_kv_set(mine, "k", 1, "v", 1, NULL);

    (void)arg;
    pthread_barrier_wait(&meeting);
    pthread_barrier_wait(&meeting);
    return status ? "could not write" : NULL;
}

TEST_WITH(the_last_to_leave_takes_the_name_away_though_its_threads_live_on, setup, teardown)
{
    pthread_t t;
    void *result;

    mine = join(1, 0, 0, 0);
    assert_non_null(mine);
    pthread_create(&t, NULL, writes_and_stays, NULL);
    pthread_barrier_wait(&meeting);
    assert_ok(muster_leave(mine));
    assert_false(test_exists(name));
    pthread_barrier_wait(&meeting);
    pthread_join(t, &result);
    assert_null(result);
}

TEST_WITH(the_slots_of_threads_that_live_on_are_free_once_they_end, setup, teardown)
{
    struct muster *other, *third;
    struct muster_segment_info info;
    pthread_t t;

    other = join(2, 4, 1, MUSTER_JOIN_NO_HEARTBEAT);
    mine = join(2, 4, 0, MUSTER_JOIN_NO_HEARTBEAT);
    assert_true(other && mine);
    pthread_create(&t, NULL, writes_and_stays, NULL);
    pthread_barrier_wait(&meeting);
    assert_ok(muster_leave(mine));
    assert_ok(muster_segment_info(muster_segment_of(other), &info));
    assert_int_equal(info.slots_live, 1);
    pthread_barrier_wait(&meeting);
    pthread_join(t, NULL);
    for (int i = 0; i < 3; i++) { /* the three that are left, the thread's among them */
        third = join(2, 4, -1, MUSTER_JOIN_OBSERVER);
        assert_non_null(third);
        if (i == 2) {
            assert_ok(muster_segment_info(muster_segment_of(other), &info));
            assert_int_equal(info.slots_live, 2);
        }
        assert_ok(muster_leave(third));
    }
    assert_ok(muster_leave(other));
    assert_false(test_exists(name));
}

/* Ends about when the process leaves: before, after, or in the midst of it. */
static void *writes_and_ends(void *arg)
{
    (void)arg;
    muster_kv_set(mine, "k", 1, "v", 1, NULL);
    pthread_barrier_wait(&meeting);
    return NULL;
}

TEST_WITH(a_thread_that_ends_while_the_process_leaves_leaves_nothing_behind, setup, teardown)
{
    for (int i = 0; i < 300; i++) {
        pthread_t t;

        mine = join(1, 0, 0, i % 2 ? MUSTER_JOIN_NO_HEARTBEAT : 0);
        assert_non_null(mine);
        pthread_create(&t, NULL, writes_and_ends, NULL);
        pthread_barrier_wait(&meeting);
        assert_ok(muster_leave(mine));
        pthread_join(t, NULL);
        assert_false(test_exists(name));
    }
}

/* As if killed by a filter of system calls: no destructor runs. */
static void *writes_and_vanishes(void *arg)
{
    (void)arg;
    muster_kv_set(mine, "k", 1, "v", 1, NULL);
    syscall(SYS_exit, 0);
    return NULL;
}

TEST_WITH(the_slot_of_a_thread_that_vanished_may_be_anothers_by_now, setup, teardown)
{
    struct muster *watcher, *heir;
    struct muster_segment_info info;

    skip_under_sanitizers();
    for (int flags = 0; flags <= (int)MUSTER_JOIN_NO_HEARTBEAT; flags += MUSTER_JOIN_NO_HEARTBEAT) {
        pthread_t t;

        watcher = join(2, 8, -1, MUSTER_JOIN_OBSERVER);
        mine = join(2, 8, 0, (uint32_t)flags);
        assert_true(watcher && mine);
        assert_int_equal(pthread_create(&t, NULL, writes_and_vanishes, NULL), 0);
        pthread_join(t, NULL);
        assert_ok(muster_scavenge(watcher, NULL)); /* or the heartbeat thread was first */
        heir = join(2, 8, -1, MUSTER_JOIN_OBSERVER);
        assert_non_null(heir);
        assert_ok(muster_leave(mine));
        assert_ok(muster_segment_info(muster_segment_of(watcher), &info));
        assert_int_equal(info.slots_live, 2);
        assert_ok(muster_leave(heir));
        assert_ok(muster_leave(watcher));
        assert_false(test_exists(name));
    }
}

/* Lives on through many handles. */
static void *writes_in_each(void *arg)
{
    int *rounds = arg;

    for (int i = 0; i < *rounds; i++) {
        enum muster_status status;

        pthread_barrier_wait(&meeting);
        status = muster_kv_set(mine, "k", 1, "v", 1, NULL);
        pthread_barrier_wait(&meeting);
        if (status)
            return "could not write";
    }
    return NULL;
}

TEST_WITH(a_thread_that_lives_on_holds_one_slot_however_often_its_process_joins, setup, teardown)
{
    struct muster *keeps = join(2, 8, -1, MUSTER_JOIN_OBSERVER);
    int rounds = 40, before = descriptors();
    void *result;
    pthread_t t;

    assert_non_null(keeps);
    pthread_create(&t, NULL, writes_in_each, &rounds);
    for (int i = 0; i < rounds; i++) {
        mine = join(2, 8, 0, 0);
        assert_non_null(mine);
        pthread_barrier_wait(&meeting);
        pthread_barrier_wait(&meeting);
        assert_ok(muster_leave(mine));
    }
    pthread_join(t, &result);
    assert_null(result);
    assert_int_equal(descriptors(), before);
    assert_ok(muster_leave(keeps));
    assert_false(test_exists(name));
}

static void *leaves(void *arg)
{
    return muster_leave(arg) ? "leaving failed" : NULL;
}

/* All slots are held, and the thread that leaves has none: the record says DISCONNECTED nevertheless. */
static void leaves_without_a_slot(uint32_t flags)
{
    struct muster *others[16];
    struct muster_task_info info;
    pthread_t t;
    void *result;
    int n = 0;

    mine = join(2, 6, 0, flags);
    assert_non_null(mine);
    while (n < 16 && (others[n] = join(2, 6, -1, MUSTER_JOIN_OBSERVER)))
        n++;
    assert_true(n > 0 && n < 16); /* full */
    pthread_create(&t, NULL, leaves, mine);
    pthread_join(t, &result);
    assert_null(result);
    assert_ok(muster_task_get(others[0], 0, &info));
    assert_int_equal(info.state, MUSTER_TASK_DISCONNECTED);
    while (n)
        assert_ok(muster_leave(others[--n]));
    assert_false(test_exists(name));
}

TEST_WITH(a_thread_without_a_slot_leaves_though_all_are_taken, setup, teardown)
{
    leaves_without_a_slot(0);
    leaves_without_a_slot(MUSTER_JOIN_NO_HEARTBEAT);
}

static void interrupt(int number)
{
    (void)number;
    muster_interrupt(mine);
}

TEST_WITH(a_handler_may_interrupt_while_the_process_leaves, setup, teardown)
{
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    struct sigaction act = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    struct muster *keeps = join(1, 0, -1, MUSTER_JOIN_OBSERVER);

    assert_non_null(keeps);
    mine = NULL;
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 2000; i++) {
        struct muster *m = join(1, 0, 0, MUSTER_JOIN_NO_HEARTBEAT);

        assert_non_null(m);
        mine = m;
        assert_ok(muster_leave(m));
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_DFL);
    assert_ok(muster_leave(keeps));
}

static int gives_its_copy_back(void *arg)
{
    int before = descriptors();

    (void)arg;
    CHECK(muster_leave(mine) == MUSTER_FAILED_PRECONDITION);
    CHECK(descriptors() == before - 1);
    CHECK(muster_leave(mine) == MUSTER_FAILED_PRECONDITION);
    return 0;
}

TEST_WITH(a_forked_child_that_leaves_closes_its_copy_and_nothing_else, setup, teardown)
{
    struct muster_task_info info;

    mine = join(1, 0, 0, 0);
    assert_non_null(mine);
    assert_ok(muster_kv_set(mine, "k", 1, "v", 1, NULL));
    assert_int_equal(test_in_child(gives_its_copy_back, NULL), 0);
    assert_ok(muster_task_get(mine, 0, &info));
    assert_int_equal(info.state, MUSTER_TASK_CONNECTED);
    assert_true(info.alive);
    assert_ok(muster_leave(mine));
    assert_false(test_exists(name));
}

static volatile int stop;

static void *joins_and_leaves(void *arg)
{
    (void)arg;
    while (!stop) {
        struct muster *m = join(1, 0, -1, MUSTER_JOIN_OBSERVER);

        if (!m || muster_leave(m))
            return "failed";
    }
    return NULL;
}

static int joins_and_leaves_once(void *arg)
{
    struct muster *m = join(1, 0, -1, MUSTER_JOIN_OBSERVER);

    (void)arg;
    CHECK(m && muster_leave(m) == MUSTER_OK);
    return 0;
}

TEST_WITH(a_child_forked_while_another_thread_joins_and_leaves_can_join, setup, teardown)
{
    pthread_t t;
    void *result;

    skip_under_sanitizers();
    mine = join(1, 0, -1, MUSTER_JOIN_OBSERVER);
    assert_non_null(mine);
    stop = 0;
    pthread_create(&t, NULL, joins_and_leaves, NULL);
    for (int i = 0; i < 200; i++)
        assert_int_equal(test_in_child(joins_and_leaves_once, NULL), 0);
    stop = 1;
    pthread_join(t, &result);
    assert_null(result);
    assert_ok(muster_leave(mine));
}
