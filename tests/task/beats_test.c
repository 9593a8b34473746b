/*
 * tests/task/beats_test.c: mu_beats_check() with a made-up history: who is found silent, and who is given time because
 * the checker itself was late. The histories are written into the checker's memory, so no test waits for a clock.
 */
#include "stage.h"

#include <string.h>

#include "base/clock.h"
#include "segment/handle.h"
#include "segment/slot.h"
#include "task/task.h"

#define TIMEOUT_NS 3600000000000u /* an hour: nothing here happens by itself */

static struct mu_ctx *ctx;
static struct mu_beat beats[2];
static uint64_t last_check;

/* Two tasks without heartbeat threads; the checker has just seen both. */
static int set_up(void)
{
    struct muster_segment_config config = {
        .num_buckets = 1024, .num_events = 64, .heap_bytes = 64u << 20, .heartbeat_timeout_ns = TIMEOUT_NS};

    stage_open(2, &config);
    stage_enter(0, MUSTER_JOIN_NO_HEARTBEAT);
    stage_enter(1, MUSTER_JOIN_NO_HEARTBEAT);
    memset(beats, 0, sizeof beats);
    last_check = 0;
    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    mu_beats_check(ctx, beats, &last_check);
    mu_exit(ctx);
    return 0;
}

static void check(void)
{
    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    mu_beats_check(ctx, beats, &last_check);
    mu_exit(ctx);
}

static int act_pulse(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    return muster_heartbeat(me);
}

TEST_WITH(the_first_look_only_remembers, set_up, stage_strike)
{
    assert_true(last_check > 0);
    assert_true(beats[0].changed_ns > 0 && beats[1].changed_ns > 0);
    assert_int_equal(beats[0].incarnation, stage_task(0).incarnation);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    stage_close();
}

TEST_WITH(who_is_silent_for_longer_than_the_timeout_is_in_error_and_the_others_not, set_up, stage_strike)
{
    struct muster_task_info i;

    beats[1].changed_ns = mu_now() - TIMEOUT_NS - 1;
    check();
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    i = stage_task(1);
    assert_int_equal(i.state, MUSTER_TASK_ERROR);
    assert_int_equal(i.cause, MUSTER_CAUSE_HEARTBEAT);
    assert_int_equal(i.error, MUSTER_UNAVAILABLE);
    assert_says(i.message, "heartbeat");
    assert_true(i.alive); /* silence is no death: nothing is taken from it */
    stage_close();
}

TEST_WITH(a_beat_since_the_last_look_clears_the_suspicion, set_up, stage_strike)
{
    assert_status(do_plain(1, act_pulse), MUSTER_OK);
    beats[1].changed_ns = mu_now() - TIMEOUT_NS - 1;
    check();
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    assert_true(mu_now() - beats[1].changed_ns < TIMEOUT_NS);
    stage_close();
}

TEST_WITH(silence_just_below_the_timeout_is_no_error, set_up, stage_strike)
{
    beats[1].changed_ns = mu_now() - TIMEOUT_NS / 2;
    check();
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    stage_close();
}

TEST_WITH(a_checker_that_was_late_itself_grants_everybody_a_new_period, set_up, stage_strike)
{
    last_check = mu_now() - 2 * TIMEOUT_NS; /* it was stopped; all counters look old */
    beats[0].changed_ns = beats[1].changed_ns = last_check;
    check();
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    assert_true(mu_now() - beats[0].changed_ns < TIMEOUT_NS);
    /* from then on it counts again */
    beats[0].changed_ns = mu_now() - TIMEOUT_NS - 1;
    check();
    assert_int_equal(stage_task(0).state, MUSTER_TASK_ERROR);
    stage_close();
}

TEST_WITH(a_new_incarnation_starts_a_new_period, set_up, stage_strike)
{
    beats[1].changed_ns = mu_now() - TIMEOUT_NS - 1;
    beats[1].incarnation++; /* as if another one had been seen before */
    check();
    assert_int_equal(stage_task(1).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(beats[1].incarnation, stage_task(1).incarnation);
    stage_close();
}

TEST_WITH(tasks_that_are_not_connected_are_not_looked_at, set_up, stage_strike)
{
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    beats[1].changed_ns = mu_now() - TIMEOUT_NS - 1;
    check();
    assert_int_equal(stage_task(1).state, MUSTER_TASK_DISCONNECTED);
    assert_status(stage_do(1, act_join, &(struct join_act){.task = 1, .flags = MUSTER_JOIN_NO_HEARTBEAT},
                           sizeof(struct join_act)),
                  MUSTER_OK);
    stage_close();
}
