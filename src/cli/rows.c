/*
 * cli/rows.c: tasks and barriers, as rows for people and as JSON. Used by status, task and barrier.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum muster_status mu_cli_tasks(struct muster *muster, struct muster_task_info **ret_infos, size_t *ret_count,
                                uint64_t *ret_version)
{
    size_t capacity = muster_num_tasks(muster);
    struct muster_task_info *infos = calloc(capacity ? capacity : 1, sizeof *infos);
    enum muster_status status;

    if (!infos)
        abort();
    status = muster_task_list(muster, infos, capacity, ret_count, ret_version);
    if (status != MUSTER_OK) {
        free(infos);
        return status;
    }
    if (*ret_count > capacity)
        *ret_count = capacity;
    *ret_infos = infos;
    return MUSTER_OK;
}

void mu_cli_json_task(struct mu_cli_json *json, const char *key, const struct muster_task_info *info)
{
    mu_cli_json_open(json, key, '{');
    mu_cli_json_signed(json, "task", info->task_id);
    mu_cli_json_text(json, "state", mu_cli_state_name(info->state));
    mu_cli_json_text(json, "process", mu_cli_process(info));
    mu_cli_json_bool(json, "alive", info->alive);
    mu_cli_json_bool(json, "recoverable", info->recoverable);
    if (info->pid)
        mu_cli_json_unsigned(json, "pid", info->pid);
    else
        mu_cli_json_null(json, "pid");
    mu_cli_json_text(json, "host", info->host);
    mu_cli_json_unsigned(json, "attempt", info->attempt);
    mu_cli_json_unsigned(json, "incarnation", info->incarnation);
    mu_cli_json_unsigned(json, "since_ns", info->since_ns);
    mu_cli_json_unsigned(json, "heartbeats", info->heartbeats);
    if (info->waiting[0]) {
        mu_cli_json_open(json, "waiting", '{');
        mu_cli_json_text(json, "in", info->waiting);
        mu_cli_json_unsigned(json, "since_ns", info->waiting_since_ns);
        mu_cli_json_close(json, '}');
    } else {
        mu_cli_json_null(json, "waiting");
    }
    if (info->state == MUSTER_TASK_ERROR) {
        mu_cli_json_open(json, "error", '{');
        mu_cli_json_text(json, "code", muster_status_name(info->error));
        mu_cli_json_text(json, "cause", mu_cli_cause_name(info->cause));
        mu_cli_json_text(json, "message", info->message);
        mu_cli_json_close(json, '}');
    } else {
        mu_cli_json_null(json, "error");
    }
    mu_cli_json_close(json, '}');
}

void mu_cli_print_task_head(void)
{
    printf("%s%-5s %-13s %-8s %-8s %-8s %-11s %s%s\n", mu_cli_colour(MU_CLI_BOLD), "TASK", "STATE", "PROCESS", "PID",
           "SINCE", "HEARTBEATS", "WAITING", mu_cli_colour(MU_CLI_PLAIN));
}

void mu_cli_print_task(const struct muster_task_info *info)
{
    static const enum mu_cli_colour colours[] = {
        [MUSTER_TASK_DISCONNECTED] = MU_CLI_DIM,
        [MUSTER_TASK_CONNECTED] = MU_CLI_GREEN,
        [MUSTER_TASK_ERROR] = MU_CLI_RED,
    };
    char age[32], waiting_age[32], pid[16] = "-";
    unsigned state = (unsigned)info->state < 3 ? (unsigned)info->state : 0;

    if (info->pid)
        snprintf(pid, sizeof pid, "%u", info->pid);
    printf("%-5d %s%-13s%s %-8s %-8s %-8s %-11" PRIu64, (int)info->task_id, mu_cli_colour(colours[state]),
           mu_cli_state_name(info->state), mu_cli_colour(MU_CLI_PLAIN), mu_cli_process(info), pid,
           mu_cli_age(info->since_ns, age), info->heartbeats);
    if (info->waiting[0])
        printf(" %s, for %s", info->waiting, mu_cli_age(info->waiting_since_ns, waiting_age));
    putchar('\n');
    if (info->state == MUSTER_TASK_ERROR)
        printf("      %s%s, %s%s: %s\n", mu_cli_colour(MU_CLI_RED), muster_status_name(info->error),
               mu_cli_cause_name(info->cause), mu_cli_colour(MU_CLI_PLAIN), info->message);
}

/* ---- barriers --------------------------------------------------------------------------------------------------- */

/* Why a task has not arrived: the most telling thing that is known of it. */
static const char *why_missing(const struct muster_task_info *infos, size_t count, int32_t task_id, char buffer[192])
{
    const struct muster_task_info *info;
    const char *process;
    char age[32];

    if (task_id < 0 || (size_t)task_id >= count)
        return "unknown";
    info = &infos[task_id];
    process = mu_cli_process(info);
    if (info->state == MUSTER_TASK_ERROR)
        snprintf(buffer, 192, "in error (%s)", mu_cli_cause_name(info->cause));
    else if (info->attempt == 0)
        return "never registered";
    else if (info->state == MUSTER_TASK_DISCONNECTED)
        snprintf(buffer, 192, "left %s ago", mu_cli_age(info->since_ns, age));
    else if (strcmp(process, "running") != 0)
        snprintf(buffer, 192, "%s, pid %u", process, info->pid);
    else if (info->waiting[0])
        snprintf(buffer, 192, "waits in %s for %s", info->waiting, mu_cli_age(info->waiting_since_ns, age));
    else
        snprintf(buffer, 192, "running elsewhere, pid %u", info->pid);
    return buffer;
}

struct rows {
    struct mu_cli_json *json;
    const struct muster_task_info *infos;
    size_t count, shown;
};

static const char *barrier_state(const struct muster_barrier_info *info)
{
    if (!info->passed)
        return "WAITING";
    return info->result == MUSTER_OK ? "PASSED" : muster_status_name(info->result);
}

static int json_barrier(void *arg, const struct muster_barrier_info *info)
{
    struct rows *rows = arg;
    struct mu_cli_json *json = rows->json;
    char why[192];

    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_text(json, "id", info->id);
    mu_cli_json_unsigned(json, "instance", info->counter);
    mu_cli_json_bool(json, "passed", info->passed);
    if (info->passed)
        mu_cli_json_text(json, "result", muster_status_name(info->result));
    else
        mu_cli_json_null(json, "result");
    mu_cli_json_unsigned(json, "participants", info->participants);
    mu_cli_json_unsigned(json, "arrived", info->arrived);
    mu_cli_json_unsigned(json, "missing_count", info->missing_count);
    mu_cli_json_open(json, "missing", '[');
    for (uint32_t i = 0; i < info->missing_count && i < 16; i++) {
        mu_cli_json_open(json, NULL, '{');
        mu_cli_json_signed(json, "task", info->missing[i]);
        mu_cli_json_text(json, "why", why_missing(rows->infos, rows->count, info->missing[i], why));
        mu_cli_json_close(json, '}');
    }
    mu_cli_json_close(json, ']');
    if (info->deadline_ns == UINT64_MAX)
        mu_cli_json_null(json, "deadline_ns");
    else
        mu_cli_json_unsigned(json, "deadline_ns", info->deadline_ns);
    mu_cli_json_unsigned(json, "since_ns", info->since_ns);
    mu_cli_json_close(json, '}');
    return 0;
}

static int print_barrier(void *arg, const struct muster_barrier_info *info)
{
    struct rows *rows = arg;
    char age[32], why[192], arrived[32];

    if (rows->shown++ == 0)
        printf("%s%-24s %-9s %-18s %-9s %s%s\n", mu_cli_colour(MU_CLI_BOLD), "BARRIER", "INSTANCE", "STATE", "ARRIVED",
               "SINCE", mu_cli_colour(MU_CLI_PLAIN));
    snprintf(arrived, sizeof arrived, "%u/%u", info->arrived, info->participants);
    mu_cli_print_text(stdout, info->id, strlen(info->id));
    printf("%*s %-9" PRIu64 " %-18s %-9s %s\n", strlen(info->id) < 24 ? (int)(24 - strlen(info->id)) : 0, "",
           info->counter, barrier_state(info), arrived, mu_cli_age(info->since_ns, age));
    for (uint32_t i = 0; i < info->missing_count && i < 16 && !info->passed; i++)
        printf("  %smissing%s: task %d, %s\n", mu_cli_colour(MU_CLI_YELLOW), mu_cli_colour(MU_CLI_PLAIN),
               (int)info->missing[i], why_missing(rows->infos, rows->count, info->missing[i], why));
    if (info->missing_count > 16 && !info->passed)
        printf("  and %u more\n", info->missing_count - 16);
    return 0;
}

enum muster_status mu_cli_json_barriers(struct mu_cli_json *json, struct muster *muster,
                                        const struct muster_task_info *infos, size_t count)
{
    struct rows rows = {.json = json, .infos = infos, .count = count};
    enum muster_status status;

    mu_cli_json_open(json, "barriers", '[');
    status = muster_barrier_list(muster, json_barrier, &rows);
    mu_cli_json_close(json, ']');
    return status;
}

enum muster_status mu_cli_print_barriers(struct muster *muster, const struct muster_task_info *infos, size_t count,
                                         size_t *ret_shown)
{
    struct rows rows = {.infos = infos, .count = count};
    enum muster_status status = muster_barrier_list(muster, print_barrier, &rows);

    *ret_shown = rows.shown;
    return status;
}
