/*
 * agent/hosts/news.c: what a follower's agent tells the leader's of its tasks: that they were started, and how they
 * ended.
 *
 * All of it can be told twice: to an agent that took the leader's place everything is told anew.
 */
#include <stdlib.h>

#include "agent/hosts/bridge.h"

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
    agent->bridge->said_done = 0; /* of a live job: it has tasks again */
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

void mu_agent_tell_gone(struct mu_agent *agent, uint32_t task_id)
{
    struct mu_pack what = {.bytes = NULL};
    struct muster_task_info info;
    int has_failed =
        muster_task_get(agent->muster, (int32_t)task_id, &info) == MUSTER_OK && info.state == MUSTER_TASK_ERROR;
    char words[640] = "has ended, nobody knows how";

    if (has_failed)
        snprintf(words, sizeof words, "has failed: %s", info.message);
    mu_pack_u32(&what, task_id);
    mu_pack_u8(&what, (uint8_t)has_failed);
    mu_pack_text(&what, words);
    mu_agent_tell(agent, 0, MU_TALK_GONE, &what);
    mu_pack_done(&what);
}

void mu_agent_tell_all(struct mu_agent *agent)
{
    uint32_t end = mu_agent_tasks_end(agent);

    for (uint32_t i = agent->first_task; i < end; i++) {
        const struct mu_agent_task *task = &agent->tasks[i];

        if (agent->adopted && (!task->started || task->ended))
            mu_agent_tell_gone(agent, i);
        else if (task->started && (!task->ended || task->restart_at != UINT64_MAX))
            mu_agent_tell_started(agent, i, 1);
        else if (task->started)
            mu_agent_tell_ended(agent, i);
    }
    if (agent->spawn_status)
        mu_agent_tell_failed(agent);
    if (agent->end_signal)
        mu_agent_tell_signal(agent, agent->end_signal);
    agent->bridge->said_done = 0;
}

void mu_agent_tell_done(struct mu_agent *agent)
{
    struct mu_pack what = {.bytes = NULL};
    uint32_t count = 0, end = mu_agent_tasks_end(agent);

    for (uint32_t i = agent->first_task; i < end; i++)
        count += agent->adopted || (agent->tasks[i].started && agent->tasks[i].ended);
    mu_pack_u32(&what, count);
    mu_agent_tell(agent, 0, MU_TALK_DONE, &what);
    mu_pack_done(&what);
}
