/* rpc/listen.h: the sockets that a server listens on. */
#ifndef MU_RPC_LISTEN_H
#define MU_RPC_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/unix_socket.h"
#include "muster/status.h"

#define MU_LISTEN_MAX 2

struct mu_listen {
    int fds[MU_LISTEN_MAX]; /* not blocking, listening */
    unsigned count;
    bool is_unix, is_loopback;   /* reached from this machine only; a Unix socket is both */
    char path[MU_UNIX_PATH_MAX]; /* of a Unix socket: removed by close, if it is this one still: */
    dev_t device;
    ino_t file;
    char address[160]; /* "127.0.0.1:4711", "unix:/path" */
};

/* Address as rpc/server.h has it. `may_leave`: an address that other machines reach is allowed. */
enum muster_status mu_listen_open(const char *address, bool may_leave, struct mu_listen *ret_listen);
void mu_listen_close(struct mu_listen *listen);
/* The network's own errors at accept() are of connections that have broken before they were accepted. */
bool mu_listen_is_of_one(int error);

#endif
