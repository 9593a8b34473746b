/*
 * tests/task/heartbeat_test.c: heartbeats by hand, by thread and on behalf of others; a stopped task.
 * Acceptance items 1, 2, 5, 6, 13 by meaning. The timeout is short, and every test waits for the state, not the time.
 */
#include "stage.h"

#include "segment/segment.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int act_beat_self(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    return muster_heartbeat(me);
}

static void open_with_timeout(uint32_t tasks, uint64_t timeout_ns)
{
    struct muster_segment_config c = {
        .num_buckets = 1024, .num_events = 64, .heap_bytes = 64u << 20, .heartbeat_timeout_ns = timeout_ns};

    stage_open(tasks, &c);
}

STAGE_TEST(a_beat_by_hand_moves_the_tasks_counter_by_one)
{
    stage_open(1, NULL);
    stage_enter(0, MUSTER_JOIN_NO_HEARTBEAT);
    assert_int_equal(stage_task(0).heartbeats, 0);
    for (uint64_t i = 1; i <= 5; i++) {
        assert_status(do_plain(0, act_beat_self), MUSTER_OK);
        assert_int_equal(stage_task(0).heartbeats, i);
    }
    assert_int_equal(muster_heartbeat(stage_observer), MUSTER_FAILED_PRECONDITION);
    stage_close();
}

STAGE_TEST(the_thread_beats_by_itself)
{
    struct join_act a = {.task = 0, .period_ns = 1000000};
    uint64_t wanted;

    stage_open(1, NULL);
    stage_player();
    assert_status(stage_do(0, act_join, &a, sizeof a), MUSTER_OK);
    wanted = stage_task(0).heartbeats + 20;
    await(stage_task(0).heartbeats >= wanted, "20 heartbeats");
    stage_close();
}

STAGE_TEST(a_beat_for_an_unknown_or_unregistered_task_is_refused)
{
    struct beat_act b = {.task = 2, .incarnation = 1};

    stage_open(2, NULL);
    stage_enter(0, 0);
    assert_status(stage_do(0, act_beat, &b, sizeof b), MUSTER_INVALID_ARGUMENT);
    b.task = -1;
    assert_status(stage_do(0, act_beat, &b, sizeof b), MUSTER_INVALID_ARGUMENT);
    b.task = 1;
    assert_status(stage_do(0, act_beat, &b, sizeof b), MUSTER_INVALID_ARGUMENT);
    b.task = 0;
    b.incarnation = stage_task(0).incarnation;
    assert_status(stage_do(0, act_beat, &b, sizeof b), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_beat_for_another_counts_and_changes_nothing_else)
{
    struct beat_act b = {.task = 1};
    uint64_t before, after;
    uint32_t epoch;

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_NO_HEARTBEAT);
    b.incarnation = stage_task(1).incarnation;
    assert_int_equal(muster_task_list(stage_observer, NULL, 0, NULL, &before), MUSTER_OK);
    epoch = muster_segment_of(stage_observer)->header->epoch;
    for (uint64_t i = 1; i <= 5; i++) {
        assert_status(stage_do(0, act_beat, &b, sizeof b), MUSTER_OK);
        assert_int_equal(stage_task(1).heartbeats, i);
    }
    assert_int_equal(muster_task_list(stage_observer, NULL, 0, NULL, &after), MUSTER_OK);
    assert_int_equal(after, before);
    assert_int_equal(muster_segment_of(stage_observer)->header->epoch, epoch);
    stage_close();
}

STAGE_TEST(a_beat_of_a_stale_incarnation_is_aborted_and_sets_the_task_in_error)
{
    struct beat_act b = {.task = 1};
    struct muster_error e;

    stage_open(2, NULL);
    stage_enter_all();
    b.incarnation = stage_task(1).incarnation + 1;
    assert_status(stage_do(0, act_beat, &b, sizeof b), MUSTER_ABORTED);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_ERROR);
    assert_int_equal(stage_task(1).cause, MUSTER_CAUSE_RESTARTED);
    assert_int_equal(muster_error_wait(stage_observer, MUSTER_FOREVER, &e), MUSTER_OK);
    assert_int_equal(e.task_id, 1);
    assert_int_equal(e.code, MUSTER_ABORTED);
    b.incarnation--;
    assert_status(stage_do(0, act_beat, &b, sizeof b), MUSTER_ABORTED); /* in error now */
    stage_close();
}

STAGE_TEST(a_stale_beat_for_a_recoverable_task_harms_nobody)
{
    struct beat_act b = {.task = 1};

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    b.incarnation = stage_task(1).incarnation + 1;
    assert_status(stage_do(0, act_beat, &b, sizeof b), MUSTER_OK);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    stage_close();
}

/* It is found silent, keeps all that it holds, and when it goes on it learns what happened. */
STAGE_TEST(a_stopped_task_is_in_error_is_not_scavenged_and_learns_of_it)
{
    struct muster_task_info i;
    struct reply r;
    struct muster_error e;
    size_t deaths = 1;

    open_with_timeout(2, 400000000);
    stage_enter_all();
    tell_text(1, act_kv_get, "never");
    stage_until_waiting(1, "key never");
    tell_text(0, act_kv_get, "never");
    stage_signal(1, SIGSTOP);
    r = stage_hear(0);
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "task 1");
    i = stage_task(1);
    assert_int_equal(i.state, MUSTER_TASK_ERROR);
    assert_int_equal(i.cause, MUSTER_CAUSE_HEARTBEAT);
    assert_int_equal(i.error, MUSTER_UNAVAILABLE);
    assert_int_equal(muster_scavenge(stage_observer, &deaths), MUSTER_OK);
    assert_int_equal(deaths, 0); /* only the kernel declares death */
    assert_true(stage_task(1).alive);
    stage_signal(1, SIGCONT);
    r = stage_hear(1); /* its own wait ends: it is the one in error */
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "task 1");
    r = do_plain(1, act_error_wait);
    assert_status(r, MUSTER_OK);
    memcpy(&e, r.data, sizeof e);
    assert_int_equal(e.task_id, 1);
    assert_status(do_text(1, act_kv_set, "k"), MUSTER_OK); /* its slots are its own still */
    stage_close();
}

STAGE_TEST(without_its_thread_a_task_that_does_not_beat_is_found_by_its_peers)
{
    open_with_timeout(2, 300000000);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_NO_HEARTBEAT);
    stage_until_state(1, MUSTER_TASK_ERROR);
    assert_int_equal(stage_task(1).cause, MUSTER_CAUSE_HEARTBEAT);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    stage_close();
}

STAGE_TEST(a_stopped_recoverable_task_disturbs_nobody_else)
{
    open_with_timeout(2, 300000000);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    tell_text(0, act_kv_get, "k");
    stage_signal(1, SIGSTOP);
    stage_until_state(1, MUSTER_TASK_ERROR);
    stage_until_waiting(0, "key k");
    assert_false(stage_has_answered(0));
    stage_signal(1, SIGCONT);
    assert_status(do_text(1, act_kv_set, "k"), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    stage_close();
}
