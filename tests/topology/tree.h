/*
 * tests/topology/tree.h: a folder with files of /sys and /proc as a kernel writes them, of a machine that a test makes
 * up.
 */
#ifndef TEST_TOPOLOGY_TREE_H
#define TEST_TOPOLOGY_TREE_H

#include <stdint.h>

/* cmocka's setup and teardown: an empty folder, gone afterwards. */
int test_tree_begin(void);
int test_tree_end(void);
extern char test_tree[256];

/* A file with a newline behind the text; folders on the way are made. */
void test_tree_file(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct test_pci {
    const char *way; /* from the host bridge to the last bridge, "pci0000:16/0000:16:01.0" */
    const char *address;
    uint32_t vendor, device, class; /* 0x0302 */
    int numa;
    const char *cpus;
};

void test_tree_pci(const struct test_pci *pci);
/* A line of text for each of `count` processors, by its package; two hardware threads a core where `are_pairs`. */
void test_tree_cpus(const int *packages, unsigned count, int are_pairs);
void test_tree_numa(int number, const char *cpus, unsigned long kib);

#endif
