/*
 * launch/process/title.c: what /proc shows of a process that has not been exec'ed itself.
 *
 * A forked process is shown with the command line and the environment of the one it was forked from: they are its copy
 * of the memory where exec had put them, words first, variables behind. So they are overwritten there, by itself.
 */
#include "launch/launch.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static struct {
    char *words, *variables, *end; /* NULL: not known */
} shown;

/* Behind the strings of the list that follow each other from `at` on. */
static char *behind_strings(char *const *list, char *at)
{
    for (; *list && *list == at; list++)
        at += strlen(at) + 1;
    return at;
}

void mu_launch_title_init(char **argv)
{
    if (!argv[0])
        return;
    shown.words = argv[0];
    shown.variables = behind_strings(argv, argv[0]);
    shown.end = behind_strings(environ, shown.variables);
}

void mu_launch_title_set(const char *name, const char *subject)
{
    size_t room = (size_t)(shown.variables - shown.words), len = strlen(name) + 1;

    prctl(PR_SET_NAME, name);
    for (char *at = shown.variables; at < shown.end; at += strlen(at) + 1)
        if (strncmp(at, "MUSTER_RUN_ID=", 14) == 0) /* the mark of the job that the launcher is a task of */
            memset(at, '-', 13);
    if (room == 0)
        return;
    memset(shown.words, 0, room);
    snprintf(shown.words, room, "%s", name);
    if (room > len)
        snprintf(shown.words + len, room - len, "%s", subject);
}
