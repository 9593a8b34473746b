/*
 * bridge/link/via.c: the leader's connections to hosts behind relays.
 *
 * Such a host is a peer without a socket: what it says comes in VIA messages on the relay's connection. It has no
 * heartbeats of its own: the relay says when it is gone, and with the relay's connection all behind it break. A channel
 * is the relay's number of one connection, so nothing of an older one of the same host is taken for the newer's.
 */
#include <stdlib.h>
#include <string.h>

#include "bridge/link/private.h"

bool mu_branch_begin(struct mu_link_peer *relay)
{
    relay->branch = calloc(1, sizeof *relay->branch);
    if (!relay->branch)
        return false;
    relay->reader.most = MU_LINK_VIA_MOST;
    return true;
}

static void muxed_forget(struct mu_link_peer *p)
{
    struct mu_link_branch *b = p->relay->branch;
    struct mu_link_peer **at = &b->first;

    while (*at && *at != p)
        at = &(*at)->next_behind;
    if (!*at)
        return;
    *at = p->next_behind;
    b->count--;
}

/* The relay is gone, or is being sent away. */
void mu_branch_end(struct mu_link_peer *relay, const char *why)
{
    char words[160];

    mu_peer_words(relay, words, sizeof words);
    while (relay->branch->first) {
        struct mu_link_peer *p = relay->branch->first;

        p->is_told = true;
        mu_peer_close(p, MU_LINK_QUIET, "%s, which relays it, is gone: %s", words, why);
    }
}

/* One of those behind has ended here; unless the relay said so, it ends its connection, too. */
void mu_branch_leave(struct mu_link_peer *p)
{
    muxed_forget(p);
    if (p->is_told)
        return;
    p->is_told = true;
    mu_branch_send(p, MU_FRAME_DROP, NULL, 0, p->why, strlen(p->why));
}

static struct mu_link_peer *muxed_find(const struct mu_link_peer *relay, uint32_t channel)
{
    struct mu_link_peer *p = relay->branch->first;

    while (p && p->route.channel != channel)
        p = p->next_behind;
    return p;
}

/* Somebody has come to the relay. The address from where, then its JOIN. */
static void muxed_come(struct mu_link_peer *relay, uint32_t channel, const struct mu_mux_message *m)
{
    struct mu_link *link = relay->link;
    struct mu_unpack u = mu_unpack_of(m->payload, m->len);
    struct mu_link_peer *p = calloc(1, sizeof *p);

    if (!p) {
        mu_link_say(link, "a host behind a relay must wait: there is no memory");
        return;
    }
    p->link = link;
    p->fd = -1;
    p->state = MU_LINK_WAITING;
    p->connection = ++link->next_connection;
    p->host = MU_LINK_NOBODY;
    p->opened = p->heard = p->pinged = link->now;
    p->stats = &link->others;
    p->relay = relay;
    p->route.channel = channel;
    p->next_behind = relay->branch->first;
    relay->branch->first = p;
    relay->branch->count++;
    mu_unpack_text(&u, p->from, sizeof p->from);
    for (char *c = p->from; *c; c++)
        *c = (unsigned char)*c < ' ' || *c == 127 ? '?' : *c;
    mu_peer_list(p);
    mu_peer_join(p, u.at, u.failed ? 0 : u.left);
}

static void be_gone(struct mu_link_peer *p, const struct mu_mux_message *m)
{
    struct mu_unpack u = mu_unpack_of(m->payload, m->len);
    uint64_t silent = mu_unpack_u64(&u);
    char why[200] = "";

    mu_unpack_text(&u, why, sizeof why);
    for (char *c = why; *c; c++)
        *c = (unsigned char)*c < ' ' || *c == 127 ? '?' : *c;
    p->heard = silent < p->link->now ? p->link->now - silent : 0;
    p->is_told = true;
    mu_peer_close(p, MU_LINK_QUIET, "%s", u.failed ? "its connection broke" : why);
}

static void muxed_hear(struct mu_link_peer *p, const struct mu_mux_message *m)
{
    const struct mu_link_events *events = &p->link->options.events;

    p->heard = p->link->now;
    p->stats->frames_in++;
    p->stats->bytes_in += m->len;
    if (!p->link->is_ending)
        events->frame(events->arg, p->host, m->type, m->payload, m->len);
}

/* Of a channel that has ended here, something may still be on its way. */
void mu_branch_take(struct mu_link_peer *relay, const struct mu_message *message)
{
    struct mu_mux_message m;
    struct mu_link_peer *p;
    uint32_t channel;

    if (!mu_mux_read(message->bytes, message->len, &m) || m.count != 1) {
        mu_peer_take_wrong(relay, message, " that is not well formed");
        return;
    }
    channel = mu_mux_channel(&m, 0);
    p = muxed_find(relay, channel);
    if (m.type == MU_FRAME_JOIN && !p)
        muxed_come(relay, channel, &m);
    else if (m.type == MU_FRAME_DROP && p)
        be_gone(p, &m);
    else if (m.type == MU_FRAME_LEAVE && p) {
        p->is_told = true;
        mu_peer_close(p, p->state == MU_LINK_UP ? MU_LINK_LEFT : MU_LINK_QUIET, "it has left");
    } else if (m.type >= MU_FRAME_OWNER && p && p->state == MU_LINK_UP)
        muxed_hear(p, &m);
    else if (p || m.type < MU_FRAME_LEAVE)
        mu_peer_take_wrong(relay, message, " of which nothing can be meant");
}

/* Round trips from the relay on, and when it heard of which host. */
void mu_branch_trips(struct mu_link_peer *relay, const struct mu_message *message)
{
    struct mu_unpack u = mu_unpack_of(message->bytes, message->len);

    while (u.left && !u.failed) {
        uint32_t channel = mu_unpack_u32(&u);
        uint64_t rtt = mu_unpack_u64(&u), least = mu_unpack_u64(&u), age = mu_unpack_u64(&u);
        struct mu_link_peer *p = u.failed ? NULL : muxed_find(relay, channel);

        if (!p || p->state != MU_LINK_UP)
            continue;
        if (age < relay->link->now && relay->link->now - age > p->heard)
            p->heard = relay->link->now - age;
        if (!rtt || !relay->stats->rtt_ns)
            continue;
        p->stats->rtt_ns = relay->stats->rtt_ns + rtt;
        p->stats->rtt_min_ns = relay->stats->rtt_min_ns + least;
    }
    if (u.failed)
        mu_peer_take_wrong(relay, message, " that is not well formed");
}
