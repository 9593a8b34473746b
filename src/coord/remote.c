/*
 * coord/remote.c: calls to the leader: the driver of remote operations for the loop, and the requests that wait for
 * them.
 *
 * The maker of a call owns it until it has ended. Open calls are in a list, so that the end of the engine ends all of
 * them; what a request holds on to goes with it.
 */
#include "coord/remote.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "segment/hosts.h"

/* ---- calls ---- */

static void call_enlist(struct mu_coord_call *call)
{
    struct mu_coord_remote *remote = call->coord->remote;

    MU_LIST_PUSH(remote->first, call);
    remote->bytes += call->bytes;
    call->open = true;
}

static void call_delist(struct mu_coord_call *call)
{
    struct mu_coord_remote *remote = call->coord->remote;

    MU_LIST_DROP(remote->first, call);
    remote->bytes -= call->bytes;
    call->bytes = 0;
    call->open = false;
}

/* Within mu_lanes_take(). */
static void remote_call_answered(struct mu_lane_call *lane, enum muster_status status, const char *text,
                                 struct mu_unpack body)
{
    struct mu_coord_call *call = (struct mu_coord_call *)lane;
    struct mu_steps *steps = call->steps;
    char words[MU_COORD_TEXT];

    call_delist(call);
    if (status)
        mu_fail(status, "%s", text);
    steps->op = MU_OP_NONE;
    status = steps->answer(steps, status, &body);
    if (!status && steps->op) {
        status = mu_coord_call_make(call->coord, call);
        if (!status)
            return;
    }
    if (status)
        snprintf(words, sizeof words, "%s", muster_last_error());
    call->ended(call, status, status ? words : NULL);
}

static enum muster_status remote_call_make(struct mu_coord *coord, struct mu_coord_call *call, bool replaces)
{
    struct mu_steps *steps = call->steps;
    size_t bytes, before = coord->remote->bytes;
    enum muster_status status = MUSTER_OK;

    if (steps->value_len)
        mu_pack_raw(&steps->request, steps->value, steps->value_len);
    steps->value_len = 0;
    bytes = steps->request.len;
    if (steps->request.failed || (before && before + bytes > MU_COORD_REMOTE_BYTES))
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s: %s", steps->about,
                         steps->request.failed ? "no memory for a call to the leader"
                                               : "too much is on its way to the leader: 512 MiB are the most");
    call->coord = coord;
    call->lane.op = steps->op;
    call->lane.what = steps->about;
    call->lane.answered = remote_call_answered;
    call->lane.request = steps->request;
    steps->request = (struct mu_pack){0};
    if (!status)
        status = replaces ? mu_lanes_again(coord->o.lanes, &call->lane) : mu_lanes_ask(coord->o.lanes, &call->lane);
    if (status) {
        mu_pack_done(&call->lane.request);
        return status;
    }
    if (replaces)
        call_delist(call);
    call->bytes = bytes;
    call_enlist(call);
    return MUSTER_OK;
}

enum muster_status mu_coord_call_make(struct mu_coord *coord, struct mu_coord_call *call)
{
    return remote_call_make(coord, call, false);
}

enum muster_status mu_coord_call_replace(struct mu_coord_call *call)
{
    return remote_call_make(call->coord, call, call->open);
}

enum muster_status mu_coord_call_hold(struct mu_coord_call *call, size_t bytes)
{
    struct mu_coord_remote *remote = call->coord->remote;
    size_t others = remote->bytes - call->held;

    if (bytes > call->held && others && others + bytes > MU_COORD_REMOTE_BYTES)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s: too much comes from the leader at a time: 512 MiB are the most",
                       call->steps->about);
    remote->bytes = others + bytes;
    call->held = bytes;
    return MUSTER_OK;
}

void mu_coord_call_end(struct mu_coord_call *call)
{
    if (!call->open)
        return;
    mu_lanes_drop(call->coord->o.lanes, &call->lane);
    call_delist(call);
}

/* ---- requests that wait for one ---- */

void *mu_coord_call_new(struct mu_coord_request *asked, size_t bytes,
                        void (*ended)(struct mu_coord_call *call, enum muster_status status, const char *text))
{
    struct mu_coord_call *call = calloc(1, bytes);

    if (!call) {
        mu_coord_answer(asked, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "no memory for a call to the leader");
        return NULL;
    }
    call->steps = (struct mu_steps *)(call + 1);
    call->ended = ended;
    return call;
}
_Static_assert(_Alignof(struct mu_steps) <= _Alignof(struct mu_coord_call), "steps lie behind their call");

void mu_coord_call_free(struct mu_coord_call *call)
{
    call->coord->remote->bytes -= call->held;
    if (call->freed)
        call->freed(call);
    mu_steps_done(call->steps);
    free(call);
}

static void request_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    struct mu_coord_call *call = p->at;

    (void)coord;
    mu_coord_call_end(call);
    mu_coord_call_free(call);
}

/* A connection may use at most half of the lanes that are free, so a newcomer always finds one. */
static bool line_takes_too_many(const struct mu_coord *coord, const struct mu_line *line)
{
    return line && line->remote >= mu_lanes_left(coord->o.lanes);
}

/* The request waits, for the leader. */
static struct mu_coord_pending *remote_call_park(struct mu_coord *coord, struct mu_coord_request *asked,
                                                 struct mu_coord_pending_list *list, const struct mu_coord_call *call,
                                                 size_t bytes)
{
    struct mu_coord_pending *p;

    if (line_takes_too_many(coord, asked->line)) {
        mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                "%s: %u calls of this connection wait for the leader, and no more may than are left for others",
                call->steps->about, asked->line->remote);
        return NULL;
    }
    p = mu_coord_pending_new(coord, asked, list, bytes);
    if (!p)
        return NULL;
    p->is_remote = true;
    if (p->line)
        p->line->remote++;
    return p;
}

bool mu_coord_call_begin(struct mu_coord *coord, struct mu_coord_request *asked, struct mu_coord_pending_list *list,
                         struct mu_coord_call *call, size_t line_bytes)
{
    struct mu_coord_pending *p = remote_call_park(coord, asked, list, call, sizeof *call + line_bytes);
    enum muster_status status = p ? mu_coord_call_make(coord, call) : MUSTER_RESOURCE_EXHAUSTED;

    call->coord = coord;
    if (!status) {
        call->p = p;
        p->at = call;
        p->dropped = request_dropped;
        return true;
    }
    mu_coord_call_free(call);
    if (p)
        mu_coord_pending_answer(coord, p, status, MU_PAYLOAD_NONE, muster_last_error());
    else
        mu_coord_fail(asked, status, MU_PAYLOAD_NONE);
    return false;
}

void mu_coord_call_done(struct mu_coord_call *call, enum muster_status status, unsigned payload, const char *text)
{
    mu_coord_pending_answer(call->coord, call->p, status, payload, status ? text : NULL);
    mu_coord_call_free(call);
}

/* ---- the engine's ---- */

static enum muster_status remote_open(struct mu_coord *coord)
{
    if (!mu_is_follower(coord->seg))
        return MUSTER_OK;
    if (!coord->o.lanes)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "job %s has its keys and barriers on another host, and no way to it",
                       coord->seg->job);
    coord->remote = calloc(1, sizeof *coord->remote);
    if (!coord->remote)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for calls to the leader");
    coord->remote->round = mu_host_bridge_round(coord->seg);
    return MUSTER_OK;
}

static void remote_stop(struct mu_coord *coord)
{
    struct mu_coord_remote *remote = coord->remote;

    if (!remote)
        return;
    while (remote->requests.first) {
        struct mu_coord_call *call = remote->requests.first->at;

        mu_coord_call_end(call);
        mu_coord_call_done(call, MUSTER_CANCELLED, MU_PAYLOAD_NONE, "KeyValueStore destructed");
    }
    while (remote->first) { /* for which nobody waited */
        struct mu_coord_call *call = remote->first;

        mu_coord_call_end(call);
        mu_coord_call_free(call);
    }
}

const struct mu_coord_feature mu_remote_feature = {.open = remote_open, .stop = remote_stop};
