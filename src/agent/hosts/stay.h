/* agent/hosts/stay.h: what outlives an attempt of a job of several hosts: followers' agents, and checkpoints. */
#ifndef MU_AGENT_HOSTS_STAY_H
#define MU_AGENT_HOSTS_STAY_H

#include "agent/private.h"

/* A follower: its process goes on with the next attempt. */
int mu_agent_is_staying(const struct mu_agent *agent);
/* As things stand at its end, the job will be started again, after so long; nothing is said. (attempt.c) */
int mu_agent_may_begin_again(const struct mu_agent *agent, uint64_t *ret_delay_ns);

/* Checkpoints (checkpoints.c): an adopter looks after them from now on. 0, or -1 with the reason said. Another agent
 * knows nothing of what was told. */
int mu_agent_begin_checkpoints(struct mu_agent *agent);
void mu_agent_tell_checkpoints_again(struct mu_agent *agent);

#endif
