/*
 * bridge/link/beat.c: heartbeats, and the round trips that they measure.
 *
 * A connection's PING carries our clock, and its PONG brings that back. A host behind a relay is asked by the relay
 * alone: with each of its own heartbeats a relay says in TRIP frames how long each way is from there on, and for how
 * long nothing has come from there.
 */
#include "base/clock.h"
#include "bridge/link/private.h"

/* ---- round trips through a relay ---- */

/* How long it is up from here, and for how long nothing has come from there. */
void mu_trip_pack(const struct mu_link *up, struct mu_pack *p)
{
    struct mu_link_stats s = {0};

    mu_link_stats(up, 0, &s);
    mu_pack_u64(p, s.rtt_ns);
    mu_pack_u64(p, s.rtt_min_ns);
    mu_pack_u64(p, s.heard_ns < up->now ? up->now - s.heard_ns : 0);
}

/* To the leader how long each way is from here on, to each how long it is up from here. */
static void report_trips(struct mu_link_peer *p)
{
    struct mu_link_relay *r = p->link->relay;
    struct mu_pack up = {0}, down = {0};

    mu_trip_pack(p->link, &down);
    for (struct mu_link_peer *q = r->down->peers, *next; q; q = next) {
        next = q->next;
        if (q->state != MU_LINK_UP)
            continue;
        mu_pack_u32(&up, q->connection);
        mu_pack_u64(&up, q->stats->rtt_ns);
        mu_pack_u64(&up, q->stats->rtt_min_ns);
        mu_pack_u64(&up, r->down->now - q->heard);
        if (!down.failed)
            mu_peer_send(q, MU_FRAME_TRIP, down.bytes, down.len);
    }
    if (up.len && !up.failed)
        mu_peer_send(p, MU_FRAME_TRIP, up.bytes, up.len);
    mu_pack_done(&up);
    mu_pack_done(&down);
}

/* The relay's own round trip with the leader: ours is longer by that. And for how long the leader is silent there. */
void mu_trip_take(struct mu_link_peer *p, const struct mu_message *message)
{
    struct mu_unpack u = mu_unpack_of(message->bytes, message->len);
    uint64_t beyond = mu_unpack_u64(&u), least = mu_unpack_u64(&u), age = mu_unpack_u64(&u);

    if (!mu_unpack_end(&u)) {
        mu_peer_take_wrong(p, message, " that is not well formed");
        return;
    }
    if (p->beyond_least != least)
        p->stats->rtt_min_ns = 0; /* measured anew, with this */
    p->beyond = beyond;
    p->beyond_least = least;
    p->beyond_heard = age < p->link->now ? p->link->now - age : 0;
}

/* ---- heartbeats ---- */

void mu_beat_send(struct mu_link_peer *p)
{
    uint8_t stamp[8];

    p->pinged = p->link->now;
    if (p->link->relay && p->is_asked && p->state == MU_LINK_UP)
        report_trips(p);
    if (p->relay) /* the relay's matter */
        return;
    p->ping_stamp = mu_now();
    for (int i = 0; i < 8; i++)
        stamp[i] = (uint8_t)(p->ping_stamp >> (8 * i));
    mu_peer_send(p, MU_FRAME_PING, stamp, sizeof stamp);
}

/* Our own clock comes back. A stamp that we did not send last is somebody's invention, and says nothing. */
void mu_beat_take_pong(struct mu_link_peer *p, const struct mu_message *message)
{
    struct mu_unpack u = mu_unpack_of(message->bytes, message->len);
    uint64_t stamp = mu_unpack_u64(&u), rtt = mu_now() - stamp;

    if (!p->ping_stamp || stamp != p->ping_stamp)
        return;
    p->ping_stamp = 0;
    p->stats->rtt_ns = p->beyond + (rtt ? rtt : 1);
    if (!p->stats->rtt_min_ns || p->beyond_least + rtt < p->stats->rtt_min_ns)
        p->stats->rtt_min_ns = p->beyond_least + (rtt ? rtt : 1);
}

uint64_t mu_beat_period(const struct mu_link *link)
{
    return link->options.timeout_ns / 4 ? link->options.timeout_ns / 4 : 1;
}

/* Its next heartbeat is; within an eighth of the period. */
bool mu_beat_is_near(const struct mu_link_peer *p)
{
    return p->link->now - p->pinged >= mu_beat_period(p->link) - mu_beat_period(p->link) / 8;
}

static bool has_beats(const struct mu_link_peer *p)
{
    bool is_spared = p->link->is_patient && !p->is_relayed && !p->is_moving;

    return !p->relay && !is_spared && (p->state == MU_LINK_WAITING || p->state == MU_LINK_UP);
}

static void beat_early(struct mu_link_peer *p)
{
    mu_beat_send(p);
    p->link->has_beaten = true;
}

/* When the next are due, the turn finds that takes the answers. */
void mu_link_beat(struct mu_link *link, uint64_t now)
{
    link->now = now;
    for (struct mu_link_peer *p = link->peers, *next; p; p = next) {
        next = p->next;
        if (has_beats(p) && mu_beat_is_near(p))
            beat_early(p);
    }
}

/* It wakes up for our answer anyway, and so do we for its own: then neither has to for the other's next one. */
static void beat_along(struct mu_link_peer *p)
{
    if (has_beats(p) && p->link->now - p->pinged >= mu_beat_period(p->link) / 2)
        beat_early(p);
}

void mu_beat_take_ping(struct mu_link_peer *p, const struct mu_message *message)
{
    mu_peer_send(p, MU_FRAME_PONG, message->bytes, message->len);
    beat_along(p);
}
