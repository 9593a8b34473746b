/* tests/topology/tree.c: a folder with files of /sys and /proc. */
#include "tree.h"

#include "cm.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char test_tree[256];

int test_tree_begin(void)
{
    const char *folder = getenv("TMPDIR");

    snprintf(test_tree, sizeof test_tree, "%s/tree.XXXXXX", folder ? folder : "/tmp");
    return mkdtemp(test_tree) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

int test_tree_end(void)
{
    return nftw(test_tree, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Below the tree, with the folders on the way. */
static void make_way(const char *path, char *whole, size_t size)
{
    snprintf(whole, size, "%s%s", test_tree, path);
    for (char *at = whole + strlen(test_tree) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(whole, 0700);
        *at = '/';
    }
}

void test_tree_file(const char *path, const char *format, ...)
{
    char whole[1024];
    va_list args;
    FILE *file;

    make_way(path, whole, sizeof whole);
    file = fopen(whole, "w");
    assert_non_null(file);
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fprintf(file, "\n");
    assert_int_equal(fclose(file), 0);
}

static void attribute(const char *folder, const char *name, const char *format, uint32_t value)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    test_tree_file(path, format, value);
}

void test_tree_pci(const struct test_pci *pci)
{
    char folder[256], path[512], link[512], target[512];

    snprintf(folder, sizeof folder, "/sys/devices/%s/%s", pci->way, pci->address);
    attribute(folder, "vendor", "0x%04x", pci->vendor);
    attribute(folder, "device", "0x%04x", pci->device);
    attribute(folder, "class", "0x%04x00", pci->class);
    attribute(folder, "numa_node", "%d", (uint32_t)pci->numa);
    snprintf(path, sizeof path, "%s/local_cpulist", folder);
    test_tree_file(path, "%s", pci->cpus);
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s", pci->address);
    make_way(path, link, sizeof link);
    snprintf(target, sizeof target, "../../../devices/%s/%s", pci->way, pci->address);
    assert_int_equal(symlink(target, link), 0);
}

void test_tree_cpus(const int *packages, unsigned count, int are_pairs)
{
    char path[128];

    test_tree_file("/sys/devices/system/cpu/online", "0-%u", count - 1);
    for (unsigned i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/physical_package_id", i);
        test_tree_file(path, "%d", packages[i]);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", i);
        if (are_pairs)
            test_tree_file(path, "%u-%u", i & ~1u, i | 1u);
        else
            test_tree_file(path, "%u", i);
    }
}

void test_tree_numa(int number, const char *cpus, unsigned long kib)
{
    static char online[256];
    char path[128];

    if (number == 0)
        online[0] = '\0';
    snprintf(online + strlen(online), sizeof online - strlen(online), "%s%d", *online ? "," : "", number);
    test_tree_file("/sys/devices/system/node/online", "%s", online);
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", number);
    test_tree_file(path, "%s", cpus);
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", number);
    test_tree_file(path, "Node %d MemTotal:       %lu kB\nNode %d MemFree:        12 kB", number, kib, number);
}
