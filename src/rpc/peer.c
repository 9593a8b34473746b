/*
 * rpc/peer.c: the owner of a socket: asked of the kernel by netlink, for this one socket; where there is no such
 * netlink, looked up in /proc/net/tcp.
 *
 * A socket that its process has closed has no inode any more. Until its end has been acknowledged some kernels (6.18 is
 * one) still name its user; others, and all of them later, when only the connection's numbers are kept, name user 0.
 * So another user than 0 is believed, and 0 only of a socket that a process has: nothing else tells the user of a
 * closed one. The other end of a Unix socket is known from the moment it connected.
 */
#include "rpc/peer.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_want(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

bool mu_peers_open(struct mu_peers *peers)
{
    bool wants;

    peers->sequence = 0;
    peers->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    wants = peers->fd < 0 && is_want(errno);
    peers->table = wants ? NULL : fopen("/proc/net/tcp", "re");
    return !wants && (peers->table || !is_want(errno));
}

void mu_peers_close(struct mu_peers *peers)
{
    if (peers->fd >= 0)
        close(peers->fd);
    if (peers->table)
        fclose(peers->table);
    peers->fd = -1;
    peers->table = NULL;
}

static void put_name(const struct sockaddr *name, __be16 *port, __be32 address[4])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)name;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)name;

    memset(address, 0, 16);
    *port = name->sa_family == AF_INET6 ? v6->sin6_port : v4->sin_port;
    if (name->sa_family == AF_INET6)
        memcpy(address, &v6->sin6_addr, 16);
    else
        memcpy(address, &v4->sin_addr, 4);
}

/* 1: answered; 0: there is no such socket; -1: netlink does not tell. */
static int netlink_hear(struct mu_peers *peers, uid_t *ret_user)
{
    union {
        struct nlmsghdr head;
        uint8_t bytes[1024];
    } answer;

    for (;;) {
        ssize_t n = recv(peers->fd, &answer, sizeof answer, MSG_DONTWAIT);
        const struct inet_diag_msg *m = NLMSG_DATA(&answer.head);
        const struct nlmsgerr *e = NLMSG_DATA(&answer.head);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < (ssize_t)NLMSG_LENGTH(sizeof *e))
            return -1;
        if (answer.head.nlmsg_seq != peers->sequence)
            continue; /* of an earlier question */
        if (answer.head.nlmsg_type == NLMSG_ERROR)
            return e->error == -ENOENT ? 0 : -1;
        if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || n < (ssize_t)NLMSG_LENGTH(sizeof *m))
            return -1;
        *ret_user = m->idiag_uid;
        return m->idiag_inode != 0 || m->idiag_uid != 0;
    }
}

static int ask_netlink(struct mu_peers *peers, const struct sockaddr *peer, const struct sockaddr *own, uid_t *ret_user)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 about;
    } q = {.head = {.nlmsg_len = sizeof q,
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST,
                    .nlmsg_seq = ++peers->sequence},
           .about = {.sdiag_family = (uint8_t)peer->sa_family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u}};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

    if (peers->fd < 0)
        return -1;
    put_name(peer, &q.about.id.idiag_sport, q.about.id.idiag_src);
    put_name(own, &q.about.id.idiag_dport, q.about.id.idiag_dst);
    q.about.id.idiag_cookie[0] = q.about.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (sendto(peers->fd, &q, sizeof q, MSG_DONTWAIT, (struct sockaddr *)&kernel, sizeof kernel) != (ssize_t)sizeof q)
        return -1;
    return netlink_hear(peers, ret_user);
}

/* As /proc/net/tcp writes it: each word of the address as this machine's number, then the port. */
static void print_name(const struct sockaddr *name, char text[48])
{
    __be32 address[4];
    __be16 port;
    int n = 0;

    put_name(name, &port, address);
    for (int i = 0; i < (name->sa_family == AF_INET6 ? 4 : 1); i++)
        n += snprintf(text + n, 48 - (size_t)n, "%08" PRIX32, (uint32_t)address[i]);
    snprintf(text + n, 48 - (size_t)n, ":%04X", ntohs(port));
}

static bool look_up(const struct mu_peers *peers, const struct sockaddr *peer, const struct sockaddr *own,
                    uid_t *ret_user)
{
    bool is_v6 = peer->sa_family == AF_INET6;
    FILE *f = !is_v6 && peers->table ? peers->table : fopen(is_v6 ? "/proc/net/tcp6" : "/proc/net/tcp", "re");
    char line[400], local[48], remote[48], a[48], b[48];
    unsigned long inode;
    unsigned user;
    bool found = false;

    if (!f)
        return false;
    rewind(f);
    fflush(f); /* what had been read of it before is forgotten, else glibc goes on with that */
    print_name(peer, local);
    print_name(own, remote);
    while (!found && fgets(line, sizeof line, f))
        if (sscanf(line, "%*s %47s %47s %*s %*s %*s %*s %u %*s %lu", a, b, &user, &inode) == 4 && !strcmp(a, local) &&
            !strcmp(b, remote) && (inode || user)) {
            *ret_user = user;
            found = true;
        }
    if (f != peers->table)
        fclose(f);
    return found;
}

bool mu_rpc_peer_user(struct mu_peers *peers, const struct sockaddr *peer, const struct sockaddr *own, uid_t *ret_user)
{
    int told = ask_netlink(peers, peer, own, ret_user);

    return told < 0 ? look_up(peers, peer, own, ret_user) : told > 0;
}

static bool find_user(struct mu_peers *peers, int fd, uid_t *ret_user)
{
    struct sockaddr_storage own, peer;
    socklen_t size = sizeof own;
    struct ucred sender;

    if (getsockname(fd, (struct sockaddr *)&own, &size))
        return false;
    if (own.ss_family == AF_UNIX) {
        size = sizeof sender;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &sender, &size))
            return false;
        *ret_user = sender.uid;
        return true;
    }
    size = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
           mu_rpc_peer_user(peers, (struct sockaddr *)&peer, (struct sockaddr *)&own, ret_user);
}

bool mu_rpc_peer_may_come(struct mu_peers *peers, int fd, uid_t *ret_user)
{
    if (!find_user(peers, fd, ret_user))
        *ret_user = MU_PEER_UNKNOWN;
    return *ret_user != MU_PEER_UNKNOWN && (*ret_user == geteuid() || *ret_user == 0);
}

void mu_rpc_peer_why(uid_t user, char *text, size_t size)
{
    if (user == MU_PEER_UNKNOWN)
        snprintf(text, size, "whose it is cannot be told");
    else
        snprintf(text, size, "it is of user %u, and the job of user %u", (unsigned)user, (unsigned)geteuid());
}
