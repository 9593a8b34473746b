/*
 * launch/binding/gpu.c: which GPUs a job may use.
 *
 * The topology tells of them; the variables that hide some from this process are obeyed here, so that what is given to
 * the tasks is what a program started without us would see. MUSTER_GPUS is such a variable as well, when we are
 * ourselves a task of a job.
 */
#include "launch/binding/gpu.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "topology/node.h"

/* ---- a quick look ------------------------------------------------------------------------------------------------ */

/* A number in a file of one line; 0: there is none. */
static uint32_t read_hex(const char *folder, const char *device, const char *name)
{
    char path[PATH_MAX], line[32];
    uint32_t value = 0;
    FILE *file;

    if (snprintf(path, sizeof path, "%s/%s/%s", folder, device, name) >= (int)sizeof path)
        return 0;
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fgets(line, sizeof line, file))
        value = (uint32_t)strtoul(line, NULL, 16);
    fclose(file);
    return value;
}

static bool is_gpu(const char *folder, const char *device)
{
    uint32_t class = read_hex(folder, device, "class") >> 8;
    enum mu_pci_kind kind;
    struct mu_pci pci;

    if (mu_pci_parse(device, &pci))
        return 0;
    kind = mu_pci_kind(&pci, read_hex(folder, device, "vendor"), class);
    return kind == MU_PCI_ACCELERATOR || kind == MU_PCI_PERHAPS;
}

/* Entries of the folder; of those on a PCI bus, the GPUs. -1: there is no such folder. */
static int count_entries(const char *root, const char *below, int are_pci)
{
    char folder[PATH_MAX];
    struct dirent *entry;
    int count = 0;
    DIR *dir;

    if (snprintf(folder, sizeof folder, "%s%s", root, below) >= (int)sizeof folder || !(dir = opendir(folder)))
        return -1;
    while ((entry = readdir(dir)))
        count += entry->d_name[0] != '.' && (!are_pci || is_gpu(folder, entry->d_name));
    closedir(dir);
    return count;
}

uint32_t mu_launch_gpus_seen(const char *root)
{
    int driven = count_entries(root, "/proc/driver/nvidia/gpus", 0);
    int on_bus = count_entries(root, "/sys/bus/pci/devices", 1);

    if (driven > 0)
        return (uint32_t)driven;
    return on_bus > 0 ? (uint32_t)on_bus : 0;
}

/* ---- the GPUs of one maker --------------------------------------------------------------------------------------- */

static uint32_t vendor_of(const struct muster_topology *topology, const struct muster_device *device)
{
    return device->kind == MUSTER_DEVICE_GPU_PART ? muster_topology_device(topology, (size_t)device->parent)->pci_vendor
                                                  : device->pci_vendor;
}

static bool is_whole(const struct muster_topology *topology, size_t place, uint32_t vendor)
{
    const struct muster_device *device = muster_topology_device(topology, place);

    return device->kind == MUSTER_DEVICE_GPU && vendor_of(topology, device) == vendor;
}

static bool is_driven(const struct muster_device *device)
{
    return (device->sources & (MUSTER_SOURCE_NVML | MUSTER_SOURCE_NVIDIA_PROC | MUSTER_SOURCE_KFD)) != 0;
}

/* ROCm numbers GPUs as the kernel's driver does, which is how render nodes are numbered. */
static bool has_minors(const struct mu_launch_seen *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        if (muster_topology_device(seen->topology, seen->list[i])->minor < 0)
            return 0;
    return 1;
}

static int compare_minors(const void *a, const void *b, void *topology)
{
    return muster_topology_device(topology, *(const size_t *)a)->minor -
           muster_topology_device(topology, *(const size_t *)b)->minor;
}

static bool is_lost(const struct muster_topology *topology, const struct mu_launch_seen *seen, size_t at)
{
    return muster_topology_device(topology, seen->list[at])->health < 0;
}

/* Nobody can compute on those that do not answer any more. Said, for CUDA's numbers may be others then. */
static void leave_out_lost(struct mu_launch_gpus *gpus, struct mu_launch_seen *seen)
{
    size_t kept = 0;

    for (size_t i = 0; i < seen->count; i++)
        if (is_lost(gpus->topology, seen, i))
            mu_launch_note(&gpus->notes, "GPU %s is lost and is not given out: see 'muster doctor' and 'nvidia-smi'",
                           muster_topology_device(gpus->topology, seen->list[i])->pci);
        else
            seen->list[kept++] = seen->list[i];
    seen->count = kept;
}

/* The maker's GPUs, as it numbers them; those that its driver tells of, if it does of any. */
static int see_all(struct muster_topology *topology, uint32_t vendor, struct mu_launch_seen *seen)
{
    size_t count = muster_topology_num_devices(topology);
    int any_driven = 0;

    *seen = (struct mu_launch_seen){.topology = topology, .list = calloc(count + 1, sizeof *seen->list)};
    if (!seen->list)
        return -1;
    for (size_t i = 0; i < count; i++)
        any_driven |= is_whole(topology, i, vendor) && is_driven(muster_topology_device(topology, i));
    for (size_t i = 0; i < count; i++)
        if (is_whole(topology, i, vendor) && (!any_driven || is_driven(muster_topology_device(topology, i))))
            seen->list[seen->count++] = i;
    if (vendor != mu_launch_makers[0].vendor && has_minors(seen))
        qsort_r(seen->list, seen->count, sizeof *seen->list, compare_minors, topology);
    return 0;
}

/* ---- what is hidden ---------------------------------------------------------------------------------------------- */

static const char *environment_value(char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

static bool are_alike(const struct mu_launch_seen *seen)
{
    for (size_t i = 1; i < seen->count; i++) {
        const struct muster_device *one = muster_topology_device(seen->topology, seen->list[0]);
        const struct muster_device *other = muster_topology_device(seen->topology, seen->list[i]);

        if (one->pci_device != other->pci_device || strcmp(one->name, other->name) != 0)
            return 0;
    }
    return 1;
}

/* CUDA's numbers begin with the fastest, unless it is told otherwise. */
static bool is_order_known(const struct mu_launch_seen *all, char *const *env)
{
    const char *order = environment_value(env, "CUDA_DEVICE_ORDER");

    return all->count == 0 || is_whole(all->topology, all->list[0], mu_launch_makers[1].vendor) || are_alike(all) ||
           (order && strcmp(order, "PCI_BUS_ID") == 0);
}

static int hide_by(struct mu_launch_gpus *gpus, const char *name, char *const *env, struct mu_launch_seen *seen)
{
    const char *text = environment_value(env, name);
    int is_known = is_order_known(seen, env);
    size_t length = strlen(gpus->hider);
    struct mu_launch_visible visible;

    snprintf(gpus->hider + length, sizeof gpus->hider - length, "%s%s='%.80s'", length ? " and " : "", name, text);
    mu_launch_plain(gpus->hider);
    if (mu_launch_visible(text, seen, &visible))
        return -1;
    if (visible.odd && seen->count > 0)
        mu_launch_note(&gpus->notes, "%s='%.60s' ends before '%.*s', which names no GPU more here: %zu left", name,
                       text, (int)(strcspn(visible.odd, ",") < 60 ? strcspn(visible.odd, ",") : 60), visible.odd,
                       seen->count);
    if (visible.again)
        mu_launch_note(&gpus->notes, "%s='%.60s' names '%.*s' twice, and so shows no GPU at all", name, text,
                       (int)(strcspn(visible.again, ", ") < 60 ? strcspn(visible.again, ", ") : 60), visible.again);
    if (visible.by_number && !is_known)
        mu_launch_note(&gpus->notes,
                       "the GPUs here are not alike, so the numbers in %s may be others for CUDA than by PCI address, "
                       "as they are read here; CUDA_DEVICE_ORDER=PCI_BUS_ID makes them the same, and UUIDs are certain",
                       name);
    return 0;
}

/* All parts of those that are divided: nothing was asked for. */
static int parts_divide(struct mu_launch_seen *seen)
{
    size_t devices = muster_topology_num_devices(seen->topology), count = 0;
    size_t *list = calloc(devices + 1, sizeof *list);

    if (!list)
        return -1;
    for (size_t i = 0; i < seen->count; i++) {
        if (mu_launch_first_part(seen->topology, seen->list[i]) == seen->list[i])
            list[count++] = seen->list[i];
        for (size_t j = 0; j < devices; j++)
            if (muster_topology_device(seen->topology, j)->kind == MUSTER_DEVICE_GPU_PART &&
                muster_topology_device(seen->topology, j)->parent == (int32_t)seen->list[i])
                list[count++] = j;
    }
    free(seen->list);
    seen->list = list;
    seen->count = count;
    return 0;
}

static int gpus_hide(struct mu_launch_gpus *gpus, char *const *env, struct mu_launch_seen *seen)
{
    int hidden = 0;

    for (int stage = 0; stage < MU_LAUNCH_STAGES; stage++)
        for (const char *const *name = gpus->maker->stages[stage]; *name; name++)
            if (environment_value(env, *name)) {
                if (hide_by(gpus, *name, env, seen))
                    return -1;
                hidden = 1;
                break;
            }
    if (!hidden && parts_divide(seen))
        return -1;
    if (environment_value(env, "MUSTER_RUN_ID") && environment_value(env, "MUSTER_GPUS"))
        return hide_by(gpus, "MUSTER_GPUS", env, seen);
    return 0;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

/* Two that share a name have none: parts of an AMD GPU have the whole's. */
static bool has_name(const struct mu_launch_gpus *gpus, size_t gpu)
{
    const char *uuid = gpus->list[gpu].device->uuid;

    for (size_t i = 0; i < gpus->count; i++)
        if (i != gpu && strcmp(gpus->list[i].device->uuid, uuid) == 0)
            return 0;
    return *uuid != '\0';
}

static int gpus_fill(struct mu_launch_gpus *gpus, const struct mu_launch_seen *all, const struct mu_launch_seen *seen)
{
    gpus->list = calloc(seen->count + 1, sizeof *gpus->list);
    if (!gpus->list)
        return -1;
    gpus->count = seen->count;
    for (size_t i = 0; i < seen->count; i++) {
        struct mu_launch_gpu *gpu = &gpus->list[i];

        gpu->place = seen->list[i];
        gpu->device = muster_topology_device(gpus->topology, gpu->place);
        gpu->id = *gpu->device->uuid ? gpu->device->uuid : gpu->device->pci;
        gpus->has_parts |= gpu->device->kind == MUSTER_DEVICE_GPU_PART;
        for (size_t n = 0; n < all->count; n++)
            if (all->list[n] == gpu->place)
                snprintf(gpu->number, sizeof gpu->number, "%zu", n);
    }
    for (size_t i = 0; i < gpus->count; i++)
        gpus->by_number |= !has_name(gpus, i);
    return 0;
}

static int gpus_take(struct mu_launch_gpus *gpus, char *const *env)
{
    struct mu_launch_seen all = {.list = NULL}, seen = {.list = NULL};
    const struct mu_launch_maker *maker = mu_launch_makers;
    int code = 0;

    for (; maker->vendor && code == 0; maker++) {
        struct mu_launch_seen these;

        code = see_all(gpus->topology, maker->vendor, &these);
        if (code == 0 && these.count > 0 && gpus->maker)
            mu_launch_note(&gpus->notes, "%zu GPU%s of %s %s left out: tasks are given those of %s", these.count,
                           these.count == 1 ? "" : "s", maker->name, these.count == 1 ? "is" : "are",
                           gpus->maker->name);
        if (code == 0 && these.count > 0 && !gpus->maker) {
            gpus->maker = maker;
            gpus->num_there = these.count;
            all = these;
        } else {
            free(these.list);
        }
    }
    if (code == 0 && gpus->maker)
        code = see_all(gpus->topology, gpus->maker->vendor, &seen) || gpus_hide(gpus, env, &seen);
    if (code == 0 && gpus->maker) {
        leave_out_lost(gpus, &seen);
        code = gpus_fill(gpus, &all, &seen);
    }
    if (code == 0 && gpus->topology->num_lost)
        mu_launch_note(&gpus->notes, "%u GPU%s more %s lost and %s not given out: see 'muster doctor' and 'nvidia-smi'",
                       gpus->topology->num_lost, gpus->topology->num_lost == 1 ? "" : "s",
                       gpus->topology->num_lost == 1 ? "is" : "are", gpus->topology->num_lost == 1 ? "is" : "are");
    free(all.list);
    free(seen.list);
    return code ? -1 : 0;
}

int mu_launch_gpus_of(struct muster_topology *topology, char *const *env, struct mu_launch_gpus **ret_gpus, char *why,
                      size_t size)
{
    struct mu_launch_gpus *gpus = calloc(1, sizeof *gpus);

    if (!gpus)
        muster_topology_free(topology);
    else
        gpus->topology = topology;
    if (!gpus || gpus_take(gpus, env)) {
        mu_launch_gpus_free(gpus);
        snprintf(why, size, "out of memory");
        return -1;
    }
    *ret_gpus = gpus;
    return 0;
}

int mu_launch_gpus_load(const struct muster_topology_source *source, char *const *env, struct mu_launch_gpus **ret_gpus,
                        char *why, size_t size)
{
    struct muster_topology *topology;
    const char *foreign;

    if (muster_topology_load(source, &topology) != MUSTER_OK) {
        snprintf(why, size, "%s", muster_last_error());
        return -1;
    }
    foreign = source || topology->is_this_machine ? NULL : mu_hwloc_foreign();
    if (mu_launch_gpus_of(topology, env, ret_gpus, why, size))
        return -1;
    (*ret_gpus)->foreign = foreign;
    return 0;
}

void mu_launch_gpus_free(struct mu_launch_gpus *gpus)
{
    if (!gpus)
        return;
    muster_topology_free(gpus->topology);
    free(gpus->list);
    free(gpus);
}

void mu_launch_gpus_lack(const struct mu_launch_gpus *gpus, char *why, size_t size)
{
    if (gpus->maker && *gpus->hider)
        snprintf(why, size, "%s leaves no GPU of %zu", gpus->hider, gpus->num_there);
    else if (gpus->maker)
        snprintf(why, size, "of %zu GPU%s here none answers: see 'muster doctor' and 'nvidia-smi'", gpus->num_there,
                 gpus->num_there == 1 ? "" : "s");
    else if (gpus->topology->num_lost)
        snprintf(why, size, "of %u GPU%s here none answers: see 'muster doctor' and 'nvidia-smi'",
                 gpus->topology->num_lost, gpus->topology->num_lost == 1 ? "" : "s");
    else
        snprintf(why, size, "there is no GPU of NVIDIA or AMD here");
}

const char *mu_launch_gpu_name(const struct mu_launch_gpus *gpus, size_t gpu)
{
    const struct mu_launch_gpu *it = &gpus->list[gpu];

    return gpus->by_number && *it->number ? it->number : it->device->uuid;
}
