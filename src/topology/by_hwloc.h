/*
 * topology/by_hwloc.h: what the files that read hwloc's tree share.
 */
#ifndef MU_TOPOLOGY_BY_HWLOC_H
#define MU_TOPOLOGY_BY_HWLOC_H

#include "topology/node.h"

struct mu_tree {
    const struct mu_hwloc *library;
    hwloc_topology_t root;
    struct muster_topology *node;
};

/* by_hwloc.c: what a PCI device of the tree is. */
enum mu_pci_kind mu_hwloc_tree_pci(hwloc_obj_t object, struct mu_pci *ret_pci);
/* by_hwloc.c: "0-3,8"; "" where the set is empty or has no end. */
const char *mu_hwloc_tree_list(const struct mu_tree *tree, hwloc_const_bitmap_t set);
/* by_hwloc_wires.c: its matrices of NVLinks and XGMI become wires. */
void mu_hwloc_tree_wires(const struct mu_tree *tree);

#endif
