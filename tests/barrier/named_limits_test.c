/*
 * tests/barrier/named_limits_test.c: named barriers beyond the list of the coordination service: whose timeout counts,
 * who is missing and what each is doing, patience of one's own, counters that are not counted by the caller, results
 * for the slow, cancelling the unknown, deaths, recoverable tasks; many barriers, many tasks.
 */
#include "named.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct reply cancel(int player, const char *id, uint64_t counter)
{
    struct cancel_act a = {.counter = counter};

    snprintf(a.id, sizeof a.id, "%s", id);
    return stage_do(player, act_cancel, &a, sizeof a);
}

STAGE_TEST(the_first_arrivers_timeout_counts_and_later_ones_are_ignored)
{
    struct barrier_act none = {.id = "b"}, shortest = {.id = "b", .timeout_ns = 1};

    stage_open(3, NULL);
    stage_enter_all();
    stage_tell(0, act_barrier, &none, sizeof none);
    stage_until_waiting(0, "barrier b");
    stage_tell(1, act_barrier, &shortest, sizeof shortest); /* would have passed long ago */
    stage_until_waiting(1, "barrier b");
    assert_int_equal(named_info("b").deadline_ns, UINT64_MAX);
    assert_false(stage_has_answered(0));
    assert_status(do_barrier(2, "b", 0), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    assert_status(stage_hear(1), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_timeout_names_two_of_the_missing_and_what_each_is_doing)
{
    struct reply r;
    char pid[48];

    stage_open(6, NULL);
    stage_enter(0, 0);
    stage_enter(1, 0); /* running elsewhere */
    r = named_wait(0, "b", 0, 50000000, 0);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    snprintf(pid, sizeof pid, "task 1 (pid %d", stage_pid(1));
    assert_says(r.text, pid);
    assert_says(r.text, "running, not at the barrier");
    assert_says(r.text, "\ntask 2 (on host ");
    assert_says(r.text, "): never joined");
    assert_says(r.text, "1/6");
    assert_null(strstr(r.text, "task 3"));
    stage_close();
}

STAGE_TEST(a_timeout_says_who_has_left)
{
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    r = named_wait(0, "b", 0, 50000000, 0); /* it left before the first arrival: it may come back */
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_says(r.text, "has left");
    stage_close();
}

STAGE_TEST(ones_own_patience_ends_the_call_but_not_the_arrival)
{
    struct muster_barrier_info i;

    stage_open(2, NULL);
    stage_enter_all();
    assert_status(named_wait(0, "b", 0, 0, 1), MUSTER_DEADLINE_EXCEEDED);
    i = named_info("b");
    assert_false(i.passed);
    assert_int_equal(i.arrived, 1);
    assert_int_equal(i.missing_count, 1);
    assert_int_equal(i.missing[0], 1);
    assert_status(do_barrier(1, "b", 0), MUSTER_OK);
    assert_status(do_barrier(0, "b", 0), MUSTER_OK);
    i = named_info("b");
    assert_true(i.passed);
    assert_int_equal(i.result, MUSTER_OK);
    assert_int_equal(i.arrived, 2);
    stage_close();
}

STAGE_TEST(next_counts_for_the_caller)
{
    stage_open(3, NULL);
    stage_enter_all();
    for (uint64_t k = 0; k < 30; k++) {
        named_pass("b", MUSTER_BARRIER_NEXT, 3);
        assert_int_equal(named_info("b").counter, k);
    }
    stage_close();
}

/* Whose own patience ended is told the outcome by its next call, and only then goes on to the next instance. */
STAGE_TEST(next_after_ones_own_deadline_is_the_same_instance_still)
{
    stage_open(2, NULL);
    stage_enter_all();
    assert_status(named_wait(0, "b", MUSTER_BARRIER_NEXT, 0, 1), MUSTER_DEADLINE_EXCEEDED);
    assert_status(named_wait(0, "b", MUSTER_BARRIER_NEXT, 0, 1), MUSTER_DEADLINE_EXCEEDED);
    assert_status(do_barrier(1, "b", MUSTER_BARRIER_NEXT), MUSTER_OK);
    assert_status(do_barrier(0, "b", MUSTER_BARRIER_NEXT), MUSTER_OK);
    assert_int_equal(named_info("b").counter, 0);
    assert_status(named_wait(0, "b", MUSTER_BARRIER_NEXT, 0, 1), MUSTER_DEADLINE_EXCEEDED);
    assert_int_equal(named_info("b").counter, 1);
    assert_status(cancel(1, "b", 1), MUSTER_OK);
    assert_status(do_barrier(0, "b", MUSTER_BARRIER_NEXT), MUSTER_CANCELLED);
    assert_status(do_barrier(1, "b", MUSTER_BARRIER_NEXT), MUSTER_CANCELLED);
    tell_barrier(0, "b", MUSTER_BARRIER_NEXT);
    assert_status(do_barrier(1, "b", MUSTER_BARRIER_NEXT), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    assert_int_equal(named_info("b").counter, 2);
    stage_close();
}

STAGE_TEST(next_after_a_failure_gets_the_result_once_and_then_the_next_instance)
{
    stage_open(3, NULL);
    stage_enter_all();
    assert_status(named_wait(0, "b", MUSTER_BARRIER_NEXT, 1000000, 0), MUSTER_DEADLINE_EXCEEDED);
    /* who has not had the result of instance 0 gets it first */
    assert_status(do_barrier(1, "b", MUSTER_BARRIER_NEXT), MUSTER_DEADLINE_EXCEEDED);
    assert_status(do_barrier(2, "b", MUSTER_BARRIER_NEXT), MUSTER_DEADLINE_EXCEEDED);
    named_pass("b", MUSTER_BARRIER_NEXT, 3);
    assert_int_equal(named_info("b").counter, 1);
    stage_close();
}

STAGE_TEST(who_is_slow_to_wake_still_gets_the_result_of_its_own_instance)
{
    stage_open(2, NULL);
    stage_enter_all();
    tell_barrier(0, "b", 0);
    stage_until_waiting(0, "barrier b::0");
    stage_signal(0, SIGSTOP);
    assert_status(do_barrier(1, "b", 0), MUSTER_OK);
    for (uint64_t k = 1; k <= 15; k++) {
        assert_status(named_wait(1, "b", k, 0, 1), MUSTER_DEADLINE_EXCEEDED);
        assert_status(cancel(1, "b", k), MUSTER_OK);
    }
    assert_int_equal(named_info("b").counter, 15);
    stage_signal(0, SIGCONT);
    assert_status(stage_hear(0), MUSTER_OK);
    stage_close();
}

STAGE_TEST(who_sleeps_for_longer_than_results_are_kept_is_told_so)
{
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    tell_barrier(0, "b", 0);
    stage_until_waiting(0, "barrier b::0");
    stage_signal(0, SIGSTOP);
    assert_status(do_barrier(1, "b", 0), MUSTER_OK);
    for (uint64_t k = 1; k <= 16; k++) {
        assert_status(named_wait(1, "b", k, 0, 1), MUSTER_DEADLINE_EXCEEDED);
        assert_status(cancel(1, "b", k), MUSTER_OK);
    }
    stage_signal(0, SIGCONT);
    r = stage_hear(0);
    assert_status(r, MUSTER_ABORTED);
    assert_says(r.text, "instance 16");
    stage_close();
}

STAGE_TEST(cancelling_an_id_that_nobody_used_cancels_its_instance_0)
{
    stage_open(2, NULL);
    stage_enter_all();
    assert_status(cancel(0, "b", 1), MUSTER_FAILED_PRECONDITION);
    assert_status(cancel(0, "b", 0), MUSTER_OK);
    assert_status(do_barrier(0, "b", 0), MUSTER_CANCELLED);
    assert_status(do_barrier(1, "b", 0), MUSTER_CANCELLED);
    named_pass("b", 1, 2);
    assert_status(cancel(1, "b", MUSTER_BARRIER_NEXT), MUSTER_FAILED_PRECONDITION);
    assert_status(cancel(1, "c", MUSTER_BARRIER_NEXT), MUSTER_OK);
    assert_status(do_barrier(0, "c", 0), MUSTER_CANCELLED);
    stage_close();
}

STAGE_TEST(an_observer_may_cancel_but_not_take_part)
{
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    assert_int_equal(muster_barrier_wait(stage_observer, "b", 0, NULL, 0, 0, MUSTER_FOREVER),
                     MUSTER_FAILED_PRECONDITION);
    tell_barrier(0, "b", 0);
    stage_until_waiting(0, "barrier b");
    assert_int_equal(muster_barrier_cancel(stage_observer, "b", 0), MUSTER_OK);
    r = stage_hear(0);
    assert_status(r, MUSTER_CANCELLED);
    assert_says(r.text, "observer");
    stage_close();
}

STAGE_TEST(a_participant_that_is_killed_fails_the_barrier_and_is_named)
{
    struct reply r, q;
    char pid[48];

    stage_open(3, NULL);
    stage_enter_all();
    tell_barrier(0, "b", 0);
    tell_barrier(1, "b", 0);
    stage_until_waiting(0, "barrier b");
    stage_until_waiting(1, "barrier b");
    snprintf(pid, sizeof pid, "task 2 (pid %d", stage_pid(2));
    stage_kill(2);
    r = stage_hear(0);
    q = stage_hear(1);
    assert_status(r, MUSTER_INTERNAL);
    assert_status(q, MUSTER_INTERNAL);
    assert_string_equal(r.text, q.text);
    assert_says(r.text, pid);
    stage_close();
}

STAGE_TEST(a_participant_that_is_killed_while_waiting_fails_it_for_the_others)
{
    stage_open(3, NULL);
    stage_enter_all();
    tell_barrier(0, "b", 0);
    tell_barrier(1, "b", 0);
    stage_until_waiting(0, "barrier b");
    stage_until_waiting(1, "barrier b");
    stage_kill(1); /* it had arrived */
    assert_status(stage_hear(0), MUSTER_INTERNAL);
    assert_status(do_barrier(2, "b", 0), MUSTER_INTERNAL);
    stage_close();
}

STAGE_TEST(a_recoverable_participant_that_dies_comes_again_and_the_barrier_passes)
{
    struct join_act j = {.task = 1, .flags = MUSTER_JOIN_RECOVERABLE};

    stage_open(3, NULL);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    stage_enter(2, 0);
    tell_barrier(0, "b", 0);
    tell_barrier(1, "b", 0);
    stage_until_waiting(0, "barrier b");
    stage_until_waiting(1, "barrier b");
    stage_kill(1);
    stage_until_state(1, MUSTER_TASK_ERROR);
    stage_player();
    assert_status(stage_do(3, act_join, &j, sizeof j), MUSTER_OK);
    tell_barrier(2, "b", 0);
    stage_until_waiting(2, "barrier b");
    assert_false(stage_has_answered(0)); /* the arrival of the dead one does not count */
    assert_status(do_barrier(3, "b", MUSTER_BARRIER_NEXT), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    assert_status(stage_hear(2), MUSTER_OK);
    stage_close();
}

STAGE_TEST(ids_are_1_to_512_bytes)
{
    char longest[514];

    stage_open(1, NULL);
    stage_enter_all();
    memset(longest, 'x', sizeof longest);
    longest[513] = 0;
    assert_int_equal(muster_barrier_cancel(stage_observer, longest, 0), MUSTER_INVALID_ARGUMENT);
    longest[512] = 0;
    assert_int_equal(muster_barrier_cancel(stage_observer, longest, 0), MUSTER_OK);
    assert_string_equal(named_info(longest).id, longest);
    assert_int_equal(muster_barrier_cancel(stage_observer, "", 0), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(muster_barrier_cancel(stage_observer, NULL, 0), MUSTER_INVALID_ARGUMENT);
    stage_close();
}

enum { BARRIERS = 200 };

static void *wait_at(void *arg)
{
    char id[32];

    snprintf(id, sizeof id, "many-%d", (int)(intptr_t)arg);
    return (void *)(intptr_t)muster_barrier_wait(me, id, 0, NULL, 0, 0, MUSTER_FOREVER);
}

static int act_many(void *arg, struct reply *reply)
{
    static pthread_t threads[BARRIERS];
    pthread_attr_t attr;
    int status = 0;

    (void)arg;
    (void)reply;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 1u << 20);
    for (intptr_t i = 0; i < BARRIERS; i++)
        if (pthread_create(&threads[i], &attr, wait_at, (void *)i))
            return MUSTER_RESOURCE_EXHAUSTED;
    for (int i = 0; i < BARRIERS; i++) {
        void *result;

        pthread_join(threads[i], &result);
        status = status ? status : (int)(intptr_t)result;
    }
    pthread_attr_destroy(&attr);
    return status;
}

static int count_passed(void *arg, const struct muster_barrier_info *info)
{
    *(int *)arg += info->passed && info->result == MUSTER_OK && info->arrived == 2;
    return 0;
}

static int count_waiting(void *arg, const struct muster_barrier_info *info)
{
    *(int *)arg += !info->passed && info->arrived == 1;
    return 0;
}

static bool all_wait(void)
{
    int n = 0;

    assert_int_equal(muster_barrier_list(stage_observer, count_waiting, &n), MUSTER_OK);
    return n == BARRIERS;
}

STAGE_TEST(two_hundred_barriers_at_once)
{
    struct muster_segment_config c = {
        .num_buckets = 64, .num_events = 64, .heap_bytes = 64u << 20, .num_slots = 2 * BARRIERS + 20};
    int passed = 0;

    stage_open(2, &c);
    stage_enter_all();
    tell_plain(0, act_many);
    await(all_wait(), "200 barriers wait for task 1");
    tell_plain(1, act_many);
    assert_status(stage_hear(0), MUSTER_OK);
    assert_status(stage_hear(1), MUSTER_OK);
    assert_int_equal(muster_barrier_list(stage_observer, count_passed, &passed), MUSTER_OK);
    assert_int_equal(passed, BARRIERS);
    stage_close();
}

STAGE_TEST(sixty_four_tasks_pass_and_fail_together)
{
    enum { TASKS = 64 };
    struct reply r;

    stage_open(TASKS, NULL);
    stage_enter_all();
    for (uint64_t k = 0; k < 5; k++)
        named_pass("b", k, TASKS);
    for (int i = 1; i < TASKS; i++)
        tell_barrier(i, "b", 5);
    for (int i = 1; i < TASKS; i++)
        stage_until_waiting(i, "barrier b::5");
    assert_int_equal(named_info("b").arrived, TASKS - 1);
    assert_int_equal(named_info("b").missing[0], 0);
    assert_status(do_report(0, 0, MUSTER_ABORTED, "late"), MUSTER_OK);
    r = stage_hear(1);
    assert_status(r, MUSTER_INTERNAL);
    for (int i = 2; i < TASKS; i++) {
        struct reply q = stage_hear(i);

        assert_int_equal(q.status, r.status);
        assert_string_equal(q.text, r.text);
    }
    stage_close();
}
