/*
 * bridge/link/link.c: making and ending a link, and what its owner asks of it between turns.
 *
 * Off loopback nothing is done without a key or certificates: any program that reaches the port could change the job's
 * memory.
 * The end is orderly and bounded: LEAVE to everybody, then up to a second in which they may read it.
 */
#include "bridge/link/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "bridge/link/private.h"

/* ---- what its connections call ---- */

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
        mu_trip_take(p, message);
    else
        mu_peer_take_wrong(p, message, " that is not its to send");
}

static const struct mu_link_calls calls = {
    .secured = mu_join_send,
    .ended = mu_tree_ended,
    .frames =
        {
            [MU_FRAME_JOIN] = mu_join_take,
            [MU_FRAME_WELCOME] = mu_join_take_welcome,
            [MU_FRAME_REFUSE] = mu_join_take_text,
            [MU_FRAME_LEAVE] = mu_join_take_leave,
            [MU_FRAME_PING] = mu_beat_take_ping,
            [MU_FRAME_PONG] = mu_beat_take_pong,
            [MU_FRAME_DROP] = mu_join_take_text,
            [MU_FRAME_RELAY] = take_of_relays,
            [MU_FRAME_MOVE] = take_of_relays,
            [MU_FRAME_STAY] = take_of_relays,
            [MU_FRAME_VIA] = take_of_relays,
            [MU_FRAME_TRIP] = take_of_relays,
        },
};

/* ---- making ---- */

static enum muster_status link_make(const struct mu_link_options *options, enum mu_link_side side,
                                    struct mu_link **ret_link)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct mu_link *link = calloc(1, sizeof *link);
    enum muster_status status;

    if (!link)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the bridge's connections");
    link->calls = &calls;
    link->options = *options;
    if (!link->options.num_hosts)
        link->options.num_hosts = 1;
    link->options.address = strdup(options->address);
    link->side = side;
    link->listener = -1;
    link->num_events = -1;
    link->last_notice = &link->notices;
    link->now = mu_now();
    link->dial.pause = MU_LINK_RETRY_NS;
    if (options->key)
        link->options.key = memcpy(link->key, options->key, MU_KEY_BYTES);
    link->hosts = calloc(link->options.num_hosts, sizeof *link->hosts);
    link->epoll = epoll_create1(EPOLL_CLOEXEC);
    link->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    event.data.ptr = &link->poke_tag;
    if (!link->hosts || !link->options.address)
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the bridge's connections");
    else if (link->epoll < 0 || link->poke < 0 || epoll_ctl(link->epoll, EPOLL_CTL_ADD, link->poke, &event) != 0)
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no epoll for the bridge: %s", strerror(errno));
    else
        status = mu_link_name_parse(options->address, &link->dial.name);
    if (!status)
        status = mu_tls_look(&link->options, &link->is_secure);
    if (side == MU_LINK_LEADER)
        mu_tree_begin(link);
    if (status)
        mu_link_free(link);
    else
        *ret_link = link;
    return status;
}

/* ---- listening ---- */

static enum muster_status cannot_listen(const struct mu_link *link, int error)
{
    char host[65] = "?";

    gethostname(host, sizeof host - 1);
    return mu_fail(error == EADDRINUSE ? MUSTER_ALREADY_EXISTS : MUSTER_UNAVAILABLE, "host %s cannot listen at %s: %s",
                   host, link->options.address, strerror(error));
}

/* 0, or an errno. */
static int listen_at(struct mu_link *link, const struct sockaddr *a, socklen_t len)
{
    int fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, zero = 0, error;
    struct sockaddr_storage bound;
    struct epoll_event event = {.events = EPOLLIN};
    socklen_t bound_len = sizeof bound;

    if (fd < 0)
        return errno;
    event.data.ptr = &link->listener_tag;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (a->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, a, len) != 0 || listen(fd, 4096) != 0 || getsockname(fd, (struct sockaddr *)&bound, &bound_len) != 0 ||
        epoll_ctl(link->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        error = errno;
        close(fd);
        return error;
    }
    link->listener = fd;
    mu_link_print((struct sockaddr *)&bound, link->address, sizeof link->address);
    return 0;
}

/* No host: everywhere with a key, on loopback without. */
static const char *default_host(const struct mu_link *link)
{
    return link->is_secure ? "::" : "127.0.0.1";
}

static enum muster_status listen_by_name(struct mu_link *link)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    const struct mu_link_name *name = &link->dial.name;
    const char *host = name->host[0] ? name->host : default_host(link);
    struct addrinfo *list = NULL;
    int error = getaddrinfo(host, name->port, &hints, &list);
    enum muster_status status = MUSTER_OK;

    if (error)
        return mu_fail(MUSTER_NOT_FOUND, "the name '%s' to listen at does not resolve: %s", host, gai_strerror(error));
    for (struct addrinfo *a = list; a && !status; a = a->ai_next)
        if (!link->is_secure && !mu_link_is_loopback(a->ai_addr))
            status = mu_fail(MUSTER_FAILED_PRECONDITION,
                             "%s is not loopback: without a key or certificates anybody there could change the job, so "
                             "the bridge does not listen",
                             link->options.address);
    error = EADDRNOTAVAIL;
    for (struct addrinfo *a = list; a && !status && error; a = a->ai_next)
        error = listen_at(link, a->ai_addr, a->ai_addrlen);
    if (error && !name->host[0] && link->is_secure) { /* a host without IPv6 */
        struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)strtoul(name->port, NULL, 10))};

        error = listen_at(link, (struct sockaddr *)&any, sizeof any);
    }
    freeaddrinfo(list);
    return status ? status : error ? cannot_listen(link, error) : MUSTER_OK;
}

enum muster_status mu_link_listen(const struct mu_link_options *options, struct mu_link **ret_link)
{
    struct mu_link *link;
    enum muster_status status = link_make(options, MU_LINK_LEADER, &link);

    if (status)
        return status;
    status = listen_by_name(link);
    if (!status && options->events.listens)
        options->events.listens(options->events.arg, link->address);
    if (!status)
        status = mu_tls_open(link);
    if (status)
        mu_link_free(link);
    else
        *ret_link = link;
    return status;
}

enum muster_status mu_link_connect(const struct mu_link_options *options, struct mu_link **ret_link)
{
    struct mu_link *link;
    enum muster_status status = link_make(options, MU_LINK_FOLLOWER, &link);

    if (status)
        return status;
    if (strcmp(link->dial.name.port, "0") == 0) {
        mu_link_free(link);
        return mu_fail(MUSTER_INVALID_ARGUMENT, "'%.80s' has no port to connect to", options->address);
    }
    snprintf(link->address, sizeof link->address, "%s", link->options.address);
    mu_dial_begin(link); /* its name is looked up while OpenSSL is opened */
    status = mu_tls_open(link);
    if (status)
        mu_link_free(link);
    else
        *ret_link = link;
    return status;
}

/* ---- the end ---- */

/* To those behind relays first: a relay goes itself when it hears its own. Sending may end a relay with all behind. */
static void say_goodbye_behind(struct mu_link *link)
{
    for (uint32_t i = 0; i < link->tree.count;) {
        struct mu_link_peer *relay = link->tree.relays[i], *p;

        while ((p = relay->branch->first)) {
            p->is_told = mu_peer_send(p, MU_FRAME_LEAVE, NULL, 0);
            mu_peer_close(p, MU_LINK_QUIET, "ended");
        }
        if (relay->state == MU_LINK_UP)
            mu_branch_drain(relay);
        i += i < link->tree.count && link->tree.relays[i] == relay;
    }
}

static void say_goodbye(struct mu_link *link)
{
    for (struct mu_link_peer *p = link->peers, *next; p; p = next) {
        next = p->next;
        if (p->state != MU_LINK_UP && p->state != MU_LINK_WAITING && p->state != MU_LINK_ENDING) {
            mu_peer_close(p, MU_LINK_QUIET, "ended");
            continue;
        }
        if (p->state != MU_LINK_ENDING && !mu_peer_send(p, MU_FRAME_LEAVE, NULL, 0))
            continue;
        p->state = MU_LINK_ENDING;
        mu_peer_flush(p);
    }
}

/* Until everybody has closed: only then do we know that they have read it. Nothing but peers is left in epoll then: a
 * poke that nobody has read would end every sleep at once, and what is told here is taken for a peer. */
static void await_goodbyes(struct mu_link *link)
{
    uint64_t until = mu_now() + MU_LINK_END_NS;

    epoll_ctl(link->epoll, EPOLL_CTL_DEL, link->poke, NULL);
    while (link->peers) {
        uint64_t now = mu_now();
        struct epoll_event events[64];
        int n = now >= until ? 0 : epoll_wait(link->epoll, events, 64, (int)((until - now) / 1000000 + 1));

        if (n == 0)
            return;
        for (int i = 0; i < n; i++) {
            struct mu_link_peer *p = events[i].data.ptr;

            if (p->state == MU_LINK_CLOSED)
                continue;
            if (events[i].events & EPOLLOUT)
                mu_peer_flush(p);
            if (p->state != MU_LINK_CLOSED && (events[i].events & ~(uint32_t)EPOLLOUT))
                mu_peer_read(p);
        }
    }
}

void mu_link_free(struct mu_link *link)
{
    if (!link)
        return;
    link->is_ending = true;
    if (link->relay)
        mu_relay_end(link);
    mu_dial_done(link);
    if (link->listener >= 0) {
        epoll_ctl(link->epoll, EPOLL_CTL_DEL, link->listener, NULL); /* a child on its way to exec keeps it open */
        close(link->listener);
    }
    say_goodbye_behind(link);
    say_goodbye(link);
    await_goodbyes(link);
    while (link->peers)
        mu_peer_close(link->peers, MU_LINK_QUIET, "ended");
    mu_peer_free_all(&link->dead);
    if (link->tls) /* else OpenSSL may not be open */
        SSL_CTX_free(link->tls);
    if (link->epoll >= 0)
        close(link->epoll);
    if (link->poke >= 0)
        close(link->poke);
    explicit_bzero(link->key, sizeof link->key);
    free(link->spare);
    free(link->hosts);
    free((char *)link->options.address);
    free(link);
}

/* ---- between turns ---- */

bool mu_link_send(struct mu_link *link, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct mu_link_peer *p = host < link->options.num_hosts ? link->hosts[host].peer : NULL;

    return p && mu_peer_send(p, type, payload, len);
}

bool mu_link_send_slice(struct mu_link *link, uint32_t host, uint8_t type, const void *head, size_t head_len,
                        const struct mu_slice *body)
{
    struct mu_link_peer *p = host < link->options.num_hosts ? link->hosts[host].peer : NULL;

    return p && mu_peer_send_slice(p, type, head, head_len, body);
}

void mu_link_flush(struct mu_link *link)
{
    while (link->dirty) {
        struct mu_link_peer *p = link->dirty;

        link->dirty = p->next_dirty;
        p->is_dirty = false;
        if (p->state != MU_LINK_CLOSED)
            mu_peer_flush(p);
    }
}

void mu_link_drop(struct mu_link *link, uint32_t host, const char *why)
{
    if (host < link->options.num_hosts && link->hosts[host].peer)
        mu_peer_dismiss(link->hosts[host].peer, why);
}

static struct mu_link_peer *find_kept(const struct mu_link *link, uint32_t connection)
{
    for (struct mu_link_peer *p = link->peers; p; p = p->next)
        if (p->connection == connection && p->is_kept)
            return p;
    return NULL;
}

void mu_link_welcome(struct mu_link *link, uint32_t connection, uint32_t host, const void *welcome, size_t len)
{
    struct mu_link_peer *p = find_kept(link, connection);

    if (p && !mu_tree_keeps(p, host))
        mu_peer_accept(p, host, welcome, len);
}

void mu_link_refuse(struct mu_link *link, uint32_t connection, const char *why)
{
    struct mu_link_peer *p = find_kept(link, connection);
    char words[160];

    if (!p)
        return;
    p->is_kept = false;
    mu_peer_words(p, words, sizeof words);
    mu_link_say(link, "refused %s: %s", words, why);
    mu_peer_dismiss(p, why);
}

void mu_link_set_limits(struct mu_link *link, uint64_t timeout_ns, uint64_t patience_ns)
{
    link->options.timeout_ns = timeout_ns;
    link->options.patience_ns = patience_ns;
    link->due = 0;
    if (link->relay)
        mu_relay_set_limits(link);
}

void mu_link_be_patient(struct mu_link *link, bool is_patient, uint64_t now)
{
    for (struct mu_link_peer *p = link->is_patient ? link->peers : NULL; p; p = p->next) {
        p->heard = p->beyond_heard = now;
        p->unanswered = 0;
    }
    link->is_patient = is_patient;
    link->due = 0;
}

int mu_link_fd(const struct mu_link *link)
{
    return link->epoll;
}

uint64_t mu_link_next(const struct mu_link *link)
{
    uint64_t below = link->relay ? mu_relay_next(link) : UINT64_MAX;

    return link->notices || link->num_again || link->dead ? 0 : below < link->due ? below : link->due;
}

const char *mu_link_address(const struct mu_link *link)
{
    return link->address;
}

const char *mu_link_peer_address(const struct mu_link *link, uint32_t host)
{
    return host < link->options.num_hosts && link->hosts[host].peer ? link->hosts[host].peer->from : "";
}

uint32_t mu_link_relay_of(const struct mu_link *link, uint32_t host)
{
    const struct mu_link_peer *p = host < link->options.num_hosts ? link->hosts[host].peer : NULL;

    return p && p->relay ? p->relay->host : 0;
}

bool mu_link_path(const struct mu_link *link, uint32_t host, struct sockaddr_storage *ret_own,
                  struct sockaddr_storage *ret_peer)
{
    const struct mu_link_peer *p = host < link->options.num_hosts ? link->hosts[host].peer : NULL;
    socklen_t own = sizeof *ret_own, peer = sizeof *ret_peer;

    return p && !p->relay && p->fd >= 0 && getsockname(p->fd, (struct sockaddr *)ret_own, &own) == 0 &&
           getpeername(p->fd, (struct sockaddr *)ret_peer, &peer) == 0;
}
