/*
 * ray/wire.h: what the files of the wire share (private to the room).
 *
 *   service.c  opening and stopping; calls that are not answered at once
 *   methods.c  one function for each method: from its request to its reply
 *   calls.c    what the scheduler says to workers and stores, and what becomes of it
 */
#ifndef MU_RAY_WIRE_H
#define MU_RAY_WIRE_H

#include <protobuf-c/protobuf-c.h>

#include "ray/service.h"
#include "rpc/callee.h"
#include "rpc/server.h"

/* A worker or a store, from the first call to it on. */
struct mu_ray_peer {
    struct mu_ray_service *service;
    bool is_worker, is_broken; /* is_broken: a call to it could not be made */
    bool is_wanted;            /* it has been called for more than to free */
    bool is_late;              /* a request waited for it in vain: none does, until it answers */
    uint32_t id;
    struct mu_callee *callee;          /* NULL: none, or no more */
    uint32_t num_calls, until_execute; /* not answered, but for those that free; to the one that has the worker's task:
                                          0: it has heard of it */
    char why[120];                     /* it is broken */
};

struct mu_ray_peers {
    struct mu_ray_peer **all; /* by number; NULL: not called yet */
    uint32_t room;
};

/* A call that is answered when these imports are, or when a store has come. */
struct mu_ray_visit {
    struct mu_ray_visit *next, *prev;
    struct mu_ray_service *service;
    struct mu_rpc_call *call;
    uint64_t until_ms;
    struct mu_ray_import {
        uint32_t worker;
        uint64_t number; /* the last import's */
    } * imports;
    uint32_t num_imports, room_imports;
    bool is_worker; /* the worker's own: without it there is nobody to answer */
    bool is_registration, is_driver;
    size_t ip_len, store_len;
    char *texts; /* ip, store */
};

struct mu_ray_service {
    struct mu_ray_service_options o;
    struct mu_rpc *rpc;
    struct mu_ray_sched *sched;
    struct mu_callees *callees;
    struct mu_ray_peers workers, stores;
    bool has_broken;
    uint64_t caller;              /* the worker that a request's connection stands for; NIL: none */
    uint64_t num_imports;         /* that were ever sent */
    struct mu_ray_visit *current; /* collects the imports that its request sends; NULL: none is wanted */
    struct mu_ray_visit *visits, *last_visit;
    uv_timer_t timer;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

extern const struct mu_rpc_method mu_ray_methods[]; /* ends with {0} */

/* ---- service.c ---- */
struct mu_ray_visit *mu_ray_visit_new(struct mu_ray_service *s, struct mu_rpc_call *call); /* NULL: refused */
/* Its request has been carried out: now, or when its imports have been taken. */
void mu_ray_visit_go(struct mu_ray_visit *v);
void mu_ray_visit_free(struct mu_ray_visit *v);
void mu_ray_visit_wait(struct mu_ray_visit *v, uint64_t ms);
/* The worker has taken that import; it takes no more. */
void mu_ray_imported(struct mu_ray_service *s, uint32_t worker, uint64_t number);
void mu_ray_import_lost(struct mu_ray_service *s, uint32_t worker, const char *why);

/* ---- methods.c ---- */
/* A connection has ended. */
void mu_ray_caller_left(void *service, struct mu_rpc_conn *conn, const char *why);
/* A registration has an answer. */
bool mu_ray_register_try(struct mu_ray_visit *v);

/* ---- calls.c ---- */
enum muster_status mu_ray_calls_open(struct mu_ray_service *s);
void mu_ray_calls_close(struct mu_ray_service *s);
/* The store has registered: notice when it ends. */
void mu_ray_calls_watch(struct mu_ray_service *s, uint32_t store);
void mu_ray_calls_late(struct mu_ray_service *s, uint32_t worker);
void mu_ray_calls_make(void *service, const struct mu_ray_call *call);
/* Peers that could not be called are lost, now that the request is over. */
void mu_ray_calls_settle(struct mu_ray_service *s);

#endif
