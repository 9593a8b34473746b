/*
 * rpc/stub_private.h: what the files of a stub share.
 *
 *   stub.c        its connection
 *   stub_call.c   its calls: the streams of that connection
 */
#ifndef MU_RPC_STUB_PRIVATE_H
#define MU_RPC_STUB_PRIVATE_H

#include <nghttp2/nghttp2.h>

#include "base/clock.h"
#include "bridge/link/address.h"
#include "rpc/stub.h"

#define MU_STUB_AT_ONCE (256u << 10)
#define MU_STUB_PREFIX  5

struct mu_stub_call {
    struct mu_stub_call *next, *prev;
    struct mu_stub *stub;
    const char *path;
    mu_stub_done *done;
    void *arg;
    uint8_t *message, prefix[MU_STUB_PREFIX];
    size_t len, given;    /* given: of prefix and message */
    uint64_t reach_until; /* while it is not said */
    uint64_t timeout_ms, until_ms;
    int32_t stream;               /* 0: it is not said yet */
    uint8_t head[MU_STUB_PREFIX]; /* the answer's */
    size_t have, size;            /* of the answer, with its prefix */
    uint8_t *answer;
    unsigned http_status, grpc_status;
    bool has_status, is_bad, is_broken;
    char *words;
};

struct mu_stub {
    uv_loop_t *loop;
    uv_poll_t *poll; /* of its socket, or of the look-up of its name; NULL: none */
    int polled;      /* for which events */
    uv_timer_t timer;
    uv_prepare_t prepare; /* what was collected is sent before the loop sleeps */
    unsigned open;        /* handles that are not closed, but polls */
    struct mu_link_name name;
    char authority[280];
    void (*lost)(void *arg, const char *why);
    void *arg;
    struct mu_stub_call *calls;
    struct mu_lookup *lookup;
    struct addrinfo *list, *at;
    int fd;
    bool is_connected, is_closed;
    uint64_t tried_ms;
    nghttp2_session *session;
    char why[200];
    size_t out_len, out_at;
    uint8_t in[MU_STUB_AT_ONCE], out[MU_STUB_AT_ONCE];
};

static inline uint64_t mu_stub_now(void)
{
    return mu_now() / 1000000;
}

/* stub_call.c */
bool mu_stub_session(struct mu_stub *stub); /* false: no memory */
bool mu_stub_say(struct mu_stub_call *call);
void mu_stub_call_free(struct mu_stub_call *call);
void mu_stub_call_fail(struct mu_stub_call *call, enum muster_status status, const char *why);

#endif
