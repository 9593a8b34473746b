/*
 * cli/words/values.c: what the values of options may be: the words of those that are one of a few, and what is said of
 * a value that is wrong, always with the option's name.
 */
#include "cli/cli.h"

#include <stdarg.h>
#include <string.h>

#include "base/words.h"

MU_WORDS(mu_cli_jobs, "@jobs")
MU_WORDS(mu_cli_files, "@files")
MU_WORDS(mu_cli_folders, "@folders")
MU_WORDS(mu_cli_commands, "@commands")
MU_WORDS(mu_cli_answers, "yes", "no")

static const struct mu_cli_option *option_of(const struct mu_cli_call *call, enum mu_cli_option_id id)
{
    const struct mu_cli_option *option = call->verb->options;

    while (option->name && option->id != id)
        option++;
    return option;
}

/* "-n" or "--num-tasks", as it was typed. */
static const char *option_typed(const struct mu_cli_call *call, enum mu_cli_option_id id, char buffer[64])
{
    if (call->letters[id])
        snprintf(buffer, 64, "-%c", call->letters[id]);
    else
        snprintf(buffer, 64, "--%s", option_of(call, id)->name);
    return buffer;
}

int mu_cli_wrong(const struct mu_cli_call *call, enum mu_cli_option_id id, const char *text, const char *format, ...)
{
    char what[400], name[64];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return mu_cli_usage(call, "%s: '%.60s%s' %s", option_typed(call, id, name), text, strlen(text) > 60 ? "..." : "",
                        what);
}

/* "core, numa, l3 or none" */
static void words_join(mu_cli_words *words, char *text, size_t size)
{
    size_t len = 0;

    text[0] = 0;
    for (size_t i = 0; words(i) && len < size; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%s", i == 0 ? "" : words(i + 1) ? ", " : " or ", words(i));
}

int mu_cli_choice(const struct mu_cli_call *call, enum mu_cli_option_id id, const char *text, size_t *ret_index)
{
    mu_cli_words *words = option_of(call, id)->words;
    char all[256], name[64], meant[MU_CLI_GUESS_TEXT];
    struct mu_cli_guess guess;

    mu_cli_guess_start(&guess, text, strlen(text));
    for (size_t i = 0; words(i); i++) {
        if (strcmp(words(i), text) == 0) {
            *ret_index = i;
            return 0;
        }
        mu_cli_guess_see(&guess, words(i));
    }
    words_join(words, all, sizeof all);
    return mu_cli_usage(call, "%s is %s, not '%.60s'%s", option_typed(call, id, name), all, text,
                        mu_cli_did_you_mean(&guess, "'", "'", meant));
}

int mu_cli_word(const struct mu_cli_call *call, enum mu_cli_option_id id, size_t *ret_index)
{
    const char *text = call->values[id];

    return text && (*text || option_of(call, id)->argument[0] != '[') ? mu_cli_choice(call, id, text, ret_index) : 0;
}
