/*
 * agent/serve/gather_agent.c: the component that gathers what all hosts' agents give (agent/serve/gather.h), by talk of
 * the agents.
 *
 * The rounds are in agent/serve/gather.c, which knows no agent. They are made when the first is needed, and whatever
 * still waits when the job ends is answered with that.
 */
#include <stdlib.h>

#include "agent/hosts/bridge.h"
#include "base/error.h"

static void tell_agent(void *arg, uint32_t host, const struct mu_pack *what)
{
    mu_agent_tell(arg, host, MU_TALK_GATHER, what);
}

struct gather_state {
    struct mu_gathers *gathers; /* NULL: nothing has been gathered */
};

static struct gather_state *gather_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_GATHER);
}

static struct mu_gathers *gathers_of(struct mu_agent *agent)
{
    const struct mu_agent_hosts *hosts = agent->options->hosts;

    if (!gather_state(agent)->gathers)
        gather_state(agent)->gathers =
            mu_gathers_new(hosts ? hosts->node : 0, hosts ? hosts->nodes : 1, tell_agent, agent);
    return gather_state(agent)->gathers;
}

enum muster_status mu_agent_gather_among(struct mu_agent *agent, const uint32_t *hosts, uint32_t num_hosts,
                                         const char *name, const void *bytes, size_t len, mu_gather_done *done,
                                         void *arg)
{
    struct mu_gathers *g = gathers_of(agent);

    if (!g)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "out of memory");
    return mu_gathers_give(g, hosts, num_hosts, name, bytes, len, done, arg);
}

enum muster_status mu_agent_gather(struct mu_agent *agent, const char *name, const void *bytes, size_t len,
                                   mu_gather_done *done, void *arg)
{
    uint32_t num_hosts = agent->options->hosts ? agent->options->hosts->nodes : 1;
    uint32_t *hosts = malloc(num_hosts * sizeof *hosts);
    enum muster_status status;

    if (!hosts)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "out of memory");
    for (uint32_t i = 0; i < num_hosts; i++)
        hosts[i] = i;
    status = mu_agent_gather_among(agent, hosts, num_hosts, name, bytes, len, done, arg);
    free(hosts);
    return status;
}

static void gather_hear(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    struct mu_gathers *g = gathers_of(agent);

    if (g)
        mu_gathers_hear(g, host, u);
}

void mu_agent_gather_lost(struct mu_agent *agent, uint32_t host, const char *why)
{
    struct mu_gathers *g = gathers_of(agent);

    if (g)
        mu_gathers_lost(g, host, why);
}

uint32_t mu_agent_gather_missing(const struct mu_agent *agent, const char *name, uint32_t *ret_hosts, uint32_t most)
{
    return gather_state(agent)->gathers ? mu_gathers_missing(gather_state(agent)->gathers, name, ret_hosts, most) : 0;
}

void mu_agent_gather_fail(struct mu_agent *agent, const char *name, const char *why)
{
    if (gather_state(agent)->gathers)
        mu_gathers_fail(gather_state(agent)->gathers, name, why);
}

static void gather_stop(struct mu_agent *agent)
{
    struct mu_gathers *g = gather_state(agent)->gathers;

    gather_state(agent)->gathers = NULL;
    mu_gathers_free(g, "the job ends");
}

/* `leave`: an adopter hears of lost hosts until then. */
const struct mu_component mu_gather_component = {.name = "gather",
                                                 .state_size = sizeof(struct gather_state),
                                                 .stop = gather_stop,
                                                 .leave = gather_stop,
                                                 .talk = MU_TALK_GATHER,
                                                 .hear = gather_hear};
