/*
 * launch/binding/bind_report.c: what became of a plan: the kernel's word about each task, and the table of
 * --report-bindings.
 *
 * Between the plan and the program that runs stand control groups, which cut a set down without a word, and whatever
 * the task's command does to itself (taskset, numactl, an OpenMP runtime). So what is printed is read from /proc after
 * the exec, for every thread that the process has by then.
 */
#include "launch/binding/bind_private.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- asking the kernel ------------------------------------------------------------------------------------------- */

static bool is_place(const char *list, const struct mu_launch_place *place)
{
    cpu_set_t *set = mu_cpus_new(place->cpus_size);
    int same;

    if (!set)
        return 0;
    same = mu_cpus_parse(list, set, place->cpus_size) == 0 && CPU_EQUAL_S(place->cpus_size, set, place->cpus);
    CPU_FREE(set);
    return same;
}

enum mu_launch_verdict mu_launch_verify(pid_t pid, const struct mu_launch_place *place, char *actual, size_t size)
{
    enum mu_launch_verdict verdict = MU_LAUNCH_GONE;
    char folder[32], path[64 + sizeof((struct dirent *)0)->d_name];
    struct dirent *entry;
    DIR *dir;

    snprintf(actual, size, "%s", "");
    snprintf(folder, sizeof folder, "/proc/%d/task", (int)pid);
    dir = opendir(folder);
    while (dir && verdict != MU_LAUNCH_DIFFERS && (entry = readdir(dir))) {
        char *list;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s/status", folder, entry->d_name);
        list = mu_cpus_of(path);
        if (!list) /* a thread that has ended */
            continue;
        verdict = is_place(list, place) ? MU_LAUNCH_HOLDS : MU_LAUNCH_DIFFERS;
        snprintf(actual, size, "%s", list);
        free(list);
    }
    if (dir)
        closedir(dir);
    return verdict;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define COLUMNS 7

void mu_launch_verdict_words(const struct mu_launch_report *row, char *words, size_t size)
{
    switch (row->verdict) {
    case MU_LAUNCH_HOLDS: snprintf(words, size, "yes"); break;
    case MU_LAUNCH_DIFFERS: snprintf(words, size, "NO: %s", row->actual); break;
    case MU_LAUNCH_GONE: snprintf(words, size, "ended"); break;
    case MU_LAUNCH_UNASKED: snprintf(words, size, "-"); break;
    }
}

/* The cells of a row. `verified` holds what is put together here. */
static void bind_cells(const struct mu_launch_report *row, const char *cell[COLUMNS], char number[2][16],
                       char verified[MU_LAUNCH_ACTUAL + 8])
{
    snprintf(number[0], 16, "%u", row->task);
    snprintf(number[1], 16, row->pid ? "%d" : "-", (int)row->pid);
    mu_launch_verdict_words(row, verified, MU_LAUNCH_ACTUAL + 8);
    cell[0] = number[0];
    cell[1] = row->host;
    cell[2] = number[1];
    cell[3] = row->place->where;
    cell[4] = row->place->list;
    cell[5] = row->place->nodes;
    cell[6] = verified;
}

static void print_row(FILE *out, const char *const cell[COLUMNS], const size_t width[COLUMNS])
{
    for (int i = 0; i < COLUMNS - 1; i++)
        fprintf(out, "%-*s  ", (int)width[i], cell[i]);
    fprintf(out, "%s\n", cell[COLUMNS - 1]);
}

void mu_launch_report_print(FILE *out, const struct mu_launch_report *rows, size_t count)
{
    static const char *const head[COLUMNS] = {"TASK", "HOST", "PID", "BOUND TO", "CPUS", "NUMA", "VERIFIED"};
    const char *cell[COLUMNS];
    char number[2][16], verified[MU_LAUNCH_ACTUAL + 8];
    size_t width[COLUMNS];

    if (count > 0 && rows[0].gpus) {
        mu_launch_gpu_report_print(out, rows, count);
        return;
    }
    for (int i = 0; i < COLUMNS; i++)
        width[i] = strlen(head[i]);
    for (size_t row = 0; row < count; row++) {
        bind_cells(&rows[row], cell, number, verified);
        for (int i = 0; i < COLUMNS; i++)
            if (strlen(cell[i]) > width[i])
                width[i] = strlen(cell[i]);
    }
    print_row(out, head, width);
    for (size_t row = 0; row < count; row++) {
        bind_cells(&rows[row], cell, number, verified);
        print_row(out, cell, width);
    }
}

/* Host names, our own texts and those of drivers: nothing else than these two needs a backslash. */
void mu_launch_json_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, ",\"%s\":\"", key);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc('\\', out);
        putc((unsigned char)*text < 0x20 ? '?' : *text, out);
    }
    putc('"', out);
}

void mu_launch_report_json(FILE *out, const struct mu_launch_report *rows, size_t count)
{
    static const char *const verdicts[] = {"null", "true", "false", "null"};

    putc('[', out);
    for (size_t i = 0; i < count; i++) {
        const struct mu_launch_report *row = &rows[i];

        fprintf(out, "%s{\"task\":%u", i ? "," : "", row->task);
        mu_launch_json_text(out, "host", row->host);
        if (row->pid)
            fprintf(out, ",\"pid\":%d", (int)row->pid);
        else
            fprintf(out, ",\"pid\":null");
        fprintf(out, ",\"bound\":%s,\"shared\":%s", row->place->bound ? "true" : "false",
                row->place->shared ? "true" : "false");
        mu_launch_json_text(out, "where", row->place->where);
        mu_launch_json_text(out, "cpus", row->place->list);
        mu_launch_json_text(out, "numa", row->place->nodes);
        if (row->gpus)
            mu_launch_gpu_report_json(out, row);
        fprintf(out, ",\"verified\":%s", verdicts[row->verdict]);
        if (row->verdict == MU_LAUNCH_DIFFERS)
            mu_launch_json_text(out, "actual", row->actual);
        putc('}', out);
    }
    fputs("]\n", out);
}
