/*
 * tests/topology/hwloc_test.c: machines in hwloc's XML and words: accelerators, links, processors, memory.
 *
 * The machines of tests/topology/machines were written by hand, in hwloc's form: no such node exists.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "describe.h"

static const struct muster_topology_source *machine(const char *name)
{
    static struct muster_topology_source source;
    static char path[512];
    const char *top = getenv("TOP");

    snprintf(path, sizeof path, "%s/tests/topology/machines/%s.xml", top ? top : ".", name);
    source = (struct muster_topology_source){.hwloc_xml = path};
    return &source;
}

/* ---- accelerators ------------------------------------------------------------------------------------------------ */

/* Ten links to one switch and eight to the other; five of the last GPU's are down. The console is none. */
TEST(gpus_on_switches_reach_each_other_by_what_each_has_to_them)
{
    test_expect_topology(machine("switched"),
                         "0000:19:00.0 10de:2330/0302 numa 0 package 0 cpus 0-3 \"NVIDIA H100 80GB HBM3\" "
                         "GPU-00000000-1111-2222-3333-444444444444 serial 1650 by hwloc\n"
                         "0000:1a:00.0 10de:2330/0302 numa 0 package 0 cpus 0-3 \"NVIDIA H100 80GB HBM3\" "
                         "GPU-00000001-1111-2222-3333-444444444444 serial 1651 by hwloc\n"
                         "0000:9a:00.0 10de:2330/0302 numa 8 package 1 cpus 4-7 \"NVIDIA H100 80GB HBM3\" "
                         "GPU-00000002-1111-2222-3333-444444444444 serial 1652 cores 132 memory 85899345920 by hwloc\n"
                         "0000:bb:00.0 10de:2330/0302 numa 8 package 1 cpus 4-7 \"NVIDIA H100 80GB HBM3\" "
                         "GPU-00000003-1111-2222-3333-444444444444 serial 1653 by hwloc\n"
                         "X NV18/450000 NV18/450000 NV13/325000\n"
                         "NV18/450000 X NV18/450000 NV13/325000\n"
                         "NV18/450000 NV18/450000 X NV13/325000\n"
                         "NV13/325000 NV13/325000 NV13/325000 X\n"
                         "numa 0 package 0 cpus 0-3 memory 1099511627776\n"
                         "numa 8 package 1 cpus 4-7 memory 1099511627776\n");
}

/* The ES1000 and the Matrox are consoles; of AMD's cards with screens the one counts that a driver serves. */
TEST(makers_and_classes_decide_together_what_an_accelerator_is)
{
    test_expect_topology(
        machine("makers"),
        "0000:04:00.0 1002:744c/0300 numa 0 package 0 cpus 0-3 \"Radeon RX 7900 XTX\" GPU-cafe000000000002 by hwloc\n"
        "0000:05:00.0 1002:74a1/1200 numa 0 package 0 cpus 0-3 \"AMD Instinct MI300X\" GPU-cafe000000000000 serial 690 "
        "memory 206141652992 by hwloc\n"
        "0000:06:00.0 1002:74a1/1200 numa 0 package 0 cpus 0-3 \"AMD Instinct MI300X\" GPU-00fe000000000001 serial 691 "
        "memory 206141652992 by hwloc\n"
        "0000:07:00.0 8086:0bd5/0380 numa 0 package 0 cpus 0-3 \"Ponte Vecchio XL [Data Center GPU Max 1550]\" by "
        "hwloc\n"
        "0000:09:00.0 10de:2204/0300 numa 0 package 0 cpus 0-3 by hwloc\n"
        "X PHB PHB PHB PHB\n"
        "PHB X XGMI/64000 PHB PHB\n"
        "PHB XGMI/64000 X PHB PHB\n"
        "PHB PHB PHB X PHB\n"
        "PHB PHB PHB PHB X\n"
        "numa 0 package 0 cpus 0-3 memory 274877906944\n"
        "numa 1 package 0 GPUMemory memory 68719476736\n");
}

/* hwloc 1 writes a bridge's and a PCI device's address where others have a number: domain 0x35 is 55574528 there. */
TEST(an_export_of_hwloc_1_may_have_domains_of_pci_beyond_the_first_ten)
{
    test_expect_topology(machine("power9"), "0004:04:00.0 10de:1db1/0302 numa 0 package 0 cpus 8-9,12-13 by hwloc\n"
                                            "0004:05:00.0 10de:1db1/0302 numa 0 package 0 cpus 8-9,12-13 by hwloc\n"
                                            "0035:03:00.0 10de:1db1/0302 numa 8 package 1 cpus 96-97,100-101 by hwloc\n"
                                            "0035:04:00.0 10de:1db1/0302 numa 8 package 1 cpus 96-97,100-101 by hwloc\n"
                                            "X PIX SYS SYS\n"
                                            "PIX X SYS SYS\n"
                                            "SYS SYS X PIX\n"
                                            "SYS SYS PIX X\n"
                                            "numa 0 package 0 cpus 8-9,12-13 memory 137438953472\n"
                                            "numa 8 package 1 cpus 96-97,100-101 memory 137438953472\n");
}

TEST(makers_are_named)
{
    static const char *const vendors[] = {"Advanced Micro Devices, Inc", "Advanced Micro Devices, Inc",
                                          "Advanced Micro Devices, Inc", "Intel Corporation", "NVIDIA Corporation"};
    struct muster_topology *topology;

    assert_ok(muster_topology_load(machine("makers"), &topology));
    assert_int_equal(muster_topology_num_devices(topology), 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(muster_topology_device(topology, i)->vendor, vendors[i]);
    muster_topology_free(topology);
}

/* Each of the three also has NVLinks to the processor. */
TEST(without_a_switch_only_those_with_a_wire_between_them_are_connected)
{
    test_expect_topology(
        machine("row"),
        "0001:01:00.0 10de:15f9/0302 numa 0 package 0 cpus 0-1 \"Tesla P100-SXM2-16GB\" GPU-0 by hwloc\n"
        "0002:01:00.0 10de:15f9/0302 numa 0 package 0 cpus 0-1 \"Tesla P100-SXM2-16GB\" GPU-1 by hwloc\n"
        "0003:01:00.0 10de:15f9/0302 numa 0 package 0 cpus 0-1 \"Tesla P100-SXM2-16GB\" GPU-2 by hwloc\n"
        "X NV2/40000 NODE\n"
        "NV2/40000 X NV2/40000\n"
        "NODE NV2/40000 X\n"
        "numa 0 package 0 cpus 0-1 memory 17179869184\n");
}

/* ---- processors, in hwloc's words -------------------------------------------------------------------------------- */

TEST(without_an_accelerator_each_package_is_a_device)
{
    static const struct {
        const char *machine, *expected;
    } cases[] = {
        {"package:1 core:1 pu:1", "CPU numa 0 package 0 cpus 0 cores 1 memory 1073741824 by hwloc\n"
                                  "numa 0 package 0 cpus 0 memory 1073741824\n"},
        {"pu:3", "CPU numa 0 cpus 0-2 memory 1073741824 by hwloc\n" /* hwloc knows no package */
                 "numa 0 cpus 0-2 memory 1073741824\n"},
        {"package:2 [numa(indexes=0,8)] core:2 pu:2", "CPU numa 0 package 0 cpus 0-3 cores 2 by hwloc\n"
                                                      "CPU numa 8 package 1 cpus 4-7 cores 2 by hwloc\n"
                                                      "X SYS\n"
                                                      "SYS X\n"
                                                      "numa 0 package 0 cpus 0-3 memory 0\n"
                                                      "numa 8 package 1 cpus 4-7 memory 0\n"},
        {"package:1 group:2 [numa(memory=4096)] core:2 pu:1", /* no node is the package's own */
         "CPU package 0 cpus 0-3 cores 4 memory 8192 by hwloc\n"
         "numa 0 package 0 cpus 0-1 memory 4096\n"
         "numa 1 package 0 cpus 2-3 memory 4096\n"},
        {"[numa] package:2 core:1 pu:1", /* one node around both */
         "CPU numa 0 package 0 cpus 0 cores 1 by hwloc\n"
         "CPU numa 0 package 1 cpus 1 cores 1 by hwloc\n"
         "X NODE\n"
         "NODE X\n"
         "numa 0 cpus 0-1 memory 0\n"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        test_expect_topology(&(struct muster_topology_source){.synthetic = cases[i].machine}, cases[i].expected);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void expect_numa_levels(const struct muster_topology_source *source, size_t device, const char *expected)
{
    struct muster_topology *topology;
    char levels[128] = "", name[16];

    assert_ok(muster_topology_load(source, &topology));
    for (size_t i = 0; i <= muster_topology_num_numas(topology); i++)
        snprintf(levels + strlen(levels), sizeof levels - strlen(levels), "%s ",
                 muster_link_name(muster_topology_numa_link(topology, device, i), name, sizeof name));
    assert_string_equal(levels, expected);
    muster_topology_free(topology);
}

TEST(a_device_is_near_to_its_own_memory_node_alone)
{
    expect_numa_levels(machine("switched"), 1, "PHB SYS ? "); /* there is no third node */
    expect_numa_levels(machine("switched"), 2, "SYS PHB ? ");
    expect_numa_levels(machine("switched"), 4, "? ? ? "); /* nor a fifth device */
    expect_numa_levels(machine("makers"), 1, "PHB SYS ? ");
    expect_numa_levels(&(struct muster_topology_source){.synthetic = "package:2 group:2 [numa] pu:1"}, 0,
                       "PHB PHB SYS SYS ? ");
}

/* ---- places beyond the last -------------------------------------------------------------------------------------- */

TEST(what_is_not_there_is_said_so)
{
    struct muster_topology *topology;
    char name[16], small[3];

    assert_ok(muster_topology_load(machine("row"), &topology));
    assert_null(muster_topology_device(topology, 3));
    assert_null(muster_topology_numa(topology, 1));
    assert_null(muster_topology_note(topology, 0));
    assert_string_equal(muster_link_name(muster_topology_link(topology, 0, 3), name, sizeof name), "?");
    assert_string_equal(muster_link_name(muster_topology_link(topology, 3, 0), name, sizeof name), "?");
    assert_string_equal(muster_topology_host(topology), "");
    assert_string_equal(muster_topology_boot_id(topology), "");
    muster_topology_free(topology);
    muster_topology_free(NULL);
    assert_ok(muster_topology_load(machine("switched"), &topology));
    assert_string_equal(muster_topology_host(topology), "hgx");
    muster_topology_free(topology);
    assert_string_equal(muster_link_name((struct muster_link){.level = MUSTER_LINK_NVLINK}, name, sizeof name), "NV?");
    assert_string_equal(muster_link_name((struct muster_link){.level = 77}, name, sizeof name), "?");
    assert_string_equal(muster_link_name((struct muster_link){.level = MUSTER_LINK_NODE}, small, sizeof small), "NO");
}
