/*
 * agent/report.c: what the launcher tells people about its job, and its exit status.
 *
 * The root cause is the task that the segment says failed first (a killed task's peers may have failed, and been
 * reaped, before a large process is torn down), else the first that ended badly. It is named when its exit status is
 * known.
 */
#include "agent/hosts/bridge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/process.h"

static const char *cause_words(const struct muster_error *error)
{
    switch (error->cause) {
    case MUSTER_CAUSE_REPORTED: return "after it reported an error";
    case MUSTER_CAUSE_SERVICE: return "after the coordination service had put it in error";
    case MUSTER_CAUSE_HEARTBEAT: return "after its heartbeats had stopped";
    default: return NULL;
    }
}

/* Where the kernel puts cores, for people. */
static void core_place(char *buffer, size_t size)
{
    char pattern[256];

    mu_read_file("/proc/sys/kernel/core_pattern", pattern, sizeof pattern);
    pattern[strcspn(pattern, "\n")] = 0;
    if (pattern[0] == '|')
        snprintf(buffer, size, "its core went to %.*s", (int)strcspn(pattern + 1, " "), pattern + 1);
    else
        snprintf(buffer, size, "its core is '%s'%s", pattern[0] ? pattern : "core",
                 pattern[0] == '/' ? "" : " in its working directory");
}

const char *mu_agent_words(const struct mu_agent *agent, const struct mu_agent_task *task, char *buffer, size_t size)
{
    int killed = WIFSIGNALED(task->wait_status) && WTERMSIG(task->wait_status) == SIGKILL;
    const char *hint =
        task->error ? task->error
                    : mu_launch_hint(task->wait_status, killed ? mu_launch_oom_of(task->pid, agent->launching.oom_kills)
                                                               : MU_LAUNCH_OOM_NOT);
    size_t len;

    if (task->words) {
        snprintf(buffer, size, "%s", task->words);
        return buffer;
    }
    mu_launch_words(task->wait_status, buffer, size);
    if (hint) {
        len = strlen(buffer);
        snprintf(buffer + len, size - len, ": %s", hint);
    }
    if (WIFSIGNALED(task->wait_status) && WCOREDUMP(task->wait_status)) {
        char place[320];

        core_place(place, sizeof place);
        len = strlen(buffer);
        snprintf(buffer + len, size - len, "; %s", place);
    }
    return buffer;
}

void mu_agent_say_tail(struct mu_agent *agent, uint32_t task_id)
{
    const char *template = agent->options->output;
    const char *what = template && !mu_launch_files_are_apart(template) ? "output" : "stderr";
    char *text = NULL;
    size_t len;

    if (mu_agent_leads(agent) && !mu_agent_has_task(agent, task_id))
        mu_agent_ask_tail(agent, task_id);
    else if (agent->launching.output)
        mu_launch_output_explain(agent->launching.output, task_id, 0, NULL);
    else if (agent->tasks[task_id].err_path)
        text = mu_launch_files_tail(agent->tasks[task_id].err_path, task_id, what, &len);
    if (text)
        mu_agent_write(text, len);
    free(text);
}

bool mu_agent_explain(struct mu_agent *agent, uint32_t task_id, const char *sentence)
{
    char line[1024];

    if (!agent->launching.output || !mu_agent_has_task(agent, task_id))
        return false;
    snprintf(line, sizeof line, "muster run: %s", sentence);
    return !mu_launch_output_explain(agent->launching.output, task_id, 0, line);
}

void mu_agent_say_root_cause(struct mu_agent *agent)
{
    const struct mu_agent_task *task;
    struct muster_error error;
    int32_t first;
    char words[640], rest[64] = "", name[120];
    uint32_t running = mu_agent_running_everywhere(agent);

    if (agent->root_cause < 0 || agent->root_said)
        return;
    first = mu_agent_first_error(agent, &error);
    if (first >= 0 && agent->tasks[first].started)
        agent->root_cause = first;
    agent->root_cause = mu_agent_first_raised(agent, agent->root_cause);
    task = &agent->tasks[agent->root_cause];
    if (!task->ended)
        return;
    agent->root_said = 1;
    if (running > 0 && !agent->options->keep_going)
        snprintf(rest, sizeof rest, "; ending the other %u task%s", running, running == 1 ? "" : "s");
    mu_agent_task_name(agent, (uint32_t)agent->root_cause, name, sizeof name);
    mu_agent_words(agent, task, words, sizeof words);
    if (agent->gpu_failed) /* said when it happened */
        mu_agent_say("%s %s after its GPU had failed%s", name, words, rest);
    else if (first == agent->root_cause && cause_words(&error))
        mu_agent_say("%s %s %s: %s%s", name, words, cause_words(&error), error.message, rest);
    else
        mu_agent_say("%s %s%s", name, words, rest);
    mu_agent_say_tail(agent, (uint32_t)agent->root_cause);
}

void mu_agent_print_bindings(const struct mu_agent *agent, FILE *out)
{
    struct mu_launch_report *rows = calloc(agent->local_tasks + 1, sizeof *rows);
    char host[256];

    mu_agent_own_name(agent->options->hosts, host, sizeof host);
    for (uint32_t i = 0; rows && i < agent->local_tasks; i++) {
        struct mu_launch_report *row = &rows[i];

        *row = (struct mu_launch_report){.task = agent->first_task + i,
                                         .host = host,
                                         .place = mu_launch_plan_place(agent->options->plan, i),
                                         .gpus = agent->options->plan->gpus,
                                         .verdict = MU_LAUNCH_UNASKED};
        if (!agent->tasks) /* a dry run */
            continue;
        row->pid = agent->tasks[row->task].pid;
        row->verdict = mu_launch_verify(row->pid, row->place, row->actual, sizeof row->actual);
        if (row->gpus && row->verdict == MU_LAUNCH_HOLDS)
            row->verdict = mu_launch_gpu_verify(row->pid, row->place, row->actual, sizeof row->actual);
    }
    if (rows && agent->options->report_bindings == MU_AGENT_REPORT_JSON)
        mu_launch_report_json(out, rows, agent->local_tasks);
    else if (rows)
        mu_launch_report_print(out, rows, agent->local_tasks);
    free(rows);
}

void mu_agent_say_bindings(struct mu_agent *agent)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);

    if (!file)
        return;
    mu_agent_print_bindings(agent, file);
    if (fclose(file) == 0)
        mu_agent_write(text, size);
    free(text);
}

static void report_write(struct mu_agent *agent)
{
    char *text = NULL;
    size_t size;
    FILE *file;

    if (!agent->options->report || !agent->segment || mu_agent_be_there(agent) ||
        !(file = open_memstream(&text, &size)))
        return;
    agent->options->report(agent->muster, file);
    if (fclose(file) == 0)
        mu_agent_write(text, size);
    free(text);
}

void mu_agent_say_timeout(struct mu_agent *agent)
{
    mu_components_report(agent);
    mu_agent_say("timed out after %.6g s with %u of %u tasks running: ending the job",
                 (double)agent->options->timeout_ns / 1e9, mu_agent_running_everywhere(agent), agent->num_tasks);
    report_write(agent);
}

/* What a task has failed with; 0: it has not, or was ended by the launcher and is not the root cause itself. */
static int own_failure(const struct mu_agent *agent, uint32_t task_id)
{
    const struct mu_agent_task *task = &agent->tasks[task_id];

    return !task->by_us || (int32_t)task_id == agent->root_cause ? mu_launch_code(task->wait_status) : 0;
}

int mu_agent_exit_status(const struct mu_agent *agent)
{
    int highest = 0;

    if (mu_agent_follows(agent) && agent->bridge && !agent->broken)
        return agent->bridge->told_status;
    if (agent->broken)
        return MU_AGENT_EXIT_FAILED;
    if (agent->spawn_status)
        return agent->spawn_status;
    if (agent->end_signal)
        return 128 + agent->end_signal;
    if (agent->timed_out)
        return MU_AGENT_EXIT_TIMEOUT;
    for (uint32_t i = 0; i < agent->num_tasks; i++)
        if (own_failure(agent, i) > highest)
            highest = own_failure(agent, i);
    return highest == 0 && (agent->gpu_failed || (agent->adopted && agent->root_cause >= 0)) ? 1 : highest;
}

void mu_agent_say_failures(const struct mu_agent *agent)
{
    uint32_t failed = 0, whose = 0;

    if (!agent->tasks || !agent->options->keep_going || mu_agent_follows(agent) || agent->broken ||
        agent->spawn_status || agent->end_signal ||
        agent->timed_out) /* the status is no task's, or another agent names the task */
        return;
    for (uint32_t i = 0; i < agent->num_tasks; i++) {
        failed += own_failure(agent, i) != 0;
        if (own_failure(agent, i) > own_failure(agent, whose))
            whose = i;
    }
    if (failed > 1)
        mu_agent_say("%u of %u tasks failed; the exit status, %d, is task %u's", failed, agent->num_tasks,
                     own_failure(agent, whose), whose);
}
