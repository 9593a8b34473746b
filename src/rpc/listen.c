/*
 * rpc/listen.c: from an address as a person writes it to sockets that listen.
 *
 * Loopback means both families, on one port: clients that are told "localhost" try either. Where the kernel chooses the
 * port it may be taken in the other family, so that is tried a few times. Every interface is one socket of both
 * families, or of IPv4 where there is no IPv6. Unix sockets are base/unix_socket.c's.
 */
#include "rpc/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/unix_socket.h"
#include "bridge/link/address.h"

#define BACKLOG 4096 /* the kernel takes net.core.somaxconn if that is less: all tasks of a job come at once */
#define TRIES   16   /* for a port that is free in both families */

union socket_name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage storage;
};

static socklen_t size_of(const union socket_name *name)
{
    return name->any.sa_family == AF_INET6 ? sizeof name->v6 : sizeof name->v4;
}

/* A socket that listens there, or -1 with errno. *name is then where it does. */
static int listen_at(union socket_name *name, bool both)
{
    socklen_t size = sizeof *name;
    int one = 1, only = !both, error;
    int fd = socket(name->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if ((name->any.sa_family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only) == 0) &&
        bind(fd, &name->any, size_of(name)) == 0 && listen(fd, BACKLOG) == 0 && getsockname(fd, &name->any, &size) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static void listener_add(struct mu_listen *l, int fd, const union socket_name *name)
{
    if (l->count == 0)
        mu_link_print(&name->any, l->address, sizeof l->address);
    l->fds[l->count++] = fd;
}

static int open_loopback(struct mu_listen *l, uint16_t port)
{
    for (int i = 0; i < TRIES; i++) {
        union socket_name v4 = {
            .v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
        union socket_name v6 = {.v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}};
        int first = listen_at(&v4, false), second;

        if (first < 0)
            return -1;
        v6.v6.sin6_port = v4.v4.sin_port;
        second = listen_at(&v6, false);
        if (second < 0 && errno == EADDRINUSE) {
            close(first);
            errno = EADDRINUSE;
            if (port)
                return -1;
            continue;
        }
        listener_add(l, first, &v4);
        if (second >= 0) /* else there is no IPv6 here */
            listener_add(l, second, &v6);
        return 0;
    }
    return -1;
}

static int open_every(struct mu_listen *l, uint16_t port)
{
    union socket_name v6 = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT}};
    union socket_name v4 = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    int fd = listen_at(&v6, true);

    if (fd < 0 && errno != EADDRINUSE && errno != EACCES) {
        fd = listen_at(&v4, false);
        v6 = v4;
    }
    if (fd < 0)
        return -1;
    listener_add(l, fd, &v6);
    return 0;
}

static enum muster_status cannot_listen(const char *address)
{
    const char *mend = errno == EADDRINUSE      ? ": another program listens there; port 0 takes a free one"
                       : errno == EACCES        ? ": ports below 1024 need root"
                       : errno == EADDRNOTAVAIL ? ": this machine has no such address"
                                                : "";

    return mu_fail(errno == EADDRINUSE ? MUSTER_ALREADY_EXISTS : MUSTER_UNAVAILABLE, "cannot listen at %.120s: %s%s",
                   address, strerror(errno), mend);
}

static enum muster_status may_not(const char *address)
{
    return mu_fail(
        MUSTER_FAILED_PRECONDITION,
        "%.120s can be reached from other machines, and whoever reaches it may do as the job's tasks do: give a "
        "certificate (--grpc-cert, --grpc-key), or say that it is meant to be insecure (--grpc-insecure)",
        address);
}

static enum muster_status open_tcp(struct mu_listen *l, const char *address, bool may_leave)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list;
    bool every = strncmp(address, "*:", 2) == 0 || strncmp(address, "[::]:", 5) == 0;
    struct mu_link_name name;
    union socket_name where;
    int error, fd;

    if (mu_link_name_parse(address, &name)) {
        char why[256];

        snprintf(why, sizeof why, "%s", muster_last_error());
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%s, or unix:PATH", why);
    }
    l->is_loopback = !every && (name.host[0] == 0 || strcmp(name.host, "localhost") == 0);
    if (every && !may_leave)
        return may_not(address);
    if (every || l->is_loopback) {
        uint16_t port = (uint16_t)strtoul(name.port, NULL, 10);

        return (every ? open_every(l, port) : open_loopback(l, port)) ? cannot_listen(address) : MUSTER_OK;
    }
    error = getaddrinfo(name.host, name.port, &hints, &list);
    if (error)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "cannot listen at %.120s: %s", address, gai_strerror(error));
    memcpy(&where, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    l->is_loopback = mu_link_is_loopback(&where.any);
    if (!l->is_loopback && !may_leave)
        return may_not(address);
    fd = listen_at(&where, false);
    if (fd < 0)
        return cannot_listen(address);
    listener_add(l, fd, &where);
    return MUSTER_OK;
}

static enum muster_status open_unix(struct mu_listen *l, const char *path)
{
    struct stat st = {0};
    int fd, error;

    if (!path[0] || strlen(path) >= MU_UNIX_PATH_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a socket's path has 1 to %u bytes, and %.40s%s has %zu",
                       MU_UNIX_PATH_MAX - 1, path, strlen(path) > 40 ? "..." : "", strlen(path));
    fd = mu_unix_listen(path, BACKLOG);
    if (fd >= 0) {
        l->is_unix = l->is_loopback = true;
        snprintf(l->path, sizeof l->path, "%s", path);
        snprintf(l->address, sizeof l->address, "unix:%s", path);
        if (lstat(path, &st) == 0) {
            l->device = st.st_dev;
            l->file = st.st_ino;
        }
        l->fds[l->count++] = fd;
        return MUSTER_OK;
    }
    error = errno;
    if (error == EADDRINUSE && lstat(path, &st) == 0)
        return mu_fail(MUSTER_ALREADY_EXISTS, "cannot listen at unix:%s: %s", path,
                       S_ISSOCK(st.st_mode) ? "another server listens there" : "there is a file, and it is no socket");
    return mu_fail(MUSTER_UNAVAILABLE, "cannot listen at unix:%s: %s", path, strerror(error));
}

enum muster_status mu_listen_open(const char *address, bool may_leave, struct mu_listen *ret_listen)
{
    struct mu_listen l = {0};
    enum muster_status status =
        strncmp(address, "unix:", 5) == 0 ? open_unix(&l, address + 5) : open_tcp(&l, address, may_leave);

    if (!status)
        *ret_listen = l;
    return status;
}

void mu_listen_close(struct mu_listen *listen)
{
    struct stat st;

    if (listen->count && listen->path[0] && lstat(listen->path, &st) == 0 && st.st_dev == listen->device &&
        st.st_ino == listen->file)
        unlink(listen->path);
    for (unsigned i = 0; i < listen->count; i++) /* the last: while it is open its number is nobody else's */
        close(listen->fds[i]);
    listen->count = 0;
}

bool mu_listen_is_of_one(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPROTO || error == ENETDOWN || error == ENETUNREACH ||
           error == EHOSTDOWN || error == EHOSTUNREACH || error == ENONET || error == ENOPROTOOPT ||
           error == EOPNOTSUPP || error == EPERM;
}
