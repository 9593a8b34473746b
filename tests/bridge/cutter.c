/*
 * tests/bridge/cutter.c: one connection at a time is relayed, byte by byte where a limit is near.
 */
#include "cutter.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bridge/link/address.h"

struct cutter {
    int listener, follower, leader; /* the last two: -1 while nobody has come */
    struct sockaddr_in to;
    size_t limits[2], passed[2];
    bool reset, hold;
    unsigned cuts;
};

static void give_up(const char *what)
{
    perror(what);
    exit(1);
}

struct cutter *cutter_new(const char *leader, char address[64])
{
    struct cutter *c = calloc(1, sizeof *c);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;

    c->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    c->follower = c->leader = -1;
    c->limits[0] = c->limits[1] = SIZE_MAX;
    c->to = a;
    c->to.sin_port = htons((uint16_t)strtoul(strrchr(leader, ':') + 1, NULL, 10));
    if (bind(c->listener, (struct sockaddr *)&a, sizeof a) || listen(c->listener, 16) ||
        getsockname(c->listener, (struct sockaddr *)&a, &len))
        give_up("the relay's socket");
    mu_link_print((struct sockaddr *)&a, address, 64);
    return c;
}

void cutter_cut(struct cutter *c, bool reset)
{
    struct linger now = {1, 0};

    if (c->follower < 0)
        return;
    if (reset) { /* RST instead of FIN */
        setsockopt(c->follower, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        setsockopt(c->leader, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    close(c->follower);
    close(c->leader);
    c->follower = c->leader = -1;
}

void cutter_free(struct cutter *c)
{
    cutter_cut(c, false);
    close(c->listener);
    free(c);
}

void cutter_limit(struct cutter *c, size_t to_leader, size_t from_leader, bool reset)
{
    c->limits[0] = to_leader;
    c->limits[1] = from_leader;
    c->reset = reset;
}

void cutter_passed(const struct cutter *c, size_t *ret_to_leader, size_t *ret_from_leader)
{
    *ret_to_leader = c->passed[0];
    *ret_from_leader = c->passed[1];
}

unsigned cutter_cuts(const struct cutter *c)
{
    return c->cuts;
}

void cutter_hold(struct cutter *c, bool hold)
{
    c->hold = hold;
}

static void begin(struct cutter *c)
{
    int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC), one = 1;

    if (fd < 0)
        return;
    cutter_cut(c, false);
    c->follower = fd;
    c->leader = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    c->passed[0] = c->passed[1] = 0;
    setsockopt(c->follower, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->leader, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->leader, (struct sockaddr *)&c->to, sizeof c->to))
        cutter_cut(c, true);
}

static void pass(struct cutter *c, int way)
{
    int from = way ? c->leader : c->follower, to = way ? c->follower : c->leader;
    char bytes[65536];
    size_t most = c->limits[way] - c->passed[way] < sizeof bytes ? c->limits[way] - c->passed[way] : sizeof bytes;
    ssize_t n = most ? recv(from, bytes, most, MSG_DONTWAIT) : 0;

    for (ssize_t at = 0; at < n;) {
        ssize_t sent = send(to, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);

        if (sent <= 0)
            break;
        at += sent;
    }
    if (n > 0)
        c->passed[way] += (size_t)n;
    if (c->passed[way] >= c->limits[way])
        c->cuts++;
    if (n <= 0 || c->passed[way] >= c->limits[way])
        cutter_cut(c, c->reset);
}

bool cutter_turn(struct cutter *c, int ms)
{
    struct pollfd fds[] = {{.fd = c->listener, .events = POLLIN},
                           {.fd = c->hold ? -1 : c->follower, .events = POLLIN},
                           {.fd = c->hold ? -1 : c->leader, .events = POLLIN}};

    if (poll(fds, 3, ms) <= 0)
        return false;
    for (int way = 0; way < 2; way++)
        if (fds[1 + way].revents && c->follower >= 0)
            pass(c, way);
    if (fds[0].revents)
        begin(c);
    return true;
}
