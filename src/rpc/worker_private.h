/*
 * rpc/worker_private.h: what the files of the calls to workers share.
 *
 *   worker.c          which worker is called when, and what is said of it
 *   worker_call.c     one call: its connection, and HTTP/2 on it
 *   worker_config.c   TF_CONFIG
 */
#ifndef MU_RPC_WORKER_PRIVATE_H
#define MU_RPC_WORKER_PRIVATE_H

#include <nghttp2/nghttp2.h>

#include "bridge/link/address.h"
#include "rpc/worker.h"

struct mu_worker_call {
    struct mu_workers *workers;
    struct mu_worker_call *next, *prev; /* of those that are under way; next: of those that are not yet */
    uint32_t task;
    uint64_t tag;
    struct mu_link_name name;
    char authority[280];
    const char *path;
    uint64_t time_ms, until_ms;
    /* its connection */
    int poll_fd, fd, polled; /* polled: for which events of epoll */
    bool is_connected;
    struct mu_lookup *lookup;
    struct addrinfo *list, *at;
    /* its answer */
    nghttp2_session *session;
    size_t came; /* bytes */
    bool is_over, has_status;
    unsigned http_status, grpc_status;
    char words[120];
    char why[300]; /* it failed */
    /* the message with its prefix */
    size_t len, given;
    uint8_t bytes[];
};

/* The message is copied. NULL: no memory. */
struct mu_worker_call *mu_worker_call_new(const struct mu_link_name *name, const char *path, const void *message,
                                          size_t len);
void mu_worker_call_free(struct mu_worker_call *call);
/* Begin it, with what it waits for in that epoll; and go on, when that is there. Then is_over may be. */
void mu_worker_call_begin(struct mu_worker_call *call, int poll_fd);
void mu_worker_call_go(struct mu_worker_call *call);
/* The worker has said that it took it. */
bool mu_worker_call_is_well(const struct mu_worker_call *call);

#endif
