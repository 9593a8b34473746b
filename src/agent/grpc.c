/*
 * agent/grpc.c: the coordination service (rpc/service.h) beside a job's tasks.
 *
 * It runs in the agent's loop and thread and lives as long as the job's segment: an attempt of the whole job has its
 * own, at the same address where that was given with a port, and nobody is registered with it; a task that is started
 * again by itself registers with the one that there is. In a job of several hosts each agent serves its own host's
 * tasks (agent/desk.c).
 *
 * It ends when the last task has ended: whoever is still connected is answered and told to go (GOAWAY), and gets a
 * moment to take that in.
 */
#include "rpc/service.h"

#include <stdlib.h>
#include <string.h>

#include "agent/private.h"
#include "rpc/server.h"
#include "rpc/worker.h"

/* What the tasks find in that variable: the first command's that sets it, else our own. NULL: nothing. */
static const char *tasks_variable(const struct mu_agent *agent, const char *name)
{
    const struct mu_agent_options *o = agent->options;
    size_t len = strlen(name);

    for (uint32_t i = 0; i < o->num_apps; i++)
        for (char *const *at = o->apps[i].env; at && *at; at++)
            if (strncmp(*at, name, len) == 0 && (*at)[len] == '=')
                return *at + len + 1;
    return o->num_apps > 0 ? getenv(name) : NULL;
}

/* TensorFlow's workers, where its TF_CONFIG says that they are; malloc()ed. NULL: nowhere. */
static char *find_workers(const struct mu_agent *agent)
{
    const struct mu_agent_grpc *grpc = agent->options->grpc;
    const char *config = grpc->workers || grpc->cert ? NULL : tasks_variable(agent, "TF_CONFIG");

    return config ? mu_workers_of_config(config, agent->num_tasks) : NULL;
}

static int start_service(struct mu_agent *agent)
{
    const struct mu_agent_grpc *grpc = agent->options->grpc;
    const struct mu_rpc_tls tls = {
        .certificate = grpc->cert, .private_key = grpc->key, .authority = grpc->ca, .peer_uri = grpc->peer_uri};
    char *workers = find_workers(agent);
    const struct mu_service_options options = {
        .address = grpc->address,
        .jobs = grpc->jobs,
        .workers = workers ? workers : grpc->workers,
        .desk = agent->desk,
        .tls = grpc->cert ? &tls : NULL,
        .insecure = grpc->insecure,
    };
    enum muster_status status = mu_service_start(&options, &agent->service);

    free(workers);
    if (status == MUSTER_OK)
        return 0;
    mu_agent_say("no coordination service at %s: %s", grpc->address, muster_last_error());
    return -1;
}

int mu_agent_serve_grpc(struct mu_agent *agent)
{
    if (!agent->options->grpc)
        return 0;
    if (start_service(agent))
        return -1;
    mu_metrics_service(agent->metrics, agent->service);
    mu_agent_find_way(mu_service_address(agent->service), agent->grpc_way, sizeof agent->grpc_way);
    return 0;
}

void mu_agent_describe_grpc(const struct mu_agent *agent, char *text, size_t size)
{
    struct mu_service_stats stats;

    if (!agent->service)
        return;
    mu_service_stats(agent->service, &stats);
    snprintf(text, size, "%s connections %u parked %u", mu_service_address(agent->service), stats.connections,
             stats.parked);
}

static void stopped(void *arg)
{
    struct mu_agent *agent = arg;

    agent->stopping--;
}

void mu_agent_stop_grpc(struct mu_agent *agent, uint64_t grace_ns)
{
    if (!agent->service)
        return;
    mu_metrics_service(agent->metrics, NULL);
    agent->stopping++;
    mu_service_stop(agent->service, grace_ns, stopped, agent);
    agent->service = NULL;
}
