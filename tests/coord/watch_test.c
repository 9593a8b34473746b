/*
 * tests/coord/watch_test.c: the tasks' states, and which are alive: acceptance items 27 to 31, 75 to 81 and 278, in
 * their order, with guests and tasks of the C library.
 */
#include "counter.h"

#include <stdio.h>
#include <string.h>

#define assert_state(a, task, wanted_state, wanted_incarnation)                                                        \
    do {                                                                                                               \
        assert_int_equal((a)->tasks[task].task_id, (task));                                                            \
        assert_int_equal((a)->tasks[task].state, (wanted_state));                                                      \
        assert_int_equal((a)->tasks[task].incarnation, (wanted_incarnation));                                          \
    } while (0)

/* 27 */
COORD_TEST(a_first_watch_lists_all_tasks)
{
    struct asked *a;

    counter_open(3, NULL);
    register_guests(0, 2);
    a = do_watch(0, -1);
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->ask.num_tasks, 3);
    assert_state(a, 0, MUSTER_TASK_CONNECTED, INCARNATION(0));
    assert_state(a, 1, MUSTER_TASK_CONNECTED, INCARNATION(1));
    assert_state(a, 2, MUSTER_TASK_DISCONNECTED, 0);
    counter_close();
}

/* 28, 29 */
COORD_TEST(a_watch_shows_who_was_reset_and_came_again)
{
    struct asked *a;

    counter_open(2, NULL);
    register_guests(0, 2);
    assert_answer(do_reset(1), MUSTER_OK);
    a = do_watch(0, -1);
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->tasks[1].state, MUSTER_TASK_DISCONNECTED);
    assert_true(a->ask.version >= 0);
    assert_answer(do_register(1, 7), MUSTER_OK);
    a = do_watch(0, a->ask.version);
    assert_answer(a, MUSTER_OK);
    assert_state(a, 1, MUSTER_TASK_CONNECTED, 7);
    counter_close();
}

/* 30 */
NEAR_TEST(a_watch_of_the_present_waits_for_a_change)
{
    struct asked *a, *b, *c;

    counter_open(3, NULL);
    counter_enter(2);
    register_guests(0, 2);
    a = do_watch(0, -1);
    assert_answer(a, MUSTER_OK);
    b = do_watch(0, a->ask.version);
    c = do_watch(1, a->ask.version);
    assert_waits(b);
    assert_answer(do_beat(0, INCARNATION(0)), MUSTER_OK);
    assert_waits(b);
    assert_status(do_plain(0, act_leave), MUSTER_OK); /* a task of the library */
    assert_answer(b, MUSTER_OK);
    assert_answer(c, MUSTER_OK);
    assert_true(b->ask.version > a->ask.version);
    assert_int_equal(b->tasks[2].state, MUSTER_TASK_DISCONNECTED);
    counter_close();
}

/* 31 */
COORD_TEST(two_changes_between_watches_are_one_answer)
{
    struct asked *a, *b;

    counter_open(2, NULL);
    register_guests(0, 2);
    a = do_watch(0, -1);
    assert_answer(do_reset(1), MUSTER_OK);
    assert_answer(do_register(1, 7), MUSTER_OK);
    b = do_watch(0, a->ask.version);
    assert_true(b->answered);
    assert_answer(b, MUSTER_OK);
    assert_true(b->ask.version > a->ask.version + 1);
    assert_state(b, 1, MUSTER_TASK_CONNECTED, 7);
    counter_close();
}

COORD_TEST(an_error_is_shown_with_its_words)
{
    struct asked *a, *b;

    counter_open(2, NULL);
    register_guests(0, 2);
    assert_waits(do_poll(0));
    a = do_watch(0, -1);
    b = do_watch(0, a->ask.version);
    assert_answer(do_report_error(1, MUSTER_DATA_LOSS, "bits fell off"), MUSTER_OK);
    assert_answer(b, MUSTER_OK);
    assert_int_equal(b->tasks[1].state, MUSTER_TASK_ERROR);
    assert_int_equal(b->tasks[1].error, MUSTER_DATA_LOSS);
    assert_string_equal(b->tasks[1].message, "bits fell off");
    counter_close();
}

/* 2.17, 278: a version from the future is an error, and crashes nobody */
COORD_TEST(a_version_from_the_future_is_refused)
{
    struct asked *a;

    counter_open(1, NULL);
    register_guests(0, 1);
    assert_says_so(do_watch(0, 1000), MUSTER_INVALID_ARGUMENT, "from the future");
    assert_answer(do_watch(0, INT64_MAX), MUSTER_INVALID_ARGUMENT);
    a = do_watch(0, INT64_MIN);
    assert_answer(a, MUSTER_OK);
    assert_waits(do_watch(0, a->ask.version));
    counter_close();
}

/* 2.12: a stop ends watches in good order */
COORD_TEST(a_stop_ends_watches_with_nothing)
{
    struct asked *a, *b;

    counter_open(1, NULL);
    register_guests(0, 1);
    a = do_watch(0, -1);
    b = do_watch(0, a->ask.version);
    assert_waits(b);
    mu_coord_stop(coord);
    assert_answer(b, MUSTER_OK);
    assert_int_equal(b->ask.num_tasks, 0);
    assert_int_equal(b->ask.version, -1);
    assert_answer(do_watch(0, -1), MUSTER_INTERNAL);
    counter_close();
}

/* 2.17, 278: an unknown task is an error, and crashes nobody */
COORD_TEST(states_of_some_tasks)
{
    static const int32_t some[] = {1, 0, 1}, bad[] = {0, 2}, worse[] = {-1};
    struct asked *a;

    counter_open(2, NULL);
    register_guests(1, 1);
    a = ask(0);
    mu_coord_state(coord, &a->ask, some, 3);
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->ask.num_tasks, 3);
    assert_int_equal(a->tasks[0].task_id, 1);
    assert_int_equal(a->tasks[0].state, MUSTER_TASK_CONNECTED);
    assert_int_equal(a->tasks[1].task_id, 0);
    assert_int_equal(a->tasks[1].state, MUSTER_TASK_DISCONNECTED);
    a = ask(0);
    mu_coord_state(coord, &a->ask, bad, 2);
    assert_says_so(a, MUSTER_INVALID_ARGUMENT, "Unexpected task (2) that is not in the cluster");
    a = ask(0);
    mu_coord_state(coord, &a->ask, worse, 1);
    assert_answer(a, MUSTER_INVALID_ARGUMENT);
    counter_close();
}

/* ---- who is alive ---- */

static const int32_t all[] = {0, 1, 2}, low[] = {0, 1}, high[] = {1, 2};

/* The answer is exactly these tasks, with their incarnations. */
static void assert_alive(struct asked *a, const int32_t *tasks, size_t count)
{
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->ask.num_alive, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(a->alive[i], tasks[i]);
        assert_int_equal(a->incarnations[i], stage_task(tasks[i]).incarnation);
    }
}

/* 75 */
COORD_TEST(all_three_ask_and_hear_of_three)
{
    struct asked *a[3];

    counter_open(3, NULL);
    register_guests(0, 3);
    for (int i = 0; i < 3; i++) {
        if (i)
            assert_waits(a[i - 1]);
        a[i] = do_alive(i, all, 3);
    }
    for (int i = 0; i < 3; i++)
        assert_alive(a[i], all, 3);
    counter_close();
}

/* 76 */
COORD_TEST(who_failed_before_is_not_waited_for)
{
    struct asked *a, *b;

    counter_open(3, NULL);
    register_guests(0, 3);
    assert_waits(do_poll(0));
    assert_answer(do_report_error(2, MUSTER_INTERNAL, "x"), MUSTER_OK);
    a = do_alive(0, all, 3);
    b = do_alive(1, all, 3);
    assert_alive(a, low, 2);
    assert_alive(b, low, 2);
    counter_close();
}

/* 77 */
COORD_TEST(who_fails_meanwhile_is_not_in_the_answer)
{
    struct asked *a, *b;

    counter_open(3, NULL);
    register_guests(0, 3);
    assert_waits(do_poll(0));
    a = do_alive(0, all, 3);
    b = do_alive(1, all, 3);
    assert_waits(b);
    assert_answer(do_report_error(2, MUSTER_INTERNAL, "x"), MUSTER_OK);
    assert_alive(a, low, 2);
    assert_alive(b, low, 2);
    counter_close();
}

/* 78 */
COORD_TEST(overlapping_sets_get_each_its_own_answer)
{
    struct asked *a, *b;

    counter_open(3, NULL);
    register_guests(0, 3);
    a = do_alive(0, low, 2);
    b = do_alive(2, high, 2);
    assert_alive(do_alive(1, high, 2), high, 2);
    assert_alive(b, high, 2);
    assert_waits(a);
    assert_alive(do_alive(1, low, 2), low, 2);
    assert_alive(a, low, 2);
    counter_close();
}

/* 79 */
COORD_TEST(who_is_not_in_the_set_may_not_ask)
{
    static const int32_t bad[] = {0, 3};
    struct asked *a;

    counter_open(3, NULL);
    register_guests(0, 3);
    a = do_alive(2, low, 2);
    assert_says_so(a, MUSTER_INVALID_ARGUMENT, "task 2");
    assert_int_equal(a->ask.payload, MU_PAYLOAD_NONE);
    assert_answer(do_alive(0, bad, 2), MUSTER_INVALID_ARGUMENT);
    assert_answer(do_alive(0, NULL, 0), MUSTER_INVALID_ARGUMENT);
    assert_answer(do_alive(7, low, 2), MUSTER_INVALID_ARGUMENT);
    counter_close();
}

/* 80, 81 */
COORD_TEST(six_questions_by_three_tasks_are_all_answered)
{
    struct asked *a[6];

    counter_open(3, NULL);
    register_guests(0, 3);
    for (int i = 0; i < 3; i++) /* the leader has the records of all then: what it is asked now it hears in order */
        a[i] = do_alive(i, all, 3);
    for (int i = 0; i < 3; i++)
        assert_alive(a[i], all, 3);
    for (int round = 0; round < 20; round++) { /* the leader may hear of any number of them at once */
        for (int i = 0; i < 6; i++)
            a[i] = do_alive(i % 3, all, 3);
        for (int i = 0; i < 6; i++)
            assert_alive(a[i], all, 3);
    }
    for (int i = 0; i < 5; i++)
        a[i] = do_alive(i / 2, all, 3);
    for (int i = 0; i < 5; i++)
        assert_alive(a[i], all, 3);
    a[5] = do_alive(2, all, 3); /* begins another round */
    assert_waits(a[5]);
    do_alive(0, all, 3);
    do_alive(1, all, 3);
    assert_alive(a[5], all, 3);
    counter_close();
}

NEAR_TEST(guests_and_tasks_of_the_library_agree)
{
    struct alive_act act = {{0, 1}, 2};
    struct alive_answer heard;
    struct asked *a;
    struct reply r;

    counter_open(2, NULL);
    counter_enter(0);
    register_guests(1, 1);
    for (int round = 0; round < 20; round++) {
        stage_tell(0, act_alive, &act, sizeof act);
        if (round & 1)
            stage_until_waiting(0, "the tasks alive");
        a = do_alive(1, low, 2);
        assert_alive(a, low, 2);
        r = counter_hear(0);
        assert_status(r, MUSTER_OK);
        memcpy(&heard, r.data, sizeof heard);
        assert_int_equal(heard.count, 2);
        assert_int_equal(heard.incarnations[1], INCARNATION(1));
    }
    assert_waits(do_poll(1)); /* else the guest would be in error with the other */
    a = do_alive(1, low, 2);
    assert_waits(a);
    stage_kill(0);
    assert_alive(a, &low[1], 1);
    counter_close();
}

COORD_TEST(a_question_that_is_given_up_stands)
{
    struct asked *a;

    counter_open(2, NULL);
    register_guests(0, 2);
    a = do_alive(0, low, 2);
    mu_coord_drop(coord, &a->ask);
    assert_alive(do_alive(1, low, 2), low, 2);
    counter_close();
}

/* 2.17: a stop leaves nobody without an answer */
COORD_TEST(a_stop_ends_questions)
{
    struct asked *a;

    counter_open(2, NULL);
    register_guests(0, 2);
    a = do_alive(0, low, 2);
    assert_waits(a);
    mu_coord_stop(coord);
    assert_says_so(a, MUSTER_ABORTED, "shutting down");
    counter_close();
}

COORD_TEST(incarnation_zero_is_one_like_any)
{
    struct asked *a;

    counter_open(2, NULL);
    assert_answer(do_register(0, 0), MUSTER_OK);
    register_guests(1, 1);
    assert_answer(do_beat(0, 0), MUSTER_OK);
    a = do_alive(0, low, 2);
    assert_alive(do_alive(1, low, 2), low, 2);
    assert_alive(a, low, 2);
    counter_close();
}

/* A set's records are as many as the job's tasks: somebody's line bears them, and bears no more than is allowed. */
NEAR_TEST(questions_are_bounded_by_what_they_take)
{
    enum { TASKS = 4096, GUESTS = 200 };
    struct asked *a[GUESTS];
    int32_t set[] = {0, 0};
    int i = 0;

    counter_open(TASKS, NULL);
    register_guests(0, GUESTS);
    do {
        assert_in_range(++i, 1, GUESTS - 3);
        set[1] = i;
        a[i] = do_alive(0, set, 2);
    } while (!a[i]->answered);
    assert_says_so(a[i], MUSTER_RESOURCE_EXHAUSTED, "32 MiB");
    mu_coord_drop(coord, &a[1]->ask);
    set[1] = GUESTS - 1;
    assert_waits(do_alive(0, set, 2)); /* in its place */
    set[1] = 2;
    assert_alive(do_alive(2, set, 2), set, 2);
    assert_alive(a[2], set, 2);
    counter_close();
}
