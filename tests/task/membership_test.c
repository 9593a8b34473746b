/*
 * tests/task/membership_test.c: which tasks a job has, and how that changes while it runs: muster/membership.h, and
 * groups of an epoch.
 */
#include "job.h"
#include "stage.h"

#include <string.h>

#define LONG 60000000000u

static struct muster_membership now_of(struct muster *m, struct muster_member *members, size_t *count)
{
    struct muster_membership now;

    assert_int_equal(muster_membership_read(m, &now, members, members ? 64 : 0, count), MUSTER_OK);
    return now;
}

static struct muster_membership seen(void)
{
    return now_of(stage_observer, NULL, NULL);
}

static enum muster_status propose(int32_t come, int32_t go, uint64_t timeout_ns, uint64_t *change)
{
    return muster_membership_propose(stage_observer, &come, come >= 0, NULL, &go, go >= 0, timeout_ns, change);
}

/* A member's own idea of where it is. */
static struct muster_membership mine;

static int act_next(void *none, struct reply *reply)
{
    enum muster_status status = muster_membership_next(me, &mine, MUSTER_FOREVER);

    (void)none;
    memcpy(reply->data, &mine, sizeof mine);
    reply->len = sizeof mine;
    return (int)status;
}

static int act_wait(void *none, struct reply *reply)
{
    enum muster_status status = muster_membership_wait(me, &mine, MUSTER_FOREVER);

    (void)none;
    memcpy(reply->data, &mine, sizeof mine);
    reply->len = sizeof mine;
    return (int)status;
}

static int act_ready(void *change, struct reply *reply)
{
    (void)reply;
    return (int)muster_membership_ready(me, *(uint64_t *)change);
}

static int act_done(void *change, struct reply *reply)
{
    (void)reply;
    return (int)muster_membership_done(me, *(uint64_t *)change);
}

static struct muster_group *group;

static int act_group(void *none, struct reply *reply)
{
    (void)none;
    (void)reply;
    muster_group_free(group);
    group = NULL;
    return (int)muster_group_of_epoch(me, &mine, "steps", 0, MUSTER_FOREVER, &group);
}

static int act_step(void *none, struct reply *reply)
{
    (void)none;
    (void)reply;
    return (int)muster_group_barrier(group, MUSTER_FOREVER);
}

static int act_group_free(void *none, struct reply *reply)
{
    (void)none;
    (void)reply;
    muster_group_free(group);
    group = NULL;
    return 0;
}

static struct muster_membership heard(int player)
{
    struct reply r = stage_hear(player);
    struct muster_membership m;

    assert_status(r, MUSTER_OK);
    memcpy(&m, r.data, sizeof m);
    return m;
}

static struct muster_membership next_of(int player)
{
    tell_plain(player, act_next);
    return heard(player);
}

/* Tasks 0 to `size` - 1 of `tasks` are members, and there; each knows epoch 1. */
static void open_members(uint32_t tasks, uint32_t size, uint32_t least, int shrinks)
{
    stage_open(tasks, NULL);
    assert_int_equal(muster_membership_begin(stage_observer, size, least, 0, shrinks), MUSTER_OK);
    for (uint32_t i = 0; i < size; i++)
        stage_enter((int32_t)i, MUSTER_JOIN_RECOVERABLE);
    for (uint32_t i = 0; i < size; i++)
        assert_int_equal(next_of((int)i).rank, (int)i);
}

static void say(int player, act_fn act, uint64_t change, enum muster_status wanted)
{
    assert_status(stage_do(player, act, &change, sizeof change), wanted);
}

STAGE_TEST(a_job_without_a_membership_says_so)
{
    struct muster_membership now;

    stage_open(2, NULL);
    assert_int_equal(muster_membership_read(stage_observer, &now, NULL, 0, NULL), MUSTER_FAILED_PRECONDITION);
    assert_says(muster_last_error(), "has no membership");
    assert_int_equal(propose(1, -1, LONG, NULL), MUSTER_FAILED_PRECONDITION);
    assert_int_equal(muster_membership_begin(stage_observer, 3, 1, 0, 0), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(muster_membership_begin(stage_observer, 2, 1, 0, 0), MUSTER_OK);
    assert_int_equal(muster_membership_begin(stage_observer, 2, 1, 0, 0), MUSTER_ALREADY_EXISTS);
    stage_close();
}

STAGE_TEST(who_comes_is_put_behind_and_who_stays_keeps_its_order)
{
    struct muster_member m[64];
    uint64_t change;
    size_t count;

    open_members(6, 4, 1, 0);
    assert_int_equal(propose(4, 1, LONG, &change), MUSTER_OK);
    assert_int_equal(seen().phase, MUSTER_PHASE_PREPARING);
    stage_enter(4, MUSTER_JOIN_RECOVERABLE);
    for (int i = 0; i < 5; i++)
        say(i, act_ready, change, MUSTER_OK);
    now_of(stage_observer, m, &count);
    assert_int_equal(seen().phase, MUSTER_PHASE_SETTLING);
    assert_int_equal(seen().epoch, 1);
    assert_int_equal(count, 5);
    assert_int_equal(m[1].task_id, 1);
    assert_int_equal(m[1].next_rank, -1);
    assert_int_equal(m[4].task_id, 4);
    assert_int_equal(m[4].rank, -1);
    assert_int_equal(m[4].next_rank, 3);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(seen().epoch, 1);
        say(i, act_done, change, MUSTER_OK);
    }
    assert_int_equal(now_of(stage_observer, m, &count).epoch, 2);
    assert_int_equal(count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(m[i].rank, i);
        assert_int_equal(m[i].task_id, i ? i + 1 : 0);
        assert_string_equal(m[i].role_name, "worker");
    }
    say(0, act_done, change, MUSTER_ABORTED);
    stage_close();
}

STAGE_TEST(ranks_count_in_each_role)
{
    static const int32_t servers[] = {4, 5}, workers[] = {3};
    struct muster_member m[64];
    uint64_t change;
    size_t count;

    open_members(6, 3, 1, 0);
    assert_int_equal(muster_membership_propose(stage_observer, servers, 2, "server", NULL, 0, LONG, &change),
                     MUSTER_OK);
    stage_enter(4, MUSTER_JOIN_RECOVERABLE);
    stage_enter(5, MUSTER_JOIN_RECOVERABLE);
    for (int i = 0; i < 5; i++)
        tell_plain(i, act_next);
    for (int i = 0; i < 5; i++)
        assert_int_equal(heard(i).epoch, 2);
    assert_int_equal(muster_membership_propose(stage_observer, workers, 1, "worker", servers, 1, LONG, &change),
                     MUSTER_OK);
    stage_enter(3, MUSTER_JOIN_RECOVERABLE);
    for (int i = 0; i < 6; i++)
        tell_plain(i, act_next);
    for (int i = 0; i < 6; i++)
        assert_int_equal(heard(i).rank, i == 3 ? -1 : i == 4 ? 0 : i == 5 ? 3 : i);
    now_of(stage_observer, m, &count);
    assert_int_equal(count, 5);
    assert_int_equal(m[4].task_id, 5);
    assert_int_equal(m[4].rank, 0);
    assert_string_equal(m[4].role_name, "server");
    stage_close();
}

STAGE_TEST(a_change_that_makes_no_sense_is_refused)
{
    static const int32_t twice[] = {3, 3};

    open_members(4, 3, 2, 0);
    assert_int_equal(propose(2, -1, LONG, NULL), MUSTER_INVALID_ARGUMENT);
    assert_says(muster_last_error(), "task 2 is a member already");
    assert_int_equal(propose(4, -1, LONG, NULL), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(propose(-1, 3, LONG, NULL), MUSTER_INVALID_ARGUMENT);
    assert_says(muster_last_error(), "task 3 is no member");
    assert_int_equal(muster_membership_propose(stage_observer, twice, 2, NULL, NULL, 0, LONG, NULL),
                     MUSTER_INVALID_ARGUMENT);
    assert_int_equal(propose(-1, 0, LONG, NULL), MUSTER_OK);
    assert_int_equal(propose(3, -1, LONG, NULL), MUSTER_FAILED_PRECONDITION);
    assert_int_equal(muster_membership_cancel(stage_observer, 1, "of the test"), MUSTER_OK);
    assert_says(seen().text, "of the test");
    assert_int_equal(muster_membership_cancel(stage_observer, 1, NULL), MUSTER_ABORTED);
    assert_int_equal(seen().epoch, 1);
    stage_kill(2);
    assert_int_equal(propose(-1, 0, LONG, NULL), MUSTER_OK);
    assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
    assert_int_equal(seen().outcome, MUSTER_OUTCOME_ROLLED_BACK); /* it did not ask for those that are lost to go */
    stage_close();
}

STAGE_TEST(who_dies_within_a_change_rolls_it_back_by_name)
{
    uint64_t change;

    open_members(4, 3, 1, 1);
    assert_int_equal(propose(3, -1, LONG, &change), MUSTER_OK);
    stage_enter(3, MUSTER_JOIN_RECOVERABLE);
    say(3, act_ready, change, MUSTER_OK);
    say(0, act_ready, change, MUSTER_OK);
    stage_kill(3);
    tell_plain(0, act_wait);
    assert_int_equal(heard(0).phase, MUSTER_PHASE_PREPARING); /* as it knows epoch 1 from before */
    tell_plain(0, act_wait);
    assert_int_equal(heard(0).outcome, MUSTER_OUTCOME_ROLLED_BACK);
    assert_int_equal(seen().epoch, 1);
    assert_int_equal(seen().size, 3);
    assert_says(seen().text, "change 1 was rolled back: task 3 (pid");
    say(1, act_ready, change, MUSTER_ABORTED);
    stage_close();
}

/* The change that the three are ready for before its time is over: of several, on a machine that has much to do. */
static void agree_without_one(void)
{
    for (uint64_t ns = 100000000;; ns *= 2) {
        bool late = false;
        uint64_t change;

        assert_int_equal(propose(3, -1, ns, &change), MUSTER_OK);
        for (int i = 0; i < 3; i++)
            late |= stage_do(i, act_ready, &change, sizeof change).status == MUSTER_ABORTED;
        if (!late)
            return;
    }
}

STAGE_TEST(who_does_not_come_in_time_rolls_it_back_by_name)
{
    struct muster_membership m;

    open_members(4, 3, 1, 1);
    agree_without_one();
    m = seen();
    if (m.phase != MUSTER_PHASE_STEADY)
        assert_int_equal(muster_membership_wait(stage_observer, &m, MUSTER_FOREVER), MUSTER_OK);
    assert_int_equal(m.outcome, MUSTER_OUTCOME_ROLLED_BACK);
    assert_int_equal(m.epoch, 1);
    assert_says(m.text, "and task 3 (on host ");
    assert_says(m.text, "had not said ready");
    for (int i = 0; i < 3; i++) /* who comes late learns of it, and is not left waiting */
        assert_int_equal(next_of(i).outcome, MUSTER_OUTCOME_ROLLED_BACK);
    stage_close();
}

STAGE_TEST(a_member_that_dies_shrinks_the_job_at_once)
{
    struct muster_membership m;

    open_members(4, 4, 2, 1);
    for (int i = 0; i < 4; i++)
        if (i != 1)
            tell_plain(i, act_next);
    stage_until_waiting(0, "a change of the membership");
    stage_kill(1);
    for (int i = 0; i < 4; i++) {
        if (i == 1)
            continue;
        m = heard(i);
        assert_int_equal(m.epoch, 2);
        assert_int_equal(m.rank, i ? i - 1 : 0);
        assert_int_equal(m.size, 3);
        assert_int_equal(m.outcome, MUSTER_OUTCOME_LOST);
        assert_says(m.text, "task 1 (pid");
    }
    stage_kill(2);
    assert_int_equal(next_of(0).size, 2);
    stage_kill(3); /* below the least: whoever leads the job decides */
    muster_scavenge(stage_observer, NULL);
    assert_int_equal(seen().size, 2);
    stage_close();
}

STAGE_TEST(a_member_that_was_to_go_may_leave_instead)
{
    uint64_t change;

    open_members(3, 3, 1, 1);
    assert_int_equal(propose(-1, 1, LONG, &change), MUSTER_OK);
    tell_plain(0, act_next);
    tell_plain(2, act_next);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_int_equal(heard(0).epoch, 2);
    assert_int_equal(heard(2).rank, 1);
    stage_close();
}

STAGE_TEST(a_member_that_has_finished_is_not_lost)
{
    open_members(2, 2, 1, 1);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_int_equal(seen().epoch, 1);
    assert_int_equal(seen().size, 2);
    stage_close();
}

STAGE_TEST(a_group_of_an_epoch_that_is_over_fails_at_once_and_its_successor_is_one_call)
{
    struct reply r;

    open_members(3, 3, 1, 1);
    for (int i = 0; i < 3; i++)
        tell_plain(i, act_group);
    for (int i = 0; i < 3; i++)
        assert_status(stage_hear(i), MUSTER_OK);
    for (int i = 0; i < 3; i++)
        tell_plain(i, act_step);
    for (int i = 0; i < 3; i++)
        assert_status(stage_hear(i), MUSTER_OK);
    tell_plain(0, act_step);
    stage_until_waiting(0, "group steps@1");
    stage_kill(1);
    r = stage_hear(0);
    assert_status(r, MUSTER_UNAVAILABLE);
    r = do_plain(2, act_step);
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_int_equal(next_of(0).epoch, 2);
    assert_int_equal(next_of(2).rank, 1);
    tell_plain(0, act_group);
    assert_status(do_plain(2, act_group), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    tell_plain(0, act_step);
    assert_status(do_plain(2, act_step), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    assert_status(do_plain(0, act_group_free), MUSTER_OK);
    assert_status(do_plain(2, act_group_free), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_group_fails_when_a_member_has_left_its_steps_for_a_change)
{
    struct reply r;
    uint64_t change;

    open_members(3, 3, 1, 1);
    for (int i = 0; i < 3; i++)
        tell_plain(i, act_group);
    for (int i = 0; i < 3; i++)
        assert_status(stage_hear(i), MUSTER_OK);
    tell_plain(0, act_step);
    tell_plain(1, act_step);
    stage_until_waiting(0, "group steps@1");
    stage_until_waiting(1, "group steps@1");
    assert_int_equal(propose(-1, 2, LONG, &change), MUSTER_OK);
    tell_plain(2, act_next);
    for (int i = 0; i < 2; i++) {
        r = stage_hear(i);
        assert_status(r, MUSTER_UNAVAILABLE);
        assert_says(r.text, "which members have left for change 1");
    }
    tell_plain(0, act_next);
    assert_int_equal(next_of(1).epoch, 2);
    assert_int_equal(heard(0).size, 2);
    assert_int_equal(heard(2).rank, -1);
    stage_close();
}

/* Everybody of these, who else is to say something, does it; the change is committed. */
static void agree(const int *players, int count, uint64_t epoch)
{
    for (int i = 0; i < count; i++)
        tell_plain(players[i], act_next);
    for (int i = 0; i < count; i++)
        assert_int_equal(heard(players[i]).epoch, epoch);
}

STAGE_TEST(a_dead_member_is_replaced_by_a_task_that_comes)
{
    struct muster_member m[64];
    uint64_t change;
    size_t count;

    open_members(4, 3, 1, 0);
    stage_kill(1);
    assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
    assert_int_equal(propose(3, 1, LONG, &change), MUSTER_OK);
    assert_int_equal(seen().phase, MUSTER_PHASE_PREPARING);
    stage_enter(3, MUSTER_JOIN_RECOVERABLE);
    agree((int[]){0, 2, 3}, 3, 2);
    now_of(stage_observer, m, &count);
    assert_int_equal(count, 3);
    assert_int_equal(m[1].task_id, 2);
    assert_int_equal(m[2].task_id, 3);
    stage_kill(2); /* one that has no part as one that was lost before still rolls a change back */
    assert_int_equal(propose(1, 3, LONG, &change), MUSTER_OK);
    assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
    assert_int_equal(seen().outcome, MUSTER_OUTCOME_ROLLED_BACK);
    stage_close();
}

STAGE_TEST(a_task_that_has_left_or_died_before_may_come)
{
    uint64_t change;
    int again;

    open_members(4, 2, 1, 0);
    stage_enter(2, MUSTER_JOIN_RECOVERABLE);
    stage_enter(3, MUSTER_JOIN_RECOVERABLE);
    assert_status(do_plain(2, act_leave), MUSTER_OK);
    assert_int_equal(propose(2, -1, LONG, &change), MUSTER_OK);
    assert_int_equal(seen().phase, MUSTER_PHASE_PREPARING);
    again = stage_enter(2, MUSTER_JOIN_RECOVERABLE);
    agree((int[]){0, 1, again}, 3, 2);

    stage_kill(3);
    assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
    assert_int_equal(propose(3, -1, LONG, &change), MUSTER_OK);
    assert_int_equal(seen().phase, MUSTER_PHASE_PREPARING);
    assert_int_equal(muster_task_reset(stage_observer, 3), MUSTER_OK);
    assert_status(do_plain(stage_enter(3, MUSTER_JOIN_RECOVERABLE), act_leave), MUSTER_OK); /* and goes within it */
    assert_int_equal(seen().outcome, MUSTER_OUTCOME_ROLLED_BACK);
    assert_int_equal(seen().epoch, 2);
    stage_close();
}

STAGE_TEST(a_member_that_is_started_again_takes_part_in_the_next_change)
{
    uint64_t change;
    int again;

    open_members(3, 3, 1, 0);
    assert_int_equal(propose(-1, 2, LONG, &change), MUSTER_OK);
    say(1, act_ready, change, MUSTER_OK);
    assert_int_equal(muster_membership_cancel(stage_observer, change, NULL), MUSTER_OK);
    stage_kill(1);
    assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
    assert_int_equal(muster_task_reset(stage_observer, 1), MUSTER_OK);
    again = stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    assert_int_equal(next_of(again).epoch, 1);
    assert_int_equal(propose(-1, 2, LONG, &change), MUSTER_OK);
    agree((int[]){0, again, 2}, 3, 2);
    stage_close();
}

/* A change whose time is over, and which nobody has looked at since. */
static void change_overdue(void)
{
    uint64_t change;

    assert_int_equal(propose(-1, 2, 1, &change), MUSTER_OK);
    await(muster_now_ns() >= seen().deadline, "its time is not over");
}

STAGE_TEST(a_proposal_that_is_refused_leaves_no_mark)
{
    static const int32_t twice[] = {3, 3};
    struct muster_member m[64];
    size_t count;

    open_members(4, 3, 1, 0);
    change_overdue(); /* the edit that refuses the next one rolls it back */
    assert_int_equal(muster_membership_propose(stage_observer, twice, 2, "role", NULL, 0, LONG, NULL),
                     MUSTER_INVALID_ARGUMENT);
    assert_int_equal(seen().outcome, MUSTER_OUTCOME_ROLLED_BACK);
    now_of(stage_observer, m, &count);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(m[i].flags, MUSTER_MEMBER_IN);
    stage_close();
}

STAGE_TEST(a_wait_that_can_only_look_ends_by_its_deadline)
{
    struct muster *looks;
    struct muster_membership known;

    open_members(3, 3, 1, 0);
    looks = test_join(stage_job, -1, MUSTER_JOIN_READ_ONLY);
    assert_non_null(looks);
    change_overdue();
    known = now_of(looks, NULL, NULL);
    assert_int_equal(known.phase, MUSTER_PHASE_PREPARING);
    assert_int_equal(muster_membership_wait(looks, &known, muster_after_ms(20)), MUSTER_DEADLINE_EXCEEDED);
    assert_int_equal(muster_leave(looks), MUSTER_OK);
    stage_close();
}
