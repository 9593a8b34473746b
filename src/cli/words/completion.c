/*
 * cli/words/completion.c: the completion file for bash, from the table of verbs.
 *
 * _muster_table() in it is that table: what a verb's options and operands may be, and an option's value. The rest walks
 * over the words that stand before the one to be completed. A value is "next" and words, where it is the next word or
 * stands behind '='; "=" and words, where it stands behind '=' alone; "list" and words, where it is several of them
 * with commas between. Words that begin with '@' say of what kind they are.
 */
#include "cli/cli.h"

#include <stdbool.h>
#include <string.h>

#define OPTIONS_MAX 96

/* The options of a verb or, for one with sub-verbs, of all of these, each name once. */
static size_t options_gather(const struct mu_cli_verb *verb, const struct mu_cli_option **list, size_t count)
{
    for (const struct mu_cli_option *option = verb->options; option && option->name; option++) {
        size_t i = 0;

        while (i < count && strcmp(list[i]->name, option->name) != 0)
            i++;
        if (i == count && count < OPTIONS_MAX)
            list[count++] = option;
    }
    for (const struct mu_cli_verb *sub = verb->verbs; sub && sub->name; sub++)
        count = options_gather(sub, list, count);
    return count;
}

static void print_names(const struct mu_cli_option *option, const char *between, FILE *out)
{
    const char *second = mu_cli_second_name(option);

    if (option->letter)
        fprintf(out, "-%c%s", option->letter, between);
    if (option->letter && second)
        fprintf(out, "-%s%s", second, between);
    fprintf(out, "--%s", option->name);
}

static const char *value_kind(const struct mu_cli_option *option)
{
    return option->argument[0] == '[' ? "=" : strcmp(option->argument, "LIST") == 0 ? "list" : "next";
}

static bool option_is_alike(const struct mu_cli_option *one, const struct mu_cli_option *other)
{
    return one->argument && other->argument && one->words == other->words &&
           strcmp(value_kind(one), value_kind(other)) == 0;
}

static void print_words(mu_cli_words *words, FILE *out)
{
    for (size_t i = 0; words && words(i); i++)
        fprintf(out, "%s%s", i ? " " : "", words(i));
}

/* What the values of options may be, those that are alike in one line. */
static void print_values(const struct mu_cli_option *const *list, size_t count, FILE *out)
{
    size_t cases = 0;

    for (size_t i = 0; i < count; i++) {
        size_t first = 0;

        while (first < i && !option_is_alike(list[first], list[i]))
            first++;
        if (!list[i]->argument || first < i)
            continue;
        fputs(cases++ ? "        " : "        case ${2-} in\n        ", out);
        for (size_t k = i; k < count; k++) {
            if (!option_is_alike(list[i], list[k]))
                continue;
            fputs(k == i ? "" : " | ", out);
            print_names(list[k], " | ", out);
        }
        fprintf(out, ") value='%s%s", value_kind(list[i]), list[i]->words ? " " : "");
        print_words(list[i]->words, out);
        fputs("' ;;\n", out);
    }
    if (cases)
        fputs("        esac\n", out);
}

static void print_case(const char *path, const struct mu_cli_verb *verb, FILE *out)
{
    const struct mu_cli_option *list[OPTIONS_MAX];
    size_t count = options_gather(verb, list, 0);

    fprintf(out, "    '%s')\n        options='", path);
    for (size_t i = 0; i < count && !verb->verbs; i++) {
        print_names(list[i], " ", out);
        fputc(' ', out);
    }
    fputs("-h --help'\n", out);
    if (verb->verbs || verb->words)
        fputs("        operands='", out);
    for (const struct mu_cli_verb *sub = verb->verbs; sub && sub->name; sub++)
        fprintf(out, "%s%s", sub->name, sub[1].name ? " " : "");
    print_words(verb->words, out);
    fputs(verb->verbs || verb->words ? "'\n" : "", out);
    print_values(list, count, out);
    fputs("        ;;\n", out);
}

/* Behind 'help' and a verb: its commands. */
static void print_help_case(const struct mu_cli_verb *verb, FILE *out)
{
    fprintf(out, "    'help %s') operands='", verb->name);
    for (const struct mu_cli_verb *sub = verb->verbs; sub && sub->name; sub++)
        fprintf(out, "%s%s", sub->name, sub[1].name ? " " : "");
    fputs("' ;;\n", out);
}

static void print_table(FILE *out)
{
    fputs("_muster_table() # PATH OPTION: what may stand behind it; 1: there is no such verb or command\n{\n"
          "    options= operands= value=\n"
          "    case $1 in\n    '')\n        options='-h --help --version'\n        operands='",
          out);
    for (size_t i = 0; mu_cli_verbs[i]; i++)
        fprintf(out, "%s%s", mu_cli_verbs[i]->name, mu_cli_verbs[i + 1] ? " " : "'\n        ;;\n");
    for (size_t i = 0; mu_cli_verbs[i]; i++) {
        print_case(mu_cli_verbs[i]->name, mu_cli_verbs[i], out);
        for (const struct mu_cli_verb *sub = mu_cli_verbs[i]->verbs; sub && sub->name; sub++) {
            char path[64];

            snprintf(path, sizeof path, "%s %s", mu_cli_verbs[i]->name, sub->name);
            print_case(path, sub, out);
        }
    }
    for (size_t i = 0; mu_cli_verbs[i]; i++)
        print_help_case(mu_cli_verbs[i], out);
    fputs("    *) return 1 ;;\n    esac\n}\n\n", out);
}

static const char complete_words[] =
    "_muster_words() # WORDS: those that begin as $cur does\n"
    "{\n"
    "    local word\n"
    "    case $1 in\n"
    "    @files) return ;; # as bash does it\n"
    "    @folders)\n"
    "        compopt -o filenames 2> /dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
    "        ;;\n"
    "    @commands)\n"
    "        [[ $cur == */* ]] || mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
    "        return\n"
    "        ;;\n"
    "    @jobs)\n"
    "        [[ $cur != */* ]] || return # the path of a segment\n"
    "        while read -r word; do\n"
    "            [[ $word == \"$cur\"* && $word != *[^A-Za-z0-9._-]* ]] && COMPREPLY+=(\"$word\")\n"
    "        done < <(muster segment list --names 2> /dev/null)\n"
    "        ;;\n"
    "    *) mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\") ;;\n"
    "    esac\n"
    "    compopt +o default 2> /dev/null # no files where none is meant\n"
    "}\n"
    "\n";

static const char complete_value[] = "_muster_value() # VALUE, as the table has it\n"
                                     "{\n"
                                     "    local before= words=\n"
                                     "    if [[ $1 == list* && $cur == *,* ]]; then\n"
                                     "        before=${cur%,*},\n"
                                     "        cur=${cur##*,}\n"
                                     "    fi\n"
                                     "    [[ $1 != *' '* ]] || words=${1#* }\n"
                                     "    _muster_words \"$words\"\n"
                                     "    COMPREPLY=(\"${COMPREPLY[@]/#/$before}\")\n"
                                     "}\n"
                                     "\n";

static const char complete_command[] = "_muster_command() # AT: of a command and its words, which begin there\n"
                                       "{\n"
                                       "    if declare -F _comp_command_offset > /dev/null; then\n"
                                       "        _comp_command_offset \"$1\"\n"
                                       "    elif declare -F _command_offset > /dev/null; then\n"
                                       "        _command_offset \"$1\"\n"
                                       "    elif ((COMP_CWORD == $1)); then\n"
                                       "        _muster_words @commands\n"
                                       "    fi\n"
                                       "}\n"
                                       "\n";

static const char complete_split[] =
    "_muster_split() # the words up to the cursor as they were typed: bash makes words of '=' and ':' in them\n"
    "{\n"
    "    local line=${COMP_LINE-} rest word i\n"
    "    for ((i = 0; i <= COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        rest=${line#\"${line%%[![:space:]]*}\"}\n"
    "        if [[ $i == 0 || $rest != \"$line\" || $rest != \"$word\"* || ! $line ]]; then\n"
    "            typed+=(\"$word\")\n"
    "            places+=(\"$i\")\n"
    "            known=\n"
    "        else\n"
    "            known=${typed[-1]} # bash completes what follows it\n"
    "            typed[-1]+=$word\n"
    "            [[ $word != [=:]* ]] || known=${typed[-1]}\n"
    "        fi\n"
    "        line=${rest#\"$word\"}\n"
    "    done\n"
    "}\n"
    "\n";

static const char complete_all[] =
    "_muster()\n"
    "{\n"
    "    local path= waiting= is_over= known= name= cur word i typed=() places=()\n"
    "    local options operands value\n"
    "    COMPREPLY=()\n"
    "    _muster_split\n"
    "    cur=${typed[-1]}\n"
    "    for ((i = 1; i < ${#typed[@]} - 1; i++)); do\n"
    "        word=${typed[i]}\n"
    "        if [[ $waiting == [nl]* ]]; then # it is the option's value\n"
    "            waiting=\n"
    "        elif [[ $is_over || $word != -[!0-9]* ]]; then\n"
    "            _muster_table \"$path${path:+ }$word\" && path+=${path:+ }$word && continue\n"
    "            _muster_table \"$path\"\n"
    "            [[ $operands != @commands ]] || break\n"
    "        elif [[ $word == -- ]]; then\n"
    "            is_over=1\n"
    "        elif [[ $word != *=* ]]; then\n"
    "            _muster_table \"$path\" \"$word\"\n"
    "            waiting=$value\n"
    "        fi\n"
    "    done\n"
    "    _muster_table \"$path\"\n"
    "    if ((i < ${#typed[@]} - 1)); then\n"
    "        _muster_command \"${places[i]}\"\n"
    "    elif [[ $waiting == [nl]* ]]; then\n"
    "        _muster_value \"$waiting\"\n"
    "    elif [[ ! $is_over && $cur == -*=* ]]; then\n"
    "        name=${cur%%=*}=\n"
    "        _muster_table \"$path\" \"${name%=}\"\n"
    "        cur=${cur#*=}\n"
    "        [[ ! $value ]] || _muster_value \"$value\"\n"
    "        COMPREPLY=(\"${COMPREPLY[@]/#/$name}\")\n"
    "    elif [[ ! $is_over && ($cur == -* || (! $cur && (! $operands || $operands == @commands))) ]]; then\n"
    "        _muster_words \"$options\"\n"
    "    elif [[ $operands == @commands ]]; then\n"
    "        _muster_command \"$COMP_CWORD\"\n"
    "    elif [[ $operands ]]; then\n"
    "        _muster_words \"$operands\"\n"
    "    fi\n"
    "    [[ ! $known ]] || COMPREPLY=(\"${COMPREPLY[@]#\"$known\"}\")\n"
    "}\n"
    "complete -o default -F _muster muster\n";

void mu_cli_print_completion(FILE *out)
{
    fputs("# bash completion for muster(1), printed by 'muster help --completion'\n", out);
    print_table(out);
    fputs(complete_words, out);
    fputs(complete_value, out);
    fputs(complete_command, out);
    fputs(complete_split, out);
    fputs(complete_all, out);
}
