/*
 * agent/serve/grpc.c: the coordination service (rpc/service.h) beside a job's tasks.
 *
 * It runs in the agent's loop and thread and lives as long as the job's segment: an attempt of the whole job has its
 * own, at the same address where that was given with a port, and nobody is registered with it; a task that is started
 * again by itself registers with the one that there is. In a job of several hosts each agent serves its own host's
 * tasks (agent/serve/coord.c).
 *
 * It ends when the last task has ended: clients that are still connected are answered and told to go (GOAWAY), and get
 * a moment to take that in.
 */
#include "rpc/service.h"

#include <stdlib.h>
#include <string.h>

#include "agent/private.h"
#include "coord/coord.h"
#include "rpc/server.h"
#include "rpc/worker.h"

#define GRACE_NS       100000000ull  /* for clients beside the tasks, which have ended */
#define SERVE_GRACE_NS 1000000000ull /* for clients of `muster serve` to fetch their answers */

struct grpc_state {
    struct mu_service *service; /* NULL: it is not served */
    char way[160];              /* its address for the tasks */
};

static struct grpc_state *grpc_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_GRPC);
}

const char *mu_agent_grpc_way(const struct mu_agent *agent)
{
    return grpc_state(agent)->service ? grpc_state(agent)->way : NULL;
}

const char *mu_agent_grpc_address(const struct mu_agent *agent)
{
    return grpc_state(agent)->service ? mu_service_address(grpc_state(agent)->service) : NULL;
}

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
        .coord = mu_agent_coord(agent),
        .tls = grpc->cert ? &tls : NULL,
        .insecure = grpc->insecure,
        .any_user = grpc->any_user,
    };
    enum muster_status status;

    mu_launch_guard_socket(agent->launching.guard, MU_LAUNCH_SOCKET_GRPC, grpc->address, 0);
    status = mu_service_start(&options, &grpc_state(agent)->service);
    free(workers);
    mu_launch_guard_socket(agent->launching.guard, MU_LAUNCH_SOCKET_GRPC, status ? NULL : grpc->address, 1);
    if (status == MUSTER_OK)
        return 0;
    mu_agent_say("no coordination service at %s: %s", grpc->address, muster_last_error());
    return -1;
}

static int grpc_begin(struct mu_agent *agent)
{
    if (!agent->options->grpc)
        return 0;
    if (start_service(agent))
        return -1;
    mu_metrics_service(agent->metrics, grpc_state(agent)->service);
    mu_agent_find_way(mu_service_address(grpc_state(agent)->service), grpc_state(agent)->way,
                      sizeof grpc_state(agent)->way);
    return 0;
}

static void grpc_describe(const struct mu_agent *agent, char *text, size_t size)
{
    struct mu_service_stats stats;

    if (!grpc_state(agent)->service)
        return;
    mu_service_stats(grpc_state(agent)->service, &stats);
    snprintf(text, size, "%s connections %u parked %u leaves %u", mu_service_address(grpc_state(agent)->service),
             stats.connections, stats.parked, (unsigned)(mu_coord_waits_alone(mu_agent_coord(agent)) + 1));
}

static void grpc_stopped(void *arg)
{
    struct mu_agent *agent = arg;

    agent->stopping--;
}

static void grpc_stop(struct mu_agent *agent)
{
    uint64_t grace_ns = mu_agent_only_serves(agent) ? SERVE_GRACE_NS : GRACE_NS;

    if (!grpc_state(agent)->service)
        return;
    mu_metrics_service(agent->metrics, NULL);
    agent->stopping++;
    mu_service_stop(grpc_state(agent)->service, grace_ns, grpc_stopped, agent);
    grpc_state(agent)->service = NULL;
}

const struct mu_component mu_grpc_component = {
    .name = "grpc",
    .state_size = sizeof(struct grpc_state),
    .begin = grpc_begin,
    .stop = grpc_stop,
    .key = MU_AGENT_GRPC_KEY,
    .hosts_key = MU_AGENT_GRPC_HOSTS_KEY,
    .describe = grpc_describe,
};
