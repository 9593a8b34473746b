/*
 * tests/bridgesim/relays.c: hosts that come to the leader by another one, whose agent passes on what both say.
 *
 * The messages between leader and relay are those of bridge/link/mux.h, gathered over a turn of the leader as its link
 * does. A host's frames up lie on its own way until the relay takes them, then on the relay's trunk; down the other way
 * round. With the relay's link, or its agent, everything behind it breaks; each end learns of it in its own time.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

bool sim_relays;

static bool is_open(const struct sim_host *h)
{
    return h->agent && !h->link.broken && h->link.leader == SIM_END_UP && h->link.follower == SIM_END_UP && !h->relay;
}

/* In large jobs as the leader's link does; in schedules anybody, or nobody. */
static uint32_t choose(uint32_t host)
{
    uint32_t relays = 1, r;

    if (sim.quiet && sim.num_hosts > SIM_HOSTS) {
        while ((relays + 1) * (relays + 1) <= sim.num_hosts - 1)
            relays++;
        r = 1 + host % relays;
        return host > relays && is_open(&sim.hosts[r]) ? r : 0;
    }
    r = (uint32_t)sim_random(sim.num_hosts);
    return r && r != host && is_open(&sim.hosts[r]) ? r : 0;
}

void sim_relay_connect(uint32_t host)
{
    struct sim_host *h = &sim.hosts[host];

    sim_way_clear(&h->trunk_up, 0);
    sim_way_clear(&h->trunk_down, 0);
    h->relay = sim_relays ? choose(host) : 0;
    h->route = (struct mu_mux_route){.channel = ++sim.channels};
    if (h->relay)
        sim_say("host %u comes by host %u, as %u", host, h->relay, h->route.channel);
}

/* Who is behind it breaks, too; what is on its way may arrive, or not. */
void sim_relay_break(uint32_t host)
{
    struct sim_host *h = &sim.hosts[host];

    if (!sim_relays)
        return;
    for (uint32_t i = 1; i < sim.num_hosts; i++)
        if (sim.hosts[i].relay == host)
            sim_link_break(i);
    sim_way_clear(&h->trunk_up, (uint32_t)sim_random(h->trunk_up.count + 1));
    sim_way_clear(&h->trunk_down, (uint32_t)sim_random(h->trunk_down.count + 1));
}

void sim_relay_forget(uint32_t host)
{
    struct sim_host *h = &sim.hosts[host];

    sim_way_clear(&h->trunk_up, 0);
    sim_way_clear(&h->trunk_down, 0);
    mu_mux_done(&h->batch);
    memset(&h->batch, 0, sizeof h->batch);
}

/* ---- the leader's end -------------------------------------------------------------------------------------------- */

void sim_relay_send(uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct sim_host *h = &sim.hosts[host];

    if (!mu_mux_add(&sim.hosts[h->relay].batch, &h->route, type, NULL, 0, payload, len))
        abort();
}

static void cross(struct sim_way *way, const void *head, size_t head_len, const void *payload, size_t len)
{
    struct sim_frame *f = malloc(sizeof *f + head_len + len);

    if (!f)
        abort();
    f->type = MU_FRAME_VIA;
    f->len = head_len + len;
    memcpy(f->payload, head, head_len);
    if (len)
        memcpy(f->payload + head_len, payload, len);
    sim_totals.crossed++;
    sim_totals.crossed_bytes += f->len + MU_FRAME_HEADER;
    sim_way_add(way, f);
}

static bool send_item(void *arg, const void *head, size_t head_len, const void *payload, size_t len)
{
    struct sim_host *relay = arg;

    if (!relay->link.broken)
        cross(&relay->trunk_down, head, head_len, payload, len);
    return true;
}

void sim_relay_flush(void)
{
    for (uint32_t r = 1; r < sim.num_hosts; r++)
        mu_mux_send(&sim.hosts[r].batch, send_item, &sim.hosts[r]);
}

/* ---- the relay's end --------------------------------------------------------------------------------------------- */

/* A frame that a host has sent, at its relay: up. */
void sim_relay_take(uint32_t host, const struct sim_frame *f)
{
    struct sim_host *h = &sim.hosts[host], *relay = &sim.hosts[h->relay];
    struct mu_pack head = {0};

    mu_pack_u8(&head, f->type);
    mu_pack_u16(&head, 1);
    mu_pack_u32(&head, h->route.channel);
    if (!relay->link.broken)
        cross(&relay->trunk_up, head.bytes, head.len, f->payload, f->len);
    mu_pack_done(&head);
}

static struct sim_host *behind(uint32_t relay, uint32_t channel)
{
    for (uint32_t i = 1; i < sim.num_hosts; i++)
        if (sim.hosts[i].relay == relay && sim.hosts[i].route.channel == channel)
            return &sim.hosts[i];
    return NULL;
}

static void pass_down(struct sim_host *h, const struct mu_mux_message *m)
{
    struct sim_frame *f;

    if (!h || h->link.broken || h->link.follower != SIM_END_UP)
        return;
    f = malloc(sizeof *f + m->len);
    if (!f)
        abort();
    f->type = m->type;
    f->len = m->len;
    memcpy(f->payload, m->payload, m->len);
    sim_way_add(&h->link.down, f);
}

static void pass_up(struct sim_host *h, const struct mu_mux_message *m)
{
    if (!h || h->link.leader == SIM_END_DOWN)
        return;
    sim_say("from host %u, by a relay: frame %u of %zu bytes", (unsigned)(h - sim.hosts), m->type, m->len);
    mu_core_frame(&sim.hosts[0].core, (uint32_t)(h - sim.hosts), m->type, m->payload, m->len, sim_clock(0));
    sim.hosts[0].awake = true;
}

bool sim_relay_deliver(uint32_t relay, bool up)
{
    struct sim_host *r = &sim.hosts[relay];
    struct mu_mux_message m;
    struct sim_frame *f;

    if (!(up ? sim.hosts[0].agent : r->agent))
        return false;
    f = sim_way_take(up ? &r->trunk_up : &r->trunk_down);
    if (!f)
        return false;
    SIM_CHECK(mu_mux_read(f->payload, f->len, &m), "a message by host %u cannot be read", relay);
    for (uint32_t i = 0; i < m.count; i++) {
        struct sim_host *h = behind(relay, mu_mux_channel(&m, i));

        if (up)
            pass_up(h, &m);
        else
            pass_down(h, &m);
    }
    free(f);
    return true;
}
