/*
 * cli/run/mindspore.c: what `muster run` and `muster serve` say of MindSpore's scheduler.
 */
#include "cli/run/mindspore.h"

#include <stdlib.h>
#include <string.h>

#include "base/words.h"

MU_WORDS(mu_cli_mindspore_dialect, "auto", "old", "new")

static uint32_t number_of(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t number = 0;

    return text && mu_cli_parse_unsigned(text, MU_AGENT_TASKS_MAX, &number) == 0 ? (uint32_t)number : 0;
}

uint32_t mu_cli_mindspore_tasks(void)
{
    return number_of("MS_SERVER_NUM") + number_of("MS_WORKER_NUM");
}

int mu_cli_take_mindspore(const struct mu_cli_call *call, struct mu_agent_mindspore *mindspore,
                          struct mu_agent_options *options)
{
    static const enum mu_cli_option_id others[] = {MU_OPT_SERVERS, MU_OPT_MINDSPORE_REST, MU_OPT_MINDSPORE_SCALING,
                                                   MU_OPT_MINDSPORE_DIALECT, MU_OPT_MINDSPORE_INSECURE};
    static const unsigned dialects[] = {0, 10, 11};
    const char *address = call->values[MU_OPT_MINDSPORE], *rest = call->values[MU_OPT_MINDSPORE_REST];
    uint64_t servers = call->verb->is_command || call->values[MU_OPT_TASKS] ? 0 : number_of("MS_SERVER_NUM");
    size_t dialect = 0;
    int code = 0;

    for (size_t i = 0; !address && i < sizeof others / sizeof others[0]; i++)
        for (const struct mu_cli_option *o = call->verb->options; call->values[others[i]] && o->name; o++)
            if (o->id == others[i])
                return mu_cli_usage(call, "--%s needs --mindspore", o->name);
    if (!address)
        return 0;
    *mindspore = (struct mu_agent_mindspore){
        .address = *address ? address : MU_CLI_MINDSPORE_ADDRESS,
        .rest = rest && !*rest ? MU_CLI_MINDSPORE_REST : rest,
        .insecure = call->values[MU_OPT_MINDSPORE_INSECURE] != NULL,
    };
    options->mindspore = mindspore;
    code = mu_cli_unsigned(call, MU_OPT_SERVERS, MU_AGENT_TASKS_MAX, &servers);
    mindspore->servers = (uint32_t)servers;
    if (!code)
        code = mu_cli_duration(call, MU_OPT_MINDSPORE_SCALING, &mindspore->scale_ns);
    if (!code)
        code = mu_cli_word(call, MU_OPT_MINDSPORE_DIALECT, &dialect);
    mindspore->dialect = dialects[dialect];
    return code;
}

int mu_cli_check_mindspore(const struct mu_cli_call *call, const struct mu_agent_options *options)
{
    if (!options->mindspore)
        return 0;
    if (options->hosts)
        return mu_cli_usage(call, "--mindspore is for one host; for several say 'muster serve --mindspore' on one, and "
                                  "MS_SCHED_HOST to the tasks");
    if (options->mindspore->servers > options->num_tasks)
        return mu_cli_usage(call, "--servers %u are more than the %u tasks", options->mindspore->servers,
                            options->num_tasks);
    for (uint32_t i = 0; i < options->num_apps; i++)
        for (char *const *env = options->apps[i].env; env && *env; env++)
            for (size_t v = 0; mu_agent_mindspore_variables[v]; v++)
                if (strlen(mu_agent_mindspore_variables[v]) == strcspn(*env, "=") &&
                    strncmp(*env, mu_agent_mindspore_variables[v], strcspn(*env, "=")) == 0)
                    return mu_cli_usage(call, "--mindspore and --env %s exclude each other: the launcher sets it",
                                        mu_agent_mindspore_variables[v]);
    return 0;
}
