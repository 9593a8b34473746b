/*
 * bridge/call/lanes.c: calls to the leader that lie in this agent's memory.
 *
 * Every lane is in one list, by what becomes of its call: it is to be sent, on its way, to be sent again in a while,
 * answered; or there is none. One lock holds the lists and is held for no longer than a question is copied; the
 * bridge's is the outer one of the two, and the loop never takes that.
 *
 * Numbers. Nothing is left of the lanes of an agent before this one but what the leader knows of them. All lanes share
 * one count, which begins at the time since the machine's start, in nanoseconds: an agent that counted before began
 * earlier and made less than a call a nanosecond, and a segment does not outlive its machine's run. So our first number
 * is larger than all of theirs, and one acknowledgement of all lanes, up to the number before it, ends at the leader
 * whatever they had open.
 *
 * Answers above KEPT_MAX bytes are acknowledged when the loop has taken them, and the leader has only so many bytes of
 * such in flight: so what lies here untaken is bounded as well.
 */
#include "bridge/call/lanes_private.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "segment/file.h"

/* ---- lists ------------------------------------------------------------------------------------------------------- */

bool mu_lane_is_open(const struct lane *lane)
{
    return lane->state == WAITS || lane->state == GOES || lane->state == LATER;
}

static void unlink_lane(struct mu_lanes *l, struct lane *lane)
{
    struct list *list = &l->lists[lane->state];

    MU_QUEUE_DROP(list->first, list->last, lane);
    l->open -= mu_lane_is_open(lane);
}

/* NULL: at the end. */
static void link_before(struct mu_lanes *l, struct lane *lane, enum lane_state state, struct lane *next)
{
    struct list *list = &l->lists[state];

    lane->state = state;
    lane->next = next;
    lane->prev = next ? next->prev : list->last;
    *(lane->prev ? &lane->prev->next : &list->first) = lane;
    *(next ? &next->prev : &list->last) = lane;
    l->open += mu_lane_is_open(lane);
}

static void link_lane(struct mu_lanes *l, struct lane *lane, enum lane_state state)
{
    link_before(l, lane, state, NULL);
}

void mu_lane_move(struct mu_lanes *l, struct lane *lane, enum lane_state state)
{
    unlink_lane(l, lane);
    link_lane(l, lane, state);
}

void mu_lanes_wait_again(struct mu_lanes *l, enum lane_state state)
{
    struct lane *lane, *next;

    while ((lane = l->lists[state].last)) { /* from the last on: mostly each goes before all others */
        unlink_lane(l, lane);
        for (next = l->lists[WAITS].first; next && next->asked.number < lane->asked.number; next = next->next)
            ;
        link_before(l, lane, WAITS, next);
    }
}

static uint32_t slot_of(const struct mu_lanes *l, const struct lane *lane)
{
    return MU_FRAME_SLOTS - 1 - (uint32_t)(lane - l->lanes);
}

/* The one that was last in use, or one that never was; NULL: all are. It is in no list then. */
static struct lane *idle_lane(struct mu_lanes *l)
{
    struct lane *lane = l->lists[IDLE].last;

    if (lane) {
        unlink_lane(l, lane);
        return lane;
    }
    return l->used < l->num_lanes ? &l->lanes[l->used++] : NULL;
}

/* ---- what becomes of a call; with the lock held ------------------------------------------------------------------ */

void mu_lane_arrived(struct mu_lanes *l, struct lane *lane)
{
    l->on_the_way -= lane->bytes;
    lane->bytes = 0;
}

void mu_lane_acknowledge(struct mu_lanes *l, const struct lane *lane)
{
    mu_pack_u32(&l->acks, slot_of(l, lane));
    mu_pack_u64(&l->acks, lane->known);
}

void mu_lane_come(struct mu_lanes *l, struct lane *lane, const struct taken *t)
{
    mu_lane_arrived(l, lane);
    mu_pack_done(&lane->request);
    lane->answer = *t;
    mu_lane_move(l, lane, CAME);
}

static void come_without(struct mu_lanes *l, struct lane *lane)
{
    mu_lane_come(l, lane, &(struct taken){.status = MUSTER_UNAVAILABLE});
}

/* Nobody waits for it any more, and nobody has read its answer. What there is to be freed is the caller's. */
static void lane_give_up(struct mu_lanes *l, struct lane *lane, struct mu_pack *ret_request, char **ret_memory)
{
    if (lane->unsettled || (mu_lane_is_open(lane) && lane->sent))
        mu_lane_acknowledge(l, lane);
    mu_lane_arrived(l, lane);
    *ret_request = lane->request;
    *ret_memory = lane->answer.memory;
    lane->request = (struct mu_pack){0};
    lane->answer.memory = NULL;
    lane->unsettled = false;
}

/* The call's question onto this lane, which is in no list. */
static void lane_begin(struct mu_lanes *l, struct lane *lane, struct mu_lane_call *call)
{
    lane->call = call;
    lane->request = call->request;
    call->request = (struct mu_pack){0};
    call->lane = (uint32_t)(lane - l->lanes) + 1;
    lane->asked = (struct mu_request){.slot = slot_of(l, lane),
                                      .number = ++l->number,
                                      .op = call->op,
                                      .task = call->task,
                                      .flags = call->flags,
                                      .attempt = call->attempt,
                                      .incarnation = call->incarnation,
                                      .body = mu_unpack_of(lane->request.bytes, lane->request.len)};
    lane->sent = false;
    link_lane(l, lane, WAITS);
    if (l->why != THERE)
        come_without(l, lane);
}

void mu_lanes_end_all(struct mu_lanes *l, enum why why)
{
    static const enum lane_state open[] = {WAITS, GOES, LATER};

    pthread_mutex_lock(&l->lock);
    if (l->why == THERE)
        l->why = why;
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        while (l->lists[open[i]].first)
            come_without(l, l->lists[open[i]].first);
    pthread_mutex_unlock(&l->lock);
    mu_core_listener_tell(&l->listener);
}

/* ---- the loop's side --------------------------------------------------------------------------------------------- */

void mu_lanes_listen(struct mu_lanes *l, void (*rung)(void *arg), void *arg)
{
    mu_core_listener_listen(&l->listener, rung, arg);
}

void mu_lanes_arm(struct mu_lanes *l)
{
    mu_core_listener_arm(&l->listener);
}

static enum muster_status may_ask(const struct mu_lanes *l, const struct mu_lane_call *call)
{
    if (l->leader)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "%s: the leader of job %s asks nobody", call->what, l->seg->job);
    if (call->request.failed)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a call to another host");
    return MUSTER_OK;
}

/* What is answered without the leader is to be taken all the same. */
static void call_attention(struct mu_lanes *l, bool came)
{
    if (came)
        mu_core_listener_tell(&l->listener);
    else
        mu_bell_ring_always(l->seg);
}

enum muster_status mu_lanes_ask(struct mu_lanes *l, struct mu_lane_call *call)
{
    enum muster_status status = may_ask(l, call);
    struct lane *lane;
    bool came = false;

    call->lane = 0;
    if (status)
        return status;
    pthread_mutex_lock(&l->lock);
    lane = idle_lane(l);
    if (lane) {
        lane_begin(l, lane, call);
        came = lane->state == CAME;
    }
    pthread_mutex_unlock(&l->lock);
    if (!lane)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "%s: all %u calls that this host may make to the leader at a time wait", call->what,
                       l->num_lanes);
    call_attention(l, came);
    return MUSTER_OK;
}

enum muster_status mu_lanes_again(struct mu_lanes *l, struct mu_lane_call *call)
{
    enum muster_status status = may_ask(l, call);
    struct mu_pack request;
    struct lane *lane;
    char *memory;
    bool came;

    if (!call->lane)
        return mu_lanes_ask(l, call);
    if (status) {
        mu_lanes_drop(l, call);
        return status;
    }
    lane = &l->lanes[call->lane - 1];
    pthread_mutex_lock(&l->lock);
    unlink_lane(l, lane);
    lane_give_up(l, lane, &request, &memory); /* the new number says the same, if it comes through */
    lane_begin(l, lane, call);
    came = lane->state == CAME;
    pthread_mutex_unlock(&l->lock);
    mu_pack_done(&request);
    free(memory);
    call_attention(l, came);
    return MUSTER_OK;
}

void mu_lanes_drop(struct mu_lanes *l, struct mu_lane_call *call)
{
    struct mu_pack request;
    struct lane *lane;
    char *memory;

    if (!call->lane)
        return;
    lane = &l->lanes[call->lane - 1];
    call->lane = 0;
    pthread_mutex_lock(&l->lock);
    lane_give_up(l, lane, &request, &memory);
    lane->call = NULL;
    mu_lane_move(l, lane, IDLE);
    pthread_mutex_unlock(&l->lock);
    mu_pack_done(&request);
    free(memory);
}

/* False: none is there. */
static bool take_one(struct mu_lanes *l, struct taken *t)
{
    struct lane *lane;

    pthread_mutex_lock(&l->lock);
    lane = l->lists[CAME].first;
    if (lane) {
        if (lane->unsettled)
            mu_lane_acknowledge(l, lane);
        *t = lane->answer;
        t->call = lane->call;
        t->call->lane = 0;
        lane->unsettled = false;
        lane->answer.memory = NULL;
        lane->call = NULL;
        mu_lane_move(l, lane, IDLE);
    }
    pthread_mutex_unlock(&l->lock);
    return lane != NULL;
}

static void lane_answer(struct mu_lanes *l, struct taken *t)
{
    char text[256] = "", name[64];

    if (t->memory) {
        t->call->answered(t->call, t->status, t->memory, mu_unpack_of(t->memory + t->text_len + 1, t->len));
        return;
    }
    mu_host_name(l->seg, 0, name, sizeof name);
    if (l->why == LEADER_LOST) /* as a caller with a slot is told */
        snprintf(text, sizeof text, "%.100s: the leader of the job, host %s, is lost", t->call->what, name);
    else
        snprintf(text, sizeof text, "%.100s: this host's agent does not ask its leader any more", t->call->what);
    t->call->answered(t->call, t->status, text, mu_unpack_of(NULL, 0));
}

static uint32_t num_came(struct mu_lanes *l)
{
    uint32_t n = 0;

    pthread_mutex_lock(&l->lock);
    for (const struct lane *lane = l->lists[CAME].first; lane; lane = lane->next)
        n++;
    pthread_mutex_unlock(&l->lock);
    return n;
}

void mu_lanes_take(struct mu_lanes *l)
{
    struct taken t;

    /* those that are there: what is asked within may be answered at once, for ever */
    for (uint32_t left = num_came(l); left && take_one(l, &t); left--) {
        lane_answer(l, &t);
        free(t.memory);
    }
}

uint32_t mu_lanes_open(struct mu_lanes *l)
{
    uint32_t open;

    pthread_mutex_lock(&l->lock);
    open = l->open;
    pthread_mutex_unlock(&l->lock);
    return open;
}

uint32_t mu_lanes_left(struct mu_lanes *l)
{
    return l->num_lanes - mu_lanes_open(l);
}

/* ---- making and freeing ------------------------------------------------------------------------------------------ */

enum muster_status mu_lanes_make(struct mu_core *core, struct mu_lanes **ret_lanes)
{
    struct mu_lanes *l = calloc(1, sizeof *l);

    if (l) {
        l->leader = core->leader;
        l->num_lanes = core->leader ? 0 : MU_FRAME_SLOTS - core->seg->num_slots;
        l->lanes = calloc(l->num_lanes + 1, sizeof *l->lanes);
    }
    if (!l || !l->lanes) {
        free(l);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for calls to the leader");
    }
    l->seg = core->seg;
    mu_segment_ref(l->seg);
    l->core = core;
    l->again_at = UINT64_MAX;
    l->number = mu_now();
    l->first = l->number;
    l->why = !core->leader && core->peers[0].state == MU_PEER_LOST ? LEADER_LOST : THERE;
    pthread_mutex_init(&l->lock, NULL);
    mu_core_listener_make(&l->listener, core->seg);
    core->state[MU_M_LANES] = l;
    core->listener = &l->listener;
    if (!l->leader)
        mu_lanes_acknowledge_all(core, l->first);
    *ret_lanes = l;
    return MUSTER_OK;
}

void mu_lanes_free(struct mu_lanes *l)
{
    if (!l)
        return;
    if (l->core) {
        l->core->state[MU_M_LANES] = NULL;
        l->core->listener = NULL;
        if (!l->leader)
            mu_lanes_acknowledge_all(l->core, l->number);
    }
    for (uint32_t i = 0; i < l->used; i++) {
        mu_pack_done(&l->lanes[i].request);
        free(l->lanes[i].answer.memory);
    }
    mu_pack_done(&l->acks);
    pthread_mutex_destroy(&l->lock);
    mu_core_listener_done(&l->listener);
    mu_segment_unref(l->seg);
    free(l->lanes);
    free(l);
}
