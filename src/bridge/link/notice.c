/*
 * bridge/link/notice.c: what the end of a connection means: to the owner, to a follower's way to its leader, and to the
 * hosts that this one relays.
 *
 * Ends are told one after the other, by the turn or before a host's new connection is told, and never from within the
 * call that ended it: the owner may then call anything.
 */
#include "bridge/link/private.h"

/* Those behind give the leader up by its silence, not by ours. */
void mu_relay_cut(struct mu_link *link, const char *why)
{
    struct mu_pack trip = {0};

    mu_trip_pack(link, &trip);
    for (struct mu_link_peer *p = link->relay->down->peers, *next; p; p = next) {
        next = p->next;
        if (p->state != MU_LINK_UP && !p->is_kept)
            continue;
        p->is_kept = false;
        if (p->state == MU_LINK_UP && !trip.failed)
            mu_peer_send(p, MU_FRAME_TRIP, trip.bytes, trip.len);
        mu_peer_dismiss(p, why);
    }
    mu_pack_done(&trip);
    link->relay->has_event = true; /* its turn has their ends to tell */
}

static void tell_down(struct mu_link_peer *p)
{
    struct mu_link *link = p->link;

    if (!p->is_dropped || link->now - p->opened > MU_LINK_SLOW_NS)
        link->dial.pause = MU_LINK_RETRY_NS; /* it was good */
    if (link->relay)
        mu_relay_cut(link, "the host that relays it has lost the leader");
    link->options.events.down(link->options.events.arg, p->host, p->why);
    if (link->side == MU_LINK_FOLLOWER)
        mu_dial_failed(link, p->why);
}

/* While it is on its way to a relay, that decides. */
static void tell_failed(struct mu_link_peer *p)
{
    struct mu_link *link = p->link;

    if (p->is_moving)
        mu_move_failed(link, p->why);
    else if (!link->moving)
        mu_dial_failed(link, p->why);
    else if (!link->dial.since)
        link->dial.since = link->now;
}

static void tell_one(struct mu_link_peer *p)
{
    struct mu_link *link = p->link;
    const struct mu_link_events *events = &link->options.events;

    if (link->is_ending)
        return;
    switch (p->notice) {
    case MU_LINK_QUIET: break;
    case MU_LINK_DOWN: tell_down(p); break;
    case MU_LINK_LEFT:
        link->is_over |= link->side == MU_LINK_FOLLOWER;
        if (link->relay)
            mu_relay_cut(link, "the leader has left");
        events->left(events->arg, p->host);
        break;
    case MU_LINK_GONE: events->gone(events->arg, p->connection); break;
    case MU_LINK_FAILED: tell_failed(p); break;
    case MU_LINK_REFUSED:
        if (p->is_moving) {
            mu_move_failed(link, p->why);
            break;
        }
        link->is_over = true;
        events->refused(events->arg, p->why);
        break;
    }
}

void mu_link_tell(struct mu_link *link)
{
    while (link->notices) {
        struct mu_link_peer *p = link->notices;

        link->notices = p->next_notice;
        if (!link->notices)
            link->last_notice = &link->notices;
        tell_one(p);
    }
}
