/*
 * tests/coord/barrier_test.c: named barriers as guests call them, beyond the rules of scenarios_test.c: acceptance
 * items 49 to 61; what the reference does wrong; and barriers of guests and tasks of the C library together.
 */
#include "counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int32_t outside[] = {0, 1, 3};

/* The answer of a barrier: its instance, and what comes with an error. */
#define assert_met(a, status, count)                                                                                   \
    do {                                                                                                               \
        struct asked *met = (a);                                                                                       \
        assert_answer(met, (status));                                                                                  \
        assert_int_equal(met->ask.counter, (count));                                                                   \
        assert_int_equal(met->ask.payload, (status) ? MU_PAYLOAD_BARRIER : MU_PAYLOAD_NONE);                           \
        assert_string_equal(met->barrier_id, "b");                                                                     \
    } while (0)

/* 49, 279; 2.17: nor does one of a task that is none of the job's leave anything behind */
COORD_TEST(tasks_outside_of_the_cluster_are_refused)
{
    struct asked *a;

    counter_open(2, NULL);
    assert_says_so(do_meet_some(0, "b", 0, outside, 3), MUSTER_INVALID_ARGUMENT, "not in the cluster");
    a = do_meet(0, "b", 0);
    assert_waits(a);
    assert_says_so(do_meet(2, "b", 0), MUSTER_INVALID_ARGUMENT, "not in the cluster");
    assert_waits(a);
    assert_answer(do_cancel(2, "b", 0), MUSTER_INVALID_ARGUMENT);
    assert_waits(a);
    assert_met(do_meet(1, "b", 0), MUSTER_OK, 0);
    assert_met(a, MUSTER_OK, 0);
    counter_close();
}

/* 50 */
COORD_TEST(whoever_waits_when_it_times_out_is_told_the_same)
{
    struct asked *a, *b;

    counter_open(3, NULL);
    a = do_meet_for(1, "b", 0, 1500);
    b = do_meet_for(0, "b", 0, 60000); /* the first caller's counts */
    assert_met(a, MUSTER_DEADLINE_EXCEEDED, 0);
    assert_met(b, MUSTER_DEADLINE_EXCEEDED, 0);
    assert_string_equal(a->text, b->text);
    assert_says(a->text, "Barrier timed out. Id: b::0");
    assert_says(a->text, "# of tasks that reached the barrier: 2/3");
    assert_says(a->text, "The first task at the barrier: 1");
    assert_says(a->text, "task 2");
    assert_met(do_meet(2, "b", 0), MUSTER_DEADLINE_EXCEEDED, 0); /* the straggler */
    a = do_meet(0, "b", 1);
    b = do_meet(1, "b", 1);
    assert_met(do_meet(2, "b", 1), MUSTER_OK, 1);
    assert_met(a, MUSTER_OK, 1);
    assert_met(b, MUSTER_OK, 1);
    counter_close();
}

/* 52, 58 */
COORD_TEST(instances_follow_each_other)
{
    struct asked *a;

    counter_open(2, NULL);
    for (int64_t k = 0; k < 20; k++) {
        a = do_meet(k & 1, "b", k);
        assert_waits(a);
        assert_met(do_meet(!(k & 1), "b", k), MUSTER_OK, k);
        assert_met(a, MUSTER_OK, k);
        a = do_meet(0, "b", k);
        assert_met(a, MUSTER_OK, k);
        assert_true(a->ask.replayed);
    }
    counter_close();
}

/* 54, 107, 109 */
COORD_TEST(instances_that_are_not_due_are_refused)
{
    counter_open(1, NULL);
    assert_says_so(do_meet(0, "b", 1), MUSTER_INTERNAL, "restarted"); /* as the service did, for all that it knows */
    assert_met(do_meet(0, "b", 1), MUSTER_INTERNAL, 0);
    assert_met(do_meet(0, "b", 0), MUSTER_OK, 0);
    assert_met(do_meet(0, "b", 0), MUSTER_OK, 0);
    assert_met(do_meet(0, "b", -1), MUSTER_INTERNAL, 0);
    assert_met(do_meet(0, "b", 2), MUSTER_INTERNAL, 0);
    assert_met(do_meet(0, "b", INT64_MAX), MUSTER_INTERNAL, 0);
    assert_met(do_meet(0, "b", INT64_MIN), MUSTER_INTERNAL, 0);
    assert_says_so(do_meet(0, "b", -1), MUSTER_INTERNAL, "(b::-1)"); /* as the client counts */
    assert_says_so(do_cancel(0, "b", -2), MUSTER_FAILED_PRECONDITION, "b::-2 ");
    assert_answer(do_cancel(0, "b", -1), MUSTER_FAILED_PRECONDITION);
    assert_met(do_meet(0, "b", 1), MUSTER_OK, 1);
    assert_met(do_meet(0, "b", 2), MUSTER_OK, 2);
    assert_says_so(do_meet(0, "b", 0), MUSTER_INTERNAL, "restarted");
    assert_says_so(do_meet(0, "b", 1), MUSTER_INTERNAL, "too quick / slow");
    counter_close();
}

/* 61, 276 */
COORD_TEST(a_later_call_of_a_task_takes_the_place_of_its_earlier_one)
{
    struct asked *a, *b;

    counter_open(2, NULL);
    a = do_meet(0, "b", 0);
    b = do_meet(0, "b", 0);
    assert_says_so(a, MUSTER_CANCELLED, "more recent barrier call");
    assert_int_equal(a->ask.payload, MU_PAYLOAD_NONE);
    assert_waits(b);
    assert_met(do_meet(1, "b", 0), MUSTER_OK, 0);
    assert_met(b, MUSTER_OK, 0);
    counter_close();
}

COORD_TEST(who_gives_up_stays_arrived)
{
    struct asked *a;

    counter_open(2, NULL);
    a = do_meet(0, "b", 0);
    mu_coord_drop(coord, &a->ask);
    assert_met(do_meet(1, "b", 0), MUSTER_OK, 0);
    a = do_meet(0, "b", 1);
    assert_waits(a);
    hang_up(0, "closed by its peer");
    assert_met(do_meet(1, "b", 1), MUSTER_OK, 1);
    assert_met(do_meet(0, "b", 1), MUSTER_OK, 1); /* and is told when it asks again */
    counter_close();
}

NEAR_TEST(guests_and_tasks_of_the_library_meet)
{
    struct asked *a;

    counter_open(2, NULL);
    counter_enter(0);
    a = do_meet(1, "b", 0);
    assert_waits(a);
    assert_status(do_barrier(0, "b", 0), MUSTER_OK);
    assert_met(a, MUSTER_OK, 0);
    tell_barrier(0, "b", 1);
    stage_until_waiting(0, "barrier b::1");
    assert_met(do_meet(1, "b", 1), MUSTER_OK, 1);
    assert_status(stage_hear(0), MUSTER_OK);
    counter_close();
}

NEAR_TEST(a_task_of_the_library_that_is_killed_ends_the_guests_wait)
{
    struct asked *a;

    counter_open(2, NULL);
    counter_enter(0);
    a = do_meet(1, "b", 0);
    assert_waits(a);
    stage_kill(0);
    assert_says_so(a, MUSTER_INTERNAL, "Barrier failed because: task 0");
    assert_met(a, MUSTER_INTERNAL, 0);
    counter_close();
}

NEAR_TEST(a_task_of_the_library_waits_for_a_guest_no_longer_than_the_barrier)
{
    struct barrier_act b = {.id = "b", .timeout_ns = 300000000};
    struct reply r;

    counter_open(3, NULL);
    counter_enter(0);
    stage_tell(0, act_barrier, &b, sizeof b);
    stage_until_waiting(0, "barrier b::0");
    assert_met(do_meet_for(1, "b", 0, 60000), MUSTER_DEADLINE_EXCEEDED, 0);
    r = counter_hear(0);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_says(r.text, "Barrier timed out");
    counter_close();
}

/* 120, 277 */
COORD_TEST(words_are_bounded_when_thousands_are_missing)
{
    struct asked *a;

    counter_open(8192, NULL);
    a = do_meet_for(4711, "b", 0, 300);
    assert_met(a, MUSTER_DEADLINE_EXCEEDED, 0);
    assert_says(a->text, "1/8192");
    assert_true(strlen(a->text) < 2000);
    counter_close();
}

COORD_TEST(many_barriers_wait_side_by_side)
{
    enum { N = 1000 };
    static struct asked *a[N];
    char id[24];

    counter_open(2, NULL);
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof id, "many-%d", i);
        a[i] = do_meet(0, id, 0);
    }
    for (int i = 0; i < N; i++)
        assert_false(a[i]->answered);
    for (int i = N - 1; i >= 0; i--) {
        snprintf(id, sizeof id, "many-%d", i);
        assert_answer(do_meet(1, id, 0), MUSTER_OK);
        assert_true(a[i]->answered);
        assert_int_equal(a[i]->ask.status, MUSTER_OK);
        assert_string_equal(a[i]->barrier_id, id);
    }
    counter_close();
}

COORD_TEST(bad_ids_are_refused_in_words)
{
    static char id[(1 << 20) + 2];
    struct asked *a;

    counter_open(1, NULL);
    memset(id, 'x', sizeof id - 1);
    assert_says_so(do_meet(0, id, 0), MUSTER_INVALID_ARGUMENT, "1048577 bytes");
    assert_answer(do_meet(0, id + 1, 0), MUSTER_OK);
    assert_answer(do_meet(0, "", 0), MUSTER_OK);
    a = ask(0);
    mu_coord_barrier(coord, &a->ask, 0, "a\0b", 3, 1000, NULL, 0, 0);
    assert_answer(a, MUSTER_OK);
    counter_close();
}

NEAR_TEST(a_stop_ends_what_guests_wait_for_and_nobody_elses_wait)
{
    struct asked *a;

    counter_open(2, NULL);
    counter_enter(0);
    a = do_meet(1, "b", 0);
    tell_barrier(0, "c", 0);
    stage_until_waiting(0, "barrier c");
    mu_coord_stop(coord);
    assert_says_so(a, MUSTER_ABORTED, "Barrier failed because service is shutting down. Barrier_id: b::0");
    assert_says_so(do_meet(1, "b", 0), MUSTER_INTERNAL, "requested after coordination service has shut down.");
    assert_answer(do_cancel(1, "b", 0), MUSTER_INTERNAL);
    counter_reopen(NULL);
    assert_answer(do_meet(1, "c", 0), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    counter_close();
}
