/*
 * agent/hosts/checkpoints.c: the component that tells other hosts which ranks of this one have saved what of their
 * checkpoints, and this host's tasks what theirs have (checkpoint/hosts.c).
 *
 * The loop does it when a task rings. Each attempt begins with what the leader's host has as the newest whole
 * generation of each checkpoint, which the others get with their orders. A host without shared memory for the folder
 * has no checkpoints: the task that opens one is told.
 */
#include "agent/hosts/bridge.h"

#include "checkpoint/checkpoint.h"

struct checkpoints_state {
    struct mu_checkpoint_relay *relay; /* NULL: nothing is told */
    uv_poll_t poll;
    uint64_t due;
};

static struct checkpoints_state *checkpoints_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_CHECKPOINTS);
}

static void checkpoints_say(void *arg, const struct mu_pack *what)
{
    struct mu_agent *agent = arg;

    mu_agent_tell(agent, mu_agent_leads(agent) ? UINT32_MAX : 0, MU_TALK_CHECKPOINT, what);
}

static void checkpoints_look(struct mu_agent *agent, bool ended)
{
    struct checkpoints_state *state = checkpoints_state(agent);

    if (state->relay)
        state->due = mu_checkpoint_relay_look(state->relay, muster_now_ns(), ended, checkpoints_say, agent);
}

static void on_checkpoint_bell(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    checkpoints_look(poll->loop->data, false);
}

/* What the leader said of the attempts before. */
static void newest_take(struct mu_agent *agent)
{
    const struct mu_agent_orders *orders = agent->options->hosts->orders;
    struct mu_unpack u = mu_unpack_of(orders->checkpoints, orders->checkpoints_len);

    if (!mu_checkpoint_take_newest(agent->run_id, agent->segment->num_tasks, &u))
        mu_agent_say("cannot take over what the leader's host has of the job's checkpoints: %s", muster_last_error());
}

int mu_agent_begin_checkpoints(struct mu_agent *agent)
{
    struct checkpoints_state *state = checkpoints_state(agent);

    state->due = UINT64_MAX;
    if (!agent->bridge)
        return 0;
    if (mu_agent_follows(agent) && !agent->adopted)
        newest_take(agent);
    state->relay = mu_checkpoint_relay_new(agent->run_id, agent->segment->num_tasks, agent->first_task,
                                           agent->local_tasks, mu_agent_leads(agent));
    if (!state->relay)
        return 0;
    if (uv_poll_init(&agent->loop, &state->poll, mu_checkpoint_relay_fd(state->relay)) ||
        uv_poll_start(&state->poll, UV_READABLE, on_checkpoint_bell)) {
        mu_agent_say("cannot look after checkpoints");
        return -1;
    }
    checkpoints_look(agent, true);
    return 0;
}

void mu_agent_tell_checkpoints_again(struct mu_agent *agent)
{
    struct checkpoints_state *state = checkpoints_state(agent);

    if (!state->relay)
        return;
    mu_checkpoint_relay_forget(state->relay);
    checkpoints_look(agent, false);
}

static void checkpoints_hear(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    struct checkpoints_state *state = checkpoints_state(agent);
    const struct mu_agent_host *from = mu_agent_leads(agent) ? &agent->bridge->hosts[host] : NULL;
    uint32_t first = from ? from->first_task : 0, count = from ? from->tasks : agent->segment->num_tasks;

    if (!state->relay)
        return;
    if (!mu_checkpoint_relay_hear(state->relay, first, count, u))
        mu_agent_say("what host %u says of its checkpoints cannot be read", host);
    checkpoints_look(agent, false);
}

static void checkpoints_ended(struct mu_agent *agent, uint32_t task_id)
{
    (void)task_id;
    checkpoints_look(agent, true);
}

static uint64_t checkpoints_due(const struct mu_agent *agent)
{
    const struct checkpoints_state *state = checkpoints_state(agent);

    return state->relay ? state->due : UINT64_MAX;
}

static void checkpoints_tick(struct mu_agent *agent, uint64_t now)
{
    if (now >= checkpoints_due(agent))
        checkpoints_look(agent, false);
}

/* Whatever the last task has committed is told before the others hear that the attempt is over. */
static void checkpoints_part(struct mu_agent *agent)
{
    checkpoints_look(agent, true);
}

static void checkpoints_leave(struct mu_agent *agent)
{
    struct checkpoints_state *state = checkpoints_state(agent);

    if (!state->relay)
        return;
    uv_close((uv_handle_t *)&state->poll, NULL); /* it is over when the bridge's are */
    mu_checkpoint_relay_free(state->relay);
    state->relay = NULL;
}

const struct mu_component mu_checkpoints_component = {
    .name = "checkpoints",
    .state_size = sizeof(struct checkpoints_state),
    .begin = mu_agent_begin_checkpoints,
    .ended = checkpoints_ended,
    .due = checkpoints_due,
    .tick = checkpoints_tick,
    .part = checkpoints_part,
    .leave = checkpoints_leave,
    .talk = MU_TALK_CHECKPOINT,
    .hear = checkpoints_hear,
};
