/*
 * cli/status.c: `muster status`: who is missing, where, since when, and is it dead, stopped or elsewhere?
 *
 * Read-only: it takes no slot and waits for nobody, so it answers when every process of the job is stopped or dead.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

struct picture {
    struct muster_segment_info segment;
    struct muster_task_info *infos;
    size_t count, keys;
    unsigned states[3];
    int in_error; /* some non-recoverable task is */
    struct muster_error error;
};

static enum muster_status look(struct muster *muster, struct picture *ret)
{
    enum muster_status status = muster_segment_info(muster_segment_of(muster), &ret->segment);

    if (status == MUSTER_OK)
        status = mu_cli_tasks(muster, &ret->infos, &ret->count, NULL);
    if (status == MUSTER_OK)
        status = muster_kv_count(muster, "", 0, &ret->keys);
    if (status != MUSTER_OK)
        return status;
    for (size_t i = 0; i < ret->count; i++)
        if ((unsigned)ret->infos[i].state < 3)
            ret->states[ret->infos[i].state]++;
    ret->in_error = muster_error_wait(muster, muster_after_ns(0), &ret->error) == MUSTER_OK;
    return MUSTER_OK;
}

static double job_age(const struct picture *picture)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 - (double)picture->segment.created_unix_ns / 1e9;
}

static enum muster_status print_json(struct muster *muster, const struct picture *picture)
{
    const struct muster_segment_info *segment = &picture->segment;
    struct mu_cli_json json;
    enum muster_status status;
    char run_id[40];

    snprintf(run_id, sizeof run_id, "%016" PRIx64 "%016" PRIx64, segment->run_id[0], segment->run_id[1]);
    mu_cli_json_start(&json, stdout);
    mu_cli_json_open(&json, NULL, '{');
    mu_cli_json_text(&json, "job", segment->job);
    mu_cli_json_text(&json, "run_id", run_id);
    mu_cli_json_unsigned(&json, "creator_pid", segment->creator_pid);
    mu_cli_json_unsigned(&json, "created_unix_ns", segment->created_unix_ns);
    mu_cli_json_unsigned(&json, "now_ns", muster_now_ns());
    mu_cli_json_bool(&json, "closed", segment->closed);
    mu_cli_json_unsigned(&json, "num_tasks", segment->num_tasks);
    mu_cli_json_open(&json, "segment", '{');
    mu_cli_json_text(&json, "path", segment->path);
    mu_cli_json_unsigned(&json, "size_bytes", segment->size_bytes);
    mu_cli_json_unsigned(&json, "committed_bytes", segment->committed_bytes);
    mu_cli_json_unsigned(&json, "slots", segment->num_slots);
    mu_cli_json_unsigned(&json, "slots_live", segment->slots_live);
    mu_cli_json_close(&json, '}');
    mu_cli_json_unsigned(&json, "keys", picture->keys);
    if (picture->in_error) {
        mu_cli_json_open(&json, "error", '{');
        mu_cli_json_signed(&json, "task", picture->error.task_id);
        mu_cli_json_text(&json, "code", muster_status_name(picture->error.code));
        mu_cli_json_text(&json, "cause", mu_cli_cause_name(picture->error.cause));
        mu_cli_json_text(&json, "message", picture->error.message);
        mu_cli_json_unsigned(&json, "since_ns", picture->error.since_ns);
        mu_cli_json_close(&json, '}');
    } else {
        mu_cli_json_null(&json, "error");
    }
    mu_cli_json_open(&json, "tasks", '[');
    for (size_t i = 0; i < picture->count; i++)
        mu_cli_json_task(&json, NULL, &picture->infos[i]);
    mu_cli_json_close(&json, ']');
    status = mu_cli_json_barriers(&json, muster, picture->infos, picture->count);
    mu_cli_json_close(&json, '}');
    mu_cli_json_end(&json);
    return status;
}

static enum muster_status print_people(struct muster *muster, const struct picture *picture)
{
    const struct muster_segment_info *segment = &picture->segment;
    char size[32], committed[32], age[32];
    enum muster_status status;
    size_t shown;

    printf("job      %s%s%s, made by pid %u %.1f s ago%s\n", mu_cli_colour(MU_CLI_BOLD), segment->job,
           mu_cli_colour(MU_CLI_PLAIN), segment->creator_pid, job_age(picture), segment->closed ? ", closed" : "");
    printf("segment  %s: %s, %s committed; %u of %u slots in use; %zu key%s\n",
           segment->path[0] ? segment->path : "memfd", mu_cli_bytes(segment->size_bytes, size),
           mu_cli_bytes(segment->committed_bytes, committed), segment->slots_live, segment->num_slots, picture->keys,
           picture->keys == 1 ? "" : "s");
    printf("tasks    %zu: %u connected, %u in error, %u not connected\n", picture->count,
           picture->states[MUSTER_TASK_CONNECTED], picture->states[MUSTER_TASK_ERROR],
           picture->states[MUSTER_TASK_DISCONNECTED]);
    if (picture->in_error)
        printf("%serror%s    task %d (pid %u) %s ago, %s: %s\n", mu_cli_colour(MU_CLI_RED), mu_cli_colour(MU_CLI_PLAIN),
               (int)picture->error.task_id, picture->error.pid, mu_cli_age(picture->error.since_ns, age),
               mu_cli_cause_name(picture->error.cause), picture->error.message);
    putchar('\n');
    mu_cli_print_task_head();
    for (size_t i = 0; i < picture->count; i++)
        mu_cli_print_task(&picture->infos[i]);
    putchar('\n');
    status = mu_cli_print_barriers(muster, picture->infos, picture->count, &shown);
    if (status == MUSTER_OK && shown == 0)
        puts("no barriers");
    return status;
}

static int status_run(struct mu_cli_call *call)
{
    struct muster *muster;
    struct picture picture = {.infos = NULL};
    enum muster_status status;
    int code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);

    if (code)
        return code;
    status = look(muster, &picture);
    if (status == MUSTER_OK)
        status = call->values[MU_OPT_JSON] ? print_json(muster, &picture) : print_people(muster, &picture);
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    free(picture.infos);
    return mu_cli_leave(call, muster, code);
}

static const struct mu_cli_option status_options[] = {MU_CLI_JOB, MU_CLI_JSON, MU_CLI_END};

const struct mu_cli_verb mu_cli_status = {
    .name = "status",
    .operands = "",
    .summary = "Show a job's tasks and barriers: who is missing, where, since when",
    .options = status_options,
    .run = status_run,
};
