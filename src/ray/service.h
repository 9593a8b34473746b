/*
 * ray/service.h: the services of Ray's system of August 2016 on the wire: /Scheduler/ is served, for its drivers,
 * workers and object stores; /WorkerService/ and /ObjStore/ of these are called.
 *
 * What a request means is ray/sched.h. Nothing here waits for a peer but two answers, and those not for long: that of
 * an export, and of a worker's first request for a task, come when the workers have taken what is exported.
 */
#ifndef MU_RAY_SERVICE_H
#define MU_RAY_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include <muster/status.h>

#include "ray/sched.h"

struct mu_account;
struct mu_ray_service;

struct mu_ray_service_options {
    uv_loop_t *loop;
    const char *address; /* as mu_rpc_options.address, of rpc/server.h */
    bool insecure, any_user;
    struct mu_account *account;
    uint64_t reach_ms, answer_ms;                  /* as mu_callees_options has them, of rpc/callee.h */
    void (*said)(void *arg, const char *sentence); /* for people; may be NULL */
    void *arg;
};
/* INVALID_ARGUMENT, UNAVAILABLE: the address. */
enum muster_status mu_ray_service_start(const struct mu_ray_service_options *options,
                                        struct mu_ray_service **ret_service);
const char *mu_ray_service_address(const struct mu_ray_service *service);
void mu_ray_service_stats(const struct mu_ray_service *service, struct mu_ray_stats *ret_stats);
/* No new calls; clients may fetch their answers for grace_ns; then `stopped` is called, and the service is gone. */
void mu_ray_service_stop(struct mu_ray_service *service, uint64_t grace_ns, void (*stopped)(void *arg), void *arg);

#endif
