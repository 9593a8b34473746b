/*
 * tests/task/leave_test.c: who is the last to leave takes the segment away; what a launcher keeps stays; and what
 * happens to the calls of a process that left, or was forked from one that had joined.
 */
#include "stage.h"

#include "job.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave_observer(void)
{
    assert_int_equal(muster_leave(stage_observer), MUSTER_OK);
    stage_observer = NULL;
}

STAGE_TEST(the_last_to_leave_takes_the_segment_away)
{
    stage_open(2, NULL);
    stage_enter_all();
    leave_observer();
    assert_true(test_exists(stage_job));
    assert_status(do_plain(0, act_leave), MUSTER_OK);
    assert_true(test_exists(stage_job));
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_false(test_exists(stage_job));
    stage_strike();
}

STAGE_TEST(when_the_others_were_killed_the_last_takes_it_away_too)
{
    stage_open(3, NULL);
    stage_enter_all();
    leave_observer();
    stage_kill(1);
    stage_kill(2);
    assert_status(do_plain(0, act_leave), MUSTER_OK);
    assert_false(test_exists(stage_job));
    stage_strike();
}

static int act_create_and_set(void *arg, struct reply *reply)
{
    struct muster_options o;
    int status;

    (void)arg;
    (void)reply;
    muster_options_init(&o);
    o.job = stage_job;
    o.task_id = 0;
    o.num_tasks = 1;
    status = muster_join(&o, &me);
    return status ? status : (int)muster_kv_set(me, "mine", MUSTER_NTS, "x", 1, NULL);
}

STAGE_TEST(after_all_were_killed_the_name_is_free_for_a_new_job)
{
    stage_open(1, NULL);
    stage_player();
    stage_player();
    leave_observer(); /* the last one: gone */
    assert_false(test_exists(stage_job));
    assert_status(do_plain(0, act_create_and_set), MUSTER_OK);
    stage_kill(0);
    assert_true(test_exists(stage_job)); /* nobody was there to take it away */
    assert_status(do_plain(1, act_create_and_set), MUSTER_OK);
    assert_status(do_text(1, act_kv_get, "mine"), MUSTER_OK);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_false(test_exists(stage_job));
    stage_strike();
}

STAGE_TEST(a_segment_that_a_launcher_keeps_stays_until_it_is_removed)
{
    struct muster_segment_config c = {.num_tasks = 2, .num_buckets = 64, .num_events = 64, .heap_bytes = 16u << 20};
    struct muster_segment *kept;
    struct join_act a = {.task = 0};

    snprintf(stage_job, sizeof stage_job, "t-%d-kept", (int)getpid());
    assert_int_equal(muster_segment_create(stage_job, &c, &kept), MUSTER_OK);
    stage_observer = NULL;
    {
        struct muster_options o;

        muster_options_init(&o);
        o.job = stage_job;
        o.flags = MUSTER_JOIN_OBSERVER;
        assert_int_equal(muster_join(&o, &stage_observer), MUSTER_OK);
    }
    stage_player();
    assert_status(stage_do(0, act_join, &a, sizeof a), MUSTER_OK);
    assert_status(do_text(0, act_kv_set, "k"), MUSTER_OK);
    assert_status(do_plain(0, act_leave), MUSTER_OK);
    leave_observer();
    assert_true(test_exists(stage_job));
    {
        struct muster_options o;
        char value[8];
        size_t len;

        muster_options_init(&o);
        o.job = stage_job;
        o.flags = MUSTER_JOIN_OBSERVER;
        assert_int_equal(muster_join(&o, &stage_observer), MUSTER_OK);
        assert_int_equal(muster_kv_try_get(stage_observer, "k", MUSTER_NTS, value, sizeof value, &len, NULL),
                         MUSTER_OK);
        leave_observer();
    }
    assert_int_equal(muster_segment_remove(stage_job), MUSTER_OK);
    assert_false(test_exists(stage_job));
    muster_segment_close(kept);
    stage_strike();
}

static int act_late_call(void *arg, struct reply *reply)
{
    struct muster *old = me;
    int status = act_leave(arg, reply);

    return status ? status : (int)muster_kv_set(old, "k", MUSTER_NTS, "", 0, NULL);
}

STAGE_TEST(a_call_after_leaving_is_refused_not_fatal)
{
    stage_open(2, NULL);
    stage_enter_all();
    assert_status(do_plain(0, act_late_call), MUSTER_FAILED_PRECONDITION);
    stage_close();
}

/* In a forked child: refused until it joins anew; leaving there frees the copy only. */
static int act_fork(void *arg, struct reply *reply)
{
    pid_t pid = fork();
    int status;

    (void)arg;
    (void)reply;
    if (!pid) {
        struct join_act a = {.task = 1};
        struct reply r;

        if (muster_kv_set(me, "k", MUSTER_NTS, "", 0, NULL) != MUSTER_FAILED_PRECONDITION)
            _exit(1);
        if (muster_heartbeat(me) != MUSTER_FAILED_PRECONDITION)
            _exit(2);
        if (muster_barrier_wait(me, "b", 0, NULL, 0, 0, MUSTER_FOREVER) != MUSTER_FAILED_PRECONDITION)
            _exit(3);
        if (muster_leave(me) != MUSTER_FAILED_PRECONDITION)
            _exit(4);
        if (act_join(&a, &r) != MUSTER_OK || act_kv_set("child", &r) != MUSTER_OK || act_leave(NULL, &r) != MUSTER_OK)
            _exit(5);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status)
        return WIFEXITED(status) ? 100 + WEXITSTATUS(status) : MUSTER_INTERNAL;
    return muster_kv_set(me, "parent", MUSTER_NTS, "", 0, NULL);
}

STAGE_TEST(a_forked_child_is_detached_and_may_join_as_another_task)
{
    stage_open(2, NULL);
    stage_enter(0, 0);
    assert_status(do_plain(0, act_fork), MUSTER_OK);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    assert_true(stage_task(0).alive);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_DISCONNECTED);
    assert_int_equal(stage_task(1).attempt, 1);
    assert_int_equal(muster_kv_try_get(stage_observer, "child", MUSTER_NTS, NULL, 0, NULL, NULL), MUSTER_OUT_OF_RANGE);
    stage_close();
}

static volatile int handler_status;

static void on_alarm(int sig)
{
    (void)sig;
    handler_status = muster_kv_set(me, "handler", MUSTER_NTS, "", 0, NULL);
    muster_interrupt(me);
}

/* The handler interrupts a call in which the thread is for sure: it is inside until the handler ends the wait. */
static int act_call_from_handler(void *arg, struct reply *reply)
{
    struct sigaction action = {.sa_handler = on_alarm};
    int status;

    sigaction(SIGUSR1, &action, NULL);
    status = act_kv_get(arg, reply);
    muster_resume(me);
    reply->data[0] = (uint8_t)handler_status;
    return status;
}

STAGE_TEST(a_call_from_a_signal_handler_within_a_call_is_refused)
{
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    tell_text(0, act_call_from_handler, "never");
    stage_until_waiting(0, "key never");
    stage_signal(0, SIGUSR1);
    r = stage_hear(0);
    assert_status(r, MUSTER_CANCELLED);
    assert_int_equal(r.data[0], MUSTER_FAILED_PRECONDITION);
    assert_status(do_text(0, act_kv_set, "k"), MUSTER_OK);
    stage_close();
}
