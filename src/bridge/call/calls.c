/*
 * bridge/call/calls.c: the calls of this host's tasks: from the segment to the leader, and the answers back.
 *
 * A call lies in its slot's cell until it has been answered (segment/remote.h), so nothing of it is kept here but what
 * is on its way. When the connection (or this agent) is new, every open call is sent again with the mark "resent", and
 * every answered one is acknowledged again: so both ends know all that they must know from the segments alone. What is
 * on its way is bounded by WINDOW bytes.
 *
 * A caller that dies leaves its call, perhaps before it has set its bit. A slot is looked at if its holder has died or
 * changed since the last look, whatever is known of its calls. What it leaves is taken back in the segment first,
 * acknowledged then: an agent in between finds it taken back, and it cannot be asked again when the leader has
 * forgotten it.
 */
#include "bridge/call/calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool calls_init(struct mu_core *core, void **ret_state)
{
    struct calls *c = calloc(1, sizeof *c);

    *ret_state = c;
    if (!c)
        return false;
    c->num_slots = core->seg->num_slots;
    c->num_buckets = core->seg->num_buckets;
    c->asked = calloc(c->num_slots, sizeof *c->asked);
    c->hosts = calloc(core->leader ? core->num_hosts : 1, sizeof *c->hosts);
    c->records = calloc(c->num_buckets / 64 + 1, sizeof *c->records);
    c->again_at = c->ack_at = c->delete_at = UINT64_MAX;
    c->sweep_at = core->now + SWEEP_NS;
    if (!c->asked || !c->hosts || !c->records)
        return false;
    for (uint32_t i = 0; i < core->num_hosts; i++) {
        mu_store_relaxed(&core->seg->hosts[i].asking, 0); /* relaxed: a figure; pairs with mu_host_look() */
        /* a host that an earlier agent gave up will not ask again: what its calls left in pages goes */
        if (core->leader)
            c->hosts[i].lost = core->peers[i].state == MU_PEER_LOST;
    }
    if (core->leader) { /* whatever an agent before this one left behind */
        memset(c->records, 0xff, (c->num_buckets / 64 + 1) * sizeof *c->records);
        c->any_record = true;
    }
    return true;
}

static void calls_done(struct mu_core *core)
{
    struct calls *c = mu_calls_of(core);

    for (uint32_t i = 0; c->hosts && i < (core->leader ? core->num_hosts : 1); i++) {
        mu_free_entries(&c->hosts[i]);
    }
    mu_deletions_done(c);
    mu_pack_done(&c->acks);
    free(c->asked);
    free(c->hosts);
    free(c->records);
    free(c);
}

/* ---- the asking host --------------------------------------------------------------------------------------------- */

static bool leader_is_up(const struct mu_core *core)
{
    return !core->leader && core->peers[0].state == MU_PEER_UP;
}

void mu_acknowledge(struct calls *c, uint32_t slot, uint64_t number)
{
    mu_pack_u32(&c->acks, slot);
    mu_pack_u64(&c->acks, number);
}

static void send_acks(struct mu_core *core, struct calls *c)
{
    size_t at = 0, most = 12u * MU_FRAME_SLOTS;

    while (at < c->acks.len && !c->acks.failed) {
        size_t n = c->acks.len - at < most ? c->acks.len - at : most;

        mu_core_send(core, 0, MU_FRAME_ACK, c->acks.bytes + at, n);
        at += n;
    }
    mu_pack_reset(&c->acks); /* one that was lost is said again with the next connection, or by the slot's next call */
}

/* Not on its way any more. */
static void call_arrived(struct calls *c, struct asked *a)
{
    c->on_the_way -= a->bytes;
    a->bytes = 0;
}

/* The leader's agent counts them where it carries them out. */
void mu_show_asking(struct mu_core *core)
{
    if (!core->leader) /* relaxed: a figure; pairs with mu_host_look() */
        mu_store_relaxed(&core->seg->hosts[core->host].asking, mu_calls_of(core)->num_open + mu_lanes_asking(core));
}

static void set_open(struct mu_core *core, struct asked *a, bool open)
{
    struct calls *c = mu_calls_of(core);

    if (open == a->open)
        return;
    a->open = open;
    c->num_open += open ? 1 : -1u;
    mu_show_asking(core);
}

void mu_asked_settle(struct mu_core *core, uint32_t slot, uint64_t number)
{
    struct calls *c = mu_calls_of(core);

    if (c->asked[slot].number == number)
        set_open(core, &c->asked[slot], false);
}

void mu_asked_later(struct mu_core *core, uint32_t slot)
{
    struct calls *c = mu_calls_of(core);

    c->asked[slot].again = true;
    c->again_at = core->now + LATER_NS;
}

bool mu_send_call(struct mu_core *core, const struct mu_request *r)
{
    struct mu_slice body = {r->memory, r->memory ? (size_t)(r->body.at - r->memory->bytes) : 0, r->body.left};
    struct mu_pack p = {0};
    bool failed;

    mu_pack_u32(&p, r->slot);
    mu_pack_u64(&p, r->number);
    mu_pack_u32(&p, r->op);
    mu_pack_u32(&p, r->task);
    mu_pack_u32(&p, r->flags);
    mu_pack_u32(&p, r->attempt);
    mu_pack_u64(&p, r->incarnation);
    mu_pack_u8(&p, r->resent);
    failed = p.failed;
    if (!failed && r->memory && r->body.left > mu_slice_min)
        mu_core_send_slice(core, 0, MU_FRAME_CALL, p.bytes, p.len, &body);
    else if (!failed)
        mu_core_send_parts(core, 0, MU_FRAME_CALL, p.bytes, p.len, r->body.at, r->body.left);
    mu_pack_done(&p);
    return !failed;
}

static void send_call(struct mu_core *core, struct asked *a, const struct mu_request *r)
{
    if (!mu_send_call(core, r)) {
        mu_asked_later(core, r->slot);
        return;
    }
    a->bytes = r->body.left;
    mu_calls_of(core)->on_the_way += a->bytes;
}

/* Whether there is room for so much more on the way. */
static bool may_go(struct mu_core *core, size_t bytes)
{
    size_t on_the_way = mu_calls_of(core)->on_the_way + mu_lanes_on_the_way(core);

    return !on_the_way || on_the_way + bytes <= WINDOW;
}

/* One slot's call: where it belongs. */
static void slot_ask(struct mu_core *core, uint32_t slot, bool resent)
{
    struct calls *c = mu_calls_of(core);
    struct asked *a = &c->asked[slot];
    struct mu_request r = {0};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    a->again = false;
    if (!status) {
        status = mu_remote_read(ctx, slot, &r);
        mu_exit(ctx);
    }
    if (status) {
        mu_asked_later(core, slot);
        return;
    }
    call_arrived(c, a);
    resent |= a->open && a->number == r.number; /* its bit may come after an agent or a connection has found it */
    a->number = r.number;
    set_open(core, a, r.op != MU_OP_NONE);
    r.resent = resent;
    if (!r.op) {
        if (r.number && resent)
            mu_acknowledge(c, slot, r.number);
    } else if (core->leader || r.op >= MU_OP_LOCAL) {
        mu_dispatch_out(core, &r);
    } else if (leader_is_up(core)) {
        if (may_go(core, r.body.left))
            send_call(core, a, &r);
        else
            mu_asked_later(core, slot); /* when some of the others have arrived */
    }
    mu_request_done(&r);
}

static void ask_first(void *arg, uint32_t slot)
{
    slot_ask(arg, slot, false);
}

static void ask_again(void *arg, uint32_t slot)
{
    slot_ask(arg, slot, true);
}

bool mu_take_answer(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct calls *c = mu_calls_of(core);
    uint32_t slot = mu_unpack_u32(u);
    uint64_t number = mu_unpack_u64(u);
    uint8_t later = mu_unpack_u8(u);
    uint32_t status = mu_unpack_u32(u);
    char text[1024];
    struct asked *a;

    (void)host;
    mu_unpack_text(u, text, sizeof text);
    if (u->failed || slot >= MU_FRAME_SLOTS || status > MUSTER_DATA_LOSS) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "an answer %u to slot %u cannot be", status, slot);
        return false;
    }
    if (slot >= c->num_slots)
        return mu_lanes_take_answer(core, slot, number, later, (enum muster_status)status, text, u);
    a = &c->asked[slot];
    if (number > a->number && !a->again) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "call %" PRIu64 " of slot %u was not asked; its last is %" PRIu64, number,
                slot, a->number);
        return false;
    }
    if (a->number != number || !a->open)
        return true; /* nobody waits for it any more: it was answered before, or its caller is dead */
    call_arrived(c, a);
    if (!later && mu_hand_over(core, slot, number, (enum muster_status)status, text, u->at, u->left)) {
        /* A large one is of a call that changed nothing, and may fail. */
        later = u->left <= KEPT_MAX ||
                mu_hand_over(core, slot, number, MUSTER_RESOURCE_EXHAUSTED, muster_last_error(), NULL, 0);
    }
    if (later) {
        mu_asked_later(core, slot);
        return true;
    }
    mu_acknowledge(c, slot, number);
    mu_asked_settle(core, slot, number);
    return true;
}

/* The slot has a new holder, or a dead one. False: no memory. */
static bool slot_take_back(struct mu_core *core, struct asked *a, uint32_t slot)
{
    struct calls *c = mu_calls_of(core);
    struct mu_taken taken;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (status)
        return false;
    status = mu_remote_take_back(ctx, slot, &taken);
    mu_exit(ctx);
    if (status)
        return false;
    if (taken.any || (a->open && a->number <= taken.number))
        mu_acknowledge(c, slot, taken.number);
    if (a->number <= taken.number) {
        call_arrived(c, a);
        set_open(core, a, false);
        mu_dispatch_end(core, slot, taken.number);
    }
    return true;
}

/* Callers that died: what they asked is taken back, and with it the room that it takes. */
static void sweep_callers(struct mu_core *core, struct calls *c)
{
    uint32_t high = mu_slot_high(core->seg);

    for (uint32_t i = 0; i < high; i++) {
        uint32_t holder = mu_remote_holder(core->seg, i);

        if (holder != c->asked[i].holder && slot_take_back(core, &c->asked[i], i))
            c->asked[i].holder = holder; /* without memory: at the next look */
    }
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static void calls_look(struct mu_core *core)
{
    struct calls *c = mu_calls_of(core);

    if (!c->started)
        mu_remote_collect_all(core->seg, ask_again, core);
    c->started = true;
    mu_remote_collect(core->seg, ask_first, core);
    if (core->now >= c->again_at) {
        c->again_at = UINT64_MAX;
        for (uint32_t i = 0; i < c->num_slots; i++)
            if (c->asked[i].again)
                slot_ask(core, i, true);
    }
    if (core->now >= c->sweep_at) {
        c->sweep_at = core->now + SWEEP_NS;
        sweep_callers(core, c);
        if (core->leader)
            mu_sweep_records(core);
    }
    mu_deletions_look(core);
    if (c->acks.len && c->ack_at == UINT64_MAX)
        c->ack_at = core->now + ACK_NS;
    if (core->now >= c->ack_at || c->acks.len >= ACK_BYTES) {
        send_acks(core, c);
        c->ack_at = UINT64_MAX;
    }
}

static void calls_up(struct mu_core *core, uint32_t host)
{
    struct calls *c = mu_calls_of(core);

    (void)host;
    if (core->leader)
        return;
    for (uint32_t i = 0; i < c->num_slots; i++)
        call_arrived(c, &c->asked[i]);
    mu_pack_reset(&c->acks);
    mu_remote_collect_all(core->seg, ask_again, core);
    c->started = true;
}

static void calls_lost(struct mu_core *core, uint32_t host, const char *why)
{
    (void)why;
    if (core->leader)
        mu_forget_host(core, host);
}

static uint64_t calls_next(struct mu_core *core)
{
    struct calls *c = mu_calls_of(core);
    uint64_t next;

    if (!c->started)
        return 0;
    next = c->num_open || c->any_record ? c->sweep_at : UINT64_MAX;
    next = c->again_at < next ? c->again_at : next;
    next = c->delete_at < next ? c->delete_at : next;
    return c->ack_at < next ? c->ack_at : next;
}

static bool calls_busy(struct mu_core *core)
{
    return mu_calls_of(core)->num_open > 0;
}

const struct mu_module mu_module_calls = {.name = "calls",
                                          .init = calls_init,
                                          .done = calls_done,
                                          .up = calls_up,
                                          .lost = calls_lost,
                                          .look = calls_look,
                                          .next = calls_next,
                                          .busy = calls_busy};
