/*
 * bridge/link/dial.c: a follower's way to its leader: the name, each of its addresses, and again, for as long as the
 * options say.
 *
 * One attempt at a time: look the name up (it may have moved since), try its addresses in turn, then pause, twice as
 * long each time. Patience runs while no leader is there; one that answers, if only by a heartbeat while it waits for
 * other hosts, ends it. What is refused in words is final. A follower that its leader has called knows that the leader
 * listens: it tells at once why its first round of attempts has failed; and where no connection can even begin, as
 * with a name that does not resolve or a port that refuses, it gives up after a few seconds.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bridge/link/private.h"

#include <netinet/in.h>

static void dial_give_up(struct mu_link *link, const char *why)
{
    link->is_over = true;
    mu_dial_done(link);
    link->options.events.refused(link->options.events.arg, why);
}

static void give_up_reaching(struct mu_link *link)
{
    const struct mu_link_dial *dial = &link->dial;
    char why[800];

    snprintf(why, sizeof why, "the leader (%s) could not be reached for %.1f s: %s", link->options.address,
             (double)(link->now - dial->since) / 1e9, dial->why[0] ? dial->why : "it does not answer");
    for (struct mu_link_peer *p = link->peers; p; p = p->next)
        p->notice = MU_LINK_FAILED; /* nobody is to hear of it besides */
    while (link->peers)
        mu_peer_close(link->peers, MU_LINK_QUIET, "given up");
    dial_give_up(link, why);
}

static void forget_addresses(struct mu_link_dial *dial)
{
    if (dial->list)
        freeaddrinfo(dial->list);
    dial->list = dial->next = NULL;
}

void mu_dial_done(struct mu_link *link)
{
    struct mu_link_dial *dial = &link->dial;

    forget_addresses(dial);
    if (dial->lookup) /* its descriptor outlives it while the thread has not come back */
        epoll_ctl(link->epoll, EPOLL_CTL_DEL, mu_lookup_fd(dial->lookup), NULL);
    mu_lookup_abandon(dial->lookup);
    dial->lookup = NULL;
    dial->retry_at = 0;
}

void mu_dial_begin(struct mu_link *link)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct mu_link_dial *dial = &link->dial;

    event.data.ptr = &link->lookup_tag;
    dial->retry_at = 0;
    dial->is_vain = true;
    if (!dial->since)
        dial->since = link->now;
    link->due = 0;
    dial->lookup = mu_lookup_begin(&dial->name);
    if (!dial->lookup)
        mu_dial_failed(link, "there is no memory, or no thread, to look its name up");
    else if (epoll_ctl(link->epoll, EPOLL_CTL_ADD, mu_lookup_fd(dial->lookup), &event) != 0) {
        mu_lookup_abandon(dial->lookup);
        dial->lookup = NULL;
        mu_dial_failed(link, strerror(errno));
    }
}

/* One address. true: it is on its way, or all is over. */
static bool try_address(struct mu_link *link, const struct addrinfo *a)
{
    char text[64];
    int fd;

    mu_link_print(a->ai_addr, text, sizeof text);
    if (!link->is_secure && !mu_link_is_loopback(a->ai_addr)) {
        char why[480];

        snprintf(why, sizeof why,
                 "the leader (%s) is not on this host, and there is neither a key nor certificates to speak "
                 "to it with",
                 link->options.address);
        dial_give_up(link, why);
        return true;
    }
    fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        snprintf(link->dial.why, sizeof link->dial.why, "%s: %s", text, strerror(errno));
        return false;
    }
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS) {
        snprintf(link->dial.why, sizeof link->dial.why, "%s: %s", text, strerror(errno));
        close(fd);
        return false;
    }
    link->dial.is_vain = false;
    return mu_peer_new(link, fd, MU_LINK_CONNECTING, text) != NULL;
}

/* A round of attempts has failed. */
static bool is_hopeless(struct mu_link *link)
{
    struct mu_link_dial *dial = &link->dial;

    if (!link->options.is_called || dial->has_opened)
        return false;
    if (!dial->has_failed)
        mu_link_say(link, "cannot reach the leader (%s) yet: %s", link->options.address, dial->why);
    dial->has_failed = true;
    dial->refusals = dial->is_vain ? dial->refusals + 1 : 0;
    return dial->refusals >= MU_LINK_REFUSALS && link->now - dial->since >= MU_LINK_REFUSED_NS;
}

static void try_next(struct mu_link *link)
{
    struct mu_link_dial *dial = &link->dial;

    while (dial->next) {
        struct addrinfo *a = dial->next;

        dial->next = a->ai_next;
        if (try_address(link, a))
            return;
    }
    forget_addresses(dial);
    if (is_hopeless(link)) {
        give_up_reaching(link);
        return;
    }
    dial->retry_at = link->now + dial->pause + link->now % (dial->pause / 4 + 1); /* not all hosts at once */
    dial->pause = 2 * dial->pause < MU_LINK_SLOW_NS ? 2 * dial->pause : MU_LINK_SLOW_NS;
    link->due = 0;
}

void mu_dial_found(struct mu_link *link)
{
    struct mu_link_dial *dial = &link->dial;
    struct mu_lookup *lookup = dial->lookup;
    int error;

    epoll_ctl(link->epoll, EPOLL_CTL_DEL, mu_lookup_fd(lookup), NULL);
    dial->lookup = NULL;
    error = mu_lookup_end(lookup, &dial->list);
    dial->next = dial->list;
    if (error) {
        char why[400];

        snprintf(why, sizeof why, "the name '%s' does not resolve: %s", dial->name.host, gai_strerror(error));
        mu_dial_failed(link, why);
    } else
        try_next(link);
}

void mu_dial_opened(struct mu_link_peer *p)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    p->link->dial.is_vain = error != 0;
    p->link->dial.has_opened |= error == 0;
    if (error) {
        mu_peer_close(p, MU_LINK_QUIET, "%s: %s", p->from, strerror(error));
        return;
    }
    mu_peer_step(p, MU_LINK_OPENED);
    p->opened = p->link->now;
    if (mu_tls_begin(p))
        mu_tls_shake(p);
    if (p->state != MU_LINK_CLOSED)
        mu_peer_flush(p); /* and epoll waits for what comes in, from now on */
}

void mu_dial_failed(struct mu_link *link, const char *why)
{
    struct mu_link_dial *dial = &link->dial;

    if (link->is_over)
        return;
    if (!dial->since)
        dial->since = link->now;
    if (why != dial->why)
        snprintf(dial->why, sizeof dial->why, "%s", why);
    try_next(link);
}

void mu_dial_timers(struct mu_link *link)
{
    struct mu_link_dial *dial = &link->dial;

    if (link->is_over)
        return;
    if (dial->since && link->now - dial->since >= link->options.patience_ns)
        give_up_reaching(link);
    else if (dial->retry_at && link->now >= dial->retry_at)
        mu_dial_begin(link);
}
