/*
 * cli/words/arguments.c: a verb's options and operands, from argv.
 *
 * Options may stand anywhere before "--" (for `run`: before the command), also before a sub-verb. "--name value",
 * "--name=value", "-n 4" and "-n4" are understood; "-" followed by a digit is an operand.
 */
#include "cli/cli.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- words that are not there ------------------------------------------------------------------------------------ */

static void see_options(struct mu_cli_guess *guess, const struct mu_cli_verb *verb)
{
    for (const struct mu_cli_option *option = verb->options; option && option->name; option++)
        mu_cli_guess_see(guess, option->name);
    for (const struct mu_cli_verb *sub = verb->verbs; sub && sub->name; sub++)
        see_options(guess, sub);
}

/* A word of one or two letters is too short to guess, but for these: --n as -n; and --np, where mpirun has -np. */
static char short_form(const struct mu_cli_call *call, const char *name, size_t len)
{
    const struct mu_cli_option *option = NULL;

    if (call->verb && (len == 1 || (len == 2 && memcmp(name, "np", 2) == 0)))
        option = mu_cli_find_option(call->verb, NULL, 0, name[0]);
    return option && (len == 1 || option->id == MU_OPT_NUM) ? option->letter : 0;
}

/* What another launcher calls so is said of a job's start alone. */
static const char *foreign_named(const struct mu_cli_call *call, const char *word)
{
    return call->verb && strcmp(call->verb->name, "run") == 0 ? mu_cli_foreign_option(word) : NULL;
}

int mu_cli_unknown_option(const struct mu_cli_call *call, const char *name, size_t len)
{
    const char *ours = foreign_named(call, name);
    struct mu_cli_guess guess;
    char meant[MU_CLI_GUESS_TEXT], letter = short_form(call, name, len);

    if (letter)
        return mu_cli_usage(call, "unknown option --%.*s; did you mean -%c?", (int)len, name, letter);
    if (ours)
        return mu_cli_usage(call, "unknown option --%.*s; here that is %s", (int)len, name, ours);
    mu_cli_guess_start(&guess, name, len);
    mu_cli_guess_see(&guess, "help");
    if (call->verb)
        see_options(&guess, call->verb);
    else
        mu_cli_guess_see(&guess, "version");
    mu_cli_did_you_mean(&guess, "--", "", meant);
    return mu_cli_usage(call, "unknown option --%.*s%s", len < 300 ? (int)len : 300, name, meant);
}

/* The character, not its first byte; or all of -ppn. */
int mu_cli_unknown_letter(const struct mu_cli_call *call, const char *word)
{
    size_t len = mu_cli_utf8_length(word + 1, strlen(word + 1));
    const char *ours = foreign_named(call, word);

    if (ours)
        return mu_cli_usage(call, "unknown option %.*s; here that is %s", (int)strcspn(word, "="), word, ours);
    return mu_cli_usage(call, "unknown option -%.*s", len ? (int)len : 1, word + 1);
}

/* ---- options and operands ---------------------------------------------------------------------------------------- */

bool mu_cli_is_option(const char *word)
{
    return word[0] == '-' && word[1] != 0 && !isdigit((unsigned char)word[1]);
}

bool mu_cli_is_optional(const struct mu_cli_option *option)
{
    return option->argument && option->argument[0] == '[';
}

int mu_cli_take_option(struct mu_cli_call *call, int argc, char **argv, int *index, int look, size_t *num_env)
{
    const char *word = argv[(*index)++], *equals = strchr(word, '='), *value = NULL;
    int is_long = word[1] == '-';
    const char *name = is_long ? word + 2 : NULL;
    size_t len = !is_long ? 0 : equals ? (size_t)(equals - name) : strlen(name);
    const struct mu_cli_option *option = mu_cli_find_option(call->verb, name, len, word[1]);

    if (!option && is_long)
        return mu_cli_unknown_option(call, name, len);
    if (!option)
        return mu_cli_unknown_letter(call, word);
    if (is_long && equals)
        value = equals + 1;
    else if (!is_long && mu_cli_second_name(option) && strncmp(word + 1, mu_cli_second_name(option), 2) == 0)
        value = word[3] ? word + 3 + (word[3] == '=') : NULL;
    else if (!is_long && word[2])
        value = word + 2 + (option->argument && word[2] == '=');
    if (!option->argument && value)
        return is_long ? mu_cli_usage(call, "option --%s takes no value", option->name)
                       : mu_cli_usage(call, "unknown option -%s", word + 1);
    if (option->argument && !mu_cli_is_optional(option) && !value) {
        if (*index >= argc)
            return mu_cli_usage(call, "option %s%s needs a value: %s", is_long ? "--" : "-",
                                is_long ? option->name : (char[]){option->letter, 0}, option->argument);
        value = argv[(*index)++];
    }
    if (look)
        return 0;
    if (option->id == MU_OPT_ENV)
        call->env[(*num_env)++] = (char *)value; /* a part of argv */
    call->values[option->id] = value ? value : "";
    call->letters[option->id] = is_long ? 0 : option->letter;
    return 0;
}

int mu_cli_parse(struct mu_cli_call *call, int argc, char **argv)
{
    size_t num_env = 0;
    int only_operands = 0, code;

    call->operands = calloc((size_t)argc + 1, sizeof *call->operands);
    call->env = calloc((size_t)argc + 1, sizeof *call->env);
    if (!call->operands || !call->env)
        abort();
    for (int i = 0; i < argc;) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = 1;
            i++;
        } else if (!only_operands && mu_cli_is_option(argv[i])) {
            code = mu_cli_take_option(call, argc, argv, &i, 0, &num_env);
            if (code)
                return code;
        } else {
            call->operands[call->count++] = argv[i++];
            only_operands |= call->verb->is_command;
        }
    }
    return 0;
}
