/*
 * agent/grpc.c: the coordination service (rpc/service.h) beside a job's tasks.
 *
 * It runs in the agent's loop and thread and lives as long as the job's segment: an attempt of the whole job has its
 * own, at the same address where that was given with a port, and nobody is registered with it; a task that is started
 * again by itself registers with the one that there is. Its address stands in the job's key MU_AGENT_GRPC_KEY, with
 * what is going on there, for `muster status`. It ends when the last task has ended: whoever is still connected is
 * answered and told to go (GOAWAY), and gets a moment to take that in.
 */
#include "agent/private.h"

#include <stdlib.h>
#include <string.h>

#include <muster/kv.h>

#include "rpc/desk.h"
#include "rpc/server.h"
#include "rpc/service.h"

#define NOTE_MS 1000

static uint32_t pid_of(void *arg, uint32_t task_id)
{
    const struct mu_agent *agent = arg;
    const struct mu_agent_task *task = &agent->tasks[task_id];

    return task->started && !task->ended ? (uint32_t)task->pid : 0;
}

static void said(void *arg, const char *sentence)
{
    (void)arg;
    mu_agent_say("%s", sentence);
}

/* Where clients on this machine find it: whoever listens at every address is here, too. */
static void find_way(const char *address, char *way, size_t size)
{
    if (strncmp(address, "0.0.0.0:", 8) == 0)
        snprintf(way, size, "127.0.0.1:%s", address + 8);
    else if (strncmp(address, "[::]:", 5) == 0)
        snprintf(way, size, "[::1]:%s", address + 5);
    else
        snprintf(way, size, "%s", address);
}

/* What it does now, where that has changed. */
static void note(struct mu_agent *agent)
{
    struct mu_service_stats stats;
    char text[sizeof agent->grpc_note];

    mu_service_stats(agent->service, &stats);
    snprintf(text, sizeof text, "%s connections %u parked %u", mu_service_address(agent->service), stats.connections,
             stats.parked);
    if (strcmp(text, agent->grpc_note) == 0)
        return;
    snprintf(agent->grpc_note, sizeof agent->grpc_note, "%s", text);
    /* a full segment: then status shows what it knew */
    muster_kv_set(agent->muster, MU_AGENT_GRPC_KEY, MUSTER_NTS, text, strlen(text), NULL);
}

static void note_again(uv_timer_t *timer)
{
    note(timer->loop->data);
}

int mu_agent_serve_grpc(struct mu_agent *agent)
{
    const struct mu_agent_grpc *grpc = agent->options->grpc;
    struct mu_desk_options desk;
    struct mu_service_options options;
    struct mu_rpc_tls tls;

    if (!grpc)
        return 0;
    tls = (struct mu_rpc_tls){
        .certificate = grpc->cert, .private_key = grpc->key, .authority = grpc->ca, .peer_uri = grpc->peer_uri};
    desk = (struct mu_desk_options){
        .loop = &agent->loop,
        .m = agent->muster,
        .register_timeout_ns = grpc->register_timeout_ns,
        .shutdown_timeout_ns = grpc->shutdown_timeout_ns,
        .register_barrier = grpc->register_barrier,
        .recoverable = grpc->recoverable || agent->options->restart_tasks,
        .pid_of = pid_of,
        .said = said,
        .arg = agent,
    };
    options = (struct mu_service_options){
        .address = grpc->address,
        .jobs = grpc->jobs,
        .desk = &desk,
        .tls = grpc->cert ? &tls : NULL,
        .insecure = grpc->insecure,
    };
    if (mu_service_start(&options, &agent->service) != MUSTER_OK) {
        mu_agent_say("no coordination service at %s: %s", grpc->address, muster_last_error());
        return -1;
    }
    mu_metrics_service(agent->metrics, agent->service);
    find_way(mu_service_address(agent->service), agent->grpc_way, sizeof agent->grpc_way);
    agent->grpc_note[0] = 0;
    note(agent);
    uv_timer_init(&agent->loop, &agent->grpc_timer);
    uv_timer_start(&agent->grpc_timer, note_again, NOTE_MS, NOTE_MS);
    return 0;
}

void mu_agent_look_grpc(struct mu_agent *agent)
{
    if (agent->service)
        mu_desk_look(mu_service_desk(agent->service));
}

static void stopped(void *arg)
{
    struct mu_agent *agent = arg;

    agent->grpc_stopped = 1;
}

void mu_agent_stop_grpc(struct mu_agent *agent, uint64_t grace_ns)
{
    if (!agent->service)
        return;
    uv_close((uv_handle_t *)&agent->grpc_timer, NULL);
    mu_metrics_service(agent->metrics, NULL);
    agent->grpc_stopped = 0;
    mu_service_stop(agent->service, grace_ns, stopped, agent);
    agent->service = NULL;
    while (!agent->grpc_stopped) /* the server's own timer is what ends it */
        uv_run(&agent->loop, UV_RUN_ONCE);
    uv_run(&agent->loop, UV_RUN_NOWAIT); /* its memory goes, before the segment does */
}
