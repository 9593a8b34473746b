/*
 * bridge/link/join.c: the link's own frames: joining, being refused, leaving, heartbeats. PROTOCOL.md has their bytes.
 *
 * Whether a frame may come at all is the table's matter (link/state.c); here is what it means. Texts from others are
 * printed to terminals and logs, so control characters are taken out of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bridge/link/private.h"

/* ---- JOIN ---- */

void mu_join_pack(const struct mu_join *join, struct mu_pack *p)
{
    mu_pack_u32(p, join->node);
    mu_pack_u32(p, join->nodes);
    mu_pack_u32(p, join->num_tasks);
    mu_pack_u64(p, join->incarnation[0]);
    mu_pack_u64(p, join->incarnation[1]);
    mu_pack_u32(p, join->pid);
    mu_pack_text(p, join->job);
    mu_pack_text(p, join->host);
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

bool mu_join_unpack(const void *bytes, size_t len, struct mu_join *ret_join)
{
    struct mu_unpack u = mu_unpack_of(bytes, len);

    memset(ret_join, 0, sizeof *ret_join);
    ret_join->node = mu_unpack_u32(&u);
    ret_join->nodes = mu_unpack_u32(&u);
    ret_join->num_tasks = mu_unpack_u32(&u);
    ret_join->incarnation[0] = mu_unpack_u64(&u);
    ret_join->incarnation[1] = mu_unpack_u64(&u);
    ret_join->pid = mu_unpack_u32(&u);
    mu_unpack_text(&u, ret_join->job, sizeof ret_join->job);
    mu_unpack_text(&u, ret_join->host, sizeof ret_join->host);
    return mu_unpack_end(&u) && ret_join->host[0] && is_plain(ret_join->host) && is_plain(ret_join->job);
}

static void refuse(struct mu_link_peer *p, const char *why)
{
    char words[160];

    mu_peer_words(p, words, sizeof words);
    mu_link_say(p->link, "refused %s: %s", words, why);
    p->is_kept = false;
    mu_peer_dismiss(p, why);
}

void mu_peer_ask(struct mu_link_peer *p, const struct mu_join *join)
{
    const struct mu_link_events *events = &p->link->options.events;
    struct mu_pack welcome = {0};
    uint32_t host = MU_LINK_NOBODY;
    char why[256] = "no reason was given";

    switch (events->join(events->arg, p->connection, join, &host, &welcome, why, sizeof why)) {
    case MU_JOIN_ACCEPTED:
        if (welcome.failed)
            refuse(p, "the leader has no memory for the welcome");
        else if (!mu_tree_keeps(p, host))
            mu_peer_accept(p, host, welcome.bytes, welcome.len);
        break;
    case MU_JOIN_LATER: p->is_kept = true; break;
    case MU_JOIN_REFUSED: refuse(p, why); break;
    }
    mu_pack_done(&welcome);
}

void mu_peer_join(struct mu_link_peer *p, const void *bytes, size_t len)
{
    struct mu_join join;

    if (!mu_join_unpack(bytes, len, &join)) {
        refuse(p, "its JOIN is not well formed");
        return;
    }
    snprintf(p->name, sizeof p->name, "%s", join.host);
    mu_peer_is_known(p);
    if (p->link->tree.wanted && !p->relay) { /* it may be asked again */
        p->join = malloc(sizeof join);
        if (p->join)
            *p->join = join;
    }
    mu_peer_ask(p, &join);
}

void mu_peer_accept(struct mu_link_peer *p, uint32_t host, const void *welcome, size_t len)
{
    const struct mu_link_events *events = &p->link->options.events;

    p->is_kept = false;
    if (host >= p->link->options.num_hosts) {
        refuse(p, "it was given a place that the job does not have");
        return;
    }
    if (!mu_peer_become(p, host) || !mu_peer_step(p, MU_LINK_ACCEPT))
        return;
    p->reader.most = MU_FRAME_MESSAGE;
    if (!mu_peer_send(p, MU_FRAME_WELCOME, welcome, len))
        return;
    p->heard = p->link->now;
    mu_peer_ping(p);
    p->link->due = 0;
    mu_tree_up(p);
    events->up(events->arg, host, NULL, 0);
}

/* TCP, and TLS where there is a key, are there. */
void mu_peer_secured(struct mu_link_peer *p)
{
    struct mu_pack join = {0};

    if (!mu_peer_step(p, MU_LINK_SECURED))
        return;
    p->link->due = 0;
    if (p->state != MU_LINK_WAITING)
        return;
    mu_join_pack(&p->link->options.join, &join);
    if (join.failed)
        mu_peer_close(p, MU_LINK_QUIET, "there is no memory to join with");
    else if (mu_peer_send(p, MU_FRAME_JOIN, join.bytes, join.len))
        mu_peer_flush(p);
    mu_pack_done(&join);
}

/* ---- the others ---- */

static void take_welcome(struct mu_link_peer *p, const struct mu_message *message)
{
    struct mu_link *link = p->link;
    const struct mu_link_events *events = &link->options.events;

    if (!mu_peer_become(p, 0))
        return;
    mu_move_done(p);
    mu_dial_done(link);
    mu_peer_ping(p);
    link->due = 0;
    events->up(events->arg, 0, message->bytes, message->len);
}

static void copy_text(const struct mu_message *message, char *text, size_t size)
{
    size_t n = message->len < size - 1 ? message->len : size - 1;

    for (size_t i = 0; i < n; i++)
        text[i] = (char)(message->bytes[i] < 0x20 || message->bytes[i] == 0x7f ? '?' : message->bytes[i]);
    text[n] = 0;
}

static void take_text(struct mu_link_peer *p, const struct mu_message *message)
{
    char words[160], text[256];

    copy_text(message, text, sizeof text);
    mu_peer_words(p, words, sizeof words);
    p->is_dropped = true;
    if (message->type == MU_FRAME_REFUSE)
        mu_peer_close(p, MU_LINK_REFUSED, "%s refused this host: %s", words, text);
    else
        mu_peer_close(p, MU_LINK_QUIET, "%s dropped the connection: %s", words, text);
}

void mu_peer_ping(struct mu_link_peer *p)
{
    uint8_t stamp[8];

    p->pinged = p->link->now;
    if (p->link->relay && p->is_asked && p->state == MU_LINK_UP)
        mu_relay_report(p);
    if (p->relay) /* whose matter it is */
        return;
    p->ping_stamp = mu_now();
    for (int i = 0; i < 8; i++)
        stamp[i] = (uint8_t)(p->ping_stamp >> (8 * i));
    mu_peer_send(p, MU_FRAME_PING, stamp, sizeof stamp);
}

/* Our own clock comes back. A stamp that we did not send last is somebody's invention, and says nothing. */
static void take_pong(struct mu_link_peer *p, const struct mu_message *message)
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

static bool has_right_length(const struct mu_message *message)
{
    if (message->type == MU_FRAME_PING || message->type == MU_FRAME_PONG)
        return message->len == 8;
    return message->type != MU_FRAME_LEAVE || message->len == 0;
}

void mu_peer_take_wrong(struct mu_link_peer *p, const struct mu_message *message, const char *what)
{
    char why[128], words[160];

    snprintf(why, sizeof why, "it sent a frame of type %u (%s)%s in state %s", message->type,
             mu_link_event_name(mu_link_event_of(message->type)), what, mu_link_state_name(p->state));
    mu_peer_words(p, words, sizeof words);
    mu_link_say(p->link, "%s is dropped: %s", words, why);
    mu_peer_dismiss(p, why);
}

/* Each has a side, and a place where it means something. */
static void take_of_relays(struct mu_link_peer *p, const struct mu_message *message)
{
    bool leads = p->link->side == MU_LINK_LEADER, is_own = !leads && !p->is_moving && !p->is_relayed;

    if (message->type == MU_FRAME_RELAY && leads && p->branch)
        mu_tree_listens(p, message);
    else if (message->type == MU_FRAME_RELAY && is_own)
        mu_relay_begin(p, message);
    else if (message->type == MU_FRAME_MOVE && is_own)
        mu_move_begin(p, message);
    else if (message->type == MU_FRAME_STAY && p->is_parked)
        mu_tree_stays(p, message);
    else if (message->type == MU_FRAME_STAY && leads && p->is_staying)
        return; /* it was taken as it is meanwhile: its relay has gone here, too */
    else if (message->type == MU_FRAME_VIA && leads && p->branch)
        mu_branch_take(p, message);
    else if (message->type == MU_FRAME_VIA && is_own && p->link->relay && p->is_asked)
        mu_relay_take(p, message);
    else if (message->type == MU_FRAME_TRIP && leads && p->branch)
        mu_branch_trips(p, message);
    else if (message->type == MU_FRAME_TRIP && p->is_relayed)
        mu_move_trip(p, message);
    else
        mu_peer_take_wrong(p, message, " that is not its to send");
}

void mu_peer_take(struct mu_link_peer *p, const struct mu_message *message)
{
    const struct mu_link_events *events = &p->link->options.events;
    enum mu_link_state next;

    if (!mu_link_step(p->state, mu_link_event_of(message->type), p->link->side, &next)) {
        mu_peer_take_wrong(p, message, "");
        return;
    }
    if (!has_right_length(message)) {
        mu_peer_take_wrong(p, message, " and a wrong length");
        return;
    }
    if (next != MU_LINK_CLOSED) /* closing does that itself */
        p->state = next;
    p->link->dial.since = 0; /* a follower's leader is there, whenever the welcome may come */
    switch (message->type) {
    case MU_FRAME_JOIN: mu_peer_join(p, message->bytes, message->len); break;
    case MU_FRAME_WELCOME: take_welcome(p, message); break;
    case MU_FRAME_REFUSE:
    case MU_FRAME_DROP: take_text(p, message); break;
    case MU_FRAME_LEAVE: mu_peer_close(p, p->state == MU_LINK_UP ? MU_LINK_LEFT : MU_LINK_QUIET, "it has left"); break;
    case MU_FRAME_PING:
        mu_peer_send(p, MU_FRAME_PONG, message->bytes, message->len);
        mu_peer_beat_along(p);
        break;
    case MU_FRAME_PONG: take_pong(p, message); break;
    case MU_FRAME_RELAY:
    case MU_FRAME_MOVE:
    case MU_FRAME_STAY:
    case MU_FRAME_VIA:
    case MU_FRAME_TRIP: take_of_relays(p, message); break;
    default:
        p->beyond_heard = p->link->now;
        if (!p->link->is_ending)
            events->frame(events->arg, p->host, message->type, message->bytes, message->len);
    }
}
