/*
 * session/session.h: TensorFlow's master: sessions of graphs, for unmodified clients of MasterService.
 *
 * It lives in a libuv loop and is used in the loop's thread. What runs the graphs are executors, which are its owner's
 * (session/executor.h): any kind, and they may come and go. The protocol knows no password: clients are of this machine
 * and of this user, unless it is told to be insecure.
 */
#ifndef MU_SESSION_SESSION_H
#define MU_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "muster/status.h"
#include "session/executor.h"

struct mu_account;
struct mu_master;

struct mu_master_options {
    uv_loop_t *loop;
    const char *address;                  /* as mu_rpc_options.address */
    bool insecure, any_user;              /* likewise */
    struct mu_account *account;           /* of what is held; outlives the service */
    struct mu_executor *const *executors; /* all of them, now and later: the array is the owner's */
    uint32_t num_executors;
    bool awaits_ops;    /* mu_master_ops() is going to be called: sessions wait for it */
    uint64_t create_ms; /* the most that CreateSession waits for executors; 0: 30 s */
    uint64_t idle_ms;   /* a session is closed when no client has been connected so long; 0: 60 s */
    void (*said)(void *arg, const char *sentence); /* for people; may be NULL */
    void *arg;
};

/* UNAVAILABLE, INVALID_ARGUMENT: with a sentence. */
enum muster_status mu_master_start(const struct mu_master_options *options, struct mu_master **ret_service);
const char *mu_master_address(const struct mu_master *service); /* "127.0.0.1:2222" */
/* What ops and kernels there are, where no executor tells: OpList and KernelList; copied. False: they are no such
 * lists.
 */
bool mu_master_ops(struct mu_master *service, struct mu_executor_bytes ops, struct mu_executor_bytes kernels);
/* Nobody can tell them: sessions are refused with this reason. */
void mu_master_no_ops(struct mu_master *service, const char *why);
/* The executor is gone: its sessions' steps fail at once. `why`: "its process was killed by signal 9". */
void mu_master_lost(struct mu_master *service, const struct mu_executor *executor, const char *why);

struct mu_master_stats {
    uint32_t sessions, running;
    uint64_t created, closed, reset, collected; /* closed: by their clients; collected: without any client left */
    uint64_t steps, failed, direct;             /* direct: parts of steps that went past gRPC to their executor */
};
void mu_master_stats(const struct mu_master *service, struct mu_master_stats *ret_stats);
/* Closes every session. `stopped` is called when the loop has let go of everything: at once where there is none. */
void mu_master_stop(struct mu_master *service, void (*stopped)(void *arg), void *arg);

/* ---- remote.c: an executor that is a server of WorkerService ---- */
struct mu_remote_options {
    uv_loop_t *loop;
    const char *address;
    const char *job; /* NULL: it knows itself which task it is, and is asked */
    uint32_t task;
    int channel; /* 1 + a socket that ends in `muster executor`, the executor's once that is open; 0: none */
    /* Its connection has ended, or it does not answer any more. */
    void (*lost)(void *arg, struct mu_executor *executor, const char *why);
    void *arg;
};
enum muster_status mu_executor_remote_open(const struct mu_remote_options *options, struct mu_executor **ret_executor);
void mu_executor_remote_close(struct mu_executor *executor); /* NULL is allowed */

#endif
