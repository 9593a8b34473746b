/*
 * cli/run/workers.c: what `muster run` says of workers.
 */
#include "cli/run/workers.h"

#include <stdlib.h>
#include <string.h>

static int worker_words(const struct mu_cli_call *call, const char *command, struct mu_cli_workers *workers)
{
    char *rest, *word;
    size_t count = 0;

    workers->text = strdup(command);
    if (!workers->text)
        abort();
    for (word = strtok_r(workers->text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (count == MU_CLI_WORKER_WORDS)
            return mu_cli_usage(call, "--worker-command has more than %d words", MU_CLI_WORKER_WORDS);
        workers->argv[count++] = word;
    }
    return count ? 0 : mu_cli_usage(call, "--worker-command is empty");
}

int mu_cli_take_workers(const struct mu_cli_call *call, struct mu_cli_workers *workers,
                        struct mu_agent_options *options)
{
    const char *number = call->values[MU_OPT_WORKERS], *command = call->values[MU_OPT_WORKER_COMMAND];
    uint64_t count = 0;

    if (!number)
        return command ? mu_cli_usage(call, "--worker-command needs --workers N") : 0;
    if (mu_cli_parse_unsigned(number, MU_AGENT_WORKERS_MAX, &count) || !count)
        return mu_cli_wrong(call, MU_OPT_WORKERS, number, "is no number of workers from 1 to %u", MU_AGENT_WORKERS_MAX);
    if (call->values[MU_OPT_HOSTS] || call->values[MU_OPT_HOSTFILE])
        return mu_cli_usage(call,
                            "--workers and --hosts exclude each other: calls stay on their host; a task may start "
                            "'muster worker' there");
    if (call->values[MU_OPT_SURVIVE])
        return mu_cli_usage(call, "--workers and --survive exclude each other: the workers end with the launcher");
    options->workers = (uint32_t)count;
    if (command) {
        int code = worker_words(call, command, workers);

        if (code)
            return code;
        options->worker_argv = workers->argv;
    }
    return 0;
}
