/* agent/checkpoint/keep.h: what an adopter does besides the component's steps. */
#ifndef MU_AGENT_CHECKPOINT_KEEP_H
#define MU_AGENT_CHECKPOINT_KEEP_H

struct mu_agent;

/* Write checkpoints on where the launcher wrote them; what keeps it from that is said. */
void mu_agent_keep_on(struct mu_agent *agent);

#endif
