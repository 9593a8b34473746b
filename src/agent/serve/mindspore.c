/*
 * agent/serve/mindspore.c: MindSpore's scheduler (mindspore/mindspore.h) beside a job's tasks, or alone.
 *
 * It lives as long as the job's segment: an attempt of the whole job has its own, at the same address, and a cluster
 * that begins anew. The first tasks of a job are its servers, the others its workers.
 */
#include "mindspore/mindspore.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/serve/mindspore.h"

struct mindspore_state {
    struct mu_mindspore *server; /* NULL: it is not served */
    int is_ending;               /* the nodes are told to end: what becomes of them is no news */
    char at[160], way[160];      /* its address, this attempt's or the one before's; for the tasks */
};

static struct mindspore_state *mindspore_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_MINDSPORE);
}

const char *mu_agent_mindspore_address(const struct mu_agent *agent)
{
    return mindspore_state(agent)->server ? mindspore_state(agent)->at : NULL;
}

bool mu_agent_mindspore_is_over(const struct mu_agent *agent)
{
    return mindspore_state(agent)->server && mu_mindspore_is_over(mindspore_state(agent)->server);
}

static void on_mindspore_said(void *arg, const char *sentence)
{
    if (!mindspore_state(arg)->is_ending)
        mu_agent_say("%s", sentence);
}

/* What another launcher has said to its nodes. */
static int mindspore_open(struct mu_agent *agent)
{
    if (agent->options->mindspore)
        for (size_t i = 0; mu_agent_mindspore_variables[i]; i++)
            unsetenv(mu_agent_mindspore_variables[i]);
    return 0;
}

static int mindspore_begin(struct mu_agent *agent)
{
    const struct mu_agent_mindspore *m = agent->options->mindspore;
    struct mindspore_state *state = mindspore_state(agent);
    struct mu_mindspore_options options;

    if (!m)
        return 0;
    state->is_ending = 0;
    options = (struct mu_mindspore_options){
        .loop = &agent->loop,
        .address = state->at[0] ? state->at : m->address,
        .rest = m->rest,
        .servers = m->servers,
        .workers = agent->num_tasks - m->servers,
        .scale_ns = m->scale_ns,
        .found = m->dialect,
        .insecure = m->insecure,
        .account = &agent->clients,
        .said = on_mindspore_said,
        .arg = agent,
    };
    if (mu_mindspore_start(&options, &state->server) != MUSTER_OK) {
        mu_agent_say("no scheduler for MindSpore at %s: %s", options.address, muster_last_error());
        return -1;
    }
    snprintf(state->at, sizeof state->at, "%s", mu_mindspore_address(state->server));
    mu_agent_find_way(state->at, state->way, sizeof state->way);
    return 0;
}

const char *const mu_agent_mindspore_variables[] = {
    "MS_ROLE", "MS_NODE_ID", "MS_SERVER_NUM", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT", NULL};

void mu_agent_mindspore_gift(const struct mu_agent *agent, uint32_t task_id, struct mu_agent_gift *gift)
{
    const struct mu_agent_mindspore *m = agent->options->mindspore;
    const char *way = mindspore_state(agent)->way[0] ? mindspore_state(agent)->way : "127.0.0.1:<a port>";
    const char *colon = strrchr(way, ':');
    const size_t size = sizeof gift->served_text[0];
    int n = 0;

    if (!m)
        return;
    snprintf(gift->served_text[n++], size, "MS_ROLE=%s", task_id < m->servers ? "MS_PSERVER" : "MS_WORKER");
    snprintf(gift->served_text[n++], size, "MS_NODE_ID=%u", task_id);
    snprintf(gift->served_text[n++], size, "MS_SERVER_NUM=%u", m->servers);
    snprintf(gift->served_text[n++], size, "MS_WORKER_NUM=%u", agent->num_tasks - m->servers);
    snprintf(gift->served_text[n++], size, "MS_SCHED_HOST=%.*s", (int)(colon - way), way);
    snprintf(gift->served_text[n++], size, "MS_SCHED_PORT=%s", colon + 1);
    for (int i = 0; i < n; i++)
        gift->served[i] = gift->served_text[i];
    gift->served[n] = NULL;
}

static int mindspore_equip(struct mu_agent *agent, uint32_t task_id, struct mu_agent_gift *gift)
{
    mu_agent_mindspore_gift(agent, task_id, gift);
    return 0;
}

static void mindspore_describe(const struct mu_agent *agent, char *text, size_t size)
{
    char what[160];

    if (!mindspore_state(agent)->server)
        return;
    mu_mindspore_describe(mindspore_state(agent)->server, what, sizeof what);
    snprintf(text, size, "%s %s", mindspore_state(agent)->at, what);
}

static void mindspore_ending(struct mu_agent *agent, int killed)
{
    (void)killed;
    mindspore_state(agent)->is_ending = 1;
}

static void mindspore_stopped(void *arg)
{
    struct mu_agent *agent = arg;

    agent->stopping--;
}

static void mindspore_stop(struct mu_agent *agent)
{
    if (!mindspore_state(agent)->server)
        return;
    agent->stopping++;
    mu_mindspore_stop(mindspore_state(agent)->server, mindspore_stopped, agent);
    mindspore_state(agent)->server = NULL;
}

const struct mu_component mu_mindspore_component = {
    .name = "mindspore",
    .state_size = sizeof(struct mindspore_state),
    .open = mindspore_open,
    .begin = mindspore_begin,
    .equip = mindspore_equip,
    .ending = mindspore_ending,
    .stop = mindspore_stop,
    .key = MU_AGENT_MINDSPORE_KEY,
    .describe = mindspore_describe,
};
