/*
 * tests/bridgesim/hosts.c: hosts: their segments, agents, and the links between them.
 *
 * A link breaks for both ends at once but each learns of it in its own time, after some of what was on its way. The
 * leader closes an old connection before it takes a new one of the same host, as the real link does.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/file.h"
#include "sim.h"
#include "task/task.h"

enum { WAY_MAX = 4000 };

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

uint64_t sim_clock(uint32_t host)
{
    const struct sim_host *h = &sim.hosts[host];

    sim.at = host;
    return h->ahead + sim.now / 1000 * h->speed + sim.now % 1000 * h->speed / 1000;
}

uint64_t sim_instant(uint32_t host, uint64_t at)
{
    const struct sim_host *h = &sim.hosts[host];
    uint64_t left = at > h->ahead ? at - h->ahead : 0;

    if (at >= UINT64_MAX / 4)
        return at;
    return left / h->speed * 1000 + (left % h->speed + 1) * 1000 / h->speed + 1;
}

static void draw_clock(struct sim_host *h)
{
    h->speed = 1000;
    if (!sim_clocks)
        return;
    h->ahead = sim_random(20) * 3600000000000u;
    h->speed = 900 + (uint32_t)sim_random(201);
}

/* ---- ways -------------------------------------------------------------------------------------------------------- */

void sim_way_add(struct sim_way *w, struct sim_frame *f)
{
    f->next = NULL;
    *w->last = f;
    w->last = &f->next;
    w->count++;
}

struct sim_frame *sim_way_take(struct sim_way *w)
{
    struct sim_frame *f = w->first;

    if (f) {
        w->first = f->next;
        w->count--;
        if (!w->first)
            w->last = &w->first;
    }
    return f;
}

void sim_way_clear(struct sim_way *w, uint32_t keep)
{
    struct sim_way kept = {.last = &kept.first};

    while (w->first && keep--)
        sim_way_add(&kept, sim_way_take(w));
    while (w->first)
        free(sim_way_take(w));
    *w = kept;
    if (!w->first)
        w->last = &w->first;
}

/* All of that type go. */
static void drop_type(struct sim_way *w, uint8_t type)
{
    struct sim_way kept = {.last = &kept.first};

    while (w->first) {
        struct sim_frame *f = sim_way_take(w);

        if (f->type == type)
            free(f);
        else
            sim_way_add(&kept, f);
    }
    *w = kept;
    if (!w->first)
        w->last = &w->first;
}

/* ---- the wire ---------------------------------------------------------------------------------------------------- */

static bool wire_send(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct sim_host *from = arg;
    bool up = from != &sim.hosts[0];
    struct sim_link *link = up ? &from->link : &sim.hosts[host].link;
    struct sim_way *way = up ? &link->up : &link->down;
    struct sim_frame *f;

    if ((up ? link->follower : link->leader) == SIM_END_DOWN)
        return false;
    SIM_CHECK(way->count < WAY_MAX, "%u frames are on their way from one host", way->count);
    if (from->dies_after == 0 || link->broken)
        return true; /* it was handed over, and goes nowhere */
    if (from->dies_after > 0)
        from->dies_after--;
    if (sim_mutation == SIM_LOSE_FRAMES && sim_chance(100))
        return true;
    sim_totals.frames++;
    sim_totals.bytes += len + 16;
    if (!up && sim.hosts[host].relay) {
        sim_relay_send(host, type, payload, len);
        return true;
    }
    f = malloc(sizeof *f + len);
    if (!f)
        abort();
    f->type = type;
    f->len = len;
    if (len)
        memcpy(f->payload, payload, len);
    if (!up || !from->relay) {
        sim_totals.crossed++;
        sim_totals.crossed_bytes += len + 16;
    }
    if (sim_mutation == SIM_LATE_COPIES && type == MU_FRAME_COPIES && !link->held) {
        link->held = f;
        return true;
    }
    sim_way_add(way, f);
    if (link->held && !up && type != MU_FRAME_COPIES) {
        sim_way_add(way, link->held);
        link->held = NULL;
    }
    return true;
}

static void wire_drop(void *arg, uint32_t host, const char *why)
{
    struct sim_host *from = arg;

    sim_fail("host %u drops host %u: %s", (unsigned)(from - sim.hosts), host, why);
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

static void drop_held(struct sim_link *link)
{
    free(link->held);
    link->held = NULL;
}

void sim_link_break(uint32_t host)
{
    struct sim_link *link = &sim.hosts[host].link;

    if (link->broken)
        return;
    sim_say("the link of host %u breaks: %u frames up, %u down", host, link->up.count, link->down.count);
    sim_totals.breaks++;
    link->broken = true;
    sim_way_clear(&link->up, (uint32_t)sim_random(link->up.count + 1));
    sim_way_clear(&link->down, (uint32_t)sim_random(link->down.count + 1));
    drop_held(link);
    sim_relay_break(host);
    if (link->leader == SIM_END_UP)
        link->leader = SIM_END_TO_BREAK;
    if (link->follower == SIM_END_UP)
        link->follower = SIM_END_TO_BREAK;
}

static void tell_down(struct sim_host *end, uint32_t peer, struct sim_way *in, enum sim_end *state)
{
    sim_way_clear(in, 0);
    *state = SIM_END_DOWN;
    end->awake = true;
    if (end->agent)
        mu_core_down(&end->core, peer, "the connection broke", sim_clock((uint32_t)(end - sim.hosts)));
}

static void connect_link(uint32_t host)
{
    struct sim_host *leader = &sim.hosts[0], *follower = &sim.hosts[host];
    struct sim_link *link = &follower->link;

    if (link->follower == SIM_END_DOWN && link->leader == SIM_END_TO_BREAK)
        tell_down(leader, host, &link->up, &link->leader);
    sim_say("host %u connects", host);
    sim_totals.reconnects++;
    link->broken = false;
    if (sim_mutation != SIM_STRAYS) {
        sim_way_clear(&link->up, 0);
        sim_way_clear(&link->down, 0);
    } else { /* but for CONTROL: the first of a connection says which agent is there, and is taken at its word */
        drop_type(&link->up, MU_FRAME_CONTROL);
        drop_type(&link->down, MU_FRAME_CONTROL);
        sim_totals.strays += link->up.count;
    }
    sim_relay_connect(host);
    link->leader = link->follower = SIM_END_UP;
    leader->awake = follower->awake = true;
    mu_core_up(&leader->core, host, sim_clock(0));
    mu_core_up(&follower->core, 0, sim_clock(host));
}

bool sim_link_step(uint32_t host)
{
    struct sim_host *leader = &sim.hosts[0], *follower = &sim.hosts[host];
    struct sim_link *link = &follower->link;

    if (link->leader == SIM_END_TO_BREAK && sim_chance(2)) {
        if (sim_mutation == SIM_STRAYS) {
            link->leader = SIM_END_DOWN;
            if (leader->agent)
                mu_core_down(&leader->core, host, "the connection broke", sim_clock(0));
        } else {
            tell_down(leader, host, &link->up, &link->leader);
        }
        return true;
    }
    if (link->follower == SIM_END_TO_BREAK) {
        if (sim_mutation == SIM_SILENT_BREAK && link->leader == SIM_END_DOWN && leader->agent && follower->agent) {
            link->broken = false;
            link->leader = link->follower = SIM_END_UP;
            sim_way_clear(&link->down, 0);
            mu_core_up(&leader->core, host, sim_clock(0));
        } else {
            tell_down(follower, 0, &link->down, &link->follower);
        }
        return true;
    }
    if (link->follower == SIM_END_DOWN && leader->agent && follower->agent) {
        connect_link(host);
        return true;
    }
    return false;
}

bool sim_deliver(uint32_t host, bool up)
{
    struct sim_host *to = up ? &sim.hosts[0] : &sim.hosts[host];
    struct sim_link *link = &sim.hosts[host].link;
    struct sim_frame *f;

    if (!to->agent || (up ? link->leader : link->follower) == SIM_END_DOWN)
        return false;
    if (up && sim.hosts[host].relay && !sim.hosts[sim.hosts[host].relay].agent)
        return false;
    f = sim_way_take(up ? &link->up : &link->down);
    if (!f)
        return false;
    if (up && sim.hosts[host].relay) {
        sim_relay_take(host, f);
        free(f);
        return true;
    }
    sim_say("%s host %u: frame %u of %zu bytes", up ? "from" : "to", host, f->type, f->len);
    mu_core_frame(&to->core, up ? host : 0, f->type, f->payload, f->len, sim_clock(up ? 0 : host));
    free(f);
    to->awake = true;
    return true;
}

/* ---- agents ------------------------------------------------------------------------------------------------------ */

void sim_agent_start(uint32_t host)
{
    struct sim_host *h = &sim.hosts[host];
    struct mu_core_wire wire = {.arg = h, .send = wire_send, .drop = wire_drop};

    sim.at = host;
    if (mu_task_join_open(h->seg, &h->agent) != MUSTER_OK)
        sim_fail("the agent of host %u cannot join: %s", host, muster_last_error());
    memset(&h->core, 0, sizeof h->core);
    h->core.timeout = UINT64_MAX / 4;
    h->dies_after = -1;
    h->awake = true;
    if (mu_core_init(&h->core, &mu_bridge_tables, h->agent, &wire, sim_clock(host)) != MUSTER_OK)
        sim_fail("the agent of host %u cannot start: %s", host, muster_last_error());
    sim_lanes_begin(host);
    sim_say("the agent of host %u starts", host);
}

static bool forget_all(void *arg, uint64_t id, uint64_t number)
{
    (void)arg;
    (void)id;
    (void)number;
    return true;
}

/* The mutation: what calls have left in the leader's pages. */
static void forget_records(struct sim_host *h)
{
    struct mu_table t = mu_table_kv(h->seg);
    struct mu_ctx *ctx;

    if (mu_enter(h->agent, &ctx) != MUSTER_OK)
        return;
    for (uint32_t b = 0; b < h->seg->num_buckets; b++) {
        struct mu_key k = {.hash = (uint64_t)b << 20};

        mu_table_forget(&t, ctx, &k, forget_all, NULL);
    }
    mu_exit(ctx);
}

void sim_agent_kill(uint32_t host)
{
    struct sim_host *h = &sim.hosts[host];

    sim_say("the agent of host %u is killed", host);
    sim_totals.agent_kills++;
    sim.at = host;
    if (host == 0 && sim_mutation == SIM_FORGET_DONE)
        forget_records(h);
    sim_slot_kill(h->agent);
    mu_core_done(&h->core);
    sim_lanes_end(host);
    h->agent = NULL;
    for (uint32_t i = 1; i < sim.num_hosts; i++) {
        struct sim_link *link = &sim.hosts[i].link;

        if (host != 0 && i != host)
            continue;
        sim_link_break(i);
        if (host == 0 && sim_mutation == SIM_STRAYS)
            link->leader = SIM_END_DOWN;
        else if (host == 0)
            sim_way_clear(&link->up, 0), link->leader = SIM_END_DOWN;
        else
            sim_way_clear(&link->down, 0), link->follower = SIM_END_DOWN;
        sim_relay_forget(i);
    }
}

/* As the launcher does, whom the kernel tells of a task's end. */
static void bury(struct sim_host *h)
{
    struct mu_ctx *ctx;

    if (mu_enter(h->agent, &ctx) != MUSTER_OK)
        return;
    h->buries = mu_task_scavenge(ctx);
    mu_exit(ctx);
}

bool sim_turn(uint32_t host)
{
    struct sim_host *h = &sim.hosts[host];
    bool worked;

    if (!h->agent)
        return false;
    sim_totals.turns++;
    sim.at = host;
    if (h->buries)
        bury(h);
    worked = mu_core_turn(&h->core, sim_clock(host));
    if (host == 0 && (h->dies_after != 0 || sim_chance(2)))
        sim_relay_flush();
    h->awake = worked;
    if (h->dies_after == 0)
        sim_agent_kill(host);
    return worked;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

void sim_hosts_make(const struct muster_segment_config *wanted)
{
    uint32_t *tasks = calloc(sim.num_hosts, sizeof *tasks);
    struct muster_segment_config config = *wanted;

    if (!tasks)
        abort();
    config.num_tasks = sim.num_tasks;
    for (uint32_t i = 0; i < sim.num_tasks; i++)
        tasks[sim.tasks[i].host]++;
    for (uint32_t i = 0; i < sim.num_hosts; i++) {
        struct sim_host *h = &sim.hosts[i];
        struct mu_hosts_config hosts = {.num_hosts = sim.num_hosts, .host = i, .num_tasks = tasks, .run_id = {7, 7}};

        draw_clock(h);
        sim.at = i;
        snprintf(h->name, sizeof h->name, i ? "bridgesim-%d.h%u" : "bridgesim-%d", (int)getpid(), i);
        if (mu_segment_create_hosts(h->name, &config, &hosts, true, &h->seg) != MUSTER_OK)
            sim_fail("host %u has no segment: %s", i, muster_last_error());
        h->link = (struct sim_link){.broken = true};
        h->link.up.last = &h->link.up.first;
        h->link.down.last = &h->link.down.first;
        h->trunk_up.last = &h->trunk_up.first;
        h->trunk_down.last = &h->trunk_down.first;
        sim_agent_start(i);
    }
    free(tasks);
}

void sim_hosts_end(void)
{
    for (uint32_t i = 0; i < sim.num_hosts; i++) {
        struct sim_host *h = &sim.hosts[i];

        sim_way_clear(&h->link.up, 0);
        sim_way_clear(&h->link.down, 0);
        drop_held(&h->link);
        sim_relay_forget(i);
        if (h->agent) {
            mu_core_done(&h->core);
            sim_lanes_end(i);
            muster_leave(h->agent);
        }
        mu_segment_unlink(h->seg);
        muster_segment_close(h->seg);
    }
}
