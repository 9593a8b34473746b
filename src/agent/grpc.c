/*
 * agent/grpc.c: the coordination service (rpc/service.h) beside a job's tasks.
 *
 * It runs in the agent's loop and thread and lives as long as the job's segment: an attempt of the whole job has its
 * own, at the same address where that was given with a port, and nobody is registered with it; a task that is started
 * again by itself registers with the one that there is. Its address stands in the job's key MU_AGENT_GRPC_KEY, with
 * what is going on there, for `muster status`.
 *
 * In a job of several hosts each agent serves its own host's tasks (agent/desk.c). The leader's agent notes for all
 * what they serve: another's may not sleep until a key is set.
 *
 * It ends when the last task has ended: whoever is still connected is
 * answered and told to go (GOAWAY), and gets a moment to take that in.
 */
#include <stdlib.h>
#include <string.h>

#include <muster/kv.h>

#include "agent/private.h"
#include "rpc/desk.h"
#include "rpc/server.h"
#include "rpc/service.h"
#include "rpc/worker.h"

#define NOTE_MS 1000

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

/* ---- what people are shown ---- */

/* A full segment: then status shows what it knew. */
static void set_note(struct mu_agent *agent, uint32_t host, const char *text)
{
    char key[64];

    snprintf(key, sizeof key, host ? MU_AGENT_GRPC_HOSTS_KEY "/%u" : MU_AGENT_GRPC_KEY, host);
    muster_kv_set(agent->muster, key, MUSTER_NTS, text, strlen(text), NULL);
}

void mu_agent_hear_service(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    char text[sizeof agent->grpc_note] = "";

    mu_unpack_text(u, text, sizeof text);
    if (agent->muster && !u->failed)
        set_note(agent, host, text);
}

static void tell_note(struct mu_agent *agent)
{
    struct mu_pack what = {.bytes = NULL};

    mu_pack_text(&what, agent->grpc_note);
    mu_agent_tell(agent, 0, MU_TALK_SERVES, &what);
    mu_pack_done(&what);
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
    if (mu_agent_follows(agent))
        tell_note(agent);
    else
        set_note(agent, 0, text);
}

/* Copies of the leader's note and of our own, for `muster status` on this host, which asks nobody. */
static struct look {
    struct mu_ask ask;
    bool open;
} looks[2];

static void looked(struct mu_ask *ask)
{
    ((struct look *)ask)->open = false;
}

static void look_at_notes(struct mu_agent *agent)
{
    char key[64] = MU_AGENT_GRPC_KEY;

    for (int i = 0; i < 2; i++) {
        if (i > 0)
            snprintf(key, sizeof key, MU_AGENT_GRPC_HOSTS_KEY "/%u", agent->options->hosts->node);
        if (looks[i].open)
            continue;
        looks[i] = (struct look){.ask = {.answered = looked}, .open = true};
        mu_desk_try_get(agent->desk, &looks[i].ask, key, strlen(key));
    }
}

static void note_again(uv_timer_t *timer)
{
    struct mu_agent *agent = timer->loop->data;

    note(agent);
    if (mu_agent_follows(agent))
        look_at_notes(agent);
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
    find_way(mu_service_address(agent->service), agent->grpc_way, sizeof agent->grpc_way);
    agent->grpc_note[0] = 0;
    note(agent);
    uv_timer_init(&agent->loop, &agent->grpc_timer);
    uv_timer_start(&agent->grpc_timer, note_again, NOTE_MS, NOTE_MS);
    return 0;
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
}
