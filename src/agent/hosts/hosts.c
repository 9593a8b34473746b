/*
 * agent/hosts/hosts.c: the component that looks after the job's other hosts: the bridge to their agents, what each host
 * tells of its tasks, and their end. With one host it has nothing to do.
 */
#include "agent/hosts/bridge.h"

#define PATIENCE_NS 10000000000ull /* with an agent that is to go, beyond the time that it gives to its tasks */

static uint64_t hosts_due(const struct mu_agent *agent)
{
    return agent->give_up_at < agent->suspend_until ? agent->give_up_at : agent->suspend_until;
}

static void hosts_tick(struct mu_agent *agent, uint64_t now)
{
    if (now >= agent->give_up_at)
        mu_agent_give_up_away(agent);
    mu_agent_look_suspended(agent);
}

static void hosts_ending(struct mu_agent *agent, int killed)
{
    mu_agent_drop_suspension(agent);
    if (mu_agent_leads(agent) && killed)
        mu_agent_tell(agent, UINT32_MAX, MU_TALK_KILL, NULL);
    else if (mu_agent_leads(agent))
        mu_agent_tell_end(agent, UINT32_MAX);
    if (!killed)
        mu_agent_await_briefly(agent);
}

/* The others are told that all is over, and waited for as long as they may take for what their tasks left behind. */
static void hosts_part(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;
    struct mu_pack what = {.bytes = NULL};
    uint64_t delay_ns;

    if (!b || !b->hosts)
        return;
    b->is_over = 1;
    mu_agent_choose_stays(agent, &delay_ns);
    for (uint32_t i = 1; i < b->num_hosts; i++) {
        mu_pack_reset(&what);
        mu_pack_u32(&what, (uint32_t)mu_agent_exit_status(agent));
        mu_pack_u8(&what, (uint8_t)b->hosts[i].stays);
        mu_pack_u64(&what, delay_ns);
        mu_agent_tell(agent, i, MU_TALK_OVER, &what);
    }
    mu_pack_done(&what);
    if (b->met != MUSTER_OK || !agent->muster) /* they have not been told anything */
        mu_agent_signal_rsh(agent, SIGTERM);
    b->part_until = muster_after_ns(agent->options->grace_ns + PATIENCE_NS);
}

void mu_agent_look_parting(struct mu_agent *agent)
{
    struct mu_agent_bridge *b = agent->bridge;

    if (b && b->hosts && mu_agent_count_parting(b) > 0) {
        agent->phase_until = b->part_until;
        if (muster_now_ns() < b->part_until)
            return;
        mu_agent_tell(agent, UINT32_MAX, MU_TALK_KILL, NULL);
        for (uint32_t i = 1; i < b->num_hosts; i++)
            if (b->hosts[i].rsh && !(b->hosts[i].stays && b->hosts[i].left))
                mu_agent_say("host %s does not end: its command is killed", b->hosts[i].name);
        mu_agent_signal_rsh(agent, SIGKILL);
        for (uint32_t i = 1; i < b->num_hosts; i++)
            b->hosts[i].stays = 0;
    }
    mu_agent_post(agent, MU_ON_PARTED);
}

const struct mu_component mu_hosts_component = {
    .name = "hosts",
    .begin = mu_agent_cross,
    .started = mu_agent_tell_started,
    .due = hosts_due,
    .tick = hosts_tick,
    .ending = hosts_ending,
    .child_ended = mu_agent_command_ended,
    .part = hosts_part,
    .leave = mu_agent_close_bridge,
    .close = mu_agent_end_stays,
};
