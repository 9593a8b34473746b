/*
 * cli/run/output.c: where the tasks' output goes, and what cannot be said beside --survive.
 */
#include "cli/run/run.h"

#define ADOPT_NS 600000000000u

static int output_take_survive(struct mu_cli_call *call, struct mu_agent_options *options)
{
    const char *text = call->values[MU_OPT_SURVIVE];
    uint64_t within = ADOPT_NS;
    int code = text && *text ? mu_cli_duration(call, MU_OPT_SURVIVE, &within) : 0;

    if (code || !text)
        return code;
    if (within == 0)
        return mu_cli_usage(call, "--survive=0 leaves no time to adopt the job in");
    if (*text && !call->values[MU_OPT_HOSTS] && !call->values[MU_OPT_HOSTFILE])
        return mu_cli_usage(call, "--survive=%s needs --hosts: on one host the tasks go on to their end", text);
    if (options->hosts && !options->output)
        return mu_cli_usage(call,
                            "--survive with --hosts needs --output: what other hosts' tasks write to the launcher "
                            "has no reader once that is dead");
    if (options->hosts && options->hosts->node == 0)
        options->hosts->adopt_ns = within;
    return 0;
}

int mu_cli_take_output(struct mu_cli_call *call, struct mu_agent_options *options)
{
    char why[160];

    options->output = call->values[MU_OPT_OUTPUT];
    if (options->output &&
        mu_launch_files_check(options->output, options->elastic ? options->elastic->most : options->num_tasks,
                              options->restarts + (options->elastic != NULL), why, sizeof why))
        return mu_cli_usage(call, "--output %s: %s", options->output, why);
    if (options->survive && options->label)
        return mu_cli_usage(call, "--survive and --label exclude each other: labels are put on by the launcher, which "
                                  "the tasks may outlive (use --output)");
    if (options->survive && options->pty)
        return mu_cli_usage(call, "--survive and --pty exclude each other: the terminals end with the launcher, which "
                                  "the tasks may outlive (use --output)");
    if (options->survive && options->stdin_to == MU_AGENT_STDIN_ALL)
        return mu_cli_usage(call, "--survive and --stdin all exclude each other: it is copied by the launcher, which "
                                  "the tasks may outlive");
    if (options->survive && options->grpc)
        return mu_cli_usage(call,
                            "--survive and --grpc exclude each other: the tasks' clients end with the service, and "
                            "that with the launcher");
    if (options->survive && options->tcpstore)
        return mu_cli_usage(call,
                            "--survive and --tcpstore%s exclude each other: the tasks' store ends with the "
                            "launcher",
                            call->values[MU_OPT_TCPSTORE] ? "" : " (MUSTER_TCPSTORE)");
    if (options->survive && options->ray)
        return mu_cli_usage(call, "--survive and --ray exclude each other: the scheduler ends with the launcher");
    if (options->survive && options->mindspore)
        return mu_cli_usage(call, "--survive and --mindspore exclude each other: the tasks' scheduler ends with the "
                                  "launcher");
    if (options->survive && options->memfd)
        return mu_cli_usage(call,
                            "--survive and --memfd exclude each other: without a name nobody could adopt the job");
    return output_take_survive(call, options);
}
