/*
 * topology/nvml_device.c: what NVML tells of one GPU, and of the parts that it is divided into.
 *
 * Nothing that is told is trusted: counts and loops have bounds, strings are cut and what is not printable in them is
 * replaced. A question that is not answered leaves its field "not told"; only a GPU that may not be opened at all has a
 * code instead of an answer. Parts come and go while one looks: what of them cannot be told any more is left out.
 */
#include "topology/nvml.h"

#include <stdio.h>
#include <string.h>

#include "topology/pci.h"

#define LINK_ERRORS_MAX 8 /* in a row: there are no more links */
#define MIG_SLOTS_MAX   64u

int mu_nvml_address(const char *bus_id, char ret_pci[MU_NVML_PCI_MAX])
{
    struct mu_pci pci;

    if (mu_pci_parse(bus_id, &pci))
        return -1;
    mu_pci_print(&pci, ret_pci, MU_NVML_PCI_MAX);
    return 0;
}

/* Some answers say that there is no GPU any more. */
static int gpu_heard(struct mu_nvml_device *device, int rc)
{
    if (rc == NVML_GPU_IS_LOST || rc == NVML_RESET_REQUIRED)
        device->is_lost = 1;
    return rc;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void take_text(char to[NVML_TEXT_MAX], int rc, const char *from)
{
    size_t i = 0;

    for (; rc == NVML_OK && i < NVML_TEXT_MAX - 1 && from[i]; i++)
        to[i] = from[i] >= ' ' && from[i] < 0x7f ? from[i] : '?';
    to[i] = 0;
}

int mu_nvml_count(const struct mu_nvml *nvml, uint32_t *ret_count)
{
    uint32_t count = 0;
    int rc = MU_NVML(nvml, count, &count);

    *ret_count = rc ? 0 : count < MU_NVML_GPUS_MAX ? count : MU_NVML_GPUS_MAX;
    return rc;
}

int mu_nvml_driver(const struct mu_nvml *nvml, char ret_version[NVML_TEXT_MAX])
{
    char text[4 * NVML_TEXT_MAX] = "";
    int rc = MU_NVML(nvml, driver, text, NVML_TEXT_MAX);

    take_text(ret_version, rc, text);
    return rc;
}

/* The buffer is larger than what the library is told of. */
#define TEXT(nvml, handle, device, member)                                                                             \
    do {                                                                                                               \
        char text_[4 * NVML_TEXT_MAX] = "";                                                                            \
        take_text((device)->member, gpu_heard(device, MU_NVML(nvml, member, handle, text_, NVML_TEXT_MAX)), text_);    \
    } while (0)

static void look_at_identity(const struct mu_nvml *nvml, nvml_device handle, struct mu_nvml_device *device)
{
    struct nvml_pci pci = {.bus_id = ""};
    uint32_t minor;
    int major_of = 0, minor_of = 0;

    TEXT(nvml, handle, device, name);
    TEXT(nvml, handle, device, uuid);
    TEXT(nvml, handle, device, serial);
    if (gpu_heard(device, MU_NVML(nvml, pci, handle, &pci)) == NVML_OK) {
        pci.bus_id[sizeof pci.bus_id - 1] = 0;
        if (mu_nvml_address(pci.bus_id, device->pci) == 0)
            device->device_id = pci.device_id;
    }
    if (gpu_heard(device, MU_NVML(nvml, minor, handle, &minor)) == NVML_OK && minor < 1u << 20)
        device->minor = (int32_t)minor;
    if (gpu_heard(device, MU_NVML(nvml, capability, handle, &major_of, &minor_of)) == NVML_OK && major_of > 0 &&
        major_of < 1000 && minor_of >= 0 && minor_of < 1000) {
        device->major_capability = major_of;
        device->minor_capability = minor_of;
    }
}

/* Some (GB10) answer neither. */
static void look_at_memory(const struct mu_nvml *nvml, nvml_device handle, struct mu_nvml_device *device)
{
    struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
    struct nvml_memory v1 = {.total = 0};

    if (gpu_heard(device, MU_NVML(nvml, memory_v2, handle, &v2)) == NVML_OK)
        device->memory_bytes = v2.total;
    else if (gpu_heard(device, MU_NVML(nvml, memory, handle, &v1)) == NVML_OK)
        device->memory_bytes = v1.total;
    if (device->memory_bytes >> 50) /* a petabyte is no memory of a GPU */
        device->memory_bytes = 0;
}

static void look_at_affinity(const struct mu_nvml *nvml, nvml_device handle, struct mu_nvml_device *device)
{
    unsigned long cpus[MU_NVML_CPU_WORDS] = {0}, nodes[MU_NVML_CPU_WORDS] = {0};

    if (MU_NVML(nvml, cpus, handle, MU_NVML_CPU_WORDS, cpus, NVML_SCOPE_NODE) == NVML_OK ||
        MU_NVML(nvml, cpus_old, handle, MU_NVML_CPU_WORDS, cpus) == NVML_OK)
        for (size_t i = 0; i < MU_NVML_CPU_WORDS; i++)
            device->cpus[i] = cpus[i];
    if (MU_NVML(nvml, nodes, handle, MU_NVML_CPU_WORDS, nodes, NVML_SCOPE_NODE) != NVML_OK)
        return;
    for (uint32_t i = 0; i < MU_NVML_CPU_WORDS && device->numa_node < 0; i++)
        if (nodes[i])
            device->numa_node = (int32_t)(i * 64 + (uint32_t)__builtin_ctzl(nodes[i]));
}

/* ---- NVLink ------------------------------------------------------------------------------------------------------ */

static uint64_t link_speed(const struct mu_nvml *nvml, nvml_device handle, uint32_t link)
{
    struct nvml_field fields[2] = {{.id = NVML_FIELD_NVLINK_SPEED, .scope = link, .error = NVML_NOT_SUPPORTED},
                                   {.id = NVML_FIELD_NVLINK_SPEED_COMMON, .error = NVML_NOT_SUPPORTED}};

    if (MU_NVML(nvml, fields, handle, 2, fields) != NVML_OK)
        return 0;
    for (int i = 0; i < 2; i++) /* a link of a million MB/s is none */
        if (fields[i].error == NVML_OK && fields[i].type == NVML_VALUE_U32 && fields[i].value.u32 < 1000000)
            return fields[i].value.u32;
    return 0;
}

static void add_link(struct mu_nvml_device *device, const struct mu_nvml_wire *link)
{
    struct mu_nvml_wire *wire = device->wires, *end = wire + device->num_wires;

    while (wire < end && (wire->far != link->far || strcmp(wire->pci, link->pci) != 0))
        wire++;
    if (wire == end) {
        if (device->num_wires == MU_NVML_WIRES_MAX)
            return;
        device->num_wires++;
        *wire = (struct mu_nvml_wire){.far = link->far};
        memcpy(wire->pci, link->pci, sizeof wire->pci);
    }
    wire->lanes++;
    wire->bandwidth_mbs += link->bandwidth_mbs;
}

/* All switches are one far end: a GPU connected to them reaches every other such. Their addresses are often made up. */
static void look_at_link(const struct mu_nvml *nvml, nvml_device handle, uint32_t number, struct mu_nvml_device *device)
{
    struct mu_nvml_wire link = {.far = NVML_REMOTE_UNKNOWN, .bandwidth_mbs = link_speed(nvml, handle, number)};
    struct nvml_pci pci = {.bus_id = ""};
    uint32_t far;

    if (MU_NVML(nvml, link_type, handle, number, &far) == NVML_OK && far <= NVML_REMOTE_SWITCH)
        link.far = far;
    if (link.far != NVML_REMOTE_SWITCH && MU_NVML(nvml, link_pci, handle, number, &pci) == NVML_OK) {
        pci.bus_id[sizeof pci.bus_id - 1] = 0;
        if (mu_nvml_address(pci.bus_id, link.pci))
            link.pci[0] = 0;
        if (link.far == NVML_REMOTE_UNKNOWN && (pci.device_id & 0xffff) == 0x1014) /* IBM: a POWER processor */
            link.far = NVML_REMOTE_NPU;
    }
    add_link(device, &link);
}

static void look_at_links(const struct mu_nvml *nvml, nvml_device handle, struct mu_nvml_device *device)
{
    int errors = 0;

    for (uint32_t number = 0; number < MU_NVML_LINKS_MAX && errors < LINK_ERRORS_MAX; number++) {
        uint32_t is_up = 0;
        int rc = gpu_heard(device, MU_NVML(nvml, link_state, handle, number, &is_up));

        if (rc == NVML_INVALID_ARGUMENT || rc == NVML_FUNCTION_NOT_FOUND || device->is_lost)
            break;
        errors = rc == NVML_OK ? 0 : errors + 1;
        if (rc == NVML_OK && is_up == 1)
            look_at_link(nvml, handle, number, device);
    }
}

/* ---- the fabric -------------------------------------------------------------------------------------------------- */

/* Newest first. -1: there is none, or it is not told. */
static int ask_fabric(const struct mu_nvml *nvml, nvml_device handle, struct nvml_fabric *ret_fabric)
{
    static const uint32_t versions[] = {NVML_FABRIC_V3, NVML_FABRIC_V2};
    struct nvml_fabric_v1 old = {.state = 0};

    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        *ret_fabric = (struct nvml_fabric){.version = versions[i]};
        if (MU_NVML(nvml, fabric, handle, ret_fabric) == NVML_OK)
            return 0;
    }
    if (MU_NVML(nvml, fabric_v1, handle, &old) != NVML_OK)
        return -1;
    memcpy(ret_fabric->cluster, old.cluster, sizeof old.cluster);
    ret_fabric->status = old.status;
    ret_fabric->clique = old.clique;
    ret_fabric->state = old.state;
    return 0;
}

/* One without a name is that of a single machine: it connects nothing that NVLinks do not show. */
static void look_at_fabric(const struct mu_nvml *nvml, nvml_device handle, struct mu_nvml_device *device)
{
    static const uint8_t none[16];
    struct nvml_fabric fabric;
    char *at = device->fabric;

    if (ask_fabric(nvml, handle, &fabric) || fabric.state != NVML_FABRIC_COMPLETED || fabric.status != NVML_OK ||
        memcmp(fabric.cluster, none, sizeof none) == 0)
        return;
    for (int i = 0; i < 16; i++)
        at += snprintf(at, 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", fabric.cluster[i]);
    snprintf(at, 12, "/%u", fabric.clique);
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static struct mu_nvml_device device_nothing(uint32_t index)
{
    return (struct mu_nvml_device){
        .gpu = index, .minor = -1, .gpu_instance = -1, .compute_instance = -1, .numa_node = -1};
}

void mu_nvml_gpu(const struct mu_nvml *nvml, uint32_t index, struct mu_nvml_device *ret_device, nvml_device *ret_handle)
{
    nvml_device handle = NULL;
    int rc = MU_NVML(nvml, by_index, index, &handle);

    *ret_device = device_nothing(index);
    if (ret_handle)
        *ret_handle = NULL;
    ret_device->refused = gpu_heard(ret_device, rc ? rc : handle ? NVML_OK : NVML_NOT_FOUND);
    if (ret_device->refused)
        return;
    look_at_identity(nvml, handle, ret_device);
    look_at_memory(nvml, handle, ret_device);
    look_at_affinity(nvml, handle, ret_device);
    look_at_links(nvml, handle, ret_device);
    look_at_fabric(nvml, handle, ret_device);
    if (ret_handle)
        *ret_handle = handle;
}

/* "NVIDIA H100 80GB HBM3 MIG 1g.10gb" ends in the profile; older drivers do not say it. */
static void name_profile(struct mu_nvml_device *part, const struct nvml_attributes *attributes)
{
    const char *at = strstr(part->name, " MIG ");
    uint64_t gb = (attributes->memory_mib + 1023) / 1024;

    if (at)
        snprintf(part->profile, sizeof part->profile, "%s", at + strlen(" MIG "));
    else if (attributes->gpu_slices && attributes->compute_slices < attributes->gpu_slices)
        snprintf(part->profile, sizeof part->profile, "%uc.%ug.%llugb", attributes->compute_slices,
                 attributes->gpu_slices, (unsigned long long)gb);
    else if (attributes->gpu_slices)
        snprintf(part->profile, sizeof part->profile, "%ug.%llugb", attributes->gpu_slices, (unsigned long long)gb);
}

/* -1: it has gone while we looked. */
static int look_at_part(const struct mu_nvml *nvml, uint32_t index, nvml_device handle, struct mu_nvml_device *part)
{
    struct nvml_attributes attributes = {.multiprocessors = 0};
    uint32_t number;

    *part = device_nothing(index);
    part->is_part = 1;
    TEXT(nvml, handle, part, uuid);
    if (!part->uuid[0])
        return -1;
    TEXT(nvml, handle, part, name);
    if (MU_NVML(nvml, gpu_instance, handle, &number) == NVML_OK && number < 1u << 16)
        part->gpu_instance = (int32_t)number;
    if (MU_NVML(nvml, compute_instance, handle, &number) == NVML_OK && number < 1u << 16)
        part->compute_instance = (int32_t)number;
    look_at_memory(nvml, handle, part);
    if (MU_NVML(nvml, attributes, handle, &attributes) == NVML_OK) {
        if (attributes.multiprocessors < 1u << 16)
            part->multiprocessors = (int32_t)attributes.multiprocessors;
        if (!part->memory_bytes && attributes.memory_mib < 1u << 30)
            part->memory_bytes = attributes.memory_mib << 20;
    }
    name_profile(part, &attributes);
    return 0;
}

size_t mu_nvml_parts(const struct mu_nvml *nvml, uint32_t index, nvml_device handle,
                     struct mu_nvml_device ret_parts[MU_NVML_PARTS_MAX])
{
    uint32_t mode = 0, pending = 0, slots = 0;
    size_t count = 0;

    if (!handle || MU_NVML(nvml, mig_mode, handle, &mode, &pending) != NVML_OK || mode != 1 ||
        MU_NVML(nvml, mig_max, handle, &slots) != NVML_OK)
        return 0;
    for (uint32_t i = 0; i < slots && i < MIG_SLOTS_MAX && count < MU_NVML_PARTS_MAX; i++) {
        nvml_device part = NULL;

        if (MU_NVML(nvml, mig_by_index, handle, i, &part) == NVML_OK && part && /* a free place is normal */
            look_at_part(nvml, index, part, &ret_parts[count]) == 0)
            count++;
    }
    return count;
}
