/*
 * agent/follow.c: the part of a host that another one's agent leads: it tells what happens to its tasks, and obeys.
 *
 * When its leader is lost it ends its tasks by itself: nothing of a job may outlive that.
 */
#include <stdlib.h>
#include <sys/wait.h>

#include "agent/bridge.h"

void mu_agent_tell_started(struct mu_agent *agent, uint32_t first, uint32_t count)
{
    struct mu_pack what = {.bytes = NULL};

    if (!mu_agent_follows(agent))
        return;
    mu_pack_u32(&what, first);
    mu_pack_u32(&what, count);
    for (uint32_t i = 0; i < count; i++)
        mu_pack_u32(&what, (uint32_t)agent->tasks[first + i].pid);
    mu_agent_tell(agent, 0, MU_TALK_STARTED, &what);
    mu_pack_done(&what);
}

void mu_agent_tell_ended(struct mu_agent *agent, uint32_t task_id)
{
    const struct mu_agent_task *task = &agent->tasks[task_id];
    struct mu_pack what = {.bytes = NULL};
    char words[640];

    mu_pack_u32(&what, task_id);
    mu_pack_u32(&what, (uint32_t)task->wait_status);
    mu_pack_u8(&what, (uint8_t)task->by_us);
    mu_pack_text(&what, mu_agent_words(agent, task, words, sizeof words));
    mu_agent_tell(agent, 0, MU_TALK_ENDED, &what);
    mu_pack_done(&what);
}

void mu_agent_tell_failed(struct mu_agent *agent)
{
    struct mu_pack what = {.bytes = NULL};

    if (!mu_agent_follows(agent))
        return;
    mu_pack_u32(&what, agent->spawn_status ? (uint32_t)agent->spawn_status : MU_AGENT_EXIT_FAILED);
    mu_agent_tell(agent, 0, MU_TALK_FAILED, &what);
    mu_pack_done(&what);
}

void mu_agent_tell_signal(struct mu_agent *agent, int number)
{
    struct mu_pack what = {.bytes = NULL};

    if (!mu_agent_follows(agent))
        return;
    mu_pack_u32(&what, (uint32_t)number);
    mu_agent_tell(agent, 0, MU_TALK_TOLD, &what);
    mu_pack_done(&what);
}

void mu_agent_follow(struct mu_agent *agent, enum mu_agent_talk kind, struct mu_unpack *u)
{
    struct mu_agent_bridge *b = agent->bridge;
    uint32_t number;

    switch (kind) {
    case MU_TALK_END: mu_agent_begin_end(agent); break;
    case MU_TALK_KILL: mu_agent_kill_all(agent); break;
    case MU_TALK_SIGNAL:
        number = mu_unpack_u32(u);
        if (!u->failed && number > 0 && number < 64)
            mu_agent_signal_tasks(agent, (int)number);
        break;
    case MU_TALK_TAIL:
        number = mu_unpack_u32(u);
        if (!u->failed && mu_agent_has_task(agent, number))
            mu_agent_say_tail(agent, number);
        break;
    case MU_TALK_OVER:
        b->told_status = (int)mu_unpack_u32(u) & 0xff;
        b->is_over = 1;
        break;
    default: break; /* what only a follower says */
    }
}

void mu_agent_leader_lost(struct mu_agent *agent, const char *why)
{
    struct mu_agent_bridge *b = agent->bridge;

    if (b->is_over)
        return;
    b->is_over = 1;
    agent->broken = 1;
    if (agent->running > 0)
        mu_agent_say("the leader is lost: %s; ending %u task%s", why, agent->running, agent->running == 1 ? "" : "s");
    else
        mu_agent_say("the leader is lost: %s", why);
    mu_agent_begin_end(agent);
}

int mu_agent_told_status(const struct mu_agent *agent)
{
    return agent->bridge->told_status;
}
