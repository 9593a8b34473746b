/*
 * agent/serve/serve.c: `muster serve`: a job's segment and what is served to clients on it, and no tasks of its own.
 *
 * It lives as every launcher does (agent/phase.h), until a signal comes or, where that is asked for, until all tasks
 * have shut down. Tasks come and go by the wire, or as processes on this host that join the segment by the job's name.
 */
#include "agent/serve/mindspore.h"

#include "coord/coord.h"
#include "rpc/service.h"

#define LOOK_NS 50000000ull

static int serves_once(const struct mu_agent *agent)
{
    return (agent->options->grpc && agent->options->grpc->once) ||
           (agent->options->mindspore && agent->options->mindspore->once);
}

static enum mu_agent_event serve_open(struct mu_agent *agent)
{
    if (mu_agent_open_job(agent) || mu_components_begin(agent))
        return MU_ON_NOT_OPENED;
    mu_agent_watch_job(agent);
    agent->ready(agent->job, &(struct mu_agent_addresses){.grpc = mu_agent_grpc_address(agent),
                                                          .tcpstore = mu_agent_tcpstore_address(agent),
                                                          .mindspore = mu_agent_mindspore_address(agent),
                                                          .ray = mu_agent_ray_address(agent),
                                                          .tf = mu_agent_session_address(agent)});
    return MU_ON_OPENED;
}

/* At once: the other tasks may need a while to end. */
static void say_failure(struct mu_agent *agent)
{
    struct muster_error error;
    int32_t task = mu_agent_first_error(agent, &error);

    if (task >= 0 && task != agent->root_cause)
        mu_agent_say("task %d has failed: %s", (int)task, error.message);
    agent->root_cause = task;
    agent->root_said = 1;
}

static bool serve_is_over(struct mu_agent *agent)
{
    if (!serves_once(agent))
        return 0;
    agent->phase_until = muster_after_ns(LOOK_NS);
    agent->served_all = agent->options->grpc && agent->options->grpc->once ? mu_coord_is_over(mu_agent_coord(agent))
                                                                           : mu_agent_mindspore_is_over(agent);
    say_failure(agent); /* with what was the last word before that */
    return agent->served_all;
}

/* With --once the tasks' end is what it is for; without, a signal is how it ends. */
static int serve_status(const struct mu_agent *agent)
{
    if (agent->broken)
        return MU_AGENT_EXIT_FAILED;
    if (!serves_once(agent))
        return 0;
    return agent->served_all ? agent->root_cause >= 0 : 128 + agent->end_signal;
}

int mu_agent_serve(const struct mu_agent_options *options, mu_agent_ready_fn ready)
{
    struct mu_agent agent;

    if (mu_agent_init(&agent, options, mu_components))
        return MU_AGENT_EXIT_FAILED;
    agent.open = serve_open;
    agent.is_over = serve_is_over;
    agent.ready = ready;
    agent.broken = mu_agent_set_up(&agent) != 0;
    mu_agent_live(&agent, agent.broken ? MU_ON_NOT_OPENED : MU_ON_BEGIN);
    mu_agent_tear_down(&agent);
    return serve_status(&agent);
}
