/*
 * topology/node.h: what a node consists of while providers tell of it, and the table of the providers.
 *
 * Providers run in the order of the table in look.c, each on the same struct muster_topology: the first makes the
 * devices, those after it find them by PCI address, add what they know and say so in `sources`. A provider that cannot
 * serve leaves a note and is no error. Only mu_node_look() knows them all.
 */
#ifndef MU_TOPOLOGY_NODE_H
#define MU_TOPOLOGY_NODE_H

#include <muster/topology.h>

#include "topology/hwloc_library.h"
#include "topology/pci.h"
#include "topology/shape.h"

/* Ends of a wire that are no device of ours. */
#define MU_WIRE_SWITCH    (-1) /* a device with a wire to a switch reaches all others that have one */
#define MU_WIRE_ELSEWHERE (-2) /* a processor, or it was not told: connects nothing */

/* The NVLink or XGMI connections from a device to one end, bonded, as its driver tells. */
struct mu_wire {
    int32_t from, to;             /* devices, or one of the above */
    enum muster_link_level level; /* NVLINK or XGMI */
    uint32_t lanes;               /* 0: not told */
    uint64_t bandwidth_mbs;       /* of all lanes, each way; 0: not told */
};

/* A package becomes a device where there is no accelerator; the whole machine, where no package is known. */
struct mu_package {
    int32_t number;    /* hwloc's logical one; -1: it is the machine */
    int32_t numa_node; /* as a device's */
    const char *name, *vendor, *cpus;
    uint32_t sources;
    int32_t core_count;
    uint64_t memory_bytes;
};

/* What is known of a device besides. */
struct mu_where {
    struct mu_pci pci;
    /* The way to it from its host bridge, "pci0000:17/0000:17:00.0/0000:18:00.0/0000:1a:00.0"; "": not known. */
    const char *path;
};

struct muster_topology {
    char host[65], boot_id[40];
    int is_this_machine;      /* not read from a file, from words or from below another root */
    const char *root;         /* "": this machine's files; NULL: no files tell of it */
    struct mu_hwloc *library; /* hwloc's functions, while providers look; NULL: it is not here */
    struct muster_device *devices;
    struct mu_where *wheres; /* one a device */
    size_t num_devices;
    struct mu_package *packages; /* by hwloc's logical number */
    size_t num_packages;
    struct muster_link *links; /* num_devices * num_devices, [a * num_devices + b] */
    struct muster_numa *numas;
    size_t num_numas;
    struct mu_wire *wires; /* become links when all have told */
    size_t num_wires;
    uint32_t num_lost; /* GPUs that their driver counts as lost and that are not among the devices */
    struct mu_shape shape;
    const char **notes;
    size_t num_notes;
    struct mu_text *texts;     /* every string of the above */
    int failed;                /* no memory: the node is not whole */
    int too_many;              /* devices; said once */
    int too_many_wires;        /* likewise */
    enum muster_status status; /* of a provider without which there is no node; the thread's last sentence says why */
};

/* ---- node.c ------------------------------------------------------------------------------------------------------ */

/* A string of the node's, freed with it. printf's form; "" without memory (then `failed` is set). */
const char *mu_node_text(struct muster_topology *node, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mu_node_note(struct muster_topology *node, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * A device behind the others, all its numbers "not known", its strings "", `pci` (may be NULL) written out. NULL: no
 * memory, or there are too many (then a note says so). Moves the others.
 */
struct muster_device *mu_node_add_device(struct muster_topology *node, enum muster_device_kind kind,
                                         const struct mu_pci *pci);
/* The GPU (not a part) at this address; NULL: there is none. */
struct muster_device *mu_node_find_device(struct muster_topology *node, const struct mu_pci *pci);
/* The GPU's index now; both before and after mu_node_look() has ordered them. */
int32_t mu_node_index(const struct muster_topology *node, const struct muster_device *device);
/*
 * All lanes between two ends at once: of two wires with the same ends the one with more lanes, then bandwidth, counts.
 * Wires may be told from one end or from both.
 */
void mu_node_add_wire(struct muster_topology *node, const struct mu_wire *wire);
/* NULL: no memory. Moves the others. */
struct muster_numa *mu_node_add_numa(struct muster_topology *node, int32_t number);
struct mu_package *mu_node_add_package(struct muster_topology *node);
/* Let only the devices order[0..count-1] be, in this order; parents and wires follow. 0, or -1: no memory. */
int mu_node_reorder(struct muster_topology *node, const int32_t *order, size_t count);
struct muster_topology *mu_node_new(void);

/* ---- providers --------------------------------------------------------------------------------------------------- */

/* What a provider may need to know besides. */
struct mu_look {
    const struct muster_topology_source *source;
    hwloc_topology_t tree; /* NULL: load one */
    const char *library;   /* hwloc's; NULL: libhwloc.so.15. Tests look elsewhere. */
};

/* Of which machines a provider can tell. */
enum mu_provider_reach {
    MU_REACH_ANY,   /* also one in a file or in words */
    MU_REACH_FILES, /* one with its /sys and /proc below node->root */
    MU_REACH_HERE,  /* only this one: it asks a driver */
};

struct mu_provider {
    const char *name;
    enum mu_provider_reach reach;
    void (*look)(struct muster_topology *node, const struct mu_look *look);
};

void mu_provider_hwloc(struct muster_topology *node, const struct mu_look *look); /* by_hwloc.c */
void mu_provider_sysfs(struct muster_topology *node, const struct mu_look *look); /* by_sysfs.c: PCI and /proc */
void mu_provider_kfd(struct muster_topology *node, const struct mu_look *look);   /* by_kfd.c: AMD */
void mu_provider_nvml(struct muster_topology *node, const struct mu_look *look);  /* by_nvml.c */
/* Ask NVML now, and keep its answers in this machine's tree: a look with that tree does not ask again. */
void mu_nvml_keep(const struct mu_hwloc *hwloc, hwloc_topology_t tree);
void mu_provider_cuda(struct muster_topology *node, const struct mu_look *look); /* by_cuda.c */

/* ---- links.c ----------------------------------------------------------------------------------------------------- */

/* Of all pairs, from wires, paths and NUMA nodes. */
void mu_node_link(struct muster_topology *node);

/* ---- look.c ------------------------------------------------------------------------------------------------------ */

/* All providers, then order, parents, links and CPU devices. muster_topology_load() with a tree that is there. */
enum muster_status mu_node_look(const struct mu_look *look, struct muster_topology **ret_topology);

#endif
