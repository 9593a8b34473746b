/*
 * cli/topo/ranks.c: where the tasks of a job are: the processors that the kernel says each may use, and the GPUs that
 * the environment of its process leaves it.
 *
 * The environment is the one that the process was started with; what a program has made of it since is not seen. Ids
 * are understood as CUDA and ROCm do: numbers in the order of the driver where it was asked for it, else by PCI
 * address; beginnings of UUIDs; the first that is none of these ends the list.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpus.h"
#include "cli/topo/topo.h"
#include "segment/handle.h"
#include "task/task.h"

enum { ENVIRONMENT_MAX = 4 << 20 };

/* ---- its processors --------------------------------------------------------------------------------------------- */

/* What is no list is empty: a machine's file may say anything. */
static cpu_set_t *set_of(const char *list, size_t size)
{
    cpu_set_t *set = mu_cpus_new(size);

    if (!set)
        abort();
    if (mu_cpus_parse(list, set, size) < 0)
        CPU_ZERO_S(size, set);
    return set;
}

/* The outermost of the smallest boxes around the processors; those below a box are within it, so the walk goes down. */
static int32_t rank_place(const struct mu_cli_topo *topo, const char *cpus)
{
    size_t size = CPU_ALLOC_SIZE(MU_CPUS_MAX / 64);
    cpu_set_t *wanted = set_of(cpus, size), *both = mu_cpus_new(size), *set;
    int32_t found = 0, at = topo->num_boxes ? topo->boxes[0].first : -1;
    int least = -1;

    if (!both)
        abort();
    while (at >= 0 && CPU_COUNT_S(size, wanted)) {
        set = set_of(topo->boxes[at].cpus, size);
        CPU_AND_S(size, both, wanted, set);
        if (!CPU_EQUAL_S(size, both, wanted)) {
            at = topo->boxes[at].next;
        } else {
            if (least < 0 ? topo->boxes[at].processors < topo->boxes[0].processors : CPU_COUNT_S(size, set) < least)
                found = at;
            least = CPU_COUNT_S(size, set);
            at = topo->boxes[at].first;
        }
        CPU_FREE(set);
    }
    CPU_FREE(wanted);
    CPU_FREE(both);
    return found;
}

/* ---- its GPUs ---------------------------------------------------------------------------------------------------- */

/* All of a file of /proc, with a NUL behind it; NULL: errno. */
static char *read_all(const char *path, size_t *ret_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = 0, room = 1 << 14;
    char *text = fd < 0 ? NULL : malloc(room);
    ssize_t got = 0;

    while (text && size < ENVIRONMENT_MAX && (got = read(fd, text + size, room - size - 1)) > 0) {
        size += (size_t)got;
        if (size + 1 == room) {
            text = realloc(text, room *= 2);
            if (!text)
                abort();
        }
    }
    if (fd >= 0)
        close(fd);
    if (text && got < 0) {
        free(text);
        return NULL;
    }
    if (text)
        text[size] = 0;
    *ret_size = size;
    return text;
}

static const char *value_of(const char *environment, size_t size, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = environment; at < environment + size; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    return NULL;
}

static bool is_of(const struct muster_device *device, int is_amd)
{
    return device->kind != MUSTER_DEVICE_CPU && (device->pci_vendor == 0x1002) == is_amd;
}

/* The device that a word of such a list names; -1: none. */
static int32_t device_named(const struct mu_cli_topo *topo, const char *word, size_t length, int is_amd)
{
    long number = 0, seen = 0;
    int32_t found = -1;
    char *end;

    if (length && isdigit((unsigned char)*word)) {
        number = strtol(word, &end, 10);
        if (end != word + length)
            return -1;
    } else if (length < 5) {
        return -1;
    }
    for (size_t i = 0; i < topo->num_devices; i++) {
        const struct muster_device *device = muster_topology_device(topo->topology, i);

        if (!is_of(device, is_amd))
            continue;
        if (!isdigit((unsigned char)*word)) {
            if (strncasecmp(device->uuid, word, length) != 0)
                continue;
            if (found >= 0) /* a beginning that several have */
                return -1;
            found = (int32_t)i;
        } else if (device->kind == MUSTER_DEVICE_GPU &&
                   (device->cuda_ordinal >= 0 ? device->cuda_ordinal : seen++) == number) {
            return (int32_t)i;
        }
    }
    return found;
}

static void rank_devices_see(const struct mu_cli_topo *topo, struct mu_cli_rank *rank, const char *list, int is_amd)
{
    rank->is_restricted = 1;
    for (;;) {
        size_t length = strcspn(list, ","), skip = strspn(list, " \t");
        int32_t device = skip < length ? device_named(topo, list + skip, length - skip, is_amd) : -1;

        for (size_t i = 0; i < rank->num_devices; i++)
            if (rank->devices[i] == device)
                device = -1;
        if (device < 0 || rank->num_devices == topo->num_devices)
            return;
        rank->devices[rank->num_devices++] = device;
        if (!list[length])
            return;
        list += length + 1;
    }
}

static void look_for_gpus(const struct mu_cli_topo *topo, struct mu_cli_rank *rank)
{
    const char *cuda, *amd, *own;
    char path[32], *environment;
    size_t size;

    rank->devices = calloc(topo->num_devices + 1, sizeof *rank->devices);
    if (!rank->devices)
        abort();
    snprintf(path, sizeof path, "/proc/%u/environ", rank->pid);
    environment = read_all(path, &size);
    if (!environment) {
        rank->unknown = "its environment cannot be read";
        return;
    }
    own = value_of(environment, size, "MUSTER_GPUS"); /* the launcher's word: it may let all tasks see all GPUs */
    if (own && !isalpha((unsigned char)*own))         /* PCI addresses: their UUIDs were not known */
        own = NULL;
    cuda = own ? own : value_of(environment, size, "CUDA_VISIBLE_DEVICES");
    amd = own ? own : value_of(environment, size, "ROCR_VISIBLE_DEVICES");
    if (!amd)
        amd = value_of(environment, size, "HIP_VISIBLE_DEVICES");
    if (cuda)
        rank_devices_see(topo, rank, cuda, 0);
    if (amd)
        rank_devices_see(topo, rank, amd, 1);
    free(environment);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void rank_look_at(const struct mu_cli_topo *topo, struct mu_cli_rank *rank, const struct muster_task_info *info,
                         bool unjoined)
{
    char path[64], host[64] = "";

    *rank = (struct mu_cli_rank){.task = info->task_id, .pid = info->pid, .box = -1};
    gethostname(host, sizeof host - 1);
    if (!info->alive || !info->pid) {
        rank->pid = info->ended ? 0 : info->pid; /* the number may be another process's by now */
        rank->unknown = info->ended ? "its process has ended" : info->attempt ? "it does not run" : "it has not joined";
        return;
    }
    if (!unjoined && strcmp(host, info->host) != 0) {
        rank->unknown = "it runs on another host";
        return;
    }
    snprintf(path, sizeof path, "/proc/%u/status", info->pid);
    rank->cpus = mu_cpus_of(path);
    if (!rank->cpus) {
        rank->unknown = "its process is not to be seen from here";
        return;
    }
    rank->box = rank_place(topo, rank->cpus);
    look_for_gpus(topo, rank);
}

int mu_cli_topo_ranks(struct mu_cli_call *call, struct mu_cli_topo *topo)
{
    struct muster *muster;
    struct muster_task_info *infos;
    enum muster_status status;
    uint64_t *starts;
    bool *unjoined;
    size_t count;
    int code = mu_cli_join(call, MUSTER_JOIN_READ_ONLY, -1, &muster);

    if (code)
        return code;
    count = muster_num_tasks(muster);
    topo->ranks = calloc(count + 1, sizeof *topo->ranks);
    infos = calloc(count + 1, sizeof *infos);
    starts = calloc(count + 1, sizeof *starts);
    unjoined = calloc(count + 1, sizeof *unjoined);
    if (!topo->ranks || !infos || !starts || !unjoined)
        abort();
    status = mu_task_run(muster, 0, (uint32_t)count, infos, starts);
    if (status == MUSTER_OK)
        mu_cli_find_unjoined(muster_segment_of(muster), infos, starts, count, unjoined);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        rank_look_at(topo, &topo->ranks[i], &infos[i], unjoined[i]);
    free(unjoined);
    free(starts);
    topo->num_ranks = count;
    topo->job = call->values[MU_OPT_JOB];
    free(infos);
    return mu_cli_leave(call, muster, status == MUSTER_OK ? 0 : mu_cli_fail(call, status));
}

void mu_cli_topo_ranks_free(struct mu_cli_topo *topo)
{
    for (size_t i = 0; i < topo->num_ranks; i++) {
        free(topo->ranks[i].cpus);
        free(topo->ranks[i].devices);
    }
    free(topo->ranks);
}

static bool is_at(const struct mu_cli_topo *topo, const struct mu_cli_rank *rank, int32_t box, int32_t device,
                  int with_cores)
{
    for (size_t i = 0; device >= 0 && i < rank->num_devices; i++)
        if (rank->devices[i] == device)
            return 1;
    if (rank->box < 0 || box < 0)
        return 0;
    return rank->box == box ||
           (with_cores && topo->boxes[rank->box].kind == MU_BOX_CORE && topo->boxes[rank->box].parent == box);
}

char *mu_cli_topo_ranks_at(const struct mu_cli_topo *topo, int32_t box, int32_t device, int with_cores, const char *one,
                           const char *many)
{
    char *text = NULL, *list = NULL;
    size_t size, list_size, found = 0;
    FILE *out, *all;

    if (topo->num_ranks == 0) { /* as for most pictures, of many boxes */
        text = strdup("");
        if (!text)
            abort();
        return text;
    }
    out = open_memstream(&list, &list_size);
    if (!out)
        abort();
    for (size_t i = 0, end; i < topo->num_ranks; i = end) { /* tasks are by number */
        for (end = i; end < topo->num_ranks && is_at(topo, &topo->ranks[end], box, device, with_cores); end++)
            found++;
        if (end == i)
            end++;
        else if (end - i == 1)
            fprintf(out, "%s%d", found > 1 ? "," : "", (int)topo->ranks[i].task);
        else
            fprintf(out, "%s%d-%d", found > end - i ? "," : "", (int)topo->ranks[i].task,
                    (int)topo->ranks[end - 1].task);
    }
    fclose(out);
    all = open_memstream(&text, &size);
    if (!all || !list)
        abort();
    fprintf(all, "%s%s", found == 0 ? "" : found == 1 ? one : many, list);
    fclose(all);
    free(list);
    return text;
}
