/*
 * agent/grpc.c: the coordination service (rpc/service.h) beside a job's tasks.
 *
 * It runs in the agent's loop and thread and lives as long as the job's segment: an attempt of the whole job has its
 * own, at the same address where that was given with a port, and nobody is registered with it; a task that is started
 * again by itself registers with the one that there is. Its address stands in the job's key MU_AGENT_GRPC_KEY, with
 * what is going on there, for `muster status`.
 *
 * In a job of several hosts each agent serves its own host's tasks, and what they ask of the leader's host goes by the
 * bridge's lanes; what the desks tell each other is talk of the agents. The leader's agent notes for all what they
 * serve: another's may not sleep until a key is set.
 *
 * It ends when the last task has ended: whoever is still connected is
 * answered and told to go (GOAWAY), and gets a moment to take that in.
 */
#include <stdlib.h>
#include <string.h>

#include <muster/kv.h>

#include "agent/bridge.h"
#include "bridge/lanes.h"
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

/* ---- what the desks of several hosts tell each other ---- */

static void tell_desk(void *arg, uint32_t host, const struct mu_desk_news *news)
{
    struct mu_pack what = {.bytes = NULL};

    mu_pack_u32(&what, news->word);
    mu_pack_u32(&what, news->round);
    mu_pack_u32(&what, news->task);
    mu_pack_u32(&what, news->attempt);
    mu_pack_u32(&what, news->code);
    mu_pack_text(&what, news->text);
    mu_agent_tell(arg, host, MU_TALK_DESK, &what);
    mu_pack_done(&what);
}

void mu_agent_hear_desk(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    struct mu_desk_news news = {.word = (enum mu_desk_word)mu_unpack_u32(u)};
    char text[8192] = "";

    news.round = mu_unpack_u32(u);
    news.task = mu_unpack_u32(u);
    news.attempt = mu_unpack_u32(u);
    news.code = (enum muster_status)mu_unpack_u32(u);
    mu_unpack_text(u, text, sizeof text);
    news.text = text;
    if (agent->service && !u->failed)
        mu_desk_told(mu_service_desk(agent->service), host, &news);
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
        mu_desk_try_get(mu_service_desk(agent->service), &looks[i].ask, key, strlen(key));
    }
}

static void note_again(uv_timer_t *timer)
{
    struct mu_agent *agent = timer->loop->data;

    note(agent);
    if (mu_agent_follows(agent))
        look_at_notes(agent);
}

/* Of several hosts host 0 decides for all what waits for what. 0, or -1 with the reason said. */
static int agree(struct mu_agent *agent, struct mu_desk_options *desk)
{
    const struct mu_agent_orders *orders = agent->bridge ? agent->options->hosts->orders : NULL;

    if (!orders)
        return 0;
    if (mu_agent_follows(agent)) {
        if (!orders->serves) {
            mu_agent_say("--grpc is to be said to the leader's agent, too: it decides when the clients of all hosts "
                         "have registered, and may leave");
            return -1;
        }
        desk->register_barrier = orders->register_barrier;
        desk->shutdown_timeout_ns = orders->shutdown_barrier ? desk->shutdown_timeout_ns | 1 : 0;
    }
    desk->tell = tell_desk;
    if (mu_bridge_lanes(agent->bridge->bridge, &agent->lanes) != MUSTER_OK) {
        mu_agent_say("no coordination service: %s", muster_last_error());
        return -1;
    }
    desk->lanes = agent->lanes;
    return 0;
}

static int start_service(struct mu_agent *agent, const struct mu_desk_options *desk)
{
    const struct mu_agent_grpc *grpc = agent->options->grpc;
    const struct mu_rpc_tls tls = {
        .certificate = grpc->cert, .private_key = grpc->key, .authority = grpc->ca, .peer_uri = grpc->peer_uri};
    const struct mu_service_options options = {
        .address = grpc->address,
        .jobs = grpc->jobs,
        .desk = desk,
        .tls = grpc->cert ? &tls : NULL,
        .insecure = grpc->insecure,
    };

    if (mu_service_start(&options, &agent->service) == MUSTER_OK)
        return 0;
    mu_agent_say("no coordination service at %s: %s", grpc->address, muster_last_error());
    return -1;
}

int mu_agent_serve_grpc(struct mu_agent *agent)
{
    const struct mu_agent_grpc *grpc = agent->options->grpc;
    struct mu_desk_options desk;

    if (!grpc)
        return 0;
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
    if (agree(agent, &desk) || start_service(agent, &desk))
        return -1;
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

static void end_lanes(struct mu_agent *agent)
{
    if (agent->lanes)
        mu_bridge_end_lanes(agent->bridge->bridge, agent->lanes);
    agent->lanes = NULL;
}

void mu_agent_stop_grpc(struct mu_agent *agent, uint64_t grace_ns)
{
    if (!agent->service) {
        end_lanes(agent);
        return;
    }
    uv_close((uv_handle_t *)&agent->grpc_timer, NULL);
    mu_metrics_service(agent->metrics, NULL);
    agent->grpc_stopped = 0;
    mu_service_stop(agent->service, grace_ns, stopped, agent);
    agent->service = NULL;
    while (!agent->grpc_stopped) /* the server's own timer is what ends it */
        uv_run(&agent->loop, UV_RUN_ONCE);
    uv_run(&agent->loop, UV_RUN_NOWAIT); /* its memory goes, before the segment does */
    end_lanes(agent);
}
