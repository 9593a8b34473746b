/*
 * agent/follow.c: the part of a host that another one's agent leads: it tells what happens to its tasks, and obeys.
 *
 * When its leader is lost it ends its tasks by itself: nothing of a job may outlive that. An agent that took the
 * leader's place is told all that there is to know.
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
    struct mu_launch_size size;
    uint32_t number;

    switch ((uint32_t)kind) {
    case MU_CONTROL_ANOTHER:
        mu_agent_tell_all(agent);
        mu_agent_tell_sights_again(agent);
        mu_agent_gather_lost(agent, 0, "the leader's host has another agent, which knows nothing of what was gathered");
        if (agent->is_suspended) /* by one that has died */
            mu_agent_told_to_go_on(agent);
        break;
    case MU_TALK_STOP: mu_agent_told_to_stop(agent); break;
    case MU_TALK_GO: mu_agent_told_to_go_on(agent); break;
    case MU_TALK_END: mu_agent_post(agent, MU_ON_END); break;
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
    case MU_TALK_DESK: mu_agent_hear_desk(agent, 0, u); break;
    case MU_TALK_GATHER: mu_agent_hear_gather(agent, 0, u); break;
    case MU_TALK_MPI: mu_agent_hear_mpi(agent, 0, u); break;
    case MU_TALK_PMIX: mu_agent_hear_pmix(agent, 0, u); break;
    case MU_TALK_OVER:
        b->told_status = (int)mu_unpack_u32(u) & 0xff;
        b->is_over = 1;
        break;
    default: break; /* what only a follower says */
    }
}

static void give_up(struct mu_agent *agent, const char *what, const char *why)
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
    give_up(agent, "the leader is lost", why);
}

void mu_agent_input_ended(struct mu_agent *agent)
{
    give_up(agent, "standard input has ended", "with --key-file - that is the launcher's death");
}

void mu_agent_leader_moved(struct mu_agent *agent, int is_up, const char *why)
{
    struct mu_agent_bridge *b = agent->bridge;

    if (b->is_over || b->away == !is_up)
        return;
    b->away = !is_up;
    if (!is_up) /* whoever keeps a stopped agent's connection has closed it */
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

int mu_agent_told_status(const struct mu_agent *agent)
{
    return agent->bridge->told_status;
}
