/*
 * segment/members_settle.c: the rules of a membership, on the private copy of an edit: what follows from the tasks'
 * records, the clock, and what the participants have said.
 *
 *     phase       what holds                                    what follows, in one commit
 *     pending     a participant is lost, or the deadline over   rolled back, by its name
 *     any         a member is lost, and the job shrinks         it is none any more: the next epoch
 *     PREPARING   the job is begun anew, the deadline over      rolled back: the launcher has not taken it up
 *     PREPARING   all participants are ready                    SETTLING
 *     SETTLING    all are done                                  the next epoch, STEADY
 */
#include "segment/members.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "segment/hosts.h"

enum { WHO_MAX = MU_NAME_MAX + MU_TEXT_MAX + 64 };

bool mu_membership_has_left(const struct mu_task_record *r)
{
    return r->state == MUSTER_TASK_DISCONNECTED && r->attempt && !(r->flags & MU_TASK_ENDED && MU_TASK_HOW(r->flags));
}

/* It is connected, but as another process than the one that had said something. */
static bool is_successor(const struct mu_member_row *row, const struct mu_task_record *r)
{
    return r->state == MUSTER_TASK_CONNECTED && row->attempt && row->attempt != (uint16_t)r->attempt;
}

bool mu_membership_is_lost(const struct mu_member_row *row, const struct mu_task_record *r)
{
    return r->state == MUSTER_TASK_ERROR || is_successor(row, r) ||
           (mu_cluster_is_over(r) && (!r->attempt || MU_TASK_HOW(r->flags)));
}

uint32_t mu_membership_count(const struct mu_membership_copy *c, uint32_t flag)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->head.count; i++)
        n += (c->rows[i].flags & flag) != 0;
    return n;
}

/* In the next epoch: members keep their order, and newcomers are put behind them. Ranks have no gaps. */
static void role_rank(struct mu_membership_copy *c, uint8_t role)
{
    uint16_t at[MU_MEMBERS_MAX], next = 0; /* the member of each rank, + 1 */

    memset(at, 0, c->head.count * sizeof at[0]);
    for (uint32_t i = 0; i < c->head.count; i++)
        if (c->rows[i].role == role && c->rows[i].flags & MU_IS_MEMBER && c->rows[i].rank < c->head.count)
            at[c->rows[i].rank] = (uint16_t)(i + 1);
    for (uint32_t rank = 0; rank < c->head.count; rank++)
        if (at[rank] && c->rows[at[rank] - 1].flags & MU_IS_NEXT)
            c->rows[at[rank] - 1].next = next++;
    for (uint32_t i = 0; i < c->head.count; i++)
        if (c->rows[i].role == role && (c->rows[i].flags & (MU_IS_MEMBER | MU_IS_NEXT)) == MU_IS_NEXT)
            c->rows[i].next = next++;
}

void mu_membership_rank(struct mu_membership_copy *c)
{
    for (uint8_t role = 0; role < MU_ROLES_MAX; role++)
        if (c->head.roles[role][0])
            role_rank(c, role);
}

/* The members that have NEXT are the members from now on. */
static void epoch_begin(struct mu_membership_edit *e)
{
    struct mu_membership_copy *c = e->copy;

    mu_membership_rank(c);
    for (uint32_t i = 0; i < c->head.count; i++) {
        struct mu_member_row *row = &c->rows[i];

        if (row->flags & MU_IS_NEXT) {
            row->rank = row->next;
            row->flags = MU_IS_MEMBER;
        } else {
            memset(row, 0, sizeof *row);
        }
    }
    c->head.epoch++;
    c->head.phase = MUSTER_PHASE_STEADY;
    c->head.deadline = 0;
    c->head.since = e->now;
    e->moves = true;
}

void mu_membership_forget_change(struct mu_membership_copy *c)
{
    for (uint32_t i = 0; i < c->head.count; i++) {
        struct mu_member_row *row = &c->rows[i];

        if (row->flags & MU_IS_MEMBER)
            row->flags &= MU_IS_MEMBER;
        else
            memset(row, 0, sizeof *row);
        row->next = 0;
    }
    c->head.flags &= (1u << MU_MEMBERS_WANTED) - 1;
}

void mu_membership_roll_back(struct mu_membership_edit *e, const char *why)
{
    struct mu_membership_copy *c = e->copy;

    mu_membership_forget_change(c);
    c->head.phase = MUSTER_PHASE_STEADY;
    c->head.outcome = MUSTER_OUTCOME_ROLLED_BACK;
    c->head.deadline = 0;
    c->head.since = e->now;
    snprintf(c->head.text, sizeof c->head.text, "%s", why);
    e->moves = true;
}

/* "task 2 (pid 4711 on host n1) is in error: ..." */
static void loss_say(struct mu_membership_edit *e, uint32_t task, char text[WHO_MAX])
{
    char name[MU_NAME_MAX], doing[MU_DOING_MAX], why[MU_TEXT_MAX] = "";
    const struct mu_task_record *r = &e->records[task];
    struct mu_task_record again;
    struct mu_cluster cluster;

    mu_cluster_place(e->ctx->seg, task, r, name);
    if (r->state == MUSTER_TASK_ERROR && !mu_cluster_task(e->ctx->seg, task, &again, why, &cluster) && why[0])
        snprintf(text, WHO_MAX, "%s is lost: %s", name, why);
    else if (is_successor(&e->copy->rows[task], r))
        snprintf(text, WHO_MAX, "%s is another process by now", name);
    else
        snprintf(text, WHO_MAX, "%s %s%s", name, mu_membership_has_left(r) || mu_cluster_is_over(r) ? "" : "is ",
                 mu_cluster_doing(e->ctx->seg, task, r, doing));
}

/* The participants that have not said it: three names at most. */
static void missing_say(struct mu_membership_edit *e, uint8_t flag, char text[WHO_MAX])
{
    struct mu_membership_copy *c = e->copy;
    uint32_t named = 0;
    size_t n = 0;

    for (uint32_t i = 0; i < c->head.count && named < 4 && n < WHO_MAX; i++) {
        char name[MU_NAME_MAX];

        if (!(c->rows[i].flags & (MU_IS_MEMBER | MU_IS_NEXT)) || c->rows[i].flags & (flag | MU_IS_DONE))
            continue;
        mu_cluster_place(e->ctx->seg, i, &e->records[i], name);
        if (named++ == 3)
            n += (size_t)snprintf(text + n, WHO_MAX - n, " and others");
        else
            n += (size_t)snprintf(text + n, WHO_MAX - n, "%s%s", n ? ", " : "", name);
    }
}

/* A task that was to go and has left instead has said all that it had to say. */
static bool goers_look(struct mu_membership_edit *e)
{
    bool changed = false;

    for (uint32_t i = 0; i < e->copy->head.count; i++) {
        struct mu_member_row *row = &e->copy->rows[i];

        if ((row->flags & (MU_IS_MEMBER | MU_IS_NEXT | MU_IS_DONE)) != MU_IS_MEMBER ||
            !mu_membership_has_left(&e->records[i]))
            continue;
        row->flags |= MU_IS_READY | MU_IS_DONE;
        changed = true;
    }
    return changed;
}

/* A member that was lost before the change that takes it out: its row says done, and of no process. */
static bool goer_was_lost(const struct mu_member_row *row)
{
    return (row->flags & (MU_IS_MEMBER | MU_IS_NEXT | MU_IS_DONE)) == (MU_IS_MEMBER | MU_IS_DONE) && !row->attempt;
}

/* The record is of a process that had gone before the change was proposed: the task is still to come. */
static bool comer_is_awaited(const struct mu_members *h, const struct mu_member_row *row,
                             const struct mu_task_record *r)
{
    return (row->flags & (MU_IS_MEMBER | MU_IS_NEXT)) == MU_IS_NEXT && !row->attempt && r->attempt &&
           r->state != MUSTER_TASK_CONNECTED && !(r->flags & MU_TASK_ENDED) && r->since <= h->since;
}

/* The participant that makes the pending change impossible; -1: there is none. */
static int64_t change_culprit(const struct mu_membership_edit *e)
{
    for (uint32_t i = 0; i < e->copy->head.count; i++) {
        const struct mu_member_row *row = &e->copy->rows[i];
        const struct mu_task_record *r = &e->records[i];

        if (goer_was_lost(row) || comer_is_awaited(&e->copy->head, row, r))
            continue;
        if (row->flags & (MU_IS_MEMBER | MU_IS_NEXT) &&
            (mu_membership_is_lost(row, r) || (row->flags & MU_IS_NEXT && mu_membership_has_left(r))))
            return i;
    }
    return -1;
}

static bool all_have(const struct mu_membership_copy *c, uint8_t flag)
{
    for (uint32_t i = 0; i < c->head.count; i++)
        if (c->rows[i].flags & (MU_IS_MEMBER | MU_IS_NEXT) && !(c->rows[i].flags & (flag | MU_IS_DONE)))
            return false;
    return true;
}

bool mu_membership_is_over(struct mu_membership_edit *e, uint64_t change)
{
    const struct mu_members *h = &e->copy->head;

    if (h->change == change && h->phase != MUSTER_PHASE_STEADY)
        return false;
    e->status = mu_fail(MUSTER_ABORTED, "change %llu is not pending%s%s", (unsigned long long)change,
                        h->change == change && h->text[0] ? ": " : "", h->change == change ? h->text : "");
    return true;
}

/* Of a job that is begun anew: what is pending waits for the launcher alone, until that has taken it. */
static bool wish_settle(struct mu_membership_edit *e)
{
    struct mu_members *h = &e->copy->head;
    char why[MU_MEMBERS_TEXT];

    if (h->phase != MUSTER_PHASE_PREPARING || e->now < h->deadline)
        return false;
    snprintf(why, sizeof why, "change %llu was rolled back: its time was over, and the launcher had not taken it up",
             (unsigned long long)h->change);
    mu_membership_roll_back(e, why);
    return true;
}

/* The pending change: does it fail, or go on? */
static bool change_settle(struct mu_membership_edit *e)
{
    struct mu_membership_copy *c = e->copy;
    char who[WHO_MAX] = "", why[MU_MEMBERS_TEXT];
    unsigned long long number = c->head.change;
    bool changed = goers_look(e);
    int64_t culprit = change_culprit(e);

    if (culprit >= 0) {
        loss_say(e, (uint32_t)culprit, who);
        snprintf(why, sizeof why, "change %llu was rolled back: %.380s", number, who);
        mu_membership_roll_back(e, why);
        return true;
    }
    if (c->head.phase == MUSTER_PHASE_PREPARING && all_have(c, MU_IS_READY)) {
        c->head.phase = MUSTER_PHASE_SETTLING;
        c->head.since = e->now;
        changed = true;
    }
    if (c->head.phase == MUSTER_PHASE_SETTLING && all_have(c, MU_IS_DONE)) {
        c->head.outcome = MUSTER_OUTCOME_COMMITTED;
        c->head.text[0] = 0;
        epoch_begin(e);
        return true;
    }
    if (e->now < c->head.deadline)
        return changed;
    missing_say(e, c->head.phase == MUSTER_PHASE_PREPARING ? MU_IS_READY : MU_IS_DONE, who);
    snprintf(why, sizeof why, "change %llu was rolled back: its time was over, and %.300s had not said %s", number, who,
             c->head.phase == MUSTER_PHASE_PREPARING ? "ready" : "done");
    mu_membership_roll_back(e, why);
    return true;
}

/* Members that are lost, where the job goes on without them. */
static bool losses_settle(struct mu_membership_edit *e)
{
    struct mu_membership_copy *c = e->copy;
    uint32_t lost = 0, left = 0;
    int64_t first = -1;
    char who[WHO_MAX];

    if (!(c->head.flags & MU_MEMBERS_SHRINK))
        return false;
    for (uint32_t i = 0; i < c->head.count; i++) {
        if (!(c->rows[i].flags & MU_IS_MEMBER))
            continue;
        if (mu_membership_is_lost(&c->rows[i], &e->records[i])) {
            first = first < 0 ? i : first;
            lost++;
        } else {
            left++;
        }
    }
    if (!lost || left < c->head.least)
        return false;
    loss_say(e, (uint32_t)first, who);
    for (uint32_t i = 0; i < c->head.count; i++)
        if (c->rows[i].flags & MU_IS_MEMBER && !mu_membership_is_lost(&c->rows[i], &e->records[i]))
            c->rows[i].flags |= MU_IS_NEXT;
    if (lost > 1)
        snprintf(c->head.text, sizeof c->head.text, "%.380s; and %u more", who, lost - 1);
    else
        snprintf(c->head.text, sizeof c->head.text, "%.440s", who);
    c->head.outcome = MUSTER_OUTCOME_LOST;
    epoch_begin(e);
    return true;
}

bool mu_membership_settle(struct mu_membership_edit *e)
{
    bool changed;

    if (mu_membership_is_anew(&e->copy->head))
        return wish_settle(e);
    changed = e->copy->head.phase != MUSTER_PHASE_STEADY && change_settle(e);
    return losses_settle(e) || changed;
}

const char *mu_membership_phase_name(uint32_t phase)
{
    static const char *const names[] = {
        [MUSTER_PHASE_STEADY] = "steady", [MUSTER_PHASE_PREPARING] = "preparing", [MUSTER_PHASE_SETTLING] = "settling"};

    return phase < sizeof names / sizeof names[0] ? names[phase] : "?";
}
