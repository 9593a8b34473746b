/*
 * bridge/link/turn.c: one turn of a link: what epoll reports, and what time has made due.
 *
 * The clock is the caller's. A caller that looks late, because it was stopped, grants all peers a new period: only a
 * listener knows of silence. Timers are looked at when the earliest is due. Heartbeats are sent in one go to all peers
 * that are due soon, so that many peers do not mean many wake-ups.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bridge/link/private.h"

/* ---- accepting ---- */

/* No more than can be looked after; the others wait in the kernel. */
static void set_accepting(struct mu_link *link)
{
    bool pause = link->num_pending >= MU_LINK_PENDING || link->now < link->resume_at;
    struct epoll_event event = {.events = pause ? 0 : EPOLLIN};

    event.data.ptr = &link->listener_tag;
    if (link->listener >= 0 && pause != link->is_paused &&
        epoll_ctl(link->epoll, EPOLL_CTL_MOD, link->listener, &event) == 0)
        link->is_paused = pause;
}

static void take_connection(struct mu_link *link, int fd, const struct sockaddr *address)
{
    struct mu_link_peer *p;
    char from[64];

    mu_link_print(address, from, sizeof from);
    p = mu_peer_new(link, fd, MU_LINK_SECURING, from);
    if (!p)
        return;
    p->is_loopback = mu_link_is_loopback(address);
    mu_tls_begin(p);
}

static void accept_all(struct mu_link *link)
{
    while (link->num_pending < MU_LINK_PENDING) {
        struct sockaddr_storage address;
        socklen_t len = sizeof address;
        int fd = accept4(link->listener, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            take_connection(link, fd, (struct sockaddr *)&address);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            mu_link_say(link, "a connection must wait: %s", strerror(errno));
            link->resume_at = link->now + 100000000;
            link->due = 0;
            return;
        } /* otherwise it was that connection's own misfortune */
    }
}

/* ---- timers ---- */

/* Nothing has come that a stranger could not have sent; what lies in the socket is not known yet. */
static bool is_silent(const struct mu_link_peer *p)
{
    int unread = 0;

    if (p->state != MU_LINK_SECURING ? p->ssl != NULL : mu_tls_has_begun(p))
        return false;
    return ioctl(p->fd, FIONREAD, &unread) == 0 && unread == 0;
}

/*
 * While others wait to be accepted, a connection that does not speak makes room for them at once: a client that keeps
 * connecting would else have all places all the time. A host that was only slow comes again.
 */
static uint64_t join_limit(const struct mu_link_peer *p)
{
    if (p->is_moving)
        return p->opened + (p->state == MU_LINK_CONNECTING ? mu_link_reach(p->link) : mu_link_move(p->link));
    if (!p->link->is_rush)
        return p->opened + MU_LINK_JOIN_NS;
    if (p->link->now - p->opened < MU_LINK_HELLO_NS || is_silent(p)) /* before that nobody looks */
        return p->opened + MU_LINK_HELLO_NS;
    return p->opened + MU_LINK_RUSH_NS;
}

/* Of a crowd of hosts some may be slow, and that is nobody's concern; of so many it is. */
static void count_silent(struct mu_link *link, const char *words)
{
    if (++link->num_silent % MU_LINK_SILENT == 0)
        mu_link_say(link, "%u connections that said nothing were closed, to let hosts join; the last was %s",
                    link->num_silent, words);
}

/* Not joined in time: the peer is told nothing, for it has shown no sign that it would understand. */
static void end_unjoined(struct mu_link_peer *p)
{
    char words[160];

    mu_peer_words(p, words, sizeof words);
    if (p->link->side == MU_LINK_LEADER && p->link->is_rush && is_silent(p))
        count_silent(p->link, words);
    else if (p->link->side == MU_LINK_LEADER)
        mu_link_say(p->link, "%s did not say in time who it is: closed", words);
    mu_peer_close(p, MU_LINK_QUIET,
                  p->state == MU_LINK_CONNECTING ? "it does not answer" : "it did not shake hands in time");
}

/*
 * TCP's own probes (set_socket()) ask an idle connection alone. One that has sent something sends it again, for a
 * quarter of an hour; twice the timeout is enough here. It runs from when something was sent again: before that nobody
 * need have been asked for as long, and one packet that is lost is no sign. A process that is stopped and has no room
 * left is asked by its sender's kernel, ever more seldom, and answers: it is in reach.
 */
static bool is_out_of_reach(struct mu_link_peer *p)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    uint64_t now = p->link->now, acked;

    if (getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
        (info.tcpi_retransmits == 0 && info.tcpi_probes <= 1)) {
        p->unanswered = 0;
        return false;
    }
    acked = info.tcpi_last_ack_recv * (uint64_t)1000000u;
    acked = now > acked ? now - acked : 0;
    if (!p->unanswered || acked > p->unanswered)
        p->unanswered = now;
    return now - p->unanswered > 2 * p->link->options.timeout_ns;
}

/* One peer's timers; when it must be looked at again. */
static uint64_t check_peer(struct mu_link_peer *p)
{
    struct mu_link *link = p->link;
    uint64_t limit;

    if (p->relay) /* that one's matter */
        return UINT64_MAX;
    switch (p->state) {
    case MU_LINK_CLOSED: return UINT64_MAX;
    case MU_LINK_CONNECTING:
    case MU_LINK_SECURING:
    case MU_LINK_JOINING:
        limit = join_limit(p);
        if (link->now < limit)
            return limit;
        end_unjoined(p);
        return UINT64_MAX;
    case MU_LINK_ENDING:
        limit = p->opened + MU_LINK_END_NS;
        if (link->now < limit)
            return limit;
        mu_peer_close(p, MU_LINK_QUIET, "it did not close in time");
        return UINT64_MAX;
    default: break;
    }
    if (p->is_paused)
        p->heard = link->now;
    if (link->is_patient && !p->is_relayed && !p->is_moving) { /* its kernel answers for it */
        if (is_out_of_reach(p)) {
            mu_peer_close(p, MU_LINK_QUIET, "its host does not answer what was sent");
            return UINT64_MAX;
        }
        p->heard = p->pinged = link->now;
    }
    if (p->is_moving && link->now >= join_limit(p)) {
        mu_peer_close(p, MU_LINK_QUIET, "the leader's answer has not come through it in time");
        return UINT64_MAX;
    }
    if (link->now - p->heard > link->options.timeout_ns) {
        mu_peer_close(p, MU_LINK_QUIET, "nothing has come from it for %.1f s", (double)(link->now - p->heard) / 1e9);
        return UINT64_MAX;
    }
    if (mu_beat_is_near(p))
        mu_beat_send(p);
    limit = p->heard + link->options.timeout_ns + 1;
    limit = limit < p->pinged + mu_beat_period(link) ? limit : p->pinged + mu_beat_period(link);
    if (p->is_moving && join_limit(p) < limit)
        limit = join_limit(p);
    if (p->is_parked && !p->moving_to && link->now + MU_LINK_LOOK_NS < limit)
        limit = link->now + MU_LINK_LOOK_NS;
    return limit;
}

static void timers_turn(struct mu_link *link)
{
    uint64_t due = UINT64_MAX, at;

    link->due = UINT64_MAX;
    link->has_beaten = false;
    link->is_rush = link->num_pending >= MU_LINK_PENDING;
    if (link->side == MU_LINK_FOLLOWER)
        mu_dial_timers(link);
    else if (link->tree.wanted)
        mu_tree_look(link);
    for (struct mu_link_peer *p = link->peers, *next; p; p = next) {
        next = p->next;
        at = check_peer(p);
        due = at < due ? at : due;
    }
    if (link->dial.retry_at)
        due = link->dial.retry_at < due ? link->dial.retry_at : due;
    if (link->dial.since && !link->is_over) {
        at = link->dial.since + link->options.patience_ns;
        due = at >= link->dial.since && at < due ? at : due;
    }
    if (link->now < link->resume_at)
        due = link->resume_at < due ? link->resume_at : due;
    link->due = link->due == 0 ? 0 : due; /* 0: something changed meanwhile */
}

static void grant_if_late(struct mu_link *link)
{
    uint64_t gap = link->now - link->turned;

    if (link->turned && gap > link->options.timeout_ns / 2) {
        for (struct mu_link_peer *p = link->peers; p; p = p->next) {
            p->heard = p->beyond_heard = link->now;
            p->unanswered = 0;
        }
        if (link->dial.since)
            link->dial.since += gap;
    }
    link->turned = link->now;
}

/* ---- the turn ---- */

static void epoll_event_take(struct mu_link *link, const struct epoll_event *event)
{
    struct mu_link_peer *p = event->data.ptr;

    if (event->data.ptr == &link->listener_tag) {
        accept_all(link);
        return;
    }
    if (event->data.ptr == &link->poke_tag) {
        uint64_t count;

        if (read(link->poke, &count, sizeof count) < 0)
            link->due = 0; /* it cannot be: then at least all is looked at */
        return;
    }
    if (event->data.ptr == &link->relay_tag) {
        mu_relay_hears(link);
        return;
    }
    if (event->data.ptr == &link->lookup_tag) {
        if (link->dial.lookup)
            mu_dial_found(link);
        return;
    }
    switch (p->state) {
    case MU_LINK_CLOSED: return;
    case MU_LINK_CONNECTING: mu_dial_opened(p); return;
    case MU_LINK_SECURING: mu_tls_shake(p); return;
    default: break;
    }
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        mu_peer_read(p);
    if (event->events & EPOLLOUT)
        mu_peer_flush(p);
}

static void peers_read_again(struct mu_link *link)
{
    for (struct mu_link_peer *p = link->peers, *next; p; p = next) {
        next = p->next;
        if (p->is_again)
            mu_peer_read(p);
    }
}

/* Peers are freed by turns alone, so by this thread: what epoll tells of them stays good until the next turn. */
void mu_link_wait(struct mu_link *link, int ms)
{
    int n = epoll_wait(link->epoll, link->events, MU_LINK_EVENTS_AT_ONCE, ms);

    link->num_events = n < 0 ? 0 : n;
}

void mu_link_poke(struct mu_link *link)
{
    uint64_t one = 1;
    ssize_t n = write(link->poke, &one, sizeof one);

    (void)n; /* full is poked enough */
}

void mu_link_turn(struct mu_link *link, uint64_t now)
{
    int n = link->num_events;

    link->now = now;
    link->num_events = -1;
    grant_if_late(link);
    mu_link_tell(link);
    if (n < 0) /* nobody has waited */
        n = epoll_wait(link->epoll, link->events, MU_LINK_EVENTS_AT_ONCE, 0);
    if (link->num_again)
        peers_read_again(link);
    for (int i = 0; i < n; i++) {
        epoll_event_take(link, &link->events[i]);
        mu_link_tell(link);
    }
    if (link->relay)
        mu_relay_turn(link);
    if (now >= link->due || link->has_beaten)
        timers_turn(link);
    set_accepting(link);
    do {
        mu_link_flush(link);
        mu_link_tell(link);
    } while (link->dirty || link->notices || (link->relay && mu_relay_settle(link)));
    mu_peer_free_all(&link->dead);
}
