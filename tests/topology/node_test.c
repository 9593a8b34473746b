/*
 * tests/topology/node_test.c: PCI addresses, kinds of devices there, and a node that is put into another order.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "describe.h"
#include "topology/node.h"

TEST(addresses_are_read_in_every_notation)
{
    static const struct {
        const char *text, *expected; /* NULL: it is none */
    } cases[] = {
        {"0000:3b:00.0", "0000:3b:00.0"},
        {"00000000:3B:00.0", "0000:3b:00.0"},
        {"10000:e1:00.0", "10000:e1:00.0"},
        {"0:0:0.0", "0000:00:00.0"},
        {"0002:01:1f.7", "0002:01:1f.7"},
        {"ffffffff:ff:1f.7", "ffffffff:ff:1f.7"},
        {"", NULL},
        {"3b:00.0", NULL},
        {"0000:3b:20.0", NULL},
        {"0000:3b:00.8", NULL},
        {"0000:3b:00", NULL},
        {"0000:3b:00.0 ", NULL},
        {"0000:3b:00.00", NULL},
        {"000000000:3b:00.0", NULL},
        {"0000:3bb:00.0", NULL},
        {"0x00:3b:00.0", NULL},
        {"0000-3b-00.0", NULL},
        {":::.", NULL},
    };
    struct mu_pci pci;
    char text[24];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code = mu_pci_parse(cases[i].text, &pci);

        if (code != (cases[i].expected ? 0 : -1))
            fail_msg("'%s' gave %d", cases[i].text, code);
        if (cases[i].expected)
            assert_string_equal(mu_pci_print(&pci, text, sizeof text), cases[i].expected);
    }
}

TEST(vendor_and_class_decide_together)
{
    static const struct {
        uint32_t vendor, class;
        uint8_t bus;
        enum mu_pci_kind expected;
    } cases[] = {
        {0x10de, 0x0302, 1, MU_PCI_ACCELERATOR},
        {0x10de, 0x0300, 1, MU_PCI_ACCELERATOR},
        {0x10de, 0x0680, 1, MU_PCI_SWITCH},
        {0x10de, 0x0403, 1, MU_PCI_OTHER},
        {0x1002, 0x1200, 1, MU_PCI_ACCELERATOR},
        {0x1002, 0x0380, 1, MU_PCI_ACCELERATOR},
        {0x1002, 0x0302, 1, MU_PCI_ACCELERATOR},
        {0x1002, 0x0300, 1, MU_PCI_PERHAPS},
        {0x8086, 0x0380, 1, MU_PCI_ACCELERATOR},
        {0x8086, 0x0380, 0, MU_PCI_OTHER},
        {0x8086, 0x0300, 1, MU_PCI_OTHER},
        {0x8086, 0x0b40, 1, MU_PCI_OTHER},
        {0x1a03, 0x0300, 1, MU_PCI_OTHER},
        {0x102b, 0x0300, 1, MU_PCI_OTHER},
        {0, 0, 1, MU_PCI_OTHER},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mu_pci pci = {.bus = cases[i].bus};

        if (mu_pci_kind(&pci, cases[i].vendor, cases[i].class) != cases[i].expected)
            fail_msg("%04x:%04x is taken for another kind", cases[i].vendor, cases[i].class);
    }
}

/* A, B, C in that order, with wires A-B, B-C, C-switch, and a part of C. */
static struct muster_topology *make_node(void)
{
    static const struct mu_wire wires[] = {{0, 1, MUSTER_LINK_NVLINK, 2, 40},
                                           {1, 2, MUSTER_LINK_NVLINK, 4, 80},
                                           {2, MU_WIRE_SWITCH, MUSTER_LINK_NVLINK, 6, 9}};
    struct muster_topology *node = mu_node_new();

    assert_non_null(node);
    for (uint8_t i = 0; i < 3; i++)
        assert_non_null(mu_node_add_device(node, MUSTER_DEVICE_GPU, &(struct mu_pci){.bus = (uint8_t)(i + 1)}));
    mu_node_add_device(node, MUSTER_DEVICE_GPU_PART, &(struct mu_pci){.bus = 3})->parent = 2;
    for (size_t i = 0; i < sizeof wires / sizeof *wires; i++)
        mu_node_add_wire(node, &wires[i]);
    return node;
}

TEST(parents_and_wires_follow_their_devices)
{
    static const int32_t order[] = {2, 3, 0};
    struct muster_topology *node = make_node();

    assert_int_equal(mu_node_reorder(node, order, 3), 0);
    assert_int_equal(node->num_devices, 3);
    assert_string_equal(node->devices[0].pci, "0000:03:00.0");
    assert_int_equal(node->devices[1].parent, 0);
    assert_int_equal(node->devices[2].index, 2);
    assert_string_equal(node->devices[2].pci, "0000:01:00.0");
    assert_int_equal(node->num_wires, 2);
    assert_int_equal(node->wires[0].from, 2);
    assert_int_equal(node->wires[0].to, MU_WIRE_ELSEWHERE); /* the device at its end is gone */
    assert_int_equal(node->wires[1].from, 0);
    assert_int_equal(node->wires[1].to, MU_WIRE_SWITCH);
    for (uint8_t i = 10; i < 20; i++) /* and it can grow again */
        assert_non_null(mu_node_add_device(node, MUSTER_DEVICE_GPU, &(struct mu_pci){.bus = i}));
    assert_ptr_equal(mu_node_find_device(node, &(struct mu_pci){.bus = 3}), &node->devices[0]); /* not its part */
    assert_null(mu_node_find_device(node, &(struct mu_pci){.bus = 2}));
    assert_false(node->failed);
    muster_topology_free(node);
}

TEST(of_two_wires_with_the_same_ends_the_wider_counts)
{
    struct muster_topology *node = make_node();

    mu_node_add_wire(node, &(struct mu_wire){0, 1, MUSTER_LINK_NVLINK, 1, 999});
    mu_node_add_wire(node, &(struct mu_wire){1, 0, MUSTER_LINK_NVLINK, 3, 60});
    assert_int_equal(node->num_wires, 4);
    mu_node_link(node);
    assert_int_equal(muster_topology_link(node, 0, 1).lanes, 3); /* as the other end told */
    assert_int_equal(muster_topology_link(node, 1, 0).lanes, 3);
    assert_int_equal(muster_topology_link(node, 0, 1).bandwidth_mbs, 60);
    assert_int_equal(muster_topology_link(node, 0, 2).level, MUSTER_LINK_UNKNOWN); /* one end alone is at a switch */
    assert_int_equal(muster_topology_link(node, 1, 2).lanes, 4);
    assert_int_equal(muster_topology_link(node, 1, 3).level, MUSTER_LINK_UNKNOWN); /* no NVLink of a part */
    assert_int_equal(muster_topology_link(node, 2, 3).level, MUSTER_LINK_SELF);
    muster_topology_free(node);
}

/* As nvidia-smi has them. The way that both share, the rest of each, and where they lie. */
TEST(ways_on_pci_give_the_level)
{
#define PORT   "pci0000:17/0000:17:00.0/"
#define SWITCH PORT "0000:18:00.0/"
#define OTHER  "pci0000:34/0000:34:00.0/0000:35:00.0"
    static const struct {
        const char *a, *b;
        int32_t numas[2], packages[2];
        enum muster_link_level expected;
    } cases[] = {
        {PORT "0000:18:00.0", PORT "0000:18:00.1", {0, 0}, {0, 0}, MUSTER_LINK_PIX},
        {SWITCH "0000:19:00.0/0000:1a:00.0", SWITCH "0000:19:01.0/0000:1b:00.0", {0, 0}, {0, 0}, MUSTER_LINK_PIX},
        {SWITCH "0000:19:00.0/0000:1a:00.0",
         SWITCH "0000:19:01.0/0000:1b:00.0/0000:1c:00.0",
         {0, 0},
         {0, 0},
         MUSTER_LINK_PXB},
        {PORT "0000:18:00.0", "pci0000:17/0000:17:01.0/0000:1b:00.0", {0, 1}, {0, 1}, MUSTER_LINK_PHB},
        {PORT "0000:18:00.0", "pci0000:170/0000:17:00.0/0000:18:00.0", {0, 0}, {0, 0}, MUSTER_LINK_NODE},
        {PORT "0000:18:00.0", OTHER, {0, 0}, {0, 0}, MUSTER_LINK_NODE},
        {PORT "0000:18:00.0", OTHER, {0, 1}, {0, 0}, MUSTER_LINK_SYS},
        {PORT "0000:18:00.0", OTHER, {-1, 1}, {0, 1}, MUSTER_LINK_SYS},
        {PORT "0000:18:00.0", OTHER, {-1, -1}, {0, 0}, MUSTER_LINK_UNKNOWN},
        {"", "", {0, 0}, {0, 0}, MUSTER_LINK_NODE},
        {"", OTHER, {-1, 0}, {-1, 0}, MUSTER_LINK_UNKNOWN},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct muster_topology *node = mu_node_new();
        struct muster_link link;

        for (uint8_t k = 0; k < 2; k++) {
            struct muster_device *device = mu_node_add_device(node, MUSTER_DEVICE_GPU, &(struct mu_pci){.bus = k});

            assert_non_null(device);
            device->numa_node = cases[i].numas[k];
            device->package = cases[i].packages[k];
            node->wheres[k].path = k ? cases[i].b : cases[i].a;
        }
        mu_node_link(node);
        link = muster_topology_link(node, 0, 1);
        if (link.level != cases[i].expected || muster_topology_link(node, 1, 0).level != link.level)
            fail_msg("'%s' and '%s': level %d", cases[i].a, cases[i].b, (int)link.level);
        muster_topology_free(node);
    }
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

TEST(more_devices_than_a_node_can_have_are_left_out_and_said_so)
{
    const char *folder = getenv("TMPDIR");
    struct muster_topology_source source = {0};
    struct muster_topology *topology;
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/crowd.%d.xml", folder ? folder : "/tmp", (int)getpid());
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "<topology version=\"2.0\">\n  <object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" "
                  "complete_cpuset=\"0x1\" allowed_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" "
                  "allowed_nodeset=\"0x1\">\n    <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" "
                  "complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\" local_memory=\"1\"/>\n"
                  "    <object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
                  "complete_nodeset=\"0x1\"/>\n");
    for (unsigned i = 0; i < 1100; i++)
        fprintf(file,
                "    <object type=\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"%04x:[00-00]\">\n"
                "      <object type=\"PCIDev\" pci_busid=\"%04x:00:00.0\" pci_type=\"0302 [10de:2330] [0000:0000] a1\" "
                "pci_link_speed=\"0.000000\"/>\n    </object>\n",
                i, i);
    fprintf(file, "  </object>\n</topology>\n");
    assert_int_equal(fclose(file), 0);
    source.hwloc_xml = path;
    assert_ok(muster_topology_load(&source, &topology));
    unlink(path);
    assert_int_equal(muster_topology_num_devices(topology), 1024);
    assert_string_equal(muster_topology_note(topology, 0), "more than 1024 devices: the others are left out");
    assert_null(muster_topology_note(topology, 1));
    assert_int_equal(muster_topology_link(topology, 0, 1023).level, MUSTER_LINK_NODE);
    muster_topology_free(topology);
}

TEST(so_are_more_wires)
{
    struct muster_topology *node = make_node();

    for (int32_t i = 3; i < 16384; i++)
        mu_node_add_wire(node, &(struct mu_wire){i, i, MUSTER_LINK_NVLINK, 1, 1});
    assert_int_equal(node->num_wires, 16384);
    assert_null(muster_topology_note(node, 0));
    for (int i = 0; i < 2; i++)
        mu_node_add_wire(node, &(struct mu_wire){0, 2, MUSTER_LINK_NVLINK, 1, 1});
    assert_int_equal(node->num_wires, 16384);
    assert_string_equal(muster_topology_note(node, 0),
                        "more than 16384 links between devices: the others are left out");
    assert_null(muster_topology_note(node, 1));
    muster_topology_free(node);
}
