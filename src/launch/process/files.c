/*
 * launch/process/files.c: output files by template: "{job}/{rank}.{stream}".
 *
 * A template is checked before anything is started. Folders are made as needed. The file is emptied when it is opened
 * and written at its end, so that a task's two streams may share it.
 */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The field that `at` begins with, as a place in `names`; -1: none. *ret_len: with its brackets. */
static int field_at(const char *at, size_t *ret_len)
{
    static const char *const names[] = {"{job}", "{rank}", "{host}", "{attempt}", "{stream}", "{{", "}}"};

    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (strncmp(at, names[i], strlen(names[i])) == 0) {
            *ret_len = strlen(names[i]);
            return i;
        }
    return -1;
}
enum { JOB, RANK, HOST, ATTEMPT, STREAM, OPENING, CLOSING };

int mu_launch_files_check(const char *template, uint32_t num_tasks, uint32_t restarts, char *ret_why, size_t size)
{
    unsigned has = 0; /* fields, a bit each */

    if (!*template) {
        snprintf(ret_why, size, "it is empty");
        return -1;
    }
    for (const char *at = template; *at;) {
        size_t len = 1;
        int field = *at == '{' || *at == '}' ? field_at(at, &len) : CLOSING;

        if (field < 0) {
            snprintf(ret_why, size,
                     "'%.20s' is none of {job} {rank} {host} {attempt} {stream} ('{{' and '}}' stand for brackets)",
                     at);
            return -1;
        }
        has |= 1u << field;
        at += len;
    }
    if (!(has & 1u << RANK) && num_tasks > 1) {
        snprintf(ret_why, size, "it lacks {rank}: %u tasks would write over each other", num_tasks);
        return -1;
    }
    if (!(has & 1u << ATTEMPT) && restarts > 0) {
        snprintf(ret_why, size,
                 "it lacks {attempt}: each attempt would empty the files of the last (--restarts, --elastic)");
        return -1;
    }
    return 0;
}

bool mu_launch_files_are_apart(const char *template)
{
    return strstr(template, "{stream}") != NULL;
}

char *mu_launch_files_path(const char *template, const struct mu_launch_file *file)
{
    char *text = NULL;
    size_t size, len;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    for (const char *at = template; *at; at += len) {
        len = 1;
        switch (*at == '{' || *at == '}' ? field_at(at, &len) : -1) {
        case JOB: fputs(file->job, out); break;
        case RANK: fprintf(out, "%u", file->task_id); break;
        case HOST: fputs(file->host, out); break;
        case ATTEMPT: fprintf(out, "%u", file->attempt); break;
        case STREAM: fputs(file->out == 2 ? "stderr" : "stdout", out); break;
        default: putc(*at, out); break; /* for "{{" and "}}": one of the two */
        }
    }
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    return text;
}

/* Every folder above the file. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777); /* that it failed, the opening of the file will tell */
        *slash = '/';
    }
}

int mu_launch_files_open(char *path)
{
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOCTTY;
    int fd = open(path, flags | O_NONBLOCK, 0666); /* a FIFO that nobody reads is an error, not a wait */

    if (fd < 0 && errno == ENOENT) {
        make_folders(path);
        fd = open(path, flags | O_NONBLOCK, 0666);
    }
    if (fd >= 0)
        fcntl(fd, F_SETFL, flags & O_APPEND);
    return fd;
}

void mu_launch_error_path(const char *folder, uint32_t task_id, uint32_t attempt, char *path, size_t size)
{
    snprintf(path, size, "%s/error-%u-%u.json", folder, task_id, attempt);
}
