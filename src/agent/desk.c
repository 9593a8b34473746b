/*
 * agent/desk.c: the job's desk (rpc/desk.h): before it stand all who serve clients in the agent's loop, by whatever
 * protocol.
 *
 * It is opened before they begin, when there is to be one, and goes when the last of them has ended. In a job of
 * several hosts each agent has one, for its own host's tasks; what they ask of the leader's host goes by the bridge's
 * lanes, and what the desks tell each other is talk of the agents.
 */
#include "rpc/desk.h"

#include <string.h>

#include "agent/bridge.h"
#include "bridge/lanes.h"

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
    if (agent->desk && !u->failed)
        mu_desk_told(agent->desk, host, &news);
}

/* Of several hosts host 0 decides for all what waits for what. 0, or -1 with the reason said. */
static int agree(struct mu_agent *agent, struct mu_desk_options *desk)
{
    const struct mu_agent_orders *orders = agent->bridge ? agent->options->hosts->orders : NULL;

    if (!orders)
        return 0;
    if (mu_agent_follows(agent) && agent->options->grpc) {
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
        mu_agent_say("the job's clients cannot be served: %s", muster_last_error());
        return -1;
    }
    desk->lanes = agent->lanes;
    return 0;
}

int mu_agent_has_desk(const struct mu_agent *agent)
{
    return agent->options->grpc || agent->options->tcpstore;
}

static int open_desk(struct mu_agent *agent)
{
    const struct mu_agent_grpc *grpc = agent->options->grpc;
    struct mu_desk_options desk = {
        .loop = &agent->loop,
        .m = agent->muster,
        .register_timeout_ns = grpc ? grpc->register_timeout_ns : 0,
        .shutdown_timeout_ns = grpc ? grpc->shutdown_timeout_ns : 0,
        .register_barrier = grpc && grpc->register_barrier,
        .recoverable = (grpc && grpc->recoverable) || agent->options->restart_tasks,
        .pid_of = pid_of,
        .said = said,
        .arg = agent,
    };

    if (agree(agent, &desk))
        return -1;
    if (mu_desk_open(&desk, &agent->desk) == MUSTER_OK)
        return 0;
    mu_agent_say("the job's clients cannot be served: %s", muster_last_error());
    return -1;
}

void mu_agent_find_way(const char *address, char *way, size_t size)
{
    if (strncmp(address, "0.0.0.0:", 8) == 0)
        snprintf(way, size, "127.0.0.1:%s", address + 8);
    else if (strncmp(address, "[::]:", 5) == 0)
        snprintf(way, size, "[::1]:%s", address + 5);
    else
        snprintf(way, size, "%s", address);
}

int mu_agent_serve_clients(struct mu_agent *agent)
{
    if (!mu_agent_has_desk(agent))
        return 0;
    if (open_desk(agent) || mu_agent_serve_grpc(agent) || mu_agent_serve_tcpstore(agent))
        return -1;
    mu_agent_begin_notes(agent);
    return 0;
}

void mu_agent_look_desk(struct mu_agent *agent)
{
    if (agent->desk)
        mu_desk_look(agent->desk);
}

static void close_desk(struct mu_agent *agent)
{
    mu_desk_free(agent->desk);
    if (agent->desk)
        uv_run(&agent->loop, UV_RUN_NOWAIT); /* its memory goes, before the segment does */
    agent->desk = NULL;
    if (agent->lanes)
        mu_bridge_end_lanes(agent->bridge->bridge, agent->lanes);
    agent->lanes = NULL;
}

void mu_agent_stop_clients(struct mu_agent *agent, uint64_t grace_ns)
{
    mu_agent_end_notes(agent);
    mu_agent_stop_tcpstore(agent);
    mu_agent_stop_grpc(agent, grace_ns);
}

int mu_agent_clients_have_stopped(struct mu_agent *agent)
{
    if (agent->stopping > 0)
        return 0;
    close_desk(agent);
    return 1;
}
