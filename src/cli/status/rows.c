/*
 * cli/status/rows.c: tasks as rows for people and as JSON: what the segment says of them. Used by task, and by the
 * pictures of status and top, which add what /proc says.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/process.h"
#include "launch/launch.h"
#include "segment/cluster.h"

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

void mu_cli_find_unjoined(const struct muster_segment *seg, struct muster_task_info *infos, const uint64_t *starts,
                          size_t count, bool *ret_unjoined)
{
    uint32_t first = seg->first_task, own = seg->local_tasks;
    pid_t *pids = NULL;

    for (uint32_t i = first; !pids && !seg->foreign && i < first + own && i < count; i++)
        if (!infos[i].alive)
            pids = calloc(own, sizeof *pids);
    if (pids && mu_launch_guard_tasks(seg->job, (pid_t)seg->header->creator_pid, own, pids) == 0)
        for (uint32_t i = first; i < first + own && i < count; i++) {
            uint32_t pid = (uint32_t)pids[i - first];

            if (infos[i].alive || !pid || pid == infos[i].pid)
                continue;
            if (infos[i].attempt && mu_process_start((pid_t)pid) <= starts[i])
                continue; /* what had joined was a child of it */
            ret_unjoined[i] = true;
            infos[i].alive = 1;
            infos[i].pid = pid;
        }
    free(pids);
}

const char *mu_cli_end(const struct muster_task_info *info, char buffer[192])
{
    uint32_t how = info->wait_status < 0 ? MU_TASK_HOW_UNKNOWN : MU_TASK_HOW_FLAGS(info->wait_status);
    struct mu_task_record record = {.flags = MU_TASK_ENDED | how, .attempt = info->attempt};

    return mu_cluster_end(&record, buffer);
}

static void json_end(struct mu_cli_json *json, const struct muster_task_info *info)
{
    int how = info->wait_status;

    if (!info->ended) {
        mu_cli_json_null(json, "ended");
        return;
    }
    mu_cli_json_open(json, "ended", '{');
    mu_cli_json_known(json, "status", how >= 0 && WIFEXITED(how), (uint64_t)WEXITSTATUS(how));
    mu_cli_json_known(json, "signal", how >= 0 && WIFSIGNALED(how), (uint64_t)WTERMSIG(how));
    mu_cli_json_close(json, '}');
}

void mu_cli_json_task_fields(struct mu_cli_json *json, const struct muster_task_info *info)
{
    mu_cli_json_signed(json, "task", info->task_id);
    mu_cli_json_text(json, "state", mu_cli_state_name(info->state));
    mu_cli_json_text(json, "process", mu_cli_process(info));
    mu_cli_json_bool(json, "alive", info->alive);
    mu_cli_json_bool(json, "recoverable", info->recoverable);
    mu_cli_json_bool(json, "guest", info->guest);
    mu_cli_json_known(json, "pid", info->pid, info->pid);
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
    json_end(json, info);
}

void mu_cli_json_task(struct mu_cli_json *json, const char *key, const struct muster_task_info *info)
{
    mu_cli_json_open(json, key, '{');
    mu_cli_json_task_fields(json, info);
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
    char age[32], waiting_age[32], end[192], pid[16] = "-";
    unsigned state = (unsigned)info->state < 3 ? (unsigned)info->state : 0;

    if (info->pid)
        snprintf(pid, sizeof pid, "%u", info->pid);
    printf("%-5d %s%-13s%s %-8s %-8s %-8s %-11" PRIu64, (int)info->task_id, mu_cli_colour(colours[state]),
           mu_cli_state_name(info->state), mu_cli_colour(MU_CLI_PLAIN), mu_cli_process(info), pid,
           mu_cli_age(info->since_ns, age), info->heartbeats);
    if (info->waiting[0]) {
        putchar(' ');
        mu_cli_print_line(stdout, info->waiting);
        printf(", for %s", mu_cli_age(info->waiting_since_ns, waiting_age));
    }
    putchar('\n');
    if (mu_cli_is_ended(info) && info->attempt == 0)
        printf("      %s\n", mu_cli_end(info, end));
    if (info->state == MUSTER_TASK_ERROR) {
        printf("      %s%s, %s%s: ", mu_cli_colour(MU_CLI_RED), muster_status_name(info->error),
               mu_cli_cause_name(info->cause), mu_cli_colour(MU_CLI_PLAIN));
        mu_cli_print_line(stdout, info->message);
        putchar('\n');
    }
}
