/*
 * cli/words/help.c: --help, from the table of verbs.
 */
#include "cli/cli.h"

#include <string.h>

/* The same table stands in muster(1); the verbs' pages say what of it they use. */
static const struct {
    const char *code, *meaning;
} exits[] = {
    {"0", "done"},
    {"1", "it failed; one sentence says what, why and who"},
    {"2", "a wrong option or operand"},
    {"3", "the key, task, barrier or job was not found"},
    {"4", "the time that was given has passed"},
    {"124", "run: the time given with --timeout has passed"},
    {"125", "run: the launcher itself failed"},
    {"126", "run: the command cannot be executed"},
    {"127", "run: the command was not found"},
    {"128 + n", "a wait, or the launcher, was ended by signal n; run: a task was killed by it"},
};

static void print_option(const struct mu_cli_option *option, FILE *out)
{
    const char *space = !option->argument || option->argument[0] == '[' ? "" : " ";
    const char *second = mu_cli_second_name(option);
    char left[64], names[16] = "    ";

    if (option->letter)
        snprintf(names, sizeof names, "-%c, %s%s%s", option->letter, second ? "-" : "", second ? second : "",
                 second ? ", " : "");
    snprintf(left, sizeof left, "%s--%s%s%s", names, option->name, space, option->argument ? option->argument : "");
    fprintf(out, "  %-30s %s\n", left, option->help);
}

static void print_options(const struct mu_cli_verb *verb, FILE *out)
{
    static const struct mu_cli_option help = MU_CLI_HELP;

    fprintf(out, "\nOptions:\n");
    for (const struct mu_cli_option *option = verb->options; option && option->name; option++)
        print_option(option, out);
    print_option(&help, out);
}

static void print_page(const char *verb, FILE *out)
{
    if (strcmp(verb, "version") == 0 || strcmp(verb, "help") == 0)
        fprintf(out, "\nSee muster(1).\n");
    else
        fprintf(out, "\nSee muster-%s(1).\n", verb);
}

/* The verb that a path "muster kv get" begins with. */
static const struct mu_cli_verb *top_of(const char *path)
{
    char name[32] = "";

    sscanf(path, "%*s %31s", name);
    return mu_cli_find(name);
}

void mu_cli_print_help(const struct mu_cli_verb *verb, const char *path, FILE *out)
{
    fprintf(out, "Usage: %s [OPTION]...%s%s\n\n%s.\n", path, verb->operands[0] ? " " : "", verb->operands,
            verb->summary);
    if (verb->verbs) {
        fprintf(out, "\nCommands:\n");
        for (const struct mu_cli_verb *sub = verb->verbs; sub->name; sub++) {
            char left[64];

            snprintf(left, sizeof left, "%s %s", sub->name, sub->operands);
            fprintf(out, "  %-30s %s\n", left, sub->summary);
        }
        fprintf(out, "\nEach command has its own --help.\n");
    } else {
        print_options(verb, out);
    }
    print_page(top_of(path)->name, out);
}

void mu_cli_print_general_help(FILE *out)
{
    fprintf(out, "Usage: muster VERB [OPTION]... [OPERAND]...\n\n"
                 "Gathers the processes of a multi-GPU job and keeps them together.\n\nVerbs:\n");
    for (size_t i = 0; mu_cli_verbs[i]; i++)
        fprintf(out, "  %-10s %s\n", mu_cli_verbs[i]->name, mu_cli_verbs[i]->summary);
    fprintf(out, "\nOptions:\n  -h, --help                     print this help and exit\n"
                 "      --version                  the same as 'muster version'\n"
                 "\nExit status:\n");
    for (size_t i = 0; i < sizeof exits / sizeof exits[0]; i++)
        fprintf(out, "  %-10s %s\n", exits[i].code, exits[i].meaning);
    fprintf(out, "\nEach verb has its own --help. Durations read 500ms, 30s, 5m.\n\nSee muster(1).\n");
}

static const char *verb_word(size_t number)
{
    return mu_cli_verbs[number] ? mu_cli_verbs[number]->name : NULL;
}

static int help_run(struct mu_cli_call *call)
{
    const struct mu_cli_verb *verb;
    char path[64];

    if (call->values[MU_OPT_COMPLETION]) {
        mu_cli_print_completion(stdout);
        return mu_cli_finish(call, 0);
    }
    if (call->count == 0) {
        mu_cli_print_general_help(stdout);
        return mu_cli_finish(call, 0);
    }
    verb = mu_cli_find(call->operands[0]);
    if (!verb)
        return mu_cli_unknown_verb(call, call->operands[0]);
    snprintf(path, sizeof path, "muster %s", verb->name);
    if (call->count == 2) {
        const struct mu_cli_verb *sub = verb->verbs;

        while (sub && sub->name && strcmp(sub->name, call->operands[1]) != 0)
            sub++;
        if (!sub || !sub->name)
            return mu_cli_unknown_command(call, verb, call->operands[1]);
        verb = sub;
        snprintf(path, sizeof path, "muster %s %s", call->operands[0], sub->name);
    }
    mu_cli_print_help(verb, path, stdout);
    return mu_cli_finish(call, 0);
}

static const struct mu_cli_option help_options[] = {
    {MU_OPT_COMPLETION, 0, "completion", NULL, NULL, "print the completion file for bash"},
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_help = {
    .name = "help",
    .operands = "[VERB [COMMAND]]",
    .summary = "Explain a verb",
    .options = help_options,
    .max = 2,
    .run = help_run,
    .words = verb_word,
};
