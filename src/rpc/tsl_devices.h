/* rpc/tsl_devices.h: WaitForAllTasks: what each task has told of its devices, and what all get (private to the room).
 */
#ifndef MU_RPC_TSL_DEVICES_H
#define MU_RPC_TSL_DEVICES_H

#include "rpc/dialect.h"
#include "rpc/tsl_coordination.pb-c.h"

/* The task is one of the segment's. Ends the visit. */
void mu_devices_wait(struct mu_visit *visit, int32_t task, const Mu__TslCoordination__WaitForAllTasksRequest *request);

/* The answer to these requests, in the order of their tasks, packed and malloc()ed. */
enum muster_status mu_devices_together(const ProtobufCBinaryData *requests, size_t count, uint64_t incarnation,
                                       void **ret_bytes, size_t *ret_size);

#endif
