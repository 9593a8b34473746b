/*
 * tests/topology/kfd_test.c: AMD's accelerators by the files of their compute driver.
 *
 * The trees are written here, in the form that the kernel and the driver give them.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "describe.h"
#include "tree.h"

#define NODES "/sys/class/kfd/kfd/topology/nodes"

/* `devices`, then hwloc's note, then `notes`. */
static void expect_tree(const char *devices, const char *notes)
{
    struct muster_topology_source source = {.root = test_tree};
    char expected[4096], *real = realpath(test_tree, NULL);

    snprintf(expected, sizeof expected, "%snote: hwloc: looks only at this machine, not below %s\n%s", devices, real,
             notes);
    free(real);
    test_expect_topology(&source, expected);
}

static void make_cpu_node(int number)
{
    char path[256];

    snprintf(path, sizeof path, NODES "/%d/properties", number);
    test_tree_file(path, "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\nlocation_id 0\ndomain 0\nunique_id 0\n"
                         "simd_per_cu 0\ngfx_target_version 0\ndrm_render_minor 0\nhive_id 0");
    snprintf(path, sizeof path, NODES "/%d/gpu_id", number);
    test_tree_file(path, "0");
}

struct gpu_node {
    unsigned bus, function, partition, simds, gfx, minor;
    unsigned long long unique_id, memory;
};

static void make_gpu_node(int number, const struct gpu_node *gpu)
{
    unsigned location = gpu->bus << 8 | gpu->function | gpu->partition << 28;
    char path[256];

    snprintf(path, sizeof path, NODES "/%d/properties", number);
    test_tree_file(path,
                   "cpu_cores_count 0\nsimd_count %u\nmem_banks_count 1\ncaches_count 594\nio_links_count 1\n"
                   "simd_per_cu 4\ngfx_target_version %u\nvendor_id 4098\ndevice_id 29857\nlocation_id %u\ndomain 0\n"
                   "drm_render_minor %u\nhive_id 7890\nnum_xcc 8\nunique_id %llu\nlocal_mem_size 0",
                   gpu->simds, gpu->gfx, location, gpu->minor, gpu->unique_id);
    snprintf(path, sizeof path, NODES "/%d/name", number);
    test_tree_file(path, "ip discovery");
    snprintf(path, sizeof path, NODES "/%d/mem_banks/0/properties", number);
    test_tree_file(path, "heap_type 1\nsize_in_bytes %llu\nflags 0\nwidth 8192", gpu->memory);
}

static void make_link(int from, int index, int type, int to, unsigned bandwidth)
{
    char path[256];

    snprintf(path, sizeof path, NODES "/%d/io_links/%d/properties", from, index);
    test_tree_file(path,
                   "type %d\nversion_major 0\nversion_minor 0\nnode_from %d\nnode_to %d\nweight 15\nmin_latency 0\n"
                   "max_latency 0\nmin_bandwidth 50000\nmax_bandwidth %u\nflags 1",
                   type, from, to, bandwidth);
}

static void make_card(const char *address, uint32_t device, uint32_t class)
{
    char way[64];

    snprintf(way, sizeof way, "pci0000:00/0000:00:%.2s.0", address + 5); /* a root port of the bus's number */
    test_tree_pci(&(struct test_pci){way, address, 0x1002, device, class, 0, "0-1"});
}

static void make_processors(void)
{
    static const int packages[] = {0, 0};

    test_tree_cpus(packages, 2, 0);
    test_tree_numa(0, "0-1", 1024);
}

#define NUMA "numa 0 package 0 cpus 0-1 memory 1048576\n"

/* Two of three are connected; all have XGMI to the processor, which connects nothing. */
TEST_WITH(xgmi_connects_those_that_it_runs_between, test_tree_begin, test_tree_end)
{
    make_processors();
    make_card("0000:05:00.0", 0x74a1, 0x1200);
    make_card("0000:06:00.0", 0x74a1, 0x1200);
    make_card("0000:07:00.0", 0x74a1, 0x1200);
    test_tree_file("/sys/bus/pci/devices/0000:05:00.0/product_name", "AMD Instinct MI300X OAM");
    test_tree_file("/sys/bus/pci/devices/0000:05:00.0/serial_number", "692251001124");
    make_cpu_node(0);
    make_gpu_node(1, &(struct gpu_node){5, 0, 0, 1216, 90402, 128, 0xcafe000000000001, 206141652992});
    make_gpu_node(2, &(struct gpu_node){6, 0, 0, 1216, 90402, 136, 0xfe000000000002, 206141652992});
    make_gpu_node(3, &(struct gpu_node){7, 0, 0, 440, 90010, 144, 0, 68702699520});
    for (int i = 1; i <= 3; i++)
        make_link(i, 0, 11, 0, 36000);
    make_link(1, 1, 11, 2, 64000);
    make_link(2, 1, 11, 1, 64000);
    make_link(1, 2, 2, 3, 12000); /* over PCIe */
    expect_tree("0000:05:00.0 1002:74a1/1200 numa 0 package 0 cpus 0-1 \"AMD Instinct MI300X OAM\" "
                "GPU-cafe000000000001 serial 692251001124 gfx942 minor 128 cores 304 memory 206141652992 by sysfs+kfd\n"
                "0000:06:00.0 1002:74a1/1200 numa 0 package 0 cpus 0-1 \"ip discovery\" "
                "GPU-00fe000000000002 gfx942 minor 136 cores 304 memory 206141652992 by sysfs+kfd\n"
                "0000:07:00.0 1002:74a1/1200 numa 0 package 0 cpus 0-1 \"ip discovery\" "
                "gfx90a minor 144 cores 110 memory 68702699520 by sysfs+kfd\n"
                "X XGMI/64000 PHB\n"
                "XGMI/64000 X PHB\n"
                "PHB PHB X\n" NUMA,
                "");
}

/* What lies at no address of the bus is no device here, and no switch that all would reach each other through. */
TEST_WITH(xgmi_to_a_gpu_that_is_not_here_connects_nothing, test_tree_begin, test_tree_end)
{
    make_processors();
    make_card("0000:05:00.0", 0x74a1, 0x1200);
    make_card("0000:06:00.0", 0x74a1, 0x1200);
    make_cpu_node(0);
    make_gpu_node(1, &(struct gpu_node){5, 0, 0, 1216, 90402, 128, 0x11, 206});
    make_gpu_node(2, &(struct gpu_node){6, 0, 0, 1216, 90402, 136, 0x12, 206});
    make_gpu_node(3, &(struct gpu_node){7, 0, 0, 1216, 90402, 144, 0x13, 206});
    make_link(1, 0, 11, 3, 64000);
    make_link(2, 0, 11, 3, 64000);
    expect_tree("0000:05:00.0 1002:74a1/1200 numa 0 package 0 cpus 0-1 \"ip discovery\" "
                "GPU-0000000000000011 gfx942 minor 128 cores 304 memory 206 by sysfs+kfd\n"
                "0000:06:00.0 1002:74a1/1200 numa 0 package 0 cpus 0-1 \"ip discovery\" "
                "GPU-0000000000000012 gfx942 minor 136 cores 304 memory 206 by sysfs+kfd\n"
                "X PHB\n"
                "PHB X\n" NUMA,
                "");
}

/* Both are VGA cards by their class: the driver computes on one, the other is a console. */
TEST_WITH(a_graphics_card_counts_when_the_driver_computes_on_it, test_tree_begin, test_tree_end)
{
    make_processors();
    make_card("0000:03:00.0", 0x515e, 0x0300);
    make_card("0000:05:00.0", 0x744c, 0x0300);
    make_cpu_node(0);
    make_gpu_node(1, &(struct gpu_node){5, 0, 0, 384, 110000, 128, 0x1234, 25753026560});
    expect_tree("0000:05:00.0 1002:744c/0300 numa 0 package 0 cpus 0-1 \"ip discovery\" GPU-0000000000001234 gfx1100 "
                "minor 128 cores 96 memory 25753026560 by sysfs+kfd\n" NUMA,
                "");
}

#define PARTS(first)                                                                                                   \
    "0000:05:00.0 1002:74a1/1200 numa 0 package 0 cpus 0-1 cores 152 by sysfs+kfd\n"                                   \
    "0000:05:00.0 PART of 0 instance 0 1002:74a1/1200 numa 0 package 0 cpus 0-1 \"ip discovery\" "                     \
    "GPU-0000000000000011 gfx942 minor 128 cores 76 memory 51 by kfd\n" first                                          \
    " PART of 0 instance 1 1002:74a1/1200 numa 0 package 0 cpus 0-1 \"ip discovery\" "                                 \
    "GPU-0000000000000012 gfx942 minor 129 cores 76 memory 51 by kfd\n"                                                \
    "0000:06:00.0 1002:74a1/1200 numa 0 package 0 cpus 0-1 \"ip discovery\" "                                          \
    "GPU-0000000000000013 gfx942 minor 136 cores 304 memory 206 by sysfs+kfd\n"                                        \
    "X X X XGMI/64000\n"                                                                                               \
    "X X X XGMI/64000\n"                                                                                               \
    "X X X XGMI/64000\n"                                                                                               \
    "XGMI/64000 XGMI/64000 XGMI/64000 X\n" NUMA

TEST_WITH(a_gpu_in_partitions_is_parts_by_the_function_of_their_address, test_tree_begin, test_tree_end)
{
    make_processors();
    make_card("0000:05:00.0", 0x74a1, 0x1200);
    make_card("0000:06:00.0", 0x74a1, 0x1200);
    make_cpu_node(0);
    make_gpu_node(1, &(struct gpu_node){5, 0, 0, 304, 90402, 128, 0x11, 51});
    make_gpu_node(2, &(struct gpu_node){5, 1, 0, 304, 90402, 129, 0x12, 51});
    make_gpu_node(3, &(struct gpu_node){6, 0, 0, 1216, 90402, 136, 0x13, 206});
    make_link(1, 0, 11, 2, 99000); /* within the GPU */
    make_link(2, 0, 11, 3, 64000);
    expect_tree(PARTS("0000:05:00.1"), "");
}

TEST_WITH(or_by_the_highest_bits_of_it, test_tree_begin, test_tree_end)
{
    make_processors();
    make_card("0000:05:00.0", 0x74a1, 0x1200);
    make_card("0000:06:00.0", 0x74a1, 0x1200);
    make_cpu_node(0);
    make_gpu_node(1, &(struct gpu_node){5, 0, 0, 304, 90402, 128, 0x11, 51});
    make_gpu_node(2, &(struct gpu_node){5, 0, 1, 304, 90402, 129, 0x12, 51});
    make_gpu_node(3, &(struct gpu_node){6, 0, 0, 1216, 90402, 136, 0x13, 206});
    make_link(3, 0, 11, 1, 64000);
    expect_tree(PARTS("0000:05:00.0"), "");
}

/* A control group that forbids a GPU lets nothing be read of its node. */
TEST_WITH(nodes_that_cannot_be_read_are_passed_over, test_tree_begin, test_tree_end)
{
    make_processors();
    make_card("0000:05:00.0", 0x74a1, 0x1200);
    make_cpu_node(0);
    test_tree_file(NODES "/1/properties", "simd_count\nlocation_id 18446744073709551615\n:");
    test_tree_file(NODES "/1/gpu_id", "4711");
    test_tree_file(NODES "/3/properties", "simd_count 4\nlocation_id x\n"); /* at no address of the bus */
    make_link(3, 0, 11, 99, 1);
    make_gpu_node(200, &(struct gpu_node){5, 0, 0, 4, 4294967295, 4294967295, -1ull, -1ull});
    make_link(200, 0, 11, 99, 1);
    make_link(200, 1, 11, 200, 1);
    expect_tree("0000:05:00.0 1002:74a1/1200 numa 0 package 0 cpus 0-1 \"ip discovery\" GPU-ffffffffffffffff cores 1 "
                "memory 18446744073709551615 by sysfs+kfd\n" NUMA,
                "");
}

TEST_WITH(without_the_driver_a_note_says_so, test_tree_begin, test_tree_end)
{
    char note[512], *real = realpath(test_tree, NULL);

    make_processors();
    make_card("0000:05:00.0", 0x7408, 0x0380);
    snprintf(
        note, sizeof note,
        "note: KFD: %s/sys/class/kfd/kfd/topology/nodes is not here: AMD's compute driver (amdgpu) is not loaded\n",
        real);
    free(real);
    expect_tree("0000:05:00.0 1002:7408/0380 numa 0 package 0 cpus 0-1 by sysfs\n" NUMA, note);
}
