/*
 * compat/tcpstore.h: a server for PyTorch's TCPStore: for unmodified clients, of all versions since 1.13. Their keys
 * are keys of the job's store, under "tcpstore/".
 *
 * It lives in a libuv loop and is used in the loop's thread, over the engine (coord/coord.h): so what a client sets
 * wakes the tasks of the C library that wait for it, and the other way round, and a job of several hosts has a server
 * on each. Both of the protocol's dialects are known, by the first bytes of a connection. The protocol knows no
 * password: clients are of this machine and of this user, unless the server is told to be insecure.
 */
#ifndef MU_COMPAT_TCPSTORE_H
#define MU_COMPAT_TCPSTORE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "muster/status.h"

struct mu_account;
struct mu_coord;
struct mu_tcpstore;

struct mu_tcpstore_options {
    uv_loop_t *loop;
    struct mu_coord *coord;                        /* outlives the server */
    const char *address;                           /* "127.0.0.1:29500", ":0", "*:29500" */
    bool insecure;                                 /* an address that other machines reach; any user's clients */
    uint32_t clients;                              /* connections at most; 0: 65536 */
    struct mu_account *account;                    /* of what is held; outlives the server. NULL: one of 1 GiB */
    uint32_t stall_ms;                             /* for a client with memory that others wait for; 0: 10 s */
    void (*said)(void *arg, const char *sentence); /* for people; bounded in number. May be NULL */
    void *arg;
};

/* UNAVAILABLE, ALREADY_EXISTS, INVALID_ARGUMENT, FAILED_PRECONDITION: with a sentence. */
enum muster_status mu_tcpstore_start(const struct mu_tcpstore_options *options, struct mu_tcpstore **ret_store);
const char *mu_tcpstore_address(const struct mu_tcpstore *store); /* "127.0.0.1:4711" */

enum { MU_TCPSTORE_CALLS = 20 };                  /* kinds of them */
const char *mu_tcpstore_call_name(unsigned call); /* "SET" */

struct mu_tcpstore_stats {
    uint32_t connections, waiting; /* open; and those of them that wait for a key or at a barrier */
    uint64_t accepted, refused;    /* since the start */
    uint64_t calls[MU_TCPSTORE_CALLS];
    uint64_t bytes_in, bytes_out;
    uint64_t held; /* bytes of memory, for requests that are not whole, answers that are not taken, and waits */
};
void mu_tcpstore_stats(const struct mu_tcpstore *store, struct mu_tcpstore_stats *ret_stats);

/* Closes every connection. `stopped`, which may be NULL, is called when the loop has let go of everything: the engine
 * may be stopped then. */
void mu_tcpstore_stop(struct mu_tcpstore *store, void (*stopped)(void *arg), void *arg);

#endif
