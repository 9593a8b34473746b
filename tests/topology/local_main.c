/*
 * tests/topology/local_main.c: muster_topology_local() for the tests in Python. The bytes go to stdout; of a refusal
 * the sentence, and the exit status is the muster status.
 *
 *     local FORM MACHINE [id=N] [boot=TEXT] [networks=TEXT] [partition=N] [devices=A,B,...]
 *
 * MACHINE is a file in hwloc's XML, "here", or "made": three devices that have everything that a device can have, put
 * together below; "odd" has a name that is no text; "single" has one memory node, the kernel's number 8.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/node.h"

static void fill(struct muster_device *d)
{
    d->numa_node = 4;
    d->core_count = 132;
    d->sources = MUSTER_SOURCE_HWLOC | MUSTER_SOURCE_NVML;
    d->memory_bytes = 85899345920;
    d->shared_memory_optin = 232448;
    d->name = "NVIDIA H100 80GB HBM3";
    d->vendor = "NVIDIA Corporation";
    d->uuid = "GPU-1";
    d->compute_capability = "9.0";
    d->fabric = "01234567-89ab-cdef-0123-456789abcdef/7";
    d->part_profile = "1g.10gb";
}

static struct muster_topology *make(const char *name)
{
    struct muster_topology *node = mu_node_new();
    struct muster_device *d;
    int is_single = !strcmp(name, "single");

    if (!node || !mu_node_add_numa(node, is_single ? 8 : 0) || (!is_single && !mu_node_add_numa(node, 4)))
        exit(100);
    snprintf(node->boot_id, sizeof node->boot_id, "6a6b-boot");
    for (int i = 0; i < 3; i++) {
        d = mu_node_add_device(node, i == 2 ? MUSTER_DEVICE_GPU_PART : MUSTER_DEVICE_GPU, NULL);
        if (!d)
            exit(100);
        fill(d);
        if (is_single)
            d->numa_node = 8;
        else if (i)
            d->numa_node = -1;
        if (i == 1) /* more than the fields can hold */
            d->memory_bytes = d->shared_memory_optin = UINT64_MAX;
        if (i == 2)
            d->sources = MUSTER_SOURCE_NVML;
        if (!strcmp(name, "odd"))
            d->name = "H\xff";
    }
    return node;
}

static void parse_devices(struct muster_local *local, char *text)
{
    static uint32_t devices[16];

    local->devices = devices;
    for (char *save, *word = strtok_r(text, ",", &save); word && local->num_devices < 16;
         word = strtok_r(NULL, ",", &save))
        devices[local->num_devices++] = (uint32_t)strtoul(word, NULL, 10);
}

static void parse(struct muster_local *local, char *word)
{
    char *value = strchr(word, '=');

    if (!value)
        exit(101);
    *value++ = 0;
    if (!strcmp(word, "id")) {
        local->process_id = (int32_t)strtol(value, NULL, 10);
    } else if (!strcmp(word, "boot")) {
        local->boot_id = value;
    } else if (!strcmp(word, "networks")) {
        local->network_nodes = value;
    } else if (!strcmp(word, "partition")) {
        local->has_partition_index = 1;
        local->partition_index = (int32_t)strtol(value, NULL, 10);
    } else if (!strcmp(word, "devices")) {
        parse_devices(local, value);
    } else {
        exit(101);
    }
}

int main(int argc, char **argv)
{
    struct muster_topology_source source = {0};
    struct muster_topology *topology = NULL;
    struct muster_local local = {0};
    enum muster_status status = MUSTER_OK;
    void *bytes = NULL;
    size_t size = 0;

    if (argc < 3)
        return 101;
    for (int i = 3; i < argc; i++)
        parse(&local, argv[i]);
    if (!strcmp(argv[2], "made") || !strcmp(argv[2], "odd") || !strcmp(argv[2], "single")) {
        topology = make(argv[2]);
    } else {
        source.hwloc_xml = strcmp(argv[2], "here") ? argv[2] : NULL;
        status = muster_topology_load(&source, &topology);
    }
    if (!status)
        status = muster_topology_local(topology, &local, (enum muster_topology_form)strtol(argv[1], NULL, 10), &bytes,
                                       &size);
    if (status)
        puts(muster_last_error());
    else if (fwrite(bytes, 1, size, stdout) != size)
        return 102;
    free(bytes);
    muster_topology_free(topology);
    return (int)status;
}
