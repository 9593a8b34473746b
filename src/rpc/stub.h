/*
 * rpc/stub.h: calls to a server, several at once on one connection, with their answers.
 *
 * The connection is made at the first call, and again when it has ended and another call comes. A server that cannot be
 * reached is tried until the call's time is over. Nothing here waits. In the clear. One thread: the loop's. Nothing
 * here keeps the loop alive. (rpc/callee.h is for one call after the other, of which only the status is wanted.)
 */
#ifndef MU_RPC_STUB_H
#define MU_RPC_STUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include <muster/status.h>

struct mu_stub;
struct mu_stub_call;

struct mu_stub_answer {
    enum muster_status status;
    const char *text; /* of a failure */
    bool is_lost;     /* it is not the server's: it cannot be reached, or has gone */
    const void *bytes;
    size_t len;
};
/* Once; not from within a function of this header. The answer is valid until it returns. */
typedef void mu_stub_done(void *arg, const struct mu_stub_answer *answer);

/* lost: the connection that there was has ended, behind the calls' ends; may be NULL. INVALID_ARGUMENT: no address. */
enum muster_status mu_stub_open(uv_loop_t *loop, const char *address, void (*lost)(void *arg, const char *why),
                                void *arg, struct mu_stub **ret_stub);
/* Its calls are not done any more. NULL is allowed. */
void mu_stub_close(struct mu_stub *stub);
/* The path is static; the message, malloc()ed, becomes the stub's, also on failure. timeout_ms: 0: none, once it is
 * connected; to connect it has `reach_ms`. NULL: no memory. */
struct mu_stub_call *mu_stub_call(struct mu_stub *stub, const char *path, void *message, size_t len, uint64_t reach_ms,
                                  uint64_t timeout_ms, mu_stub_done *done, void *arg);
/* Nothing is heard of it any more; the server is told, so that it may end what it does. */
void mu_stub_cancel(struct mu_stub_call *call);

#endif
