/*
 * agent/serve/ray.c: the scheduler of Ray's protocol of 2016 (ray/service.h) beside a job's tasks.
 *
 * It runs in the agent's loop, and lives as long as the job's segment: an attempt of the whole job has its own, of
 * which nobody is registered, at the same address where that has a port. Drivers, workers and object stores register
 * themselves; whether they are tasks of the job does not matter. Of several hosts the leader's agent serves it for all.
 */
#include "ray/service.h"

#include "agent/private.h"

#define RAY_GRACE_NS 100000000ull

struct ray_state {
    struct mu_ray_service *service; /* NULL: it is not served */
};

static struct ray_state *ray_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_RAY);
}

const char *mu_agent_ray_address(const struct mu_agent *agent)
{
    return ray_state(agent)->service ? mu_ray_service_address(ray_state(agent)->service) : NULL;
}

static void on_scheduler_said(void *arg, const char *sentence)
{
    (void)arg;
    mu_agent_say("%s", sentence);
}

static int ray_begin(struct mu_agent *agent)
{
    const struct mu_agent_ray *ray = agent->options->ray;
    const struct mu_ray_service_options options = {
        .loop = &agent->loop,
        .address = ray ? ray->address : NULL,
        .insecure = ray && ray->insecure,
        .account = &agent->clients,
        .said = on_scheduler_said,
        .arg = agent,
    };

    if (!ray || mu_agent_follows(agent))
        return 0;
    if (mu_ray_service_start(&options, &ray_state(agent)->service) == MUSTER_OK)
        return 0;
    mu_agent_say("no scheduler of Ray's protocol at %s: %s", ray->address, muster_last_error());
    return -1;
}

static void ray_describe(const struct mu_agent *agent, char *text, size_t size)
{
    struct mu_ray_stats stats;

    if (!ray_state(agent)->service)
        return;
    mu_ray_service_stats(ray_state(agent)->service, &stats);
    snprintf(text, size, "%s drivers %u workers %u stores %u queued %llu running %llu succeeded %llu failed %llu",
             mu_ray_service_address(ray_state(agent)->service), stats.drivers, stats.workers, stats.stores,
             (unsigned long long)stats.queued, (unsigned long long)stats.running, (unsigned long long)stats.succeeded,
             (unsigned long long)stats.failed);
}

static void ray_stopped(void *arg)
{
    struct mu_agent *agent = arg;

    agent->stopping--;
}

static void ray_stop(struct mu_agent *agent)
{
    if (!ray_state(agent)->service)
        return;
    agent->stopping++;
    mu_ray_service_stop(ray_state(agent)->service, RAY_GRACE_NS, ray_stopped, agent);
    ray_state(agent)->service = NULL;
}

const struct mu_component mu_ray_component = {
    .name = "ray",
    .state_size = sizeof(struct ray_state),
    .begin = ray_begin,
    .stop = ray_stop,
    .key = MU_AGENT_RAY_KEY,
    .hosts_key = MU_AGENT_RAY_HOSTS_KEY,
    .describe = ray_describe,
};
