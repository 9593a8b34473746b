/*
 * agent/process/attempt.c: starting again after a failure.
 *
 * The whole job: when its last task has ended, what it left behind too, and its segment is gone, everything begins anew
 * with the same name, another segment and other ports: no key, no barrier, no error of the last attempt is there.
 * One task: its process group is ended, and a new process gets the same number in the same job; it registers with a new
 * incarnation. Such a job's tasks are recoverable (MUSTER_RECOVERABLE=1 in their environment): peers do not fail with
 * the dead one, its arrivals at barriers are taken back, and they wait for its successor.
 * Either waits before it starts again, twice as long each time.
 */
#include "agent/process/elastic.h"

#include <stdlib.h>

#include "agent/hosts/stay.h"
#include "checkpoint/checkpoint.h"

#define DELAY_MAX_NS 60000000000ull

uint64_t mu_agent_restart_delay(const struct mu_agent *agent, uint32_t times)
{
    uint64_t ns = agent->options->restart_delay_ns;

    while (times-- > 0 && ns < DELAY_MAX_NS)
        ns *= 2;
    return ns < DELAY_MAX_NS || ns == agent->options->restart_delay_ns ? ns : DELAY_MAX_NS;
}

/* What they had saved of a generation that is not whole: a part of a process that has gone back to the one before. */
static void checkpoints_rewind(struct mu_agent *agent, int32_t rank)
{
    if (mu_checkpoint_rewind(agent->run_id, rank))
        mu_agent_say("a checkpoint in memory is not set back, and may count a part of a process that is dead: %s",
                     muster_last_error());
}

int mu_agent_task_again(struct mu_agent *agent, uint32_t task_id)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    char words[256];
    uint64_t ns;

    if (!agent->options->restart_tasks || mu_agent_is_ending(agent) || task->restarts >= agent->options->restarts)
        return 0;
    ns = mu_agent_restart_delay(agent, task->restarts++);
    mu_agent_say("task %u (pid %d) %s; starting it again in %.3g s (%u of %u)", task_id, (int)task->pid,
                 mu_agent_words(agent, task, words, sizeof words), (double)ns / 1e9, task->restarts,
                 agent->options->restarts);
    mu_agent_say_tail(agent, task_id);
    task->attempt++;
    checkpoints_rewind(agent, (int32_t)task_id);
    task->restart_at = muster_after_ns(ns);
    agent->waiting++;
    return 1;
}

void mu_agent_start_again(struct mu_agent *agent)
{
    uint64_t now = muster_now_ns();

    for (uint32_t i = 0; agent->waiting > 0 && !agent->is_suspended && i < agent->num_tasks; i++) {
        if (agent->tasks[i].restart_at > now)
            continue;
        agent->tasks[i].restart_at = UINT64_MAX;
        agent->waiting--;
        if (mu_agent_start_task(agent, i)) {
            mu_agent_post(agent, MU_ON_END);
            mu_agent_tell_failed(agent);
            continue;
        }
        mu_components_started(agent, i, 1);
    }
}

uint64_t mu_agent_next_start(const struct mu_agent *agent)
{
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; agent->waiting > 0 && !agent->is_suspended && i < agent->num_tasks; i++)
        if (agent->tasks[i].restart_at < next)
            next = agent->tasks[i].restart_at;
    return next;
}

/* What the next attempt must not know of this one. */
static void attempt_reset(struct mu_agent *agent)
{
    agent->attempt++;
    checkpoints_rewind(agent, MU_CHECKPOINT_ALL);
    if (agent->next_tasks)
        agent->num_tasks = agent->local_tasks = agent->next_tasks;
    agent->anew += agent->num_tasks;
    agent->root_cause = -1;
    agent->root_said = 0;
    agent->gpu_failed = 0;
    agent->interrupted_at = 0;
    for (uint32_t i = 0; i < mu_agent_capacity(agent); i++) {
        struct mu_agent_task *task = &agent->tasks[i];

        task->started = task->ended = task->by_us = 0;
        free(task->words);
        task->words = NULL;
        task->wait_status = 0;
        task->attempt = agent->attempt;
    }
}

static void attempt_prepare(struct mu_agent *agent, uint64_t delay_ns)
{
    agent->force = MU_FORCE_NONE;
    agent->kill_at = UINT64_MAX;
    agent->timeout_at = agent->deadline;
    agent->phase_until = muster_after_ns(delay_ns);
}

int mu_agent_may_begin_again(const struct mu_agent *agent, uint64_t *ret_delay_ns)
{
    *ret_delay_ns = mu_agent_restart_delay(agent, agent->attempt);
    return !agent->told_to_end && !agent->timed_out && !agent->broken && !agent->spawn_status &&
           !agent->options->elastic && !agent->options->restart_tasks && !mu_agent_follows(agent) && !agent->adopted &&
           agent->attempt < agent->options->restarts && agent->root_cause >= 0 && !agent->gave_up;
}

int mu_agent_job_again(struct mu_agent *agent)
{
    uint64_t ns;

    if (agent->told_to_end || agent->timed_out || agent->broken || agent->spawn_status)
        return 0;
    if (agent->options->elastic) {
        agent->next_tasks = mu_agent_elastic_again(agent, &ns);
        if (!agent->next_tasks)
            return 0;
        mu_agent_close_job(agent);
        attempt_prepare(agent, ns);
        return 1;
    }
    if (agent->options->restart_tasks || mu_agent_follows(agent) || agent->adopted ||
        agent->attempt >= agent->options->restarts || agent->root_cause < 0)
        return 0;
    if (agent->gave_up) { /* its network alone may be gone: no task is to run twice */
        mu_agent_say("the job is not started again: nobody knows whether the lost host's tasks have ended");
        return 0;
    }
    ns = mu_agent_restart_delay(agent, agent->attempt);
    mu_agent_close_job(agent);
    mu_agent_say("starting the job again in %.3g s (%u of %u)", (double)ns / 1e9, agent->attempt + 1,
                 agent->options->restarts);
    attempt_prepare(agent, ns);
    return 1;
}

void mu_agent_look_pausing(struct mu_agent *agent)
{
    if (muster_now_ns() < agent->phase_until)
        return;
    attempt_reset(agent);
    mu_agent_post(agent, MU_ON_BEGIN);
}
