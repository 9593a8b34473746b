/*
 * topology/by_sysfs_machine.c: packages and memory nodes by sysfs, where hwloc told of none.
 *
 * It numbers packages as hwloc does, by their first processor. Of the rest it takes what a device needs.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "topology/files.h"

#define CPU  "/sys/devices/system/cpu"
#define NODE "/sys/devices/system/node"

enum {
    CPUS_MAX = 16384, /* processors: the kernel's limit is 8192 */
    NODES_MAX = 4096,
    SET = CPUS_MAX / 8 /* bytes */
};

/* A list in a file, in one of the sets of this file's size. 0, or -1. */
static int read_list(struct muster_topology *node, cpu_set_t *set, const char *path)
{
    char list[MU_FILE_MAX];

    CPU_ZERO_S(SET, set);
    return mu_file_read(node, list, sizeof list, "%s", path) > 0 && mu_cpus_parse(list, set, SET) == 0 ? 0 : -1;
}

static const char *list_of(struct muster_topology *node, const cpu_set_t *set)
{
    char *list = mu_cpus_list(set, SET);
    const char *text = list ? mu_node_text(node, "%s", list) : "";

    if (!list)
        node->failed = 1;
    free(list);
    return text;
}

/* ---- packages ---------------------------------------------------------------------------------------------------- */

static void read_model(struct muster_topology *node, struct mu_package *package)
{
    FILE *file = mu_file_open(node, "/proc/cpuinfo");
    char text[MU_FILE_MAX], value[256];
    size_t size;

    if (!file)
        return;
    size = fread(text, 1, sizeof text - 1, file); /* of the first processors */
    text[size] = '\0';
    fclose(file);
    if (mu_file_value(text, "model name", "\t:", value, sizeof value))
        package->name = mu_node_text(node, "%s", value);
    if (mu_file_value(text, "vendor_id", "\t:", value, sizeof value))
        package->vendor = mu_node_text(node, "%s", value);
}

/* The first of each core's hardware threads stands for it. */
static bool is_first_thread(struct muster_topology *node, size_t cpu)
{
    char list[MU_FILE_MAX];

    return mu_file_read(node, list, sizeof list, CPU "/cpu%zu/topology/thread_siblings_list", cpu) <= 0 ||
           strtoul(list, NULL, 10) == cpu;
}

/* The processors of one package, taken out of `left`. */
static void sysfs_add_package(struct muster_topology *node, int64_t id, cpu_set_t *left, cpu_set_t *own)
{
    struct mu_package *package = mu_node_add_package(node);
    int64_t other;

    CPU_ZERO_S(SET, own);
    if (!package)
        return;
    package->number = id < 0 ? -1 : (int32_t)node->num_packages - 1;
    package->numa_node = -1;
    package->sources = MUSTER_SOURCE_SYSFS;
    for (size_t cpu = 0; cpu < CPUS_MAX; cpu++) {
        if (!CPU_ISSET_S(cpu, SET, left))
            continue;
        if (mu_file_number(node, &other, CPU "/cpu%zu/topology/physical_package_id", cpu) || other < 0)
            other = -1;
        if (other != id)
            continue;
        CPU_CLR_S(cpu, SET, left);
        CPU_SET_S(cpu, SET, own);
        package->core_count += is_first_thread(node, cpu);
    }
    package->cpus = list_of(node, own);
    read_model(node, package);
}

static void sysfs_add_packages(struct muster_topology *node, cpu_set_t *left, cpu_set_t *own)
{
    cpu_set_t *allowed;
    size_t size;
    int64_t id;

    if (read_list(node, left, CPU "/online") && !*node->root && mu_cpus_allowed(&allowed, &size) == 0) {
        memcpy(left, allowed, size < SET ? size : SET); /* /sys is hidden, but the kernel can be asked */
        CPU_FREE(allowed);
    }
    for (size_t cpu = 0; cpu < CPUS_MAX && !node->failed; cpu++)
        if (CPU_ISSET_S(cpu, SET, left)) {
            if (mu_file_number(node, &id, CPU "/cpu%zu/topology/physical_package_id", cpu) || id < 0)
                id = -1;
            sysfs_add_package(node, id, left, own);
            CPU_CLR_S(cpu, SET, left);
        }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The package around all of them; -1: none. */
static int32_t sysfs_package_of(struct muster_topology *node, const cpu_set_t *cpus, cpu_set_t *spare)
{
    for (size_t i = 0; i < node->num_packages; i++) {
        CPU_ZERO_S(SET, spare);
        if (CPU_COUNT_S(SET, cpus) && mu_cpus_parse(node->packages[i].cpus, spare, SET) == 0) {
            CPU_AND_S(SET, spare, spare, cpus);
            if (CPU_EQUAL_S(SET, spare, cpus))
                return node->packages[i].number;
        }
    }
    return -1;
}

/* The package takes the node for its own if it has but this one. */
static void give_to_package(struct muster_topology *node, const struct muster_numa *numa)
{
    for (size_t i = 0; i < node->num_packages; i++) {
        struct mu_package *package = &node->packages[i];
        size_t others = 0;

        if (package->number != numa->package)
            continue;
        package->memory_bytes += numa->memory_bytes;
        for (size_t j = 0; j + 1 < node->num_numas; j++)
            others += node->numas[j].package == numa->package && *node->numas[j].cpus;
        if (*numa->cpus)
            package->numa_node = others ? -1 : numa->number;
    }
}

static void sysfs_add_memory(struct muster_topology *node, size_t number, cpu_set_t *cpus, cpu_set_t *spare)
{
    char path[64], text[MU_FILE_MAX], key[64], value[64];
    struct muster_numa *numa = mu_node_add_numa(node, (int32_t)number);

    if (!numa)
        return;
    snprintf(path, sizeof path, NODE "/node%zu/cpulist", number);
    read_list(node, cpus, path);
    numa->cpus = list_of(node, cpus);
    numa->package = sysfs_package_of(node, cpus, spare);
    snprintf(key, sizeof key, "Node %zu MemTotal", number);
    mu_file_read(node, text, sizeof text, NODE "/node%zu/meminfo", number);
    if (mu_file_value(text, key, ":", value, sizeof value))
        numa->memory_bytes = strtoull(value, NULL, 10) * 1024;
    give_to_package(node, numa);
}

void mu_sysfs_machine(struct muster_topology *node)
{
    cpu_set_t *one = mu_cpus_new(SET), *other = mu_cpus_new(SET), *nodes = mu_cpus_new(SET);

    if (!one || !other || !nodes)
        node->failed = 1;
    if (!node->failed && node->num_packages == 0)
        sysfs_add_packages(node, one, other);
    if (!node->failed && node->num_numas == 0 && read_list(node, nodes, NODE "/online") == 0)
        for (size_t i = 0; i < NODES_MAX; i++)
            if (CPU_ISSET_S(i, SET, nodes))
                sysfs_add_memory(node, i, one, other);
    CPU_FREE(one);
    CPU_FREE(other);
    CPU_FREE(nodes);
}
