/*
 * bridge/core/control.h: what the agents of a job say to each other, over the bridge: start, task ended, end, over.
 *
 * To the bridge a message is a number, the kind, and bytes; agent/hosts/talk.h knows what they mean. Each arrives once
 * and in the order in which it was sent, however often the connection breaks in between, for as long as neither agent
 * dies. Of an agent that took a dead one's place the other hears, as a message of kind MU_CONTROL_ANOTHER: what the
 * dead one had heard its successor may not know.
 */
#ifndef MU_BRIDGE_CORE_CONTROL_H
#define MU_BRIDGE_CORE_CONTROL_H

#include "bridge/core/core.h"

#define MU_CONTROL_MAX (1u << 20) /* bytes of a message, most */

#define MU_CONTROL_ANOTHER 0u /* a kind that nobody sends */

/* To one host (a follower: to the leader alone), or to all peers: UINT32_MAX. One that is lost is not told. */
void mu_control_send(struct mu_core *core, uint32_t host, uint32_t kind, const void *bytes, size_t len);

#endif
