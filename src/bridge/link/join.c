/*
 * bridge/link/join.c: joining, being refused, leaving. PROTOCOL.md has the bytes of these frames.
 *
 * Whether a frame may come at all is the table's matter (link/state.c); here is what it means. Texts from others are
 * printed to terminals and logs, so control characters are taken out of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void joiner_refuse(struct mu_link_peer *p, const char *why)
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
            joiner_refuse(p, "the leader has no memory for the welcome");
        else if (!mu_tree_keeps(p, host))
            mu_peer_accept(p, host, welcome.bytes, welcome.len);
        break;
    case MU_JOIN_LATER: p->is_kept = true; break;
    case MU_JOIN_REFUSED: joiner_refuse(p, why); break;
    }
    mu_pack_done(&welcome);
}

void mu_peer_join(struct mu_link_peer *p, const void *bytes, size_t len)
{
    struct mu_join join;

    if (!mu_join_unpack(bytes, len, &join)) {
        joiner_refuse(p, "its JOIN is not well formed");
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

/* The connection is this host's from now on; an older one has been closed before, and its end told. */
static bool become_host(struct mu_link_peer *p, uint32_t host)
{
    struct mu_link *link = p->link;
    struct mu_link_peer *old;
    char words[160];

    old = link->hosts[host].peer;
    if (old) {
        mu_peer_words(p, words, sizeof words);
        mu_peer_close(old, MU_LINK_DOWN, "%s has connected anew", words);
    }
    mu_link_tell(link);
    if (p->state == MU_LINK_CLOSED || p->state == MU_LINK_ENDING) /* by the owner, which heard of the old one's end */
        return false;
    p->host = host;
    p->stats = &link->hosts[host].stats;
    p->stats->connects++;
    link->hosts[host].peer = p;
    return true;
}

void mu_join_take(struct mu_link_peer *p, const struct mu_message *message)
{
    mu_peer_join(p, message->bytes, message->len);
}

void mu_peer_accept(struct mu_link_peer *p, uint32_t host, const void *welcome, size_t len)
{
    const struct mu_link_events *events = &p->link->options.events;

    p->is_kept = false;
    if (host >= p->link->options.num_hosts) {
        joiner_refuse(p, "it was given a place that the job does not have");
        return;
    }
    if (!become_host(p, host) || !mu_peer_step(p, MU_LINK_ACCEPT))
        return;
    p->reader.most = MU_FRAME_MESSAGE;
    if (!mu_peer_send(p, MU_FRAME_WELCOME, welcome, len))
        return;
    p->heard = p->link->now;
    mu_beat_send(p);
    p->link->due = 0;
    mu_tree_up(p);
    events->up(events->arg, host, NULL, 0);
}

/* TCP, and TLS where there is a key, are there. */
void mu_join_send(struct mu_link_peer *p)
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

/* ---- the answer, and leaving ---- */

void mu_join_take_welcome(struct mu_link_peer *p, const struct mu_message *message)
{
    struct mu_link *link = p->link;
    const struct mu_link_events *events = &link->options.events;

    if (!become_host(p, 0))
        return;
    mu_move_done(p);
    mu_dial_done(link);
    mu_beat_send(p);
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

void mu_join_take_text(struct mu_link_peer *p, const struct mu_message *message)
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

void mu_join_take_leave(struct mu_link_peer *p, const struct mu_message *message)
{
    (void)message;
    mu_peer_close(p, p->state == MU_LINK_UP ? MU_LINK_LEFT : MU_LINK_QUIET, "it has left");
}
