/*
 * tests/coord/guest_test.c: guests register, beat, leave: acceptance items 1 to 10, 68 to 74, in their order; and
 * what the reference does wrong.
 */
#include "counter.h"

#include <stdio.h>
#include <string.h>

#include "task/task.h"

static const struct mu_coord_options with_barrier = {.register_barrier = true};
static const struct mu_coord_options with_shutdown = {.shutdown_timeout_ns = 100000000000u};

static void until_in_error(int32_t task)
{
    counter_await(stage_task(task).state == MUSTER_TASK_ERROR, "the task is in error");
}

/* 1 */
COORD_TEST(heartbeats_are_for_who_has_registered)
{
    counter_open(2, NULL);
    register_guests(0, 2);
    assert_answer(do_beat(0, INCARNATION(0)), MUSTER_OK);
    assert_answer(do_beat(1, INCARNATION(1)), MUSTER_OK);
    assert_says_so(do_beat(2, 7), MUSTER_INVALID_ARGUMENT, "Unexpected heartbeat request from task: 2");
    assert_says_so(do_beat(-1, 7), MUSTER_INVALID_ARGUMENT, "Unexpected heartbeat request");
    assert_answer(do_beat(1, 7), MUSTER_ABORTED);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_ERROR);
    counter_close();
}

COORD_TEST(who_never_registered_has_no_heartbeats)
{
    counter_open(1, NULL);
    assert_says_so(do_beat(0, 7), MUSTER_INVALID_ARGUMENT, "must be registered before sending heartbeat messages");
    counter_close();
}

/* 2, 276 */
COORD_TEST(to_register_twice_is_to_register)
{
    counter_open(2, NULL);
    register_guests(0, 2);
    register_guests(0, 2);
    assert_int_equal(stage_task(0).attempt, 1);
    counter_close();
}

/* 3, 7 */
COORD_TEST(another_incarnation_is_a_restart)
{
    counter_open(2, NULL);
    register_guests(0, 2);
    assert_says_so(do_register(1, 7), MUSTER_ABORTED, "It has likely restarted");
    assert_int_equal(stage_task(1).state, MUSTER_TASK_ERROR);
    counter_close();
}

/* 4 */
COORD_TEST(who_is_in_error_cannot_register)
{
    counter_open(2, NULL);
    register_guests(0, 2);
    assert_answer(do_report_error(0, MUSTER_INTERNAL, "it broke"), MUSTER_OK);
    assert_says_so(do_register(0, INCARNATION(0)), MUSTER_ABORTED, "already in error");
    assert_says_so(do_register(0, 7), MUSTER_ABORTED, "it broke");
    counter_close();
}

/* 5, 6 */
COORD_TEST(the_silent_and_everybody_are_in_error_when_nobody_polls)
{
    counter_open_for(2, NULL, 300000000);
    register_guests(0, 2);
    until_in_error(0);
    until_in_error(1);
    assert_answer(do_beat(0, INCARNATION(0)), MUSTER_ABORTED);
    assert_says_so(do_beat(1, INCARNATION(1)), MUSTER_ABORTED, "already-in-error");
    counter_close();
}

/* 8 */
COORD_TEST(after_a_reset_it_may_register_again)
{
    counter_open(2, NULL);
    register_guests(0, 2);
    assert_answer(do_reset(1), MUSTER_OK);
    assert_answer(do_register(1, INCARNATION(1)), MUSTER_OK);
    assert_answer(do_beat(1, INCARNATION(1)), MUSTER_OK);
    assert_answer(do_reset(1), MUSTER_OK);
    assert_says_so(do_reset(1), MUSTER_FAILED_PRECONDITION, "already disconnected: 1");
    assert_says_so(do_reset(2), MUSTER_INVALID_ARGUMENT, "Unexpected disconnect request with task=2");
    counter_close();
}

/* 9, 10 */
COORD_TEST(heartbeats_are_accepted_for_a_grace_after_leaving)
{
    counter_open(2, NULL);
    register_guests(0, 2);
    assert_answer(do_reset(0), MUSTER_OK);
    assert_answer(do_shutdown(1), MUSTER_OK);
    assert_answer(do_beat(0, INCARNATION(0)), MUSTER_OK);
    assert_answer(do_beat(1, INCARNATION(1)), MUSTER_OK);
    counter_close();
    counter_open_for(2, NULL, 300000000);
    register_guests(0, 2);
    assert_answer(do_reset(0), MUSTER_OK);
    assert_answer(do_shutdown(1), MUSTER_OK);
    until_silent(0);
    until_silent(1);
    assert_says_so(do_beat(0, INCARNATION(0)), MUSTER_INVALID_ARGUMENT, "must be registered");
    assert_answer(do_beat(1, INCARNATION(1)), MUSTER_INVALID_ARGUMENT);
    counter_close();
}

/* ---- the shutdown barrier ---- */

/* 68 */
COORD_TEST(both_call_and_both_have_left_and_may_come_again)
{
    struct asked *a, *poll;

    counter_open(2, &with_shutdown);
    for (int round = 0; round < 3; round++) {
        register_guests(0, 2);
        poll = do_poll(0);
        a = do_shutdown(round & 1);
        assert_waits(a);
        assert_answer(do_shutdown(!(round & 1)), MUSTER_OK);
        assert_answer(a, MUSTER_OK);
        assert_says_so(poll, MUSTER_CANCELLED, "task has disconnected");
        assert_int_equal(stage_task(0).state, MUSTER_TASK_DISCONNECTED);
        assert_int_equal(stage_task(1).state, MUSTER_TASK_DISCONNECTED);
    }
    assert_says_so(do_shutdown(0), MUSTER_INTERNAL, "already disconnected");
    counter_close();
}

/* 69, 70 */
COORD_TEST(a_shutdown_that_times_out_fails_for_all)
{
    const struct mu_coord_options o = {.shutdown_timeout_ns = 200000000};
    struct asked *a, *polls[2];

    for (int polled = 0; polled < 2; polled++) {
        counter_open(2, &o);
        register_guests(0, 2);
        for (int i = 0; i < 2 && polled; i++)
            polls[i] = do_poll(i);
        a = do_shutdown(0);
        assert_says_so(a, MUSTER_INTERNAL, "Shutdown barrier has failed.\nBarrier result: 'DEADLINE_EXCEEDED");
        assert_says(a->text, "timed out");
        assert_says(a->text, "1/2");
        assert_says(a->text, "task 1");
        for (int i = 0; i < 2 && polled; i++)
            assert_says_so(polls[i], MUSTER_INTERNAL, "Shutdown barrier has failed");
        for (int i = 0; i < 2; i++) {
            assert_answer(do_register(i, INCARNATION(i)), MUSTER_ABORTED);
            assert_answer(do_register(i, 7), MUSTER_ABORTED);
        }
        assert_answer(do_beat(1, INCARNATION(1)), MUSTER_ABORTED);
        assert_says_so(do_shutdown(1), MUSTER_INTERNAL, "timed out"); /* the straggler */
        assert_int_equal(stage_task(1).state, MUSTER_TASK_DISCONNECTED);
        counter_close();
    }
}

/* 2.17: a caller that is none of the job's does not fail it for the others */
COORD_TEST(a_shutdown_by_who_is_no_member_harms_nobody)
{
    struct asked *a;

    counter_open(2, &with_shutdown);
    register_guests(0, 2);
    a = do_shutdown(0);
    assert_answer(do_shutdown(2), MUSTER_INVALID_ARGUMENT);
    assert_answer(do_shutdown(-5), MUSTER_INVALID_ARGUMENT);
    assert_waits(a);
    assert_answer(do_shutdown(1), MUSTER_OK);
    assert_answer(a, MUSTER_OK);
    counter_close();
}

/* 94 */
COORD_TEST(a_task_in_error_fails_the_shutdown)
{
    struct asked *a;

    counter_open(3, &with_shutdown);
    register_guests(0, 3);
    a = do_shutdown(0);
    assert_waits(a);
    assert_answer(do_report_error(1, MUSTER_INTERNAL, "it broke"), MUSTER_OK);
    assert_says_so(a, MUSTER_INTERNAL, "task is set to ERROR: task 1");
    assert_says_so(do_shutdown(2), MUSTER_INTERNAL, "Shutdown barrier has failed");
    counter_close();
}

COORD_TEST(a_call_made_twice_counts_once)
{
    struct asked *a, *b;

    counter_open(2, &with_shutdown);
    register_guests(0, 2);
    a = do_shutdown(0);
    b = do_shutdown(0);
    assert_answer(a, MUSTER_CANCELLED);
    assert_waits(b);
    assert_answer(do_shutdown(1), MUSTER_OK);
    assert_answer(b, MUSTER_OK);
    counter_close();
}

COORD_TEST(a_shutdown_waits_for_tasks_of_the_library_until_they_leave)
{
    struct asked *a;

    counter_open(2, &with_shutdown);
    counter_enter(0);
    register_guests(1, 1);
    a = do_shutdown(1);
    assert_waits(a);
    assert_status(do_plain(0, act_leave), MUSTER_OK);
    assert_answer(a, MUSTER_OK);
    counter_close();
}

COORD_TEST(who_has_called_for_the_shutdown_may_hang_up)
{
    struct asked *a;

    counter_open(2, &with_shutdown);
    register_guests(0, 2);
    do_poll(0);
    assert_waits(do_shutdown(0));
    hang_up(0, "closed by its peer");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_DISCONNECTED);
    a = do_shutdown(1);
    assert_answer(a, MUSTER_OK);
    counter_close();
}

/* ---- the register barrier ---- */

/* 71, 72 */
COORD_TEST(a_newer_registration_takes_the_place_of_the_older)
{
    struct asked *a, *b, *c;

    counter_open(2, &with_barrier);
    assert_answer(do_beat(0, INCARNATION(0)), MUSTER_INVALID_ARGUMENT); /* of before the service came */
    a = do_register(0, INCARNATION(0));
    assert_waits(a);
    b = do_register(0, 7);
    assert_says_so(a, MUSTER_ALREADY_EXISTS, "Aborted connect attempt as there is a request from a newer incarnation.");
    assert_int_equal(a->ask.payload, MU_PAYLOAD_SERVICE);
    assert_waits(b);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_DISCONNECTED);
    c = do_register(1, INCARNATION(1));
    assert_answer(b, MUSTER_OK);
    assert_answer(c, MUSTER_OK);
    assert_answer(do_register(0, 7), MUSTER_OK);
    assert_answer(do_beat(0, 7), MUSTER_OK);
    counter_close();
}

/* 73 */
COORD_TEST(a_restart_after_all_registered_is_an_error)
{
    struct asked *a;

    counter_open(2, &with_barrier);
    a = do_register(0, INCARNATION(0));
    assert_answer(do_register(1, INCARNATION(1)), MUSTER_OK);
    assert_answer(a, MUSTER_OK);
    assert_answer(do_register(1, 7), MUSTER_ABORTED);
    assert_answer(do_meet(0, "b", 0), MUSTER_INTERNAL);
    counter_close();
}

/* 74, 100 */
COORD_TEST(registering_times_out_and_names_the_missing)
{
    const struct mu_coord_options o = {.register_barrier = true, .register_timeout_ns = 200000000};
    struct asked *a, *b;

    counter_open(4, &o);
    a = do_register(0, INCARNATION(0));
    b = do_register(3, INCARNATION(3));
    assert_says_so(a, MUSTER_DEADLINE_EXCEEDED, "Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0");
    assert_says(a->text, "2/4");
    assert_says(a->text, "task 1");
    assert_says(a->text, "task 2");
    assert_answer(b, MUSTER_DEADLINE_EXCEEDED);
    assert_string_equal(a->text, b->text);
    assert_int_equal(a->ask.payload, MU_PAYLOAD_BARRIER);
    a = do_register(2, INCARNATION(2)); /* begins anew */
    assert_answer(a, MUSTER_DEADLINE_EXCEEDED);
    assert_says(a->text, "1/4");
    counter_close();
}

COORD_TEST(after_a_reset_nobody_waits_for_all_again)
{
    struct asked *a;

    counter_open(2, &with_barrier);
    a = do_register(0, INCARNATION(0));
    assert_answer(do_register(1, INCARNATION(1)), MUSTER_OK);
    assert_answer(a, MUSTER_OK);
    assert_answer(do_reset(1), MUSTER_OK);
    assert_answer(do_register(1, 7), MUSTER_OK);
    counter_reopen(&with_barrier); /* as after an adoption: all have been here */
    assert_answer(do_reset(1), MUSTER_OK);
    assert_answer(do_register(1, 8), MUSTER_OK);
    counter_close();
}

COORD_TEST(who_hangs_up_has_not_registered)
{
    struct asked *a;

    counter_open(2, &with_barrier);
    assert_waits(do_register(0, INCARNATION(0)));
    hang_up(0, "closed by its peer");
    a = do_register(1, INCARNATION(1));
    assert_waits(a);
    assert_answer(do_register(0, 7), MUSTER_OK);
    assert_answer(a, MUSTER_OK);
    counter_close();
}

COORD_TEST(a_task_of_the_library_that_is_connected_counts_as_registered)
{
    struct asked *a;

    counter_open(3, &with_barrier);
    a = do_register(1, INCARNATION(1));
    counter_enter(0);
    assert_waits(a);
    assert_answer(do_register(2, INCARNATION(2)), MUSTER_OK);
    assert_answer(a, MUSTER_OK);
    counter_close();
    counter_open(2, &with_barrier);
    a = do_register(1, INCARNATION(1));
    assert_waits(a);
    counter_enter(0);
    assert_answer(a, MUSTER_OK);
    assert_answer(do_register(0, 7), MUSTER_ALREADY_EXISTS);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    counter_close();
}

COORD_TEST(who_gives_up_a_place_that_a_task_of_the_library_has_delays_nobody)
{
    struct asked *a;

    counter_open(2, &with_barrier);
    a = do_register(0, INCARNATION(0));
    assert_waits(a);
    counter_enter(0);
    mu_coord_look(coord);
    mu_coord_drop(coord, &a->ask);
    assert_answer(do_register(1, INCARNATION(1)), MUSTER_OK);
    counter_close();
}

/* Which the launcher knows, and no connection tells of. */
COORD_TEST(a_task_that_ends_before_it_registers_ends_the_waiting)
{
    struct asked *a;

    counter_open(3, &with_barrier);
    a = do_register(1, INCARNATION(1));
    assert_waits(a);
    assert_int_equal(mu_task_process_ended(stage_observer, 2, 4711, 3 << 8, true), MUSTER_OK);
    assert_says_so(a, MUSTER_INTERNAL, "Barrier failed because: task 2 (pid 4711 on host ");
    assert_non_null(strstr(a->text, "has ended (exited with status 3) without joining"));
    counter_close();
}

COORD_TEST(a_task_of_the_library_that_dies_ends_the_waiting)
{
    struct asked *a;

    counter_open(3, &with_barrier);
    counter_enter(0);
    a = do_register(1, INCARNATION(1));
    assert_waits(a);
    stage_kill(0);
    assert_says_so(a, MUSTER_INTERNAL, "task is set to ERROR: task 0");
    counter_close();
}

COORD_TEST(tasks_outside_of_the_cluster_do_not_register)
{
    struct asked *a;

    counter_open(2, &with_barrier);
    a = do_register(0, INCARNATION(0));
    assert_says_so(do_register(2, 7), MUSTER_INVALID_ARGUMENT, "Unexpected task registered with task=2");
    assert_answer(do_register(-1, 7), MUSTER_INVALID_ARGUMENT);
    assert_waits(a);
    counter_close();
}

static char said[400];
static int32_t said_of;

static void hear(void *arg, int32_t task, const char *sentence)
{
    (void)arg;
    said_of = task;
    snprintf(said, sizeof said, "%s", sentence);
}

COORD_TEST(people_are_told_who_is_missing)
{
    const struct mu_coord_options o = {
        .register_barrier = true, .shutdown_timeout_ns = 100000000000u, .said = hear, .say_ns = 20000000};
    struct asked *a;

    counter_open(4, &o);
    said[0] = 0;
    assert_waits(do_register(1, INCARNATION(1)));
    counter_await(said[0], "somebody is missing");
    assert_string_equal(said, "3 of 4 tasks have not registered yet: task 0, task 2 ...");
    for (int i = 0; i < 3; i++)
        do_register(i, INCARNATION(i));
    assert_answer(do_register(3, INCARNATION(3)), MUSTER_OK);
    said[0] = 0;
    for (int i = 0; i < 3; i++)
        a = do_shutdown(i);
    assert_waits(a);
    counter_await(said[0], "somebody is missing");
    assert_says(said, "1 of 4 tasks have not called for the shutdown yet: task 3");
    assert_int_equal(said_of, -1); /* most wait: the missing one stands out */
    assert_answer(do_shutdown(3), MUSTER_OK);
    counter_close();
}

/* A program that has failed waits in the shutdown while its peers work: it is named at once, and blamed at the end. */
COORD_TEST(who_waits_in_the_shutdown_alone_stands_out)
{
    const struct mu_coord_options o = {.shutdown_timeout_ns = 200000000, .said = hear, .say_ns = 100000000};
    struct muster_error error = {0};
    struct asked *a, *poll;

    counter_open(3, &o);
    register_guests(0, 3);
    poll = do_poll(0);
    said[0] = 0;
    a = do_shutdown(2);
    counter_await(said[0], "it is named");
    assert_memory_equal(said, "task 2 (", 8);
    assert_says(said, ") waits in the shutdown: 2 of 3 tasks have not called for the shutdown yet: task 0 (");
    assert_int_equal(said_of, 2);
    assert_says_so(a, MUSTER_INTERNAL, "Shutdown barrier has failed.\nBarrier result: 'DEADLINE_EXCEEDED");
    assert_says_so(poll, MUSTER_INTERNAL, "Shutdown barrier has failed");
    assert_int_equal(muster_error_wait(stage_observer, muster_after_ns(0), &error), MUSTER_OK);
    assert_int_equal(error.task_id, 2);
    assert_memory_equal(error.message, "the shutdown has timed out: task 2 (", 36);
    assert_says(error.message, ") waited in it, without task 0 (");
    assert_string_equal(stage_task(0).message, error.message);
    counter_close();
}

/* A record is short. */
COORD_TEST(a_long_report_is_cut_between_two_words)
{
    char text[400] = "it failed:";
    struct asked *a;

    for (size_t i = strlen(text); i + 10 < sizeof text; i += 10)
        memcpy(text + i, " 345678901", 11);
    counter_open(2, NULL);
    register_guests(0, 2);
    a = do_report_error(0, MUSTER_INTERNAL, text);
    assert_answer(a, MUSTER_OK);
    assert_int_equal(strlen(stage_task(0).message), 254);
    assert_string_equal(stage_task(0).message + 230, " 345678901 345678901 ...");
    counter_close();
}

COORD_TEST(it_is_over_when_all_have_been_there_and_none_is)
{
    counter_open(2, NULL);
    assert_false(mu_coord_is_over(coord));
    register_guests(0, 1);
    assert_answer(do_shutdown(0), MUSTER_OK);
    assert_false(mu_coord_is_over(coord)); /* one may still come */
    register_guests(1, 1);
    assert_false(mu_coord_is_over(coord));
    assert_answer(do_report_error(1, MUSTER_INTERNAL, "it broke"), MUSTER_OK);
    assert_true(mu_coord_is_over(coord));
    assert_answer(do_reset(1), MUSTER_OK);
    assert_true(mu_coord_is_over(coord));
    counter_close();
}
