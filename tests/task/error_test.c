/*
 * tests/task/error_test.c: errors, and how every task learns of them. Acceptance items 11 to 26 by meaning.
 */
#include "stage.h"

#include "segment/heap.h"

#include <stdio.h>
#include <string.h>

STAGE_TEST(only_the_first_error_of_a_task_counts)
{
    stage_open(2, NULL);
    stage_enter_all();
    assert_status(do_report(1, 1, MUSTER_INTERNAL, "first"), MUSTER_OK);
    assert_status(do_report(1, 1, MUSTER_ABORTED, "second"), MUSTER_FAILED_PRECONDITION);
    assert_status(do_report(0, 1, MUSTER_ABORTED, "third"), MUSTER_FAILED_PRECONDITION);
    assert_int_equal(stage_task(1).error, MUSTER_INTERNAL);
    assert_int_equal(stage_task(1).cause, MUSTER_CAUSE_REPORTED);
    assert_string_equal(stage_task(1).message, "first");
    stage_close();
}

STAGE_TEST(reporting_for_nobody_or_without_an_error_is_refused)
{
    stage_open(3, NULL);
    stage_enter(0, 0);
    stage_enter(1, 0);
    assert_status(do_report(0, 3, MUSTER_INTERNAL, "x"), MUSTER_INVALID_ARGUMENT);
    assert_status(do_report(0, -1, MUSTER_INTERNAL, "x"), MUSTER_INVALID_ARGUMENT);
    assert_status(do_report(0, 1, MUSTER_OK, "x"), MUSTER_INVALID_ARGUMENT);
    assert_status(do_report(0, 1, (enum muster_status)16, "x"), MUSTER_INVALID_ARGUMENT);
    assert_status(do_report(0, 2, MUSTER_INTERNAL, "x"), MUSTER_FAILED_PRECONDITION); /* never joined */
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    stage_close();
}

static int act_group_create(void *arg, struct reply *reply)
{
    struct muster_group *g;

    (void)reply;
    return muster_group_create(me, arg, NULL, 0, 0, MUSTER_FOREVER, &g);
}

/* Five tasks wait in five ways; the sixth reports. Each wait ends and names task 5. */
STAGE_TEST(every_kind_of_wait_ends_and_names_the_task_in_error)
{
    struct muster_error e;
    struct reply r;
    uint64_t version;

    stage_open(6, NULL);
    stage_enter_all();
    tell_text(0, act_kv_get, "never");
    tell_barrier(1, "all", 0);
    tell_text(2, act_group_create, "g");
    tell_plain(3, act_error_wait);
    assert_int_equal(muster_task_list(stage_observer, NULL, 0, NULL, &version), MUSTER_OK);
    stage_tell(4, act_watch, &version, sizeof version);
    stage_until_waiting(0, "key never");
    stage_until_waiting(1, "barrier all");
    stage_until_waiting(2, "the members of group g");
    stage_until_waiting(3, "an error of any task");
    stage_until_waiting(4, "a change of any task");
    for (int i = 0; i < 5; i++)
        assert_false(stage_has_answered(i));
    assert_status(do_report(5, 5, MUSTER_DATA_LOSS, "weights are NaN"), MUSTER_OK);

    r = stage_hear(0);
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "task 5");
    assert_says(r.text, "weights are NaN");
    r = stage_hear(1);
    assert_status(r, MUSTER_INTERNAL);
    assert_says(r.text, "task 5");
    assert_says(r.text, "weights are NaN");
    r = stage_hear(2);
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "task 5");
    assert_says(r.text, "weights are NaN");
    r = stage_hear(3);
    assert_status(r, MUSTER_OK);
    memcpy(&e, r.data, sizeof e);
    assert_int_equal(e.task_id, 5);
    assert_int_equal(e.code, MUSTER_DATA_LOSS);
    assert_int_equal(e.cause, MUSTER_CAUSE_REPORTED);
    assert_int_equal(e.pid, stage_pid(5));
    assert_string_equal(e.message, "weights are NaN");
    assert_status(stage_hear(4), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_wait_begun_after_the_error_ends_with_it_too)
{
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    assert_status(do_report(1, 1, MUSTER_INTERNAL, "gone bad"), MUSTER_OK);
    r = do_text(0, act_kv_get, "never");
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "gone bad");
    r = do_barrier(0, "all", 0);
    assert_status(r, MUSTER_INTERNAL);
    assert_says(r.text, "gone bad");
    assert_status(do_plain(0, act_error_wait), MUSTER_OK);
    /* what is there is still there for all to read */
    assert_status(do_text(0, act_kv_set, "left"), MUSTER_OK);
    assert_status(do_text(1, act_kv_get, "left"), MUSTER_OK);
    stage_close();
}

STAGE_TEST(the_first_error_stays_the_root_cause)
{
    struct muster_error e;

    stage_open(4, NULL);
    stage_enter_all();
    assert_status(do_report(2, 2, MUSTER_INTERNAL, "cause"), MUSTER_OK);
    assert_status(do_report(1, 1, MUSTER_ABORTED, "effect"), MUSTER_OK);
    assert_status(do_report(3, 3, MUSTER_ABORTED, "effect"), MUSTER_OK);
    for (int i = 0; i < 4; i++) {
        struct reply r = do_plain(i, act_error_wait);

        assert_status(r, MUSTER_OK);
        memcpy(&e, r.data, sizeof e);
        assert_int_equal(e.task_id, 2);
        assert_string_equal(e.message, "cause");
    }
    stage_close();
}

/* The root's word for the first error. */
static mu_a64 *first_error_word(void)
{
    struct muster_segment *seg = muster_segment_of(stage_observer);
    struct mu_block *b = mu_heap_block(seg, MU_WORD_INDEX(mu_load_relaxed(&seg->header->cluster)), NULL);

    return &b->body[MU_META_REFS(mu_load_relaxed(&b->meta)) + 1];
}

STAGE_TEST(a_root_that_names_a_task_without_an_error_is_no_error_and_no_endless_loop)
{
    struct muster_error e;

    stage_open(2, NULL);
    stage_enter_all();
    mu_store_relaxed(first_error_word(), 2); /* as if damaged: task 1 is well */
    assert_int_equal(muster_error_wait(stage_observer, muster_after_ms(20), &e), MUSTER_DEADLINE_EXCEEDED);
    mu_store_relaxed(first_error_word(), 700);
    assert_int_equal(muster_error_wait(stage_observer, muster_after_ms(20), &e), MUSTER_DATA_LOSS);
    mu_store_relaxed(first_error_word(), 0);
    stage_close();
}

STAGE_TEST(when_the_first_error_is_reset_another_one_is_told)
{
    struct muster_error e;
    struct reply r;
    int32_t id = 2;

    stage_open(20, NULL); /* more than one block of records */
    stage_enter(0, 0);
    stage_enter(2, 0);
    stage_enter(18, 0);
    assert_status(do_report(1, 2, MUSTER_INTERNAL, "cause"), MUSTER_OK);
    assert_status(do_report(2, 18, MUSTER_INTERNAL, "other"), MUSTER_OK);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_status(stage_do(0, act_reset, &id, sizeof id), MUSTER_OK);
    r = do_plain(0, act_error_wait);
    assert_status(r, MUSTER_OK);
    memcpy(&e, r.data, sizeof e);
    assert_int_equal(e.task_id, 18);
    assert_status(do_plain(2, act_leave), MUSTER_OK);
    id = 18;
    assert_status(stage_do(0, act_reset, &id, sizeof id), MUSTER_OK);
    assert_int_equal(muster_error_wait(stage_observer, 0, &e), MUSTER_DEADLINE_EXCEEDED);
    tell_text(0, act_kv_get, "k"); /* waiting is possible again */
    stage_until_waiting(0, "key k");
    assert_int_equal(muster_kv_set(stage_observer, "k", MUSTER_NTS, "v", 1, NULL), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    stage_close();
}

/* Items 24, 25. */
STAGE_TEST(a_recoverable_tasks_error_ends_only_the_waits_that_need_it)
{
    struct barrier_act two = {.id = "two", .tasks = {0, 1}, .count = 2};
    struct muster_error e;
    struct reply r;

    stage_open(5, NULL);
    for (int i = 0; i < 5; i++)
        stage_enter(i, i == 4 ? MUSTER_JOIN_RECOVERABLE : 0);
    stage_tell(0, act_barrier, &two, sizeof two);
    tell_text(2, act_kv_get, "k");
    tell_text(3, act_group_create, "g");
    stage_until_waiting(0, "barrier two");
    stage_until_waiting(2, "key k");
    stage_until_waiting(3, "the members of group g");
    assert_status(do_report(4, 4, MUSTER_INTERNAL, "flaky"), MUSTER_OK);
    r = stage_hear(3); /* the group needs it */
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "task 4");
    assert_int_equal(muster_error_wait(stage_observer, 0, &e), MUSTER_DEADLINE_EXCEEDED);
    stage_until_waiting(0, "barrier two");
    stage_until_waiting(2, "key k");
    assert_false(stage_has_answered(0));
    assert_false(stage_has_answered(2));
    assert_status(stage_do(1, act_barrier, &two, sizeof two), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    assert_status(do_text(1, act_kv_set, "k"), MUSTER_OK);
    assert_status(stage_hear(2), MUSTER_OK);
    stage_close();
}

/* Item 26. */
STAGE_TEST(a_recoverable_task_reports_is_reset_and_joins_with_a_new_incarnation)
{
    struct join_act a = {.task = 1, .flags = MUSTER_JOIN_RECOVERABLE, .incarnation = 5};
    struct beat_act beat = {.task = 1};
    int32_t one = 1;

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    beat.incarnation = stage_task(1).incarnation;
    assert_status(do_report(1, 1, MUSTER_INTERNAL, "flaky"), MUSTER_OK);
    assert_status(stage_do(0, act_beat, &beat, sizeof beat), MUSTER_ABORTED);
    assert_status(stage_do(1, act_reset, &one, sizeof one), MUSTER_OK);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_status(stage_do(1, act_join, &a, sizeof a), MUSTER_OK);
    beat.incarnation = 5;
    assert_status(stage_do(0, act_beat, &beat, sizeof beat), MUSTER_OK);
    stage_close();
}

static int act_interrupted_wait(void *arg, struct reply *reply)
{
    int status;

    muster_interrupt(me);
    status = act_kv_get(arg, reply);
    muster_resume(me);
    return status;
}

STAGE_TEST(an_interrupted_wait_is_cancelled_and_resume_lets_waits_wait_again)
{
    stage_open(2, NULL);
    stage_enter_all();
    assert_status(do_text(0, act_interrupted_wait, "k"), MUSTER_CANCELLED);
    tell_text(0, act_kv_get, "k");
    stage_until_waiting(0, "key k");
    assert_status(do_text(1, act_kv_set, "k"), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    stage_close();
}

static void assert_removed(struct reply r)
{
    assert_status(r, MUSTER_CANCELLED);
    assert_non_null(strstr(r.text, "was removed by 'muster segment rm --force'"));
}

STAGE_TEST(closing_the_job_cancels_every_wait)
{
    stage_open(4, NULL);
    stage_enter_all();
    tell_text(0, act_kv_get, "never");
    tell_barrier(1, "all", 0);
    tell_plain(2, act_error_wait);
    stage_until_waiting(0, "key never");
    stage_until_waiting(1, "barrier all");
    stage_until_waiting(2, "an error of any task");
    assert_int_equal(muster_segment_remove(stage_job), MUSTER_OK);
    for (int i = 0; i < 3; i++)
        assert_removed(stage_hear(i));
    for (int i = 0; i < 4; i++)
        assert_status(do_plain(i, act_leave), MUSTER_OK);
}

/* What is written in a segment without a name, nobody finds. */
STAGE_TEST(no_call_succeeds_in_a_segment_that_was_removed)
{
    stage_open(2, NULL);
    stage_enter_all();
    assert_status(do_text(0, act_kv_set, "k"), MUSTER_OK);
    assert_int_equal(muster_segment_remove(stage_job), MUSTER_OK);
    assert_removed(do_text(0, act_kv_set, "k"));
    assert_removed(do_text(1, act_kv_set, "new"));
    assert_removed(do_text(1, act_kv_get, "k"));
    assert_removed(do_plain(0, act_error_wait));
    for (int i = 0; i < 2; i++)
        assert_status(do_plain(i, act_leave), MUSTER_OK);
}
