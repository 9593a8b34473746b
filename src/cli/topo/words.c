/*
 * cli/topo/words.c: the words of `muster topo` that its tree, its matrix and its picture have in common.
 */
#include <string.h>

#include "cli/topo/topo.h"

const char *mu_cli_topo_bytes(uint64_t bytes, char buffer[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    double value = (double)bytes;

    while (value >= 1023.95 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(buffer, 32, "%.1f", value);
    if (strcmp(buffer + strlen(buffer) - 2, ".0") == 0)
        buffer[strlen(buffer) - 2] = 0;
    snprintf(buffer + strlen(buffer), 32 - strlen(buffer), " %s", units[unit]);
    return buffer;
}

const char *mu_cli_topo_name(const struct mu_cli_topo *topo)
{
    const char *host = muster_topology_host(topo->topology), *file = topo->input;

    for (const char *at = file; at && *at && !topo->is_words; at++)
        if (*at == '/' && at[1])
            file = at + 1;
    return *host ? host : file ? file : "a machine";
}

static void count_words(FILE *out, const char *before, size_t number, const char *one)
{
    if (number)
        fprintf(out, "%s%zu %s%s", before, number, one, number == 1 ? "" : "s");
}

void mu_cli_topo_summary(const struct mu_cli_topo *topo, FILE *out)
{
    size_t packages = 0, parts = 0;
    uint64_t memory = 0;
    char bytes[32];

    for (size_t i = 0; i < topo->num_boxes; i++)
        packages += topo->boxes[i].kind == MU_BOX_PACKAGE;
    for (size_t i = 0; i < topo->num_devices; i++)
        parts += muster_topology_device(topo->topology, i)->kind == MUSTER_DEVICE_GPU_PART;
    for (size_t i = 0; i < topo->num_numas; i++)
        memory += muster_topology_numa(topo->topology, i)->memory_bytes;
    fprintf(out, "%zu package%s", packages, packages == 1 ? "" : "s");
    count_words(out, ", ", topo->num_boxes ? topo->boxes[0].cores : 0, "core");
    count_words(out, ", ", topo->num_boxes ? topo->boxes[0].processors : 0, "processor");
    if (memory)
        fprintf(out, ", %s", mu_cli_topo_bytes(memory, bytes));
    if (topo->num_gpus == 0)
        fputs(", no accelerator", out);
    count_words(out, ", ", topo->num_gpus, "GPU");
    count_words(out, ", ", parts, "part");
}

const char *mu_cli_topo_model(const struct muster_device *device, char buffer[32])
{
    if (*device->name)
        return device->name;
    buffer[0] = 0;
    if (device->pci_vendor)
        snprintf(buffer, 32, "%04x:%04x", device->pci_vendor, device->pci_device);
    return buffer;
}

const char *mu_cli_topo_level(enum muster_link_level level, const char **ret_name)
{
    static const struct {
        const char *name, *meaning;
    } levels[] = {
        [MUSTER_LINK_SELF] = {"X", "itself"},
        [MUSTER_LINK_NVLINK] = {"NV#", "so many NVLinks, bonded"},
        [MUSTER_LINK_XGMI] = {"XGMI", "AMD's links between GPUs"},
        [MUSTER_LINK_PIX] = {"PIX", "at most one PCIe bridge"},
        [MUSTER_LINK_PXB] = {"PXB", "several PCIe bridges, none of them a host bridge"},
        [MUSTER_LINK_PHB] = {"PHB", "one PCIe host bridge; of memory: the nearest"},
        [MUSTER_LINK_NODE] = {"NODE", "several PCIe host bridges of one NUMA node"},
        [MUSTER_LINK_SYS] = {"SYS", "from one NUMA node to another"},
        [MUSTER_LINK_UNKNOWN] = {"?", "not known"},
    };

    if ((unsigned)level >= sizeof levels / sizeof *levels)
        level = MUSTER_LINK_UNKNOWN;
    *ret_name = levels[level].name;
    return levels[level].meaning;
}
