/*
 * topology/shape.h: the node as nested boxes, to be shown.
 *
 * hwloc's tree, without what nobody asks of it: packages, memory nodes, L3 caches, cores, the PCI bridges that lead to
 * two accelerators or more, and these. A memory node is the box of the processors that it is nearest to. Without hwloc
 * there are packages, memory nodes and devices only.
 */
#ifndef MU_TOPOLOGY_SHAPE_H
#define MU_TOPOLOGY_SHAPE_H

#include <muster/topology.h>
#include <stdbool.h>

enum mu_box_kind {
    MU_BOX_MACHINE, /* the first, around all others */
    MU_BOX_PACKAGE,
    MU_BOX_NUMA,
    MU_BOX_L3,
    MU_BOX_CORE,
    MU_BOX_HOST_BRIDGE,
    MU_BOX_BRIDGE, /* of a PCI switch */
    MU_BOX_DEVICE, /* an accelerator or a part of one */
    MU_BOX_SWITCH, /* NVSwitches: `count` of them */
};

struct mu_box {
    enum mu_box_kind kind;
    int32_t parent, first, last, next; /* places of boxes; -1: none */
    int32_t number;                    /* hwloc's logical one; of a memory node the kernel's; -1: none */
    int32_t device;                    /* DEVICE, and a package where the processors are the devices; else -1 */
    uint32_t count;                    /* SWITCH */
    uint32_t cores, processors;        /* within */
    uint64_t bytes;                    /* of memory or cache; 0: not known */
    const char *name; /* a package's model, the address of a bridge, the kind of a memory node or core; "" */
    const char *cpus; /* "0-3,8"; "": it has none, or they are not known */
};

struct mu_shape {
    struct mu_box *boxes;
    size_t num_boxes;
};

/* From the first, by `first` and `next`: some in the array hang nowhere. Never NULL. */
const struct mu_box *mu_topology_boxes(const struct muster_topology *topology, size_t *ret_count);
/* 1: the device has NVLinks to switches. */
bool mu_topology_is_switched(const struct muster_topology *topology, size_t device);

struct mu_tree;

/* The boxes of hwloc's tree, while it is there. */
void mu_hwloc_tree_shape(const struct mu_tree *tree);
/* When the devices are known, and have their order: they get their boxes, and what leads to none goes. */
void mu_shape_finish(struct muster_topology *node);

#endif
