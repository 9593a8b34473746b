/*
 * bridge/link/peer.c: the beginning and the end of one connection, and what is said about it.
 *
 * A connection ends once: mu_peer_close() takes its socket away and queues one notice. The memory stays until the turn
 * is over. mu_peer_dismiss() comes before: one frame with the reason goes out, and what still comes in is thrown away
 * until the other side closes, so that the kernel does not reset the connection under our last word.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bridge/link/private.h"

#include "base/list.h"

/* Small frames are sent at once. The other host's kernel is asked whether it is there: a process that is stopped, and
 * has said so, is not. */
static void set_socket(const struct mu_link *link, int fd)
{
    int one = 1, idle = (int)(link->options.timeout_ns / 1000000000u), gap, tries = 4;

    idle = idle < 1 ? 1 : idle < 3600 ? idle : 3600;
    gap = (idle + tries - 1) / tries;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &gap, sizeof gap);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}

struct mu_link_peer *mu_peer_new(struct mu_link *link, int fd, enum mu_link_state state, const char *from)
{
    struct epoll_event event = {.events = state == MU_LINK_CONNECTING ? EPOLLOUT : EPOLLIN};
    struct mu_link_peer *p = calloc(1, sizeof *p);

    event.data.ptr = p;
    if (!p || epoll_ctl(link->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(p);
        close(fd);
        return NULL;
    }
    set_socket(link, fd);
    p->link = link;
    p->fd = fd;
    p->state = state;
    p->wants_out = state == MU_LINK_CONNECTING;
    p->connection = ++link->next_connection;
    p->host = MU_LINK_NOBODY;
    p->opened = p->heard = p->pinged = link->now;
    p->stats = &link->others;
    p->is_pending = link->side == MU_LINK_LEADER;
    link->num_pending += p->is_pending;
    snprintf(p->from, sizeof p->from, "%s", from);
    mu_frame_reader_init(&p->reader, link->side == MU_LINK_LEADER ? MU_LINK_JOIN_BYTES : MU_FRAME_MESSAGE);
    mu_peer_list(p);
    return p;
}

void mu_peer_list(struct mu_link_peer *p)
{
    struct mu_link *link = p->link;

    MU_LIST_PUSH(link->peers, p);
    link->due = 0;
}

bool mu_peer_step(struct mu_link_peer *p, enum mu_link_event event)
{
    return mu_link_step(p->state, event, p->link->side, &p->state);
}

void mu_peer_is_known(struct mu_link_peer *p)
{
    if (!p->is_pending)
        return;
    p->is_pending = false;
    p->link->num_pending--;
    p->link->due = 0; /* somebody may wait to be accepted */
}

static void peer_notify(struct mu_link_peer *p, enum mu_link_notice notice)
{
    struct mu_link *link = p->link;

    if (p->notice || !notice)
        return;
    p->notice = notice;
    *link->last_notice = p;
    link->last_notice = &p->next_notice;
}

/* It is nobody's connection any more: what is sent to its host finds nobody. */
void mu_peer_leave(struct mu_link_peer *p)
{
    struct mu_link_host *host = p->host == MU_LINK_NOBODY ? NULL : &p->link->hosts[p->host];

    if (host && host->peer == p)
        host->peer = NULL;
    p->stats->heard_ns = mu_peer_heard(p);
    p->stats = &p->link->others;
}

/* What its end means when nobody says otherwise: by the state that it was in. */
static enum mu_link_notice by_state(const struct mu_link_peer *p)
{
    if (p->state == MU_LINK_UP)
        return MU_LINK_DOWN;
    if (p->link->side == MU_LINK_FOLLOWER)
        return MU_LINK_FAILED;
    return p->is_kept ? MU_LINK_GONE : MU_LINK_QUIET;
}

/* A child that was forked meanwhile has the socket, too: it must end, and epoll forget it, all the same. */
static void close_socket(struct mu_link_peer *p)
{
    if (p->fd < 0)
        return;
    epoll_ctl(p->link->epoll, EPOLL_CTL_DEL, p->fd, NULL);
    shutdown(p->fd, SHUT_RDWR);
    close(p->fd);
}

void mu_peer_close(struct mu_link_peer *p, enum mu_link_notice notice, const char *format, ...)
{
    struct mu_link *link = p->link;
    va_list args;

    if (p->state == MU_LINK_CLOSED)
        return;
    if (!p->notice) {
        va_start(args, format);
        vsnprintf(p->why, sizeof p->why, format, args);
        va_end(args);
    }
    if (p->state != MU_LINK_ENDING)
        peer_notify(p, notice ? notice : by_state(p));
    p->state = MU_LINK_CLOSED;
    if (link->moving == p)
        link->moving = NULL;
    link->calls->ended(p);
    mu_peer_is_known(p);
    mu_peer_leave(p);
    close_socket(p);
    link->num_again -= p->is_again;
    p->is_again = false;
    MU_LIST_DROP(link->peers, p);
    p->next = link->dead;
    link->dead = p;
}

void mu_peer_dismiss(struct mu_link_peer *p, const char *why)
{
    bool is_refused = p->link->side == MU_LINK_LEADER && p->state != MU_LINK_UP;
    enum mu_link_notice notice = by_state(p);

    if (p->state == MU_LINK_CLOSED || p->state == MU_LINK_ENDING)
        return;
    if (!mu_peer_step(p, is_refused ? MU_LINK_REFUSAL : MU_LINK_DROPPING)) {
        mu_peer_close(p, MU_LINK_QUIET, "%s", why);
        return;
    }
    snprintf(p->why, sizeof p->why, "%s", why);
    p->is_dropped = true;
    peer_notify(p, notice);
    p->link->calls->ended(p);
    mu_peer_leave(p);
    if (p->relay) { /* which has the socket, and sees to the rest */
        p->is_told = mu_peer_send(p, is_refused ? MU_FRAME_REFUSE : MU_FRAME_DROP, p->why, strlen(p->why));
        mu_peer_close(p, MU_LINK_QUIET, "%s", p->why);
        return;
    }
    mu_peer_send(p, is_refused ? MU_FRAME_REFUSE : MU_FRAME_DROP, p->why, strlen(p->why));
    p->opened = p->link->now; /* of its ending */
    p->link->due = 0;
    mu_peer_flush(p);
}

void mu_peer_free_all(struct mu_link_peer **list)
{
    while (*list) {
        struct mu_link_peer *p = *list;

        *list = p->next;
        mu_peer_forget_queue(p);
        mu_frame_reader_done(&p->reader);
        if (p->branch)
            mu_mux_done(&p->branch->batch);
        free(p->branch);
        free(p->join);
        if (p->ssl) /* else OpenSSL may not be open */
            SSL_free(p->ssl);
        free(p);
    }
}

void mu_peer_words(const struct mu_link_peer *p, char *text, size_t size)
{
    if (p->is_moving || p->is_relayed)
        snprintf(text, size, "the relay (%s)", p->from);
    else if (p->link->side == MU_LINK_FOLLOWER)
        snprintf(text, size, "the leader (%s)", p->link->options.address);
    else if (p->relay && p->name[0])
        snprintf(text, size, "host %s (%s, by %s)", p->name, p->from, p->relay->name);
    else if (p->name[0])
        snprintf(text, size, "host %s (%s)", p->name, p->from);
    else
        snprintf(text, size, "a connection from %s", p->from);
}

/* A client that knocks all night shall not fill the log: eight sentences in ten seconds, then only their number. */
void mu_link_say(struct mu_link *link, const char *format, ...)
{
    char sentence[640], more[64] = "";
    va_list args;

    if (!link->options.events.said)
        return;
    if (link->now - link->said_since > 10000000000u) {
        link->said_since = link->now;
        link->said = 0;
    }
    if (link->said == 8) {
        link->unsaid++;
        return;
    }
    link->said++;
    if (link->unsaid)
        snprintf(more, sizeof more, " (%u more such sentences were left out)", link->unsaid);
    link->unsaid = 0;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence - sizeof more, format, args);
    va_end(args);
    memcpy(sentence + strlen(sentence), more, strlen(more) + 1);
    link->options.events.said(link->options.events.arg, sentence);
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

bool mu_link_stats(const struct mu_link *link, uint32_t host, struct mu_link_stats *ret_stats)
{
    const struct mu_link_peer *p;

    if (host >= link->options.num_hosts)
        return false;
    p = link->hosts[host].peer;
    *ret_stats = link->hosts[host].stats;
    ret_stats->heard_ns = p ? mu_peer_heard(p) : ret_stats->heard_ns;
    ret_stats->queued = p ? p->queued : 0;
    return true;
}
