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

/* Numbers of GPUs, or of those that are visible here already. False: there are not so many. */
static bool gpu_units(uint64_t count, char units[MUSTER_RESOURCE_TEXT])
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    size_t len = 0;

    for (uint64_t i = 0; i < count; i++) {
        size_t one = visible ? strcspn(visible, ",") : 0;
        int n = visible ? snprintf(units + len, MUSTER_RESOURCE_TEXT - len, "%s%.*s", i ? "," : "", (int)one, visible)
                        : snprintf(units + len, MUSTER_RESOURCE_TEXT - len, "%s%u", i ? "," : "", (unsigned)i);

        if ((visible && !one) || n < 0 || (size_t)n >= MUSTER_RESOURCE_TEXT - len)
            return false;
        len += (size_t)n;
        visible = visible ? visible + one + (visible[one] == ',') : NULL;
    }
    return true;
}

/* One "name=amount". False: it is none. */
static bool resource_take(char *word, struct mu_cli_workers *w, struct mu_agent_resource *r)
{
    char *equals = strchr(word, '='), *end;

    if (!equals || equals == word)
        return false;
    *equals = 0;
    r->name = word;
    r->amount = strtod(equals + 1, &end);
    if (end == equals + 1 || *end || !(r->amount > 0) || r->amount > 1e9)
        return false;
    if (strcmp(word, "GPU") != 0)
        return true;
    r->units = w->units;
    return r->amount <= MUSTER_RESOURCE_UNITS_MAX && (double)(uint64_t)r->amount == r->amount &&
           gpu_units((uint64_t)r->amount, w->units);
}

static int take_resources(const struct mu_cli_call *call, struct mu_cli_workers *w, struct mu_agent_options *options)
{
    const char *list = call->values[MU_OPT_WORKER_RESOURCES];
    uint32_t count = 0;
    char *rest, *word;

    w->names = strdup(list ? list : "");
    if (!w->names)
        abort();
    w->resources[count++] = (struct mu_agent_resource){.name = "CPU", .amount = options->workers};
    for (word = strtok_r(w->names, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        struct mu_agent_resource r = {.units = NULL};

        if (!resource_take(word, w, &r))
            return mu_cli_wrong(call, MU_OPT_WORKER_RESOURCES, list,
                                "is no list of resources such as GPU=2,disk=1.5; GPUs are whole, and are those of "
                                "CUDA_VISIBLE_DEVICES where that is set");
        if (strcmp(r.name, "CPU") == 0) {
            w->resources[0] = r;
            continue;
        }
        if (count == MUSTER_RESOURCES_MAX)
            return mu_cli_wrong(call, MU_OPT_WORKER_RESOURCES, list, "has more than %u resources",
                                MUSTER_RESOURCES_MAX);
        w->resources[count++] = r;
    }
    options->resources = w->resources;
    options->num_resources = count;
    return 0;
}

int mu_cli_take_workers(const struct mu_cli_call *call, struct mu_cli_workers *workers,
                        struct mu_agent_options *options)
{
    const char *number = call->values[MU_OPT_WORKERS], *command = call->values[MU_OPT_WORKER_COMMAND];
    uint64_t count = 0;
    int wrong;

    if (!number && call->values[MU_OPT_WORKER_RESOURCES])
        return mu_cli_usage(call, "--resources needs --workers N");
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
    wrong = take_resources(call, workers, options);
    if (wrong)
        return wrong;
    if (command) {
        int code = worker_words(call, command, workers);

        if (code)
            return code;
        options->worker_argv = workers->argv;
    }
    return 0;
}

void mu_cli_workers_done(struct mu_cli_workers *workers)
{
    free(workers->text);
    free(workers->names);
}
