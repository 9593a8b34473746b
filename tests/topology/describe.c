/* tests/topology/describe.c: a topology as text. */
#include "describe.h"

#include "cm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void describe_sources(FILE *out, uint32_t sources)
{
    static const char *const names[] = {"hwloc", "sysfs", "proc", "nvml", "kfd", "cuda"};
    const char *before = " by ";

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sources >> i & 1) {
            fprintf(out, "%s%s", before, names[i]);
            before = "+";
        }
}

static void describe_number(FILE *out, const char *name, int32_t number)
{
    if (number >= 0)
        fprintf(out, " %s %d", name, number);
}

static void describe_text(FILE *out, const char *name, const char *text)
{
    if (*text)
        fprintf(out, " %s%s", name, text);
}

static void describe_device(FILE *out, const struct muster_device *device)
{
    static const char *const kinds[] = {"CPU", "GPU", "PART"};

    fprintf(out, "%s", *device->pci ? device->pci : kinds[device->kind]);
    if (device->kind == MUSTER_DEVICE_GPU_PART && *device->pci)
        fprintf(out, " PART");
    describe_number(out, "of", device->parent);
    describe_number(out, "instance", device->gpu_instance);
    describe_number(out, "compute", device->compute_instance);
    if (device->pci_vendor)
        fprintf(out, " %04x:%04x/%04x", device->pci_vendor, device->pci_device, device->pci_class);
    describe_number(out, "numa", device->numa_node);
    describe_number(out, "package", device->package);
    describe_text(out, "cpus ", device->cpus);
    if (*device->name)
        fprintf(out, " \"%s\"", device->name);
    if (device->kind == MUSTER_DEVICE_CPU)
        describe_text(out, "of ", device->vendor);
    describe_text(out, "", device->uuid);
    describe_text(out, "serial ", device->serial);
    describe_text(out, "profile ", device->part_profile);
    describe_text(out, "fabric ", device->fabric);
    describe_text(out, "", device->compute_capability);
    describe_number(out, "minor", device->minor);
    describe_number(out, "ordinal", device->cuda_ordinal);
    if (device->core_count)
        fprintf(out, " cores %d", device->core_count);
    if (device->memory_bytes)
        fprintf(out, " memory %" PRIu64, device->memory_bytes);
    if (device->health)
        fprintf(out, " health %d", device->health);
    describe_sources(out, device->sources);
    fprintf(out, "\n");
}

/* "NV6/150000": with its bandwidth. */
static void describe_link(FILE *out, struct muster_link link, char end)
{
    char name[16];

    fprintf(out, "%s", muster_link_name(link, name, sizeof name));
    if (link.bandwidth_mbs)
        fprintf(out, "/%" PRIu64, link.bandwidth_mbs);
    fprintf(out, "%c", end);
}

char *test_describe(const struct muster_topology *topology)
{
    size_t count = muster_topology_num_devices(topology), size;
    char *text;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    for (size_t i = 0; i < count; i++)
        describe_device(out, muster_topology_device(topology, i));
    for (size_t a = 0; a < count && count > 1; a++)
        for (size_t b = 0; b < count; b++)
            describe_link(out, muster_topology_link(topology, a, b), b + 1 < count ? ' ' : '\n');
    for (size_t i = 0; i < muster_topology_num_numas(topology); i++) {
        const struct muster_numa *numa = muster_topology_numa(topology, i);

        fprintf(out, "numa %d", numa->number);
        describe_number(out, "package", numa->package);
        describe_text(out, "cpus ", numa->cpus);
        describe_text(out, "", numa->kind);
        fprintf(out, " memory %" PRIu64 "\n", numa->memory_bytes);
    }
    for (size_t i = 0; muster_topology_note(topology, i); i++)
        fprintf(out, "note: %s\n", muster_topology_note(topology, i));
    assert_int_equal(fclose(out), 0);
    return text;
}

/* cmocka cuts long messages. */
static void differs(const struct muster_topology_source *source, const char *expected, const char *text)
{
    const char *name = source->hwloc_xml   ? source->hwloc_xml
                       : source->synthetic ? source->synthetic
                       : source->root      ? source->root
                                           : "this machine";

    fprintf(stderr, "of %s, expected:\n%s\nis:\n%s\n", name, expected, text);
    fail_msg("of %s another topology was expected", name);
}

void test_expect_topology(const struct muster_topology_source *source, const char *expected)
{
    struct muster_topology *topology;
    char *text;

    assert_ok(muster_topology_load(source, &topology));
    text = test_describe(topology);
    if (strcmp(text, expected) != 0)
        differs(source, expected, text);
    free(text);
    muster_topology_free(topology);
}
