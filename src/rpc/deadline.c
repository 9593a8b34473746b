/*
 * rpc/deadline.c: calls with a deadline of their client, the earliest first: a heap, and one timer.
 *
 * The timer is set anew only to an earlier time: when it fires too early, because the call that it was set for has been
 * answered, it is set to what is the earliest then.
 */
#include "rpc/private.h"

#include <stdlib.h>

#include "base/error.h"

static void heap_put(struct mu_rpc *rpc, size_t at, struct mu_rpc_call *call)
{
    rpc->deadlines[at] = call;
    call->deadline_at = at;
}

static void heap_rise(struct mu_rpc *rpc, size_t at)
{
    struct mu_rpc_call *call = rpc->deadlines[at];

    for (; at > 1 && rpc->deadlines[at / 2]->deadline_ms > call->deadline_ms; at /= 2)
        heap_put(rpc, at, rpc->deadlines[at / 2]);
    heap_put(rpc, at, call);
}

static void heap_sink(struct mu_rpc *rpc, size_t at)
{
    struct mu_rpc_call *call = rpc->deadlines[at];

    for (size_t child; (child = 2 * at) <= rpc->num_deadlines; at = child) {
        if (child < rpc->num_deadlines && rpc->deadlines[child + 1]->deadline_ms < rpc->deadlines[child]->deadline_ms)
            child++;
        if (rpc->deadlines[child]->deadline_ms >= call->deadline_ms)
            break;
        heap_put(rpc, at, rpc->deadlines[child]);
    }
    heap_put(rpc, at, call);
}

static void on_deadline_timer(uv_timer_t *timer)
{
    struct mu_rpc *rpc = timer->data;

    rpc->timer_ms = 0;
    mu_deadline_expire(rpc);
}

static void set_timer(struct mu_rpc *rpc)
{
    uint64_t now = mu_rpc_now(rpc), at;

    if (rpc->num_deadlines == 0)
        return;
    at = rpc->deadlines[1]->deadline_ms;
    if (rpc->timer_ms && rpc->timer_ms <= at)
        return;
    uv_timer_start(&rpc->deadline_timer, on_deadline_timer, at > now ? at - now : 0, 0);
    rpc->timer_ms = at;
}

enum muster_status mu_deadline_add(struct mu_rpc_call *call)
{
    struct mu_rpc *rpc = call->conn->rpc;

    if (rpc->num_deadlines + 2 > rpc->deadlines_room) {
        size_t room = rpc->deadlines_room ? 2 * rpc->deadlines_room : 256;
        struct mu_rpc_call **larger = realloc(rpc->deadlines, room * sizeof(struct mu_rpc_call *));

        if (!larger)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory");
        rpc->deadlines = larger;
        rpc->deadlines_room = room;
    }
    call->deadline_ms = mu_rpc_now(rpc) + (call->timeout_ns + 999999) / 1000000;
    heap_put(rpc, ++rpc->num_deadlines, call);
    heap_rise(rpc, rpc->num_deadlines);
    set_timer(rpc);
    return MUSTER_OK;
}

void mu_deadline_remove(struct mu_rpc_call *call)
{
    struct mu_rpc *rpc = call->conn->rpc;
    size_t at = call->deadline_at;
    struct mu_rpc_call *last;

    if (at == 0)
        return;
    call->deadline_at = 0;
    last = rpc->deadlines[rpc->num_deadlines--];
    if (last == call)
        return;
    heap_put(rpc, at, last);
    heap_rise(rpc, at);
    heap_sink(rpc, last->deadline_at);
}

void mu_deadline_expire(struct mu_rpc *rpc)
{
    uint64_t now = mu_rpc_now(rpc);

    while (rpc->num_deadlines > 0 && rpc->deadlines[1]->deadline_ms <= now) {
        struct mu_rpc_call *call = rpc->deadlines[1];

        mu_deadline_remove(call);
        mu_rpc_call_abort(call, MUSTER_DEADLINE_EXCEEDED, "the client's deadline has passed");
    }
    set_timer(rpc);
}
