/*
 * tests/crash/ops_members.c: operations on the membership. Tasks 0 to 2 are members; a member that dies is lost at
 * once, so whatever the victim was about to say, its peers go on without it.
 */
#include "ops_kv.h"

#include "segment/members.h"

#define LONG_NS 3600000000000u

static void note(enum muster_status status)
{
    board->outcome[0] = (struct outcome){status, 0, 0};
}

static void must(enum muster_status status)
{
    if (status)
        crash_bad("setup: %s", muster_last_error());
}

void members_begin(const struct op *op)
{
    (void)op;
    note(muster_membership_begin(world.m[VICTIM], 3, 1, 4, 1));
}

void members_setup(const struct op *op)
{
    (void)op;
    must(muster_membership_begin(world.m[PEER], 3, 1, 4, 1));
}

void members_setup_served(const struct op *op)
{
    members_setup(op);
    task_setup_served(op);
}

/* Task 3 comes in the place of task 2, say the others. */
static enum muster_status swap_propose(int who)
{
    static const int32_t come = 3, go = 2;

    return muster_membership_propose(world.m[who], &come, 1, NULL, &go, 1, LONG_NS, NULL);
}

void members_propose(const struct op *op)
{
    (void)op;
    note(swap_propose(VICTIM));
}

/* Task 2 is to go. */
void members_setup_change(const struct op *op)
{
    static const int32_t go = 2;

    members_setup(op);
    must(muster_membership_propose(world.m[PEER], NULL, 0, NULL, &go, 1, LONG_NS, NULL));
}

void members_setup_others_ready(const struct op *op)
{
    members_setup_change(op);
    must(muster_membership_ready(world.m[PEER], 1));
    must(muster_membership_ready(world.m[THIRD], 1));
}

void members_setup_others_done(const struct op *op)
{
    members_setup_others_ready(op);
    must(muster_membership_ready(world.m[VICTIM], 1));
    must(muster_membership_done(world.m[PEER], 1));
    must(muster_membership_done(world.m[THIRD], 1));
}

void members_ready(const struct op *op)
{
    (void)op;
    note(muster_membership_ready(world.m[VICTIM], 1));
}

void members_done(const struct op *op)
{
    (void)op;
    note(muster_membership_done(world.m[VICTIM], 1));
}

void members_cancel(const struct op *op)
{
    (void)op;
    note(muster_membership_cancel(world.m[VICTIM], 1, "by the victim"));
}

/* A job that is begun anew: no death ends a change there, so a peer finishes what the victim has begun. */
void members_setup_anew(const struct op *op)
{
    struct mu_membership_set set = {.size = 3, .least = 1, .most = 9, .anew = true};
    struct mu_ctx *ctx;

    (void)op;
    must(mu_enter(world.m[PEER], &ctx));
    must(mu_membership_begin(ctx, &set));
    mu_exit(ctx);
}

static enum muster_status anew_wish(int who)
{
    struct mu_membership_wish wish = {.wanted = 7, .timeout_ns = LONG_NS};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(world.m[who], &ctx);

    if (status)
        return status;
    status = mu_membership_wish(ctx, &wish);
    mu_exit(ctx);
    return status;
}

static enum muster_status anew_take(int who, uint32_t *ret_wanted)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(world.m[who], &ctx);

    if (status)
        return status;
    status = mu_membership_take(ctx, 1, ret_wanted);
    mu_exit(ctx);
    return status;
}

void members_setup_wish(const struct op *op)
{
    members_setup_anew(op);
    must(anew_wish(PEER));
}

void members_wish(const struct op *op)
{
    (void)op;
    note(anew_wish(VICTIM));
}

void members_take(const struct op *op)
{
    uint32_t wanted;

    (void)op;
    note(anew_take(VICTIM, &wanted));
}

/* It was wished or not, taken or not; a peer does what the victim has not done, and it stays so. */
void members_after_anew(const struct op *op)
{
    struct muster_membership now;
    uint32_t wanted = 7;

    (void)op;
    if (muster_membership_read(world.m[PEER], &now, NULL, 0, NULL) || now.epoch != 1)
        crash_bad("the membership is not what it was");
    if (now.phase == MUSTER_PHASE_STEADY && (now.change || anew_wish(PEER)))
        crash_bad("a change was left: %s", muster_last_error());
    if (now.phase != MUSTER_PHASE_SETTLING && (anew_take(PEER, &wanted) || wanted != 7))
        crash_bad("what was wished is not there: %s", muster_last_error());
    if (muster_membership_read(world.m[THIRD], &now, NULL, 0, NULL) || now.phase != MUSTER_PHASE_SETTLING)
        crash_bad("it was not taken up");
}

void members_in_ready(const struct op *op)
{
    (void)op;
    board->outcome[1] = (struct outcome){muster_membership_ready(world.m[PEER], 1), 0, 0};
}

void members_in_propose(const struct op *op)
{
    (void)op;
    board->outcome[1] = (struct outcome){swap_propose(PEER), 0, 0};
}

/* The ranks are those of a role, each once; nothing is pending; and the next change is made, if there is a membership.
 */
void members_after(const struct op *op)
{
    struct muster_membership now, then;
    struct muster_member m[TASKS];
    uint64_t change = 0;
    int32_t go;
    size_t n = 0;

    (void)op;
    if (muster_membership_read(world.m[PEER], &now, m, TASKS, &n) == MUSTER_FAILED_PRECONDITION)
        return;
    if (now.phase != MUSTER_PHASE_STEADY)
        crash_bad("a change is pending that the dead has part in");
    for (size_t i = 0; i < n; i++)
        if (m[i].rank != (int32_t)i || m[i].task_id == VICTIM)
            crash_bad("member %zu is task %d with the rank %d", i, m[i].task_id, m[i].rank);
    if (n < 2)
        return;
    go = m[n - 1].task_id;
    if (muster_membership_propose(world.m[PEER], NULL, 0, NULL, &go, 1, LONG_NS, &change))
        return crash_bad("no other change can be made: %s", muster_last_error());
    for (size_t i = 0; i < n; i++)
        if (m[i].task_id < 3 && muster_membership_ready(world.m[m[i].task_id], change))
            crash_bad("task %d cannot say that it is ready: %s", m[i].task_id, muster_last_error());
    if (muster_membership_cancel(world.m[PEER], change, NULL) ||
        muster_membership_read(world.m[THIRD], &then, NULL, 0, NULL) || then.epoch != now.epoch)
        crash_bad("the change was not rolled back: %s", muster_last_error());
}
