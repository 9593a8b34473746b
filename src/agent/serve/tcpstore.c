/*
 * agent/serve/tcpstore.c: PyTorch's TCPStore (compat/tcpstore.h) beside a job's tasks.
 *
 * It lives as long as the job's segment: an attempt of the whole job has its own, on the leader's host at the same
 * address, and with no keys of the one before; a task that is started again by itself finds the keys that there are. In
 * a job of several hosts each agent serves its own host's tasks, and all see the same keys.
 */
#include "compat/tcpstore.h"

#include "agent/private.h"

struct tcpstore_state {
    struct mu_tcpstore *store; /* NULL: it is not served */
    char at[160], way[160];    /* its address, this attempt's or the one before's; for the tasks */
};

static struct tcpstore_state *tcpstore_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_TCPSTORE);
}

const char *mu_agent_tcpstore_way(const struct mu_agent *agent)
{
    return tcpstore_state(agent)->store ? tcpstore_state(agent)->way : NULL;
}

const char *mu_agent_tcpstore_address(const struct mu_agent *agent)
{
    return tcpstore_state(agent)->store ? tcpstore_state(agent)->at : NULL;
}

static void on_tcpstore_said(void *arg, const char *sentence)
{
    (void)arg;
    mu_agent_say("%s", sentence);
}

/* Where the attempt before had it, unless somebody else is there now. */
static enum muster_status tcpstore_start(struct mu_agent *agent)
{
    struct mu_tcpstore_options options = {
        .loop = &agent->loop,
        .coord = mu_agent_coord(agent),
        .account = &agent->clients,
        .address = tcpstore_state(agent)->at,
        .insecure = agent->options->tcpstore->insecure,
        .said = on_tcpstore_said,
        .arg = agent,
    };

    if (tcpstore_state(agent)->at[0] && mu_tcpstore_start(&options, &tcpstore_state(agent)->store) == MUSTER_OK)
        return MUSTER_OK;
    options.address = agent->options->tcpstore->address;
    return mu_tcpstore_start(&options, &tcpstore_state(agent)->store);
}

static int tcpstore_begin(struct mu_agent *agent)
{
    if (!agent->options->tcpstore)
        return 0;
    if (tcpstore_start(agent) != MUSTER_OK) {
        mu_agent_say("no store for PyTorch at %s: %s", agent->options->tcpstore->address, muster_last_error());
        return -1;
    }
    snprintf(tcpstore_state(agent)->at, sizeof tcpstore_state(agent)->at, "%s",
             mu_tcpstore_address(tcpstore_state(agent)->store));
    mu_agent_find_way(tcpstore_state(agent)->at, tcpstore_state(agent)->way, sizeof tcpstore_state(agent)->way);
    mu_metrics_tcpstore(agent->metrics, tcpstore_state(agent)->store);
    return 0;
}

static void tcpstore_describe(const struct mu_agent *agent, char *text, size_t size)
{
    struct mu_tcpstore_stats stats;

    if (!tcpstore_state(agent)->store)
        return;
    mu_tcpstore_stats(tcpstore_state(agent)->store, &stats);
    snprintf(text, size, "%s connections %u waiting %u", mu_tcpstore_address(tcpstore_state(agent)->store),
             stats.connections, stats.waiting);
}

static void tcpstore_stopped(void *arg)
{
    struct mu_agent *agent = arg;

    agent->stopping--;
}

static void tcpstore_stop(struct mu_agent *agent)
{
    if (!tcpstore_state(agent)->store)
        return;
    mu_metrics_tcpstore(agent->metrics, NULL);
    agent->stopping++;
    mu_tcpstore_stop(tcpstore_state(agent)->store, tcpstore_stopped, agent);
    tcpstore_state(agent)->store = NULL;
}

const struct mu_component mu_tcpstore_component = {
    .name = "tcpstore",
    .state_size = sizeof(struct tcpstore_state),
    .begin = tcpstore_begin,
    .stop = tcpstore_stop,
    .key = MU_AGENT_TCPSTORE_KEY,
    .hosts_key = MU_AGENT_TCPSTORE_HOSTS_KEY,
    .describe = tcpstore_describe,
};
