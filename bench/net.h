/*
 * bench/net.h: programs that measure between two hosts, which are network namespaces or the machine's own loopback.
 *
 * A host is two words of the command line: the file of its network namespace, "-" for the one we are in, and its IPv4
 * address there. A process enters it before it makes a socket.
 */
#ifndef BENCH_NET_H
#define BENCH_NET_H

#include "measure.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

struct bench_host {
    const char *net, *address;
};

static inline void bench_enter(const struct bench_host *host)
{
    int fd;

    if (strcmp(host->net, "-") == 0)
        return;
    fd = open(host->net, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET))
        bench_die("%s: %s", host->net, strerror(errno));
    close(fd);
}

static inline struct sockaddr_in bench_address(const struct bench_host *host, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    if (inet_pton(AF_INET, host->address, &address.sin_addr) != 1)
        bench_die("'%s' is no IPv4 address", host->address);
    return address;
}

/* A listening socket of a port that the kernel chooses. */
static inline int bench_listen(const struct bench_host *host, uint16_t *ret_port)
{
    struct sockaddr_in address = bench_address(host, 0);
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) || listen(fd, 1) ||
        getsockname(fd, (struct sockaddr *)&address, &len))
        bench_die("listen at %s: %s", host->address, strerror(errno));
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static inline void bench_nodelay(int fd)
{
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)))
        bench_die("TCP_NODELAY: %s", strerror(errno));
}

/* -1: refused; the server is not there yet. */
static inline int bench_connect(const struct bench_host *host, uint16_t port)
{
    struct sockaddr_in address = bench_address(host, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        bench_die("socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        if (errno != ECONNREFUSED)
            bench_die("connect to %s: %s", host->address, strerror(errno));
        close(fd);
        return -1;
    }
    bench_nodelay(fd);
    return fd;
}

#endif
