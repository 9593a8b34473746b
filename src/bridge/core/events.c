/*
 * bridge/core/events.c: one order of events on all hosts.
 *
 * The leader's ring gives the numbers. Its agent sends events for tasks of other hosts, and tells every other agent of
 * all events in their order; those place them in their own rings. A follower says from which number on it wants them:
 * when it connects, and when it could not place some for want of memory. Nothing is kept for it but that number: if the
 * leader's ring has gone further meanwhile than it holds, the follower gets what is left, which fills its whole ring,
 * and its readers are told what they have lost.
 *
 * What a follower has not said to have taken is bounded: one that was away for long gets the ring piece by piece. What
 * was decided to be sent behind those events stays behind them: it is held (mu_core_hold) until those are out that
 * there were when it was decided, and not for later ones, which may come as fast as they go.
 *
 * A call that is made again, and is not known here because this agent is new, has been carried out if an event names
 * it. The caller said what its own ring would get next, so only events from there on can; are they not all there any
 * more, then nobody can tell, and the caller is told that.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bridge/core/modules.h"
#include "event/ring.h"
#include "segment/handle.h"

#define CHUNK    (256u << 10) /* bytes of a frame, about; and between two words of what was taken */
#define WINDOW   (1u << 20)   /* on their way to a host */
#define AGAIN_NS 20000000u    /* until a follower without memory asks for what it could not place */

/* A host, to the leader. */
struct listener {
    uint64_t next;        /* the event that it is told of next; UINT64_MAX: it has not said */
    uint64_t sent, taken; /* bytes of payloads on this connection */
    uint64_t until;       /* what is held waits for the events before this one; 0: nothing is held */
    size_t held;          /* behind those that may go */
    bool again;           /* it had no memory for what it was sent: what it asks meanwhile is answered */
};

struct events {
    struct listener *listeners; /* the leader's, by host */
    uint64_t taken, said;       /* a follower's: bytes on this connection, and what of that it has said */
    struct mu_pack frame;
    uint64_t from, to, made; /* what the frame holds, and when it was made */
    uint64_t again_at;       /* a follower's; UINT64_MAX: it is not waiting for memory */
    uint8_t buffer[MUSTER_EVENT_MAX];
};

static struct events *events_of(struct mu_core *core)
{
    return mu_core_state(core, MU_M_EVENTS);
}

static bool events_init(struct mu_core *core, void **ret_state)
{
    struct events *s = calloc(1, sizeof *s);

    *ret_state = s;
    if (!s)
        return false;
    s->again_at = UINT64_MAX;
    if (!core->leader)
        return true;
    s->listeners = calloc(core->num_hosts, sizeof *s->listeners);
    for (uint32_t i = 0; s->listeners && i < core->num_hosts; i++)
        s->listeners[i].next = UINT64_MAX;
    return s->listeners != NULL;
}

static void events_done(struct mu_core *core)
{
    struct events *s = events_of(core);

    mu_pack_done(&s->frame);
    free(s->listeners);
    free(s);
}

/* ---- the leader -------------------------------------------------------------------------------------------------- */

/* The next event into the frame. False: it is not there. */
static bool pack_event(struct mu_core *core, struct events *s)
{
    struct mu_event_record r;
    size_t len;
    uint64_t tail;
    enum muster_status status = mu_event_copy(core->seg, s->to, &r, s->buffer, &len);

    if (status == MUSTER_NOT_FOUND)
        return false;
    if (status == MUSTER_OUT_OF_RANGE && !mu_event_tail(core->seg, &tail) && tail > s->to + core->seg->num_events) {
        s->to = tail - core->seg->num_events;
        return true;
    }
    if (status) { /* overwritten as we looked, or damaged: none of it reaches anybody */
        s->to++;
        return true;
    }
    mu_pack_u64(&s->frame, r.sequence);
    mu_pack_u64(&s->frame, core->now > r.time_ns ? core->now - r.time_ns : 0);
    mu_pack_u32(&s->frame, r.task);
    mu_pack_u32(&s->frame, r.type);
    mu_pack_blob(&s->frame, s->buffer, len);
    s->to++;
    return true;
}

/* A frame that begins at this event: most often the one that another host has just got. */
static void make_frame(struct mu_core *core, struct events *s, uint64_t from)
{
    if (s->from == from && s->made == core->now && s->frame.len)
        return;
    mu_pack_reset(&s->frame);
    s->from = s->to = from;
    s->made = core->now;
    while (s->frame.len < CHUNK && pack_event(core, s))
        ;
}

static bool has_room(const struct listener *l)
{
    return l->sent - l->taken < WINDOW;
}

static void events_send_some(struct mu_core *core, uint32_t host, uint64_t tail)
{
    struct events *s = events_of(core);
    struct listener *l = &s->listeners[host];

    while (l->next < tail && has_room(l)) {
        make_frame(core, s, l->next);
        if (s->to == s->from)
            break;
        if (s->frame.failed)
            core->peers[host].front.failed = true;
        else if (s->frame.len)
            mu_core_send_front(core, host, MU_FRAME_EVENTS, s->frame.bytes, s->frame.len);
        l->sent += s->frame.len;
        l->next = s->to;
    }
}

/* What is behind events that it has yet to be sent. */
static void events_hold(struct mu_core *core, uint32_t host, uint64_t tail)
{
    struct listener *l = &events_of(core)->listeners[host];
    const struct mu_peer *p = &core->peers[host];

    if (l->next >= tail || l->again) {
        l->again = l->again && l->next < tail;
        l->until = 0;
        mu_core_hold(core, host, SIZE_MAX);
    } else if (!l->until) {
        l->until = tail;
        l->held = p->tail.len;
        mu_core_hold(core, host, 0);
    } else if (l->next >= l->until) {
        mu_core_hold(core, host, p->may_go + l->held);
        l->until = tail;
        l->held = p->tail.len - p->may_go;
    }
}

static void events_front(struct mu_core *core, uint32_t host)
{
    struct events *s = events_of(core);
    uint64_t tail;

    if (!core->leader || s->listeners[host].next == UINT64_MAX || mu_event_tail(core->seg, &tail))
        return;
    events_send_some(core, host, tail);
    events_hold(core, host, tail);
}

bool mu_events_told(struct mu_core *core, uint32_t host, uint64_t *ret_next)
{
    uint64_t tail;

    *ret_next = UINT64_MAX;
    if (!core->leader)
        return true;
    *ret_next = events_of(core)->listeners[host].next;
    return core->peers[host].may_go == SIZE_MAX && !mu_event_tail(core->seg, &tail) && *ret_next >= tail;
}

bool mu_take_events_from(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct listener *l = &events_of(core)->listeners[host];
    uint64_t from = mu_unpack_u64(u), tail;

    if (mu_event_tail(core->seg, &tail))
        return false;
    if (from > tail) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "it has event %" PRIu64 ", which was never sent", from - 1);
        return false;
    }
    l->again = l->next != UINT64_MAX;
    l->next = from;
    mu_core_want(core, host);
    return true;
}

bool mu_take_events_taken(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct listener *l = &events_of(core)->listeners[host];
    uint64_t taken = mu_unpack_u64(u);

    if (taken > l->sent || taken < l->taken) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "it cannot have taken %" PRIu64 " bytes of events", taken);
        return false;
    }
    l->taken = taken;
    mu_core_want(core, host);
    return true;
}

enum event_search { NEVER_SENT, SENT, NOBODY_KNOWS };

/* Of the events from `from` on: the one that this call was for. */
static enum event_search event_find(struct mu_core *core, uint64_t from, uint64_t call, uint64_t number,
                                    uint64_t *ret_sequence)
{
    struct mu_event_record r;
    uint64_t tail;
    size_t len;

    if (mu_event_tail(core->seg, &tail) || (tail > from && tail - from > core->seg->num_events))
        return NOBODY_KNOWS;
    for (uint64_t i = from; i < tail; i++) {
        if (mu_event_copy(core->seg, i, &r, events_of(core)->buffer, &len))
            return NOBODY_KNOWS;
        if (r.call == call && r.number == number) {
            *ret_sequence = i;
            return SENT;
        }
    }
    return NEVER_SENT;
}

static enum muster_status send_for(struct mu_core *core, struct mu_event_record *record, const void *payload,
                                   size_t len)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (status)
        return status;
    status = mu_event_send(ctx, record, payload, len);
    mu_exit(ctx);
    return status;
}

bool mu_op_event_send(struct mu_core *core, const struct mu_request *r)
{
    struct mu_unpack u = r->body;
    uint64_t from = mu_unpack_u64(&u);
    struct mu_event_record record = {.time_ns = mu_now(),
                                     .task = r->task,
                                     .type = mu_unpack_u32(&u),
                                     .call = MU_DONE_ID(r->host, r->slot),
                                     .number = r->number};
    size_t len = 0;
    const void *payload = mu_unpack_blob(&u, MUSTER_EVENT_MAX, &len);
    enum event_search before = NEVER_SENT;
    enum muster_status status = MUSTER_OK;
    struct mu_pack answer = {0};

    if (!mu_unpack_end(&u) || r->task > core->seg->num_tasks)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "the call is not well formed");
    else if (r->resent)
        before = event_find(core, from, record.call, record.number, &record.sequence);
    if (before == NOBODY_KNOWS)
        status = mu_fail(MUSTER_UNAVAILABLE,
                         "the connection to the leader broke, and whether the event was sent cannot be told: so many "
                         "have been sent since that it may have been overwritten");
    if (!status && before == NEVER_SENT)
        status = send_for(core, &record, payload, len);
    mu_pack_u64(&answer, record.sequence);
    if (answer.failed)
        mu_call_later(core, r->host, r->slot, r->number);
    else
        mu_call_answer(core, r->host, r->slot, r->number, status, NULL, answer.bytes, status ? 0 : answer.len);
    mu_pack_done(&answer);
    return true;
}

/* ---- a follower -------------------------------------------------------------------------------------------------- */

static void ask_from_here(struct mu_core *core)
{
    struct mu_pack p = {0};
    uint64_t tail;

    events_of(core)->again_at = UINT64_MAX;
    if (mu_event_tail(core->seg, &tail))
        return;
    mu_pack_u64(&p, tail);
    if (p.failed)
        core->peers[0].tail.failed = true;
    else
        mu_core_send_front(core, 0, MU_FRAME_EVENTS_FROM, p.bytes,
                           p.len); /* before calls: their answers follow events */
    mu_pack_done(&p);
}

static bool remote_event_take(struct mu_core *core, struct mu_ctx *ctx, struct mu_unpack *u)
{
    struct events *s = events_of(core);
    struct mu_event_record r = {.sequence = mu_unpack_u64(u)};
    uint64_t age = mu_unpack_u64(u);
    const void *payload;
    size_t len = 0;

    r.time_ns = core->now - (age < core->now ? age : core->now);
    r.task = mu_unpack_u32(u);
    r.type = mu_unpack_u32(u);
    payload = mu_unpack_blob(u, MUSTER_EVENT_MAX, &len);
    if (u->failed || r.task > core->seg->num_tasks || r.sequence > UINT64_MAX / 2) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "event %" PRIu64 " cannot be", r.sequence);
        return false;
    }
    /* One that finds no memory must not be left out: from there on everything is asked for again. */
    if (s->again_at == UINT64_MAX && mu_event_place(ctx, &r, payload, len))
        s->again_at = core->now + AGAIN_NS;
    return true;
}

/* That so much has been taken, also of what found no memory here: the leader may send more. */
static void say_taken(struct mu_core *core)
{
    struct events *s = events_of(core);
    struct mu_pack p = {0};

    if (s->taken - s->said < CHUNK)
        return;
    mu_pack_u64(&p, s->taken);
    if (p.failed)
        return; /* with the next frame */
    mu_core_send(core, 0, MU_FRAME_EVENTS_TAKEN, p.bytes, p.len);
    s->said = s->taken;
    mu_pack_done(&p);
}

bool mu_take_events(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    size_t len = u->left;
    struct mu_ctx *ctx;
    bool good = true;

    (void)host;
    if (mu_enter(core->m, &ctx))
        return false;
    while (good && u->left)
        good = remote_event_take(core, ctx, u);
    mu_exit(ctx);
    events_of(core)->taken += len;
    say_taken(core);
    return good;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static void events_up(struct mu_core *core, uint32_t host)
{
    struct events *s = events_of(core);

    if (core->leader) {
        s->listeners[host] = (struct listener){.next = UINT64_MAX};
        return;
    }
    s->taken = s->said = 0;
    ask_from_here(core);
}

static void events_look(struct mu_core *core)
{
    struct events *s = events_of(core);
    uint64_t tail;

    if (!core->leader) {
        if (core->now >= s->again_at)
            ask_from_here(core);
        return;
    }
    if (mu_event_tail(core->seg, &tail))
        return;
    for (uint32_t i = 0; i < core->num_hosts; i++)
        if (s->listeners[i].next < tail && has_room(&s->listeners[i]))
            mu_core_want(core, i);
}

static uint64_t events_next(struct mu_core *core)
{
    return events_of(core)->again_at;
}

const struct mu_module mu_module_events = {.name = "events",
                                           .init = events_init,
                                           .done = events_done,
                                           .up = events_up,
                                           .look = events_look,
                                           .front = events_front,
                                           .next = events_next};
