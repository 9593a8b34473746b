/*
 * cli/segment.c: `muster segment`: list, describe, audit and remove segments, also of jobs that are long dead.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

struct segment_listing {
    const struct mu_cli_call *call;
    struct mu_cli_json json;
    unsigned shown;
};

static void segment_json_row(struct mu_cli_json *json, const struct muster_segment_row *row)
{
    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_text(json, "job", row->job);
    mu_cli_json_text(json, "path", row->path);
    mu_cli_json_unsigned(json, "size_bytes", row->size_bytes);
    mu_cli_json_unsigned(json, "committed_bytes", row->committed_bytes);
    mu_cli_json_unsigned(json, "creator_pid", row->creator_pid);
    mu_cli_json_unsigned(json, "slots_live", row->slots_live);
    mu_cli_json_text(json, "problem", row->problem);
    mu_cli_json_close(json, '}');
}

static int list_row(void *arg, const struct muster_segment_row *row)
{
    struct segment_listing *listing = arg;
    char committed[32];

    if (listing->call->values[MU_OPT_JSON]) {
        segment_json_row(&listing->json, row);
        return 0;
    }
    if (listing->call->values[MU_OPT_NAMES]) {
        puts(row->job);
        return 0;
    }
    if (listing->shown++ == 0)
        printf("%s%-28s %-10s %-9s %-5s %s%s\n", mu_cli_colour(MU_CLI_BOLD), "JOB", "COMMITTED", "PID", "LIVE", "STATE",
               mu_cli_colour(MU_CLI_PLAIN));
    mu_cli_print_line(stdout, row->job); /* a file's name: anybody's choice */
    printf("%*s %-10s %-9u %-5u ", strlen(row->job) < 28 ? 28 - (int)strlen(row->job) : 0, "",
           mu_cli_bytes(row->committed_bytes, committed), row->creator_pid, row->slots_live);
    mu_cli_print_line(stdout, row->problem ? row->problem : row->slots_live ? "in use" : "left over");
    putchar('\n');
    return 0;
}

static int segment_list_run(struct mu_cli_call *call)
{
    struct segment_listing listing = {.call = call};
    enum muster_status status;
    int code = 0;

    mu_cli_json_start(&listing.json, stdout);
    if (call->values[MU_OPT_JSON])
        mu_cli_json_open(&listing.json, NULL, '[');
    status = muster_segment_list(list_row, &listing);
    if (call->values[MU_OPT_JSON]) {
        mu_cli_json_close(&listing.json, ']');
        mu_cli_json_end(&listing.json);
    }
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    return mu_cli_finish(call, code);
}

/* The operand, else as for every verb. */
static int open_segment(struct mu_cli_call *call, struct muster_segment **ret_segment)
{
    char job[512];
    enum muster_status status;
    int code;

    if (call->count > 0)
        call->values[MU_OPT_JOB] = call->operands[0];
    code = mu_cli_pick_job(call, job, sizeof job);
    if (code)
        return code;
    status = muster_segment_open(job, ret_segment);
    if (status == MUSTER_NOT_FOUND)
        return mu_cli_no_job(call, job);
    return status == MUSTER_OK ? 0 : mu_cli_fail(call, status);
}

static void print_info(const struct muster_segment_info *info)
{
    char size[32], committed[32], objects[32];

    printf("job        %s%s\n", info->job, info->closed ? ", closed" : "");
    printf("path       %s\n", info->path[0] ? info->path : "memfd");
    printf("run        %016" PRIx64 "%016" PRIx64 "\n", info->run_id[0], info->run_id[1]);
    printf("made by    pid %u, user %u\n", info->creator_pid, info->uid);
    printf("size       %s, %s committed\n", mu_cli_bytes(info->size_bytes, size),
           mu_cli_bytes(info->committed_bytes, committed));
    printf("objects    %s for those above 64 KiB\n", mu_cli_bytes(info->object_bytes, objects));
    printf("tasks      %u\n", info->num_tasks);
    printf("slots      %u, %u in use\n", info->num_slots, info->slots_live);
    printf("buckets    %u\n", info->num_buckets);
    printf("events     %u\n", info->num_events);
}

static void json_info(const struct muster_segment_info *info)
{
    struct mu_cli_json json;
    char run_id[40];

    snprintf(run_id, sizeof run_id, "%016" PRIx64 "%016" PRIx64, info->run_id[0], info->run_id[1]);
    mu_cli_json_start(&json, stdout);
    mu_cli_json_open(&json, NULL, '{');
    mu_cli_json_text(&json, "job", info->job);
    mu_cli_json_text(&json, "path", info->path);
    mu_cli_json_text(&json, "run_id", run_id);
    mu_cli_json_unsigned(&json, "creator_pid", info->creator_pid);
    mu_cli_json_unsigned(&json, "uid", info->uid);
    mu_cli_json_unsigned(&json, "created_unix_ns", info->created_unix_ns);
    mu_cli_json_unsigned(&json, "size_bytes", info->size_bytes);
    mu_cli_json_unsigned(&json, "committed_bytes", info->committed_bytes);
    mu_cli_json_unsigned(&json, "object_bytes", info->object_bytes);
    mu_cli_json_unsigned(&json, "num_tasks", info->num_tasks);
    mu_cli_json_unsigned(&json, "num_slots", info->num_slots);
    mu_cli_json_unsigned(&json, "num_buckets", info->num_buckets);
    mu_cli_json_unsigned(&json, "num_events", info->num_events);
    mu_cli_json_unsigned(&json, "slots_live", info->slots_live);
    mu_cli_json_bool(&json, "closed", info->closed);
    mu_cli_json_close(&json, '}');
    mu_cli_json_end(&json);
}

static int info_run(struct mu_cli_call *call)
{
    struct muster_segment *segment;
    struct muster_segment_info info;
    enum muster_status status;
    int code = open_segment(call, &segment);

    if (code)
        return code;
    status = muster_segment_info(segment, &info);
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    else if (call->values[MU_OPT_JSON])
        json_info(&info);
    else
        print_info(&info);
    muster_segment_close(segment);
    return mu_cli_finish(call, code);
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

static void fault_report(void *arg, const char *sentence)
{
    struct segment_listing *listing = arg;

    if (listing->call->values[MU_OPT_JSON])
        mu_cli_json_text(&listing->json, NULL, sentence);
    else
        printf("%s\n", sentence);
}

static int check_run(struct mu_cli_call *call)
{
    struct segment_listing listing = {.call = call};
    struct mu_cli_json *json = &listing.json;
    struct muster_segment *segment;
    struct muster_audit audit = {.problems = 0};
    enum muster_status status;
    char bytes[32];
    int code = open_segment(call, &segment), is_json = call->values[MU_OPT_JSON] != NULL;

    if (code)
        return code;
    mu_cli_json_start(json, stdout);
    if (is_json) {
        mu_cli_json_open(json, NULL, '{');
        mu_cli_json_open(json, "violations", '[');
    }
    status = muster_segment_check(segment, fault_report, &listing, &audit);
    muster_segment_close(segment);
    if (is_json) {
        mu_cli_json_close(json, ']');
        mu_cli_json_unsigned(json, "problems", audit.problems);
        mu_cli_json_unsigned(json, "blocks_free", audit.blocks_free);
        mu_cli_json_unsigned(json, "blocks_owned", audit.blocks_owned);
        mu_cli_json_unsigned(json, "blocks_live", audit.blocks_live);
        mu_cli_json_unsigned(json, "bytes_live", audit.bytes_live);
        mu_cli_json_unsigned(json, "keys", audit.keys);
        mu_cli_json_close(json, '}');
        mu_cli_json_end(json);
    } else if (status == MUSTER_OK) {
        printf("%s: %" PRIu64 " blocks live (%s), %" PRIu64 " owned, %" PRIu64 " free; %" PRIu64 " keys; %" PRIu64
               " problem%s\n",
               audit.problems ? "damaged" : "sound", audit.blocks_live, mu_cli_bytes(audit.bytes_live, bytes),
               audit.blocks_owned, audit.blocks_free, audit.keys, audit.problems, audit.problems == 1 ? "" : "s");
    }
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    else if (audit.problems)
        code = MU_CLI_EXIT_FAILURE;
    return mu_cli_finish(call, code);
}

/* ---- rm ---------------------------------------------------------------------------------------------------------- */

struct wanted_segment {
    const char *job;
    unsigned live, pid;
};

static int find_live(void *arg, const struct muster_segment_row *row)
{
    struct wanted_segment *wanted = arg;

    if (strcmp(row->job, wanted->job) != 0)
        return 0;
    wanted->live = row->problem ? 0 : row->slots_live;
    wanted->pid = row->creator_pid;
    return 1;
}

static int rm_run(struct mu_cli_call *call)
{
    enum muster_status status;
    int code = 0;

    for (int i = 0; i < call->count; i++) {
        struct wanted_segment wanted = {.job = call->operands[i]};

        if (!mu_cli_valid_job(wanted.job))
            return mu_cli_usage(call, "'%.60s' is no job name", wanted.job);
        status = muster_segment_list(find_live, &wanted);
        if (status == MUSTER_OK && wanted.live > 0 && !call->values[MU_OPT_FORCE]) {
            fprintf(stderr, "%s: job %s is in use (%u slots, launched by pid %u): give --force to end it\n", call->path,
                    wanted.job, wanted.live, wanted.pid);
            code = MU_CLI_EXIT_FAILURE;
            continue;
        }
        if (status == MUSTER_OK)
            status = muster_segment_remove(wanted.job);
        if (status == MUSTER_NOT_FOUND)
            code = mu_cli_no_job(call, wanted.job);
        else if (status != MUSTER_OK)
            code = mu_cli_fail(call, status);
    }
    return mu_cli_finish(call, code);
}

static const struct mu_cli_option list_options[] = {
    {MU_OPT_NAMES, 0, "names", NULL, NULL, "print only the jobs' names"}, MU_CLI_JSON, MU_CLI_END};
static const struct mu_cli_option job_options[] = {MU_CLI_JOB, MU_CLI_JSON, MU_CLI_END};
static const struct mu_cli_option rm_options[] = {
    {MU_OPT_FORCE, 0, "force", NULL, NULL,
     "also when the job is in use: all its calls fail with CANCELLED, and its launcher ends it"},
    MU_CLI_END};

static const struct mu_cli_verb verbs[] = {
    {"list", "", "List this user's segments, sound or not", list_options, 0, 0, 0, segment_list_run, NULL, NULL},
    {"info", "[JOB]", "Describe a segment", job_options, 0, 1, 0, info_run, NULL, mu_cli_jobs},
    {"check", "[JOB]", "Audit a segment: every rule of its structure", job_options, 0, 1, 0, check_run, NULL,
     mu_cli_jobs},
    {"rm", "JOB...", "Remove segments", rm_options, 1, -1, 0, rm_run, NULL, mu_cli_jobs},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL},
};

const struct mu_cli_verb mu_cli_segment = {
    .name = "segment",
    .operands = "list|info|check|rm ...",
    .summary = "List, describe, audit and remove segments",
    .verbs = verbs,
};
