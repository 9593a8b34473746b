/*
 * cli/run/apps.c: the commands of a job.
 *
 * "muster run [OPTION]... COMMAND... : [-n N] [--env K=V] [--chdir DIR] COMMAND...": a lone ':' with something behind
 * it begins another command; its tasks follow in number. Options before the first command hold for all, but -n; those
 * behind a ':' for that command alone.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/run.h"

static int check_env(const struct mu_cli_call *call, char *const *env)
{
    for (; *env; env++) {
        const char *equals = strchr(*env, '=');

        if (!equals || equals == *env)
            return mu_cli_wrong(call, MU_OPT_ENV, *env, "is not NAME=VALUE");
        if (mu_launch_env_is_ours(*env, (size_t)(equals - *env)))
            return mu_cli_usage(call, "--env: %.*s is set by muster itself", (int)(equals - *env), *env);
    }
    return 0;
}

/* Two lists of words as one, malloc()ed; the words themselves are shared. */
static char **lists_joined(char *const *first, char *const *second)
{
    size_t count = 0, n = 0;
    char **all;

    for (char *const *at = first; *at; at++)
        count++;
    for (char *const *at = second; at && *at; at++)
        count++;
    all = calloc(count + 1, sizeof *all);
    if (!all)
        abort();
    for (char *const *at = first; *at; at++)
        all[n++] = *at;
    for (char *const *at = second; at && *at; at++)
        all[n++] = *at;
    return all;
}

int mu_cli_refuse_foreign(const struct mu_cli_apps *apps, const struct mu_cli_call *call)
{
    const char *foreign = apps->machine ? mu_launch_machine_foreign(apps->machine) : NULL;

    if (!foreign && apps->gpus)
        foreign = apps->gpus->foreign;

    if (!foreign || apps->dry_run)
        return 0;
    return mu_cli_usage(call, "%s shows another machine than this one: only --dry-run can use it", foreign);
}

static int no_number(const struct mu_cli_call *call, const char *text)
{
    struct mu_cli_guess guess;
    char meant[MU_CLI_GUESS_TEXT];

    mu_cli_guess_start(&guess, text, strlen(text));
    for (size_t i = 0; mu_launch_count_word(i); i++)
        mu_cli_guess_see(&guess, mu_launch_count_word(i));
    return mu_cli_wrong(call, MU_OPT_NUM, text,
                        "is no number of tasks from 1 to %u, nor auto, gpu, core, l3, numa, package, hwthread%s",
                        MU_AGENT_TASKS_MAX, mu_cli_did_you_mean(&guess, "'", "'", meant));
}

static int counts_gpus(const char *text)
{
    return strcmp(text, "gpu") == 0 || strcmp(text, "auto") == 0;
}

static int app_take_number(const struct mu_cli_call *call, struct mu_cli_apps *apps, uint32_t *ret_number)
{
    const char *text = call->values[MU_OPT_NUM];
    uint64_t number = apps->by_default ? apps->by_default : 1;
    char why[400];

    if (text && apps->by_default && mu_launch_is_count(text))
        return mu_cli_usage(
            call, "-n %s counts what this host has: with --hosts say a number, or how many slots each has", text);
    if (text && mu_launch_is_count(text)) {
        if (mu_launch_count(text, &apps->machine, &apps->gpus, ret_number, why, sizeof why) == 0) {
            if (apps->gpus_per_task && counts_gpus(text) && apps->gpus && apps->gpus->count >= apps->gpus_per_task)
                *ret_number /= apps->gpus_per_task;
            return mu_cli_refuse_foreign(apps, call);
        }
        fprintf(stderr, "%s: -n %s: %s\n", call->path, text, why);
        return MU_AGENT_EXIT_FAILED;
    }
    if (text && (mu_cli_parse_unsigned(text, MU_AGENT_TASKS_MAX, &number) || number == 0))
        return no_number(call, text);
    *ret_number = (uint32_t)number;
    return 0;
}

/* Add the command that `call` holds; `common`: the call of the whole job. Its argv ends at the ':' or the end. */
static int add_app(struct mu_cli_apps *apps, const struct mu_cli_call *common, const struct mu_cli_call *call,
                   char **argv)
{
    struct mu_agent_app *app;
    int code;

    if (!argv[0] || strcmp(argv[0], ":") == 0)
        return mu_cli_usage(common, "at a ':' a command is missing");
    if (call->values[MU_OPT_CHDIR] && !*call->values[MU_OPT_CHDIR])
        return mu_cli_usage(call, "--chdir: the name is empty");

    apps->list = realloc(apps->list, (apps->count + 1) * sizeof *apps->list);
    if (!apps->list)
        abort();
    app = &apps->list[apps->count++];
    *app = (struct mu_agent_app){.argv = argv, .directory = common->values[MU_OPT_CHDIR]};
    if (call->values[MU_OPT_CHDIR])
        app->directory = call->values[MU_OPT_CHDIR];
    code = app_take_number(call, apps, &app->num_tasks);
    if (!code)
        code = check_env(call, call->env);
    if (code)
        return code;
    app->env = lists_joined(common->env, call == common ? NULL : call->env);
    apps->num_tasks += app->num_tasks;
    if (apps->num_tasks > MU_AGENT_TASKS_MAX)
        return mu_cli_usage(common, "%u tasks are too many: %u at most", apps->num_tasks, MU_AGENT_TASKS_MAX);
    return 0;
}

/* The ':' that ends this command and begins another; or its end. "\:" stands for a plain ':'. */
static char **end_of_command(char **argv)
{
    char **at = argv;

    for (; *at; at++) {
        if (strcmp(*at, ":") == 0 && at[1] && at > argv)
            return at;
        if (strcmp(*at, "\\:") == 0)
            ++*at;
    }
    return at;
}

void mu_cli_free_apps(struct mu_cli_apps *apps)
{
    for (uint32_t i = 0; i < apps->count; i++)
        free((void *)apps->list[i].env);
    for (uint32_t i = 0; i < apps->num_calls; i++) {
        free(apps->calls[i]->operands);
        free(apps->calls[i]->env);
        free(apps->calls[i]);
    }
    mu_launch_machine_free(apps->machine);
    mu_launch_gpus_free(apps->gpus);
    free(apps->calls);
    free(apps->list);
}

static const struct mu_cli_option app_options[] = {
    {MU_OPT_NUM, 'n', "num-tasks", "N", mu_launch_count_word, "start N tasks of this command"},
    {MU_OPT_ENV, 0, "env", "K=V", NULL, "set a variable for them"},
    {MU_OPT_CHDIR, 0, "chdir", "DIR", mu_cli_folders, "start them in DIR"},
    MU_CLI_END,
};

static const struct mu_cli_verb app_verb = {
    .name = "run", .operands = "", .options = app_options, .min = 1, .max = -1, .is_command = 1};

/* An option of the whole job behind a ':' is said to be one. */
static bool holds_for_all(const struct mu_cli_call *call, char *const *argv)
{
    const char *word = argv[0], *name = word[0] == '-' && word[1] == '-' ? word + 2 : NULL;
    size_t len = name ? strcspn(name, "=") : 0;
    char letter = word[0] == '-' && word[1] != '-' ? word[1] : 0;

    if ((!len && !letter) || mu_cli_find_option(&app_verb, name, len, letter) ||
        !mu_cli_find_option(call->verb, name, len, letter))
        return 0;
    mu_cli_usage(call, "%.*s holds for the whole job: say it before the first command, not behind a ':'",
                 len ? (int)len + 2 : 2, word);
    return 1;
}

int mu_cli_take_apps(const struct mu_cli_call *call, struct mu_cli_apps *apps)
{
    char **argv = call->operands, **end = end_of_command(argv);
    int more = *end != NULL, code;

    *end = NULL;
    if (more) /* one command has all slots, of several each says how many */
        apps->by_default = !!apps->by_default;
    code = add_app(apps, call, call, argv);
    while (!code && more) {
        struct mu_cli_call *next = calloc(1, sizeof *next);
        int argc = 0;

        apps->calls = realloc(apps->calls, (apps->num_calls + 1) * sizeof *apps->calls);
        if (!next || !apps->calls)
            abort();
        apps->calls[apps->num_calls++] = next;
        argv = end + 1;
        next->verb = &app_verb;
        snprintf(next->path, sizeof next->path, "%s", call->path);
        while (argv[argc])
            argc++;
        code = holds_for_all(call, argv) ? 2 : mu_cli_parse(next, argc, argv);
        if (code)
            break;
        if (next->count == 0)
            return mu_cli_usage(call, "at a ':' a command is missing");
        end = end_of_command(next->operands);
        more = *end != NULL;
        *end = NULL;
        code = add_app(apps, call, next, next->operands);
    }
    return code;
}
