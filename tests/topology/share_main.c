/*
 * tests/topology/share_main.c: a task that asks for hwloc's tree and says how it came by it.
 *
 * Usage: share          prints how, and the number of processors
 *        share public   the same number, by the public calls, and what the node has
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/muster.h>

#include "topology/share.h"

static unsigned processors_of(const struct mu_hwloc *hwloc, hwloc_topology_t topology)
{
    return hwloc->hwloc_get_nbobjs_by_depth(topology, hwloc->hwloc_get_type_depth(topology, HWLOC_OBJ_PU));
}

static int ask_publicly(const struct mu_hwloc *hwloc)
{
    struct muster_topology *node = NULL;
    hwloc_topology_t topology;
    struct muster *muster;

    if (muster_join(NULL, &muster) || muster_topology_hwloc(muster, &topology) || muster_topology_get(muster, &node)) {
        fprintf(stderr, "%s\n", muster_last_error());
        return 1;
    }
    printf("%u processors, %zu devices, the first is a %s\n", processors_of(hwloc, topology),
           muster_topology_num_devices(node),
           muster_topology_device(node, 0)->kind == MUSTER_DEVICE_CPU ? "CPU" : "GPU");
    muster_topology_free(node);
    hwloc->hwloc_topology_destroy(topology);
    muster_leave(muster);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"adopted", "filled", "xml", "loaded"};
    enum mu_share_way way = MU_SHARE_LOADED;
    hwloc_topology_t topology;
    struct mu_hwloc hwloc;
    char why[400];

    if (mu_hwloc_open(NULL, &hwloc, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    if (argc > 1 && strcmp(argv[1], "public") == 0)
        return ask_publicly(&hwloc);
    if (mu_share_get(&hwloc, getenv("MUSTER_TOPOLOGY"), MU_SHARE_PATIENCE_NS, &topology, &way)) {
        fprintf(stderr, "%s\n", muster_last_error());
        return 1;
    }
    printf("%s %u\n", ways[way], processors_of(&hwloc, topology));
    hwloc.hwloc_topology_destroy(topology);
    mu_hwloc_close(&hwloc);
    return 0;
}
