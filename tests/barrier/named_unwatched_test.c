/*
 * tests/barrier/named_unwatched_test.c: what happens to an instance of a named barrier while nobody waits in it, who
 * would act upon it: its deadline passes, participants die, leave, come again as another process. The next to arrive
 * acts upon it.
 */
#include "named.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "task/task.h"

STAGE_TEST(the_last_to_come_after_the_deadline_is_too_late)
{
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    assert_status(named_wait(0, "b", 0, 1000000, 1), MUSTER_DEADLINE_EXCEEDED);
    await(named_info("b").deadline_ns < muster_after_ns(0), "the deadline of b");
    r = do_barrier(1, "b", 0);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_says(r.text, "1/2");
    assert_int_equal(named_info("b").result, MUSTER_DEADLINE_EXCEEDED);
    assert_status(do_barrier(0, "b", 0), MUSTER_DEADLINE_EXCEEDED);
    assert_status(named_wait(0, "b", 1, 0, 1), MUSTER_DEADLINE_EXCEEDED); /* the next one is open */
    assert_status(do_barrier(1, "b", 1), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_call_for_the_next_instance_finds_the_expired_one_ended)
{
    stage_open(2, NULL);
    stage_enter_all();
    assert_status(named_wait(0, "b", 0, 1000000, 1), MUSTER_DEADLINE_EXCEEDED);
    await(named_info("b").deadline_ns < muster_after_ns(0), "the deadline of b");
    assert_int_equal(muster_barrier_cancel(stage_observer, "b", 0), MUSTER_FAILED_PRECONDITION);
    assert_says(muster_last_error(), "DEADLINE_EXCEEDED");
    assert_true(named_info("b").passed);                                  /* whoever found it ended it for all */
    assert_status(named_wait(1, "b", 1, 0, 1), MUSTER_DEADLINE_EXCEEDED); /* opens it */
    assert_int_equal(named_info("b").counter, 1);
    assert_status(do_barrier(0, "b", 1), MUSTER_OK);
    stage_close();
}

STAGE_TEST(who_arrived_and_died_unwatched_fails_it_for_the_last_to_come)
{
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    assert_status(named_wait(0, "b", 0, 0, 1), MUSTER_DEADLINE_EXCEEDED);
    stage_kill(0);
    stage_until_state(0, MUSTER_TASK_ERROR);
    r = do_barrier(1, "b", 0);
    assert_status(r, MUSTER_INTERNAL);
    assert_says(r.text, "task 0");
    stage_close();
}

STAGE_TEST(who_arrived_and_left_unwatched_fails_it_for_the_last_to_come)
{
    stage_open(2, NULL);
    stage_enter_all();
    assert_status(named_wait(0, "b", 0, 0, 1), MUSTER_DEADLINE_EXCEEDED);
    assert_status(do_plain(0, act_leave), MUSTER_OK);
    assert_status(do_barrier(1, "b", 0), MUSTER_INTERNAL);
    stage_close();
}

/* Its successor comes before anybody looked at the dead one's state, or after. Either way it has not arrived. */
static void dies_and_comes_again(bool seen_in_between)
{
    struct join_act j = {.task = 1, .flags = MUSTER_JOIN_RECOVERABLE};

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    assert_status(named_wait(1, "b", 0, 0, 1), MUSTER_DEADLINE_EXCEEDED);
    stage_kill(1);
    if (seen_in_between) {
        stage_until_state(1, MUSTER_TASK_ERROR);
        tell_barrier(0, "b", 0);
        stage_until_waiting(0, "barrier b");
    }
    stage_player();
    assert_status(stage_do(2, act_join, &j, sizeof j), MUSTER_OK);
    if (!seen_in_between) {
        tell_barrier(0, "b", 0);
        stage_until_waiting(0, "barrier b");
    }
    assert_false(stage_has_answered(0));
    assert_status(do_barrier(2, "b", MUSTER_BARRIER_NEXT), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_recoverable_one_that_died_unwatched_must_come_again)
{
    dies_and_comes_again(true);
}

STAGE_TEST(an_arrival_does_not_count_for_a_successor)
{
    dies_and_comes_again(false);
}

STAGE_TEST(an_arrival_whose_task_was_reset_and_replaced_fails_the_barrier)
{
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    assert_status(named_wait(1, "b", 0, 0, 1), MUSTER_DEADLINE_EXCEEDED);
    stage_kill(1);
    stage_until_state(1, MUSTER_TASK_ERROR);
    assert_int_equal(muster_task_reset(stage_observer, 1), MUSTER_OK);
    stage_enter(1, 0);
    r = do_barrier(0, "b", 0);
    assert_status(r, MUSTER_INTERNAL);
    assert_says(r.text, "task 1");
    stage_close();
}

static void leaves_and_comes_again(uint32_t flags)
{
    struct join_act j = {.task = 1, .flags = flags};

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_enter(1, flags);
    tell_barrier(0, "b", 0);
    stage_until_waiting(0, "barrier b");
    assert_status(do_plain(1, act_leave), MUSTER_OK); /* not there yet: nothing happens */
    assert_status(stage_do(1, act_join, &j, sizeof j), MUSTER_OK);
    assert_false(stage_has_answered(0));
    assert_status(do_barrier(1, "b", MUSTER_BARRIER_NEXT), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    assert_status(named_wait(1, "b", MUSTER_BARRIER_NEXT, 0, 1), MUSTER_DEADLINE_EXCEEDED);
    assert_status(do_plain(1, act_leave), MUSTER_OK); /* takes it back */
    tell_barrier(0, "b", 1);
    stage_until_waiting(0, "barrier b");
    assert_false(stage_has_answered(0));
    assert_status(stage_do(1, act_join, &j, sizeof j), MUSTER_OK);
    assert_status(do_barrier(1, "b", MUSTER_BARRIER_NEXT), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_recoverable_or_transient_participant_that_leaves_takes_its_arrival_back)
{
    leaves_and_comes_again(MUSTER_JOIN_RECOVERABLE);
    leaves_and_comes_again(MUSTER_JOIN_TRANSIENT);
}

/* Recoverable tasks that start again count from 0 again: it means wherever the barrier is. */
STAGE_TEST(counter_0_of_a_recoverable_task_is_the_current_or_the_next_instance)
{
    struct join_act j = {.task = 1, .flags = MUSTER_JOIN_RECOVERABLE};

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    named_pass("b", 0, 2);
    named_pass("b", 1, 2);
    stage_kill(1);
    stage_until_state(1, MUSTER_TASK_ERROR);
    stage_player();
    assert_status(stage_do(2, act_join, &j, sizeof j), MUSTER_OK);
    tell_barrier(2, "b", 0); /* the next */
    stage_until_waiting(1, "barrier b");
    assert_int_equal(named_info("b").counter, 2);
    assert_status(do_barrier(0, "b", 2), MUSTER_OK);
    assert_status(stage_hear(2), MUSTER_OK);
    tell_barrier(0, "b", 3);
    stage_until_waiting(0, "barrier b");
    assert_status(do_barrier(2, "b", 0), MUSTER_OK); /* the current */
    assert_status(stage_hear(0), MUSTER_OK);
    stage_close();
}

/* Its launcher has the last word: it had not even joined, could come again, or had left before the barrier began. */
STAGE_TEST(who_has_ended_is_not_waited_for)
{
    const struct barrier_act pair = {"pair", MUSTER_BARRIER_NEXT, {0, 1}, 2, 0, 0};
    struct reply r;

    for (uint32_t flags = 0; flags <= MUSTER_JOIN_TRANSIENT; flags += MUSTER_JOIN_TRANSIENT) {
        stage_open(3, NULL);
        stage_enter(0, 0);
        stage_enter(1, flags);
        tell_barrier(0, "b", MUSTER_BARRIER_NEXT);
        stage_until_waiting(0, "barrier b");
        assert_int_equal(mu_task_process_ended(stage_observer, 2, 4711, 5 << 8, true), MUSTER_OK);
        r = stage_hear(0);
        assert_status(r, MUSTER_INTERNAL);
        assert_says(r.text, "task 2 (pid 4711 on host ");
        assert_says(r.text, "has ended (exited with status 5) without joining");
        r = do_barrier(1, "c", MUSTER_BARRIER_NEXT);
        assert_status(r, MUSTER_INTERNAL);
        assert_says(r.text, "task 2 (pid 4711 on host ");
        assert_says(r.text, "without joining, before the barrier was called");
        assert_status(do_plain(1, act_leave), MUSTER_OK);
        assert_int_equal(mu_task_process_ended(stage_observer, 1, (uint32_t)stage_pid(1), SIGKILL, true), MUSTER_OK);
        r = stage_do(0, act_barrier, &pair, sizeof pair);
        assert_status(r, MUSTER_INTERNAL);
        assert_says(r.text, "has ended (killed by signal 9, Killed), before the barrier was called");
        stage_close();
    }
}

/* The caller's own patience, too, names who is missing. */
STAGE_TEST(a_caller_that_gives_up_is_told_for_whom_it_waited)
{
    struct reply r;
    char pid[64];

    stage_open(3, NULL);
    stage_enter(0, 0);
    stage_enter(1, 0);
    r = named_wait(0, "b", MUSTER_BARRIER_NEXT, 0, 20000000);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    snprintf(pid, sizeof pid, "task 1 (pid %d on host ", stage_pid(1));
    assert_says(r.text, pid);
    assert_says(r.text, ": running; task 2 (on host ");
    assert_says(r.text, ": never joined");
    stage_close();
}
