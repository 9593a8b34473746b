/*
 * tests/task/register_test.c: joining, leaving, incarnations, ids that are taken, restarts.
 * Acceptance items 1 to 10, 26, 27 to 29 as far as they are about registering.
 */
#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

STAGE_TEST(joined_tasks_are_connected_with_their_own_incarnation_and_pid)
{
    struct join_act a = {.task = 1, .incarnation = 77};

    stage_open(3, NULL);
    stage_enter(0, 0);
    stage_player();
    assert_status(stage_do(1, act_join, &a, sizeof a), MUSTER_OK);
    assert_int_equal(stage_task(1).incarnation, 77);
    assert_int_equal(stage_task(1).pid, stage_pid(1));
    assert_true(stage_task(1).alive);
    assert_int_equal(stage_task(1).attempt, 1);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    assert_true(stage_task(0).incarnation != 0 && stage_task(0).incarnation != 77);
    assert_int_equal(stage_task(2).state, MUSTER_TASK_DISCONNECTED);
    assert_int_equal(stage_task(2).attempt, 0);
    assert_false(stage_task(2).alive);
    stage_close();
}

STAGE_TEST(an_id_outside_the_job_is_refused_and_harms_nobody)
{
    struct join_act a = {.task = 2};

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_player();
    assert_status(stage_do(1, act_join, &a, sizeof a), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    a.task = 1;
    assert_status(stage_do(1, act_join, &a, sizeof a), MUSTER_OK);
    stage_close();
}

STAGE_TEST(the_id_of_a_live_task_is_taken_and_its_pid_and_host_are_named)
{
    struct join_act a = {.task = 0};
    struct reply r;
    char pid[32], host[64];

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_player();
    r = stage_do(1, act_join, &a, sizeof a);
    assert_status(r, MUSTER_ALREADY_EXISTS);
    snprintf(pid, sizeof pid, "pid %d", stage_pid(0));
    gethostname(host, sizeof host);
    host[sizeof host - 1] = 0;
    assert_says(r.text, "task 0");
    assert_says(r.text, pid);
    assert_says(r.text, host);
    /* the same incarnation from another process is still another process */
    a.incarnation = stage_task(0).incarnation;
    assert_status(stage_do(1, act_join, &a, sizeof a), MUSTER_ALREADY_EXISTS);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(stage_task(0).attempt, 1);
    a.task = 1;
    assert_status(stage_do(1, act_join, &a, sizeof a), MUSTER_OK);
    stage_close();
}

STAGE_TEST(who_left_is_disconnected_and_may_join_again_with_a_new_incarnation)
{
    struct join_act a = {.task = 0};
    uint64_t before;

    stage_open(2, NULL);
    stage_enter_all();
    before = stage_task(0).incarnation;
    assert_status(do_plain(0, act_leave), MUSTER_OK);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_DISCONNECTED);
    assert_int_equal(stage_task(0).error, MUSTER_OK);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    assert_status(stage_do(0, act_join, &a, sizeof a), MUSTER_OK);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(stage_task(0).attempt, 2);
    assert_true(stage_task(0).incarnation != before);
    stage_close();
}

STAGE_TEST(a_dead_task_that_is_not_recoverable_cannot_join_until_it_is_reset)
{
    struct join_act a = {.task = 1};
    struct reply r;
    int32_t one = 1;

    stage_open(2, NULL);
    stage_enter_all();
    stage_kill(1);
    stage_player();
    r = stage_do(2, act_join, &a, sizeof a); /* whether the death was scavenged before or not */
    assert_status(r, MUSTER_ABORTED);
    assert_says(r.text, "reset");
    assert_int_equal(stage_task(1).state, MUSTER_TASK_ERROR);
    assert_int_equal(stage_task(1).cause, MUSTER_CAUSE_DIED);
    assert_status(stage_do(0, act_reset, &one, sizeof one), MUSTER_OK);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_DISCONNECTED);
    assert_status(stage_do(2, act_join, &a, sizeof a), MUSTER_OK);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(stage_task(1).pid, stage_pid(2));
    stage_close();
}

STAGE_TEST(a_dead_recoverable_task_joins_again_at_once)
{
    struct join_act a = {.task = 1, .flags = MUSTER_JOIN_RECOVERABLE};

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    for (int i = 0; i < 5; i++) {
        stage_kill(1 + i);
        stage_player();
        assert_status(stage_do(2 + i, act_join, &a, sizeof a), MUSTER_OK);
        assert_int_equal(stage_task(1).attempt, 2 + i);
        assert_int_equal(stage_task(1).pid, stage_pid(2 + i));
        assert_string_equal(stage_task(1).message, "");
    }
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    stage_close();
}

STAGE_TEST(a_task_that_reported_an_error_cannot_join_again_before_reset)
{
    struct join_act a = {.task = 1};
    int32_t one = 1;

    stage_open(2, NULL);
    stage_enter_all();
    assert_status(do_report(1, 1, MUSTER_INTERNAL, "disk on fire"), MUSTER_OK);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_ERROR); /* its record is the diagnosis */
    assert_status(stage_do(1, act_join, &a, sizeof a), MUSTER_ABORTED);
    assert_status(stage_do(0, act_reset, &one, sizeof one), MUSTER_OK);
    assert_status(stage_do(1, act_join, &a, sizeof a), MUSTER_OK);
    assert_status(do_barrier(1, "x", 7), MUSTER_INTERNAL); /* it can do things */
    stage_close();
}

STAGE_TEST(reset_of_a_disconnected_task_is_refused)
{
    int32_t id = 1;

    stage_open(3, NULL);
    stage_enter(0, 0);
    stage_enter(1, 0);
    id = 2;
    assert_status(stage_do(0, act_reset, &id, sizeof id), MUSTER_FAILED_PRECONDITION);
    id = 1;
    assert_status(stage_do(0, act_reset, &id, sizeof id), MUSTER_FAILED_PRECONDITION); /* alive, and not the caller */
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    id = 3;
    assert_status(stage_do(0, act_reset, &id, sizeof id), MUSTER_INVALID_ARGUMENT);
    id = -1;
    assert_status(stage_do(0, act_reset, &id, sizeof id), MUSTER_INVALID_ARGUMENT);
    stage_close();
}

STAGE_TEST(a_task_may_reset_itself)
{
    int32_t one = 1;

    stage_open(2, NULL);
    stage_enter_all();
    assert_status(stage_do(1, act_reset, &one, sizeof one), MUSTER_OK);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_DISCONNECTED);
    assert_status(stage_do(1, act_reset, &one, sizeof one), MUSTER_FAILED_PRECONDITION);
    stage_close();
}

static int act_set(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    return muster_kv_set(me, "k", MUSTER_NTS, "", 0, NULL);
}

STAGE_TEST(a_player_that_has_left_is_told_so)
{
    stage_open(2, NULL);
    stage_enter_all();
    assert_status(do_plain(0, act_leave), MUSTER_OK);
    assert_status(do_plain(0, act_set), MUSTER_INVALID_ARGUMENT); /* me is NULL now */
    stage_close();
}
