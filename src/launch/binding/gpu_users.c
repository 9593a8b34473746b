/*
 * launch/binding/gpu_users.c: GPUs that another job of ours is using.
 *
 * Nothing on the machine keeps two jobs from taking the same GPUs. What their tasks were given stands in the tasks'
 * environments, which the kernel shows to their own user: so this is the truth about our own jobs, as of now, and
 * nothing about others'. NVML would tell of all users' processes on a GPU, but not which of them are tasks, and a
 * display server on it is no fault.
 */
#include "launch/binding/gpu.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENVIRONMENT_MAX (4u << 20) /* the kernel has no larger ones, unless its stack's limit was raised */

struct other {
    pid_t pid;
    char *text; /* its environment */
    size_t size;
};

/* All of a process's environment, if it is ours and may be read. */
static int read_environment(const char *pid, struct other *other)
{
    char path[64];
    struct stat status;
    ssize_t n = 1;
    int fd;

    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    other->size = 0;
    other->pid = (pid_t)strtol(pid, NULL, 10);
    if (fd < 0 || fstat(fd, &status) || status.st_uid != geteuid())
        n = 0;
    while (n > 0 && other->size < ENVIRONMENT_MAX) {
        n = read(fd, other->text + other->size, ENVIRONMENT_MAX - other->size);
        other->size += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    other->text[other->size] = '\0';
    return other->size > 0;
}

static const char *other_value(const struct other *other, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = other->text; at < other->text + other->size; at += strlen(at) + 1)
        if (strncmp(at, name, len) == 0 && at[len] == '=')
            return at + len + 1;
    return NULL;
}

/* Whether the list holds the word. */
static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (; *list; list += *list == ',')
        if (strncmp(list, word, len) == 0 && (list[len] == ',' || !list[len]))
            return 1;
        else
            list += strcspn(list, ",");
    return 0;
}

/* A GPU of the plan that the process was given; NULL: none. */
static const struct mu_launch_gpu *common_gpu(const struct mu_launch_plan *plan, const char *list)
{
    for (uint32_t i = 0; i < plan->num_places; i++)
        for (size_t n = 0; n < plan->places[i].num_gpus; n++) {
            const struct mu_launch_gpu *gpu = &plan->gpus->list[plan->places[i].gpus[n]];

            if (*gpu->id && list_has(list, gpu->id))
                return gpu;
        }
    return NULL;
}

static void other_say(const struct other *other, const struct mu_launch_gpu *gpu, struct mu_launch_notes *notes)
{
    const char *job = other_value(other, "MUSTER_JOB"), *task = other_value(other, "MUSTER_TASK_ID");

    mu_launch_note(notes, "GPU %.48s%s%.16s%s has been given to task %.12s of job %.80s (pid %d) as well",
                   *gpu->device->uuid ? gpu->device->uuid : gpu->device->pci, *gpu->device->uuid ? " (" : "",
                   *gpu->device->uuid ? gpu->device->pci : "", *gpu->device->uuid ? ")" : "", task ? task : "?",
                   job ? job : "?", (int)other->pid);
}

/* Of a job the first such process is enough: the others of it mostly are its children or its peers. */
void mu_launch_gpu_users(const struct mu_launch_plan *plan, const char *run_id, struct mu_launch_notes *notes)
{
    struct other other = {.text = malloc(ENVIRONMENT_MAX + 1)};
    DIR *folder = other.text ? opendir("/proc") : NULL;
    struct dirent *entry;
    char last[64] = "";

    while (folder && (entry = readdir(folder))) {
        const struct mu_launch_gpu *gpu;
        const char *id, *list;

        if (!isdigit((unsigned char)entry->d_name[0]) || !read_environment(entry->d_name, &other))
            continue;
        id = other_value(&other, "MUSTER_RUN_ID");
        list = other_value(&other, "MUSTER_GPUS");
        if (!id || !list || (run_id && strcmp(id, run_id) == 0) || strcmp(id, last) == 0)
            continue;
        gpu = common_gpu(plan, list);
        if (!gpu)
            continue;
        snprintf(last, sizeof last, "%s", id);
        other_say(&other, gpu, notes);
    }
    if (folder)
        closedir(folder);
    free(other.text);
}
