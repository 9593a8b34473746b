/*
 * cli/status.c: `muster status`: who is missing, where, since when, and is it dead, stopped or elsewhere?
 *
 * Read-only: it takes no slot and waits for nobody, so it answers when every process of the job is stopped or dead. The
 * picture and the sentence about it are made by picture.c and diagnose.c.
 */
#include "cli/picture.h"

static int status_run(struct mu_cli_call *call)
{
    struct muster *muster;
    struct mu_cli_picture picture;
    enum muster_status status;
    int code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);

    if (code)
        return code;
    status = mu_cli_picture_take(muster, NULL, &picture);
    if (status != MUSTER_OK)
        return mu_cli_leave(call, muster, mu_cli_fail(call, status));
    if (call->values[MU_OPT_JSON])
        mu_cli_json_picture(&picture, stdout);
    else
        mu_cli_print_picture(&picture, stdout);
    mu_cli_picture_free(&picture);
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
