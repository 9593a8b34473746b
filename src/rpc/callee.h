/*
 * rpc/callee.h: calls to servers that are called often: each by one connection, which is kept, one call after the other
 * in the order in which they are made.
 *
 * An answer is not looked at beyond its status. A server that cannot be reached, that hangs up and is not there any
 * more, or that does not answer within its time is given up: its calls are dropped, and its owner is told why. Nothing
 * here waits. In the clear. One thread: the loop's. Nothing here keeps the loop alive.
 */
#ifndef MU_RPC_CALLEE_H
#define MU_RPC_CALLEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include <muster/status.h>

struct mu_callees;
struct mu_callee;

struct mu_callees_options {
    uv_loop_t *loop;
    uint64_t reach_ms;  /* a server that has never been reached is tried for so long; 0: 2 s */
    uint64_t answer_ms; /* for an answer; 0: 15 s */
    /* The call has been answered; why: NULL, or with what error. Calls may be made here. */
    void (*answered)(void *arg, struct mu_callee *callee, uint64_t tag, const char *why);
    /* It is given up, and closed here or later; was_said: the first call that is not answered may have come there. */
    void (*lost)(void *arg, struct mu_callee *callee, bool was_said, const char *why);
    void *arg;
};
enum muster_status mu_callees_open(const struct mu_callees_options *options, struct mu_callees **ret_callees);
/* All of them are closed; no function of the options is called any more. NULL is allowed. */
void mu_callees_close(struct mu_callees *callees);

/* Nothing is tried until the first call. INVALID_ARGUMENT: that is no address. */
enum muster_status mu_callee_new(struct mu_callees *callees, const char *address, void *owner,
                                 struct mu_callee **ret_callee);
/* Connect without a call, to notice when it ends. One that is not there yet is left alone after a while. */
void mu_callee_watch(struct mu_callee *callee);
bool mu_callee_was_there(const struct mu_callee *callee); /* it has been reached */
void *mu_callee_owner(const struct mu_callee *callee);
/* The path is static; the message is copied. False: no memory. How many wait is the owner's to bound. */
bool mu_callee_call(struct mu_callee *callee, uint64_t tag, const char *path, const void *message, size_t len);
/* Once all calls that were made have been answered, or cannot be. `lost` is not called any more. */
void mu_callee_close(struct mu_callee *callee);

#endif
