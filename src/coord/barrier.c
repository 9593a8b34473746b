/*
 * coord/barrier.c: named barriers of this host's segment, for wire clients: what their calls come to
 * (barrier/named_steps.h), and those that wait (bridge/barrier/pending.h). A call that is given up stays arrived: the
 * instance may pass all the same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "coord/remote.h"
#include "segment/stats.h"

#define TIMEOUT_NS 1000000000u /* of a caller that names none: as the reference, where the next tick ends it */

/* Where calls wait at this barrier; NULL: none does. */
static struct mu_pending *pending_find(const struct mu_coord *coord, const char *key)
{
    return mu_pending_find(&coord->pending, key, (uint32_t)strlen(key));
}

/* ---- answers ---- */

static const char *words_of(const struct mu_call *c)
{
    return c->text ? c->text : muster_status_name(c->result);
}

/* It is none of its task's calls any more. */
static void forget_call(struct mu_coord *coord, const struct mu_coord_pending *p)
{
    struct mu_coord_pending **at = &coord->tasks[p->task].meets;

    while (*at != p)
        at = &(*at)->older;
    *at = p->older;
}

static void barrier_answered(struct mu_coord *coord, struct mu_coord_pending *p, const struct mu_pending_answer *a)
{
    struct mu_call *c = &p->pending.call;

    p->owned[0] = strdup(p->pending.at->key + 1);
    p->request->barrier_id = p->owned[0] ? p->owned[0] : "";
    p->request->counter = (int64_t)c->counter;
    p->request->replayed = false;
    forget_call(coord, p);
    mu_coord_pending_answer(coord, p, a->status, a->flags & MU_MEET_SUPERSEDED ? MU_PAYLOAD_NONE : MU_PAYLOAD_BARRIER,
                            a->text ? a->text : muster_last_error());
    mu_barrier_call_done(c);
}

static void barrier_call_answered(void *arg, struct mu_pending_call *c, const struct mu_pending_answer *a)
{
    if (mu_pending_is_barrier(c->at))
        barrier_answered(arg, mu_coord_pending_of(c), a);
    else
        mu_coord_alive_answered(arg, mu_coord_pending_of(c), a);
}

static void call_looked(void *arg, struct mu_pending *p)
{
    struct mu_coord *coord = arg;

    if (p->first)
        mu_coord_due(coord, p->look_at);
    mu_coord_alive_choose_payer(coord, p);
    mu_blob_drop(coord->alive);
    coord->alive = NULL;
}

static enum muster_status calls_open(struct mu_coord *coord)
{
    coord->pending.answered = barrier_call_answered;
    coord->pending.looked = call_looked;
    coord->pending.arg = coord;
    if (mu_pending_open(&coord->pending, coord->m))
        return MUSTER_OK;
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the coordination service");
}

static void calls_look(struct mu_coord *coord)
{
    if (coord->pending.list)
        mu_pending_look_due(&coord->pending, mu_now(), coord->version);
}

static void calls_look_tasks(struct mu_coord *coord, const struct mu_cluster_root *root)
{
    (void)root;
    calls_look(coord);
}

static uint64_t calls_next(const struct mu_coord *coord)
{
    return mu_pending_next(&coord->pending);
}

static void calls_due(struct mu_coord *coord, uint64_t now)
{
    (void)now;
    calls_look(coord);
}

void mu_coord_pending_add(struct mu_coord_pending *p, struct mu_pending *at)
{
    p->at = at;
    mu_pending_add(at, &p->pending);
}

/* ---- calls ---- */

static void call_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    struct mu_pending *at = p->at;
    struct mu_ctx *ctx;

    if (!mu_enter(coord->m, &ctx)) {
        if (!mu_named_turn_to(&coord->pending.named, ctx, at->key + 1))
            mu_named_leave(&coord->pending.named, &p->pending.call);
        mu_exit(ctx);
    }
    forget_call(coord, p);
    mu_pending_remove(&p->pending);
    mu_barrier_call_done(&p->pending.call);
    mu_pending_drop(&coord->pending, at);
}

/* What the caller has sent. NONE of its task's earlier calls is taken up: each is a new one. */
struct wanted_barrier {
    int32_t task;
    const char *key; /* a 'B', and the id */
    const int32_t *tasks;
    size_t count;
    int64_t counter, timeout_ms;
};

/* Numbers below 0 as mu_barrier_number() knows them; the two lowest are the same. */
static uint64_t instance_of(int64_t counter)
{
    return (uint64_t)(counter < 0 && counter > INT64_MIN ? counter - 1 : counter);
}

static uint64_t timeout_of(int64_t ms)
{
    return ms <= 0 ? TIMEOUT_NS : ms > INT64_MAX / 1000000 ? UINT64_MAX : (uint64_t)ms * 1000000;
}

/* Make the call: the table's barrier is this one afterwards. */
static enum muster_status call_arrive(struct mu_coord *coord, struct mu_ctx *ctx, const struct wanted_barrier *w,
                                      struct mu_call *c)
{
    struct mu_named *n = &coord->pending.named;
    struct mu_task_record r;
    enum muster_status status = mu_named_turn_to(n, ctx, w->key + 1);

    if (!status)
        status = mu_is_bridged(coord->seg) && mu_barrier_is_hosts(w->key + 1)
                     ? mu_barrier_call_take_own_list(c, n, w->tasks, w->count)
                     : mu_barrier_call_take_list(c, n, w->tasks, w->count);
    if (status)
        return status;
    mu_coord_record(coord, w->task, &r, NULL);
    c->task = (uint32_t)w->task;
    c->attempt = r.attempt;
    c->flags = coord->o.recoverable || mu_coord_is_recoverable(&r) ? MUSTER_JOIN_RECOVERABLE : 0;
    c->asked = instance_of(w->counter);
    c->timeout_ns = timeout_of(w->timeout_ms);
    c->name = c->untold = MU_CALLS_NONE;
    return mu_named_arrive(n, (struct mu_call *const[]){c}, 1);
}

/* The call waits. */
static enum muster_status barrier_call_park(struct mu_coord *coord, struct mu_coord_request *request,
                                            const struct mu_call *c, const char *key)
{
    struct mu_pending *at = mu_pending_of(&coord->pending, key, (uint32_t)strlen(key));
    struct mu_coord_pending *p =
        at ? mu_coord_pending_new(coord, request, &coord->calls, c->ids ? c->num * sizeof *c->ids : 0) : NULL;

    if (!p) {
        if (at)
            mu_pending_drop(&coord->pending, at);
        return at ? MUSTER_RESOURCE_EXHAUSTED : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", key + 1);
    }
    p->pending.call = *c;
    p->pending.here = true;
    free(p->pending.call.ids); /* only its arrival needed them */
    p->pending.call.ids = NULL;
    mu_coord_pending_add(p, at);
    p->dropped = call_dropped;
    p->task = (int32_t)c->task;
    p->older = coord->tasks[c->task].meets;
    coord->tasks[c->task].meets = p;
    return MUSTER_OK;
}

/* One more has come, and waits as the others do: for them nothing is new, nor has anybody's state changed. Thousands
 * come so one after the other. */
static bool is_one_more(const struct mu_coord *coord, const struct mu_pending *at, const struct mu_call *c)
{
    const struct mu_coord_pending *own = coord->tasks[c->task].meets;

    for (const struct mu_coord_pending *p = own->older; p; p = p->older)
        if (p->at == at)
            return false; /* that one is superseded */
    return at->waiting > 1 && at->version == coord->version;
}

/* The service's own instance, of a call that was refused. */
static uint64_t present_instance(struct mu_coord *coord, const struct mu_call *c)
{
    return !mu_named_read(&coord->pending.named) && coord->pending.named.b.h.num ? coord->pending.named.b.h.counter
           : c->result                                                           ? 0
                                                                                 : c->counter;
}

/* It may be gone afterwards. */
static void pending_look(struct mu_coord *coord, struct mu_ctx *ctx, struct mu_pending *at)
{
    mu_pending_look(&coord->pending, ctx, at, mu_now(), NULL);
    mu_pending_drop(&coord->pending, at);
}

static void barrier_call_make(struct mu_coord *coord, struct mu_coord_request *request, const struct wanted_barrier *w)
{
    struct mu_call c = {0};
    struct mu_pending *at;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(coord->m, &ctx);

    if (status) {
        mu_coord_fail(request, status, MU_PAYLOAD_NONE);
        return;
    }
    status = call_arrive(coord, ctx, w, &c);
    if (!status && c.waiting) {
        status = barrier_call_park(coord, request, &c, w->key);
        if (status)
            mu_named_leave(&coord->pending.named, &c);
        c.waiting = !status;
    } else if (!status) {
        request->counter = (int64_t)(c.result ? present_instance(coord, &c) : c.counter);
    }
    if (!status && !c.result)
        mu_count(&ctx->own->named_barriers, 1);
    at = pending_find(coord, w->key);
    if (at && !(c.waiting && is_one_more(coord, at, &c)))
        pending_look(coord, ctx, at);
    mu_exit(ctx);
    if (status) { /* nothing was done, or the arrival stands and nobody is told */
        mu_coord_fail(request, status, status == MUSTER_RESOURCE_EXHAUSTED ? MU_PAYLOAD_NONE : MU_PAYLOAD_BARRIER);
        mu_barrier_call_done(&c);
    } else if (!c.waiting) {
        request->replayed = c.replayed;
        mu_coord_answer(request, c.result, MU_PAYLOAD_BARRIER, words_of(&c));
        mu_barrier_call_done(&c);
    }
}

/* It lies in the leader's segment, and not here. A barrier of a host's own lies in that host's. */
static bool is_remote(const struct mu_coord *coord, const char *id)
{
    return coord->remote && !mu_barrier_is_hosts(id);
}

/* The id behind a 'B', as a string; false: it was answered. */
static bool take_id(struct mu_coord_request *request, const char *id, size_t len, char key[MUSTER_BARRIER_ID_MAX + 2])
{
    if (len > MU_WIRE_KEY_MAX) {
        request->barrier_id = "";
        mu_fail(MUSTER_INVALID_ARGUMENT, "a barrier's id is %zu bytes long; %u is the most", len, MU_WIRE_KEY_MAX);
        mu_coord_fail(request, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_SERVICE);
        return false;
    }
    key[0] = 'B';
    mu_coord_id(id, len, key + 1);
    request->barrier_id = key + 1;
    request->counter = 0;
    return true;
}

/* The task is one of the job's, and ours; false: it was answered. No instance knows of such a call. */
static bool is_member(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const char *id)
{
    char text[MUSTER_BARRIER_ID_MAX + 160];

    if (mu_coord_has(coord, task) && mu_coord_is_own(coord, task))
        return true;
    if (mu_coord_has(coord, task)) {
        mu_coord_fail(request, mu_coord_refuse_other(coord, task), MU_PAYLOAD_SERVICE);
        return false;
    }
    snprintf(text, sizeof text, "Unexpected task (%d) that is not in the cluster called the barrier. Barrier Id: %s",
             task, id);
    mu_coord_answer(request, MUSTER_INVALID_ARGUMENT, MU_PAYLOAD_BARRIER, text);
    return false;
}

void mu_coord_barrier(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const char *id,
                      size_t id_len, int64_t timeout_ms, const int32_t *tasks, size_t count, int64_t counter)
{
    char key[MUSTER_BARRIER_ID_MAX + 2], *text = key + 1, late[MUSTER_BARRIER_ID_MAX + 96];
    struct wanted_barrier w = {task, key, tasks, count, counter, timeout_ms};

    request->pending = NULL;
    request->replayed = false;
    if (!take_id(request, id, id_len, key))
        return;
    if (coord->stopped) {
        snprintf(late, sizeof late, "Barrier %s requested after coordination service has shut down.", text);
        mu_coord_answer(request, MUSTER_INTERNAL, MU_PAYLOAD_BARRIER, late);
        return;
    }
    if (!is_member(coord, request, task, text))
        return;
    mu_coord_look_tasks(coord);
    if (is_remote(coord, text))
        mu_coord_remote_barrier(
            coord, request,
            &(struct mu_coord_remote_barrier){task, text, instance_of(counter), timeout_of(timeout_ms), tasks, count});
    else
        barrier_call_make(coord, request, &w);
    mu_coord_deliver(coord);
}

void mu_coord_cancel(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const char *id,
                     size_t id_len, int64_t counter)
{
    struct mu_call c = {.task = (uint32_t)task, .asked = instance_of(counter), .name = MU_CALLS_NONE};
    char key[MUSTER_BARRIER_ID_MAX + 2], *text = key + 1;
    struct mu_pending *at;
    struct mu_ctx *ctx;
    enum muster_status status;

    if (mu_coord_refuses(coord, request) || !take_id(request, id, id_len, key) ||
        !is_member(coord, request, task, text))
        return;
    if (is_remote(coord, text)) {
        mu_coord_remote_cancel(coord, request, task, text, c.asked);
        mu_coord_deliver(coord);
        return;
    }
    status = mu_enter(coord->m, &ctx);
    if (!status) {
        status = mu_named_turn_to(&coord->pending.named, ctx, text);
        if (!status)
            status = mu_named_cancel(&coord->pending.named, &c);
        at = pending_find(coord, key);
        if (at)
            pending_look(coord, ctx, at);
        mu_exit(ctx);
    }
    status = status ? status : mu_barrier_call_result(&c);
    mu_barrier_call_done(&c);
    mu_coord_complete(request, status, MU_PAYLOAD_SERVICE);
    mu_coord_deliver(coord);
}

/* ---- the end ---- */

/* The first call that waits. known: engine->pending.named is the barrier that it is at. */
static void call_stop(struct mu_coord *coord, struct mu_pending *at, bool known)
{
    struct mu_pending_call *c = at->first;
    char text[MUSTER_BARRIER_ID_MAX + 128] = "GetAliveTasks failed because service is shutting down.";

    if (known)
        mu_named_leave(&coord->pending.named, &c->call);
    if (mu_pending_is_barrier(at))
        snprintf(text, sizeof text, "Barrier failed because service is shutting down. Barrier_id: %s::%" PRIu64,
                 at->key + 1, c->call.counter);
    mu_pending_remove(c);
    barrier_call_answered(coord, c, &(struct mu_pending_answer){.status = MUSTER_ABORTED, .text = text});
}

static void calls_stop(struct mu_coord *coord)
{
    struct mu_ctx *ctx;
    bool entered = coord->pending.list && !mu_enter(coord->m, &ctx);

    if (coord->remote)
        mu_coord_remote_stop_waits(coord);
    while (coord->pending.list) {
        struct mu_pending *at = coord->pending.list;
        bool known = entered && mu_pending_is_barrier(at) && !mu_named_turn_to(&coord->pending.named, ctx, at->key + 1);

        while (at->first)
            call_stop(coord, at, known);
        mu_pending_drop(&coord->pending, at);
    }
    if (entered)
        mu_exit(ctx);
    mu_pending_close(&coord->pending);
}

const struct mu_coord_feature mu_calls_feature = {
    .open = calls_open,
    .look_tasks = calls_look_tasks,
    .look = calls_look,
    .next = calls_next,
    .due = calls_due,
    .stop = calls_stop,
};
