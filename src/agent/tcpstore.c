/*
 * agent/tcpstore.c: PyTorch's TCPStore (compat/tcpstore.h) beside a job's tasks.
 *
 * It lives as long as the job's segment: an attempt of the whole job has its own, on the leader's host at the same
 * address, and with no keys of the one before; a task that is started again by itself finds the keys that there are. In
 * a job of several hosts each agent serves its own host's tasks, and all see the same keys.
 */
#include "compat/tcpstore.h"

#include <string.h>

#include "agent/private.h"

static void said(void *arg, const char *sentence)
{
    (void)arg;
    mu_agent_say("%s", sentence);
}

/* Where the attempt before had it, unless somebody else is there now. */
static enum muster_status start(struct mu_agent *agent)
{
    struct mu_tcpstore_options options = {
        .loop = &agent->loop,
        .desk = agent->desk,
        .address = agent->tcpstore_at,
        .insecure = agent->options->tcpstore->insecure,
        .said = said,
        .arg = agent,
    };

    if (agent->tcpstore_at[0] && mu_tcpstore_start(&options, &agent->tcpstore) == MUSTER_OK)
        return MUSTER_OK;
    options.address = agent->options->tcpstore->address;
    return mu_tcpstore_start(&options, &agent->tcpstore);
}

int mu_agent_serve_tcpstore(struct mu_agent *agent)
{
    if (!agent->options->tcpstore)
        return 0;
    if (start(agent) != MUSTER_OK) {
        mu_agent_say("no store for PyTorch at %s: %s", agent->options->tcpstore->address, muster_last_error());
        return -1;
    }
    snprintf(agent->tcpstore_at, sizeof agent->tcpstore_at, "%s", mu_tcpstore_address(agent->tcpstore));
    mu_agent_find_way(agent->tcpstore_at, agent->tcpstore_way, sizeof agent->tcpstore_way);
    mu_metrics_tcpstore(agent->metrics, agent->tcpstore);
    return 0;
}

void mu_agent_describe_tcpstore(const struct mu_agent *agent, char *text, size_t size)
{
    struct mu_tcpstore_stats stats;

    if (!agent->tcpstore)
        return;
    mu_tcpstore_stats(agent->tcpstore, &stats);
    snprintf(text, size, "%s connections %u waiting %u", mu_tcpstore_address(agent->tcpstore), stats.connections,
             stats.waiting);
}

static void stopped(void *arg)
{
    struct mu_agent *agent = arg;

    agent->stopping--;
}

void mu_agent_stop_tcpstore(struct mu_agent *agent)
{
    if (!agent->tcpstore)
        return;
    mu_metrics_tcpstore(agent->metrics, NULL);
    agent->stopping++;
    mu_tcpstore_stop(agent->tcpstore, stopped, agent);
    agent->tcpstore = NULL;
}
