/*
 * cli/words/verbs.c: the table of verbs, and what is said of a word in a verb's place that is none.
 *
 * Of the command's files only help and completion, which print the table, and the dispatcher look here.
 */
#include "cli/cli.h"

#include <string.h>

const struct mu_cli_verb *const mu_cli_verbs[] = {
    &mu_cli_run,     &mu_cli_serve,    &mu_cli_agent,      &mu_cli_scale, &mu_cli_status, &mu_cli_top,
    &mu_cli_kv,      &mu_cli_barrier,  &mu_cli_checkpoint, &mu_cli_task,  &mu_cli_event,  &mu_cli_object,
    &mu_cli_session, &mu_cli_segment,  &mu_cli_worker,     &mu_cli_trace, &mu_cli_topo,   &mu_cli_bench,
    &mu_cli_doctor,  &mu_cli_executor, &mu_cli_version,    &mu_cli_help,  NULL,
};

const struct mu_cli_verb *mu_cli_find(const char *name)
{
    for (size_t i = 0; mu_cli_verbs[i]; i++)
        if (strcmp(mu_cli_verbs[i]->name, name) == 0)
            return mu_cli_verbs[i];
    return NULL;
}

/* In the place of the verb: an option of some verb is one that stands too early. */
int mu_cli_misplaced_option(const struct mu_cli_call *call, const char *word)
{
    int is_long = word[1] == '-';
    size_t len = is_long ? strcspn(word + 2, "=") : 1;

    for (size_t i = 0; mu_cli_verbs[i]; i++) {
        const struct mu_cli_option *option =
            mu_cli_find_option(mu_cli_verbs[i], is_long ? word + 2 : NULL, len, word[1]);

        if (option && option->id != MU_OPT_HELP && is_long)
            return mu_cli_usage(call, "put --%s after the verb", option->name);
        if (option && option->id != MU_OPT_HELP)
            return mu_cli_usage(call, "put -%c after the verb", option->letter);
    }
    return is_long ? mu_cli_unknown_option(call, word + 2, len) : mu_cli_unknown_letter(call, word);
}

int mu_cli_unknown_command(const struct mu_cli_call *call, const struct mu_cli_verb *verb, const char *name)
{
    struct mu_cli_guess guess;
    char meant[MU_CLI_GUESS_TEXT];

    mu_cli_guess_start(&guess, name, strlen(name));
    for (const struct mu_cli_verb *sub = verb->verbs; sub && sub->name; sub++)
        mu_cli_guess_see(&guess, sub->name);
    mu_cli_did_you_mean(&guess, "'", "'", meant);
    return mu_cli_usage(call, "unknown command '%.300s'%s", name, meant);
}

int mu_cli_unknown_verb(const struct mu_cli_call *call, const char *name)
{
    struct mu_cli_guess guess;
    char meant[MU_CLI_GUESS_TEXT];

    mu_cli_guess_start(&guess, name, strlen(name));
    for (size_t i = 0; mu_cli_verbs[i]; i++)
        mu_cli_guess_see(&guess, mu_cli_verbs[i]->name);
    mu_cli_did_you_mean(&guess, "'", "'", meant);
    return mu_cli_usage(call, "unknown verb '%.300s'%s", name, meant);
}
