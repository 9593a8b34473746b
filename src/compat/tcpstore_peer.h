/* compat/tcpstore_peer.h: whose socket is at the other end of a connection within this machine. */
#ifndef MU_COMPAT_TCPSTORE_PEER_H
#define MU_COMPAT_TCPSTORE_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

struct mu_ts_peers {
    int fd; /* of netlink; -1: it is not there */
    uint32_t sequence;
    FILE *table; /* of connections without IPv6, where netlink does not tell; NULL: it is not there */
};
/* What it opens is kept, so that asking does not want for a descriptor. False: it wants for one, or for memory now
 * (errno). */
bool mu_ts_peers_open(struct mu_ts_peers *peers);
void mu_ts_peers_close(struct mu_ts_peers *peers);

/* The user whose process has, or had, the socket that is bound to `peer` and connected to `own`. False: that cannot be
 * told. */
bool mu_ts_peer_user(struct mu_ts_peers *peers, const struct sockaddr *peer, const struct sockaddr *own,
                     uid_t *ret_user);

#endif
