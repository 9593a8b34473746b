/*
 * cli/task.c: `muster task`: list, reset, report errors, watch.
 */
#include "cli/status/calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* `calls` NULL: not asked for. */
static void print_all(const struct mu_cli_call *call, const struct muster_task_info *infos, size_t count,
                      uint64_t version, const struct mu_cli_calls *calls)
{
    struct mu_cli_json json;

    if (!call->values[MU_OPT_JSON]) {
        mu_cli_print_task_head();
        for (size_t i = 0; i < count; i++)
            mu_cli_print_task(&infos[i]);
        if (calls && mu_cli_calls_any(calls))
            mu_cli_calls_print(calls, stdout);
        return;
    }
    mu_cli_json_start(&json, stdout);
    mu_cli_json_open(&json, NULL, '{');
    mu_cli_json_unsigned(&json, "version", version);
    mu_cli_json_open(&json, "tasks", '[');
    for (size_t i = 0; i < count; i++)
        mu_cli_json_task(&json, NULL, &infos[i]);
    mu_cli_json_close(&json, ']');
    if (calls)
        mu_cli_calls_json(&json, calls);
    mu_cli_json_close(&json, '}');
    mu_cli_json_end(&json);
}

static int task_list_run(struct mu_cli_call *call)
{
    struct muster *muster;
    struct muster_task_info *infos;
    struct mu_cli_calls calls;
    uint64_t version;
    size_t count;
    enum muster_status status;
    int code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);

    if (code)
        return code;
    status = mu_cli_tasks(muster, &infos, &count, &version);
    if (status != MUSTER_OK)
        return mu_cli_leave(call, muster, mu_cli_fail(call, status));
    status = mu_cli_calls_take(muster, &calls);
    if (status == MUSTER_OK) {
        print_all(call, infos, count, version, &calls);
        mu_cli_calls_free(&calls);
    } else {
        code = mu_cli_fail(call, status);
    }
    free(infos);
    return mu_cli_leave(call, muster, code);
}

static int task_operand(const struct mu_cli_call *call, int32_t *ret_task)
{
    uint64_t task;

    if (mu_cli_parse_unsigned(call->operands[0], 8191, &task))
        return mu_cli_usage(call, "'%s' is no task number", call->operands[0]);
    *ret_task = (int32_t)task;
    return 0;
}

static int reset_run(struct mu_cli_call *call)
{
    struct muster *muster;
    int32_t task = 0;
    enum muster_status status;
    int code = task_operand(call, &task);

    if (!code)
        code = mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, &muster);
    if (code)
        return code;
    status = muster_task_reset(muster, task);
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    return mu_cli_leave(call, muster, code);
}

/* ---- error ------------------------------------------------------------------------------------------------------- */

static void print_error(const struct mu_cli_call *call, const struct muster_error *error)
{
    struct mu_cli_json json;
    char age[32];

    if (!call->values[MU_OPT_JSON]) {
        printf("task %d (", (int)error->task_id);
        if (error->pid) /* of a wire client it may not be known */
            printf("pid %u ", error->pid);
        printf("on %s), %s ago: %s (%s): ", error->host, mu_cli_age(error->since_ns, age),
               muster_status_name(error->code), mu_cli_cause_name(error->cause));
        mu_cli_print_line(stdout, error->message);
        putchar('\n');
        return;
    }
    mu_cli_json_start(&json, stdout);
    mu_cli_json_open(&json, NULL, '{');
    mu_cli_json_signed(&json, "task", error->task_id);
    mu_cli_json_text(&json, "code", muster_status_name(error->code));
    mu_cli_json_text(&json, "cause", mu_cli_cause_name(error->cause));
    mu_cli_json_text(&json, "message", error->message);
    mu_cli_json_unsigned(&json, "pid", error->pid);
    mu_cli_json_text(&json, "host", error->host);
    mu_cli_json_unsigned(&json, "incarnation", error->incarnation);
    mu_cli_json_unsigned(&json, "since_ns", error->since_ns);
    mu_cli_json_close(&json, '}');
    mu_cli_json_end(&json);
}

/* No operand: the first error of the job, waiting for it when asked to. */
static int error_show(struct mu_cli_call *call)
{
    struct muster *muster;
    muster_deadline deadline = 0;
    struct muster_error error;
    enum muster_status status;
    int waits = call->values[MU_OPT_WAIT] != NULL, code = mu_cli_deadline(call, MU_OPT_WAIT, &deadline);

    if (!code)
        code = mu_cli_join(call, waits ? MUSTER_JOIN_OBSERVER : MUSTER_JOIN_READ_ONLY, -1, &muster);
    if (code)
        return code;
    status = muster_error_wait(muster, deadline, &error);
    if (status == MUSTER_OK) {
        print_error(call, &error);
    } else if (status == MUSTER_DEADLINE_EXCEEDED && !waits) {
        fprintf(stderr, "%s: no task is in error\n", call->path);
        code = MU_CLI_EXIT_NOT_FOUND;
    } else {
        code = mu_cli_fail(call, status);
    }
    return mu_cli_leave(call, muster, code);
}

static const char *code_word(size_t number)
{
    return number < MUSTER_DATA_LOSS ? muster_status_name((enum muster_status)(number + 1)) : NULL;
}

static int no_code(const struct mu_cli_call *call, const char *name)
{
    struct mu_cli_guess guess;
    char meant[MU_CLI_GUESS_TEXT];

    mu_cli_guess_start(&guess, name, strlen(name));
    for (size_t i = 0; code_word(i); i++)
        mu_cli_guess_see(&guess, code_word(i));
    return mu_cli_wrong(call, MU_OPT_CODE, name, "is no error code such as INTERNAL, ABORTED, UNAVAILABLE%s",
                        mu_cli_did_you_mean(&guess, "", "", meant));
}

static int error_run(struct mu_cli_call *call)
{
    struct muster *muster;
    const char *name = call->values[MU_OPT_CODE];
    enum muster_status code_reported = MUSTER_INTERNAL, status;
    int32_t task = 0;
    int code;

    if (call->count == 0)
        return error_show(call);
    if (call->count < 2)
        return mu_cli_usage(call, "the MESSAGE is missing");
    code = task_operand(call, &task);
    if (code)
        return code;
    if (name) {
        code_reported = muster_status_from_name(name);
        if ((code_reported == MUSTER_UNKNOWN && strcasecmp(name, "UNKNOWN") != 0) || code_reported == MUSTER_OK)
            return no_code(call, name);
    }
    code = mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, &muster);
    if (code)
        return code;
    status = muster_error_report(muster, task, code_reported, call->operands[1]);
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    return mu_cli_leave(call, muster, code);
}

/* ---- watch ------------------------------------------------------------------------------------------------------- */

static int task_differs(const struct muster_task_info *one, const struct muster_task_info *other)
{
    return one->state != other->state || one->incarnation != other->incarnation || one->attempt != other->attempt ||
           one->cause != other->cause || one->ended != other->ended;
}

static void print_changes(const struct mu_cli_call *call, const struct muster_task_info *before,
                          const struct muster_task_info *now, size_t count, uint64_t version)
{
    struct mu_cli_json json;

    for (size_t i = 0; i < count; i++) {
        if (!task_differs(&before[i], &now[i]))
            continue;
        if (call->values[MU_OPT_JSON]) {
            mu_cli_json_start(&json, stdout);
            mu_cli_json_open(&json, NULL, '{');
            mu_cli_json_unsigned(&json, "version", version);
            mu_cli_json_task(&json, "task", &now[i]);
            mu_cli_json_close(&json, '}');
            mu_cli_json_end(&json);
        } else {
            mu_cli_print_task(&now[i]);
        }
    }
    fflush(stdout);
}

static int task_watch_run(struct mu_cli_call *call)
{
    struct muster *muster;
    struct muster_task_info *before, *now;
    muster_deadline deadline = MUSTER_FOREVER;
    uint64_t version, limit = UINT64_MAX, number = 0;
    size_t count, seen;
    enum muster_status status;
    int code = mu_cli_deadline(call, MU_OPT_WAIT, &deadline);

    if (!code)
        code = mu_cli_unsigned(call, MU_OPT_COUNT, UINT64_MAX, &limit);
    if (!code)
        code = mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, &muster);
    if (code)
        return code;
    status = mu_cli_tasks(muster, &before, &count, &version);
    if (status != MUSTER_OK)
        return mu_cli_leave(call, muster, mu_cli_fail(call, status));
    now = calloc(count ? count : 1, sizeof *now);
    if (!now)
        abort();
    print_all(call, before, count, version, NULL);
    fflush(stdout);
    while (status == MUSTER_OK && number++ < limit && !ferror(stdout)) {
        status = muster_task_watch(muster, version, deadline, now, count, &seen, &version);
        if (status == MUSTER_OK) {
            print_changes(call, before, now, count, version);
            memcpy(before, now, count * sizeof *now);
        }
    }
    free(before);
    free(now);
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    return mu_cli_leave(call, muster, code);
}

static const struct mu_cli_option list_options[] = {MU_CLI_JOB, MU_CLI_JSON, MU_CLI_END};
static const struct mu_cli_option reset_options[] = {MU_CLI_JOB, MU_CLI_END};
static const struct mu_cli_option error_options[] = {
    {MU_OPT_CODE, 0, "code", "NAME", code_word, "the code to report (default INTERNAL)"},
    {MU_OPT_WAIT, 0, "wait", "D", NULL, "without operands: wait up to D for an error"},
    MU_CLI_JOB,
    MU_CLI_JSON,
    MU_CLI_END};
static const struct mu_cli_option watch_options[] = {{MU_OPT_COUNT, 0, "count", "N", NULL, "end after N changes"},
                                                     {MU_OPT_WAIT, 0, "wait", "D", NULL, "end after D"},
                                                     MU_CLI_JOB,
                                                     MU_CLI_JSON,
                                                     MU_CLI_END};

static const struct mu_cli_verb verbs[] = {
    {"list", "", "List the tasks", list_options, 0, 0, 0, task_list_run, NULL, NULL},
    {"reset", "TASK", "Disconnect a dead or failed task, so that it may join anew", reset_options, 1, 1, 0, reset_run,
     NULL, NULL},
    {"error", "[TASK MESSAGE]", "Put a task in error; alone: show the job's first error", error_options, 0, 2, 0,
     error_run, NULL, NULL},
    {"watch", "", "Print the tasks, then every change of their states", watch_options, 0, 0, 0, task_watch_run, NULL,
     NULL},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL},
};

const struct mu_cli_verb mu_cli_task = {
    .name = "task",
    .operands = "list|reset|error|watch ...",
    .summary = "List, reset, fail and watch a job's tasks",
    .verbs = verbs,
};
