/*
 * rpc/desk_remote_barrier.c: named barriers, and who is alive, on a host that is not the leader's: what
 * barrier/remote.c and task/alive.c are for the tasks of the C library.
 *
 * Each call is one at the leader, which answers it when the instance has ended. A call that its client gives up stays
 * arrived: the leader is told by another call, which carries what the first one did, so that it is the arrival if that
 * one did not come through. A question who is alive that is given up stays as it is, the last one of each task: its
 * answer is for nobody.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/desk_remote.h"
#include "segment/stats.h"

/* Who calls, as the leader knows him. */
static void fill_caller(struct mu_desk *desk, struct mu_desk_call *call, int32_t task)
{
    struct mu_task_record r;

    mu_desk_record(desk, task, &r, NULL);
    call->lane.task = (uint32_t)task + 1;
    call->lane.flags = desk->o.recoverable || mu_desk_is_recoverable(&r) ? MUSTER_JOIN_RECOVERABLE : 0;
    call->lane.attempt = r.attempt;
    call->lane.incarnation = r.incarnation;
}

/* ---- barriers ---- */

struct meet {
    struct mu_desk_call call;
    struct mu_pack request; /* once more, should it be given up */
    uint64_t asked;
    char id[MUSTER_BARRIER_ID_MAX + 1];
};

static void meet_freed(struct mu_desk_call *call)
{
    mu_pack_done(&((struct meet *)call)->request);
}

static void met(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body)
{
    struct meet *m = (struct meet *)call;
    bool said = body->left > 0;
    uint64_t counter = mu_unpack_u64(body);
    bool open = mu_unpack_u8(body) != 0;
    uint64_t present = mu_unpack_u64(body);
    uint8_t flags = mu_unpack_u8(body);
    bool superseded = flags & (MU_MEET_SUPERSEDED | MU_MEET_REPLACED);
    unsigned payload = said && !superseded ? MU_PAYLOAD_BARRIER : MU_PAYLOAD_NONE;
    struct mu_ask *ask = call->p ? call->p->ask : NULL;
    char words[MUSTER_BARRIER_ID_MAX + 160];

    if (!ask) { /* it was given up */
        mu_desk_call_free(call);
        return;
    }
    if (!status && (!mu_unpack_end(body) || open)) {
        status = mu_desk_call_malformed(call);
        text = muster_last_error();
        payload = MU_PAYLOAD_NONE;
    }
    if (flags & MU_MEET_REPLACED) { /* as if it had been made before the task came anew */
        status = MUSTER_CANCELLED;
        snprintf(words, sizeof words, MU_CALL_SUPERSEDED, m->id, m->asked);
        text = words;
    }
    call->p->owned[0] = strdup(m->id);
    ask->barrier_id = call->p->owned[0] ? call->p->owned[0] : "";
    ask->counter = (int64_t)(flags & MU_MEET_AT_ONCE && status ? present : counter);
    ask->replayed = flags & MU_MEET_REPLAYED;
    mu_desk_call_done(call, status, payload, text);
}

/* Its client has gone away; what it called for stands. */
static void meet_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    struct meet *m = p->at;

    (void)desk;
    m->call.p = NULL;
    if (mu_desk_call_replace(&m->call, MU_OP_BARRIER_GIVE_UP, &m->request)) {
        mu_desk_call_end(&m->call);
        mu_desk_call_free(&m->call);
    }
}

/* The call as bytes. */
static enum muster_status compose(struct mu_desk *desk, const struct mu_desk_remote_barrier *w, struct mu_pack *request)
{
    struct mu_call c = {.asked = w->asked, .timeout_ns = w->timeout_ns, .untold = MU_CALLS_NONE};
    struct mu_named *n = &desk->named;
    enum muster_status status = mu_named_turn_to(n, NULL, w->id);

    if (!status)
        status = mu_call_take_list(&c, n, w->tasks, w->count);
    c.name = desk->tasks[w->task].calls++ & MU_CALLS_MASK;
    if (!status)
        mu_call_pack(request, w->id, &c);
    if (!status && request->failed)
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", w->id);
    mu_call_done(&c);
    return status;
}

static void count_barrier(struct mu_desk *desk)
{
    struct mu_ctx *ctx;

    if (mu_enter(desk->m, &ctx))
        return;
    mu_count(&ctx->own->named_barriers, 1);
    mu_exit(ctx);
}

void mu_desk_remote_barrier(struct mu_desk *desk, struct mu_ask *ask, const struct mu_desk_remote_barrier *wanted)
{
    struct meet *m = calloc(1, sizeof *m);
    struct mu_pack request = {0};
    enum muster_status status = m ? compose(desk, wanted, &request)
                                  : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", wanted->id);

    if (!status) {
        mu_pack_raw(&m->request, request.bytes, request.len);
        if (m->request.failed)
            status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barrier %s", wanted->id);
    }
    if (status) {
        mu_desk_fail(ask, status, status == MUSTER_RESOURCE_EXHAUSTED ? MU_PAYLOAD_NONE : MU_PAYLOAD_BARRIER);
        mu_pack_done(&request);
        if (m)
            mu_pack_done(&m->request);
        free(m);
        return;
    }
    m->asked = wanted->asked;
    snprintf(m->id, sizeof m->id, "%s", wanted->id);
    m->call.answered = met;
    m->call.freed = meet_freed;
    snprintf(m->call.what, sizeof m->call.what, "barrier %.60s::%" PRId64, wanted->id,
             mu_barrier_number(wanted->asked));
    fill_caller(desk, &m->call, wanted->task);
    if (!mu_desk_call_park(desk, ask, &desk->remote->meets, &m->call, MU_OP_BARRIER_WAIT, &request,
                           sizeof *m + 2 * m->request.len))
        return;
    m->call.p->dropped = meet_dropped;
    m->call.p->task = wanted->task;
    count_barrier(desk);
}

static void cancelled(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body)
{
    (void)body;
    mu_desk_call_done(call, status, MU_PAYLOAD_SERVICE, text);
}

void mu_desk_remote_cancel(struct mu_desk *desk, struct mu_ask *ask, int32_t task, const char *id, uint64_t asked)
{
    struct mu_desk_call *call = calloc(1, sizeof *call);
    struct mu_pack request = {0};

    if (!call) {
        mu_desk_answer(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "no memory for a call to the leader");
        return;
    }
    call->answered = cancelled;
    ask->barrier_id = "";
    snprintf(call->what, sizeof call->what, "barrier %.60s::%" PRId64, id, mu_barrier_number(asked));
    fill_caller(desk, call, task);
    mu_pack_text(&request, id);
    mu_pack_u64(&request, asked);
    mu_desk_call_park(desk, ask, &desk->remote->asks, call, MU_OP_BARRIER_CANCEL, &request, 0);
}

/* ---- who is alive ---- */

static void gathered(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body)
{
    struct mu_parked *p = call->p;
    uint32_t count = mu_unpack_u32(body);
    struct mu_shared *s = NULL;

    if (!p) { /* it was given up */
        mu_desk_call_free(call);
        return;
    }
    if (!status && body->left != count * 12ul)
        status = mu_desk_call_malformed(call);
    else if (!status && !(s = mu_shared_new(count * (sizeof(uint64_t) + sizeof(int32_t)))))
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the tasks alive");
    else if (status)
        mu_fail(status, "%s", text);
    if (s) {
        uint64_t *incarnations = (uint64_t *)s->bytes;
        int32_t *ids = (int32_t *)&incarnations[count];

        for (uint32_t i = 0; i < count; i++) {
            ids[i] = (int32_t)mu_unpack_u32(body);
            incarnations[i] = mu_unpack_u64(body);
        }
        p->shared = s;
        p->ask->incarnations = incarnations;
        p->ask->alive = ids;
        p->ask->num_alive = count;
    }
    mu_desk_call_done(call, status, MU_PAYLOAD_NONE, muster_last_error());
}

/* Its client has gone away; the call stands. */
static void gather_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    struct mu_desk_call *given_up = p->at;

    for (struct mu_desk_call *c = desk->remote->first; c; c = c->next)
        if (!c->p && c->answered == gathered && c->lane.task == given_up->lane.task) {
            mu_desk_call_end(c);
            mu_desk_call_free(c);
            break;
        }
    given_up->p = NULL;
}

/* As a call of the leader's host checks it: sorted, each once. */
static enum muster_status pack_set(struct mu_desk *desk, int32_t task, const int32_t *tasks, size_t count,
                                   struct mu_pack *request)
{
    struct mu_alive a = {0};
    enum muster_status status = mu_alive_begin(&a, desk->seg, NULL, tasks, count);

    if (!status && (!mu_desk_has(desk, task) || mu_alive_find(&a, (uint32_t)task) < 0))
        status =
            mu_fail(MUSTER_INVALID_ARGUMENT, "Requesting task %d is not one of the tasks that it asks about", task);
    if (!status) {
        mu_pack_u32(request, desk->tasks[task].calls++ & 0x7fffu);
        mu_pack_u32(request, a.count);
        for (uint32_t i = 0; i < a.count; i++)
            mu_pack_u32(request, (uint32_t)a.ids[i]);
    }
    mu_alive_done(&a);
    return status;
}

void mu_desk_remote_alive(struct mu_desk *desk, struct mu_ask *ask, int32_t task, const int32_t *tasks, size_t count)
{
    struct mu_desk_call *call = calloc(1, sizeof *call);
    struct mu_pack request = {0};
    enum muster_status status = call ? pack_set(desk, task, tasks, count, &request)
                                     : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a call to the leader");

    if (status) {
        mu_desk_fail(ask, status, MU_PAYLOAD_NONE);
        mu_pack_done(&request);
        free(call);
        return;
    }
    call->answered = gathered;
    snprintf(call->what, sizeof call->what, "the tasks alive");
    fill_caller(desk, call, task);
    if (mu_desk_call_park(desk, ask, &desk->remote->gathers, call, MU_OP_TASK_ALIVE, &request, request.len))
        call->p->dropped = gather_dropped;
}

/* ---- errors of other hosts' tasks ---- */

static void reported(struct mu_desk_call *call, enum muster_status status, const char *text, struct mu_unpack *body)
{
    (void)body;
    mu_desk_call_done(call, status, MU_PAYLOAD_SERVICE,
                      status == MUSTER_FAILED_PRECONDITION ? MU_DESK_CANNOT_REPORT : text);
}

void mu_desk_remote_report(struct mu_desk *desk, struct mu_ask *ask, int32_t task, enum muster_status code,
                           const char *text)
{
    struct mu_desk_call *call = calloc(1, sizeof *call);
    struct mu_pack request = {0};

    if (!call) {
        mu_desk_answer(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "no memory for a call to the leader");
        return;
    }
    call->answered = reported;
    snprintf(call->what, sizeof call->what, "an error report for task %d", task);
    mu_pack_u32(&request, (uint32_t)task);
    mu_pack_u32(&request, code);
    mu_pack_u64(&request, 0);
    mu_pack_text(&request, text);
    mu_desk_call_park(desk, ask, &desk->remote->asks, call, MU_OP_ERROR_REPORT, &request, 0);
}

/* ---- the end ---- */

void mu_desk_remote_stop_waits(struct mu_desk *desk)
{
    struct mu_parked_list *meets = &desk->remote->meets, *gathers = &desk->remote->gathers;
    char text[MUSTER_BARRIER_ID_MAX + 128];

    while (meets->first) {
        struct mu_parked *p = meets->first;
        struct meet *m = p->at;

        mu_desk_call_end(&m->call);
        snprintf(text, sizeof text, "Barrier failed because service is shutting down. Barrier_id: %s::%" PRId64, m->id,
                 mu_barrier_number(m->asked));
        p->owned[0] = strdup(m->id);
        p->ask->barrier_id = p->owned[0] ? p->owned[0] : "";
        p->ask->counter = mu_barrier_number(m->asked);
        p->ask->replayed = false;
        mu_desk_call_done(&m->call, MUSTER_ABORTED, MU_PAYLOAD_BARRIER, text);
    }
    while (gathers->first) {
        struct mu_desk_call *call = gathers->first->at;

        mu_desk_call_end(call);
        mu_desk_call_done(call, MUSTER_ABORTED, MU_PAYLOAD_NONE,
                          "GetAliveTasks failed because service is shutting down.");
    }
}
