/*
 * cli/status/missing.c: how a task is, what a barrier or group waits for, and why one that is missing is not there.
 */

#include "cli/status/picture.h"

bool mu_cli_is_busy(const struct mu_cli_task *task)
{
    return task->cpu_is_recent && task->cpu_percent >= 1;
}

enum mu_cli_kind mu_cli_kind_of(const struct mu_cli_picture *picture, const struct mu_cli_task *task)
{
    const struct muster_task_info *info = &task->info;

    if (mu_cli_is_ended(info) && !task->unjoined)
        return info->wait_status > 0 && info->attempt == 0 ? MU_CLI_DEAD : MU_CLI_GONE;
    if (info->attempt == 0 || task->unjoined)
        return task->unjoined && (task->letter == 'T' || task->letter == 't') ? MU_CLI_STOPPED : MU_CLI_ABSENT;
    if (!info->alive) {
        if (info->state == MUSTER_TASK_DISCONNECTED)
            return MU_CLI_GONE;
        return info->state == MUSTER_TASK_ERROR &&
                       (info->cause == MUSTER_CAUSE_REPORTED || info->cause == MUSTER_CAUSE_SERVICE)
                   ? MU_CLI_IN_ERROR
                   : MU_CLI_DEAD;
    }
    if (task->letter == 'T' || task->letter == 't')
        return MU_CLI_STOPPED;
    if (info->state == MUSTER_TASK_ERROR)
        return MU_CLI_IN_ERROR;
    if (info->waiting[0])
        return MU_CLI_WAITS;
    if (info->guest) /* asleep, it may wait for its agent's answer */
        return MU_CLI_RUNS;
    if (task->letter == 'D')
        return MU_CLI_BLOCKED;
    if (task->letter == 'S' && !mu_cli_is_busy(task) &&
        (!task->last_ran || picture->now_ns - task->last_ran > MU_CLI_IDLE_NS))
        return MU_CLI_SLEEPS;
    return MU_CLI_RUNS;
}

const char *mu_cli_barrier_word(const struct mu_barrier_view *barrier)
{
    switch (barrier->state) {
    case MU_VIEW_WAITING: return "WAITING";
    case MU_VIEW_PASSED: return "PASSED";
    case MU_VIEW_BUILDING: return "BUILDING";
    case MU_VIEW_FAILED: return barrier->is_group ? "FAILED" : muster_status_name(barrier->code);
    }
    return "?";
}

bool mu_cli_barrier_is_open(const struct mu_barrier_view *barrier)
{
    return barrier->state == MU_VIEW_WAITING || barrier->state == MU_VIEW_BUILDING;
}

const char *mu_cli_why_missing(const struct mu_cli_picture *picture, int32_t task_id, char buffer[192])
{
    const struct mu_cli_task *task;
    const struct muster_task_info *info;
    const struct mu_cli_host *other;
    char age[32], pid[32] = "", host[80] = "";

    if (task_id < 0 || (size_t)task_id >= picture->count)
        return "unknown";
    task = &picture->tasks[task_id];
    info = &task->info;
    if (info->pid || !info->guest)
        snprintf(pid, sizeof pid, ", pid %u", info->pid);
    if (mu_cli_is_ended(info) && !task->unjoined)
        return mu_cli_end(info, buffer);
    other = mu_cli_other_host(picture, task_id);
    if (other)
        snprintf(host, sizeof host, " on host %s", other->view.name);
    switch (mu_cli_kind_of(picture, task)) {
    case MU_CLI_ABSENT:
        if (!task->unjoined)
            return "never registered";
        snprintf(buffer, 192, "%s%s, not registered%s", mu_cli_process_word(task), pid, info->attempt ? " again" : "");
        break;
    case MU_CLI_GONE: snprintf(buffer, 192, "left %s ago", mu_cli_age(info->since_ns, age)); break;
    case MU_CLI_IN_ERROR: snprintf(buffer, 192, "in error (%s)", mu_cli_cause_name(info->cause)); break;
    case MU_CLI_WAITS:
        snprintf(buffer, 192, "waits%s in %.90s for %s", host, info->waiting, mu_cli_age(info->waiting_since_ns, age));
        break;
    case MU_CLI_RUNS:
        if (other)
            snprintf(buffer, 192, "%s%s, pid %u", task->letter ? "running" : "alive", host, info->pid);
        else
            snprintf(buffer, 192, "%s%s", info->guest ? "connected as a guest" : "running elsewhere", pid);
        break;
    case MU_CLI_SLEEPS:
    case MU_CLI_BLOCKED:
    case MU_CLI_STOPPED:
        snprintf(buffer, 192, "%s%s, pid %u%s%s%s", mu_cli_process_word(task), host, info->pid,
                 task->last_ran ? ", for " : "", task->last_ran ? mu_cli_age(task->last_ran, age) : "",
                 task->unjoined ? ", not registered" : "");
        break;
    default: snprintf(buffer, 192, "%s%s%s", mu_cli_process_word(task), host, pid);
    }
    return buffer;
}
