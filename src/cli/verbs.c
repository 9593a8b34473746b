/*
 * cli/verbs.c: from argv to a verb's function.
 *
 * Options may stand anywhere before "--" (for `run`: before the command), also before a sub-verb. "--name value",
 * "--name=value", "-n 4" and "-n4" are understood; "-" followed by a digit is an operand. One wrong word gives one line
 * on stderr and exit status 2.
 */
#include "cli/cli.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const struct mu_cli_verb *const mu_cli_verbs[] = {
    &mu_cli_run,     &mu_cli_serve,  &mu_cli_agent,   &mu_cli_status,  &mu_cli_top,   &mu_cli_kv,
    &mu_cli_barrier, &mu_cli_task,   &mu_cli_event,   &mu_cli_segment, &mu_cli_trace, &mu_cli_topo,
    &mu_cli_bench,   &mu_cli_doctor, &mu_cli_version, &mu_cli_help,    NULL,
};

int mu_cli_usage(const struct mu_cli_call *call, const char *format, ...)
{
    char text[512], *whole = NULL;
    size_t len;
    FILE *out = open_memstream(&whole, &len); /* written at once: what others say of the same does not get into it */
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(out ? out : stderr, "%s: ", call->path);
    mu_cli_print_line(out ? out : stderr, text); /* what was typed, or read from somewhere: still one line */
    fprintf(out ? out : stderr, " (see '%s --help')\n", call->path);
    if (out && fclose(out) == 0)
        fwrite(whole, 1, len, stderr);
    else if (out)
        fprintf(stderr, "%s: no memory for a message\n", call->path);
    free(whole);
    return MU_CLI_EXIT_USAGE;
}

const struct mu_cli_verb *mu_cli_find(const char *name)
{
    for (size_t i = 0; mu_cli_verbs[i]; i++)
        if (strcmp(mu_cli_verbs[i]->name, name) == 0)
            return mu_cli_verbs[i];
    return NULL;
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
static const char *elsewhere(const struct mu_cli_call *call, const char *word)
{
    return call->verb && strcmp(call->verb->name, "run") == 0 ? mu_cli_elsewhere(word) : NULL;
}

static int unknown_option(const struct mu_cli_call *call, const char *name, size_t len)
{
    const char *ours = elsewhere(call, name);
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
static int unknown_letter(const struct mu_cli_call *call, const char *word)
{
    size_t len = mu_cli_utf8_length(word + 1, strlen(word + 1));
    const char *ours = elsewhere(call, word);

    if (ours)
        return mu_cli_usage(call, "unknown option %.*s; here that is %s", (int)strcspn(word, "="), word, ours);
    return mu_cli_usage(call, "unknown option -%.*s", len ? (int)len : 1, word + 1);
}

/* In the place of the verb: an option of some verb is one that stands too early. */
static int misplaced_option(const struct mu_cli_call *call, const char *word)
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
    return is_long ? unknown_option(call, word + 2, len) : unknown_letter(call, word);
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

/* ---- options and operands ---------------------------------------------------------------------------------------- */

static int is_option(const char *word)
{
    return word[0] == '-' && word[1] != 0 && !isdigit((unsigned char)word[1]);
}

static int is_optional(const struct mu_cli_option *option)
{
    return option->argument && option->argument[0] == '[';
}

/*
 * Take the option at argv[*index] and its value, and move *index past them. 0, or 2 with a complaint printed. With
 * `look` only the words are counted.
 */
static int take_option(struct mu_cli_call *call, int argc, char **argv, int *index, int look, size_t *num_env)
{
    const char *word = argv[(*index)++], *equals = strchr(word, '='), *value = NULL;
    int is_long = word[1] == '-';
    const char *name = is_long ? word + 2 : NULL;
    size_t len = !is_long ? 0 : equals ? (size_t)(equals - name) : strlen(name);
    const struct mu_cli_option *option = mu_cli_find_option(call->verb, name, len, word[1]);

    if (!option && is_long)
        return unknown_option(call, name, len);
    if (!option)
        return unknown_letter(call, word);
    if (is_long && equals)
        value = equals + 1;
    else if (!is_long && mu_cli_second_name(option) && strncmp(word + 1, mu_cli_second_name(option), 2) == 0)
        value = word[3] ? word + 3 + (word[3] == '=') : NULL;
    else if (!is_long && word[2])
        value = word + 2 + (option->argument && word[2] == '=');
    if (!option->argument && value)
        return is_long ? mu_cli_usage(call, "option --%s takes no value", option->name)
                       : mu_cli_usage(call, "unknown option -%s", word + 1);
    if (option->argument && !is_optional(option) && !value) {
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
        } else if (!only_operands && is_option(argv[i])) {
            code = take_option(call, argc, argv, &i, 0, &num_env);
            if (code)
                return code;
        } else {
            call->operands[call->count++] = argv[i++];
            only_operands |= call->verb->is_command;
        }
    }
    return 0;
}

/* The option right before the operand that takes its value behind '=' alone, and has none; or NULL. */
static const struct mu_cli_option *valueless(const struct mu_cli_call *call, const char *operand)
{
    const struct mu_cli_option *option = NULL;

    for (char *const *at = call->words; at[0] && at[1]; at++) {
        int is_long = at[0][0] == '-' && at[0][1] == '-';

        if (at[1] != operand || !is_option(at[0]) || (is_long ? strchr(at[0], '=') != NULL : at[0][2] != 0))
            continue;
        option = mu_cli_find_option(call->verb, is_long ? at[0] + 2 : NULL, is_long ? strlen(at[0] + 2) : 0, at[0][1]);
    }
    return option && is_optional(option) ? option : NULL;
}

/* Of a verb without operands it is perhaps the job that was meant; or the value of the option before it. */
static int refuse_operand(struct mu_cli_call *call, const char *operand)
{
    const struct mu_cli_option *option = valueless(call, operand);
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

    while (at < argc && is_option(argv[at]) && strcmp(argv[at], "--") != 0) {
        const char *word = argv[at];

        code = take_option(call, argc, argv, &at, 1, NULL);
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
        return argv[1][0] == '-' && argv[1][1] ? misplaced_option(&call, argv[1]) : mu_cli_unknown_verb(&call, argv[1]);
    extend_path(&call, call.verb->name);
    code = call.verb->verbs ? run_group(&call, argc - 2, argv + 2) : run_verb(&call, argc - 2, argv + 2);
    free(call.operands);
    free(call.env);
    return code;
}
