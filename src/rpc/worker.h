/*
 * rpc/worker.h: calls that the service makes to tasks that are servers themselves, as TensorFlow's workers are.
 *
 * Where they are is said by the user, never by a client; in the clear, which is all that those servers speak. A
 * connection is made for a call and ends with it. Nothing here waits: names are looked up in a thread of their own, so
 * many calls are under way at once, and each is over after its time, whatever its worker does or does not. One thread:
 * the loop's. Nothing here keeps the loop alive.
 */
#ifndef MU_RPC_WORKER_H
#define MU_RPC_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include <muster/segment.h>
#include <muster/status.h>

struct mu_workers;

struct mu_workers_options {
    uv_loop_t *loop;
    /* "n0:2222,n1:2222": of each task, in order; or one for all, in which {rank} stands for the task's number. */
    const char *addresses;
    uint32_t num_tasks;
    const struct muster_segment *seg; /* for the tasks' names; NULL: their numbers */
    uint64_t time_ns;                 /* for a call, from its beginning; 0: 5 s */
    /* How a call ended. Other calls may be made there. */
    void (*ended)(void *arg, uint32_t task, uint64_t tag, bool well);
    void (*said)(void *arg, const char *sentence); /* which worker was not reached and why, for people; may be NULL */
    void *arg;
};
/* INVALID_ARGUMENT: they are no such addresses, or of another number of tasks. */
enum muster_status mu_workers_check(const char *addresses, uint32_t num_tasks);
enum muster_status mu_workers_open(const struct mu_workers_options *options, struct mu_workers **ret_workers);
/* The worker's answer is not looked at beyond its status. The path is static. False: too many calls to it, or no
 * memory. */
bool mu_workers_call(struct mu_workers *workers, uint32_t task, uint64_t tag, const char *path, const void *message,
                     size_t len);
/* No call ends any more; the memory goes when the loop has run once more. NULL is allowed. */
void mu_workers_close(struct mu_workers *workers);

/* The cluster's workers in what TF_CONFIG says, as a list of addresses, if they are so many: malloc()ed. NULL: there
 * are none, or others, or that is no JSON. */
char *mu_workers_of_config(const char *json, uint32_t num_tasks);

#endif
