/*
 * muster/topology.h: what all nodes of the job have together.
 *
 * A task tells the others of its devices by a LocalTopologyProto, and all get the same GlobalTopologyProto with the
 * devices numbered (xla.DistributedRuntimeService.EnumerateDevices; in today's XLA the keys local_topology/... and
 * global_topology/... of the key-value store). Both forms of these messages are spoken.
 */
#ifndef MUSTER_TOPOLOGY_H
#define MUSTER_TOPOLOGY_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the messages ------------------------------------------------------------------------------------------------ */

enum muster_topology_form {
    MUSTER_FORM_XLA = 0,  /* today's xla/pjrt/distributed/protocol.proto */
    MUSTER_FORM_2020 = 1, /* xla.DistributedRuntimeService of 2020: the two cannot read each other */
};

/*
 * The GlobalTopologyProto of these locals, given in any order, with ids as the service of that form gives them.
 * Fields that we do not know are kept. Pure: equal locals, equal bytes. *ret_bytes is malloc()ed.
 * MUSTER_INVALID_ARGUMENT names the fault: bytes that are no local topology, text that is not UTF-8, a process id that
 * is given twice, is missing or out of range [0, count), a partition index with some only. MUSTER_RESOURCE_EXHAUSTED:
 * read, they take more than 256 MiB.
 */
MUSTER_API enum muster_status muster_topology_global(enum muster_topology_form form, const void *const *locals,
                                                     const size_t *sizes, size_t count, void **ret_bytes,
                                                     size_t *ret_size);

#ifdef __cplusplus
}
#endif
#endif
