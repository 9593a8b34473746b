/*
 * bridge/link/relay.c: a follower's link that is also a relay: a second link, which listens, and which this file owns.
 *
 * A host that comes to it must know the job's key, as with the leader, which alone decides about each: a JOIN goes up
 * with the number of its connection, the channel, and what the leader says to a channel goes down. Frames of the owners
 * are passed on as they are. A host speaks on its own connection only, so for itself. Down, each host has a queue with
 * a bound, and one that does not read loses its connection; up, a host that says much while much waits is not read for
 * a while. When the leader's connection breaks, all of them are sent away, and come to the leader by themselves.
 */
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "bridge/link/private.h"

enum { HIGH = 8 << 20, LOW = 1 << 20 }; /* bytes that wait to go up: nobody is read; all are read again */

/* NULL: there is no connection to it, or on that one we were not asked to relay. */
static struct mu_link_peer *leader_of(const struct mu_link_relay *r)
{
    struct mu_link_peer *p = r->up->hosts[0].peer;

    return p && p->is_asked ? p : NULL;
}

/* ---- up ---- */

static bool send_up(struct mu_link_relay *r, uint32_t channel, uint8_t type, const void *payload, size_t len)
{
    uint8_t head[MU_MUX_HEAD + 4] = {type, 1, 0};

    for (int i = 0; i < 4; i++)
        head[MU_MUX_HEAD + i] = (uint8_t)(channel >> (8 * i));
    return leader_of(r) && mu_peer_send_parts(leader_of(r), MU_FRAME_VIA, head, sizeof head, payload, len);
}

static struct mu_link_peer *channel_find(const struct mu_link_relay *r, uint32_t channel)
{
    struct mu_link_peer *p = r->down->peers;

    while (p && p->connection != channel)
        p = p->next;
    return p;
}

static enum mu_join_verdict on_below_join(void *arg, uint32_t connection, const struct mu_join *join,
                                          uint32_t *ret_host, struct mu_pack *welcome, char *refusal, size_t size)
{
    struct mu_link_relay *r = arg;
    const struct mu_link_peer *p = channel_find(r, connection);
    struct mu_pack what = {0};
    bool ok;

    (void)ret_host;
    (void)welcome;
    mu_pack_text(&what, p ? p->from : "");
    mu_join_pack(join, &what);
    ok = !what.failed && send_up(r, connection, MU_FRAME_JOIN, what.bytes, what.len);
    mu_pack_done(&what);
    if (ok)
        return MU_JOIN_LATER;
    snprintf(refusal, size, "this host does not relay now");
    return MU_JOIN_REFUSED;
}

static void say_gone(struct mu_link_relay *r, uint32_t channel, uint64_t silent, const char *why)
{
    struct mu_pack what = {0};
    char some[200];

    snprintf(some, sizeof some, "%.199s", why);
    mu_pack_u64(&what, silent);
    mu_pack_text(&what, some);
    if (!what.failed)
        send_up(r, channel, MU_FRAME_DROP, what.bytes, what.len);
    else if (leader_of(r)) /* it would wait for one that is not there */
        mu_peer_dismiss(leader_of(r), "this relay has no memory");
    mu_pack_done(&what);
}

static void on_below_gone(void *arg, uint32_t connection)
{
    say_gone(arg, connection, 0, "it went before it was welcomed");
}

static void on_below_up(void *arg, uint32_t host, const void *welcome, size_t len)
{
    (void)arg;
    (void)host;
    (void)welcome;
    (void)len;
}

static void on_below_down(void *arg, uint32_t host, const char *why)
{
    struct mu_link_relay *r = arg;
    struct mu_link_stats s = {0};

    mu_link_stats(r->down, host, &s);
    say_gone(r, r->channels[host], s.heard_ns < r->down->now ? r->down->now - s.heard_ns : 0, why);
}

static void on_below_left(void *arg, uint32_t host)
{
    struct mu_link_relay *r = arg;

    send_up(r, r->channels[host], MU_FRAME_LEAVE, NULL, 0);
}

static void on_below_refused(void *arg, const char *why)
{
    (void)arg;
    (void)why;
}

static void on_below_frame(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct mu_link_relay *r = arg;
    struct mu_link_peer *p = r->down->hosts[host].peer;

    if (!send_up(r, r->channels[host], type, payload, len) || leader_of(r)->queued < HIGH || !p)
        return;
    mu_peer_pause(p, true);
    r->has_paused = true;
}

static void on_below_said(void *arg, const char *sentence)
{
    struct mu_link_relay *r = arg;

    if (!r->up->is_ending && r->up->options.events.said)
        r->up->options.events.said(r->up->options.events.arg, sentence);
}

/* ---- down ---- */

static void say_leave(struct mu_link_peer *p)
{
    if (p->state != MU_LINK_UP) {
        mu_peer_close(p, MU_LINK_QUIET, "the leader has left");
        return;
    }
    mu_peer_leave(p);
    if (!mu_peer_send(p, MU_FRAME_LEAVE, NULL, 0))
        return;
    p->state = MU_LINK_ENDING;
    p->opened = p->link->now;
    p->link->due = 0;
}

static void joiner_welcome(struct mu_link_relay *r, uint32_t channel, const struct mu_mux_message *m)
{
    struct mu_unpack u = mu_unpack_of(m->payload, m->len);
    uint32_t host = mu_unpack_u32(&u);

    if (u.failed || host >= r->num_hosts)
        return;                                            /* it waits until it loses patience */
    mu_link_welcome(r->down, channel, host, u.at, u.left); /* an older connection of that host ends by its channel */
    r->channels[host] = channel;
}

static void say_text(struct mu_link_peer *p, const struct mu_mux_message *m)
{
    char why[256];

    snprintf(why, sizeof why, "%.*s", (int)(m->len < 255 ? m->len : 255), (const char *)m->payload);
    p->is_kept = false;
    mu_peer_dismiss(p, why);
}

static void pass_down(struct mu_link_relay *r, uint32_t channel, const struct mu_mux_message *m)
{
    struct mu_link_peer *p = channel_find(r, channel);

    if (!p || p->state == MU_LINK_ENDING) /* its end is on its way up */
        return;
    if (m->type >= MU_FRAME_OWNER && p->state == MU_LINK_UP)
        mu_peer_send(p, m->type, m->payload, m->len);
    else if (m->type == MU_FRAME_WELCOME)
        joiner_welcome(r, channel, m);
    else if (m->type == MU_FRAME_REFUSE || m->type == MU_FRAME_DROP)
        say_text(p, m);
    else if (m->type == MU_FRAME_LEAVE)
        say_leave(p);
}

void mu_relay_take(struct mu_link_peer *p, const struct mu_message *message)
{
    struct mu_mux_message m;

    if (!mu_mux_read(message->bytes, message->len, &m)) {
        mu_peer_take_wrong(p, message, " that is not well formed");
        return;
    }
    for (uint32_t i = 0; i < m.count; i++)
        pass_down(p->link->relay, mu_mux_channel(&m, i), &m);
}

/* ---- the beginning and the end ---- */

static void free_relay(struct mu_link_relay *r)
{
    if (r->down) /* a child on its way to exec keeps it open */
        epoll_ctl(r->up->epoll, EPOLL_CTL_DEL, r->down->epoll, NULL);
    mu_link_free(r->down);
    free(r->channels);
    free(r);
}

/* At the address that the connection to the leader has here, at any port. */
static bool listen_below(struct mu_link_relay *r, const struct mu_link_peer *p)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct sockaddr_storage own;
    socklen_t len = sizeof own;
    struct mu_link_options o = r->up->options;
    char address[64];

    if (getsockname(p->fd, (struct sockaddr *)&own, &len) != 0)
        return false;
    mu_link_print((struct sockaddr *)&own, address, sizeof address - 2);
    snprintf(strrchr(address, ':'), 3, ":0");
    o.address = address;
    o.num_hosts = r->num_hosts;
    o.star_hosts = 0;
    o.events = (struct mu_link_events){r,
                                       on_below_join,
                                       on_below_gone,
                                       on_below_up,
                                       on_below_down,
                                       on_below_left,
                                       on_below_refused,
                                       on_below_frame,
                                       on_below_said,
                                       NULL};
    if (mu_link_listen(&o, &r->down))
        return false;
    event.data.ptr = &r->up->relay_tag;
    return epoll_ctl(r->up->epoll, EPOLL_CTL_ADD, r->down->epoll, &event) == 0;
}

static struct mu_link_relay *relay_make(struct mu_link_peer *p, uint32_t hosts)
{
    struct mu_link_relay *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->up = p->link;
    r->num_hosts = hosts;
    r->channels = calloc(hosts, sizeof *r->channels);
    if (r->channels && listen_below(r, p))
        return r;
    free_relay(r);
    return NULL;
}

/* The leader asks for it; after a broken connection, again. The answer is the port; 0: it cannot be. */
void mu_relay_begin(struct mu_link_peer *p, const struct mu_message *message)
{
    struct mu_unpack u = mu_unpack_of(message->bytes, message->len);
    uint32_t hosts = mu_unpack_u32(&u);
    struct mu_pack port = {0};
    struct mu_link *link = p->link;

    if (!mu_unpack_end(&u) || hosts < 3 || hosts > UINT16_MAX) {
        mu_peer_take_wrong(p, message, " that is not well formed");
        return;
    }
    p->is_asked = true;
    if (!link->relay)
        link->relay = relay_make(p, hosts);
    p->reader.most = MU_LINK_VIA_MOST;
    mu_pack_u32(&port, link->relay && link->relay->num_hosts == hosts
                           ? (uint32_t)strtoul(strrchr(mu_link_address(link->relay->down), ':') + 1, NULL, 10)
                           : 0);
    if (!port.failed)
        mu_peer_send(p, MU_FRAME_RELAY, port.bytes, port.len);
    mu_pack_done(&port);
}

/* While there are still some: at the end of a job they go by themselves, and what they say is for the leader. */
void mu_relay_end(struct mu_link *link)
{
    uint64_t began = mu_now(), base = link->now, now = began;

    while (mu_link_hosts_behind(link) && leader_of(link->relay) && now < began + MU_LINK_END_NS) {
        struct pollfd fd = {.fd = link->epoll, .events = POLLIN};

        mu_link_turn(link, base + (now - began));
        poll(&fd, 1, mu_link_next(link) ? 10 : 0);
        now = mu_now();
    }
    mu_relay_cut(link, "the host that relays it has ended");
    mu_relay_settle(link);
    mu_link_flush(link);
    free_relay(link->relay);
    link->relay = NULL;
}

/* ---- turns ---- */

void mu_relay_hears(struct mu_link *link)
{
    link->relay->has_event = true;
}

void mu_relay_turn(struct mu_link *link)
{
    struct mu_link_relay *r = link->relay;

    if (!r->has_event && mu_link_next(r->down) > link->now)
        return;
    r->has_event = false;
    mu_link_turn(r->down, link->now);
}

static void relay_read_again(struct mu_link_relay *r)
{
    if (!r->has_paused || (leader_of(r) && leader_of(r)->queued > LOW))
        return;
    r->has_paused = false;
    for (struct mu_link_peer *p = r->down->peers; p; p = p->next)
        if (p->is_paused)
            mu_peer_pause(p, false);
}

bool mu_relay_settle(struct mu_link *link)
{
    struct mu_link *down = link->relay->down;
    bool did = down->dirty || down->notices;

    relay_read_again(link->relay);
    mu_link_flush(down);
    mu_link_tell(down);
    return did;
}

uint64_t mu_relay_next(const struct mu_link *link)
{
    return link->relay->has_event ? 0 : mu_link_next(link->relay->down);
}

void mu_relay_set_limits(struct mu_link *link)
{
    mu_link_set_limits(link->relay->down, link->options.timeout_ns, link->options.patience_ns);
}
