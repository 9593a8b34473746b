/*
 * bridge/group/groups_build.c: how a group that spans hosts comes to be, on the leader.
 *
 * Building. A member on another host comes by a call, which comes for it to the entry here, as members of this host do
 * themselves. When all have come and none has left, one edit gives the entry its proxy: that makes the group complete.
 * Then every host is told of its members, and every call is answered. The entry remembers by which call a member
 * came, so one that is sent again after this agent was replaced is known.
 */
#include "bridge/group/groups.h"

#include <stdio.h>
#include <stdlib.h>

/* Which hosts have a part; a host is done with it when all its members have left. */
static void find_sides(struct mu_core *core, struct span *s)
{
    for (uint32_t h = 0; h < core->num_hosts; h++)
        s->sides[h].over = true;
    for (uint32_t i = 0; i < s->size; i++) {
        struct side *side = &s->sides[mu_host_of(core->seg, s->members[i].task)];

        side->in = true;
        side->over &= (s->members[i].flags & MU_MEMBER_LEFT) != 0;
    }
    s->sides[0].in = false;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static void opener_answer(struct mu_core *core, const struct group_waiter *w, enum muster_status status,
                          const char *text, uint64_t generation)
{
    mu_call_answer(core, w->host, w->slot, w->number, status, text, &generation, status ? 0 : sizeof generation);
}

/* It will never be complete: all waiters are told why, and with that they have left. */
static void build_give_up(struct mu_core *core, struct span *s, enum muster_status status)
{
    char text[512];

    snprintf(text, sizeof text, "%s", muster_last_error());
    for (uint32_t i = 0; i < s->num_waiters; i++) {
        mu_bridge_span_leave_one(core, s, s->waiters[i].rank);
        opener_answer(core, &s->waiters[i], status, text, 0);
    }
    mu_bridge_span_drop(core, s);
}

static void span_make(struct mu_core *core, struct span *s)
{
    find_sides(core, s);
    for (uint32_t h = 1; h < core->num_hosts; h++)
        if (mu_lead_hears(core, s, h))
            mu_lead_say_made(core, s, h);
    for (uint32_t i = 0; i < s->num_waiters; i++)
        opener_answer(core, &s->waiters[i], MUSTER_OK, NULL, s->generation);
    s->num_waiters = 0;
}

static enum muster_status build_complete(struct mu_core *core, struct span *s, bool *ret_complete)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (status)
        return status;
    status = mu_group_entry_complete(ctx, &s->key, s->data_bytes, ret_complete);
    mu_exit(ctx);
    return status;
}

/* Whether it is complete by now, or never will be. The span may be gone afterwards. */
static void consider_building(struct mu_core *core, struct span *s)
{
    struct mu_group_entry r;
    bool is_complete = false;
    enum muster_status status = mu_bridge_span_load(core, s, &r);

    if (!status && !r.found)
        status = mu_fail(MUSTER_UNAVAILABLE, "group %s cannot be built: its members are gone", s->name);
    if (!status && r.there == s->size && r.left < 0 && !s->proxy) {
        status = build_complete(core, s, &is_complete);
        if (!status && is_complete)
            status = mu_bridge_span_load(core, s, &r);
    }
    if (!status && s->proxy) {
        span_make(core, s);
        return;
    }
    if (!status)
        status = mu_group_entry_lost(core->seg, s->name, &r);
    if (status)
        build_give_up(core, s, status);
}

/* Callers that have given up: their members have left. */
static bool let_go(struct mu_core *core, struct span *s)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < s->num_waiters; i++)
        if (s->waiters[i].gone)
            mu_bridge_span_leave_one(core, s, s->waiters[i].rank);
        else
            s->waiters[kept++] = s->waiters[i];
    if (kept == s->num_waiters)
        return false;
    s->num_waiters = kept;
    return true;
}

bool mu_lead_loaded(struct mu_core *core, struct span *s)
{
    if (!s->proxy)
        return true;
    find_sides(core, s);
    return mu_lead_any_host_is_left(core, s);
}

void mu_build_look(struct mu_core *core, struct span *s)
{
    if (s->proxy) /* calls that were sent again: it is complete already */
        span_make(core, s);
    else if (let_go(core, s) || mu_bridge_span_changed(core, s))
        consider_building(core, s);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

struct opening {
    char name[MUSTER_GROUP_NAME_MAX + 1];
    struct mu_group_join c;
    struct mu_group_member *members;
};

static enum muster_status unpack_opening(struct mu_core *core, const struct mu_request *r, struct opening *o)
{
    struct mu_unpack u = r->body;
    bool sound = true, spans = false;

    mu_unpack_text(&u, o->name, sizeof o->name);
    o->c.data_bytes = mu_unpack_u32(&u);
    o->c.rank = mu_unpack_u32(&u);
    o->c.size = mu_unpack_u32(&u);
    if (u.failed || !*o->name || o->c.data_bytes > MUSTER_GROUP_DATA_MAX || !o->c.size ||
        o->c.size > MUSTER_GROUP_SIZE_MAX || o->c.rank >= o->c.size || !r->task || u.left != o->c.size * 4ul)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a group that cannot be");
    o->members = calloc(o->c.size, sizeof *o->members);
    if (!o->members)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "group %s: no memory for %u members", o->name, o->c.size);
    for (uint32_t i = 0; i < o->c.size; i++) {
        o->members[i].task = mu_unpack_u32(&u);
        sound &= o->members[i].task < core->seg->num_tasks;
        spans |= sound && mu_host_of(core->seg, o->members[i].task) != r->host;
    }
    if (!sound || !spans || o->members[o->c.rank].task != r->task - 1)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "group %s has members that cannot be", o->name);
    o->c.name = o->name;
    o->c.members = o->members;
    o->c.spans = true;
    o->c.incarnation = r->incarnation;
    o->c.call = MU_MEMBER_CALL(r->slot, r->number);
    o->c.again = r->resent;
    return MUSTER_OK;
}

/* The caller's host has yet to tell that it has joined: the call comes again. */
static bool is_early(struct mu_core *core, const struct mu_request *r)
{
    struct mu_task_record record;
    struct mu_cluster cluster;

    return r->task && r->task <= core->seg->num_tasks &&
           !mu_cluster_task(core->seg, r->task - 1, &record, NULL, &cluster) && record.attempt < r->attempt;
}

static enum muster_status opening_come(struct mu_core *core, struct opening *o)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (status)
        return status;
    status = mu_group_entry_join(ctx, &o->c);
    mu_exit(ctx);
    return status;
}

/* The caller waits. */
static bool opening_keep(struct mu_core *core, const struct opening *o, const struct mu_request *r)
{
    struct span *s = mu_bridge_span_find(core, o->name, o->c.generation);
    struct group_waiter *more;

    if (!s)
        s = mu_bridge_span_new(core, o->name, o->c.generation, o->c.size, o->c.data_bytes);
    more = s ? realloc(s->waiters, (s->num_waiters + 1) * sizeof *more) : NULL;
    if (!more)
        return false;
    s->waiters = more;
    s->waiters[s->num_waiters++] = (struct group_waiter){r->number, r->host, r->slot, o->c.rank, false};
    s->word = 0; /* at the next look, which comes after what is to be told of tasks */
    mu_core_worked(core);
    return true;
}

bool mu_op_group_open(struct mu_core *core, const struct mu_request *r)
{
    struct opening o = {0};
    enum muster_status status;

    if (is_early(core, r)) {
        mu_call_later(core, r->host, r->slot, r->number);
        return true;
    }
    mu_groups_start(core);
    status = unpack_opening(core, r, &o);
    if (!status)
        status = opening_come(core, &o);
    if (!status && !opening_keep(core, &o, r))
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "group %s: no memory", o.name);
    if (status)
        mu_call_answer(core, r->host, r->slot, r->number, status, NULL, NULL, 0);
    free(o.members);
    return status != MUSTER_OK;
}

void mu_op_group_abandoned(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number)
{
    for (struct span *s = mu_groups_of(core)->first; s; s = s->next)
        for (uint32_t i = 0; i < s->num_waiters; i++)
            if (s->waiters[i].host == host && s->waiters[i].slot == slot && s->waiters[i].number == number) {
                s->waiters[i].gone = true; /* seen to at the next look */
                mu_core_worked(core);
            }
}

/* The member that came by this call. */
static struct span *find_call(struct mu_core *core, uint32_t host, uint32_t call, uint32_t *ret_rank)
{
    for (struct span *s = mu_groups_of(core)->first; s; s = s->next)
        for (uint32_t i = 0; i < s->size; i++)
            if (MU_MEMBER_CALL_OF(s->members[i].flags) == call && !(s->members[i].flags & MU_MEMBER_LEFT) &&
                mu_host_of(core->seg, s->members[i].task) == host) {
                *ret_rank = i;
                return s;
            }
    return NULL;
}

/* The caller's last call was to open a group, and it gave up: how many had come, and which are missing. */
bool mu_op_group_close(struct mu_core *core, const struct mu_request *r)
{
    uint32_t rank = 0, count[2] = {0};
    struct span *s;

    mu_groups_start(core);
    s = find_call(core, r->host, MU_MEMBER_CALL(r->slot, r->number - 1), &rank);
    if (s) {
        count[1] = UINT32_MAX;
        for (uint32_t i = 0; i < s->size; i++) {
            bool there = s->members[i].flags & MU_MEMBER_THERE;

            count[0] += there;
            count[1] = there || count[1] != UINT32_MAX ? count[1] : s->members[i].task;
        }
        if (!s->proxy) {
            mu_bridge_span_leave_one(core, s, rank);
        } else if (mu_lead_hears(core, s, r->host)) { /* it has become complete meanwhile: its host has the entry */
            struct mu_pack p = {0};

            mu_bridge_span_pack(&p, MU_SAY_GONE, s);
            mu_pack_u32(&p, rank);
            mu_bridge_span_send(core, r->host, MU_FRAME_GROUP, &p);
        }
    }
    mu_call_answer(core, r->host, r->slot, r->number, MUSTER_OK, NULL, count, sizeof count);
    return true;
}
