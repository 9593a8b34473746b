/*
 * topology/get.c: the topology of the node that a job runs on, by the tree that its tasks share.
 *
 * hwloc stays open in a process that has asked for its tree: the tree is full of its functions, and the caller's own
 * libhwloc is the same library, opened twice.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "topology/node.h"
#include "topology/share.h"

static struct mu_hwloc library;
static char library_fault[400]; /* why it is not open; "": it is */

static void hwloc_open(void)
{
    if (mu_hwloc_open(NULL, &library, library_fault, sizeof library_fault) == 0)
        library_fault[0] = '\0';
}

/* `muster` only says that the caller is of a job: the variable is the launcher's word to its tasks. */
static enum muster_status get_tree(struct muster *muster, hwloc_topology_t *ret_topology)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    enum mu_share_way way;

    pthread_once(&once, hwloc_open);
    if (library_fault[0])
        return mu_fail(MUSTER_UNAVAILABLE, "%s", library_fault);
    return mu_share_get(&library, muster ? getenv("MUSTER_TOPOLOGY") : NULL, MU_SHARE_PATIENCE_NS, ret_topology, &way);
}

enum muster_status muster_topology_hwloc(struct muster *muster, struct hwloc_topology **ret_topology)
{
    if (!ret_topology)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "no place for the topology");
    return get_tree(muster, ret_topology);
}

enum muster_status muster_topology_get(struct muster *muster, struct muster_topology **ret_topology)
{
    const struct muster_topology_source here = {0};
    struct mu_look look = {.source = &here};
    enum muster_status status;

    if (!ret_topology)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "no place for the topology");
    status = get_tree(muster, &look.tree);
    if (status != MUSTER_OK)
        return status;
    status = mu_node_look(&look, ret_topology);
    library.hwloc_topology_destroy(look.tree);
    return status;
}
