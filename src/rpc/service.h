/*
 * rpc/service.h: a job's coordination service over gRPC: the server, the engine and the three dialects, put together.
 *
 * Spoken on one port: xla.coordination.CoordinationService (today's XLA and JAX), tensorflow.CoordinationService
 * (TensorFlow, JAX 0.3.16 to 0.9) and xla.DistributedRuntimeService (older ones). All three stand before one engine:
 * the same tasks, keys, barriers and errors. One thread: the loop's.
 */
#ifndef MU_RPC_SERVICE_H
#define MU_RPC_SERVICE_H

#include <muster/status.h>
#include <stdbool.h>
#include <stdint.h>

struct mu_coord;
struct mu_rpc_tls;
struct mu_service;

struct mu_service_options {
    const char *address; /* as mu_rpc_options.address */
    /*
     * "worker:2,ps:1": the names of TensorFlow's jobs with the number of their tasks, which are the segment's tasks in
     * this order. NULL: all tasks are of one job, whatever its name.
     */
    const char *jobs;
    /* Where tasks are servers themselves, to be told of errors: as mu_workers_options.addresses (rpc/worker.h). NULL:
     * none is called. */
    const char *workers;
    uint64_t workers_ns;          /* for a call of these; 0: 5 s */
    struct mu_coord *coord;       /* its loop and handle serve here, too; outlives the service */
    const struct mu_rpc_tls *tls; /* as mu_rpc_options.tls */
    bool insecure, any_user;      /* likewise */
};

/* INVALID_ARGUMENT (the jobs are not so many tasks as the segment has; the address), UNAVAILABLE (it is taken). */
enum muster_status mu_service_start(const struct mu_service_options *options, struct mu_service **ret_service);

/* Where it listens: "127.0.0.1:4711", "unix:/path". */
const char *mu_service_address(const struct mu_service *service);

struct mu_service_stats {
    uint32_t connections;
    uint32_t parked; /* calls that are not answered yet */
};
void mu_service_stats(const struct mu_service *service, struct mu_service_stats *ret_stats);
/* How many calls of each method ("xla.coordination.CoordinationService/Barrier") have ended with each code ("OK"). */
void mu_service_calls(const struct mu_service *service,
                      void (*row)(void *arg, const char *method, const char *code, uint64_t count), void *arg);

/*
 * Answer everything that waits (the engine stops), take no new calls, and let clients fetch their answers for grace_ns;
 * then `stopped` is called (it may be NULL), from the loop. The service is gone then; the engine can be freed.
 */
void mu_service_stop(struct mu_service *service, uint64_t grace_ns, void (*stopped)(void *arg), void *arg);

#endif
