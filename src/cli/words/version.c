/*
 * cli/words/version.c: `muster version`.
 */
#include "cli/cli.h"

static int version_run(struct mu_cli_call *call)
{
    struct mu_cli_json json;

    if (call->values[MU_OPT_JSON]) {
        mu_cli_json_start(&json, stdout);
        mu_cli_json_open(&json, NULL, '{');
        mu_cli_json_text(&json, "version", muster_version());
        mu_cli_json_close(&json, '}');
        mu_cli_json_end(&json);
    } else {
        printf("muster %s\n", muster_version());
    }
    return mu_cli_finish(call, 0);
}

static const struct mu_cli_option version_options[] = {MU_CLI_JSON, MU_CLI_END};

const struct mu_cli_verb mu_cli_version = {
    .name = "version",
    .operands = "",
    .summary = "Print the version",
    .options = version_options,
    .run = version_run,
};
