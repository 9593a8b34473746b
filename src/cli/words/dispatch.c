/*
 * cli/words/dispatch.c: from argv to a verb's function.
 *
 * Whatever is wrong before the verb runs is said here: an operand that is missing or too much, a sub-verb that is none.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* The option right before the operand that takes its value behind '=' alone, and has none; or NULL. */
static const struct mu_cli_option *valueless_option(const struct mu_cli_call *call, const char *operand)
{
    const struct mu_cli_option *option = NULL;

    for (char *const *at = call->words; at[0] && at[1]; at++) {
        int is_long = at[0][0] == '-' && at[0][1] == '-';

        if (at[1] != operand || !mu_cli_is_option(at[0]) || (is_long ? strchr(at[0], '=') != NULL : at[0][2] != 0))
            continue;
        option = mu_cli_find_option(call->verb, is_long ? at[0] + 2 : NULL, is_long ? strlen(at[0] + 2) : 0, at[0][1]);
    }
    return option && mu_cli_is_optional(option) ? option : NULL;
}

/* Of a verb without operands it is perhaps the job that was meant; or the value of the option before it. */
static int refuse_operand(struct mu_cli_call *call, const char *operand)
{
    const struct mu_cli_option *option = valueless_option(call, operand);
    int takes_job = !call->verb->max && !call->values[MU_OPT_JOB] && mu_cli_find_option(call->verb, "job", 3, 0);

    if (option)
        return mu_cli_usage(call, "operand '%s' is too much; did you mean --%s=%s%s%s?", operand, option->name, operand,
                            takes_job ? " or --job " : "", takes_job ? operand : "");
    if (takes_job)
        return mu_cli_usage(call, "operand '%s' is too much; a job is named by --job %s", operand, operand);
    return mu_cli_usage(call, "operand '%s' is too much", operand);
}

static int run_verb(struct mu_cli_call *call, int argc, char **argv)
{
    const struct mu_cli_verb *verb = call->verb;
    int code = mu_cli_parse(call, argc, argv);

    call->words = argv;
    if (code)
        return code;
    if (call->values[MU_OPT_HELP]) {
        mu_cli_print_help(verb, call->path, stdout);
        return mu_cli_finish(call, 0);
    }
    if (call->count == 0 && verb->is_command && verb->min > 0)
        return mu_cli_usage(call, "a command is missing");
    if (call->count < verb->min)
        return call->count == 0 && verb->min > 0 ? mu_cli_usage(call, "%s is missing", verb->operands)
                                                 : mu_cli_usage(call, "too few operands: %s", verb->operands);
    if (verb->max >= 0 && call->count > verb->max)
        return refuse_operand(call, call->operands[verb->max]);
    return verb->run(call);
}

static void extend_path(struct mu_cli_call *call, const char *name)
{
    size_t len = strlen(call->path);

    snprintf(call->path + len, sizeof call->path - len, " %s", name);
}

/* A verb with sub-verbs: the first operand says which; options may stand before it. */
static int run_group(struct mu_cli_call *call, int argc, char **argv)
{
    const struct mu_cli_verb *sub = call->verb->verbs;
    int at = 0, code;

    while (at < argc && mu_cli_is_option(argv[at]) && strcmp(argv[at], "--") != 0) {
        const char *word = argv[at];

        code = mu_cli_take_option(call, argc, argv, &at, 1, NULL);
        if (code)
            return code;
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            mu_cli_print_help(call->verb, call->path, stdout);
            return mu_cli_finish(call, 0);
        }
    }
    if (at >= argc)
        return mu_cli_usage(call, "which? %s", call->verb->operands);
    while (sub->name && strcmp(sub->name, argv[at]) != 0)
        sub++;
    if (!sub->name)
        return mu_cli_unknown_command(call, call->verb, argv[at]);
    memmove(argv + at, argv + at + 1, sizeof *argv * (size_t)(argc - at)); /* the NULL at the end too */
    call->verb = sub;
    extend_path(call, sub->name);
    return run_verb(call, argc - 1, argv);
}

int mu_cli_main(int argc, char **argv)
{
    struct mu_cli_call call = {.path = "muster"};
    int code;

    if (argc < 2) {
        fprintf(stderr, "muster: which verb? (see 'muster --help')\n");
        return MU_CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        mu_cli_print_general_help(stdout);
        return mu_cli_finish(&call, 0);
    }
    call.verb = mu_cli_find(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
    if (!call.verb)
        return argv[1][0] == '-' && argv[1][1] ? mu_cli_misplaced_option(&call, argv[1])
                                               : mu_cli_unknown_verb(&call, argv[1]);
    extend_path(&call, call.verb->name);
    code = call.verb->verbs ? run_group(&call, argc - 2, argv + 2) : run_verb(&call, argc - 2, argv + 2);
    free(call.operands);
    free(call.env);
    return code;
}
