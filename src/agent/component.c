/*
 * agent/component.c: the steps of a job's life, told to each component of the launcher.
 *
 * A step goes to the components in the order of the table, the steps of the end in the reverse order. Components are
 * reached through the pointer in the agent alone, so no file of the core names a component's functions.
 */
#include "agent/component.h"

#include <stdlib.h>

#include "agent/private.h"

void *mu_component_state(const struct mu_agent *agent, enum mu_component_id id)
{
    return agent->states[id];
}

int mu_components_open(struct mu_agent *agent, const struct mu_component *const *components)
{
    agent->components = components;
    for (; agent->num_components < MU_COMPONENT_COUNT; agent->num_components++) {
        const struct mu_component *c = components[agent->num_components];

        if (c->state_size && !(agent->states[agent->num_components] = calloc(1, c->state_size))) {
            mu_agent_say("out of memory");
            return -1;
        }
        if (c->open && c->open(agent))
            return -1;
    }
    return 0;
}

int mu_components_begin(struct mu_agent *agent)
{
    for (unsigned i = 0; i < agent->num_components; i++)
        if (agent->components[i]->begin && agent->components[i]->begin(agent))
            return -1;
    return 0;
}

int mu_components_equip(struct mu_agent *agent, uint32_t task_id, struct mu_agent_gift *gift)
{
    for (unsigned i = 0; i < agent->num_components; i++)
        if (agent->components[i]->equip && agent->components[i]->equip(agent, task_id, gift))
            return -1;
    return 0;
}

void mu_components_started(struct mu_agent *agent, uint32_t first, uint32_t count)
{
    for (unsigned i = 0; i < agent->num_components; i++)
        if (agent->components[i]->started)
            agent->components[i]->started(agent, first, count);
}

void mu_components_judge(struct mu_agent *agent, uint32_t task_id, int wait_status)
{
    for (unsigned i = 0; i < agent->num_components; i++)
        if (agent->components[i]->judge)
            agent->components[i]->judge(agent, task_id, wait_status);
}

void mu_components_ended(struct mu_agent *agent, uint32_t task_id)
{
    for (unsigned i = 0; i < agent->num_components; i++)
        if (agent->components[i]->ended)
            agent->components[i]->ended(agent, task_id);
}

uint64_t mu_components_due(const struct mu_agent *agent)
{
    uint64_t first = UINT64_MAX;

    for (unsigned i = 0; i < agent->num_components; i++) {
        uint64_t due = agent->components[i]->due ? agent->components[i]->due(agent) : UINT64_MAX;

        first = due < first ? due : first;
    }
    return first;
}

void mu_components_tick(struct mu_agent *agent)
{
    uint64_t now = muster_now_ns();

    for (unsigned i = 0; i < agent->num_components; i++)
        if (agent->components[i]->tick)
            agent->components[i]->tick(agent, now);
}

void mu_components_ending(struct mu_agent *agent, int killed)
{
    for (unsigned i = 0; i < agent->num_components; i++)
        if (agent->components[i]->ending)
            agent->components[i]->ending(agent, killed);
}

void mu_components_report(struct mu_agent *agent)
{
    for (unsigned i = 0; i < agent->num_components; i++)
        if (agent->components[i]->report)
            agent->components[i]->report(agent);
}

int mu_components_child_ended(struct mu_agent *agent, const siginfo_t *info)
{
    for (unsigned i = 0; i < agent->num_components; i++)
        if (agent->components[i]->child_ended && agent->components[i]->child_ended(agent, info))
            return 1;
    return 0;
}

void mu_components_part(struct mu_agent *agent)
{
    for (unsigned i = agent->num_components; i-- > 0;)
        if (agent->components[i]->part)
            agent->components[i]->part(agent);
}

void mu_components_stop(struct mu_agent *agent)
{
    for (unsigned i = agent->num_components; i-- > 0;)
        if (agent->components[i]->stop)
            agent->components[i]->stop(agent);
}

void mu_components_clear(struct mu_agent *agent)
{
    for (unsigned i = agent->num_components; i-- > 0;)
        if (agent->components[i]->clear)
            agent->components[i]->clear(agent);
}

void mu_components_leave(struct mu_agent *agent)
{
    for (unsigned i = agent->num_components; i-- > 0;)
        if (agent->components[i]->leave)
            agent->components[i]->leave(agent);
}

void mu_components_close(struct mu_agent *agent)
{
    for (unsigned i = agent->num_components; i-- > 0;)
        if (agent->components[i]->close)
            agent->components[i]->close(agent);
}

void mu_components_hear(struct mu_agent *agent, uint32_t host, uint32_t talk, struct mu_unpack *u)
{
    for (unsigned i = 0; i < agent->num_components; i++)
        if (agent->components[i]->talk && agent->components[i]->talk == talk)
            agent->components[i]->hear(agent, host, u);
}

void mu_components_free(struct mu_agent *agent)
{
    for (unsigned i = 0; i < MU_COMPONENT_COUNT; i++)
        free(agent->states[i]);
}
