/*
 * topology/by_sysfs.c: accelerators as the PCI bus in sysfs shows them, and NVIDIA's driver in /proc.
 *
 * No library is needed for it. sysfs knows what hwloc's tree loses: domains beyond 16 bits, and the memory node where
 * that has several around a GPU. In a container it shows all of the machine's GPUs, while the driver's list in /proc
 * holds those that were handed in; so GPUs of NVIDIA that are not in this list, where there is one, are left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/files.h"

#define BUS  "/sys/bus/pci/devices"
#define GPUS "/proc/driver/nvidia/gpus"

enum {
    ENTRIES_MAX = 100000,
};

/* ---- the PCI bus ------------------------------------------------------------------------------------------------- */

/* The way from the host bridge ("pci0000:17/0000:17:00.0/..."); the device's folder is a link to it. */
static const char *sysfs_path_of(struct muster_topology *node, const char *name)
{
    char link[128], *real;
    const char *way = "";
    size_t length;

    snprintf(link, sizeof link, BUS "/%s", name);
    real = mu_file_real(node, link);
    if (!real)
        return "";
    length = strlen(real);
    if (length > strlen(name) && strcmp(real + length - strlen(name), name) == 0)
        for (const char *at = real + strlen(node->root); !*way && (at = strstr(at, "/pci")); at++)
            if (strcspn(at + 4, ":") < strcspn(at + 4, "/"))
                way = mu_node_text(node, "%s", at + 1);
    free(real);
    return way;
}

/* What only AMD's driver writes there. */
static void read_amd(struct muster_topology *node, struct muster_device *device)
{
    char text[256];
    int64_t number;

    if (mu_file_read(node, text, sizeof text, BUS "/%s/product_name", device->pci) > 0)
        device->name = mu_node_text(node, "%s", text);
    if (mu_file_read(node, text, sizeof text, BUS "/%s/serial_number", device->pci) > 0)
        device->serial = mu_node_text(node, "%s", text);
    if (mu_file_read(node, text, sizeof text, BUS "/%s/unique_id", device->pci) > 0)
        device->uuid = mu_node_text(node, "GPU-%016llx", strtoull(text, NULL, 16));
    if (mu_file_number(node, &number, BUS "/%s/mem_info_vram_total", device->pci) == 0 && number > 0)
        device->memory_bytes = (uint64_t)number;
}

/* 0 where the file is not there. */
static uint32_t read_id(struct muster_topology *node, const char *name, const char *file)
{
    int64_t number = 0;

    mu_file_number(node, &number, BUS "/%s/%s", name, file);
    return (uint32_t)number;
}

void mu_sysfs_describe(struct muster_topology *node, int32_t index)
{
    struct muster_device *device = &node->devices[index];
    const char *path = sysfs_path_of(node, device->pci);
    uint32_t vendor = read_id(node, device->pci, "vendor");
    char cpus[MU_FILE_MAX];
    int64_t numa;

    if (!vendor)
        return;
    device->sources |= MUSTER_SOURCE_SYSFS;
    device->pci_vendor = vendor;
    device->pci_device = read_id(node, device->pci, "device");
    device->pci_class = read_id(node, device->pci, "class") >> 8;
    device->vendor = mu_pci_vendor(vendor);
    if (*path)
        node->wheres[index].path = path;
    /* hwloc corrects firmwares that it knows to be wrong, and knows of GPUs beside one L3 cache */
    if (device->numa_node < 0 && mu_file_number(node, &numa, BUS "/%s/numa_node", device->pci) == 0 && numa >= 0 &&
        numa <= INT32_MAX)
        device->numa_node = (int32_t)numa;
    if (!*device->cpus && mu_file_read(node, cpus, sizeof cpus, BUS "/%s/local_cpulist", device->pci) > 0)
        device->cpus = mu_node_text(node, "%s", cpus);
    if (vendor == MU_VENDOR_AMD)
        read_amd(node, device);
}

static void look_at(struct muster_topology *node, const char *name)
{
    struct muster_device *device;
    struct mu_pci pci;
    uint32_t class;

    if (mu_pci_parse(name, &pci))
        return;
    class = read_id(node, name, "class") >> 8;
    if (class >> 8 != 0x03 && class >> 8 != 0x12) /* most of a server's devices: one file is enough for them */
        return;
    device = mu_node_find_device(node, &pci);
    if (!device && mu_pci_kind(&pci, read_id(node, name, "vendor"), class) == MU_PCI_ACCELERATOR)
        device = mu_node_add_device(node, MUSTER_DEVICE_GPU, &pci);
    if (device)
        mu_sysfs_describe(node, mu_node_index(node, device));
}

static void look_at_bus(struct muster_topology *node)
{
    DIR *folder = mu_file_folder(node, BUS);
    struct dirent *entry;

    if (!folder) {
        mu_node_note(node, "sysfs: %s" BUS " is not here", node->root);
        return;
    }
    for (int i = 0; i < ENTRIES_MAX && (entry = readdir(folder)); i++)
        look_at(node, entry->d_name);
    closedir(folder);
}

/* ---- NVIDIA's driver --------------------------------------------------------------------------------------------- */

static void read_nvidia(struct muster_topology *node, const char *name)
{
    char text[4096], value[256], *end;
    struct muster_device *device;
    struct mu_pci pci;
    long minor;

    if (mu_pci_parse(name, &pci))
        return;
    mu_file_read(node, text, sizeof text, GPUS "/%s/information", name);
    if (mu_file_value(text, "GPU Excluded", ":", value, sizeof value) && strcmp(value, "Yes") == 0) {
        mu_node_note(node, "sysfs: the driver excludes the GPU %s (NVreg_ExcludedGpus)", name);
        return;
    }
    device = mu_node_find_device(node, &pci);
    if (!device)
        device = mu_node_add_device(node, MUSTER_DEVICE_GPU, &pci);
    if (!device)
        return;
    device->sources |= MUSTER_SOURCE_NVIDIA_PROC;
    device->pci_vendor = MU_VENDOR_NVIDIA;
    device->vendor = mu_pci_vendor(MU_VENDOR_NVIDIA);
    if (mu_file_value(text, "Model", ":", value, sizeof value) && strcmp(value, "Unknown") != 0)
        device->name = mu_node_text(node, "%s", value);
    if (mu_file_value(text, "GPU UUID", ":", value, sizeof value) && !strchr(value, '?')) /* until it is first used */
        device->uuid = mu_node_text(node, "%s", value);
    if (mu_file_value(text, "Device Minor", ":", value, sizeof value)) {
        minor = strtol(value, &end, 10);
        if (end != value && !*end && minor >= 0 && minor <= INT32_MAX)
            device->minor = (int32_t)minor;
    }
}

/* Of NVIDIA's GPUs only those that the driver listed. */
static void leave_out_others(struct muster_topology *node)
{
    int32_t *order = malloc((node->num_devices + 1) * sizeof *order);
    size_t kept = 0, all = 0, listed = 0;

    if (!order) {
        node->failed = 1;
        return;
    }
    for (size_t i = 0; i < node->num_devices; i++) {
        const struct muster_device *device = &node->devices[i];
        int of_nvidia = device->pci_vendor == MU_VENDOR_NVIDIA, is_listed = device->sources & MUSTER_SOURCE_NVIDIA_PROC;

        all += (size_t)of_nvidia;
        listed += of_nvidia && is_listed;
        if (!of_nvidia || is_listed)
            order[kept++] = (int32_t)i;
    }
    if (listed < all) {
        mu_node_note(node, "sysfs: NVIDIA's driver offers %zu of the %zu GPUs on the PCI bus: the others are left out",
                     listed, all);
        mu_node_reorder(node, order, kept);
    }
    free(order);
}

static void look_at_driver(struct muster_topology *node)
{
    DIR *folder = mu_file_folder(node, GPUS);
    struct dirent *entry;

    if (!folder)
        return;
    for (int i = 0; i < ENTRIES_MAX && (entry = readdir(folder)); i++)
        read_nvidia(node, entry->d_name);
    closedir(folder);
    leave_out_others(node);
}

void mu_provider_sysfs(struct muster_topology *node, const struct mu_look *look)
{
    (void)look;
    mu_sysfs_machine(node);
    look_at_bus(node);
    look_at_driver(node);
}
