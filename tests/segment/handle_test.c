/*
 * tests/segment/handle_test.c: the rules of handles: leaving, forks, signal handlers, threads and their slots.
 */
#include "cm.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "child.h"
#include "job.h"

static struct test_job job;

static int setup(void)
{
    const struct muster_segment_config config = {.num_slots = 12};

    return test_job_create(&job, &config) ? -1 : 0;
}

static int teardown(void)
{
    return test_job_end(&job) ? -1 : 0;
}

static uint32_t live_slots(void)
{
    struct muster_segment_info info;

    CHECK(muster_segment_info(job.segment, &info) == MUSTER_OK);
    return info.slots_live;
}

/* Every kind of call on a handle that must not be used gives this. */
static void assert_all_refused(struct muster *m, enum muster_status status, const char *part)
{
    struct muster_event event;
    struct muster_error error;
    struct muster_task_info info;
    struct muster_kv_list *list;
    char buffer[8];
    uint64_t n = 0;
    int64_t sum;
    size_t len;

    assert_status(status, muster_kv_set(m, "k", 1, "v", 1, NULL));
    assert_says(part);
    assert_status(status, muster_kv_insert(m, "k", 1, "v", 1));
    assert_status(status, muster_kv_try_get(m, "k", 1, buffer, sizeof buffer, &len, NULL));
    assert_status(status, muster_kv_get(m, "k", 1, MUSTER_FOREVER, buffer, sizeof buffer, &len, NULL));
    assert_status(status, muster_kv_watch(m, "k", 1, 0, MUSTER_FOREVER, buffer, sizeof buffer, &len, NULL));
    assert_status(status, muster_kv_increment(m, "k", 1, 1, &sum));
    assert_status(status, muster_kv_append(m, "k", 1, "v", 1, &len));
    assert_status(status, muster_kv_compare_and_set(m, "k", 1, 0, "v", 1, NULL));
    assert_status(status, muster_kv_delete(m, "k", 1, &len));
    assert_status(status, muster_kv_get_dir(m, "k", 1, &list));
    assert_status(status, muster_kv_count(m, "k", 1, &len));
    assert_status(status, muster_event_send(m, 1, "e", 1, NULL));
    assert_status(status, muster_event_next(m, &n));
    assert_status(status, muster_event_read(m, &n, MUSTER_FOREVER, &event, NULL, 0, NULL));
    assert_status(status, muster_barrier_wait(m, "b", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER));
    assert_status(status, muster_task_get(m, 0, &info));
    assert_status(status, muster_error_wait(m, MUSTER_FOREVER, &error));
    assert_status(status, muster_error_report(m, 0, MUSTER_INTERNAL, "x"));
    assert_status(status, muster_heartbeat(m));
    assert_status(status, muster_scavenge(m, &len));
    muster_thread_detach(m);
}

TEST_WITH(calls_after_leave_are_refused, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0);

    assert_ok(muster_leave(m));
    assert_all_refused(m, MUSTER_FAILED_PRECONDITION, "has left");
    assert_status(MUSTER_FAILED_PRECONDITION, muster_leave(m));
    assert_int_equal(live_slots(), 0);
}

TEST_WITH(calls_without_a_handle_are_refused, setup, teardown)
{
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_set(NULL, "k", 1, "v", 1, NULL));
    assert_says("NULL");
    assert_ok(muster_leave(NULL));
}

static struct muster *parents;

static int uses_the_parents_handle(void *arg)
{
    struct muster *mine;
    size_t len;

    (void)arg;
    assert_all_refused(parents, MUSTER_FAILED_PRECONDITION, "forked child");
    mine = test_join(job.name, 1, 0);
    CHECK(mine != NULL);
    CHECK(muster_kv_set(mine, "child", 5, "here", 4, NULL) == MUSTER_OK);
    CHECK(muster_kv_try_get(mine, "parent", 6, NULL, 0, &len, NULL) == MUSTER_OUT_OF_RANGE);
    CHECK(muster_leave(mine) == MUSTER_OK);
    CHECK(muster_leave(parents) == MUSTER_FAILED_PRECONDITION); /* frees the child's copy only */
    return 0;
}

TEST_WITH(a_forked_child_must_join_anew_and_does_no_harm, setup, teardown)
{
    size_t len;

    parents = test_join(job.name, 0, TEST_WITH_HEARTBEAT);
    assert_ok(muster_kv_set(parents, "parent", 6, "here", 4, NULL));
    assert_int_equal(test_in_child(uses_the_parents_handle, NULL), 0);
    assert_ok(muster_kv_set(parents, "parent", 6, "still", 5, NULL));
    assert_status(MUSTER_OUT_OF_RANGE, muster_kv_try_get(parents, "child", 5, NULL, 0, &len, NULL));
    assert_ok(muster_leave(parents));
    assert_int_equal(live_slots(), 0);
}

static int grandchild_uses_it(void *arg)
{
    (void)arg;
    CHECK(muster_kv_set(parents, "k", 1, "v", 1, NULL) == MUSTER_FAILED_PRECONDITION);
    return 0;
}

static int child_joins_then_forks(void *arg)
{
    (void)arg;
    parents = test_join(job.name, 1, 0);
    CHECK(parents && muster_kv_set(parents, "k", 1, "v", 1, NULL) == MUSTER_OK);
    CHECK(test_in_child(grandchild_uses_it, NULL) == 0);
    CHECK(muster_kv_set(parents, "k", 1, "v", 1, NULL) == MUSTER_OK);
    CHECK(muster_leave(parents) == MUSTER_OK);
    return 0;
}

TEST_WITH(a_fork_of_a_fork_is_told_apart, setup, teardown)
{
    assert_int_equal(test_in_child(child_joins_then_forks, NULL), 0);
}

static struct muster *handled;
static volatile sig_atomic_t handled_calls, handled_refusals, handled_reads;

static void call_from_a_handler(int number)
{
    char buffer[16];
    size_t len;

    (void)number;
    handled_calls++;
    handled_refusals += muster_kv_set(handled, "from/handler", MUSTER_NTS, "x", 1, NULL) == MUSTER_FAILED_PRECONDITION;
    if (muster_kv_try_get(handled, "in/a/loop", MUSTER_NTS, buffer, sizeof buffer, &len, NULL) == MUSTER_OK)
        handled_reads++;
}

static int is_peppered_with_signals(void *arg)
{
    struct sigaction action = {.sa_handler = call_from_a_handler};
    struct test_gate *gate = arg;
    int64_t sum = 0;

    handled = test_join(job.name, -1, 0);
    CHECK(handled != NULL);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    test_gate_arrive(gate);
    while (handled_calls < 300 || !handled_refusals)
        CHECK(muster_kv_increment(handled, "in/a/loop", MUSTER_NTS, 1, &sum) == MUSTER_OK);
    CHECK(handled_refusals <= handled_calls);
    CHECK(muster_kv_set(handled, "done", 4, NULL, 0, NULL) == MUSTER_OK);
    while (pause() < 0)
        ;
    return 0;
}

TEST_WITH(a_call_from_a_handler_that_interrupted_a_call_is_refused, setup, teardown)
{
    struct muster *m = test_join(job.name, -1, 0);
    struct test_gate gate;
    size_t len, deaths;
    pid_t pid;

    assert_int_equal(test_gate_open(&gate), 0);
    pid = test_fork(is_peppered_with_signals, &gate);
    test_gate_await(&gate);
    while (muster_kv_try_get(m, "done", 4, NULL, 0, &len, NULL) == MUSTER_NOT_FOUND && !kill(pid, SIGUSR1))
        if (waitpid(pid, NULL, WNOHANG))
            fail_msg("the process that was signalled ended");
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
    assert_ok(muster_scavenge(m, &deaths));
    test_gate_close(&gate);
    muster_leave(m);
}

TEST_WITH(two_handles_of_one_process_are_independent, setup, teardown)
{
    struct test_job other;
    struct muster *a = test_join(job.name, 0, 0), *b = test_join(job.name, 1, 0), *c;
    size_t len;

    assert_ok(test_job_create(&other, NULL));
    c = test_join(other.name, 0, 0);
    for (int i = 0; i < 100; i++) {
        assert_ok(muster_kv_set(a, "key", 3, "from a", 6, NULL));
        assert_ok(muster_kv_set(c, "key", 3, "c", 1, NULL));
        assert_ok(muster_kv_set(b, "key", 3, "from b!", 7, NULL));
        assert_status(MUSTER_OUT_OF_RANGE, muster_kv_try_get(a, "key", 3, NULL, 0, &len, NULL));
        assert_int_equal(len, 7);
        assert_status(MUSTER_OUT_OF_RANGE, muster_kv_try_get(c, "key", 3, NULL, 0, &len, NULL));
        assert_int_equal(len, 1);
    }
    assert_int_equal(muster_task_id(a), 0);
    assert_int_equal(muster_task_id(b), 1);
    assert_string_equal(muster_job(c), other.name);
    muster_interrupt(a);
    assert_status(MUSTER_CANCELLED, muster_kv_get(a, "none", 4, MUSTER_FOREVER, NULL, 0, &len, NULL));
    assert_status(MUSTER_DEADLINE_EXCEEDED, muster_kv_get(b, "none", 4, 1, NULL, 0, &len, NULL));
    assert_ok(muster_leave(a));
    assert_status(MUSTER_FAILED_PRECONDITION, muster_kv_set(a, "key", 3, "x", 1, NULL));
    assert_ok(muster_kv_set(b, "key", 3, "x", 1, NULL));
    assert_ok(muster_leave(c));
    assert_ok(muster_leave(b));
    assert_int_equal(test_job_end(&other), 0);
}

TEST_WITH(a_task_id_of_a_live_task_is_refused_and_its_holder_named, setup, teardown)
{
    struct muster *a = test_join(job.name, 3, TEST_WITH_HEARTBEAT), *b = NULL;
    struct muster_options options;
    char pid[32];

    muster_options_init(&options);
    options.job = job.name;
    options.task_id = 3;
    assert_status(MUSTER_ALREADY_EXISTS, muster_join(&options, &b));
    snprintf(pid, sizeof pid, "pid %d", (int)getpid());
    assert_says(pid);
    assert_null(b);
    assert_ok(muster_leave(a));
    assert_ok(muster_join(&options, &b));
    assert_ok(muster_leave(b));
}

static void *writes_once(void *arg)
{
    return (void *)(uintptr_t)muster_kv_set(arg, "thread", 6, "x", 1, NULL);
}

TEST_WITH(a_thread_that_ends_gives_its_slot_back, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0);
    uint32_t before = live_slots();

    for (int i = 0; i < 100; i++) { /* far more threads than slots, one after the other */
        pthread_t thread;
        void *result;

        assert_int_equal(pthread_create(&thread, NULL, writes_once, m), 0);
        pthread_join(thread, &result);
        assert_status(MUSTER_OK, (enum muster_status)(uintptr_t)result);
        assert_int_equal(live_slots(), before);
    }
    assert_ok(muster_leave(m));
    assert_int_equal(live_slots(), 0);
}

static pthread_barrier_t together;

static void *writes_with_others(void *arg)
{
    enum muster_status status = muster_kv_increment(arg, "n", 1, 1, NULL);
    char buffer[16];
    size_t len;

    pthread_barrier_wait(&together);
    /* a thread without a slot still reads */
    if (muster_kv_try_get(arg, "n", 1, buffer, sizeof buffer, &len, NULL))
        status = MUSTER_INTERNAL;
    pthread_barrier_wait(&together);
    return (void *)(uintptr_t)status;
}

TEST_WITH(more_writing_threads_than_slots_are_refused_until_some_end, setup, teardown)
{
    enum { THREADS = 20 };
    struct muster *m = test_join(job.name, 0, 0);
    uint32_t free_slots = 12 - live_slots();
    pthread_t threads[THREADS];
    unsigned good = 0, refused = 0;
    int64_t sum;

    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, writes_with_others, m), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;

        pthread_join(threads[i], &result);
        good += (uintptr_t)result == MUSTER_OK;
        refused += (uintptr_t)result == MUSTER_RESOURCE_EXHAUSTED;
    }
    pthread_barrier_destroy(&together);
    assert_int_equal(good, free_slots);
    assert_int_equal(good + refused, THREADS);
    assert_ok(muster_kv_increment(m, "n", 1, 0, &sum));
    assert_int_equal(sum, good);
    for (int i = 0; i < 3; i++) {
        void *result;

        assert_int_equal(pthread_create(&threads[i], NULL, writes_once, m), 0);
        pthread_join(threads[i], &result);
        assert_status(MUSTER_OK, (enum muster_status)(uintptr_t)result);
    }
    assert_ok(muster_leave(m));
}

static void *detaches(void *arg)
{
    struct muster *m = arg;
    uint32_t before = live_slots();

    CHECK(muster_kv_set(m, "k", 1, "v", 1, NULL) == MUSTER_OK);
    CHECK(live_slots() == before + 1);
    muster_thread_detach(m);
    CHECK(live_slots() == before);
    muster_thread_detach(m);
    CHECK(muster_kv_set(m, "k", 1, "v", 1, NULL) == MUSTER_OK); /* takes another */
    CHECK(live_slots() == before + 1);
    return NULL;
}

TEST_WITH(a_thread_may_give_its_slot_back_early_and_take_another, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0);
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, detaches, m), 0);
    pthread_join(thread, NULL);
    assert_ok(muster_leave(m));
    assert_int_equal(live_slots(), 0);
}

static void *only_reads(void *arg)
{
    uint32_t before = live_slots();
    size_t len;

    CHECK(muster_kv_try_get(arg, "none", 4, NULL, 0, &len, NULL) == MUSTER_NOT_FOUND);
    CHECK(live_slots() == before);
    return NULL;
}

TEST_WITH(a_thread_that_only_reads_takes_no_slot, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0);
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, only_reads, m), 0);
    pthread_join(thread, NULL);
    assert_ok(muster_leave(m));
}

static void *outlives_the_handle(void *arg)
{
    CHECK(muster_kv_set(arg, "k", 1, "v", 1, NULL) == MUSTER_OK);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together); /* the main thread has left */
    CHECK(muster_kv_set(arg, "k", 1, "v", 1, NULL) == MUSTER_FAILED_PRECONDITION);
    return NULL;
}

TEST_WITH(the_last_thread_of_the_last_task_leaves_nothing_behind, setup, teardown)
{
    struct muster_options options;
    struct muster_segment *segment;
    struct muster *m;
    char name[128];
    pthread_t thread;

    test_name(name, "lastthread");
    muster_options_init(&options);
    options.job = name;
    options.task_id = 0;
    options.num_tasks = 1;
    assert_ok(muster_join(&options, &m));
    pthread_barrier_init(&together, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, outlives_the_handle, m), 0);
    pthread_barrier_wait(&together);
    assert_ok(muster_leave(m));
    pthread_barrier_wait(&together);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&together);
    assert_status(MUSTER_NOT_FOUND, muster_segment_open(name, &segment));
}

struct waiting {
    struct muster *m;
    int call;
    enum muster_status status;
};

static void *waits(void *arg)
{
    struct waiting *w = arg;
    struct muster_event event;
    struct muster_error error;
    uint64_t position = 0, version = 0;
    size_t len;

    muster_task_list(w->m, NULL, 0, NULL, &version);
    switch (w->call) {
    case 0: w->status = muster_kv_get(w->m, "never", 5, MUSTER_FOREVER, NULL, 0, &len, NULL); break;
    case 1: w->status = muster_event_read(w->m, &position, MUSTER_FOREVER, &event, NULL, 0, NULL); break;
    case 2: w->status = muster_error_wait(w->m, MUSTER_FOREVER, &error); break;
    default: w->status = muster_task_watch(w->m, version, MUSTER_FOREVER, NULL, 0, NULL, NULL); break;
    }
    return NULL;
}

/* It has no slot through which to be found; the test hangs if it does not look. */
TEST_WITH(an_interrupt_ends_the_waits_of_a_reader_too, setup, teardown)
{
    struct muster_options options;
    struct waiting w = {0};
    struct muster *member = test_join(job.name, 0, 0);
    pthread_t thread;

    muster_options_init(&options);
    options.job = job.name;
    options.flags = MUSTER_JOIN_READ_ONLY;
    assert_ok(muster_join(&options, &w.m));
    for (w.call = 0; w.call < 4; w.call++) {
        assert_int_equal(pthread_create(&thread, NULL, waits, &w), 0);
        usleep(w.call % 2 ? 20000 : 0); /* sleep: it may be in the wait by then, or not; both must end */
        muster_interrupt(w.m);
        pthread_join(thread, NULL);
        assert_int_equal(w.status, MUSTER_CANCELLED);
        muster_resume(w.m);
    }
    assert_ok(muster_leave(w.m));
    assert_ok(muster_leave(member));
}

TEST_WITH(who_is_missing_is_not_told_after_leaving, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0);
    struct muster_group *group;
    size_t n = 7;

    assert_ok(muster_group_create(m, "alone", (int32_t[]){0}, 1, 0, MUSTER_FOREVER, &group));
    assert_ok(muster_group_missing(group, NULL, 0, &n));
    assert_int_equal(n, 1);
    assert_ok(muster_leave(m));
    assert_status(MUSTER_FAILED_PRECONDITION, muster_group_missing(group, NULL, 0, &n));
    assert_says("left the job");
    muster_group_free(group);
}

TEST_WITH(joining_and_leaving_a_thousand_times_takes_no_more, setup, teardown)
{
    for (int i = 0; i < 2500; i++) { /* more than are kept to answer late calls */
        struct muster *m = test_join(job.name, i % 8, 0);

        assert_non_null(m);
        assert_ok(muster_leave(m));
    }
    assert_int_equal(live_slots(), 0);
}

static int environment_child(void *arg)
{
    struct muster *m;

    (void)arg;
    CHECK(muster_join(NULL, &m) == MUSTER_INVALID_ARGUMENT);
    setenv("MUSTER_TASK_ID", "2", 1);
    CHECK(muster_join(NULL, &m) == MUSTER_INVALID_ARGUMENT && strstr(muster_last_error(), "MUSTER_JOB"));
    setenv("MUSTER_JOB", job.name, 1);
    setenv("MUSTER_TASK_ID", "two", 1);
    CHECK(muster_join(NULL, &m) == MUSTER_INVALID_ARGUMENT && strstr(muster_last_error(), "two"));
    setenv("MUSTER_TASK_ID", "2000000000000", 1);
    CHECK(muster_join(NULL, &m) == MUSTER_INVALID_ARGUMENT);
    setenv("MUSTER_TASK_ID", "-1", 1);
    CHECK(muster_join(NULL, &m) == MUSTER_INVALID_ARGUMENT);
    setenv("MUSTER_TASK_ID", "8", 1);
    CHECK(muster_join(NULL, &m) == MUSTER_INVALID_ARGUMENT && strstr(muster_last_error(), "tasks 0 to 7"));
    setenv("MUSTER_TASK_ID", "7", 1);
    setenv("MUSTER_PROCESSORS", "two", 1);
    CHECK(muster_join(NULL, &m) == MUSTER_INVALID_ARGUMENT && strstr(muster_last_error(), "MUSTER_PROCESSORS"));
    setenv("MUSTER_PROCESSORS", "4096", 1);
    CHECK(muster_join(NULL, &m) == MUSTER_OK && mu_processors() == 4096);
    CHECK(muster_task_id(m) == 7 && muster_num_tasks(m) == 8 && muster_incarnation(m) != 0);
    CHECK(muster_leave(m) == MUSTER_OK);
    setenv("MUSTER_SEGMENT", "/dev/shm/there/is/none", 1);
    CHECK(muster_join(NULL, &m) == MUSTER_NOT_FOUND);
    return 0;
}

TEST_WITH(what_is_not_said_comes_from_the_environment_and_nonsense_is_named, setup, teardown)
{
    assert_int_equal(test_in_child(environment_child, NULL), 0);
}
