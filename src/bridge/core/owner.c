/*
 * bridge/core/owner.c: what is asked about tasks of other hosts.
 *
 * An error is put into the leader's record at once, so that all learn of it though the task's host be cut off, and told
 * to that host until its own record says so, too. Resets, and heartbeats brought for a task, are errands: the leader's
 * agent passes them on to the agent of the task's host, which alone can decide them, and passes its answer back. An
 * errand is sent again, with the mark "again", when its connection breaks; one that was carried out before has the same
 * answer then. When the host is lost, its records are the leader's to change, and it decides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/task.h>

#include "base/clock.h"
#include "bridge/member/members.h"
#include "task/task.h"

/* What a call about a task says; the same for all of them. */
struct about {
    uint32_t task, code;
    uint64_t incarnation;
    char text[MU_TEXT_MAX];
};

static bool read_about(struct mu_unpack *u, struct about *a)
{
    a->task = mu_unpack_u32(u);
    a->code = mu_unpack_u32(u);
    a->incarnation = mu_unpack_u64(u);
    mu_unpack_text(u, a->text, sizeof a->text);
    return mu_unpack_end(u);
}

static bool read_record(const struct mu_core *core, uint32_t task, struct mu_task_record *r, char text[MU_TEXT_MAX])
{
    struct mu_cluster c;

    return mu_cluster_task(core->seg, task, r, text, &c) == MUSTER_OK;
}

/* ---- the leader -------------------------------------------------------------------------------------------------- */

/* To the agent of the task's host; `number` 0: no answer is wanted. */
static void send_errand(struct mu_core *core, const struct errand *e, const struct mu_task_record *r, const char *text)
{
    struct mu_pack p = {0};

    mu_pack_u32(&p, e->op);
    mu_pack_u32(&p, e->task);
    mu_pack_u32(&p, e->host);
    mu_pack_u32(&p, e->slot);
    mu_pack_u64(&p, e->number);
    mu_pack_u8(&p, e->again);
    mu_pack_u32(&p, r->attempt);
    mu_pack_u8(&p, (uint8_t)e->code);
    mu_pack_u8(&p, (uint8_t)r->cause);
    mu_pack_u64(&p, e->incarnation);
    mu_pack_text(&p, text);
    if (p.failed)
        core->peers[e->owner].tail.failed = true;
    else
        mu_core_send(core, e->owner, MU_FRAME_TO_OWNER, p.bytes, p.len);
    mu_pack_done(&p);
}

void mu_owner_tell_error(struct mu_core *core, uint32_t task)
{
    struct errand e = {.op = MU_OP_ERROR_REPORT, .task = task, .owner = mu_host_of(core->seg, task)};
    struct mu_task_record r;
    char text[MU_TEXT_MAX];

    if (core->peers[e.owner].state != MU_PEER_UP || !read_record(core, task, &r, text) || !mu_members_untold(&r))
        return;
    e.code = r.code;
    e.incarnation = r.incarnation;
    send_errand(core, &e, &r, text);
}

/* By this host's records: its own task's, or that of a host that is lost. */
static enum muster_status errand_decide(struct mu_core *core, uint32_t op, uint32_t task, uint64_t incarnation)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (status)
        return status;
    status = op == MU_OP_TASK_RESET ? mu_task_reset(ctx, task, -1) : mu_task_beat(ctx, task, incarnation);
    mu_exit(ctx);
    return status;
}

/*
 * A reset that finds nothing to do may itself have done it before: then the caller saw the task in a state that it is
 * not in any more, in the registration that the call names.
 */
static bool was_reset(const struct mu_core *core, const struct errand *e)
{
    struct mu_task_record r;

    return e->op == MU_OP_TASK_RESET && e->again && e->code != MUSTER_TASK_DISCONNECTED &&
           read_record(core, e->task, &r, NULL) &&
           (r.state == MUSTER_TASK_DISCONNECTED || r.attempt != (uint32_t)e->incarnation);
}

/* What it changed goes in front of it. */
static void errand_answer(struct mu_core *core, const struct errand *e, enum muster_status status, const char *text)
{
    mu_members_of(core)->told[e->host].now = true;
    mu_call_answer(core, e->host, e->slot, e->number, status, text, NULL, 0);
}

static void pass_on(struct mu_core *core, struct errand *e)
{
    struct mu_task_record r;

    if (core->peers[e->owner].state != MU_PEER_UP || !read_record(core, e->task, &r, NULL))
        return;
    send_errand(core, e, &r, "");
    e->again = true;
}

static bool errand_keep(struct mu_core *core, const struct errand *e)
{
    struct members *m = mu_members_of(core);
    struct errand *more;

    if (m->num_errands == m->errands_capacity) {
        uint32_t n = m->errands_capacity ? 2 * m->errands_capacity : 16;

        more = realloc(m->errands, n * sizeof *more);
        if (!more)
            return false;
        m->errands = more;
        m->errands_capacity = n;
    }
    m->errands[m->num_errands++] = *e;
    return true;
}

static struct errand *errand_find(struct members *m, uint32_t host, uint32_t slot, uint64_t number)
{
    for (uint32_t i = 0; i < m->num_errands; i++)
        if (m->errands[i].host == host && m->errands[i].slot == slot && m->errands[i].number == number)
            return &m->errands[i];
    return NULL;
}

static void errand_drop(struct members *m, struct errand *e)
{
    *e = m->errands[--m->num_errands];
}

/* A reset, or a heartbeat for the task: the calls. */
static bool run_errand(struct mu_core *core, const struct mu_request *r)
{
    struct errand e = {.op = r->op, .host = r->host, .slot = r->slot, .number = r->number, .again = r->resent};
    struct mu_unpack u = r->body;
    struct about a;

    if (!read_about(&u, &a) || a.task >= core->seg->num_tasks) {
        errand_answer(core, &e, MUSTER_INVALID_ARGUMENT, "the call is not well formed");
        return true;
    }
    e.task = a.task;
    e.code = a.code;
    e.incarnation = a.incarnation;
    e.owner = mu_host_of(core->seg, a.task);
    if (e.owner == core->host || core->peers[e.owner].state == MU_PEER_LOST) {
        enum muster_status status = errand_decide(core, e.op, e.task, e.incarnation);

        if (status == MUSTER_FAILED_PRECONDITION && was_reset(core, &e))
            status = MUSTER_OK;
        errand_answer(core, &e, status, NULL);
        return true;
    }
    if (!errand_keep(core, &e)) {
        mu_call_later(core, r->host, r->slot, r->number);
        return false;
    }
    pass_on(core, &mu_members_of(core)->errands[mu_members_of(core)->num_errands - 1]);
    return false;
}

bool mu_op_task_reset(struct mu_core *core, const struct mu_request *r)
{
    return run_errand(core, r);
}

bool mu_op_task_heartbeat(struct mu_core *core, const struct mu_request *r)
{
    return run_errand(core, r);
}

void mu_errand_abandoned(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number)
{
    struct errand *e = errand_find(mu_members_of(core), host, slot, number);

    if (e)
        errand_drop(mu_members_of(core), e);
}

bool mu_op_error_report(struct mu_core *core, const struct mu_request *r)
{
    struct mu_unpack u = r->body;
    struct about a;
    struct mu_task_record now;
    char text[MU_TEXT_MAX];
    struct mu_ctx *ctx;
    enum muster_status status = MUSTER_INVALID_ARGUMENT;

    if (!read_about(&u, &a) || a.task >= core->seg->num_tasks || !a.code || a.code > MUSTER_DATA_LOSS)
        mu_fail(status, "the call is not well formed");
    else
        status = mu_enter(core->m, &ctx);
    if (!status) {
        status =
            mu_task_fail(ctx, a.task, 0, MU_EVENT_REPORT, (enum muster_status)a.code, MUSTER_CAUSE_REPORTED, a.text);
        mu_exit(ctx);
    }
    /* made before, it has put just this into the record */
    if (status == MUSTER_FAILED_PRECONDITION && r->resent && read_record(core, a.task, &now, text) &&
        now.state == MUSTER_TASK_ERROR && now.cause == MUSTER_CAUSE_REPORTED && now.code == a.code &&
        !strcmp(text, a.text))
        status = MUSTER_OK;
    mu_members_of(core)->told[r->host].now = true;
    mu_call_answer(core, r->host, r->slot, r->number, status, NULL, NULL, 0);
    return true;
}

bool mu_take_owner_says(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct members *m = mu_members_of(core);
    uint32_t asker = mu_unpack_u32(u), slot = mu_unpack_u32(u);
    uint64_t number = mu_unpack_u64(u);
    uint32_t status = mu_unpack_u32(u);
    char text[1024];
    struct errand *e, done;

    mu_unpack_text(u, text, sizeof text);
    if (!mu_unpack_end(u) || status > MUSTER_DATA_LOSS) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "an answer %u cannot be", status);
        return false;
    }
    e = errand_find(m, asker, slot, number);
    if (!e || e->owner != host)
        return true; /* nobody wants it any more */
    done = *e;
    errand_drop(m, e);
    errand_answer(core, &done, (enum muster_status)status, text);
    return true;
}

void mu_owner_up(struct mu_core *core, uint32_t host)
{
    struct members *m = mu_members_of(core);

    for (uint32_t i = 0; i < m->num_errands; i++)
        if (m->errands[i].owner == host)
            pass_on(core, &m->errands[i]);
}

void mu_owner_lost(struct mu_core *core, uint32_t host)
{
    struct members *m = mu_members_of(core);

    for (uint32_t i = 0; i < m->num_errands;) {
        struct errand e = m->errands[i];

        if (e.owner != host) {
            i++;
            continue;
        }
        errand_drop(m, &m->errands[i]);
        errand_answer(core, &e, errand_decide(core, e.op, e.task, e.incarnation), NULL);
    }
}

/* ---- the agent of the task's host -------------------------------------------------------------------------------- */

struct verdict {
    uint32_t attempt, code, cause;
    const char *text;
};

/* The leader's word that the task is in error, if it is in that registration still. */
static bool accept_error(struct mu_task_change *c)
{
    const struct verdict *v = c->arg;
    int next = mu_task_next(c->record.state, MU_EVENT_REPORT, 0);

    if (next < 0 || c->record.attempt != v->attempt)
        return false; /* its record has gone on, and the leader hears of that */
    c->record.state = (uint32_t)next;
    c->record.code = v->code;
    c->record.cause = v->cause;
    c->record.since = mu_now();
    snprintf(c->text, sizeof c->text, "%s", v->text);
    return true;
}

static void say_to_leader(struct mu_core *core, const struct errand *e, enum muster_status status)
{
    struct mu_pack p = {0};

    mu_members_of(core)->told[0].now = true; /* as in errand_answer() */
    mu_pack_u32(&p, e->host);
    mu_pack_u32(&p, e->slot);
    mu_pack_u64(&p, e->number);
    mu_pack_u32(&p, status);
    mu_pack_text(&p, status ? muster_last_error() : "");
    if (p.failed)
        core->peers[0].tail.failed = true;
    else
        mu_core_send(core, 0, MU_FRAME_OWNER_SAYS, p.bytes, p.len);
    mu_pack_done(&p);
}

static enum muster_status take_error(struct mu_core *core, uint32_t task, struct verdict *v)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (status)
        return status;
    status = mu_cluster_edit(ctx, task, accept_error, v);
    mu_exit(ctx);
    return status;
}

bool mu_take_to_owner(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct errand e = {.op = mu_unpack_u32(u)};
    struct verdict v;
    char text[MU_TEXT_MAX];
    enum muster_status status;

    (void)host;
    e.task = mu_unpack_u32(u);
    e.host = mu_unpack_u32(u);
    e.slot = mu_unpack_u32(u);
    e.number = mu_unpack_u64(u);
    e.again = mu_unpack_u8(u);
    v.attempt = mu_unpack_u32(u);
    v.code = e.code = mu_unpack_u8(u);
    v.cause = mu_unpack_u8(u);
    e.incarnation = mu_unpack_u64(u);
    mu_unpack_text(u, text, sizeof text);
    v.text = text;
    if (!mu_unpack_end(u) || !mu_is_local_task(core->seg, e.task) || v.code > MUSTER_DATA_LOSS ||
        v.cause > MUSTER_CAUSE_SERVICE) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "op %u for task %u cannot be", e.op, e.task);
        return false;
    }
    mu_core_worked(core);
    if (e.op == MU_OP_ERROR_REPORT)
        return take_error(core, e.task, &v) == MUSTER_OK;
    if (e.op != MU_OP_TASK_RESET && e.op != MU_OP_TASK_HEARTBEAT) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "op %u is not for the task's host", e.op);
        return false;
    }
    status = errand_decide(core, e.op, e.task, e.incarnation);
    if (status == MUSTER_FAILED_PRECONDITION && was_reset(core, &e))
        status = MUSTER_OK;
    say_to_leader(core, &e, status);
    return true;
}
