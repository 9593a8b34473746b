/*
 * agent/serve/coord.c: the job's engine (coord/coord.h): before it stand all servers of clients in the agent's loop,
 * for each protocol.
 *
 * It is opened before they begin, when there is to be one, and goes when the last of them has ended. In a job of
 * several hosts each agent has one, for its own host's tasks; what they ask of the leader's host goes by the bridge's
 * lanes, and what the engines tell each other is talk of the agents.
 */
#include "coord/coord.h"

#include <string.h>

#include "agent/hosts/bridge.h"
#include "bridge/call/lanes.h"

struct coordination_state {
    struct mu_coord *coord; /* NULL: nothing is served */
    struct mu_lanes *lanes; /* by which it asks the leader's host; NULL: there are no others */
};

static struct coordination_state *coordination_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_COORDINATION);
}

struct mu_coord *mu_agent_coord(const struct mu_agent *agent)
{
    return coordination_state(agent)->coord;
}

static uint32_t pid_of(void *arg, uint32_t task_id)
{
    const struct mu_agent *agent = arg;
    const struct mu_agent_task *task = &agent->tasks[task_id];

    return task->started && !task->ended ? (uint32_t)task->pid : 0;
}

/* About a task, with what that wrote last. */
static void on_coord_said(void *arg, int32_t task, const char *sentence)
{
    if (task < 0 || !mu_agent_explain(arg, (uint32_t)task, sentence))
        mu_agent_say("%s", sentence);
}

/* ---- what the engines of several hosts tell each other ---- */

static void tell_coord(void *arg, uint32_t host, const struct mu_coord_news *news)
{
    struct mu_pack what = {.bytes = NULL};

    mu_pack_u32(&what, news->word);
    mu_pack_u32(&what, news->round);
    mu_pack_u32(&what, news->task);
    mu_pack_u32(&what, news->attempt);
    mu_pack_u32(&what, news->code);
    mu_pack_text(&what, news->text);
    mu_pack_text(&what, news->brief ? news->brief : "");
    mu_agent_tell(arg, host, MU_TALK_COORD, &what);
    mu_pack_done(&what);
}

static void coordination_hear(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    struct mu_coord_news news = {.word = (enum mu_coord_word)mu_unpack_u32(u)};
    char text[8192] = "", brief[1024] = "";

    news.round = mu_unpack_u32(u);
    news.task = mu_unpack_u32(u);
    news.attempt = mu_unpack_u32(u);
    news.code = (enum muster_status)mu_unpack_u32(u);
    mu_unpack_text(u, text, sizeof text);
    mu_unpack_text(u, brief, sizeof brief);
    news.text = text;
    news.brief = brief[0] ? brief : NULL;
    if (coordination_state(agent)->coord && !u->failed)
        mu_coord_told(coordination_state(agent)->coord, host, &news);
}

/* Of several hosts host 0 decides for all what waits for what. 0, or -1 with the reason said. */
static int hosts_agree(struct mu_agent *agent, struct mu_coord_options *coord)
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
        coord->register_barrier = orders->register_barrier;
        coord->shutdown_timeout_ns = orders->shutdown_barrier ? coord->shutdown_timeout_ns | 1 : 0;
    }
    coord->tell = tell_coord;
    if (mu_bridge_lanes(agent->bridge->bridge, &coordination_state(agent)->lanes) != MUSTER_OK) {
        mu_agent_say("the job's clients cannot be served: %s", muster_last_error());
        return -1;
    }
    coord->lanes = coordination_state(agent)->lanes;
    return 0;
}

static int open_coord(struct mu_agent *agent)
{
    const struct mu_agent_grpc *grpc = agent->options->grpc;
    struct mu_coord_options coord = {
        .loop = &agent->loop,
        .m = agent->muster,
        .account = &agent->clients,
        .register_timeout_ns = grpc ? grpc->register_timeout_ns : 0,
        .shutdown_timeout_ns = grpc ? grpc->shutdown_timeout_ns : 0,
        .register_barrier = grpc && grpc->register_barrier,
        .recoverable = (grpc && grpc->recoverable) || agent->options->restart_tasks,
        .pid_of = pid_of,
        .said = on_coord_said,
        .arg = agent,
    };

    if (hosts_agree(agent, &coord))
        return -1;
    if (mu_coord_open(&coord, &coordination_state(agent)->coord) == MUSTER_OK)
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

static int coordination_begin(struct mu_agent *agent)
{
    return mu_agent_has_coord(agent) ? open_coord(agent) : 0;
}

/* A task has ended: a client that waits for it may have its answer. */
static void coordination_ended(struct mu_agent *agent, uint32_t task_id)
{
    (void)task_id;
    if (coordination_state(agent)->coord)
        mu_coord_look(coordination_state(agent)->coord);
}

/* Its services have stopped. */
static void coordination_clear(struct mu_agent *agent)
{
    mu_coord_free(coordination_state(agent)->coord);
    if (coordination_state(agent)->coord)
        uv_run(&agent->loop, UV_RUN_NOWAIT); /* its memory goes, before the segment does */
    coordination_state(agent)->coord = NULL;
    if (coordination_state(agent)->lanes)
        mu_bridge_end_lanes(agent->bridge->bridge, coordination_state(agent)->lanes);
    coordination_state(agent)->lanes = NULL;
}

const struct mu_component mu_coordination_component = {
    .name = "coordination",
    .state_size = sizeof(struct coordination_state),
    .begin = coordination_begin,
    .ended = coordination_ended,
    .clear = coordination_clear,
    .talk = MU_TALK_COORD,
    .hear = coordination_hear,
};
