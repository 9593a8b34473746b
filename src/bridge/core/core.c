/*
 * bridge/core/core.c: one host's end of the bridge: peers, frames in, turns.
 *
 * Everything here runs under its owner's lock, one thing at a time. Frames that modules decide on gather in their
 * peer's buffers until the end of the turn; then what must be ahead goes first (I10). A connection that breaks
 * takes them with it: nothing is sent again, modules say everything anew when the peer comes back. So a frame is either
 * taken by the peer in its place, or the peer sees an end.
 */
#include "bridge/core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/core/listener.h"

enum { HELD_MOST = 256 << 20 };

/* The peer's states as rows, what happens as columns. Lost is for good. */
const enum mu_peer_act mu_peer_steps[MU_PEER_STATES][MU_PEER_EVENTS] = {
    [MU_PEER_ABSENT] = {[MU_PEER_COMES] = MU_ACT_UP,
                        [MU_PEER_FRAME] = MU_ACT_REFUSE,
                        [MU_PEER_BREAKS] = MU_ACT_NONE,
                        [MU_PEER_GIVEN_UP] = MU_ACT_LOST},
    [MU_PEER_UP] = {[MU_PEER_COMES] = MU_ACT_AGAIN,
                    [MU_PEER_FRAME] = MU_ACT_TAKE,
                    [MU_PEER_BREAKS] = MU_ACT_DOWN,
                    [MU_PEER_GIVEN_UP] = MU_ACT_LOST},
    [MU_PEER_DOWN] = {[MU_PEER_COMES] = MU_ACT_UP,
                      [MU_PEER_FRAME] = MU_ACT_REFUSE,
                      [MU_PEER_BREAKS] = MU_ACT_NONE,
                      [MU_PEER_GIVEN_UP] = MU_ACT_LOST},
    [MU_PEER_LOST] = {[MU_PEER_COMES] = MU_ACT_REFUSE,
                      [MU_PEER_FRAME] = MU_ACT_REFUSE,
                      [MU_PEER_BREAKS] = MU_ACT_NONE,
                      [MU_PEER_GIVEN_UP] = MU_ACT_NONE},
};
const char *const mu_peer_state_names[MU_PEER_STATES] = {
    [MU_PEER_ABSENT] = "absent", [MU_PEER_UP] = "up", [MU_PEER_DOWN] = "down", [MU_PEER_LOST] = "lost"};

const char *mu_core_host_name(const struct mu_core *core, uint32_t host, char name[80])
{
    char own[64];

    mu_host_name(core->seg, host, own, sizeof own);
    snprintf(name, 80, "%s%s", strncmp(own, "host ", 5) ? "host " : "", own);
    return name;
}

static const enum mu_bridge_state said[MU_PEER_STATES] = {[MU_PEER_ABSENT] = MU_BRIDGE_DOWN,
                                                          [MU_PEER_UP] = MU_BRIDGE_UP,
                                                          [MU_PEER_DOWN] = MU_BRIDGE_DOWN,
                                                          [MU_PEER_LOST] = MU_BRIDGE_LOST};

/* To the tasks of this host: what became of the connection, and that this agent lives. */
static enum muster_status core_state_say(struct mu_core *core, enum mu_bridge_state state)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(core->m, &ctx);

    if (status)
        return status;
    mu_host_bridge_say(ctx, state);
    mu_exit(ctx);
    return MUSTER_OK;
}

/* A host that an earlier agent gave up, in this segment's table of hosts, stays so. */
static void losses_remember(struct mu_core *core)
{
    for (uint32_t i = 0; i < (core->leader ? core->num_hosts : 1); i++) {
        uint64_t state = mu_load_relaxed(&core->seg->hosts[i].state); /* relaxed: agents write it, one at a time */

        core->peers[i].since = core->peers[i].heard = core->now;
        core->peers[i].may_go = SIZE_MAX;
        if (i != core->host && (state == MU_HOST_LOST || state == MU_HOST_LEFT))
            core->peers[i].state = MU_PEER_LOST;
    }
}

enum muster_status mu_core_init(struct mu_core *core, const struct mu_core_tables *tables, struct muster *m,
                                const struct mu_core_wire *wire, uint64_t now)
{
    enum muster_status status;

    core->tables = tables;
    core->m = m;
    core->seg = m->seg;
    core->num_hosts = m->seg->num_hosts;
    core->host = m->seg->host;
    core->leader = !core->host;
    core->wire = *wire;
    core->now = now;
    core->peers = calloc(core->leader ? core->num_hosts : 1, sizeof *core->peers);
    if (!core->peers)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %u hosts", core->num_hosts);
    losses_remember(core);
    for (uint32_t i = 0; i < MU_CORE_MODULES; i++)
        if (core->tables->modules[i] && core->tables->modules[i]->init &&
            !core->tables->modules[i]->init(core, &core->state[i])) {
            mu_core_done(core);
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the bridge's %s", core->tables->modules[i]->name);
        }
    status = core_state_say(core, core->leader ? MU_BRIDGE_UP : said[core->peers[0].state]);
    if (status)
        mu_core_done(core);
    return status;
}

void mu_core_done(struct mu_core *core)
{
    for (uint32_t i = MU_CORE_MODULES; i-- > 0;)
        if (core->tables->modules[i] && core->tables->modules[i]->done && core->state[i]) {
            core->tables->modules[i]->done(core);
            core->state[i] = NULL;
        }
    for (uint32_t i = 0; core->peers && i < (core->leader ? core->num_hosts : 1); i++)
        mu_core_forget_said(&core->peers[i]);
    free(core->peers);
    core->peers = NULL;
}

/* ---- peers come and go ---- */

static void peer_become(struct mu_core *core, uint32_t host, enum mu_peer_state state, const char *why)
{
    struct mu_peer *p = &core->peers[host];

    /* nothing that was meant for the old connection may reach the next */
    mu_core_forget_said(p);
    p->may_go = SIZE_MAX;
    p->wanted = false;
    p->state = state;
    p->since = core->now;
    if (state == MU_PEER_UP) {
        p->heard = core->now;
        p->told = p->taken = 0;
    }
    for (uint32_t i = 0; i < MU_CORE_MODULES; i++) {
        const struct mu_module *module = core->tables->modules[i];

        if (!module)
            continue;
        if (state == MU_PEER_UP && module->up)
            module->up(core, host);
        else if (state == MU_PEER_DOWN && module->down)
            module->down(core, host);
        else if (state == MU_PEER_LOST && module->lost)
            module->lost(core, host, why);
    }
    core->is_calm = false;
    if (!core->leader)
        core_state_say(core, said[state]); /* where it fails the tasks go on believing what was said before */
    mu_core_listener_changed(core);
    if (core->host_changed)
        core->host_changed(core->arg, host, state, why);
    core->worked = true;
}

static void peer_drop(struct mu_core *core, uint32_t host, const char *why)
{
    core->wire.drop(core->wire.arg, host, why);
    mu_core_down(core, host, why, core->now);
}

static void peer_happen(struct mu_core *core, uint32_t host, enum mu_peer_event event, const char *why, uint64_t now)
{
    char name[80], text[160];

    if (!mu_core_is_peer(core, host))
        return;
    core->now = now;
    switch (mu_peer_steps[core->peers[host].state][event]) {
    case MU_ACT_UP: peer_become(core, host, MU_PEER_UP, NULL); break;
    case MU_ACT_AGAIN:
        peer_become(core, host, MU_PEER_DOWN, "it came again");
        peer_become(core, host, MU_PEER_UP, NULL);
        break;
    case MU_ACT_DOWN: peer_become(core, host, MU_PEER_DOWN, why); break;
    case MU_ACT_LOST: peer_become(core, host, MU_PEER_LOST, why); break;
    case MU_ACT_REFUSE:
        snprintf(text, sizeof text, "%s is %s", mu_core_host_name(core, host, name),
                 mu_peer_state_names[core->peers[host].state]);
        core->wire.drop(core->wire.arg, host, text);
        break;
    default: break;
    }
}

void mu_core_up(struct mu_core *core, uint32_t host, uint64_t now)
{
    peer_happen(core, host, MU_PEER_COMES, NULL, now);
}

void mu_core_down(struct mu_core *core, uint32_t host, const char *why, uint64_t now)
{
    peer_happen(core, host, MU_PEER_BREAKS, why, now);
}

void mu_core_lost(struct mu_core *core, uint32_t host, const char *why, uint64_t now)
{
    peer_happen(core, host, MU_PEER_GIVEN_UP, why, now);
}

void mu_core_heard(struct mu_core *core, uint32_t host, uint64_t when)
{
    struct mu_peer *p = mu_core_is_peer(core, host) ? &core->peers[host] : NULL;

    if (!p || p->state != MU_PEER_UP)
        return;
    p->timed = true;
    p->heard = when > p->heard ? when : p->heard;
}

/* ---- frames in ---- */

static const struct mu_frame_kind *frame_kind_of(const struct mu_core_tables *tables, uint8_t type)
{
    for (size_t i = 0; i < tables->num_frames; i++)
        if (tables->frames[i].type == type)
            return &tables->frames[i];
    return NULL;
}

/* Why it is not even looked into; NULL: it may be. */
static const char *frame_unfit(const struct mu_core *core, const struct mu_frame_kind *kind, size_t len)
{
    if (!kind)
        return "of an unknown kind";
    if (!(kind->from & (core->leader ? MU_FROM_FOLLOWER : MU_FROM_LEADER)))
        return core->leader ? "that only a leader sends" : "that only a follower sends";
    if (len < kind->min_len)
        return "that is too short";
    return len > kind->max_len ? "that is too long" : NULL;
}

void mu_core_frame(struct mu_core *core, uint32_t host, uint8_t type, const void *payload, size_t len, uint64_t now)
{
    const struct mu_frame_kind *kind = frame_kind_of(core->tables, type);
    const char *why = frame_unfit(core, kind, len);
    struct mu_unpack u = mu_unpack_of(payload, len);
    char name[80], text[640];

    if (!mu_core_is_peer(core, host))
        return;
    if (mu_peer_steps[core->peers[host].state][MU_PEER_FRAME] != MU_ACT_TAKE) {
        peer_happen(core, host, MU_PEER_FRAME, NULL, now);
        return;
    }
    core->now = now;
    core->is_calm = false;
    core->peers[host].heard = now;
    if (!why && kind->take(core, host, &u)) {
        core->peers[host].taken++;
        for (uint32_t i = 0; i < MU_CORE_MODULES; i++)
            if (core->tables->modules[i] && core->tables->modules[i]->took)
                core->tables->modules[i]->took(core, host);
        return;
    }
    mu_core_host_name(core, host, name); /* not of every frame: it takes as long as half of them */
    if (why)
        snprintf(text, sizeof text, "%s sent a frame (type %u, %zu bytes) %s", name, type, len, why);
    else
        snprintf(text, sizeof text, "%s sent a %s frame (%zu bytes) that is not well formed: %s", name, kind->name, len,
                 muster_last_error());
    peer_drop(core, host, text);
}

/* ---- turns ---- */

static bool is_spoken_to(const struct mu_core *core, uint32_t host)
{
    return core->peers[host].wanted && core->peers[host].state == MU_PEER_UP;
}

static void cluster_decide(struct mu_core *core, uint32_t host, uint32_t hosts)
{
    for (; host < hosts; host++)
        for (uint32_t i = 0; i < MU_CORE_MODULES && is_spoken_to(core, host); i++)
            if (core->tables->modules[i] && core->tables->modules[i]->front)
                core->tables->modules[i]->front(core, host);
}

/* False: the host is gone. */
static bool host_speak(struct mu_core *core, uint32_t host)
{
    struct mu_peer *p = &core->peers[host];
    size_t tail;

    for (uint32_t i = 0; i < MU_CORE_MODULES; i++)
        if (core->tables->modules[i] && core->tables->modules[i]->ahead)
            core->tables->modules[i]->ahead(core, host);
    for (uint32_t i = 0; i < MU_CORE_MODULES; i++)
        if (core->tables->modules[i] && core->tables->modules[i]->says)
            core->tables->modules[i]->says(core, host);
    p->wanted = false;
    tail = p->tail.len;
    if (p->ahead.failed || p->front.failed || p->tail.failed)
        peer_drop(core, host, "there is no memory for what it must be told");
    else if (p->may_go != SIZE_MAX && tail + p->slices > HELD_MOST)
        peer_drop(core, host, "it does not say that it has taken its events, and asks on");
    else if (!mu_core_flush(core, host, &p->ahead, SIZE_MAX) || !mu_core_flush(core, host, &p->front, SIZE_MAX) ||
             !mu_core_flush(core, host, &p->tail, p->may_go))
        mu_core_down(core, host, "the connection broke while sending", core->now);
    else if (p->may_go != SIZE_MAX)
        p->may_go -= tail - p->tail.len;
    return core->peers[host].state == MU_PEER_UP;
}

bool mu_core_turn(struct mu_core *core, uint64_t now)
{
    uint32_t hosts = core->leader ? core->num_hosts : 1;

    core->now = now;
    core->worked = false;
    for (uint32_t i = 0; i < MU_CORE_MODULES; i++)
        if (core->tables->modules[i] && core->tables->modules[i]->look)
            core->tables->modules[i]->look(core);
    /* all is decided for all hosts before the first `ahead`: one collection serves them all */
    cluster_decide(core, 0, hosts);
    for (uint32_t h = 0; h < hosts; h++)
        if (is_spoken_to(core, h) && !host_speak(core, h))
            cluster_decide(core, h + 1,
                           hosts); /* of the one that went others may hear, and before that what came before it */
    for (uint32_t i = 0; i < MU_CORE_MODULES; i++)
        if (core->tables->modules[i] && core->tables->modules[i]->rest)
            core->tables->modules[i]->rest(core);
    core->is_calm = false;
    return core->worked;
}

uint64_t mu_core_next(struct mu_core *core)
{
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < MU_CORE_MODULES; i++)
        if (core->tables->modules[i] && core->tables->modules[i]->next) {
            uint64_t at = core->tables->modules[i]->next(core);

            next = at < next ? at : next;
        }
    return next;
}

bool mu_core_busy(struct mu_core *core)
{
    for (uint32_t i = 0; i < MU_CORE_MODULES; i++)
        if (core->tables->modules[i] && core->tables->modules[i]->busy && core->tables->modules[i]->busy(core))
            return true;
    return false;
}
