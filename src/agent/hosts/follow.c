/*
 * agent/hosts/follow.c: the part of a host that another one's agent leads: it tells what happens to its tasks, and
 * obeys.
 *
 * When its leader is lost it ends its tasks by itself: nothing of a job may outlive that. An agent that took the
 * leader's place is told all that there is to know.
 */

#include "agent/hosts/bridge.h"

void mu_agent_follow(struct mu_agent *agent, enum mu_agent_talk kind, struct mu_unpack *u)
{
    struct mu_agent_bridge *b = agent->bridge;
    struct mu_launch_size size;
    uint32_t number;

    switch ((uint32_t)kind) {
    case MU_CONTROL_ANOTHER:
        mu_agent_tell_all(agent);
        mu_agent_tell_status_again(agent);
        mu_agent_tell_checkpoints_again(agent);
        mu_agent_gather_lost(agent, 0, "the leader's host has another agent, which knows nothing of what was gathered");
        if (agent->is_suspended) /* by one that has died */
            mu_agent_told_to_go_on(agent);
        break;
    case MU_TALK_STOP: mu_agent_told_to_stop(agent); break;
    case MU_TALK_GO: mu_agent_told_to_go_on(agent); break;
    case MU_TALK_END:
        agent->is_interrupted = mu_unpack_u8(u) == 1;
        mu_agent_post(agent, MU_ON_END);
        break;
    case MU_TALK_KILL: mu_agent_post(agent, MU_ON_KILL); break;
    case MU_TALK_SIGNAL:
        number = mu_unpack_u32(u);
        size.rows = mu_unpack_u16(u);
        size.columns = mu_unpack_u16(u);
        if (!u->failed && number > 0 && number < 64)
            mu_agent_signal_sized(agent, (int)number, size);
        break;
    case MU_TALK_TAIL:
        number = mu_unpack_u32(u);
        if (!u->failed && mu_agent_has_task(agent, number))
            mu_agent_say_tail(agent, number);
        break;
    case MU_TALK_OVER:
        b->told_status = (int)mu_unpack_u32(u) & 0xff;
        agent->options->hosts->stays = mu_unpack_u8(u) == 1;
        agent->options->hosts->stays_ns = mu_unpack_u64(u);
        b->is_over = 1;
        break;
    default: mu_components_hear(agent, 0, kind, u); /* or what only a follower says */
    }
}

static void follower_give_up(struct mu_agent *agent, const char *what, const char *why)
{
    struct mu_agent_bridge *b = agent->bridge;

    if (b->is_over)
        return;
    b->is_over = 1;
    mu_agent_gather_lost(agent, 0, what);
    if (agent->running > 0)
        mu_agent_say("%s: %s; ending %u task%s", what, why, agent->running, agent->running == 1 ? "" : "s");
    else
        mu_agent_say("%s: %s", what, why);
    mu_agent_break(agent);
}

void mu_agent_leader_lost(struct mu_agent *agent, const char *why)
{
    follower_give_up(agent, "the leader is lost", why);
}

void mu_agent_input_ended(struct mu_agent *agent)
{
    follower_give_up(agent, "standard input has ended", "with --key-file - that is the launcher's death");
}

void mu_agent_leader_moved(struct mu_agent *agent, int is_up, const char *why)
{
    struct mu_agent_bridge *b = agent->bridge;

    if (b->is_over || b->away == !is_up)
        return;
    b->away = !is_up;
    if (!is_up) /* the keeper of a stopped agent's connection has closed it */
        mu_bridge_be_patient(b->bridge, false);
    mu_agent_await_briefly(agent);
    if (!b->options->adopt_ns) /* as in mu_agent_host_moved() */
        return;
    if (is_up)
        mu_agent_say("the leader is back");
    else
        mu_agent_say(
            "the leader is away (%s): the job is given up in %.6g s, unless it is back or, there, 'muster agent "
            "--adopt %s' takes it over",
            why, (double)b->options->adopt_ns / 1e9, agent->title);
}
