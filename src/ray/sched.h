/*
 * ray/sched.h: the scheduler of Ray's protocol of 2016 as a state: workers, stores, objects and their counts, aliases,
 * functions, tasks. It knows neither sockets nor clocks nor messages: a request is a call of a function here, which
 * answers at once; what is to be said to workers and stores comes out as calls, in order.
 *
 * A request that cannot be carried out changes nothing: the status says what kind of fault it is, muster_last_error()
 * which. Ids are dense from 0, each kind by itself. Work is in proportion to what a request names, whatever is queued
 * and however many objects there are: an object that becomes ready pushes the tasks that wait for it. One thread.
 */
#ifndef MU_RAY_SCHED_H
#define MU_RAY_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <muster/status.h>

#include "base/blob.h"
#include "base/pack.h"

#define MU_RAY_NIL UINT64_MAX /* on the wire: freed; a target that is not known; an operation of a driver */

enum mu_ray_kind {
    MU_RAY_EXECUTE,         /* to a worker: body */
    MU_RAY_IMPORT_FUNCTION, /* body */
    MU_RAY_IMPORT_VARIABLE, /* body */
    MU_RAY_DIE,
    MU_RAY_DELIVER, /* to a store: object, from the store at `address` */
    MU_RAY_ALIAS,   /* object is another name of target */
    MU_RAY_FREE,    /* object */
    MU_RAY_KINDS
};

struct mu_ray_call {
    enum mu_ray_kind kind;
    uint32_t peer; /* the worker's number, or the store's */
    uint64_t object, target;
    const char *address;  /* valid during the call */
    struct mu_blob *body; /* a whole request; to be held where it is kept */
};

struct mu_ray_sched;
struct mu_ray_options {
    size_t memory; /* bytes that it may hold; 0: 1 GiB */
    void (*call)(void *arg, const struct mu_ray_call *call);
    void (*said)(void *arg, const char *sentence); /* for people; may be NULL */
    void *arg;
};
struct mu_ray_sched *mu_ray_open(const struct mu_ray_options *options); /* NULL: no memory */
void mu_ray_close(struct mu_ray_sched *s);                              /* NULL is allowed */

struct mu_ray_text {
    const char *text; /* not NUL-terminated */
    size_t len;
};

/* ---- workers and stores: workers.c ---- */

struct mu_ray_worker_ids {
    uint32_t worker, store;
    const char *address, *store_address; /* valid until the next request */
};
/* UNAVAILABLE: no such store has registered yet. */
enum muster_status mu_ray_register_worker(struct mu_ray_sched *s, struct mu_ray_text ip, struct mu_ray_text store,
                                          bool is_driver, struct mu_ray_worker_ids *ret_ids);
enum muster_status mu_ray_register_store(struct mu_ray_sched *s, struct mu_ray_text address, uint32_t *ret_store);
enum muster_status mu_ray_export(struct mu_ray_sched *s, bool is_variable, const void *body, size_t len);
/* The worker has taken an export, or refused it. */
void mu_ray_import_done(struct mu_ray_sched *s, uint32_t worker);
/* ret_success: false: tasks are queued or run, and nothing is changed. */
void mu_ray_kill_workers(struct mu_ray_sched *s, bool *ret_success);
/* Its connection has ended: if KillWorkers has ended it, its references go now. */
void mu_ray_worker_left(struct mu_ray_sched *s, uint64_t worker);
/* Which references the worker holds is not known any more: they will not be dropped when it is lost. */
void mu_ray_distrust(struct mu_ray_sched *s, uint64_t worker);
/* It cannot be reached any more. has_task: it may have been told of its task, which has failed, then; else another
 * worker gets that. */
void mu_ray_worker_lost(struct mu_ray_sched *s, uint32_t worker, bool has_task, const char *why);
void mu_ray_store_lost(struct mu_ray_sched *s, uint32_t store, const char *why);
const char *mu_ray_worker_address(const struct mu_ray_sched *s, uint32_t worker); /* NULL: it is gone */
const char *mu_ray_store_address(const struct mu_ray_sched *s, uint32_t store);

/* ---- tasks: tasks.c ---- */

struct mu_ray_value {
    uint64_t id;
    const void *obj; /* NULL: by id */
    size_t len;
};
enum muster_status mu_ray_register_function(struct mu_ray_sched *s, uint64_t worker, struct mu_ray_text name,
                                            uint64_t num_returns);
/* ret_registered: false: nobody has registered the function, and nothing is changed. The results are numbered from
 * *ret_first. */
enum muster_status mu_ray_submit(struct mu_ray_sched *s, uint64_t worker, struct mu_ray_text name,
                                 const struct mu_ray_value *args, size_t num_args, bool *ret_registered,
                                 uint64_t *ret_first, uint64_t *ret_count);
struct mu_ray_outcome {
    bool succeeded;
    struct mu_ray_text words;
};
/* outcome: of the task that the worker had; NULL: it says nothing of one. */
enum muster_status mu_ray_ready_for_task(struct mu_ray_sched *s, uint64_t worker, const struct mu_ray_outcome *outcome);

/* ---- objects: objects.c, names.c ---- */

enum muster_status mu_ray_put(struct mu_ray_sched *s, uint64_t worker, uint64_t *ret_object);
/* DATA_LOSS: it will never be there. */
enum muster_status mu_ray_request(struct mu_ray_sched *s, uint64_t worker, uint64_t object);
enum muster_status mu_ray_alias(struct mu_ray_sched *s, uint64_t alias, uint64_t target);
enum muster_status mu_ray_object_ready(struct mu_ray_sched *s, uint64_t object, uint64_t store);
/* by: the worker that asks, as its connection says it; NIL: not known. */
enum muster_status mu_ray_increment(struct mu_ray_sched *s, uint64_t by, const uint64_t *ids, size_t count);
enum muster_status mu_ray_decrement(struct mu_ray_sched *s, uint64_t by, const uint64_t *ids, size_t count);
enum muster_status mu_ray_contain(struct mu_ray_sched *s, uint64_t by, uint64_t object, const uint64_t *ids,
                                  size_t count);

/* ---- what people and tests look at: info.c ---- */

/* SchedulerInfoReply and TaskInfoReply. RESOURCE_EXHAUSTED: it would be longer than a message may be. */
enum muster_status mu_ray_scheduler_info(const struct mu_ray_sched *s, struct mu_pack *to);
enum muster_status mu_ray_task_info(const struct mu_ray_sched *s, struct mu_pack *to);

struct mu_ray_stats {
    uint32_t workers, drivers, stores;                    /* that are not gone */
    uint64_t queued, running, succeeded, failed, objects; /* objects: that are not freed */
    size_t held;                                          /* bytes */
};
void mu_ray_stats(const struct mu_ray_sched *s, struct mu_ray_stats *ret_stats);

#endif
