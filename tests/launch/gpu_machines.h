/* tests/launch/gpu_machines.h: nodes with GPUs, as the tests of this room need them. None of them exists. */
#ifndef TEST_GPU_MACHINES_H
#define TEST_GPU_MACHINES_H

#include "launch/binding/gpu.h"

struct test_gpu {
    uint32_t vendor; /* 0: the row ends */
    int numa;
    const char *cpus, *uuid, *name;
    int of;       /* a part: which GPU is divided; else -1 */
    int instance; /* a part's */
    int minor;
};

struct test_numa {
    int number; /* -1: the row ends */
    const char *cpus, *kind;
};

/* A connection of NVLinks, or of XGMI. */
struct test_wire {
    int from, to; /* -1: a switch; both 0: the row ends */
    uint32_t lanes;
};

struct test_node {
    const char *machine; /* in hwloc's words */
    const char *allowed; /* NULL: all processors */
    struct test_numa numas[16];
    struct test_gpu gpus[24];
    struct test_wire wires[32];
};

extern const struct test_node test_sixteen;  /* 16 GPUs on switches, two packages */
extern const struct test_node test_reversed; /* eight in pairs, whose nodes are not in order */
extern const struct test_node test_sparse;   /* NUMA 0 and 8, and the GPUs' own memory beside them */
extern const struct test_node test_unknown;  /* nothing is known of where they lie */
extern const struct test_node test_divided;  /* the second of three is divided in three */
extern const struct test_node test_mixed;    /* one maker's GPUs, not alike, and another's */
extern const struct test_node test_nameless; /* no UUIDs */
extern const struct test_node test_pairs;    /* four, connected 0-3 and 1-2 */
extern const struct test_node test_torn;     /* four, connected 0-1, 0-2 and 1-3, the first the strongest */

struct muster_topology *test_topology(const struct test_node *node);
/* The GPUs that `variables` (ended by NULL; may be NULL) leave. */
struct mu_launch_gpus *test_gpus(const struct test_node *node, char *const *variables);
/* Less what is not allowed. */
struct mu_launch_machine *test_machine(const struct test_node *node);

#endif
