/*
 * launch/binding/gpu_report.c: what became of a plan by GPUs: what the task's process was really told, where its memory
 * comes from, and the table of --report-bindings with its GPUs.
 *
 * /proc/PID/environ is what the last exec was given, which is what CUDA reads; a wrapper that sets the variable anew is
 * seen once it has exec'ed. The policy of a process stands in the first line of its numa_maps; the rest is not read,
 * for the kernel walks all of the process's memory to write it.
 */
#include "base/process.h"
#include "launch/binding/bind_private.h"
#include "launch/binding/gpu.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOKS_MAX 5000 /* half a second; mostly one is enough */

/* ---- asking the kernel ------------------------------------------------------------------------------------------- */

/* Whether it is there, and no zombie. */
static bool has_program(pid_t pid)
{
    char path[48], exe[1];

    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return readlink(path, exe, sizeof exe) >= 0 || errno == EACCES;
}

/* Where the process's environment lies in its memory, by /proc; 0: not told. */
static unsigned long place_of_environment(const char *who)
{
    enum { BEHIND_THE_NAME = 48 /* fields; env_start is the 50th */ };
    char path[48], text[2048], *at;

    snprintf(path, sizeof path, "/proc/%s/stat", who);
    at = mu_read_file(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    for (int i = 0; at && i < BEHIND_THE_NAME; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoul(at + 1, NULL, 10) : 0;
}

/* A new process is in ours until its exec is done, and has our environment in /proc. */
static bool is_in_our_memory(pid_t pid)
{
    unsigned long ours = place_of_environment("self");
    char who[16];

    snprintf(who, sizeof who, "%d", (int)pid);
    return ours && place_of_environment(who) == ours;
}

/*
 * The process's environment, not empty; NULL: it cannot be asked. Its spawner goes on when its old memory goes, which
 * is some us before the kernel gives it the new one, and knows where its environment lies there.
 */
static FILE *open_environment(pid_t pid)
{
    const struct timespec moment = {.tv_nsec = 100000};
    char path[48];

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    for (int i = 0; i < LOOKS_MAX; i++) {
        int is_ready = !is_in_our_memory(pid); /* before it is opened: what is open stays with the old memory */
        FILE *file = fopen(path, "re");
        int c = file ? getc(file) : EOF;

        if (c != EOF && is_ready) {
            ungetc(c, file);
            return file;
        }
        if (!file)
            return NULL;
        fclose(file);
        if (!has_program(pid)) {
            errno = ESRCH;
            return NULL;
        }
        nanosleep(&moment, NULL);
    }
    return fopen(path, "re"); /* it was given none */
}

/* The process's word for the variable that `entry` sets; malloc()ed. "": it is not set. NULL: it cannot be asked. */
static char *process_told(pid_t pid, const char *entry)
{
    size_t len = strcspn(entry, "="), room = 0;
    char *line = NULL, *value = NULL;
    FILE *file = open_environment(pid);

    if (!file)
        return NULL;
    while (!value && getdelim(&line, &room, '\0', file) > 0)
        if (strncmp(line, entry, len) == 0 && line[len] == '=')
            value = strdup(line + len + 1);
    if (!value && !ferror(file))
        value = strdup("");
    free(line);
    fclose(file);
    return value;
}

/* The process's policy for new memory: "default", "prefer (many):0-1". -1: it cannot be asked. */
static int policy_of(pid_t pid, char *policy, size_t size)
{
    char path[48], line[512];
    FILE *file;
    int code = -1;

    snprintf(path, sizeof path, "/proc/%d/numa_maps", (int)pid);
    file = fopen(path, "re");
    if (!file)
        return -1;
    if (fgets(line, sizeof line, file)) { /* "55d0c0000000 prefer (many):0 file=/bin/cat mapped=2 ..." */
        char *start = line + strcspn(line, " "), *end;

        start += *start == ' ';
        end = strncmp(start, "prefer (many)", 13) == 0 ? start + 13 : start;
        snprintf(policy, size, "%.*s", (int)(end - start + (ptrdiff_t)strcspn(end, " \n")), start);
        code = 0;
    }
    fclose(file);
    return code;
}

static bool is_preferred(const char *policy, const char *list)
{
    char many[256], one[64];

    snprintf(many, sizeof many, "prefer (many):%s", list);
    snprintf(one, sizeof one, "prefer:%lu", strtoul(list, NULL, 10)); /* before 5.15 */
    return strcmp(policy, many) == 0 || strcmp(policy, one) == 0;
}

enum mu_launch_verdict mu_launch_gpu_verify(pid_t pid, const struct mu_launch_place *place, char *actual, size_t size)
{
    char policy[256];

    for (char **var = place->env; var && *var; var++) {
        const char *name = *var, *wanted = strchr(*var, '=') + 1;
        char *value = process_told(pid, name);
        int differs = value && strcmp(value, wanted) != 0;

        if (!value && errno == EACCES) {
            snprintf(actual, size, "its environment cannot be read");
            return MU_LAUNCH_DIFFERS;
        }
        if (!value)
            return MU_LAUNCH_GONE;
        if (differs)
            snprintf(actual, size, "%.*s=%.100s", (int)(wanted - name - 1), name, value);
        free(value);
        if (differs)
            return MU_LAUNCH_DIFFERS;
    }
    if (place->memory_list && policy_of(pid, policy, sizeof policy) == 0 && !is_preferred(policy, place->memory_list)) {
        snprintf(actual, size, "memory: %.100s", policy);
        return MU_LAUNCH_DIFFERS;
    }
    return MU_LAUNCH_HOLDS;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define COLUMNS 12

struct texts {
    char task[16], pid[16], at[16], link[24], name[96], verified[MU_LAUNCH_ACTUAL + 8];
};

static const struct mu_launch_gpu *gpu_of(const struct mu_launch_report *row, size_t n)
{
    return &row->gpus->list[row->place->gpus[n]];
}

static void number_text(int32_t number, char *text, size_t size)
{
    if (number < 0)
        snprintf(text, size, "?");
    else
        snprintf(text, size, "%d", (int)number);
}

/* The cells of the row's n-th GPU; what holds for the whole task stands in its first line only. */
static void gpu_cells(const struct mu_launch_report *row, size_t n, struct texts *t, const char *cell[COLUMNS])
{
    const struct muster_device *device = gpu_of(row, n)->device;
    const struct mu_launch_place *place = row->place;

    for (int i = 0; i < COLUMNS; i++)
        cell[i] = "";
    snprintf(t->name, sizeof t->name, "%.60s%s%.24s%s", *device->name ? device->name : device->vendor,
             *device->part_profile ? " " : "", strstr(device->name, " MIG ") ? "" : device->part_profile,
             place->shares_gpus ? " (shared)" : "");
    number_text(device->numa_node, t->at, sizeof t->at);
    cell[7] = t->name;
    cell[8] = device->pci;
    cell[9] = t->at;
    if (n > 0)
        return;
    snprintf(t->task, sizeof t->task, "%u", row->task);
    snprintf(t->pid, sizeof t->pid, row->pid ? "%d" : "-", (int)row->pid);
    mu_launch_verdict_words(row, t->verified, sizeof t->verified);
    cell[0] = t->task;
    cell[1] = row->host;
    cell[2] = t->pid;
    cell[3] = place->where;
    cell[4] = place->list;
    cell[5] = place->nodes;
    cell[6] = place->memory_list ? place->memory_list : "any";
    cell[10] = place->num_gpus > 1 ? muster_link_name(place->link, t->link, sizeof t->link) : "-";
    cell[11] = t->verified;
}

static void print_line(FILE *out, const char *const cell[COLUMNS], const size_t width[COLUMNS])
{
    int last = COLUMNS - 1;

    while (last > 0 && !*cell[last])
        last--;
    for (int i = 0; i < last; i++)
        fprintf(out, "%-*s  ", (int)width[i], cell[i]);
    fprintf(out, "%s\n", cell[last]);
}

void mu_launch_gpu_report_print(FILE *out, const struct mu_launch_report *rows, size_t count)
{
    static const char *const head[COLUMNS] = {"TASK",   "HOST", "PID", "BOUND TO", "CPUS", "NUMA",
                                              "MEMORY", "GPU",  "PCI", "AT NUMA",  "LINK", "VERIFIED"};
    const char *cell[COLUMNS];
    size_t width[COLUMNS];
    struct texts texts;

    for (int i = 0; i < COLUMNS; i++)
        width[i] = strlen(head[i]);
    for (int print = 0; print < 2; print++) {
        if (print)
            print_line(out, head, width);
        for (size_t row = 0; row < count; row++)
            for (size_t n = 0; n < rows[row].place->num_gpus; n++) {
                gpu_cells(&rows[row], n, &texts, cell);
                for (int i = 0; i < COLUMNS && !print; i++)
                    if (strlen(cell[i]) > width[i])
                        width[i] = strlen(cell[i]);
                if (print)
                    print_line(out, cell, width);
            }
    }
}

void mu_launch_gpu_report_json(FILE *out, const struct mu_launch_report *row)
{
    char link[24];

    fputs(",\"memory\":", out);
    if (row->place->memory_list)
        fprintf(out, "\"%s\"", row->place->memory_list);
    else
        fputs("null", out);
    fprintf(out, ",\"gpus_shared\":%s,\"gpus\":[", row->place->shares_gpus ? "true" : "false");
    for (size_t n = 0; n < row->place->num_gpus; n++) {
        const struct muster_device *device = gpu_of(row, n)->device;

        fprintf(out, "%s{\"index\":%d", n ? "," : "", (int)device->index);
        mu_launch_json_text(out, "uuid", device->uuid);
        mu_launch_json_text(out, "pci", device->pci);
        mu_launch_json_text(out, "name", device->name);
        if (*device->part_profile)
            mu_launch_json_text(out, "part", device->part_profile);
        if (device->numa_node >= 0)
            fprintf(out, ",\"numa\":%d}", (int)device->numa_node);
        else
            fputs(",\"numa\":null}", out);
    }
    putc(']', out);
    if (row->place->num_gpus > 1)
        mu_launch_json_text(out, "link", muster_link_name(row->place->link, link, sizeof link));
    mu_launch_json_text(out, "visible", strchr(row->place->env[0], '=') + 1);
}

/* ---- a dry run --------------------------------------------------------------------------------------------------- */

void mu_launch_gpu_print(const struct mu_launch_plan *plan, uint32_t task, FILE *out)
{
    const struct mu_launch_place *place = mu_launch_plan_place(plan, task);

    for (size_t n = 0; plan->gpus && n < place->num_gpus; n++) {
        const struct muster_device *device = plan->gpus->list[place->gpus[n]].device;
        char at[16], part[40] = "";

        number_text(device->numa_node, at, sizeof at);
        if (*device->part_profile)
            snprintf(part, sizeof part, " %.32s", device->part_profile);
        fprintf(out, "    on GPU %s%s%s: %s, NUMA %s\n", device->pci, *device->uuid ? " " : "", device->uuid,
                *device->name ? device->name : device->vendor, at);
        if (*part && !strstr(device->name, " MIG "))
            fprintf(out, "        part%s\n", part);
    }
    if (plan->gpus && place->memory_list)
        fprintf(out, "    with memory of NUMA %s preferred\n", place->memory_list);
}
