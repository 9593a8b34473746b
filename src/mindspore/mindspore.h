/*
 * mindspore/mindspore.h: the scheduler of MindSpore's clusters, for unmodified workers and servers: it gives them their
 * ranks, tells each of the others, of a death at once, of scaling, and ends them together.
 *
 * One listener knows the protocol by the first four bytes: ps core's frames (MindSpore 1.5 to 1.8), RPC0 (1.10 to 2.10,
 * msrun), and HTTP for the paths by which people scale. It lives in a libuv loop and is used in the loop's thread. The
 * protocols know no password: clients are of this machine and of this user, unless the server is told to be insecure.
 */
#ifndef MU_MINDSPORE_MINDSPORE_H
#define MU_MINDSPORE_MINDSPORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "muster/status.h"

struct mu_account;
struct mu_mindspore;

struct mu_mindspore_options {
    uv_loop_t *loop;
    const char *address; /* "127.0.0.1:8118" */
    const char *rest;    /* one more, for HTTP: "127.0.0.1:11202"; NULL: none */
    uint32_t servers, workers;
    uint64_t scale_ns;                             /* for each half of a scaling; 0: 60 s */
    uint64_t silence_ns;                           /* after which a node that does not beat is lost; 0: 30 s */
    unsigned found;                                /* RPC0's answer of a key that is there: 10, 11; 0: found out */
    bool insecure;                                 /* an address that other machines reach; any user's nodes */
    struct mu_account *account;                    /* of what is held; outlives the server */
    void (*said)(void *arg, const char *sentence); /* for people */
    void *arg;
};

/* UNAVAILABLE, ALREADY_EXISTS, INVALID_ARGUMENT, FAILED_PRECONDITION: with a sentence. */
enum muster_status mu_mindspore_start(const struct mu_mindspore_options *options, struct mu_mindspore **ret_server);
const char *mu_mindspore_address(const struct mu_mindspore *server); /* "127.0.0.1:8118" */
/* "READY servers 2/2 workers 2/2 scalings 1" */
void mu_mindspore_describe(const struct mu_mindspore *server, char *text, size_t size);
/* A cluster was complete, and all its nodes have finished. */
bool mu_mindspore_is_over(const struct mu_mindspore *server);

/* Closes every connection. `stopped`, which may be NULL, is called when the loop has let go of everything. */
void mu_mindspore_stop(struct mu_mindspore *server, void (*stopped)(void *arg), void *arg);

#endif
