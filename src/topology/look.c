/*
 * topology/look.c: the table of providers, and what is done when all have told.
 *
 * The order of the table is an order of trust in reverse: a better source comes later and writes over, except that
 * hwloc knows best where a GPU lies. A machine in a file or in words is known to hwloc alone; the files of /sys and
 * /proc may be those of a machine below another root; drivers tell only of this one.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "base/error.h"
#include "base/process.h"
#include "topology/node.h"

static const struct mu_provider providers[] = {
    {"hwloc", MU_REACH_ANY, mu_provider_hwloc},
    {"sysfs", MU_REACH_FILES, mu_provider_sysfs},
    {"KFD", MU_REACH_FILES, mu_provider_kfd},
    {"NVML", MU_REACH_ANY, mu_provider_nvml}, /* with a library that is named for it; else here alone */
    {"CUDA", MU_REACH_HERE, mu_provider_cuda},
};

/* ---- order ------------------------------------------------------------------------------------------------------- */

static int compare_values(int32_t a, int32_t b)
{
    return a < b ? -1 : a > b;
}

/* By PCI address, then those without one as they came; parts behind their GPU. */
static int devices_compare(const struct muster_topology *node, int32_t a, int32_t b)
{
    const struct muster_device *one = &node->devices[a], *other = &node->devices[b];
    int32_t first = one->parent >= 0 ? one->parent : a, second = other->parent >= 0 ? other->parent : b;
    int has_one = *node->devices[first].pci != '\0', has_other = *node->devices[second].pci != '\0', order = 0;

    if (first != second) {
        if (has_one != has_other)
            return has_one ? -1 : 1;
        if (has_one)
            order = mu_pci_compare(&node->wheres[first].pci, &node->wheres[second].pci);
        return order ? order : compare_values(first, second);
    }
    if (one->parent < 0 || other->parent < 0)
        return compare_values(one->parent, other->parent);
    order = compare_values(one->gpu_instance, other->gpu_instance);
    if (!order)
        order = compare_values(one->compute_instance, other->compute_instance);
    return order ? order : compare_values(a, b);
}

static void sort_devices(struct muster_topology *node)
{
    size_t count = node->num_devices;
    int32_t *order = malloc((count + 1) * sizeof *order);

    if (!order) {
        node->failed = 1;
        return;
    }
    for (size_t i = 0; i < count; i++) { /* nearly sorted as it comes, and short */
        size_t at = i;

        for (; at > 0 && devices_compare(node, (int32_t)i, order[at - 1]) < 0; at--)
            order[at] = order[at - 1];
        order[at] = (int32_t)i;
    }
    mu_node_reorder(node, order, count);
    free(order);
}

/* ---- processors as devices --------------------------------------------------------------------------------------- */

static void node_add_processors(struct muster_topology *node)
{
    for (size_t i = 0; i < node->num_packages; i++) {
        const struct mu_package *package = &node->packages[i];
        struct muster_device *device;

        if (!*package->cpus && package->number >= 0) /* memory alone, or all its processors are off */
            continue;
        device = mu_node_add_device(node, MUSTER_DEVICE_CPU, NULL);
        if (!device)
            return;
        device->package = package->number;
        device->numa_node = package->numa_node;
        device->core_count = package->core_count;
        device->memory_bytes = package->memory_bytes;
        device->name = package->name;
        device->vendor = package->vendor;
        device->cpus = package->cpus;
        device->sources = package->sources;
    }
}

/* ---- where a device lies ----------------------------------------------------------------------------------------- */

/* What of the list is in the set; "" when that is nothing. */
static const char *list_within(struct muster_topology *node, const char *list, const cpu_set_t *allowed, size_t size)
{
    cpu_set_t *set = mu_cpus_new(size);
    const char *text = "";
    char *left = NULL;

    if (set && mu_cpus_parse(list, set, size) >= 0) {
        CPU_AND_S(size, set, set, allowed);
        left = mu_cpus_list(set, size);
        if (left)
            text = mu_node_text(node, "%s", left);
    }
    if (!set)
        node->failed = 1;
    free(left);
    CPU_FREE(set);
    return text;
}

/* What this process may not use is not near for it. */
static void leave_allowed(struct muster_topology *node)
{
    cpu_set_t *allowed;
    size_t size;

    if (mu_cpus_allowed(&allowed, &size))
        return;
    for (size_t i = 0; i < node->num_devices; i++)
        node->devices[i].cpus = list_within(node, node->devices[i].cpus, allowed, size);
    CPU_FREE(allowed);
}

/* The memory node's number where the machine has but one with processors; else -1. */
static int32_t only_numa(const struct muster_topology *node)
{
    int32_t found = -1;

    for (size_t i = 0; i < node->num_numas; i++) {
        if (!*node->numas[i].cpus)
            continue;
        if (found >= 0)
            return -1;
        found = node->numas[i].number;
    }
    return found;
}

/* A part lies where its GPU lies. The package is that of the memory node, or the only one. */
static void device_place(struct muster_topology *node, struct muster_device *device)
{
    const struct muster_device *gpu = device->parent >= 0 ? &node->devices[device->parent] : NULL;

    if (gpu) {
        if (device->numa_node < 0)
            device->numa_node = gpu->numa_node;
        if (!*device->cpus)
            device->cpus = gpu->cpus;
        if (!*node->wheres[device->index].path)
            node->wheres[device->index].path = node->wheres[gpu->index].path;
    }
    if (device->numa_node < 0)
        device->numa_node = only_numa(node);
    for (size_t i = 0; device->package < 0 && i < node->num_numas; i++)
        if (device->numa_node >= 0 && node->numas[i].number == device->numa_node)
            device->package = node->numas[i].package;
    if (device->package < 0 && node->num_packages == 1)
        device->package = node->packages[0].number;
}

static void node_finish(struct muster_topology *node)
{
    sort_devices(node);
    if (node->num_devices == 0)
        node_add_processors(node);
    for (size_t i = 0; i < node->num_devices; i++)
        device_place(node, &node->devices[i]);
    if (node->is_this_machine)
        leave_allowed(node);
    mu_node_link(node);
    mu_shape_finish(node);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* A file of one line below the node's root. */
static void read_line(const struct muster_topology *node, const char *below, char *line, size_t size)
{
    char path[4096];

    if (snprintf(path, sizeof path, "%s%s", node->root, below) >= (int)sizeof path ||
        mu_read_file(path, line, size) < 0)
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
}

/* Which machine it is. Only hwloc can know that the environment shows another one; so this comes after it. */
static void node_identify(struct muster_topology *node)
{
    if (!node->root)
        return;
    read_line(node, "/proc/sys/kernel/hostname", node->host, sizeof node->host);
    read_line(node, "/proc/sys/kernel/random/boot_id", node->boot_id, sizeof node->boot_id);
}

static bool may_tell(const struct mu_provider *provider, const struct muster_topology *node)
{
    switch (provider->reach) {
    case MU_REACH_HERE: return node->is_this_machine;
    case MU_REACH_FILES: return node->root != NULL;
    default: return 1;
    }
}

static void look_around(struct muster_topology *node, const struct mu_look *look)
{
    struct mu_hwloc library;
    char why[400];

    if (node->root && *node->root)
        mu_node_note(node, "hwloc: looks only at this machine, not below %s", node->root);
    else if (mu_hwloc_open(look->library, &library, why, sizeof why) == 0)
        node->library = &library;
    else if (look->tree || look->source->hwloc_xml || look->source->synthetic)
        node->status = mu_fail(MUSTER_UNAVAILABLE, "%s", why);
    else
        mu_node_note(node, "hwloc: %s", why);
    for (size_t i = 0; node->status == MUSTER_OK && i < sizeof providers / sizeof *providers; i++)
        if (may_tell(&providers[i], node))
            providers[i].look(node, look);
    if (node->library)
        mu_hwloc_close(node->library);
    node->library = NULL;
}

static enum muster_status source_check(const struct muster_topology_source *source)
{
    if (source->hwloc_xml && source->synthetic)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a topology is read from hwloc's XML or from words, not from both");
    if (source->root && *source->root && (source->hwloc_xml || source->synthetic))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "a topology is read from below a root or from hwloc's XML or words, not "
                       "from both");
    return MUSTER_OK;
}

/* As realpath() writes it, for what lies below is found by links. */
static void set_root(struct muster_topology *node, const char *root)
{
    char *real = realpath(root, NULL);

    if (!real)
        node->status = mu_fail(errno == EACCES   ? MUSTER_PERMISSION_DENIED
                               : errno == ENOMEM ? MUSTER_RESOURCE_EXHAUSTED
                                                 : MUSTER_NOT_FOUND,
                               "cannot look below %s: %s", root, strerror(errno));
    else if (strcmp(real, "/") != 0)
        node->root = mu_node_text(node, "%s", real);
    free(real);
}

enum muster_status mu_node_look(const struct mu_look *look, struct muster_topology **ret_topology)
{
    const struct muster_topology_source *source = look->source;
    enum muster_status status = source_check(source);
    struct muster_topology *node;

    if (status != MUSTER_OK)
        return status;
    node = mu_node_new();
    if (!node)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a topology");
    if (source->hwloc_xml || source->synthetic)
        node->root = NULL;
    else if (source->root && *source->root)
        set_root(node, source->root);
    node->is_this_machine = node->root && !*node->root;
    if (node->status == MUSTER_OK && !node->failed)
        look_around(node, look);
    if (node->status == MUSTER_OK && !node->failed) {
        node_identify(node);
        node_finish(node);
    }
    status = node->status;
    if (status == MUSTER_OK && node->failed)
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory, or no file descriptor, for a topology");
    if (status == MUSTER_OK)
        *ret_topology = node;
    else
        muster_topology_free(node);
    return status;
}

enum muster_status muster_topology_load(const struct muster_topology_source *source,
                                        struct muster_topology **ret_topology)
{
    static const struct muster_topology_source here;
    struct mu_look look = {.source = source ? source : &here};

    return mu_node_look(&look, ret_topology);
}
