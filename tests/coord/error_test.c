/*
 * tests/coord/error_test.c: errors and who polls for them: acceptance items 11 to 26 and 59 to 67, in their order; and
 * errors between guests and tasks of the C library.
 */
#include "counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 11 */
COORD_TEST(a_stop_cancels_polls_and_nothing_else_does)
{
    struct asked *a, *b;

    counter_open(2, NULL);
    register_guests(0, 2);
    a = do_poll(0);
    b = do_poll(1);
    assert_waits(a);
    assert_waits(b);
    mu_coord_stop(coord);
    assert_answer(a, MUSTER_CANCELLED);
    assert_answer(b, MUSTER_CANCELLED);
    assert_answer(do_poll(0), MUSTER_INTERNAL);
    counter_close();
}

/* 12, 13 */
COORD_TEST(who_polls_hears_who_was_silent)
{
    struct asked *a, *b;

    counter_open_for(2, NULL, 300000000);
    register_guests(0, 2);
    a = do_poll(0);
    b = do_poll(1);
    assert_says_so(a, MUSTER_UNAVAILABLE, "stopped sending heartbeats");
    assert_says_so(b, MUSTER_UNAVAILABLE, "heartbeat timeout");
    counter_close();
}

/* 13 */
COORD_TEST(only_the_silent_one_is_named)
{
    struct asked *a, *b;

    counter_open_for(2, NULL, 300000000);
    register_guests(0, 2);
    counter_keep(0);
    a = do_poll(0);
    b = do_poll(1);
    assert_says_so(a, MUSTER_UNAVAILABLE, "task 1");
    assert_answer(b, MUSTER_UNAVAILABLE);
    assert_null(strstr(a->text, "task 0"));
    assert_int_equal(a->ask.origin, 1);
    assert_string_equal(a->text, b->text);
    counter_close();
}

/* 14 */
COORD_TEST(a_reported_error_reaches_all_who_poll)
{
    struct asked *a, *b;

    counter_open(2, NULL);
    register_guests(0, 2);
    a = do_poll(0);
    b = do_poll(1);
    assert_answer(do_report_error(1, MUSTER_INTERNAL, "out of cheese"), MUSTER_OK);
    assert_says_so(a, MUSTER_INTERNAL, "out of cheese");
    assert_says_so(b, MUSTER_INTERNAL, "task 1");
    assert_int_equal(a->ask.payload, MU_PAYLOAD_SERVICE);
    assert_int_equal(a->ask.origin, 1);
    assert_true(a->ask.reported);
    assert_answer(do_report_error(1, MUSTER_INTERNAL, "again"), MUSTER_FAILED_PRECONDITION);
    assert_says_so(do_report_error(2, MUSTER_INTERNAL, "x"), MUSTER_INVALID_ARGUMENT, "Unexpected request from task 2");
    counter_close();
}

COORD_TEST(a_long_report_is_told_in_bounds)
{
    static char text[100000];
    struct asked *a;

    memset(text, 'x', sizeof text - 1);
    counter_open(2, NULL);
    register_guests(0, 2);
    a = do_poll(0);
    assert_answer(do_report_error(1, (enum muster_status)77, text), MUSTER_OK);
    assert_answer(a, MUSTER_UNKNOWN);
    assert_true(strlen(a->text) > 2000 && strlen(a->text) < 4096);
    assert_true(strlen(stage_task(1).message) == 255);
    counter_close();
}

/* 15 */
COORD_TEST(a_restart_reaches_who_polls)
{
    struct asked *a;

    counter_open(2, NULL);
    register_guests(0, 2);
    a = do_poll(0);
    assert_answer(do_register(1, 7), MUSTER_ABORTED);
    assert_says_so(a, MUSTER_ABORTED, "restarted");
    counter_close();
}

/* 16 */
COORD_TEST(who_polls_later_is_told_the_same)
{
    struct asked *a, *b;

    counter_open(3, NULL);
    register_guests(0, 3);
    a = do_poll(0);
    assert_answer(do_report_error(1, MUSTER_DATA_LOSS, "bits fell off"), MUSTER_OK);
    assert_answer(a, MUSTER_DATA_LOSS);
    b = do_poll(2);
    assert_answer(b, MUSTER_DATA_LOSS);
    assert_string_equal(a->text, b->text);
    assert_answer(do_reset(1), MUSTER_OK); /* the job is well again */
    assert_waits(do_poll(2));
    counter_close();
}

/* 17, 18 */
COORD_TEST(who_is_not_there_does_not_poll)
{
    counter_open(2, NULL);
    assert_says_so(do_poll(2), MUSTER_INVALID_ARGUMENT, "not in the cluster");
    assert_says_so(do_poll(0), MUSTER_FAILED_PRECONDITION, "has not been registered");
    counter_close();
}

/* 19 */
COORD_TEST(who_has_left_may_poll_for_a_grace)
{
    struct asked *a;

    counter_open(2, NULL);
    register_guests(0, 2);
    assert_answer(do_shutdown(0), MUSTER_OK);
    a = do_poll(0);
    assert_waits(a);
    mu_coord_stop(coord);
    assert_answer(a, MUSTER_CANCELLED);
    counter_close();
}

/* 20, 21 */
COORD_TEST(and_not_after_it)
{
    counter_open_for(2, NULL, 200000000);
    register_guests(0, 2);
    assert_answer(do_shutdown(0), MUSTER_OK);
    assert_answer(do_reset(1), MUSTER_OK);
    until_silent(0);
    until_silent(1);
    assert_says_so(do_poll(0), MUSTER_FAILED_PRECONDITION, "has disconnected");
    assert_says_so(do_poll(1), MUSTER_FAILED_PRECONDITION, "has disconnected");
    counter_close();
}

/* 22 */
COORD_TEST(who_is_in_error_does_not_poll)
{
    counter_open(2, NULL);
    register_guests(0, 2);
    assert_answer(do_report_error(0, MUSTER_INTERNAL, "out of cheese"), MUSTER_OK);
    assert_says_so(do_poll(0), MUSTER_FAILED_PRECONDITION, "already in error");
    assert_says_so(do_poll(1), MUSTER_FAILED_PRECONDITION, "All tasks were set to error");
    counter_close();
}

static void until_in_error(int32_t task)
{
    counter_await(stage_task(task).state == MUSTER_TASK_ERROR, "the task is in error");
}

/* 23 */
COORD_TEST(who_was_silent_does_not_poll)
{
    counter_open_for(1, NULL, 200000000);
    register_guests(0, 1);
    until_in_error(0);
    assert_says_so(do_poll(0), MUSTER_FAILED_PRECONDITION, "already in error");
    counter_close();
}

/* 24, 25, 26 */
COORD_TEST(errors_of_recoverable_tasks_are_their_own)
{
    const struct mu_coord_options o = {.recoverable = true};
    struct asked *a, *b;

    for (int polls = 0; polls < 2; polls++) {
        counter_open(2, &o);
        register_guests(0, 2);
        a = polls ? do_poll(0) : NULL;
        b = polls ? do_poll(1) : NULL;
        assert_answer(do_report_error(1, MUSTER_INTERNAL, "out of cheese"), MUSTER_OK);
        assert_answer(do_beat(0, INCARNATION(0)), MUSTER_OK);
        if (polls) {
            assert_waits(a);
            assert_waits(b);
        }
        assert_answer(do_beat(1, INCARNATION(1)), MUSTER_ABORTED);
        assert_answer(do_reset(1), MUSTER_OK);
        assert_answer(do_register(1, 7), MUSTER_OK);
        assert_answer(do_beat(1, 7), MUSTER_OK);
        counter_close();
    }
}

/* 86 */
COORD_TEST(only_who_is_not_recoverable_takes_the_others_along)
{
    struct asked *poll, *again;

    counter_open(3, NULL);
    register_guests(0, 1);
    assert_answer(do_register_recoverable(1, INCARNATION(1)), MUSTER_OK);
    assert_answer(do_register_recoverable(2, INCARNATION(2)), MUSTER_OK);
    poll = do_poll(0);
    assert_answer(do_report_error(1, MUSTER_INTERNAL, "mine alone"), MUSTER_OK);
    assert_waits(poll);
    assert_answer(do_reset(1), MUSTER_OK);
    assert_answer(do_register_recoverable(1, 7), MUSTER_OK);
    again = do_poll(1);
    assert_answer(do_report_error(0, MUSTER_INTERNAL, "the chief is ill"), MUSTER_OK);
    assert_says_so(poll, MUSTER_INTERNAL, "the chief is ill");
    assert_answer(again, MUSTER_INTERNAL);
    counter_close();
}

/* 87 */
COORD_TEST(who_was_silent_may_come_again_where_that_is_allowed)
{
    const struct mu_coord_options o = {.reconnects = true};

    counter_open_for(1, &o, 200000000);
    register_guests(0, 1);
    until_in_error(0);
    assert_answer(do_register(0, 7), MUSTER_OK);
    counter_close();
}

COORD_TEST(a_second_poll_cancels_the_first)
{
    struct asked *a, *b;

    counter_open(1, NULL);
    register_guests(0, 1);
    a = do_poll(0);
    b = do_poll(0);
    assert_says_so(a, MUSTER_CANCELLED, "new request from the same task");
    assert_waits(b);
    assert_answer(do_reset(0), MUSTER_OK);
    assert_says_so(b, MUSTER_CANCELLED, "task has disconnected");
    counter_close();
}

NEAR_TEST(a_task_of_the_library_that_is_killed_reaches_who_polls)
{
    struct asked *a;

    counter_open(2, NULL);
    counter_enter(0);
    register_guests(1, 1);
    a = do_poll(1);
    assert_waits(a);
    stage_kill(0);
    assert_says_so(a, MUSTER_UNAVAILABLE, "task 0 (pid");
    assert_int_equal(a->ask.origin, 0);
    assert_false(a->ask.reported);
    counter_close();
}

NEAR_TEST(a_guests_error_reaches_tasks_of_the_library)
{
    struct reply r;
    struct muster_error e;

    counter_open(2, NULL);
    counter_enter(0);
    register_guests(1, 1);
    tell_plain(0, act_error_wait);
    stage_until_waiting(0, "an error");
    assert_waits(do_poll(1));
    hang_up(1, "reset by its peer");
    r = stage_hear(0);
    assert_status(r, MUSTER_OK);
    memcpy(&e, r.data, sizeof e);
    assert_int_equal(e.task_id, 1);
    assert_int_equal(e.code, MUSTER_UNAVAILABLE);
    assert_says(e.message, "was reset by its peer without a shutdown");
    counter_close();
}

/* ---- barriers ---- */

/* 59 */
COORD_TEST(a_barrier_with_a_task_in_error_fails)
{
    counter_open(3, NULL);
    register_guests(0, 3);
    assert_waits(do_poll(0));
    assert_answer(do_report_error(1, MUSTER_INTERNAL, "it broke"), MUSTER_OK);
    assert_says_so(do_meet(0, "b", 0), MUSTER_INTERNAL, "already in error before the barrier was called");
    counter_close();
}

/* 51, 60 */
COORD_TEST(an_error_fails_the_barrier_that_waits)
{
    struct asked *a;

    counter_open(3, NULL);
    register_guests(0, 3);
    a = do_meet(0, "b", 0);
    assert_waits(a);
    assert_waits(do_poll(0));
    assert_answer(do_report_error(1, MUSTER_INTERNAL, "it broke"), MUSTER_OK);
    assert_says_so(a, MUSTER_INTERNAL, "it broke");
    assert_int_equal(a->ask.payload, MU_PAYLOAD_BARRIER);
    assert_answer(do_meet(2, "b", 0), MUSTER_INTERNAL);
    assert_answer(do_meet(0, "b", 0), MUSTER_INTERNAL);
    counter_close();
}

/* 62, 63 */
COORD_TEST(who_leaves_fails_the_barrier_that_waits_for_him)
{
    struct asked *a;

    counter_open(2, NULL);
    for (int reset = 0; reset < 2; reset++) {
        register_guests(0, 2);
        a = do_meet(0, reset ? "b" : "c", 0);
        assert_waits(a);
        assert_answer(reset ? do_reset(1) : do_shutdown(1), MUSTER_OK);
        assert_says_so(a, MUSTER_INTERNAL, "has disconnected");
    }
    counter_close();
}

/* 64 to 67 */
COORD_TEST(a_barrier_with_a_silent_task_fails)
{
    static const int32_t both[] = {0, 1}, some[] = {0, 2};
    struct asked *poll;

    for (int polls = 0; polls < 2; polls++) {
        counter_open_for(3, NULL, 200000000);
        register_guests(0, 2);
        poll = polls ? do_poll(0) : NULL;
        until_in_error(0);
        until_in_error(1);
        if (polls)
            assert_answer(poll, MUSTER_UNAVAILABLE);
        assert_answer(do_meet(2, "all", 0), MUSTER_INTERNAL);
        assert_answer(do_meet_some(0, "both", 0, both, 2), MUSTER_INTERNAL);
        assert_answer(do_meet_some(2, "some", 0, some, 2), MUSTER_INTERNAL);
        counter_close();
    }
}

/* A recoverable task that comes anew takes its arrival back; its old call is over. */
COORD_TEST(a_recoverable_task_that_restarts_joins_again)
{
    const struct mu_coord_options o = {.recoverable = true};
    struct asked *a, *b, *c;

    counter_open(3, &o);
    register_guests(0, 3);
    for (int64_t k = 0; k < 3; k++) {
        a = do_meet(0, "b", k);
        b = do_meet(1, "b", k);
        assert_answer(do_meet(2, "b", k), MUSTER_OK);
        assert_answer(a, MUSTER_OK);
        assert_answer(b, MUSTER_OK);
    }
    a = do_meet(0, "b", 3);
    b = do_meet(1, "b", 3);
    assert_answer(do_register(1, 7), MUSTER_OK);
    assert_answer(b, MUSTER_CANCELLED);
    c = do_meet(2, "b", 3);
    assert_waits(a);
    assert_waits(c);
    b = do_meet(1, "b", 0); /* it does not know how far the others are */
    assert_answer(b, MUSTER_OK);
    assert_int_equal(b->ask.counter, 3);
    assert_answer(a, MUSTER_OK);
    assert_answer(c, MUSTER_OK);
    counter_close();
}

/* ---- guests that are called ---- */

static struct mu_coord_report called; /* the last one */
static unsigned calls;

static bool note(void *arg, const struct mu_coord_report *report)
{
    called = *report;
    calls++;
    return *(const bool *)arg;
}

/* Nobody asks anything: the engine looks for itself. */
NEAR_TEST(who_is_called_need_not_ask)
{
    bool way = true;
    unsigned wanted = 1;

    counter_open(3, NULL);
    calls = 0;
    mu_coord_report_by(coord, note, &way);
    register_guests(0, 1);
    counter_enter(2);
    stage_kill(0);
    counter_await(calls == wanted, "the guest is called");
    assert_int_equal(called.task, 0);
    assert_int_equal(called.origin, 2);
    assert_int_equal(called.incarnation, INCARNATION(0));
    assert_int_equal(called.code, MUSTER_UNAVAILABLE);
    assert_false(called.reported);
    assert_answer(do_beat(0, INCARNATION(0)), MUSTER_OK); /* it is in no error itself */
    mu_coord_untold(coord, 0, INCARNATION(0) + 1);        /* another one */
    assert_answer(do_beat(0, INCARNATION(0)), MUSTER_OK);
    mu_coord_untold(coord, 0, INCARNATION(0));
    assert_says_so(do_beat(0, INCARNATION(0)), MUSTER_ABORTED, "unable to inform clients");
    mu_coord_report_by(coord, NULL, NULL);
    counter_close();
}

COORD_TEST(to_whom_there_is_no_way_is_put_in_error)
{
    bool way = false;

    counter_open(2, NULL);
    calls = 0;
    mu_coord_report_by(coord, note, &way);
    register_guests(0, 2);
    assert_answer(do_report_error(1, MUSTER_INTERNAL, "out of cheese"), MUSTER_OK);
    assert_int_equal(calls, 1);
    assert_says_so(do_beat(0, INCARNATION(0)), MUSTER_ABORTED, "unable to inform clients");
    mu_coord_report_by(coord, NULL, NULL);
    counter_close();
}
