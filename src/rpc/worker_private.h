/*
 * rpc/worker_private.h: what the files of the calls to workers share.
 *
 *   worker.c          which worker is called when, and what is said of it
 *   worker_call.c     one call, or one after the other: their connection, and HTTP/2 on it
 *   worker_config.c   TF_CONFIG
 *   callee.c          servers that are called often: rpc/callee.h
 */
#ifndef MU_RPC_WORKER_PRIVATE_H
#define MU_RPC_WORKER_PRIVATE_H

#include <nghttp2/nghttp2.h>

#include "bridge/link/address.h"
#include "rpc/worker.h"

struct mu_worker_call {
    struct mu_workers *workers;
    struct mu_worker_call *next, *prev; /* of those that are under way; next: of those that are not yet */
    void *owner;
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
    int32_t stream; /* 0: there has been none */
    size_t came;    /* bytes */
    /* keeps: the connection outlives an answer. is_answered: then there is one; is_over: nothing more comes by it. */
    bool keeps, is_answered, is_over, has_status;
    unsigned http_status, grpc_status;
    char words[120];
    char why[300]; /* it failed */
    /* the message with its prefix */
    size_t len, given;
    uint8_t *bytes;
};

/* The message is copied. NULL: no memory. path: NULL: only a connection is made. */
struct mu_worker_call *mu_worker_call_new(const struct mu_link_name *name, const char *path, const void *message,
                                          size_t len);
void mu_worker_call_free(struct mu_worker_call *call);
/* Begin it, with what it waits for in that epoll; and go on, when that is there. Then is_over may be. */
void mu_worker_call_begin(struct mu_worker_call *call, int poll_fd);
void mu_worker_call_go(struct mu_worker_call *call);
/* Another one, on the connection that the last one has left. False: no memory. */
bool mu_worker_call_again(struct mu_worker_call *call, const char *path, const void *message, size_t len);
/* The worker has said that it took it. */
bool mu_worker_call_is_well(const struct mu_worker_call *call);

#endif
