/*
 * bridge/barrier/barrier_ops.c: named barriers and liveness queries of other hosts' tasks: the leader's agent makes
 * their calls, and keeps those that wait (bridge/barrier/pending.h).
 *
 * A call becomes pending when it is taken, and is made at the turn's look: all that came in one turn for the same
 * barrier arrive by one commit. What is kept is soft: an agent that starts has none of it, and the hosts send their
 * open calls again, which take up what their arrivals left in the marks.
 *
 * A call may overtake its task's record, which says that the task is there: it waits for that before it arrives.
 */
#include "bridge/barrier/barrier_ops.h"

#include <stdlib.h>
#include <string.h>

#include "segment/cluster.h"

#define LISTS_MAX (1u << 20) /* bytes of participants' lists that arriving calls may hold until the turn's end */

/* ---- what is kept ---- */

/* Room for the host's slot; NULL: no memory. */
static struct barrier_waiter **waiter_place(struct barrier_ops *s, uint32_t host, uint32_t slot)
{
    uint32_t n = s->hosts[host].count ? s->hosts[host].count : 16;
    struct barrier_waiter **more;

    if (slot < s->hosts[host].count)
        return &s->hosts[host].slots[slot];
    while (n <= slot)
        n *= 2;
    more = realloc(s->hosts[host].slots, n * sizeof *more);
    if (!more)
        return NULL;
    memset(more + s->hosts[host].count, 0, (n - s->hosts[host].count) * sizeof *more);
    s->hosts[host].slots = more;
    s->hosts[host].count = n;
    return &more[slot];
}

/* It is out. */
static void waiter_free(struct barrier_ops *s, struct barrier_waiter *w)
{
    if (mu_pending_is_barrier(w->pending.at))
        mu_barrier_call_done(&w->pending.call);
    s->hosts[w->host].slots[w->slot] = NULL;
    s->num_waiters--;
    free(w);
}

void mu_pending_call_abandoned(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number)
{
    struct barrier_ops *s = mu_pending_ops_of(core);
    struct barrier_waiter *w = slot < s->hosts[host].count ? s->hosts[host].slots[slot] : NULL;

    if (!w || w->number != number)
        return;
    mu_pending_remove(&w->pending);
    waiter_free(s, w);
}

/* ---- answers ---- */

static void barrier_answer_pack(struct mu_pack *body, const struct mu_call *c, const struct mu_pending_answer *a)
{
    mu_pack_u64(body, c->counter);
    mu_pack_u8(body, c->waiting);
    mu_pack_u64(body, a->present);
    mu_pack_u8(body, a->flags);
}

static void pack_alive(struct mu_pack *body, const struct mu_alive *a)
{
    uint32_t count = 0;

    mu_pack_u32(body, 0);
    for (uint32_t i = 0; i < a->count; i++) {
        if (!mu_alive_is_in(a, i))
            continue;
        mu_pack_u32(body, (uint32_t)a->ids[i]);
        mu_pack_u64(body, mu_alive_incarnation(a, i));
        count++;
    }
    mu_pack_put_u32(body, 0, count);
}

static void call_answered(void *arg, struct mu_pending_call *c, const struct mu_pending_answer *a)
{
    struct barrier_ops *s = arg;
    struct barrier_waiter *w = (struct barrier_waiter *)c;
    struct mu_pack body = {0};

    if (mu_pending_is_barrier(c->at))
        barrier_answer_pack(&body, &c->call, a);
    else if (a->alive)
        pack_alive(&body, a->alive);
    if (body.failed) /* it is sent again, and taken up */
        mu_call_later(s->core, w->host, w->slot, w->number);
    else
        mu_call_answer(s->core, w->host, w->slot, w->number, a->status, a->text, body.bytes, body.len);
    mu_pack_done(&body);
    waiter_free(s, w);
}

static enum mu_readiness call_ready(void *arg, const struct mu_pending_call *c, uint32_t task)
{
    const struct barrier_ops *s = arg;
    const struct barrier_waiter *w = (const struct barrier_waiter *)c;
    struct mu_task_record r;
    struct mu_cluster cluster;

    if (mu_cluster_task(s->core->seg, task, &r, NULL, &cluster))
        return MU_CALL_AWAITED;
    if (r.incarnation == w->incarnation)
        return MU_CALL_READY;
    return r.attempt > w->attempt ? MU_CALL_REPLACED : MU_CALL_AWAITED;
}

/* ---- calls come ---- */

static bool request_refuse(struct mu_core *core, const struct mu_request *r, const char *why)
{
    mu_call_answer(core, r->host, r->slot, r->number, MUSTER_INVALID_ARGUMENT, why, NULL, 0);
    return true;
}

/* The call becomes pending; NULL: no memory, and it will be sent again. What is in *c moves there. */
static struct barrier_waiter *waiter_keep(struct mu_core *core, const struct mu_request *r, const char *key,
                                          uint32_t len, const struct mu_pending_call *c)
{
    struct barrier_ops *s = mu_pending_ops_of(core);
    struct barrier_waiter **place = waiter_place(s, r->host, r->slot), *w = place ? malloc(sizeof *w) : NULL;
    struct mu_pending *p = w ? mu_pending_of(&s->pending, key, len) : NULL;

    if (!p) {
        free(w);
        mu_call_later(core, r->host, r->slot, r->number);
        return NULL;
    }
    *w = (struct barrier_waiter){.pending = *c,
                                 .host = r->host,
                                 .slot = r->slot,
                                 .number = r->number,
                                 .incarnation = r->incarnation,
                                 .attempt = r->attempt};
    mu_pending_add(p, &w->pending);
    *place = w;
    s->num_waiters++;
    return w;
}

/* At once: what arrives there. */
static void look_now(struct mu_core *core, struct mu_pending *p)
{
    struct mu_ctx *ctx;

    if (mu_enter(core->m, &ctx))
        return;
    mu_pending_look(&mu_pending_ops_of(core)->pending, ctx, p, core->now, NULL);
    mu_exit(ctx);
}

static bool barrier_call(struct mu_core *core, const struct mu_request *r, bool leaves)
{
    struct mu_pending_call c = {
        .call = {.flags = r->flags, .attempt = r->attempt, .again = r->resent, .leaves = leaves}};
    struct mu_unpack u = r->body;
    char key[MUSTER_BARRIER_ID_MAX + 2] = {'B'};
    struct barrier_waiter *w;

    if (!r->task)
        return request_refuse(core, r, "an observer cannot take part in a barrier");
    c.call.task = r->task - 1;
    if (!mu_barrier_call_unpack(&u, core->seg->num_tasks, key + 1, &c.call) || mu_barrier_is_hosts(key + 1)) {
        mu_barrier_call_done(&c.call);
        return request_refuse(core, r, "the call to a barrier is not well formed");
    }
    w = waiter_keep(core, r, key, (uint32_t)strlen(key), &c);
    if (!w)
        mu_barrier_call_done(&c.call);
    else if (w->pending.at->bytes > LISTS_MAX)
        look_now(core, w->pending.at);
    return false;
}

bool mu_op_barrier_wait(struct mu_core *core, const struct mu_request *r)
{
    return barrier_call(core, r, false);
}

bool mu_op_barrier_give_up(struct mu_core *core, const struct mu_request *r)
{
    return barrier_call(core, r, true);
}

/* Those that came before it arrive first. */
static void make_arrive(struct mu_core *core, const char *key)
{
    struct mu_pending *p = mu_pending_find(&mu_pending_ops_of(core)->pending, key, (uint32_t)strlen(key));

    if (p && p->arriving)
        look_now(core, p);
}

bool mu_op_barrier_cancel(struct mu_core *core, const struct mu_request *r)
{
    struct mu_call c = {.task = r->task ? r->task - 1 : MU_NOBODY, .name = MU_CALLS_NONE, .untold = MU_CALLS_NONE};
    struct mu_done done = {.id = MU_DONE_ID(r->host, r->slot), .number = r->number};
    struct mu_named *n = &mu_pending_ops_of(core)->pending.named;
    struct mu_unpack u = r->body;
    struct mu_ctx *ctx;
    char key[MUSTER_BARRIER_ID_MAX + 2] = {'B'};
    enum muster_status status;

    mu_unpack_text(&u, key + 1, MUSTER_BARRIER_ID_MAX + 1);
    c.asked = mu_unpack_u64(&u);
    if (!mu_unpack_end(&u) || !key[1] || mu_barrier_is_hosts(key + 1))
        return request_refuse(core, r, "the call to cancel a barrier is not well formed");
    make_arrive(core, key);
    status = mu_enter(core->m, &ctx);
    if (!status) {
        status = mu_named_turn_to(n, ctx, key + 1);
        n->done = &done;
        if (!status)
            status = mu_named_cancel(n, &c);
        n->done = NULL;
        mu_exit(ctx);
    }
    if (status == MUSTER_UNAVAILABLE) {
        mu_call_later(core, r->host, r->slot, r->number);
    } else {
        status = status ? status : mu_barrier_call_result(&c);
        mu_call_answer(core, r->host, r->slot, r->number, status, NULL, NULL, 0);
    }
    mu_barrier_call_done(&c);
    return true;
}

bool mu_op_task_alive(struct mu_core *core, const struct mu_request *r)
{
    struct mu_pending_call c = {.alive = {.again = r->resent}};
    struct mu_unpack u = r->body;
    int32_t ids[MU_ALIVE_MAX];
    char key[MU_ALIVE_KEY_MAX];
    bool in = false;
    uint32_t count;

    c.alive.name = mu_unpack_u32(&u);
    count = mu_unpack_u32(&u);
    if (!r->task || !count || count > MU_ALIVE_MAX || u.left != count * 4ul)
        return request_refuse(core, r, "the question which tasks are alive is not well formed");
    c.alive.task = r->task - 1;
    for (uint32_t i = 0, before = 0; i < count; i++) {
        uint32_t id = mu_unpack_u32(&u);

        if (id >= core->seg->num_tasks || (i && id <= before))
            return request_refuse(core, r, "the question which tasks are alive is not well formed");
        in |= id == c.alive.task;
        ids[i] = (int32_t)id;
        before = id;
    }
    if (!in)
        return request_refuse(core, r, "the caller is not among the tasks it asks about");
    waiter_keep(core, r, key, mu_alive_key(ids, count, key), &c);
    return false;
}

/* ---- the module ---- */

static bool barriers_init(struct mu_core *core, void **ret_state)
{
    struct barrier_ops *s = calloc(1, sizeof *s);

    *ret_state = s;
    if (!s)
        return false;
    if (!core->leader)
        return true;
    s->core = core;
    s->pending.answered = call_answered;
    s->pending.ready = call_ready;
    s->pending.arg = s;
    s->hosts = calloc(core->num_hosts, sizeof *s->hosts);
    if (!s->hosts || !mu_pending_open(&s->pending, core->m) || !mu_mirror_init(core, &s->mirror))
        return false;
    s->pending.named.forget = mu_call_is_settled;
    s->pending.named.forget_arg = core;
    return true;
}

static void barriers_done(struct mu_core *core)
{
    struct barrier_ops *s = mu_pending_ops_of(core);

    for (uint32_t i = 0; s->hosts && i < core->num_hosts; i++) {
        for (uint32_t k = 0; k < s->hosts[i].count; k++)
            if (s->hosts[i].slots[k])
                mu_pending_call_abandoned(core, i, k, s->hosts[i].slots[k]->number);
        free(s->hosts[i].slots);
    }
    free(s->hosts);
    mu_pending_close(&s->pending);
    mu_mirror_done(&s->mirror);
    free(s);
}

static void barriers_look(struct mu_core *core)
{
    struct barrier_ops *s = mu_pending_ops_of(core);
    struct mu_cluster cluster;

    if (!core->leader)
        return;
    if (s->pending.list && mu_cluster_look(core->seg, &cluster))
        cluster.root.version = 0;
    if (s->pending.list)
        mu_pending_look_due(&s->pending, core->now, cluster.root.version);
    mu_mirror_look(core);
}

static void barriers_up(struct mu_core *core, uint32_t host)
{
    if (core->leader)
        mu_mirror_up(core, host);
}

static uint64_t barriers_next(struct mu_core *core)
{
    const struct barrier_ops *s = mu_pending_ops_of(core);
    uint64_t at = mu_pending_next(&s->pending);

    return core->leader && s->mirror.stale && s->mirror.at < at ? s->mirror.at : at;
}

static bool barriers_busy(struct mu_core *core)
{
    return mu_pending_ops_of(core)->num_waiters > 0;
}

const struct mu_module mu_module_barriers = {.name = "barriers",
                                             .init = barriers_init,
                                             .done = barriers_done,
                                             .up = barriers_up,
                                             .look = barriers_look,
                                             .next = barriers_next,
                                             .busy = barriers_busy};
