/*
 * topology/by_kfd.c: AMD's accelerators, as their compute driver (KFD) shows them in sysfs.
 *
 * Its nodes are processors and GPUs; a GPU's says at which PCI address it is. A GPU that is partitioned (an MI300X in
 * up to eight) has several nodes: their addresses differ in the function, which no device on the bus has, or, with
 * earlier kernels, in the four highest bits. Those become parts of the GPU. Where the caller may not use a GPU the
 * kernel lets it read nothing of its node.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "topology/files.h"

#define NODES "/sys/class/kfd/kfd/topology/nodes"

enum {
    NODES_MAX = 512,
    LINKS_MAX = 512, /* of one node */
    TYPE_XGMI = 11,
    HEAP_PUBLIC = 1,
    HEAP_PRIVATE = 2,
};

struct kfd {
    int number; /* of the node */
    struct mu_pci pci;
    int32_t partition;
    int32_t gpu;    /* the device at its address */
    int32_t device; /* this or a part of it */
    uint64_t unique_id, simds, simds_per_unit, gfx, minor;
};

/* 0 where it is not told. */
static uint64_t kfd_property(const char *text, const char *key)
{
    char value[64];

    return mu_file_value(text, key, " ", value, sizeof value) ? strtoull(value, NULL, 10) : 0;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* 0, or -1: no GPU, or none that we may see. */
static int read_node(struct muster_topology *node, int number, struct kfd *ret_kfd)
{
    char text[MU_FILE_MAX];
    uint64_t location;

    if (mu_file_read(node, text, sizeof text, NODES "/%d/properties", number) <= 0 || !kfd_property(text, "simd_count"))
        return -1;
    location = kfd_property(text, "location_id");
    *ret_kfd = (struct kfd){
        .number = number,
        .pci = {.domain = (uint32_t)kfd_property(text, "domain"),
                .bus = (uint8_t)(location >> 8),
                .device = location >> 3 & 31,
                .function = location & 7},
        .partition = (int32_t)(location >> 28 & 15),
        .gpu = -1,
        .device = -1,
        .unique_id = kfd_property(text, "unique_id"),
        .simds = kfd_property(text, "simd_count"),
        .simds_per_unit = kfd_property(text, "simd_per_cu"),
        .gfx = kfd_property(text, "gfx_target_version"),
        .minor = kfd_property(text, "drm_render_minor"),
    };
    return 0;
}

static bool is_on_bus(struct muster_topology *node, const struct mu_pci *pci)
{
    char address[24];
    int64_t vendor;

    return mu_file_number(node, &vendor, "/sys/bus/pci/devices/%s/vendor",
                          mu_pci_print(pci, address, sizeof address)) == 0;
}

/* The device that it is, or is a part of. */
static void find_gpu(struct muster_topology *node, struct kfd *kfd)
{
    struct muster_device *device = mu_node_find_device(node, &kfd->pci);
    struct mu_pci whole = kfd->pci;

    whole.function = 0;
    if (!device && kfd->pci.function) {
        device = mu_node_find_device(node, &whole);
        if (device)
            kfd->partition = kfd->pci.function;
    }
    if (!device && is_on_bus(node, &kfd->pci)) { /* a graphics card, of which the bus does not say that it computes */
        device = mu_node_add_device(node, MUSTER_DEVICE_GPU, &kfd->pci);
        if (!device)
            return;
        device->pci_vendor = MU_VENDOR_AMD;
        device->vendor = mu_pci_vendor(MU_VENDOR_AMD);
        mu_sysfs_describe(node, mu_node_index(node, device));
        device = mu_node_find_device(node, &kfd->pci);
    }
    if (device)
        kfd->gpu = kfd->device = mu_node_index(node, device);
}

static uint64_t units_of(const struct kfd *kfd)
{
    return kfd->simds / (kfd->simds_per_unit ? kfd->simds_per_unit : 4);
}

static uint64_t read_memory(struct muster_topology *node, int number)
{
    uint64_t bytes = 0;
    char text[MU_FILE_MAX];

    for (int bank = 0; bank < 64; bank++) {
        uint64_t heap;

        if (mu_file_read(node, text, sizeof text, NODES "/%d/mem_banks/%d/properties", number, bank) <= 0)
            break;
        heap = kfd_property(text, "heap_type");
        if (heap == HEAP_PUBLIC || heap == HEAP_PRIVATE)
            bytes += kfd_property(text, "size_in_bytes");
    }
    return bytes;
}

static void kfd_fill(struct muster_topology *node, const struct kfd *kfd)
{
    struct muster_device *device = &node->devices[kfd->device];
    uint64_t bytes;
    char name[128];

    device->sources |= MUSTER_SOURCE_KFD;
    device->core_count = (int32_t)(units_of(kfd) & INT32_MAX);
    if (kfd->unique_id)
        device->uuid = mu_node_text(node, "GPU-%016llx", (unsigned long long)kfd->unique_id);
    if (kfd->gfx && kfd->gfx < 1000000) /* 90402: gfx942; 90010: gfx90a */
        device->compute_capability = mu_node_text(node, "gfx%u%u%x", (unsigned)(kfd->gfx / 10000),
                                                  (unsigned)(kfd->gfx / 100 % 100), (unsigned)(kfd->gfx % 100));
    if (kfd->minor && kfd->minor <= INT32_MAX)
        device->minor = (int32_t)kfd->minor;
    bytes = read_memory(node, kfd->number);
    if (bytes)
        device->memory_bytes = bytes;
    if (!*device->name && mu_file_read(node, name, sizeof name, NODES "/%d/name", kfd->number) > 0)
        device->name = mu_node_text(node, "%s", name);
}

/* Several nodes at one device are parts of it. */
static void device_split(struct muster_topology *node, struct kfd *kfds, size_t count, size_t which)
{
    struct kfd *kfd = &kfds[which];
    struct muster_device *part;
    const struct muster_device *gpu;
    uint64_t siblings = 0, units = 0;

    for (size_t i = 0; i < count; i++)
        if (kfds[i].gpu == kfd->gpu) {
            siblings++;
            units += units_of(&kfds[i]);
        }
    if (siblings < 2)
        return;
    node->devices[kfd->gpu].core_count = (int32_t)(units & INT32_MAX);
    node->devices[kfd->gpu].sources |= MUSTER_SOURCE_KFD;
    part = mu_node_add_device(node, MUSTER_DEVICE_GPU_PART, &kfd->pci);
    if (!part)
        return;
    gpu = &node->devices[kfd->gpu];
    part->parent = kfd->gpu;
    part->gpu_instance = kfd->partition;
    part->name = gpu->name;
    part->vendor = gpu->vendor;
    part->pci_vendor = gpu->pci_vendor;
    part->pci_device = gpu->pci_device;
    part->pci_class = gpu->pci_class;
    kfd->device = mu_node_index(node, part);
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

static void read_links(struct muster_topology *node, const struct kfd *kfds, size_t count, const struct kfd *from)
{
    char text[MU_FILE_MAX];

    for (int link = 0; link < LINKS_MAX; link++) {
        struct mu_wire wire = {.from = from->gpu, .to = MU_WIRE_ELSEWHERE, .level = MUSTER_LINK_XGMI};
        uint64_t to;

        if (mu_file_read(node, text, sizeof text, NODES "/%d/io_links/%d/properties", from->number, link) <= 0)
            break;
        if (kfd_property(text, "type") != TYPE_XGMI)
            continue;
        to = kfd_property(text, "node_to");
        for (size_t i = 0; i < count; i++)
            if ((uint64_t)kfds[i].number == to && kfds[i].gpu >= 0)
                wire.to = kfds[i].gpu;
        wire.bandwidth_mbs = kfd_property(text, "max_bandwidth");
        if (wire.to != wire.from)
            mu_node_add_wire(node, &wire);
    }
}

static bool has_amd(struct muster_topology *node)
{
    for (size_t i = 0; i < node->num_devices; i++)
        if (node->devices[i].pci_vendor == MU_VENDOR_AMD)
            return 1;
    return 0;
}

static void read_all(struct muster_topology *node, struct kfd *kfds)
{
    size_t count = 0;

    for (int number = 0; number < NODES_MAX; number++)
        if (read_node(node, number, &kfds[count]) == 0)
            find_gpu(node, &kfds[count++]);
    for (size_t i = 0; i < count; i++)
        if (kfds[i].gpu >= 0)
            device_split(node, kfds, count, i);
    for (size_t i = 0; i < count; i++)
        if (kfds[i].gpu >= 0) {
            kfd_fill(node, &kfds[i]);
            read_links(node, kfds, count, &kfds[i]);
        }
}

void mu_provider_kfd(struct muster_topology *node, const struct mu_look *look)
{
    DIR *folder = mu_file_folder(node, NODES);
    struct kfd *kfds;

    (void)look;
    if (!folder) {
        if (has_amd(node))
            mu_node_note(node, "KFD: %s" NODES " is not here: AMD's compute driver (amdgpu) is not loaded", node->root);
        return;
    }
    closedir(folder);
    kfds = calloc(NODES_MAX, sizeof *kfds);
    if (!kfds) {
        node->failed = 1;
        return;
    }
    read_all(node, kfds);
    free(kfds);
}
