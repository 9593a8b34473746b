/*
 * tests/task/wish_test.c: a membership whose epochs a launcher begins anew: other numbers of tasks are wished, and the
 * launcher takes the wish up, or its time ends it (segment/members.h).
 */
#include "job.h"
#include "stage.h"

#include <string.h>

#include "segment/members.h"

#define LONG 60000000000u

static enum muster_status begin(uint32_t size, uint32_t least, uint32_t most, uint64_t epoch)
{
    struct mu_membership_set set = {
        .epoch = epoch, .size = size, .least = least, .most = most, .anew = true, .text = "as before"};
    enum muster_status status;
    struct mu_ctx *ctx;

    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    status = mu_membership_begin(ctx, &set);
    mu_exit(ctx);
    return status;
}

static enum muster_status wish(uint32_t wanted, int32_t go, uint64_t timeout_ns, uint64_t *ret_change)
{
    struct mu_membership_wish w = {.wanted = wanted, .go = &go, .num_go = go >= 0, .timeout_ns = timeout_ns};
    enum muster_status status;
    struct mu_ctx *ctx;

    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    status = mu_membership_wish(ctx, &w);
    mu_exit(ctx);
    if (ret_change)
        *ret_change = w.ret_change;
    return status;
}

static enum muster_status take(uint64_t change, uint32_t *ret_wanted)
{
    enum muster_status status;
    struct mu_ctx *ctx;

    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    status = mu_membership_take(ctx, change, ret_wanted);
    mu_exit(ctx);
    return status;
}

static struct muster_membership look(struct muster_member *members, size_t *ret_count)
{
    struct muster_membership now;

    assert_int_equal(muster_membership_read(stage_observer, &now, members, members ? 8 : 0, ret_count), MUSTER_OK);
    return now;
}

static uint32_t wanted_now(void)
{
    struct mu_members head;
    uint64_t word;

    assert_int_equal(mu_membership_look(muster_segment_of(stage_observer), &head, &word), MUSTER_OK);
    assert_true(mu_membership_is_anew(&head));
    return mu_membership_wanted(&head);
}

STAGE_TEST(a_wish_is_pending_until_the_launcher_takes_it_up)
{
    struct muster_member m[8];
    uint64_t change;
    uint32_t wanted = 0;
    size_t count;

    stage_open(4, NULL);
    assert_int_equal(begin(4, 2, 6, 3), MUSTER_OK);
    assert_string_equal(look(NULL, NULL).text, "as before");
    assert_int_equal(look(NULL, NULL).epoch, 3);
    assert_int_equal(look(NULL, NULL).most, 6); /* more than this segment has tasks */
    assert_int_equal(wish(6, -1, LONG, &change), MUSTER_OK);
    assert_int_equal(wanted_now(), 6);
    assert_int_equal(look(NULL, NULL).phase, MUSTER_PHASE_PREPARING);
    assert_int_equal(wish(5, -1, LONG, NULL), MUSTER_FAILED_PRECONDITION);
    assert_says(muster_last_error(), "change 1 is pending");
    assert_int_equal(take(change + 1, &wanted), MUSTER_ABORTED);
    assert_int_equal(take(change, &wanted), MUSTER_OK);
    assert_int_equal(wanted, 6);
    assert_int_equal(look(m, &count).phase, MUSTER_PHASE_SETTLING);
    assert_int_equal(count, 4);
    stage_close();
}

STAGE_TEST(those_that_stay_keep_their_order)
{
    struct muster_member m[8];
    static const int32_t next[4] = {0, -1, 1, -1};
    size_t count;

    stage_open(4, NULL);
    assert_int_equal(begin(4, 1, 4, 0), MUSTER_OK);
    assert_int_equal(wish(2, 1, LONG, NULL), MUSTER_OK); /* task 1 is to go, and one more: the last */
    look(m, &count);
    assert_int_equal(count, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(m[i].next_rank, next[i]);
    stage_close();
}

STAGE_TEST(what_is_not_possible_is_refused_and_leaves_nothing)
{
    struct muster_member m[8];
    size_t count;

    stage_open(4, NULL);
    assert_int_equal(begin(4, 2, 3, 0), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(begin(4, 2, MUSTER_MEMBERS_MAX + 1, 0), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(begin(4, 2, 6, 0), MUSTER_OK);
    assert_int_equal(wish(1, -1, LONG, NULL), MUSTER_INVALID_ARGUMENT);
    assert_says(muster_last_error(), "1 members would be left; the job may have 2 to 6");
    assert_int_equal(wish(7, -1, LONG, NULL), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(wish(3, 4, LONG, NULL), MUSTER_INVALID_ARGUMENT);
    assert_says(muster_last_error(), "task 4 is no member");
    assert_int_equal(look(m, &count).phase, MUSTER_PHASE_STEADY);
    assert_int_equal(look(NULL, NULL).change, 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(m[i].flags, MUSTER_MEMBER_IN);
    stage_close();
}

STAGE_TEST(a_wish_that_is_not_taken_up_ends_with_its_time)
{
    struct muster_membership now;
    uint64_t change;
    uint32_t wanted;

    stage_open(2, NULL);
    assert_int_equal(begin(2, 1, 4, 0), MUSTER_OK);
    assert_int_equal(wish(3, -1, 1000000, &change), MUSTER_OK);
    now = look(NULL, NULL);
    if (now.phase == MUSTER_PHASE_PREPARING)
        assert_int_equal(muster_membership_wait(stage_observer, &now, MUSTER_FOREVER), MUSTER_OK);
    assert_int_equal(now.outcome, MUSTER_OUTCOME_ROLLED_BACK);
    assert_says(now.text, "its time was over, and the launcher had not taken it up");
    assert_int_equal(wanted_now(), 0);
    assert_int_equal(take(change, &wanted), MUSTER_ABORTED);
    assert_says(muster_last_error(), "its time was over");
    stage_close();
}

STAGE_TEST(one_that_is_taken_up_is_not_ended_by_its_time_but_cancelled_by_hand)
{
    struct muster_membership now;
    uint64_t change, until;
    uint32_t wanted;

    stage_open(2, NULL);
    assert_int_equal(begin(2, 1, 4, 0), MUSTER_OK);
    do /* on a loaded machine its time may be over before it is taken up */
        assert_int_equal(wish(3, -1, 50000000, &change), MUSTER_OK);
    while (take(change, &wanted) != MUSTER_OK);
    until = muster_after_ns(50000000);
    now = look(NULL, NULL);
    assert_int_equal(muster_membership_wait(stage_observer, &now, until), MUSTER_DEADLINE_EXCEEDED);
    assert_int_equal(look(NULL, NULL).phase, MUSTER_PHASE_SETTLING);
    assert_int_equal(muster_membership_cancel(stage_observer, change, "a task has ended"), MUSTER_OK);
    assert_says(look(NULL, NULL).text, "was cancelled: a task has ended");
    assert_int_equal(wish(4, -1, LONG, NULL), MUSTER_OK);
    stage_close();
}

/* A death there is the launcher's to act upon: nothing follows from it in this segment, nor from what members say. */
STAGE_TEST(no_epoch_follows_in_the_same_segment)
{
    uint64_t change;
    int task;

    stage_open(2, NULL);
    assert_int_equal(begin(2, 1, 4, 0), MUSTER_OK);
    task = stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    assert_int_equal(wish(1, -1, LONG, &change), MUSTER_OK);
    stage_kill(task);
    assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
    assert_int_equal(look(NULL, NULL).phase, MUSTER_PHASE_PREPARING);
    assert_int_equal(look(NULL, NULL).epoch, 1);
    stage_close();
}

STAGE_TEST(epochs_that_follow_in_their_segment_are_not_wished)
{
    stage_open(4, NULL);
    assert_int_equal(muster_membership_begin(stage_observer, 2, 1, 4, 1), MUSTER_OK);
    assert_int_equal(wish(3, -1, LONG, NULL), MUSTER_FAILED_PRECONDITION);
    assert_says(muster_last_error(), "follow each other in its segment");
    stage_close();
}
