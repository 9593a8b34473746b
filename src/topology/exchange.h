/* topology/exchange.h: the exchange of topologies, for an agent that speaks for a task. */
#ifndef MU_TOPOLOGY_EXCHANGE_H
#define MU_TOPOLOGY_EXCHANGE_H

#include <muster/topology.h>

/*
 * muster_topology_exchange() on behalf of `task_id` and its process `incarnation`. An event loop calls it with a
 * deadline in the past, again and again with the same local topology: DEADLINE_EXCEEDED means not yet.
 */
enum muster_status mu_topology_exchange(struct muster *m, int32_t task_id, uint64_t incarnation, const char *name,
                                        enum muster_topology_form form, const void *local, size_t local_size,
                                        muster_deadline deadline, void **ret_global, size_t *ret_size);

#endif
