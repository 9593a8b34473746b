/* task/remote.h: what is asked about tasks of other hosts, in steps (segment/steps.h). */
#ifndef MU_TASK_REMOTE_H
#define MU_TASK_REMOTE_H

#include "segment/steps.h"

/*
 * MU_OP_ERROR_REPORT, MU_OP_TASK_RESET, MU_OP_TASK_HEARTBEAT. The request is {task, code, incarnation, message} in each
 * of them, so that one function reads it. A reset has in their place the state and the registration that the caller
 * sees the task in: one that is made again knows by them whether it was carried out.
 */
void mu_task_remote_begin(struct mu_steps *steps, const struct muster_segment *seg, enum mu_op op, uint32_t task,
                          uint32_t code, uint64_t incarnation, const char *message);

#endif
