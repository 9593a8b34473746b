/*
 * topology/share.h: hwloc's tree of this node, loaded by one process and mapped by the others.
 *
 * The launcher makes an empty memfd and tells its tasks where it is (MUSTER_TOPOLOGY=/proc/PID/fd/N); that costs it
 * some us. The first task that asks fills it: our header, the tree as XML, the tree as hwloc maps it (last, because
 * hwloc_shmem_topology_write() sets the file's end behind what it writes). Then it is sealed: a task that finds the
 * seals finds it whole, and nobody can write to it any more, or make it shorter under tasks that have mapped it.
 *
 * One fills at a time: the holder of the kernel's lock on the open file (F_OFD_SETLK). A death releases it and leaves a
 * file without seals, which the next empties and fills anew. A task that finds the lock taken looks again for some
 * seconds; then it loads for itself: a stopped process delays nobody for good.
 */
#ifndef MU_TOPOLOGY_SHARE_H
#define MU_TOPOLOGY_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "topology/hwloc_library.h"

/* How a tree was come by. */
enum mu_share_way {
    MU_SHARE_ADOPTED, /* mapped: another process had filled the memfd */
    MU_SHARE_FILLED,  /* loaded, and the memfd filled with it */
    MU_SHARE_XML,     /* the memfd's XML: its addresses are taken here, or another hwloc wrote it */
    MU_SHARE_LOADED,  /* loaded for this process alone */
};

/* The memfd, and its path for tasks. The descriptor, or -1: errno says why. */
int mu_share_create(char *ret_path, size_t size);

/* How long to wait for the filler: the slowest load known takes 4 s alone, and NVML may be silent for 10 s. */
#define MU_SHARE_PATIENCE_NS 20000000000ull

/* `path` NULL: none. Nothing is shared where a variable shows hwloc another machine than this one. */
enum muster_status mu_share_get(const struct mu_hwloc *hwloc, const char *path, uint64_t patience_ns,
                                hwloc_topology_t *ret_topology, enum mu_share_way *ret_way);

#endif
