/*
 * agent/metrics/exposition.c: the component that serves a job's metrics over HTTP (agent/metrics/metrics.h).
 *
 * Each attempt has a server of its own, at the same address where that was given with a port. Services that count
 * something tell it of themselves when they begin and when they stop.
 */
#include "agent/private.h"

static bool task_lives(const void *arg, uint32_t task_id)
{
    const struct mu_agent *agent = arg;

    return agent->tasks && task_id < agent->num_tasks && agent->tasks[task_id].started && !agent->tasks[task_id].ended;
}

/* Those that say no more than `muster status` shows. */
static const char *service_note(const void *arg, unsigned which, char *text, size_t size)
{
    static const enum mu_component_id ids[] = {MU_COMPONENT_RAY, MU_COMPONENT_MINDSPORE, MU_COMPONENT_ELASTIC,
                                               MU_COMPONENT_SESSION, MU_COMPONENT_KEEP};
    const struct mu_agent *agent = arg;
    const struct mu_component *c = which < sizeof ids / sizeof ids[0] ? agent->components[ids[which]] : NULL;

    if (!c)
        return NULL;
    c->describe(agent, text, size);
    return c->name;
}

int mu_agent_serve_metrics(struct mu_agent *agent)
{
    const char *address = agent->options->metrics;
    char why[256];
    int rc;

    if (!address)
        return 0;
    mu_launch_guard_socket(agent->launching.guard, MU_LAUNCH_SOCKET_METRICS, address, 0);
    rc = mu_metrics_start(&agent->loop, address, agent->muster, &agent->metrics, why, sizeof why);
    mu_launch_guard_socket(agent->launching.guard, MU_LAUNCH_SOCKET_METRICS, rc ? NULL : address, 1);
    if (rc) {
        mu_agent_say("no metrics at %s: %s", address, why);
        return -1;
    }
    mu_metrics_count(agent->metrics, &agent->clients);
    mu_metrics_restarted(agent->metrics, agent->anew);
    mu_metrics_launcher(agent->metrics,
                        &(struct mu_metrics_launcher){task_lives, agent, &agent->failures, service_note});
    if (agent->attempt == 0)
        mu_agent_say("metrics at %s%s", mu_metrics_address(agent->metrics),
                     mu_metrics_is_open(agent->metrics) ? ": reachable from other machines, without a key" : "");
    return 0;
}

/* One task alone has been started: it is a restart. */
static void metrics_started(struct mu_agent *agent, uint32_t first, uint32_t count)
{
    if (agent->metrics && count == 1 && agent->tasks[first].restarts > 0)
        mu_metrics_restarted(agent->metrics, 1);
}

static void metrics_clear(struct mu_agent *agent)
{
    mu_metrics_stop(agent->metrics);
    agent->metrics = NULL;
}

const struct mu_component mu_metrics_component = {
    .name = "metrics",
    .begin = mu_agent_serve_metrics,
    .started = metrics_started,
    .clear = metrics_clear,
    .close = metrics_clear,
};
