/* agent/serve/mindspore.h: MindSpore's scheduler beside a job's tasks. */
#ifndef MU_AGENT_SERVE_MINDSPORE_H
#define MU_AGENT_SERVE_MINDSPORE_H

#include "agent/private.h"

const char *mu_agent_mindspore_address(const struct mu_agent *agent); /* NULL: it is not served */
bool mu_agent_mindspore_is_over(const struct mu_agent *agent);        /* a whole cluster has finished */
/* What MindSpore's node that the task is finds in its environment; also in a dry run. */
void mu_agent_mindspore_gift(const struct mu_agent *agent, uint32_t task_id, struct mu_agent_gift *gift);

#endif
