/*
 * launch/gpu.c: how many GPUs a job may use, without the help of a vendor's library.
 *
 * The driver's list in /proc comes first: in a container it holds those that were handed in, while sysfs shows all of
 * the machine's. Without a driver the NVIDIA display controllers on the PCI buses are counted (classes 0300 and 0302;
 * other vendors' are the machine's console). CUDA_VISIBLE_DEVICES is read as CUDA's
 * documentation has it: up to the first entry that names no GPU; of a UUID only its form is looked at.
 */
#include "launch/bind.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A number in a file of one line; 0: there is none. */
static unsigned long read_hex(const char *folder, const char *device, const char *name)
{
    char path[PATH_MAX], line[32];
    unsigned long value = 0;
    FILE *file;

    if (snprintf(path, sizeof path, "%s/%s/%s", folder, device, name) >= (int)sizeof path)
        return 0;
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fgets(line, sizeof line, file))
        value = strtoul(line, NULL, 16);
    fclose(file);
    return value;
}

static int is_gpu(const char *folder, const char *device)
{
    unsigned long class = read_hex(folder, device, "class") >> 8;

    return (class == 0x0300 || class == 0x0302) && read_hex(folder, device, "vendor") == 0x10de;
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

/* Entries up to the first that names no device: a number too high or below 0, or no name of a GPU or of a part of one.
 */
static uint32_t count_visible(const char *visible, uint32_t gpus)
{
    uint32_t count = 0;

    while (*visible) {
        size_t len = strcspn(visible, ",");
        char *end;

        if (isdigit((unsigned char)*visible)) {
            if (strtoul(visible, &end, 10) >= gpus || end != visible + len)
                break;
        } else if (strncmp(visible, "GPU-", 4) != 0 && strncmp(visible, "MIG-", 4) != 0) {
            break;
        }
        count++;
        visible += len;
        visible += *visible == ',';
    }
    return count;
}

uint32_t mu_launch_gpus(const char *root, const char *visible)
{
    int count = count_entries(root, "/proc/driver/nvidia/gpus", 0);

    if (count < 0)
        count = count_entries(root, "/sys/bus/pci/devices", 1);
    if (count < 0)
        count = 0;
    return visible ? count_visible(visible, (uint32_t)count) : (uint32_t)count;
}
