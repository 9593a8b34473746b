/*
 * task/change.c: what processes say of a change of the membership: that it shall be, ready, done, or not.
 *
 * On the leader's host each is one edit of the block. A process of another host has the leader's agent make it, by a
 * call (segment/remote.h): it changes nothing of its host's mirror, which follows. A call that is made again, after a
 * broken connection, finds what it did before: a proposal, which says the last change that it knew, finds the next one,
 * a last word the epoch that has come of it.
 */
#include "task/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment/hosts.h"
#include "segment/members.h"
#include "segment/steps.h"

enum { FAR_TRIES = 16 };
enum change_what { CHANGE_SAY = 1, CHANGE_PROPOSE = 2, CHANGE_CANCEL = 3 };

struct saying {
    uint64_t change;
    uint32_t task, attempt; /* attempt 0: whichever there is */
    uint8_t flags;          /* MU_IS_READY, MU_IS_DONE, or both */
    const char *why;
    bool is_resent;
};

/* ---- the edits --------------------------------------------------------------------------------------------------- */

/* The role's number; made where there is none of that name. -1: there are too many. */
static int role_take(struct mu_members *h, const char *name)
{
    for (uint32_t i = 0; i < MU_ROLES_MAX; i++) {
        if (!h->roles[i][0])
            snprintf(h->roles[i], sizeof h->roles[i], "%s", name);
        if (!strcmp(h->roles[i], name))
            return (int)i;
    }
    return -1;
}

static enum muster_status comers_take(struct mu_membership_edit *e, const struct mu_proposal *p)
{
    struct mu_membership_copy *c = e->copy;
    int role = p->num_come ? role_take(&c->head, p->role) : 0;

    if (role < 0)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the job has %u roles already; '%s' would be one more", MU_ROLES_MAX,
                       p->role);
    for (size_t i = 0; i < p->num_come; i++) {
        int32_t task = p->come[i];

        if (task < 0 || (uint32_t)task >= c->head.count)
            return mu_fail(MUSTER_INVALID_ARGUMENT, "task %d; job %s has tasks 0 to %u", task, e->ctx->seg->job,
                           c->head.count - 1);
        if (c->rows[task].flags & (MU_IS_MEMBER | MU_IS_NEXT))
            return mu_fail(MUSTER_INVALID_ARGUMENT, "task %d is a member already, or is named twice", task);
        c->rows[task] = (struct mu_member_row){.role = (uint8_t)role, .flags = MU_IS_NEXT};
    }
    return MUSTER_OK;
}

static enum muster_status goers_take(struct mu_membership_edit *e, const struct mu_proposal *p)
{
    struct mu_membership_copy *c = e->copy;

    for (uint32_t i = 0; i < c->head.count; i++) {
        c->rows[i].attempt = 0; /* of the last change: a member that was started again may take part in this one */
        if (c->rows[i].flags & MU_IS_MEMBER && !mu_membership_has_left(&e->records[i]))
            c->rows[i].flags |= MU_IS_NEXT;
    }
    for (size_t i = 0; i < p->num_go; i++) {
        int32_t task = p->go[i];

        if (task < 0 || (uint32_t)task >= c->head.count || !(c->rows[task].flags & MU_IS_MEMBER))
            return mu_fail(MUSTER_INVALID_ARGUMENT, "task %d is no member", task);
        c->rows[task].flags &= (uint8_t)~MU_IS_NEXT;
        if (mu_membership_is_lost(&c->rows[task], &e->records[task])) /* it can say nothing: nobody waits for it */
            c->rows[task].flags |= MU_IS_DONE;
    }
    return MUSTER_OK;
}

static bool is_named(const int32_t *tasks, size_t count, uint32_t task)
{
    for (size_t i = 0; i < count; i++)
        if (tasks[i] == (int32_t)task)
            return true;
    return false;
}

/* What is pending is this: the proposal was made before. */
static bool is_proposed(const struct mu_membership_copy *c, const struct mu_proposal *p)
{
    for (uint32_t i = 0; i < c->head.count; i++) {
        uint8_t is = c->rows[i].flags & (MU_IS_MEMBER | MU_IS_NEXT);

        if ((is == MU_IS_NEXT) != is_named(p->come, p->num_come, i) ||
            (is == MU_IS_MEMBER && !is_named(p->go, p->num_go, i) && !(c->rows[i].flags & MU_IS_DONE)))
            return false;
    }
    return true;
}

/* Another change than those that the proposer knew: this one, where the call comes again, or somebody else's. */
static bool change_has_come(struct mu_membership_edit *e, struct mu_proposal *p)
{
    const struct mu_members *h = &e->copy->head;

    if (p->is_resent && h->change == p->known + 1 && (h->phase == MUSTER_PHASE_STEADY || is_proposed(e->copy, p)))
        p->change = h->change;
    else
        e->status = mu_fail(MUSTER_ABORTED, "change %llu has come meanwhile", (unsigned long long)h->change);
    return false;
}

static bool change_propose(struct mu_membership_edit *e)
{
    struct mu_proposal *p = e->arg;
    struct mu_members *h = &e->copy->head;
    struct mu_members before;
    uint32_t size;

    if (p->is_far && h->change != p->known)
        return change_has_come(e, p);
    if (h->phase != MUSTER_PHASE_STEADY) {
        e->status = mu_fail(MUSTER_FAILED_PRECONDITION, "change %llu is pending: wait for its end, or cancel it",
                            (unsigned long long)h->change);
        return false;
    }
    before = *h;
    e->status = comers_take(e, p);
    if (!e->status)
        e->status = goers_take(e, p);
    size = mu_membership_count(e->copy, MU_IS_NEXT);
    if (!e->status && (size < h->least || size > h->most))
        e->status = mu_fail(MUSTER_INVALID_ARGUMENT, "%u members would be left; the job may have %u to %u", size,
                            h->least, h->most);
    if (e->status) { /* what came before it in this edit may be committed all the same */
        *h = before;
        mu_membership_forget_change(e->copy);
        return false;
    }
    mu_membership_rank(e->copy);
    p->change = ++h->change;
    h->phase = MUSTER_PHASE_PREPARING;
    h->deadline = p->timeout_ns > UINT64_MAX - 1 - e->now ? UINT64_MAX - 1 : e->now + p->timeout_ns;
    h->since = e->now;
    return true;
}

static bool change_say(struct mu_membership_edit *e)
{
    const struct saying *s = e->arg;
    struct mu_member_row *row = &e->copy->rows[s->task];

    if (s->is_resent && e->copy->head.change == s->change && e->copy->head.outcome == MUSTER_OUTCOME_COMMITTED &&
        e->copy->head.phase == MUSTER_PHASE_STEADY)
        return false; /* it was said before, and was the last word */
    if (mu_membership_is_over(e, s->change))
        return false;
    if (s->attempt && s->attempt != e->records[s->task].attempt)
        e->status = mu_fail(MUSTER_ABORTED, "task %u is another process by now", s->task);
    else if (!(row->flags & (MU_IS_MEMBER | MU_IS_NEXT)))
        e->status = mu_fail(MUSTER_FAILED_PRECONDITION, "task %u has no part in change %llu", s->task,
                            (unsigned long long)s->change);
    else if (s->flags == MU_IS_DONE && e->copy->head.phase != MUSTER_PHASE_SETTLING)
        e->status =
            mu_fail(MUSTER_FAILED_PRECONDITION, "change %llu: not all are ready yet", (unsigned long long)s->change);
    if (e->status || (row->flags & s->flags) == s->flags)
        return false;
    if (s->flags & MU_IS_READY)
        e->moves = e->moves || mu_membership_count(e->copy, MU_IS_READY) == 0;
    row->flags |= s->flags;
    row->attempt = (uint16_t)e->records[s->task].attempt;
    e->quiet = true;
    return true;
}

static bool change_cancel(struct mu_membership_edit *e)
{
    const struct saying *s = e->arg;
    char why[MU_MEMBERS_TEXT];

    if (mu_membership_is_over(e, s->change))
        return false;
    snprintf(why, sizeof why, "change %llu was cancelled%s%.200s", (unsigned long long)s->change, s->why ? ": " : "",
             s->why ? s->why : "");
    mu_membership_roll_back(e, why);
    return true;
}

/* ---- from another host ------------------------------------------------------------------------------------------- */

struct change_call {
    struct mu_steps steps; /* first */
    uint64_t change;
};

static enum muster_status change_answer(struct mu_steps *steps, enum muster_status status, struct mu_unpack *body)
{
    struct change_call *c = (struct change_call *)steps;

    if (status)
        return status;
    c->change = mu_unpack_u64(body);
    return mu_unpack_end(body) ? MUSTER_OK : mu_steps_malformed(steps);
}

static enum muster_status change_ask(struct muster *m, struct mu_ctx *ctx, struct change_call *c)
{
    snprintf(c->steps.about, sizeof c->steps.about, "a change of the membership");
    c->steps.answer = change_answer;
    return mu_steps_run(m, ctx, &c->steps, MUSTER_FOREVER);
}

static enum muster_status say_far(struct muster *m, struct mu_ctx *ctx, uint64_t change, uint8_t flags)
{
    struct change_call c = {.change = 0};
    struct mu_pack *request = mu_steps_ask(&c.steps, MU_OP_MEMBERSHIP);

    mu_pack_u8(request, CHANGE_SAY);
    mu_pack_u64(request, change);
    mu_pack_u8(request, flags);
    return change_ask(m, ctx, &c);
}

static enum muster_status cancel_far(struct muster *m, struct mu_ctx *ctx, uint64_t change, const char *why)
{
    struct change_call c = {.change = 0};
    struct mu_pack *request = mu_steps_ask(&c.steps, MU_OP_MEMBERSHIP);
    char cut[256];

    snprintf(cut, sizeof cut, "%.200s", why ? why : "");
    mu_pack_u8(request, CHANGE_CANCEL);
    mu_pack_u64(request, change);
    mu_pack_text(request, cut);
    return change_ask(m, ctx, &c);
}

static enum muster_status propose_once(struct muster *m, struct mu_ctx *ctx, struct mu_proposal *p)
{
    struct change_call c = {.change = 0};
    struct mu_pack *request = mu_steps_ask(&c.steps, MU_OP_MEMBERSHIP);
    enum muster_status status;

    mu_pack_u8(request, CHANGE_PROPOSE);
    mu_pack_u64(request, p->known);
    mu_pack_u64(request, p->timeout_ns);
    mu_pack_text(request, p->role);
    mu_pack_u32(request, (uint32_t)p->num_come);
    mu_pack_u32(request, (uint32_t)p->num_go);
    for (size_t i = 0; i < p->num_come; i++)
        mu_pack_u32(request, (uint32_t)p->come[i]);
    for (size_t i = 0; i < p->num_go; i++)
        mu_pack_u32(request, (uint32_t)p->go[i]);
    status = change_ask(m, ctx, &c);
    p->change = c.change;
    return status;
}

/* Again where the mirror was old: what has come meanwhile was told ahead of the answer. */
static enum muster_status propose_far(struct muster *m, struct mu_ctx *ctx, struct mu_proposal *p)
{
    enum muster_status status = MUSTER_ABORTED;
    struct mu_members h;
    uint64_t word;

    for (int tries = 0; status == MUSTER_ABORTED && tries < FAR_TRIES; tries++) {
        status = mu_membership_look(m->seg, &h, &word);
        p->known = h.change;
        if (!status)
            status = propose_once(m, ctx, p);
    }
    return status;
}

/* ---- for the leader's agent -------------------------------------------------------------------------------------- */

static enum muster_status change_malformed(void)
{
    return mu_fail(MUSTER_INVALID_ARGUMENT, "the call is not well formed");
}

static enum muster_status say_take(struct mu_ctx *ctx, const struct mu_request *r, struct mu_unpack *u)
{
    struct saying s = {.change = mu_unpack_u64(u), .task = r->task - 1, .attempt = r->attempt, .is_resent = r->resent};

    s.flags = mu_unpack_u8(u);
    if (!mu_unpack_end(u) || !s.flags || s.flags & ~(MU_IS_READY | MU_IS_DONE))
        return change_malformed();
    if (!r->task || s.task >= ctx->seg->num_tasks)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "an observer has no part in a change");
    return mu_membership_edit(ctx, change_say, &s);
}

static enum muster_status cancel_take(struct mu_ctx *ctx, struct mu_unpack *u)
{
    struct saying s = {.change = mu_unpack_u64(u)};
    char why[256];

    mu_unpack_text(u, why, sizeof why);
    s.why = why[0] ? why : NULL;
    return mu_unpack_end(u) ? mu_membership_edit(ctx, change_cancel, &s) : change_malformed();
}

static enum muster_status propose_take(struct mu_ctx *ctx, const struct mu_request *r, struct mu_unpack *u,
                                       uint64_t *ret_change)
{
    struct mu_proposal p = {.is_far = true, .is_resent = r->resent, .known = mu_unpack_u64(u)};
    char role[MUSTER_ROLE_NAME_MAX + 1];
    enum muster_status status;
    int32_t *tasks;

    p.timeout_ns = mu_unpack_u64(u);
    mu_unpack_text(u, role, sizeof role);
    p.num_come = mu_unpack_u32(u);
    p.num_go = mu_unpack_u32(u);
    if (u->failed || !role[0] || p.num_come > MUSTER_MEMBERS_MAX || p.num_go > MUSTER_MEMBERS_MAX)
        return change_malformed();
    tasks = calloc(p.num_come + p.num_go + 1, sizeof *tasks);
    if (!tasks)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the change");
    for (size_t i = 0; i < p.num_come + p.num_go; i++)
        tasks[i] = (int32_t)mu_unpack_u32(u);
    p.role = role;
    p.come = tasks;
    p.go = tasks + p.num_come;
    status = mu_unpack_end(u) ? mu_membership_edit(ctx, change_propose, &p) : change_malformed();
    *ret_change = p.change;
    free(tasks);
    return status;
}

enum muster_status mu_task_change_take(struct mu_ctx *ctx, const struct mu_request *r, uint64_t *ret_change)
{
    struct mu_unpack u = r->body;

    *ret_change = 0;
    switch (mu_unpack_u8(&u)) {
    case CHANGE_SAY: return say_take(ctx, r, &u);
    case CHANGE_PROPOSE: return propose_take(ctx, r, &u, ret_change);
    case CHANGE_CANCEL: return cancel_take(ctx, &u);
    default: return change_malformed();
    }
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

enum muster_status muster_membership_propose(struct muster *muster, const int32_t *come, size_t num_come,
                                             const char *role, const int32_t *go, size_t num_go, uint64_t timeout_ns,
                                             uint64_t *ret_change)
{
    struct mu_proposal p = {.come = come,
                            .go = go,
                            .num_come = num_come,
                            .num_go = num_go,
                            .role = role ? role : "worker",
                            .timeout_ns = timeout_ns};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    if (!p.role[0] || strlen(p.role) > MUSTER_ROLE_NAME_MAX)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "a role's name is 1 to %u bytes long", MUSTER_ROLE_NAME_MAX);
    else if (num_come > MUSTER_MEMBERS_MAX || num_go > MUSTER_MEMBERS_MAX)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "a change has at most %u tasks", MUSTER_MEMBERS_MAX);
    if (!status)
        status =
            mu_is_follower(muster->seg) ? propose_far(muster, ctx, &p) : mu_membership_edit(ctx, change_propose, &p);
    mu_exit(ctx);
    if (!status && ret_change)
        *ret_change = p.change;
    return status;
}

enum muster_status mu_task_change_say(struct muster *m, struct mu_ctx *ctx, uint64_t change, uint8_t flags)
{
    struct saying s = {.change = change, .task = (uint32_t)m->task_id, .flags = flags};

    if (m->task_id < 0 || (uint32_t)m->task_id >= ctx->seg->num_tasks)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "an observer has no part in a change");
    return mu_is_follower(m->seg) ? say_far(m, ctx, change, flags) : mu_membership_edit(ctx, change_say, &s);
}

static enum muster_status membership_say(struct muster *muster, uint64_t change, uint8_t flags)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = mu_task_change_say(muster, ctx, change, flags);
    mu_exit(ctx);
    return status;
}

enum muster_status muster_membership_ready(struct muster *muster, uint64_t change)
{
    return membership_say(muster, change, MU_IS_READY);
}

enum muster_status muster_membership_done(struct muster *muster, uint64_t change)
{
    return membership_say(muster, change, MU_IS_DONE);
}

enum muster_status muster_membership_cancel(struct muster *muster, uint64_t change, const char *why)
{
    struct saying s = {.change = change, .why = why};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status =
        mu_is_follower(muster->seg) ? cancel_far(muster, ctx, change, why) : mu_membership_edit(ctx, change_cancel, &s);
    mu_exit(ctx);
    return status;
}
