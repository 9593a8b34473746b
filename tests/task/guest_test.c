/*
 * tests/task/guest_test.c: tasks that speak through an agent: how they come, go and are lost. The director is the
 * agent.
 */
#include "guests.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/handle.h"
#include "task/task.h"

STAGE_TEST(a_guest_is_a_task_like_others)
{
    struct muster_task_info i;

    guests_open(2);
    assert_int_equal(guest_comes(&(struct mu_client){.task = 1, .incarnation = INCARNATION, .pid = (uint32_t)getpid()}),
                     MUSTER_OK);
    i = stage_task(1);
    assert_int_equal(i.state, MUSTER_TASK_CONNECTED);
    assert_int_equal(i.incarnation, INCARNATION);
    assert_int_equal(i.pid, getpid());
    assert_int_equal(i.attempt, 1);
    assert_true(i.guest);
    assert_true(i.alive);
    assert_int_equal(i.recoverable, 0);
    assert_string_not_equal(i.host, "");
    assert_false(stage_task(0).guest);
    assert_int_equal(guest_comes_as(2, 1, 0), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(guest_goes(1), MUSTER_OK);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_DISCONNECTED);
    assert_false(stage_task(1).alive);
    stage_close();
}

STAGE_TEST(registering_again_is_a_heartbeat_and_changes_nothing)
{
    uint64_t before;

    guests_open(1);
    assert_int_equal(guest_comes_as(0, INCARNATION, 0), MUSTER_OK);
    assert_int_equal(stage_task(0).heartbeats, 1); /* registering is the first */
    before = guests_version();
    assert_int_equal(guest_comes_as(0, INCARNATION, 0), MUSTER_OK);
    assert_int_equal(guests_version(), before);
    assert_int_equal(stage_task(0).heartbeats, 2);
    assert_int_equal(muster_task_heartbeat(stage_observer, 0, INCARNATION), MUSTER_OK);
    assert_int_equal(stage_task(0).heartbeats, 3);
    assert_int_equal(stage_task(0).attempt, 1);
    assert_int_equal(guest_goes(0), MUSTER_OK);
    stage_close();
}

STAGE_TEST(another_incarnation_puts_it_in_error_until_it_is_reset)
{
    struct muster_error e;

    guests_open(1);
    assert_int_equal(guest_comes_as(0, INCARNATION, 0), MUSTER_OK);
    assert_int_equal(guest_comes_as(0, INCARNATION + 1, 0), MUSTER_ABORTED);
    assert_says(muster_last_error(), "unexpectedly tried to connect with a different incarnation");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_ERROR);
    assert_int_equal(stage_task(0).cause, MUSTER_CAUSE_RESTARTED);
    assert_int_equal(muster_error_wait(stage_observer, MUSTER_FOREVER, &e), MUSTER_OK);
    assert_int_equal(e.code, MUSTER_ABORTED);
    assert_int_equal(guest_comes_as(0, INCARNATION, 0), MUSTER_ABORTED);
    assert_says(muster_last_error(), "already in error");
    assert_says(muster_last_error(), "another incarnation of it");
    assert_int_equal(guest_comes_as(0, INCARNATION + 1, 0), MUSTER_ABORTED);
    assert_int_equal(muster_task_heartbeat(stage_observer, 0, INCARNATION), MUSTER_ABORTED);
    assert_int_equal(guest_goes(0), MUSTER_OK);
    assert_int_equal(guest_comes_as(0, INCARNATION + 1, 0), MUSTER_OK);
    assert_int_equal(stage_task(0).attempt, 2);
    assert_int_equal(guest_goes(0), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_recoverable_one_may_come_again_after_it_was_lost)
{
    struct muster_error e;

    guests_open(1);
    assert_int_equal(guest_comes_as(0, 1, MUSTER_JOIN_RECOVERABLE), MUSTER_OK);
    assert_int_equal(guest_comes_as(0, 2, MUSTER_JOIN_RECOVERABLE), MUSTER_OK);
    assert_int_equal(stage_task(0).attempt, 2);
    assert_int_equal(stage_task(0).incarnation, 2);
    guest_is_lost(0, 1, "its connection was closed"); /* that one is long gone */
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    guest_is_lost(0, 2, "its connection was closed");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_ERROR);
    assert_int_equal(stage_task(0).error, MUSTER_UNAVAILABLE);
    assert_int_equal(stage_task(0).cause, MUSTER_CAUSE_DIED);
    assert_int_equal(muster_error_wait(stage_observer, 0, &e), MUSTER_DEADLINE_EXCEEDED); /* nobody else's */
    assert_int_equal(guest_comes_as(0, 3, MUSTER_JOIN_RECOVERABLE), MUSTER_OK);
    assert_int_equal(stage_task(0).attempt, 3);
    /* what it said itself is another matter */
    assert_int_equal(muster_error_report(stage_observer, 0, MUSTER_INTERNAL, "a fault of its own"), MUSTER_OK);
    assert_int_equal(guest_comes_as(0, 3, MUSTER_JOIN_RECOVERABLE), MUSTER_ABORTED);
    assert_says(muster_last_error(), "a fault of its own");
    assert_int_equal(guest_goes(0), MUSTER_OK);
    stage_close();
}

STAGE_TEST(one_that_is_lost_comes_again_only_where_that_is_allowed)
{
    struct mu_client g = {.task = 0, .incarnation = 2};

    guests_open(1);
    assert_int_equal(guest_comes_as(0, 1, 0), MUSTER_OK);
    guest_is_lost(0, 1, "its connection was reset");
    assert_int_equal(guest_comes(&g), MUSTER_ABORTED);
    g.reconnects = true;
    assert_int_equal(guest_comes(&g), MUSTER_OK);
    assert_int_equal(stage_task(0).incarnation, 2);
    assert_int_equal(muster_error_report(stage_observer, 0, MUSTER_INTERNAL, "wrong"), MUSTER_OK);
    g.incarnation = 3;
    assert_int_equal(guest_comes(&g), MUSTER_ABORTED);
    stage_close();
}

STAGE_TEST(incarnation_0_is_one_like_others)
{
    guests_open(1);
    assert_int_equal(guest_comes_as(0, 0, 0), MUSTER_OK);
    assert_int_equal(guest_comes_as(0, 0, 0), MUSTER_OK);
    assert_int_equal(muster_task_heartbeat(stage_observer, 0, 0), MUSTER_OK);
    guest_is_lost(0, 1, "another's connection");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    guest_is_lost(0, 0, "its connection");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_ERROR);
    stage_close();
}

STAGE_TEST(a_process_of_its_own_keeps_its_id_while_it_lives)
{
    char name[64];

    guests_open(2);
    stage_enter_all();
    assert_int_equal(guest_comes_as(0, 1, 0), MUSTER_ALREADY_EXISTS);
    snprintf(name, sizeof name, "task 0 (pid %d on host", stage_pid(0));
    assert_says(muster_last_error(), name);
    assert_int_equal(guest_goes(0), MUSTER_FAILED_PRECONDITION);
    assert_says(muster_last_error(), name);
    guest_is_lost(0, stage_task(0).incarnation, "no guest");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    /* in error it lives all the same */
    assert_int_equal(muster_error_report(stage_observer, 0, MUSTER_UNAVAILABLE, "stuck"), MUSTER_OK);
    assert_int_equal(guest_comes(&(struct mu_client){.task = 0, .incarnation = 1, .reconnects = true}),
                     MUSTER_ALREADY_EXISTS);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_int_equal(guest_comes_as(1, 1, 0), MUSTER_OK);
    assert_int_equal(guest_goes(1), MUSTER_OK);
    stage_close();
}

STAGE_TEST(of_a_dead_process_its_death_is_recorded_first)
{
    guests_open(2);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    stage_kill(0);
    assert_int_equal(guest_comes_as(0, 1, 0), MUSTER_ABORTED);
    assert_says(muster_last_error(), "its process died");
    assert_int_equal(guest_goes(0), MUSTER_OK);
    assert_int_equal(guest_comes_as(0, 1, 0), MUSTER_OK);
    stage_kill(1);
    assert_int_equal(guest_comes_as(1, 1, 0), MUSTER_OK);
    assert_int_equal(stage_task(1).attempt, 2);
    assert_int_equal(stage_task(1).recoverable, 0);
    stage_close();
}

STAGE_TEST(a_guests_id_is_refused_to_others)
{
    struct join_act join = {.task = 0};
    struct reply r;
    int p;

    guests_open(1);
    assert_int_equal(guest_comes_as(0, 1, 0), MUSTER_OK);
    p = stage_player();
    r = stage_do(p, act_join, &join, sizeof join);
    assert_int_equal(r.status, MUSTER_ALREADY_EXISTS);
    assert_says(r.text, "task 0 (a guest on host");
    assert_says(r.text, "over the wire");
    assert_int_equal(muster_task_reset(stage_observer, 0), MUSTER_FAILED_PRECONDITION);
    assert_says(muster_last_error(), "over the wire");
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(guest_goes(0), MUSTER_OK);
    assert_status(stage_do(p, act_join, &join, sizeof join), MUSTER_OK);
    assert_false(stage_task(0).guest);
    assert_int_equal(stage_task(0).attempt, 2);
    stage_close();
}

STAGE_TEST(who_has_gone_cannot_go_again)
{
    struct mu_task_record r;
    struct mu_cluster c;
    struct muster_segment *seg;

    guests_open(2);
    seg = muster_segment_of(stage_observer);
    assert_int_equal(guest_goes(0), MUSTER_FAILED_PRECONDITION);
    assert_says(muster_last_error(), "already disconnected: 0");
    assert_int_equal(mu_cluster_task(seg, 0, &r, NULL, &c), MUSTER_OK);
    assert_false(mu_client_has_grace(seg, &r, mu_now()));
    assert_int_equal(guest_comes_as(0, 1, 0), MUSTER_OK);
    guest_is_lost(0, 1, "gone");
    assert_int_equal(muster_task_reset(stage_observer, 0), MUSTER_OK);
    assert_int_equal(guest_goes(0), MUSTER_FAILED_PRECONDITION);
    assert_int_equal(mu_cluster_task(seg, 0, &r, NULL, &c), MUSTER_OK);
    assert_true(mu_client_has_grace(seg, &r, mu_now()));
    assert_false(mu_client_has_grace(seg, &r, r.since + seg->heartbeat_timeout + 1));
    assert_int_equal(guest_goes(2), MUSTER_INVALID_ARGUMENT);
    stage_close();
}

/* As in beats_test.c: the history is made up. */
STAGE_TEST(a_guest_falls_silent_like_others)
{
    struct mu_beat beats[1] = {0};
    struct muster_segment *seg;
    struct mu_ctx *ctx;
    uint64_t last = 0;

    guests_open(1);
    seg = muster_segment_of(stage_observer);
    assert_int_equal(guest_comes_as(0, 1, 0), MUSTER_OK);
    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    mu_beats_check(ctx, beats, &last);
    beats[0].changed_ns = mu_now() - seg->heartbeat_timeout - 1;
    mu_exit(ctx);
    assert_int_equal(muster_task_heartbeat(stage_observer, 0, 1), MUSTER_OK);
    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    mu_beats_check(ctx, beats, &last);
    mu_exit(ctx);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    beats[0].changed_ns = mu_now() - seg->heartbeat_timeout - 1;
    assert_int_equal(guest_comes_as(0, 1, 0), MUSTER_OK); /* so does registering */
    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    mu_beats_check(ctx, beats, &last);
    assert_true(mu_now() - beats[0].changed_ns < seg->heartbeat_timeout / 2);
    beats[0].changed_ns = mu_now() - seg->heartbeat_timeout - 1;
    mu_beats_check(ctx, beats, &last);
    mu_exit(ctx);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_ERROR);
    assert_int_equal(stage_task(0).cause, MUSTER_CAUSE_HEARTBEAT);
    assert_int_equal(guest_comes_as(0, 2, 0), MUSTER_ABORTED);
    stage_close();
}
