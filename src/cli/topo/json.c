/*
 * cli/topo/json.c: all that is known of the machine, for programs. The fields are explained in muster-topo(1).
 *
 * Boxes are a flat list, each with its parent's id: a tree of objects would be as deep as the machine's bridges.
 */
#include <string.h>

#include "cli/topo/topo.h"

static void number_or_null(struct mu_cli_json *json, const char *key, int64_t number)
{
    if (number >= 0)
        mu_cli_json_signed(json, key, number);
    else
        mu_cli_json_null(json, key);
}

static const char *box_kind(enum mu_box_kind kind)
{
    static const char *const kinds[] = {
        [MU_BOX_MACHINE] = "machine", [MU_BOX_PACKAGE] = "package", [MU_BOX_NUMA] = "numa",
        [MU_BOX_L3] = "l3",           [MU_BOX_CORE] = "core",       [MU_BOX_HOST_BRIDGE] = "host bridge",
        [MU_BOX_BRIDGE] = "bridge",   [MU_BOX_DEVICE] = "device",   [MU_BOX_SWITCH] = "nvswitch",
    };

    return kinds[kind];
}

static void box_put_json(const struct mu_cli_topo *topo, int32_t at, struct mu_cli_json *json)
{
    const struct mu_box *box = &topo->boxes[at];

    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_signed(json, "id", at);
    number_or_null(json, "parent", box->parent);
    mu_cli_json_text(json, "kind", box_kind(box->kind));
    number_or_null(json, "number", box->number);
    mu_cli_json_text(json, "name", box->name);
    mu_cli_json_text(json, "cpus", box->cpus);
    mu_cli_json_unsigned(json, "cores", box->cores);
    mu_cli_json_unsigned(json, "processors", box->processors);
    mu_cli_json_unsigned(json, "bytes", box->bytes);
    number_or_null(json, "device", box->device);
    mu_cli_json_unsigned(json, "count", box->kind == MU_BOX_SWITCH ? box->count : 1);
    mu_cli_json_close(json, '}');
}

static void put_boxes(const struct mu_cli_topo *topo, struct mu_cli_json *json)
{
    int32_t at = topo->num_boxes ? 0 : -1;

    mu_cli_json_open(json, "boxes", '[');
    while (at >= 0) {
        box_put_json(topo, at, json);
        if (topo->boxes[at].first >= 0) {
            at = topo->boxes[at].first;
            continue;
        }
        while (at >= 0 && topo->boxes[at].next < 0)
            at = topo->boxes[at].parent;
        if (at >= 0)
            at = topo->boxes[at].next;
    }
    mu_cli_json_close(json, ']');
}

static void put_sources(struct mu_cli_json *json, uint32_t sources)
{
    static const char *const names[] = {"hwloc", "sysfs", "nvidia-proc", "nvml", "kfd", "cuda"};

    mu_cli_json_open(json, "sources", '[');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sources & 1u << i)
            mu_cli_json_text(json, NULL, names[i]);
    mu_cli_json_close(json, ']');
}

static void device_put_json(const struct mu_cli_topo *topo, size_t index, struct mu_cli_json *json)
{
    static const char *const kinds[] = {"cpu", "gpu", "part"};
    const struct muster_device *device = muster_topology_device(topo->topology, index);
    char hex[8];

    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_signed(json, "index", device->index);
    mu_cli_json_text(json, "label", topo->labels[index]);
    mu_cli_json_text(json, "kind", kinds[device->kind]);
    number_or_null(json, "parent", device->parent);
    mu_cli_json_text(json, "name", device->name);
    mu_cli_json_text(json, "vendor", device->vendor);
    mu_cli_json_text(json, "pci", device->pci);
    snprintf(hex, sizeof hex, "%04x", device->pci_vendor & 0xffff);
    mu_cli_json_text(json, "pci_vendor", device->pci_vendor ? hex : "");
    snprintf(hex, sizeof hex, "%04x", device->pci_device & 0xffff);
    mu_cli_json_text(json, "pci_device", device->pci_vendor ? hex : "");
    snprintf(hex, sizeof hex, "%04x", device->pci_class & 0xffff);
    mu_cli_json_text(json, "pci_class", device->pci_class ? hex : "");
    mu_cli_json_text(json, "uuid", device->uuid);
    mu_cli_json_text(json, "serial", device->serial);
    mu_cli_json_text(json, "compute_capability", device->compute_capability);
    mu_cli_json_text(json, "fabric", device->fabric);
    mu_cli_json_text(json, "part_profile", device->part_profile);
    number_or_null(json, "gpu_instance", device->gpu_instance);
    number_or_null(json, "compute_instance", device->compute_instance);
    number_or_null(json, "numa_node", device->numa_node);
    number_or_null(json, "package", device->package);
    mu_cli_json_text(json, "cpus", device->cpus);
    number_or_null(json, "minor", device->minor);
    number_or_null(json, "cuda_ordinal", device->cuda_ordinal);
    mu_cli_json_signed(json, "core_count", device->core_count);
    mu_cli_json_unsigned(json, "memory_bytes", device->memory_bytes);
    mu_cli_json_unsigned(json, "shared_memory_optin", device->shared_memory_optin);
    mu_cli_json_signed(json, "health", device->health);
    put_sources(json, device->sources);
    mu_cli_json_close(json, '}');
}

static void put_link(struct mu_cli_json *json, struct muster_link link)
{
    char name[16];

    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_text(json, "level", muster_link_name(link, name, sizeof name));
    mu_cli_json_unsigned(json, "lanes", link.lanes);
    mu_cli_json_unsigned(json, "bandwidth_mbs", link.bandwidth_mbs);
    mu_cli_json_close(json, '}');
}

static void put_links(const struct mu_cli_topo *topo, struct mu_cli_json *json)
{
    char name[16];

    mu_cli_json_open(json, "links", '[');
    for (size_t i = 0; i < topo->num_devices; i++) {
        mu_cli_json_open(json, NULL, '[');
        for (size_t j = 0; j < topo->num_devices; j++)
            put_link(json, muster_topology_link(topo->topology, i, j));
        mu_cli_json_close(json, ']');
    }
    mu_cli_json_close(json, ']');
    mu_cli_json_open(json, "numa_links", '[');
    for (size_t i = 0; i < topo->num_devices; i++) {
        mu_cli_json_open(json, NULL, '[');
        for (size_t j = 0; j < topo->num_numas; j++)
            mu_cli_json_text(json, NULL,
                             muster_link_name(muster_topology_numa_link(topo->topology, i, j), name, sizeof name));
        mu_cli_json_close(json, ']');
    }
    mu_cli_json_close(json, ']');
}

static void put_numas(const struct mu_cli_topo *topo, struct mu_cli_json *json)
{
    mu_cli_json_open(json, "numas", '[');
    for (size_t i = 0; i < topo->num_numas; i++) {
        const struct muster_numa *numa = muster_topology_numa(topo->topology, i);

        mu_cli_json_open(json, NULL, '{');
        mu_cli_json_signed(json, "number", numa->number);
        number_or_null(json, "package", numa->package);
        mu_cli_json_unsigned(json, "memory_bytes", numa->memory_bytes);
        mu_cli_json_text(json, "cpus", numa->cpus);
        mu_cli_json_text(json, "kind", numa->kind);
        mu_cli_json_close(json, '}');
    }
    mu_cli_json_close(json, ']');
}

static void put_tasks(const struct mu_cli_topo *topo, struct mu_cli_json *json)
{
    mu_cli_json_open(json, "tasks", '[');
    for (size_t i = 0; i < topo->num_ranks; i++) {
        const struct mu_cli_rank *rank = &topo->ranks[i];

        mu_cli_json_open(json, NULL, '{');
        mu_cli_json_signed(json, "task", rank->task);
        number_or_null(json, "pid", rank->pid ? (int64_t)rank->pid : -1);
        mu_cli_json_text(json, "cpus", rank->cpus);
        number_or_null(json, "box", rank->box);
        if (rank->is_restricted) {
            mu_cli_json_open(json, "devices", '[');
            for (size_t k = 0; k < rank->num_devices; k++)
                mu_cli_json_signed(json, NULL, rank->devices[k]);
            mu_cli_json_close(json, ']');
        } else {
            mu_cli_json_null(json, "devices");
        }
        mu_cli_json_text(json, "unknown", rank->unknown);
        mu_cli_json_close(json, '}');
    }
    mu_cli_json_close(json, ']');
}

void mu_cli_topo_json(const struct mu_cli_topo *topo, FILE *out)
{
    struct mu_cli_json json;

    mu_cli_json_start(&json, out);
    mu_cli_json_open(&json, NULL, '{');
    mu_cli_json_text(&json, "host", muster_topology_host(topo->topology));
    mu_cli_json_text(&json, "boot_id", muster_topology_boot_id(topo->topology));
    mu_cli_json_text(&json, "input", topo->input);
    put_boxes(topo, &json);
    mu_cli_json_open(&json, "devices", '[');
    for (size_t i = 0; i < topo->num_devices; i++)
        device_put_json(topo, i, &json);
    mu_cli_json_close(&json, ']');
    put_numas(topo, &json);
    put_links(topo, &json);
    mu_cli_json_text(&json, "job", topo->job);
    put_tasks(topo, &json);
    mu_cli_json_open(&json, "notes", '[');
    for (size_t i = 0; muster_topology_note(topo->topology, i); i++)
        mu_cli_json_text(&json, NULL, muster_topology_note(topo->topology, i));
    mu_cli_json_close(&json, ']');
    mu_cli_json_close(&json, '}');
    mu_cli_json_end(&json);
}
