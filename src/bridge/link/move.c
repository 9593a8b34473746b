/*
 * bridge/link/move.c: a follower is told to come by a relay.
 *
 * Its connection to the leader stays, waiting, until the leader's welcome has come through the relay; then it is
 * closed. Where the relay cannot be reached in time, or refuses, the follower says so and is welcomed as it is. When
 * the relay is lost later, the leader's own address is dialled as after any broken connection.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bridge/link/private.h"

/* The connection on which the leader waits for us; NULL: it has broken. */
static struct mu_link_peer *direct_peer(const struct mu_link *link)
{
    for (struct mu_link_peer *p = link->peers; p; p = p->next)
        if (p->state == MU_LINK_WAITING && !p->is_moving)
            return p;
    return NULL;
}

static void move_stay(struct mu_link_peer *p, const char *why)
{
    mu_peer_send(p, MU_FRAME_STAY, why, strlen(why));
}

void mu_move_failed(struct mu_link *link, const char *why)
{
    struct mu_link_peer *p = direct_peer(link);

    link->moving = NULL;
    if (p)
        move_stay(p, why);
    else
        mu_dial_failed(link, why);
}

/* NULL, with the reason. */
static struct mu_link_peer *relay_reach(struct mu_link *link, const struct addrinfo *a, char *why, size_t size)
{
    struct mu_link_peer *q;
    char text[64];
    int fd;

    mu_link_print(a->ai_addr, text, sizeof text);
    if (!link->is_secure && !mu_link_is_loopback(a->ai_addr)) {
        snprintf(why, size, "%s is not on this host, and there is neither a key nor certificates", text);
        return NULL;
    }
    fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        snprintf(why, size, "%s: %s", text, strerror(errno));
        return NULL;
    }
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS) {
        snprintf(why, size, "%s: %s", text, strerror(errno));
        close(fd);
        return NULL;
    }
    q = mu_peer_new(link, fd, MU_LINK_CONNECTING, text);
    if (!q)
        snprintf(why, size, "there is no memory to connect to %s", text);
    return q;
}

void mu_move_begin(struct mu_link_peer *p, const struct mu_message *message)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct mu_link *link = p->link;
    struct addrinfo *list = NULL;
    struct mu_link_name name;
    char text[96], why[200] = "it was told to come by a relay whose address is none";

    snprintf(text, sizeof text, "%.*s", (int)(message->len < 90 ? message->len : 90), (const char *)message->bytes);
    if (link->moving) {
        mu_peer_take_wrong(p, message, " while it comes by another relay");
        return;
    }
    if (!mu_link_name_parse(text, &name) && getaddrinfo(name.host, name.port, &hints, &list) == 0)
        link->moving = relay_reach(link, list, why, sizeof why);
    if (list)
        freeaddrinfo(list);
    if (link->moving)
        link->moving->is_moving = true;
    else
        move_stay(p, why);
}

/* All others are closed, and nobody is to hear of it. */
void mu_move_done(struct mu_link_peer *p)
{
    struct mu_link *link = p->link;

    p->is_relayed = p->is_moving;
    p->beyond_heard = link->now;
    p->is_moving = false;
    link->moving = NULL;
    for (struct mu_link_peer *q = link->peers, *next; q; q = next) {
        next = q->next;
        if (q == p || q->state == MU_LINK_ENDING)
            continue;
        q->notice = q->notice ? q->notice : MU_LINK_FAILED;
        mu_peer_close(q, MU_LINK_QUIET, "the leader is reached otherwise");
    }
}
