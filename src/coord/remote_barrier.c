/*
 * coord/remote_barrier.c: named barriers, and liveness queries, on a host that is not the leader's: what
 * barrier/remote.c and task/alive.c are for the tasks of the C library.
 *
 * Each call is one at the leader, which answers it when the instance has ended. A call that its client gives up stays
 * arrived: the leader is told by another call, which carries what the first one did, so that it is the arrival if that
 * one did not come through. A liveness query that is given up stays as it is, the last one of each task: its
 * answer is for nobody.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/remote.h"
#include "coord/remote.h"
#include "segment/stats.h"
#include "task/remote.h"

/* The calling task, as the leader knows it. */
static void fill_caller(struct mu_coord *coord, struct mu_coord_call *call, int32_t task)
{
    struct mu_task_record r;

    mu_coord_record(coord, task, &r, NULL);
    call->lane.task = (uint32_t)task + 1;
    call->lane.flags = coord->o.recoverable || mu_coord_is_recoverable(&r) ? MUSTER_JOIN_RECOVERABLE : 0;
    call->lane.attempt = r.attempt;
    call->lane.incarnation = r.incarnation;
}

/* ---- barriers ---- */

struct meet {
    struct mu_coord_call call;
    struct mu_barrier_remote remote;
    struct mu_call asked;
    char id[MUSTER_BARRIER_ID_MAX + 1];
};

static void meet_freed(struct mu_coord_call *call)
{
    mu_barrier_call_done(&((struct meet *)call)->asked);
}

static void meet_ended(struct mu_coord_call *call, enum muster_status status, const char *text)
{
    struct meet *m = (struct meet *)call;
    const struct mu_barrier_remote *r = &m->remote;
    bool superseded = r->flags & (MU_MEET_SUPERSEDED | MU_MEET_REPLACED);
    unsigned payload = r->said && !superseded ? MU_PAYLOAD_BARRIER : MU_PAYLOAD_NONE;
    struct mu_coord_request *request = call->p ? call->p->request : NULL;
    char words[MUSTER_BARRIER_ID_MAX + 160];

    if (!request) { /* it was given up */
        mu_coord_call_free(call);
        return;
    }
    if (r->flags & MU_MEET_REPLACED) { /* as if it had been made before the task came anew */
        status = MUSTER_CANCELLED;
        snprintf(words, sizeof words, MU_CALL_SUPERSEDED, m->id, m->asked.asked);
        text = words;
    }
    call->p->owned[0] = strdup(m->id);
    request->barrier_id = call->p->owned[0] ? call->p->owned[0] : "";
    request->counter = (int64_t)(r->flags & MU_MEET_AT_ONCE && status ? r->present : m->asked.counter);
    request->replayed = r->flags & MU_MEET_REPLAYED;
    mu_coord_call_done(call, status, payload, text);
}

/* Its client has gone away; what it called for stands. */
static void meet_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    struct meet *m = p->at;

    (void)coord;
    m->call.p = NULL;
    mu_barrier_give_up_begin(&m->remote);
    if (mu_coord_call_replace(&m->call)) {
        mu_coord_call_end(&m->call);
        mu_coord_call_free(&m->call);
    }
}

/* The call, with its participants. */
static enum muster_status meet_prepare(struct mu_coord *coord, const struct mu_coord_remote_barrier *w,
                                       struct mu_call *c)
{
    struct mu_named *n = &coord->pending.named;
    enum muster_status status = mu_named_turn_to(n, NULL, w->id);

    c->asked = w->asked;
    c->timeout_ns = w->timeout_ns;
    c->untold = MU_CALLS_NONE;
    c->name = coord->tasks[w->task].calls++ & MU_CALLS_MASK;
    return status ? status : mu_barrier_call_take_list(c, n, w->tasks, w->count);
}

static void count_barrier(struct mu_coord *coord)
{
    struct mu_ctx *ctx;

    if (mu_enter(coord->m, &ctx))
        return;
    mu_count(&ctx->own->named_barriers, 1);
    mu_exit(ctx);
}

void mu_coord_remote_barrier(struct mu_coord *coord, struct mu_coord_request *request,
                             const struct mu_coord_remote_barrier *wanted)
{
    struct meet *m = calloc(1, sizeof *m);
    enum muster_status status = m ? meet_prepare(coord, wanted, &m->asked)
                                  : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", wanted->id);

    if (status) {
        mu_coord_fail(request, status, status == MUSTER_RESOURCE_EXHAUSTED ? MU_PAYLOAD_NONE : MU_PAYLOAD_BARRIER);
        if (m)
            mu_barrier_call_done(&m->asked);
        free(m);
        return;
    }
    snprintf(m->id, sizeof m->id, "%s", wanted->id);
    m->remote.id = m->id;
    m->remote.call = &m->asked;
    m->call.steps = &m->remote.steps;
    m->call.ended = meet_ended;
    m->call.freed = meet_freed;
    mu_barrier_wait_begin(&m->remote);
    fill_caller(coord, &m->call, wanted->task);
    if (!mu_coord_call_begin(coord, request, &coord->remote->meets, &m->call,
                             sizeof *m + 2 * m->remote.steps.request.len))
        return;
    m->call.p->dropped = meet_dropped;
    m->call.p->task = wanted->task;
    count_barrier(coord);
}

/* ---- what has no answer but a status ---- */

struct simple {
    struct mu_coord_call call;
    struct mu_steps steps;
};

static void cancel_ended(struct mu_coord_call *call, enum muster_status status, const char *text)
{
    mu_coord_call_done(call, status, MU_PAYLOAD_SERVICE, text);
}

void mu_coord_remote_cancel(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const char *id,
                            uint64_t asked)
{
    struct simple *s = mu_coord_call_new(request, sizeof *s, cancel_ended);

    if (!s)
        return;
    request->barrier_id = "";
    mu_barrier_cancel_begin(&s->steps, id, asked);
    fill_caller(coord, &s->call, task);
    mu_coord_call_begin(coord, request, &coord->remote->requests, &s->call, 0);
}

static void report_ended(struct mu_coord_call *call, enum muster_status status, const char *text)
{
    mu_coord_call_done(call, status, MU_PAYLOAD_SERVICE,
                       status == MUSTER_FAILED_PRECONDITION ? MU_COORD_CANNOT_REPORT : text);
}

/* Of another host's task. */
void mu_coord_remote_report(struct mu_coord *coord, struct mu_coord_request *request, int32_t task,
                            enum muster_status code, const char *text)
{
    struct simple *s = mu_coord_call_new(request, sizeof *s, report_ended);

    if (!s)
        return;
    mu_task_remote_begin(&s->steps, coord->seg, MU_OP_ERROR_REPORT, (uint32_t)task, code, 0, text);
    mu_coord_call_begin(coord, request, &coord->remote->requests, &s->call, 0);
}

/* ---- liveness queries ---- */

struct gather {
    struct mu_coord_call call;
    struct mu_alive_remote remote;
};

static void gather_freed(struct mu_coord_call *call)
{
    free(((struct gather *)call)->remote.incarnations);
}

static void gather_ended(struct mu_coord_call *call, enum muster_status status, const char *text)
{
    struct mu_alive_remote *r = &((struct gather *)call)->remote;
    struct mu_coord_pending *p = call->p;

    if (!p) { /* it was given up */
        mu_coord_call_free(call);
        return;
    }
    if (!status) {
        p->owned[0] = r->incarnations;
        p->request->incarnations = r->incarnations;
        p->request->alive = r->ids;
        p->request->num_alive = r->count;
        r->incarnations = NULL;
    }
    mu_coord_call_done(call, status, MU_PAYLOAD_NONE, text);
}

/* Its client has gone away; the call stands, the last one of each task. */
static void gather_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    struct mu_coord_call *given_up = p->at;

    for (struct mu_coord_call *c = coord->remote->first; c; c = c->next)
        if (!c->p && c->ended == gather_ended && c->lane.task == given_up->lane.task) {
            mu_coord_call_end(c);
            mu_coord_call_free(c);
            break;
        }
    given_up->p = NULL;
}

/* As a call of the leader's host checks it: sorted, each once. */
static enum muster_status gather_begin(struct mu_coord *coord, struct gather *g, int32_t task, const int32_t *tasks,
                                       size_t count)
{
    struct mu_alive a = {0};
    enum muster_status status = mu_alive_begin(&a, coord->seg, NULL, tasks, count);

    if (!status && (!mu_coord_has(coord, task) || mu_alive_find(&a, (uint32_t)task) < 0))
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "Requesting task %s is not one of the tasks that it asks about",
                         MU_BARE_LABEL(coord->seg, task));
    if (!status)
        mu_alive_remote_begin(&g->remote, &a, coord->tasks[task].calls++);
    mu_alive_done(&a);
    return status;
}

void mu_coord_remote_alive(struct mu_coord *coord, struct mu_coord_request *request, int32_t task, const int32_t *tasks,
                           size_t count)
{
    struct gather *g = mu_coord_call_new(request, sizeof *g, gather_ended);
    enum muster_status status = g ? gather_begin(coord, g, task, tasks, count) : MUSTER_OK;

    if (!g)
        return;
    if (status) {
        mu_coord_fail(request, status, MU_PAYLOAD_NONE);
        free(g);
        return;
    }
    g->call.freed = gather_freed;
    fill_caller(coord, &g->call, task);
    if (mu_coord_call_begin(coord, request, &coord->remote->gathers, &g->call, g->remote.steps.request.len))
        g->call.p->dropped = gather_dropped;
}

/* ---- the end ---- */

void mu_coord_remote_stop_waits(struct mu_coord *coord)
{
    struct mu_coord_pending_list *meets = &coord->remote->meets, *gathers = &coord->remote->gathers;
    char text[MUSTER_BARRIER_ID_MAX + 128];

    while (meets->first) {
        struct mu_coord_pending *p = meets->first;
        struct meet *m = p->at;

        mu_coord_call_end(&m->call);
        snprintf(text, sizeof text, "Barrier failed because service is shutting down. Barrier_id: %s::%" PRId64, m->id,
                 mu_barrier_number(m->asked.asked));
        p->owned[0] = strdup(m->id);
        p->request->barrier_id = p->owned[0] ? p->owned[0] : "";
        p->request->counter = mu_barrier_number(m->asked.asked);
        p->request->replayed = false;
        mu_coord_call_done(&m->call, MUSTER_ABORTED, MU_PAYLOAD_BARRIER, text);
    }
    while (gathers->first) {
        struct mu_coord_call *call = gathers->first->at;

        mu_coord_call_end(call);
        mu_coord_call_done(call, MUSTER_ABORTED, MU_PAYLOAD_NONE,
                           "GetAliveTasks failed because service is shutting down.");
    }
}
