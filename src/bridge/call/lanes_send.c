/*
 * bridge/call/lanes_send.c: the bridge's side of lanes: their calls to the leader, and the answers back.
 */
#include "bridge/call/lanes_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

size_t mu_lanes_on_the_way(struct mu_core *core)
{
    struct mu_lanes *l = mu_lanes_of(core);
    size_t bytes;

    if (!l)
        return 0;
    pthread_mutex_lock(&l->lock);
    bytes = l->on_the_way;
    pthread_mutex_unlock(&l->lock);
    return bytes;
}

uint32_t mu_lanes_asking(struct mu_core *core)
{
    struct mu_lanes *l = mu_lanes_of(core);

    return l ? mu_lanes_open(l) : 0;
}

/* All that lanes have asked up to this number. */
void mu_lanes_acknowledge_all(struct mu_core *core, uint64_t number)
{
    mu_acknowledge(mu_calls_of(core), MU_ACK_FROM | core->seg->num_slots, number);
}

/* The lane's question, without the lock: a large one takes a while to copy. With the lock again it is put back, unless
 * it is not the lane's any more. False: no memory. */
static bool send_one(struct mu_core *core, struct mu_lanes *l, struct lane *lane)
{
    struct mu_request asked = lane->asked;
    struct mu_pack request = lane->request;
    bool sent;

    asked.resent = lane->sent;
    lane->request = (struct mu_pack){0};
    lane->sent = true;
    lane->known = asked.number;
    lane->bytes = request.len;
    l->on_the_way += lane->bytes;
    mu_lane_move(l, lane, GOES);
    pthread_mutex_unlock(&l->lock);
    sent = mu_send_call(core, &asked);
    pthread_mutex_lock(&l->lock);
    if (lane->state != GOES || lane->asked.number != asked.number) {
        mu_pack_done(&request);
        return true;
    }
    lane->request = request;
    return sent;
}

static void put_off(struct mu_core *core, struct mu_lanes *l, struct lane *lane)
{
    mu_lane_arrived(l, lane);
    mu_lane_move(l, lane, LATER);
    if (l->again_at == UINT64_MAX) /* others that are put off do not put it off further */
        l->again_at = core->now + LATER_NS;
}

/* Those that wait, in their order, for as long as there is room on the way. With the lock held. */
static void send_waiting(struct mu_core *core, struct mu_lanes *l)
{
    size_t others = mu_calls_of(core)->on_the_way;
    struct lane *lane;

    while ((lane = l->lists[WAITS].first)) {
        size_t now = others + l->on_the_way;

        if (now && now + lane->request.len > WINDOW)
            return; /* the turn in which one of the others arrives comes by here */
        if (!send_one(core, l, lane))
            put_off(core, l, lane);
    }
}

static void lanes_look(struct mu_core *core)
{
    struct mu_lanes *l = mu_lanes_of(core);
    struct calls *c = mu_calls_of(core);

    if (!l || l->leader)
        return;
    pthread_mutex_lock(&l->lock);
    mu_pack_raw(&c->acks, l->acks.bytes, l->acks.len);
    mu_core_trim(&l->acks); /* what was lost for want of memory is said by the lane's next call */
    if (core->now >= l->again_at) {
        l->again_at = UINT64_MAX;
        mu_lanes_wait_again(l, LATER);
    }
    if (core->peers[0].state == MU_PEER_UP)
        send_waiting(core, l);
    pthread_mutex_unlock(&l->lock);
    mu_show_asking(core);
}

/* The leader may know nothing, or all that an earlier connection brought. */
static void lanes_up(struct mu_core *core, uint32_t host)
{
    struct mu_lanes *l = mu_lanes_of(core);

    (void)host;
    if (!l || l->leader)
        return;
    mu_lanes_acknowledge_all(core, l->first);
    pthread_mutex_lock(&l->lock);
    mu_pack_reset(&l->acks);
    mu_lanes_wait_again(l, LATER);
    mu_lanes_wait_again(l, GOES);
    for (uint32_t i = 0; i < l->used; i++) {
        struct lane *lane = &l->lanes[i];

        mu_lane_arrived(l, lane);
        if (lane->known && !lane->unsettled && !(mu_lane_is_open(lane) && lane->sent))
            mu_lane_acknowledge(l, lane); /* also where the next call waits: it may be dropped yet */
    }
    pthread_mutex_unlock(&l->lock);
}

static void lanes_lost(struct mu_core *core, uint32_t host, const char *why)
{
    struct mu_lanes *l = mu_lanes_of(core);

    (void)host;
    (void)why;
    if (l && !l->leader)
        mu_lanes_end_all(l, LEADER_LOST);
}

/* What a frame says, as it is kept; NULL: no memory. */
static char *keep_answer(const char *text, size_t text_len, const struct mu_unpack *u)
{
    char *memory = malloc(text_len + 1 + u->left);

    if (!memory)
        return NULL;
    memcpy(memory, text, text_len + 1);
    if (u->left)
        memcpy(memory + text_len + 1, u->at, u->left);
    return memory;
}

/* With the lock held. True: the lane waits for it, and has it now; or for want of memory asks again. */
static bool take_answer(struct mu_core *core, struct mu_lanes *l, struct lane *lane, struct taken *t)
{
    if (lane->asked.number != t->number || !mu_lane_is_open(lane))
        return false;
    if (!t->memory) {
        put_off(core, l, lane);
        return true;
    }
    mu_lane_come(l, lane, t);
    lane->unsettled = t->len > KEPT_MAX;
    if (!lane->unsettled)
        mu_lane_acknowledge(l, lane);
    return true;
}

bool mu_lanes_take_answer(struct mu_core *core, uint32_t slot, uint64_t number, bool later, enum muster_status status,
                          const char *text, const struct mu_unpack *u)
{
    struct mu_lanes *l = mu_lanes_of(core);
    uint32_t i = MU_FRAME_SLOTS - 1 - slot;
    struct taken t = {.number = number, .status = status, .text_len = status ? strlen(text) : 0, .len = u->left};
    bool asked, taken;

    if (!l)
        return true; /* of lanes that are gone */
    t.memory = later ? NULL : keep_answer(status ? text : "", t.text_len, u);
    pthread_mutex_lock(&l->lock);
    asked = number <= l->number;
    taken = i < l->used && take_answer(core, l, &l->lanes[i], &t);
    pthread_mutex_unlock(&l->lock);
    if (!taken)
        free(t.memory);
    else if (t.memory)
        mu_core_listener_tell(&l->listener);
    if (!asked)
        mu_fail(MUSTER_INVALID_ARGUMENT, "call %" PRIu64 " of slot %u was not asked", number, slot);
    return asked;
}

static void lanes_done(struct mu_core *core)
{
    struct mu_lanes *l = mu_lanes_of(core);

    l->core = NULL;
    core->listener = NULL;
    mu_lanes_end_all(l, AGENT_GOES);
}

static uint64_t lanes_next(struct mu_core *core)
{
    struct mu_lanes *l = mu_lanes_of(core);
    uint64_t at;

    if (!l)
        return UINT64_MAX;
    pthread_mutex_lock(&l->lock);
    at = l->again_at;
    pthread_mutex_unlock(&l->lock);
    return at;
}

static bool lanes_busy(struct mu_core *core)
{
    return mu_lanes_asking(core) > 0;
}

const struct mu_module mu_module_lanes = {.name = "lanes",
                                          .done = lanes_done,
                                          .up = lanes_up,
                                          .lost = lanes_lost,
                                          .look = lanes_look,
                                          .next = lanes_next,
                                          .busy = lanes_busy};
