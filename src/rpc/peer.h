/* rpc/peer.h: the user at the other end of a connection within this machine, and the listeners' one rule of it. */
#ifndef MU_RPC_PEER_H
#define MU_RPC_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

struct mu_peers {
    int fd; /* of netlink; -1: it is not there */
    uint32_t sequence;
    FILE *table; /* of connections without IPv6, where netlink does not tell; NULL: it is not there */
};
/* What it opens is kept, so that asking does not want for a descriptor. False: it wants for one, or for memory now
 * (errno). */
bool mu_peers_open(struct mu_peers *peers);
void mu_peers_close(struct mu_peers *peers);

/* The user of the process that has, or had, the socket that is bound to `peer` and connected to `own`. False: that
 * cannot be told. */
bool mu_rpc_peer_user(struct mu_peers *peers, const struct sockaddr *peer, const struct sockaddr *own, uid_t *ret_user);

#define MU_PEER_UNKNOWN ((uid_t)-1)

/* The rule: a connection is this user's or root's (root may do as it likes anyway), or it is refused. A connection
 * without a known user is somebody else's. `fd`: accepted, of TCP within this machine or of a Unix socket.
 * *ret_user is its user, or MU_PEER_UNKNOWN. */
bool mu_rpc_peer_may_come(struct mu_peers *peers, int fd, uid_t *ret_user);
/* Why it may not: "it is of user 1001, and the job of user 0". */
void mu_rpc_peer_why(uid_t user, char *text, size_t size);

#endif
