/*
 * tests/task/watch_test.c: looking at all tasks, and waiting for a change by version. Acceptance items 27 to 31.
 */
#include "stage.h"

#include <string.h>

struct answer {
    uint64_t version;
    struct muster_task_info infos[2];
};

static struct answer answer_of(struct reply r)
{
    struct answer a;

    assert_status(r, MUSTER_OK);
    assert_int_equal(r.len, sizeof a);
    memcpy(&a, r.data, sizeof a);
    return a;
}

static struct answer watch(int player, uint64_t version)
{
    return answer_of(stage_do(player, act_watch, &version, sizeof version));
}

STAGE_TEST(version_0_answers_at_once_with_every_task)
{
    struct answer a;

    stage_open(2, NULL);
    stage_enter_all();
    a = watch(0, 0);
    assert_true(a.version >= 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(a.infos[i].task_id, i);
        assert_int_equal(a.infos[i].state, MUSTER_TASK_CONNECTED);
        assert_int_equal(a.infos[i].pid, stage_pid(i));
    }
    assert_true(a.infos[0].incarnation != a.infos[1].incarnation);
    stage_close();
}

STAGE_TEST(a_watch_at_the_present_version_waits_for_a_change)
{
    struct answer a, b;

    stage_open(2, NULL);
    stage_enter_all();
    a = watch(0, 0);
    stage_tell(0, act_watch, &a.version, sizeof a.version);
    stage_until_waiting(0, "a change of any task's state");
    assert_false(stage_has_answered(0));
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    b = answer_of(stage_hear(0));
    assert_int_equal(b.version, a.version + 1);
    assert_int_equal(b.infos[1].state, MUSTER_TASK_DISCONNECTED);
    stage_close();
}

STAGE_TEST(two_changes_between_watches_are_seen_as_their_final_state)
{
    struct join_act j = {.task = 1, .incarnation = 4711};
    struct answer a, b;

    stage_open(2, NULL);
    stage_enter_all();
    a = watch(0, 0);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_status(stage_do(1, act_join, &j, sizeof j), MUSTER_OK);
    b = watch(0, a.version);
    assert_int_equal(b.version, a.version + 2);
    assert_int_equal(b.infos[1].state, MUSTER_TASK_CONNECTED);
    assert_int_equal(b.infos[1].incarnation, 4711);
    stage_close();
}

STAGE_TEST(a_version_from_the_future_is_refused)
{
    uint64_t future;
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    future = watch(0, 0).version + 1;
    r = stage_do(0, act_watch, &future, sizeof future);
    assert_status(r, MUSTER_INVALID_ARGUMENT);
    assert_says(r.text, "future");
    future = UINT64_MAX;
    assert_status(stage_do(0, act_watch, &future, sizeof future), MUSTER_INVALID_ARGUMENT);
    stage_close();
}

STAGE_TEST(a_change_that_is_no_change_leaves_the_version)
{
    uint64_t before, after;
    int32_t one = 1;

    stage_open(3, NULL);
    stage_enter(0, 0);
    assert_int_equal(muster_task_list(stage_observer, NULL, 0, NULL, &before), MUSTER_OK);
    assert_status(stage_do(0, act_reset, &one, sizeof one), MUSTER_FAILED_PRECONDITION);
    assert_status(do_report(0, 1, MUSTER_INTERNAL, "x"), MUSTER_FAILED_PRECONDITION);
    assert_int_equal(muster_task_list(stage_observer, NULL, 0, NULL, &after), MUSTER_OK);
    assert_int_equal(before, after);
    stage_close();
}

STAGE_TEST(a_past_deadline_asks_without_waiting)
{
    uint64_t version;

    stage_open(2, NULL);
    stage_enter_all();
    version = watch(0, 0).version;
    assert_int_equal(muster_task_watch(stage_observer, version, 1, NULL, 0, NULL, NULL), MUSTER_DEADLINE_EXCEEDED);
    assert_int_equal(muster_task_watch(stage_observer, version - 1, 1, NULL, 0, NULL, &version), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_list_says_how_many_tasks_there_are_whatever_fits)
{
    struct muster_task_info infos[3];
    size_t count = 0;

    stage_open(20, NULL);
    stage_enter(0, 0);
    stage_enter(17, 0);
    memset(infos, 0xee, sizeof infos);
    assert_int_equal(muster_task_list(stage_observer, infos, 2, &count, NULL), MUSTER_OK);
    assert_int_equal(count, 20);
    assert_int_equal(infos[1].task_id, 1);
    assert_int_equal(infos[2].task_id, (int32_t)0xeeeeeeee); /* untouched */
    assert_int_equal(stage_task(17).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(muster_task_get(stage_observer, 20, infos), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(muster_task_get(stage_observer, -1, infos), MUSTER_INVALID_ARGUMENT);
    stage_close();
}

STAGE_TEST(a_read_only_reader_sees_tasks_and_waits_for_changes_too)
{
    struct muster_options o;
    struct muster *reader;
    struct muster_task_info infos[2];
    uint64_t version, now;

    stage_open(2, NULL);
    stage_enter_all();
    muster_options_init(&o);
    o.job = stage_job;
    o.flags = MUSTER_JOIN_READ_ONLY;
    assert_int_equal(muster_join(&o, &reader), MUSTER_OK);
    assert_int_equal(muster_task_list(reader, infos, 2, NULL, &version), MUSTER_OK);
    tell_plain(1, act_leave);
    assert_int_equal(muster_task_watch(reader, version, MUSTER_FOREVER, infos, 2, NULL, &now), MUSTER_OK);
    assert_int_equal(now, version + 1);
    assert_int_equal(infos[1].state, MUSTER_TASK_DISCONNECTED);
    assert_status(stage_hear(1), MUSTER_OK);
    assert_int_equal(muster_error_report(reader, 0, MUSTER_INTERNAL, "x"), MUSTER_PERMISSION_DENIED);
    assert_int_equal(muster_leave(reader), MUSTER_OK);
    stage_close();
}
