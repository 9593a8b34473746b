/*
 * launch/binding/gpu.h: which GPUs the tasks of a job are given (--bind-to gpu), and what lies near them.
 *
 * A GPU is what muster_topology_load() tells of, less what the launcher's own variables hide: whole GPUs, or the MIG
 * instances of those that are divided. One rule for -n gpu and for --bind-to gpu.
 *
 * Functions that may fail return -1 and say why, without a newline, in `why`.
 */
#ifndef MU_LAUNCH_BINDING_GPU_H
#define MU_LAUNCH_BINDING_GPU_H

#include <muster/topology.h>

#include "launch/binding/bind.h"

/* ---- gpu_visible.c ----------------------------------------------------------------------------------------------- */

/* A stage of hiding: the first of its variables that is set counts. */
#define MU_LAUNCH_STAGES 2
struct mu_launch_maker {
    uint32_t vendor;
    const char *name;                        /* "NVIDIA" */
    const char *visible;                     /* the variable that tells a task of its GPUs */
    const char *stages[MU_LAUNCH_STAGES][3]; /* which the launcher itself is told by, in turn */
    const char *dropped[4];                  /* not handed on to the tasks: they have been obeyed */
};
extern const struct mu_launch_maker mu_launch_makers[];

/* Devices of one maker by places in the topology: whole GPUs in the order of their numbers. */
struct mu_launch_seen {
    const struct muster_topology *topology;
    size_t *list;
    size_t count;
};

/* What became of a list of a variable. */
struct mu_launch_visible {
    const char *odd;   /* where the list ends early, at the entry that names no GPU; NULL: nowhere */
    const char *again; /* an entry that names a GPU a second time; NULL: none */
    int by_number;     /* an entry was a number */
    int named_part;    /* an entry was a MIG instance */
};

/*
 * Keeps of `seen` what `text` names, in its order: numbers, UUIDs, beginnings of UUIDs that are one GPU's only,
 * "MIG-<uuid>", "MIG-GPU-<uuid>/<gpu instance>/<compute instance>"; PCI addresses too. A GPU that is divided stands for
 * its first part, as CUDA has it. The list ends at the first entry that is none of these or has been there. -1: no
 * memory.
 */
int mu_launch_visible(const char *text, struct mu_launch_seen *seen, struct mu_launch_visible *ret_visible);
/* The first part of a GPU, itself where it is not divided. */
size_t mu_launch_first_part(const struct muster_topology *topology, size_t device);

/* ---- gpu.c ------------------------------------------------------------------------------------------------------- */

/* A GPU, or a part of one, that a task may be given. */
struct mu_launch_gpu {
    size_t place; /* in the topology */
    const struct muster_device *device;
    const char *id;  /* for MUSTER_GPUS: its UUID, else its PCI address */
    char number[24]; /* where the UUIDs are not known: what its maker's variable calls it */
};

struct mu_launch_gpus {
    struct muster_topology *topology;
    const struct mu_launch_maker *maker; /* of all of them; NULL: there are none */
    struct mu_launch_gpu *list;          /* in the order of the variables, else of PCI addresses */
    size_t count;
    size_t num_there; /* before anything was hidden */
    int by_number;    /* UUIDs are not known */
    int has_parts;
    const char *foreign; /* NULL, or the variable that shows us another machine */
    char hider[400];     /* "CUDA_VISIBLE_DEVICES='3'", if one was set */
    struct mu_launch_notes notes;
};

/*
 * The GPUs of the node in `source` (NULL: this one) that the variables in `env` leave. None is no error. Some ms, with
 * NVIDIA's driver as long as NVML takes; as mu_launch_machine_load().
 */
int mu_launch_gpus_load(const struct muster_topology_source *source, char *const *env, struct mu_launch_gpus **ret_gpus,
                        char *why, size_t size);
/* The same of a topology, which becomes the result's (on failure, too). */
int mu_launch_gpus_of(struct muster_topology *topology, char *const *env, struct mu_launch_gpus **ret_gpus, char *why,
                      size_t size);
/* NULL is allowed. */
void mu_launch_gpus_free(struct mu_launch_gpus *gpus);
/* Why there are none. */
void mu_launch_gpus_lack(const struct mu_launch_gpus *gpus, char *why, size_t size);
/* What its maker's variable calls it. */
const char *mu_launch_gpu_name(const struct mu_launch_gpus *gpus, size_t gpu);
/* GPUs on the PCI buses below `root` ("" is this machine), or those that NVIDIA's driver tells of: quickly. */
uint32_t mu_launch_gpus_seen(const char *root);

/* ---- gpu_groups.c ------------------------------------------------------------------------------------------------ */

/*
 * `groups` groups of `each` GPUs, in ret_order[group * each + n]: those of a group are near each other, by links, then
 * NUMA node, then order. groups * each must not be more than there are. -1: no memory.
 */
int mu_launch_gpu_groups(const struct mu_launch_gpus *gpus, size_t groups, size_t each, size_t *ret_order);
/* The furthest of the links among them; SELF for one. */
struct muster_link mu_launch_gpu_link(const struct mu_launch_gpus *gpus, const size_t *list, size_t count);

/* ---- gpu_near.c -------------------------------------------------------------------------------------------------- */

struct mu_launch_machine;

/* Processors for tasks that want some. */
struct mu_launch_wish {
    const cpu_set_t *near; /* of the machine's set size; what the task would like */
    cpu_set_t *cpus;       /* becomes what it gets: whole cores of `near`, at least one */
    int shared;            /* becomes 1: another has them, too */
};
/* Evenly; nobody shares a core unless there are too few. -1: no memory. */
int mu_launch_split(const struct mu_launch_machine *machine, struct mu_launch_wish *wishes, uint32_t count);

/* ---- gpu_plan.c -------------------------------------------------------------------------------------------------- */

/*
 * A plan by GPUs. `binding->to_gpus` must be set; `machine` as for mu_launch_plan_make(). The plan refers to `gpus`.
 * Variables of the tasks lie in the places.
 */
int mu_launch_gpu_plan_make(const struct mu_launch_binding *binding, uint32_t num_tasks,
                            struct mu_launch_machine **machine, const struct mu_launch_gpus *gpus,
                            struct mu_launch_plan **ret_plan, char *why, size_t size);
/* Whether a command's own variables `env` contradict what its tasks are given. */
int mu_launch_gpu_check_env(const struct mu_launch_plan *plan, uint32_t first_task, uint32_t num_tasks,
                            char *const *env, char *why, size_t size);

/* ---- gpu_users.c ------------------------------------------------------------------------------------------------- */

/*
 * Says in `notes` which of the plan's GPUs tasks of other jobs of ours have been given: processes that we may ask, by
 * MUSTER_GPUS in their environment. Those of the job `run_id` (NULL: none), of which we are a task, do not count.
 */
void mu_launch_gpu_users(const struct mu_launch_plan *plan, const char *run_id, struct mu_launch_notes *notes);

#endif
