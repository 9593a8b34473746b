/*
 * cli/words/usage.c: one wrong word gives one line on stderr and exit status 2; and the options of a verb by name.
 *
 * The lowest file of the command: verbs, and whatever takes an option's value, say here what is wrong with it.
 */
#include "cli/cli.h"

#include <stdarg.h>
#include <string.h>

int mu_cli_usage(const struct mu_cli_call *call, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%s: ", call->path);
    mu_cli_print_line(stderr, text); /* what was typed, or read from somewhere: still one line */
    fprintf(stderr, " (see '%s --help')\n", call->path);
    return MU_CLI_EXIT_USAGE;
}

const struct mu_cli_option *mu_cli_find_option(const struct mu_cli_verb *verb, const char *name, size_t len,
                                               char letter)
{
    static const struct mu_cli_option help = MU_CLI_HELP;

    if (name ? len == 4 && memcmp(name, "help", 4) == 0 : letter == 'h')
        return &help;
    for (const struct mu_cli_option *option = verb->options; option && option->name; option++)
        if (name ? strlen(option->name) == len && memcmp(option->name, name, len) == 0 : option->letter == letter)
            return option;
    for (const struct mu_cli_verb *sub = verb->verbs; sub && sub->name; sub++) {
        const struct mu_cli_option *option = mu_cli_find_option(sub, name, len, letter);

        if (option)
            return option;
    }
    return NULL;
}

const char *mu_cli_second_name(const struct mu_cli_option *option)
{
    return option->id == MU_OPT_NUM ? "np" : NULL;
}
