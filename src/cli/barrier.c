/*
 * cli/barrier.c: `muster barrier`: list and cancel from outside; wait as a task, for jobs written in shell.
 */
#include <stdlib.h>

#include "cli/status/picture.h"

static int barrier_list_run(struct mu_cli_call *call)
{
    struct muster *muster;
    struct mu_cli_picture picture;
    struct mu_cli_json json;
    enum muster_status status;
    int code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);

    if (code)
        return code;
    status = mu_cli_picture_take(muster, NULL, &picture);
    if (status != MUSTER_OK)
        return mu_cli_leave(call, muster, mu_cli_fail(call, status));
    if (call->values[MU_OPT_JSON]) {
        mu_cli_json_start(&json, stdout);
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_barriers(&json, &picture);
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    } else {
        mu_cli_print_barriers(&picture, stdout);
    }
    mu_cli_picture_free(&picture);
    return mu_cli_leave(call, muster, code);
}

static int instance_of(const struct mu_cli_call *call, uint64_t *ret_instance)
{
    *ret_instance = MUSTER_BARRIER_NEXT;
    return mu_cli_unsigned(call, MU_OPT_INSTANCE, UINT64_MAX - 1, ret_instance);
}

static int wait_run(struct mu_cli_call *call)
{
    const char *from_env = getenv("MUSTER_TASK_ID");
    struct muster *muster;
    muster_deadline deadline = MUSTER_FOREVER;
    uint64_t task = UINT64_MAX, instance, timeout_ns = 600000000000ull;
    int32_t *ids = NULL;
    size_t count = 0;
    enum muster_status status;
    int code = instance_of(call, &instance);

    if (!code)
        code = mu_cli_deadline(call, MU_OPT_WAIT, &deadline);
    if (!code)
        code = mu_cli_duration(call, MU_OPT_TIMEOUT, &timeout_ns);
    if (!code)
        code = mu_cli_unsigned(call, MU_OPT_TASK, 8191, &task);
    if (code)
        return code;
    if (task == UINT64_MAX && (!from_env || mu_cli_parse_unsigned(from_env, 8191, &task)))
        return mu_cli_usage(call, "as which task? Give --task, or run it under 'muster run'");
    if (call->values[MU_OPT_TASKS] && mu_cli_parse_list(call->values[MU_OPT_TASKS], &ids, &count))
        return mu_cli_wrong(call, MU_OPT_TASKS, call->values[MU_OPT_TASKS], "is no list of tasks: write 0,2-5");
    code = mu_cli_join(call, MUSTER_JOIN_TRANSIENT, (int32_t)task, &muster);
    if (!code) {
        status = muster_barrier_wait(muster, call->operands[0], instance, ids, count, timeout_ns, deadline);
        if (status != MUSTER_OK)
            code = mu_cli_fail(call, status);
        code = mu_cli_leave(call, muster, code);
    }
    free(ids);
    return code;
}

static int cancel_run(struct mu_cli_call *call)
{
    struct muster *muster;
    uint64_t instance;
    enum muster_status status;
    int code = instance_of(call, &instance);

    if (!code)
        code = mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, &muster);
    if (code)
        return code;
    status = muster_barrier_cancel(muster, call->operands[0], instance);
    if (status != MUSTER_OK)
        code = mu_cli_fail(call, status);
    return mu_cli_leave(call, muster, code);
}

static const struct mu_cli_option list_options[] = {MU_CLI_JOB, MU_CLI_JSON, MU_CLI_END};
static const struct mu_cli_option wait_options[] = {
    {MU_OPT_TASK, 0, "task", "K", NULL, "arrive as task K (default: $MUSTER_TASK_ID)"},
    {MU_OPT_TASKS, 0, "tasks", "LIST", NULL, "the participants, as 0,2-5 (default: all tasks)"},
    {MU_OPT_INSTANCE, 0, "instance", "N", NULL, "the instance (default: the next)"},
    {MU_OPT_TIMEOUT, 0, "timeout", "D", NULL, "of the barrier, from the first arrival (default 10m)"},
    {MU_OPT_WAIT, 0, "wait", "D", NULL, "give up after D: the arrival is taken back"},
    MU_CLI_JOB,
    MU_CLI_END};
static const struct mu_cli_option cancel_options[] = {
    {MU_OPT_INSTANCE, 0, "instance", "N", NULL, "the instance (default: the current one)"}, MU_CLI_JOB, MU_CLI_END};

static const struct mu_cli_verb verbs[] = {
    {"list", "", "List the barriers: who is missing, and why", list_options, 0, 0, 0, barrier_list_run, NULL, NULL},
    {"wait", "ID", "Arrive at a barrier as a task and wait", wait_options, 1, 1, 0, wait_run, NULL, NULL},
    {"cancel", "ID", "Cancel a barrier: all that wait return CANCELLED", cancel_options, 1, 1, 0, cancel_run, NULL,
     NULL},
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL},
};

const struct mu_cli_verb mu_cli_barrier = {
    .name = "barrier",
    .operands = "list|wait|cancel ...",
    .summary = "List, wait at and cancel a job's barriers",
    .verbs = verbs,
};
