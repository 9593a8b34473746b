/*
 * agent/report.c: what the launcher says on stderr, and its exit status.
 *
 * Each message is one line and one write(), so that it never mixes with the relayed output. The root cause is the task
 * that the segment says failed first (a killed task's peers may have failed, and been reaped, before a large process is
 * torn down), else the first that ended badly. It is named when its exit status is known.
 */
#include "agent/private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void mu_agent_say(const char *format, ...)
{
    char line[1024] = "muster run: ";
    size_t start = strlen(line), len;
    va_list args;

    va_start(args, format);
    vsnprintf(line + start, sizeof line - start - 1, format, args);
    va_end(args);
    len = strlen(line);
    for (size_t i = start; i < len; i++) /* a task's message may hold anything */
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    line[len++] = '\n';
    if (write(2, line, len) < 0)
        return; /* nobody listens */
}

static const char *cause_words(const struct muster_error *error)
{
    switch (error->cause) {
    case MUSTER_CAUSE_REPORTED: return "after it reported an error";
    case MUSTER_CAUSE_HEARTBEAT: return "after its heartbeats had stopped";
    default: return NULL;
    }
}

void mu_agent_say_root_cause(struct mu_agent *agent)
{
    const struct mu_agent_task *task;
    struct muster_error error;
    int32_t first;
    char words[96], rest[64] = "";

    if (agent->root_cause < 0 || agent->root_said)
        return;
    first = mu_agent_first_error(agent, &error);
    if (first >= 0 && agent->tasks[first].started)
        agent->root_cause = first;
    task = &agent->tasks[agent->root_cause];
    if (!task->ended)
        return;
    agent->root_said = 1;
    if (agent->running > 0 && !agent->options->keep_going)
        snprintf(rest, sizeof rest, "; ending the other %u task%s", agent->running, agent->running == 1 ? "" : "s");
    mu_launch_words(task->wait_status, words, sizeof words);
    if (first == agent->root_cause && cause_words(&error))
        mu_agent_say("task %d (pid %d) %s %s: %s%s", (int)agent->root_cause, (int)task->pid, words, cause_words(&error),
                     error.message, rest);
    else
        mu_agent_say("task %d (pid %d) %s%s", (int)agent->root_cause, (int)task->pid, words, rest);
}

void mu_agent_say_timeout(struct mu_agent *agent)
{
    struct muster_task_info info;
    char text[64];

    snprintf(text, sizeof text, "%.6g s", (double)agent->options->timeout_ns / 1e9);
    mu_agent_say("timed out after %s with %u of %u tasks running: ending the job", text, agent->running,
                 agent->options->num_tasks);
    for (uint32_t i = 0, said = 0; i < agent->options->num_tasks && said < 8; i++) {
        if (agent->tasks[i].ended || muster_task_get(agent->muster, (int32_t)i, &info) != MUSTER_OK || !info.waiting[0])
            continue;
        said++;
        mu_agent_say("task %u (pid %d) waits in %s, since %.1f s", i, (int)agent->tasks[i].pid, info.waiting,
                     (double)(muster_now_ns() - info.waiting_since_ns) / 1e9);
    }
}

int mu_agent_exit_status(const struct mu_agent *agent)
{
    int highest = 0;

    if (agent->broken)
        return MU_AGENT_EXIT_FAILED;
    if (agent->spawn_status)
        return agent->spawn_status;
    if (agent->end_signal)
        return 128 + agent->end_signal;
    if (agent->timed_out)
        return MU_AGENT_EXIT_TIMEOUT;
    for (uint32_t i = 0; i < agent->options->num_tasks; i++) {
        const struct mu_agent_task *task = &agent->tasks[i];
        int code = mu_launch_code(task->wait_status);

        /* What was ended by the launcher says nothing, unless it turns out to be the root cause itself. */
        if ((!task->by_us || (int32_t)i == agent->root_cause) && code > highest)
            highest = code;
    }
    return highest;
}
