/*
 * agent/run.c: `muster run`: the life of a job with the launcher's children as its tasks.
 *
 * The timeout counts from here over all attempts. The exit status is decided before anything is given back; output that
 * could not be written then changes a 0 into the launcher's own failure.
 */
#include "agent/private.h"

int mu_agent_run(const struct mu_agent_options *options)
{
    struct mu_agent agent;
    int status;

    if (mu_agent_init(&agent, options, mu_components))
        return MU_AGENT_EXIT_FAILED;
    agent.open = mu_agent_open_run;
    agent.broken = mu_agent_set_up(&agent) != 0;
    if (!agent.broken && options->timeout_ns && !mu_agent_follows(&agent))
        agent.timeout_at = agent.deadline = muster_after_ns(options->timeout_ns);
    mu_agent_live(&agent, agent.broken ? MU_ON_NOT_OPENED : MU_ON_BEGIN);
    status = mu_agent_exit_status(&agent);
    return mu_agent_tear_down(&agent) && status == 0 ? MU_AGENT_EXIT_FAILED : status;
}
