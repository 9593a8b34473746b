/*
 * tests/topology/sysfs_test.c: machines read from the kernel's files alone: PCI, NVIDIA's driver in /proc, processors.
 *
 * The trees are written here, in the form that the kernel and the drivers give them.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "child.h"
#include "describe.h"
#include "topology/node.h"
#include "tree.h"

#define HWLOC_NOTE "note: hwloc: looks only at this machine, not below %s\n"

/* `expected` without hwloc's note, which comes first among the notes. */
static void expect_tree(const char *devices, const char *notes)
{
    struct muster_topology_source source = {.root = test_tree};
    char expected[4096], *real = realpath(test_tree, NULL);

    snprintf(expected, sizeof expected, "%s" HWLOC_NOTE "%s", devices, real, notes);
    test_expect_topology(&source, expected);
    free(real);
}

static void make_processors(void)
{
    static const int packages[] = {0, 0, 0, 0, 7, 7, 7, 7};

    test_tree_cpus(packages, 8, 1);
    test_tree_numa(0, "0-3", 1024);
    test_tree_numa(8, "4-7", 2048);
    test_tree_file("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon of a test\n");
    test_tree_file("/proc/sys/kernel/hostname", "node-of-a-test");
    test_tree_file("/proc/sys/kernel/random/boot_id", "01234567-89ab-cdef-0123-456789abcdef");
}

#define NUMAS                                                                                                          \
    "numa 0 package 0 cpus 0-3 memory 1048576\n"                                                                       \
    "numa 8 package 1 cpus 4-7 memory 2097152\n"

#define NV      0x10de, 0x2330, 0x0302
#define SWITCH1 "pci0000:16/0000:16:01.0/0000:17:00.0" /* upper port; a lower port to each device */

/* Six GPUs: two at one switch, one at another below the same root port's, and others further and further away. */
static void make_bus(void)
{
    test_tree_pci(&(struct test_pci){SWITCH1 "/0000:18:00.0", "0000:19:00.0", NV, 0, "0-3"});
    test_tree_pci(&(struct test_pci){SWITCH1 "/0000:18:01.0", "0000:1a:00.0", NV, 0, "0-3"});
    test_tree_pci(&(struct test_pci){SWITCH1 "/0000:18:02.0/0000:1b:00.0/0000:1c:00.0", "0000:1d:00.0", NV, 0, "0-3"});
    test_tree_pci(&(struct test_pci){"pci0000:16/0000:16:02.0", "0000:20:00.0", NV, 0, "0-3"});
    test_tree_pci(&(struct test_pci){"pci0000:30/0000:30:01.0", "0000:31:00.0", NV, 0, "0-3"});
    test_tree_pci(&(struct test_pci){"pci10000:00/10000:00:01.0", "10000:01:00.0", NV, 8, "4-7"});
}

TEST_WITH(levels_follow_from_the_ways_to_the_host_bridges, test_tree_begin, test_tree_end)
{
    make_processors();
    make_bus();
    expect_tree("0000:19:00.0 10de:2330/0302 numa 0 package 0 cpus 0-3 by sysfs\n"
                "0000:1a:00.0 10de:2330/0302 numa 0 package 0 cpus 0-3 by sysfs\n"
                "0000:1d:00.0 10de:2330/0302 numa 0 package 0 cpus 0-3 by sysfs\n"
                "0000:20:00.0 10de:2330/0302 numa 0 package 0 cpus 0-3 by sysfs\n"
                "0000:31:00.0 10de:2330/0302 numa 0 package 0 cpus 0-3 by sysfs\n"
                "10000:01:00.0 10de:2330/0302 numa 8 package 1 cpus 4-7 by sysfs\n" /* a domain of 17 bits */
                "X PIX PXB PHB NODE SYS\n"
                "PIX X PXB PHB NODE SYS\n"
                "PXB PXB X PHB NODE SYS\n"
                "PHB PHB PHB X NODE SYS\n"
                "NODE NODE NODE NODE X SYS\n"
                "SYS SYS SYS SYS SYS X\n" NUMAS,
                "");
}

TEST_WITH(what_is_no_accelerator_is_passed_over, test_tree_begin, test_tree_end)
{
    make_processors();
    test_tree_pci(&(struct test_pci){"pci0000:00/0000:00:01.0", "0000:02:00.0", 0x1a03, 0x2000, 0x0300, 0, "0-3"});
    test_tree_pci(&(struct test_pci){"pci0000:00/0000:00:02.0", "0000:03:00.0", 0x102b, 0x0536, 0x0300, 0, "0-3"});
    test_tree_pci(&(struct test_pci){"pci0000:00/0000:00:03.0", "0000:04:00.0", 0x1002, 0x515e, 0x0300, 0, "0-3"});
    test_tree_pci(&(struct test_pci){"pci0000:00/0000:00:04.0", "0000:05:00.0", 0x10de, 0x22a3, 0x0680, 0, "0-3"});
    test_tree_pci(&(struct test_pci){"pci0000:00/0000:00:05.0", "0000:06:00.1", 0x10de, 0x10f0, 0x0403, 0, "0-3"});
    test_tree_pci(&(struct test_pci){"pci0000:00", "0000:00:02.0", 0x8086, 0x4692, 0x0380, 0, "0-3"});
    test_tree_file("/sys/bus/pci/devices/teapot/vendor", "0x10de");
    expect_tree("CPU numa 0 package 0 cpus 0-3 \"Xeon of a test\" of GenuineIntel cores 2 memory 1048576 by sysfs\n"
                "CPU numa 8 package 1 cpus 4-7 \"Xeon of a test\" of GenuineIntel cores 2 memory 2097152 by sysfs\n"
                "X SYS\n"
                "SYS X\n" NUMAS,
                "");
}

TEST_WITH(a_memory_node_that_is_not_told_is_not_known, test_tree_begin, test_tree_end)
{
    make_processors();
    test_tree_pci(&(struct test_pci){"pci0000:16", "0000:16:00.0", NV, -1, "0-7"});
    test_tree_pci(&(struct test_pci){"pci0000:30", "0000:30:00.0", NV, 8, "4-7"});
    expect_tree("0000:16:00.0 10de:2330/0302 cpus 0-7 by sysfs\n"
                "0000:30:00.0 10de:2330/0302 numa 8 package 1 cpus 4-7 by sysfs\n"
                "X ?\n"
                "? X\n" NUMAS,
                "");
}

/* As in most virtual machines: the firmware says nothing, and there is no other place. */
TEST_WITH(the_only_memory_node_is_everybodys, test_tree_begin, test_tree_end)
{
    static const int packages[] = {0, 0};

    test_tree_cpus(packages, 2, 0);
    test_tree_numa(0, "0-1", 1024);
    test_tree_numa(1, "", 4096); /* of a GPU or CXL: it has no processors */
    test_tree_pci(&(struct test_pci){"pci0000:16", "0000:16:00.0", NV, -1, "0-1"});
    test_tree_pci(&(struct test_pci){"pci0000:30", "0000:30:00.0", NV, -1, "0-1"});
    expect_tree("0000:16:00.0 10de:2330/0302 numa 0 package 0 cpus 0-1 by sysfs\n"
                "0000:30:00.0 10de:2330/0302 numa 0 package 0 cpus 0-1 by sysfs\n"
                "X NODE\n"
                "NODE X\n"
                "numa 0 package 0 cpus 0-1 memory 1048576\n"
                "numa 1 memory 4194304\n",
                "");
}

/* ---- NVIDIA's driver --------------------------------------------------------------------------------------------- */

static void tell(const char *address, const char *model, const char *uuid, int minor, const char *excluded)
{
    char path[128];

    snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", address);
    test_tree_file(path,
                   "Model: \t\t %s\nIRQ:   \t\t 90\nGPU UUID: \t %s\nVideo BIOS: \t 96.00.61.00.01\nBus Type: \t PCIe\n"
                   "DMA Size: \t 52 bits\nBus Location: \t %s\nDevice Minor: \t %d\nGPU Excluded:\t %s",
                   model, uuid, address, minor, excluded);
}

TEST_WITH(the_driver_names_its_gpus, test_tree_begin, test_tree_end)
{
    make_processors();
    test_tree_pci(&(struct test_pci){"pci0000:16/0000:16:01.0", "0000:19:00.0", NV, 0, "0-3"});
    test_tree_pci(&(struct test_pci){"pci0000:30/0000:30:01.0", "0000:31:00.0", NV, 8, "4-7"});
    tell("0000:19:00.0", "NVIDIA H100 80GB HBM3", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 1, "No");
    tell("0000:31:00.0", "Unknown", "GPU-\?\?\?\?\?\?\?\?-\?\?\?\?-\?\?\?\?-\?\?\?\?-\?\?\?\?\?\?\?\?\?\?\?\?", 0,
         "No"); /* not used since boot */
    expect_tree("0000:19:00.0 10de:2330/0302 numa 0 package 0 cpus 0-3 \"NVIDIA H100 80GB HBM3\" "
                "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6 minor 1 by sysfs+proc\n"
                "0000:31:00.0 10de:2330/0302 numa 8 package 1 cpus 4-7 minor 0 by sysfs+proc\n"
                "X SYS\n"
                "SYS X\n" NUMAS,
                "");
}

/* As in a container: the bus shows all, the driver's list what was handed in. Another maker's GPU is not its affair. */
TEST_WITH(gpus_that_the_driver_does_not_offer_are_left_out, test_tree_begin, test_tree_end)
{
    make_processors();
    make_bus();
    test_tree_pci(&(struct test_pci){"pci0000:40/0000:40:01.0", "0000:41:00.0", 0x8086, 0x0bd5, 0x0380, 8, "4-7"});
    tell("0000:1d:00.0", "H100", "GPU-1", 2, "No");
    tell("0000:19:00.0", "H100", "GPU-2", 0, "Yes");
    expect_tree("0000:1d:00.0 10de:2330/0302 numa 0 package 0 cpus 0-3 \"H100\" GPU-1 minor 2 by sysfs+proc\n"
                "0000:41:00.0 8086:0bd5/0380 numa 8 package 1 cpus 4-7 by sysfs\n"
                "X SYS\n"
                "SYS X\n" NUMAS,
                "note: sysfs: the driver excludes the GPU 0000:19:00.0 (NVreg_ExcludedGpus)\n"
                "note: sysfs: NVIDIA's driver offers 1 of the 6 GPUs on the PCI bus: the others are left out\n");
}

TEST_WITH(a_driver_that_offers_none_leaves_the_processors, test_tree_begin, test_tree_end)
{
    make_processors();
    test_tree_pci(&(struct test_pci){"pci0000:16/0000:16:01.0", "0000:19:00.0", NV, 0, "0-3"});
    test_tree_file("/proc/driver/nvidia/gpus/none", "-");
    expect_tree("CPU numa 0 package 0 cpus 0-3 \"Xeon of a test\" of GenuineIntel cores 2 memory 1048576 by sysfs\n"
                "CPU numa 8 package 1 cpus 4-7 \"Xeon of a test\" of GenuineIntel cores 2 memory 2097152 by sysfs\n"
                "X SYS\n"
                "SYS X\n" NUMAS,
                "note: sysfs: NVIDIA's driver offers 0 of the 1 GPUs on the PCI bus: the others are left out\n");
}

TEST_WITH(a_gpu_that_only_the_driver_tells_of_counts, test_tree_begin, test_tree_end)
{
    test_tree_file("/sys/bus/pci/devices/teapot", "-");
    tell("0000:19:00.0", "NVIDIA H100 80GB HBM3", "GPU-3", 4, "No");
    expect_tree("0000:19:00.0 10de:0000/0000 \"NVIDIA H100 80GB HBM3\" GPU-3 minor 4 by proc\n", "");
}

/* ---- after hwloc ------------------------------------------------------------------------------------------------- */

TEST_WITH(what_hwloc_told_stays_and_what_it_did_not_is_added, test_tree_begin, test_tree_end)
{
    static const struct mu_look look;
    struct muster_topology *node = mu_node_new();
    char *real = realpath(test_tree, NULL);
    struct muster_device *one, *other;

    make_processors();
    make_bus();
    node->root = real;
    mu_node_add_device(node, MUSTER_DEVICE_GPU, &(struct mu_pci){.bus = 0x19})->numa_node = 8;
    mu_node_add_device(node, MUSTER_DEVICE_GPU, &(struct mu_pci){.bus = 0x1a});
    node->devices[0].cpus = "6-7"; /* the firmware is known to be wrong, or they share a cache */
    mu_provider_sysfs(node, &look);
    one = mu_node_find_device(node, &(struct mu_pci){.bus = 0x19});
    other = mu_node_find_device(node, &(struct mu_pci){.bus = 0x1a});
    assert_int_equal(node->num_devices, 6);
    assert_int_equal(one->numa_node, 8);
    assert_string_equal(one->cpus, "6-7");
    assert_int_equal(one->sources, MUSTER_SOURCE_SYSFS);
    assert_int_equal(one->pci_device, 0x2330);
    assert_int_equal(other->numa_node, 0);
    assert_string_equal(other->cpus, "0-3");
    muster_topology_free(node);
    free(real);
}

/* ---- files that are not as they should be ------------------------------------------------------------------------ */

TEST_WITH(damaged_files_tell_nothing, test_tree_begin, test_tree_end)
{
    static const char *const names[] = {"numa_node", "local_cpulist", "class", "device"};
    static const char *const texts[] = {"", "teapot", "-7", "99999999999999999999", "0-", "\x01\xff", "0x10de 0x10de"};
    char path[128];

    make_processors();
    test_tree_pci(&(struct test_pci){"pci0000:16/0000:16:01.0", "0000:19:00.0", NV, 0, "0-3"});
    test_tree_file("/proc/driver/nvidia/gpus/0000:19:00.0/information", "Model:\nGPU UUID\nDevice Minor: 1x\n: :\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
            struct muster_topology *topology;

            snprintf(path, sizeof path, "/sys/bus/pci/devices/0000:19:00.0/%s", names[j]);
            test_tree_file(path, "%s", texts[i]);
            test_tree_file("/sys/devices/system/node/online", "%s", texts[i]);
            test_tree_file("/sys/devices/system/cpu/cpu3/topology/physical_package_id", "%s", texts[i]);
            assert_ok(muster_topology_load(&(struct muster_topology_source){.root = test_tree}, &topology));
            assert_true(muster_topology_num_devices(topology) > 0);
            assert_int_equal(muster_topology_device(topology, 0)->minor, -1);
            free(test_describe(topology));
            muster_topology_free(topology);
        }
}

TEST(a_root_that_is_not_there_is_an_error)
{
    struct muster_topology_source source = {.root = "/nonexistent"};
    struct muster_topology *topology = NULL;

    assert_status(MUSTER_NOT_FOUND, muster_topology_load(&source, &topology));
    assert_says("cannot look below /nonexistent: No such file");
    assert_null(topology);
}

static int has_no_descriptors_left(void *arg)
{
    struct muster_topology *topology = NULL;
    struct rlimit none = {0, 0};

    (void)arg;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(muster_topology_load(&(struct muster_topology_source){.root = test_tree}, &topology) ==
          MUSTER_RESOURCE_EXHAUSTED);
    CHECK(!topology && strstr(muster_last_error(), "no file descriptor"));
    return 0;
}

TEST_WITH(a_node_that_cannot_be_read_whole_is_an_error, test_tree_begin, test_tree_end)
{
    make_processors();
    make_bus();
    assert_int_equal(test_in_child(has_no_descriptors_left, NULL), 0);
}

TEST_WITH(an_empty_folder_is_a_machine_without_anything, test_tree_begin, test_tree_end)
{
    struct muster_topology_source source = {.root = test_tree};
    struct muster_topology *topology;

    assert_ok(muster_topology_load(&source, &topology));
    assert_int_equal(muster_topology_num_devices(topology), 0);
    assert_int_equal(muster_topology_num_numas(topology), 0);
    assert_non_null(strstr(muster_topology_note(topology, 1), "/sys/bus/pci/devices is not here"));
    muster_topology_free(topology);
}

TEST_WITH(a_tree_knows_its_name_and_boot, test_tree_begin, test_tree_end)
{
    struct muster_topology *topology;

    make_processors();
    assert_ok(muster_topology_load(&(struct muster_topology_source){.root = test_tree}, &topology));
    assert_string_equal(muster_topology_host(topology), "node-of-a-test");
    assert_string_equal(muster_topology_boot_id(topology), "01234567-89ab-cdef-0123-456789abcdef");
    muster_topology_free(topology);
}

/* ---- without hwloc ----------------------------------------------------------------------------------------------- */

TEST(this_machine_is_the_same_without_hwloc)
{
    static const struct muster_topology_source here;
    struct mu_look look = {.source = &here, .library = "libhwloc.so.0"};
    struct muster_topology *with, *without;

    if (access("/sys/devices/system/cpu/cpu0/topology/physical_package_id", R_OK) != 0) {
        print_message("not tried: this machine's /sys does not tell its packages\n");
        skip();
    }
    assert_ok(muster_topology_load(&here, &with));
    assert_ok(mu_node_look(&look, &without));
    assert_non_null(strstr(muster_topology_note(without, 0), "hwloc: cannot load hwloc (libhwloc.so.0: "));
    assert_int_equal(muster_topology_num_devices(with), muster_topology_num_devices(without));
    for (size_t i = 0; i < muster_topology_num_devices(with); i++) {
        const struct muster_device *one = muster_topology_device(with, i), *other = muster_topology_device(without, i);

        assert_string_equal(one->pci, other->pci);
        assert_int_equal(one->package, other->package);
        assert_int_equal(one->numa_node, other->numa_node);
        assert_true(other->sources && !(other->sources & MUSTER_SOURCE_HWLOC));
        if (one->kind == MUSTER_DEVICE_CPU) {
            assert_string_equal(one->cpus, other->cpus);
            assert_int_equal(one->core_count, other->core_count);
        }
    }
    muster_topology_free(with);
    muster_topology_free(without);
}
