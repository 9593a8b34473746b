/*
 * agent/event.c: how the launcher learns that its job, or a task of it, is to end.
 *
 * What is posted here is dispatched by agent/life.c when the work in hand is done. A condemned task has failed whatever
 * its process's exit status says.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/private.h"

#define SECOND_INTERRUPT_NS 1000000000ull

void mu_agent_post(struct mu_agent *agent, enum mu_agent_event event)
{
    agent->events |= 1u << event;
}

void mu_agent_break(struct mu_agent *agent)
{
    agent->broken = 1;
    mu_agent_post(agent, MU_ON_END);
}

void mu_agent_end_by_signal(struct mu_agent *agent, int number)
{
    uint32_t running = mu_agent_running_everywhere(agent);
    uint64_t now = muster_now_ns();
    char name[32];

    agent->told_to_end = 1;
    if (!mu_agent_is_ending(agent)) {
        agent->end_signal = number;
        agent->is_interrupted = number == SIGINT;
        mu_launch_signal_name(number, name);
        if (running > 0)
            mu_agent_say("%s: ending %u task%s", name, running, running == 1 ? "" : "s");
        else
            mu_agent_say("%s: ending the job", name);
        mu_agent_tell_signal(agent, number);
        mu_agent_post(agent, MU_ON_END);
    } else if (number == SIGINT && agent->interrupted_at && now - agent->interrupted_at < SECOND_INTERRUPT_NS) {
        mu_agent_post(agent, MU_ON_KILL);
    }
    if (number == SIGINT)
        agent->interrupted_at = now;
}

void mu_agent_condemn(struct mu_agent *agent, uint32_t task_id, int code, const char *format, ...)
{
    struct mu_agent_task *task = &agent->tasks[task_id];
    char words[400];
    va_list args;

    if (task->verdict || mu_agent_is_ending(agent)) /* the first counts, and what comes of the end does not */
        return;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    code &= 0xff;
    task->verdict = (code ? code : 1) << 8;
    free(task->words);
    task->words = strdup(words);
    if (task->started && !task->ended)
        kill(-task->pid, SIGKILL); /* not reaped: the group's number is its own */
}
