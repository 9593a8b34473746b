/*
 * tests/coord/line_test.c: guests' connections that break, and their processes that end.
 */
#include "counter.h"

#include <stdio.h>
#include <string.h>

#include "task/task.h"

COORD_TEST(a_line_that_breaks_under_a_poll_is_the_tasks_end)
{
    struct asked *other;

    counter_open(2, NULL);
    register_guests(0, 2);
    assert_waits(do_poll(0));
    other = do_poll(1);
    hang_up(0, "reset by its peer");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_ERROR);
    assert_says_so(other, MUSTER_UNAVAILABLE, "task 0");
    assert_says(other->text, "its connection (127.0.0.1:50000) was reset by its peer without a shutdown");
    assert_int_equal(other->ask.origin, 0);
    assert_false(other->ask.reported);
    counter_close();
}

COORD_TEST(what_the_server_has_against_a_line_is_said)
{
    struct asked *other;

    counter_open(2, NULL);
    register_guests(0, 2);
    assert_waits(do_poll(0));
    other = do_poll(1);
    hang_up(0, "it took nothing of what it had asked for");
    assert_says_so(other, MUSTER_UNAVAILABLE, "has ended without a shutdown: it took nothing of what it had asked for");
    counter_close();
}

COORD_TEST(a_line_that_breaks_while_the_poll_was_given_up_is_that_too)
{
    struct asked *a;

    counter_open(2, NULL);
    register_guests(0, 2);
    a = do_poll(0);
    mu_coord_drop(coord, &a->ask);
    hang_up(0, "closed by its peer");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_ERROR);
    counter_close();
}

COORD_TEST(without_a_poll_the_task_may_come_back_on_another_line)
{
    const struct mu_coord_options o = {.lost_ns = 3600000000000u}, soon = {.lost_ns = 100000000};
    struct asked *a;

    counter_open(3, &o);
    register_guests(0, 2);
    hang_up(0, "closed by its peer");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    assert_answer(do_beat(0, INCARNATION(0)), MUSTER_OK);
    counter_close();
    counter_open(3, &soon);
    register_guests(0, 2);
    a = do_poll(1);
    hang_up(0, "closed by its peer");
    assert_says_so(a, MUSTER_UNAVAILABLE, "was closed by its peer without a shutdown");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_ERROR);
    counter_close();
}

/* TensorFlow's: it has nothing to say until its next heartbeat, which comes by a new connection. */
COORD_TEST(without_a_poll_the_heartbeats_decide)
{
    struct asked *a;

    counter_open_for(3, NULL, 5000000000u);
    counter_keep(1);
    register_guests(0, 2);
    a = do_poll(1);
    hang_up(0, "closed by its peer");
    for (muster_deadline end = muster_after_ms(1500); muster_now_ns() < end; counter_turn())
        ;               /* longer than it would have been given up in once */
    if (!a->answered) { /* else this machine stood still for longer than the timeout */
        assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
        assert_answer(do_beat(0, INCARNATION(0)), MUSTER_OK);
        hang_up(0, "closed by its peer");
    }
    counter_await(a->answered, "its silence is noticed");
    assert_says_so(a, MUSTER_UNAVAILABLE, "task 0");
    counter_close();
}

/* Nobody waits for the heartbeats of who was told that the job has failed, and went. */
COORD_TEST(in_a_failed_job_a_closed_line_is_the_tasks_end)
{
    struct asked *a, *b;

    counter_open(3, NULL);
    register_guests(0, 3);
    assert_waits(do_poll(0));
    a = do_poll(1);
    b = do_poll(2);
    hang_up(0, "reset by its peer");
    assert_says_so(a, MUSTER_UNAVAILABLE, "task 0");
    assert_says_so(b, MUSTER_UNAVAILABLE, "task 0");
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    hang_up(1, "closed by its peer");
    assert_int_equal(stage_task(1).state, MUSTER_TASK_ERROR);
    assert_int_equal(stage_task(2).state, MUSTER_TASK_CONNECTED);
    assert_false(mu_coord_is_over(coord));
    hang_up(2, "closed by its peer");
    assert_true(mu_coord_is_over(coord));
    counter_close();
}

COORD_TEST(a_line_that_closed_before_the_failure_is_that_too)
{
    struct asked *a;

    counter_open(3, NULL);
    register_guests(0, 3);
    assert_waits(do_poll(0));
    a = do_poll(2);
    hang_up(1, "closed by its peer");
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    hang_up(0, "reset by its peer");
    assert_says_so(a, MUSTER_UNAVAILABLE, "task 0");
    assert_int_equal(a->ask.origin, 0);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_ERROR);
    assert_int_equal(stage_task(2).state, MUSTER_TASK_CONNECTED);
    counter_close();
}

/* Its process is known, and the kernel is asked for it. */
NEAR_TEST(without_a_poll_the_end_of_the_process_counts)
{
    struct asked *a;

    counter_open(2, NULL);
    line_of_process(0, (uint32_t)stage_pid(0));
    register_guests(0, 2);
    a = do_poll(1);
    hang_up(0, "closed by its peer");
    for (muster_deadline end = muster_after_ms(1500); muster_now_ns() < end; counter_turn())
        ; /* it is looked at, and lives */
    assert_waits(a);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    stage_kill(0);
    assert_says_so(a, MUSTER_UNAVAILABLE, "was closed by its peer without a shutdown");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_ERROR);
    counter_close();
}

static uint32_t child;

static uint32_t pid_of_child(void *arg, uint32_t task)
{
    (void)arg;
    return task == 0 ? child : 0;
}

/* Where the launcher knows the process, its word for the end comes before that of the connection. */
NEAR_TEST(a_line_that_breaks_leaves_the_launcher_the_first_word)
{
    const struct mu_coord_options o = {.pid_of = pid_of_child};
    struct asked *a;

    counter_open(2, &o);
    child = (uint32_t)stage_pid(0);
    register_guests(0, 2);
    assert_int_equal(stage_task(0).pid, child);
    assert_waits(do_poll(0));
    a = do_poll(1);
    hang_up(0, "closed by its peer");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(mu_task_process_ended(stage_observer, 0, child, stage_kill(0), true), MUSTER_OK);
    mu_coord_look(coord);
    assert_true(a->answered);
    assert_says_so(a, MUSTER_UNAVAILABLE, "killed by signal 9");
    assert_null(strstr(a->text, "connection"));
    counter_close();
    counter_open(2, &o); /* a launcher that says nothing is not waited for */
    register_guests(0, 2);
    assert_waits(do_poll(0));
    a = do_poll(1);
    hang_up(0, "closed by its peer");
    assert_says_so(a, MUSTER_UNAVAILABLE, "was closed by its peer without a shutdown");
    counter_close();
}

/* Somebody else holds its connection open: the kernel's word counts. */
NEAR_TEST(a_process_that_ends_takes_its_task_along)
{
    struct asked *a;

    counter_open(2, NULL);
    line_of_process(0, (uint32_t)stage_pid(0));
    register_guests(0, 2);
    assert_int_equal(stage_task(0).pid, stage_pid(0));
    a = do_poll(1);
    assert_waits(a);
    stage_kill(0);
    assert_says_so(a, MUSTER_UNAVAILABLE, "has ended without a shutdown");
    assert_says(a->text, "task 0 (pid ");
    counter_close();
}

/* The line goes first, and nothing is heard of the process any more. */
NEAR_TEST(a_process_outlives_its_line)
{
    const struct mu_coord_options o = {.lost_ns = 3600000000000u};

    counter_open(2, &o);
    line_of_process(0, (uint32_t)stage_pid(0));
    register_guests(0, 1);
    hang_up(0, "closed by its peer");
    stage_kill(0);
    assert_answer(do_register(0, INCARNATION(0)), MUSTER_OK); /* on another line */
    counter_turn();
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    counter_close();
}

COORD_TEST(who_has_left_may_hang_up)
{
    counter_open(2, NULL);
    register_guests(0, 2);
    assert_waits(do_poll(0));
    assert_answer(do_shutdown(0), MUSTER_OK);
    hang_up(0, "closed by its peer");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_DISCONNECTED);
    assert_answer(do_beat(1, INCARNATION(1)), MUSTER_OK);
    counter_close();
}

COORD_TEST(an_old_line_says_nothing_about_a_new_incarnation)
{
    struct asked *a;

    counter_open(3, NULL);
    register_guests(0, 2);
    do_poll(0);
    assert_answer(do_reset(0), MUSTER_OK);
    a = ask(2); /* another line */
    mu_coord_register(coord, &a->ask, 0, 7, false);
    assert_answer(a, MUSTER_OK);
    hang_up(0, "closed by its peer");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    counter_close();
}

/* Which a client must not do; it is its own harm. The line's end is one all the same. */
COORD_TEST(an_ask_that_was_used_again_while_it_waits_goes_with_its_line)
{
    struct asked *a;

    counter_open(2, NULL);
    a = do_get(0, "/first");
    mu_coord_get(coord, &a->ask, "/second", 7);
    assert_waits(a);
    hang_up(0, "closed by its peer");
    assert_answer(do_insert(1, "/first", "1", false), MUSTER_OK);
    assert_answer(do_insert(1, "/second", "2", false), MUSTER_OK);
    counter_turn();
    assert_waits(a); /* nobody answers it any more */
    counter_close();
}
