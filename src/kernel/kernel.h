/*
 * kernel/kernel.h: small graphs, run without TensorFlow: ops, kernels, variables, queues, steps.
 *
 * One thread, the loop's, which is never held up for long: a step runs for a given time and is then to be called again;
 * a step that waits for a queue, or for a tensor from elsewhere, is woken by what it waits for; and a kernel that takes
 * long is handed to the step's owner, which may have another thread run it. Nothing here knows a session or a socket.
 * Graphs may be hostile: they are checked whole before they are taken.
 */
#ifndef MU_KERNEL_KERNEL_H
#define MU_KERNEL_KERNEL_H

#include "kernel/tensor.h"

struct mu_kernel_graph;
struct mu_kernel_step;
struct mu_kernel_work;
struct mu_resources; /* variables and queues, by container and name */
struct mu_rendezvous;

/* ---- registry.c: which ops there are: TensorFlow's OpList and KernelList ----------------------------------------- */

/* The bytes, and the list read; as long as the process is. False: no memory. */
struct mu_kernel_lists {
    const uint8_t *ops, *kernels;
    size_t ops_len, kernels_len;
};
bool mu_kernel_lists(struct mu_kernel_lists *ret_lists);

/* ---- resource.c -------------------------------------------------------------------------------------------------- */

struct mu_resources *mu_resources_new(void); /* NULL: no memory */
/* Steps that wait for its queues are told that these are gone. Of graphs that have it, none may be left. */
void mu_resources_free(struct mu_resources *resources);
/* Forgets a container's; a step that has one keeps it until it ends. */
void mu_resources_clear(struct mu_resources *resources, const char *container);
uint32_t mu_resources_count(const struct mu_resources *resources);

/* ---- graph.c ----------------------------------------------------------------------------------------------------- */

struct mu_kernel_home {
    struct mu_kernel_memory *memory;
    struct mu_resources *shared; /* variables, and queues that have a name */
    struct mu_resources *own;    /* queues that have none: of one session */
    const char *container;       /* the default one; copied */
};
/* GraphDef: checked and compiled. NULL: error says why. */
struct mu_kernel_graph *mu_kernel_graph_new(const struct mu_kernel_home *home, const void *bytes, size_t len,
                                            struct mu_kernel_error *error);
void mu_kernel_graph_drop(struct mu_kernel_graph *graph); /* its steps hold it, too */

/* ---- rendezvous.c: tensors on their way, by key, within the steps of one number ---------------------------------- */

struct mu_rendezvous *mu_rendezvous_new(void); /* one holder */
struct mu_rendezvous *mu_rendezvous_hold(struct mu_rendezvous *rendezvous);
void mu_rendezvous_drop(struct mu_rendezvous *rendezvous);
/* The tensor is held. False: no memory, or one with that key is there. */
bool mu_rendezvous_put(struct mu_rendezvous *rendezvous, const char *key, struct mu_tensor *tensor,
                       struct mu_kernel_error *error);
bool mu_rendezvous_has(const struct mu_rendezvous *rendezvous, const char *key);
struct mu_tensor *mu_rendezvous_take(struct mu_rendezvous *rendezvous, const char *key); /* NULL: it is not there */

/* ---- step.c ------------------------------------------------------------------------------------------------------ */

enum mu_step_state {
    MU_STEP_MORE,  /* call mu_kernel_step_run() again soon */
    MU_STEP_WAITS, /* it will be woken */
    MU_STEP_DONE,  /* its error says how */
};
struct mu_kernel_step_options {
    struct mu_kernel_graph *graph; /* held */
    struct mu_rendezvous *rendezvous;
    void (*wake)(void *arg); /* it waits no longer: run it; called from anywhere but mu_kernel_step_run() of itself */
    /* A kernel that takes long: call mu_kernel_work_run() in any thread, then mu_kernel_work_end() in the loop's. NULL:
     * all run at once. False: this one is to. */
    bool (*offload)(void *arg, struct mu_kernel_work *work);
    void *arg;
};
struct mu_kernel_step *mu_kernel_step_new(const struct mu_kernel_step_options *options, struct mu_kernel_error *error);
enum mu_step_state mu_kernel_step_run(struct mu_kernel_step *step, uint64_t for_ns);
/* The first error stands. What waits is let go; kernels that run elsewhere are waited for: see is_idle. */
void mu_kernel_step_cancel(struct mu_kernel_step *step, enum muster_status status, const char *text);
const struct mu_kernel_error *mu_kernel_step_error(const struct mu_kernel_step *step);
bool mu_kernel_step_is_idle(const struct mu_kernel_step *step); /* nothing of it runs elsewhere: it may be freed */
void mu_kernel_step_free(struct mu_kernel_step *step);
void mu_kernel_work_run(struct mu_kernel_work *work);
void mu_kernel_work_end(struct mu_kernel_work *work); /* wakes its step */

#endif
