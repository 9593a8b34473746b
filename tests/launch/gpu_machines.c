/* tests/launch/gpu_machines.c: nodes with GPUs, written by hand and made by the functions that providers use. */
#include "gpu_machines.h"

#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/binding/bind_private.h"
#include "topology/node.h"

#define NVIDIA 0x10de
#define AMD    0x1002

#define V100(n, node, cpus)                                                                                            \
    {                                                                                                                  \
        NVIDIA, node, cpus, "GPU-000000" #n "-aaaa-bbbb-cccc-dddddddddddd", "V100", -1, 0, -1                          \
    }
#define MI250(n, node, cpus)                                                                                           \
    {                                                                                                                  \
        AMD, node, cpus, "GPU-00000000000000" #n, "MI250X", -1, 0, 128 + 0x##n                                         \
    }
#define TO_SWITCH(gpu)                                                                                                 \
    {                                                                                                                  \
        gpu, -1, 6                                                                                                     \
    }

const struct test_node test_sixteen = {
    "package:2 [numa] core:16 pu:2",
    NULL,
    {{0, "0-31", ""}, {1, "32-63", ""}, {-1, NULL, NULL}},
    {V100(00, 0, "0-31"), V100(01, 0, "0-31"), V100(02, 0, "0-31"), V100(03, 0, "0-31"), V100(04, 0, "0-31"),
     V100(05, 0, "0-31"), V100(06, 0, "0-31"), V100(07, 0, "0-31"), V100(08, 1, "32-63"), V100(09, 1, "32-63"),
     V100(0a, 1, "32-63"), V100(0b, 1, "32-63"), V100(0c, 1, "32-63"), V100(0d, 1, "32-63"), V100(0e, 1, "32-63"),
     V100(0f, 1, "32-63")},
    {TO_SWITCH(0), TO_SWITCH(1), TO_SWITCH(2), TO_SWITCH(3), TO_SWITCH(4), TO_SWITCH(5), TO_SWITCH(6), TO_SWITCH(7),
     TO_SWITCH(8), TO_SWITCH(9), TO_SWITCH(10), TO_SWITCH(11), TO_SWITCH(12), TO_SWITCH(13), TO_SWITCH(14),
     TO_SWITCH(15)},
};

/* As the boards with four of two GPUs each: each half has its own eight cores. */
const struct test_node test_reversed = {
    "package:1 group:4 [numa] core:4 pu:1",
    NULL,
    {{0, "0-3", ""}, {1, "4-7", ""}, {2, "8-11", ""}, {3, "12-15", ""}, {-1, NULL, NULL}},
    {MI250(c1, 3, "12-13"), MI250(c6, 3, "14-15"), MI250(c9, 1, "4-5"), MI250(ce, 1, "6-7"), MI250(d1, 0, "0-1"),
     MI250(d6, 0, "2-3"), MI250(d9, 2, "8-9"), MI250(de, 2, "10-11")},
    {{0, 1, 4}, {2, 3, 4}, {4, 5, 4}, {6, 7, 4}, {1, 2, 1}, {3, 4, 1}},
};

const struct test_node test_sparse = {
    "package:2 [numa(indexes=0,8)] core:4 pu:1",
    NULL,
    {{0, "0-3", ""}, {8, "4-7", ""}, {252, "", "GPUMemory"}, {253, "", "GPUMemory"}, {-1, NULL, NULL}},
    {V100(00, 0, "0-3"), V100(01, 8, "4-7")},
    {{0, 0, 0}},
};

const struct test_node test_unknown = {
    "package:1 [numa] core:4 pu:1",       NULL,        {{0, "0-3", ""}, {-1, NULL, NULL}},
    {V100(00, -1, ""), V100(01, -1, "")}, {{0, 0, 0}},
};

const struct test_node test_divided = {
    "package:2 [numa] core:4 pu:1",
    NULL,
    {{0, "0-3", ""}, {1, "4-7", ""}, {-1, NULL, NULL}},
    {V100(00, 0, "0-3"),
     V100(01, 1, "4-7"),
     {NVIDIA, 1, "4-7", "MIG-11111111-aaaa-bbbb-cccc-dddddddddddd", "V100 MIG 1g.5gb", 1, 7, -1},
     {NVIDIA, 1, "4-7", "MIG-22222222-aaaa-bbbb-cccc-dddddddddddd", "V100 MIG 1g.5gb", 1, 8, -1},
     {NVIDIA, 1, "4-7", "MIG-33333333-aaaa-bbbb-cccc-dddddddddddd", "V100 MIG 1g.5gb", 1, 9, -1},
     V100(02, 1, "4-7")},
    {{0, 0, 0}},
};

const struct test_node test_mixed = {
    "package:1 [numa] core:4 pu:1",
    NULL,
    {{0, "0-3", ""}, {-1, NULL, NULL}},
    {V100(00, 0, "0-3"),
     {NVIDIA, 0, "0-3", "GPU-0000ffff-aaaa-bbbb-cccc-dddddddddddd", "T4", -1, 0, -1},
     MI250(c1, 0, "0-3"),
     V100(01, 0, "0-3")},
    {{0, 0, 0}},
};

const struct test_node test_nameless = {
    "package:1 [numa] core:4 pu:1",
    NULL,
    {{0, "0-3", ""}, {-1, NULL, NULL}},
    {{NVIDIA, 0, "0-3", "", "V100", -1, 0, -1},
     {NVIDIA, 0, "0-3", "", "V100", -1, 0, -1},
     {NVIDIA, 0, "0-3", "", "V100", -1, 0, -1}},
    {{0, 0, 0}},
};

const struct test_node test_pairs = {
    "package:2 [numa] core:2 pu:1",
    NULL,
    {{0, "0-1", ""}, {1, "2-3", ""}, {-1, NULL, NULL}},
    {V100(00, 0, "0-1"), V100(01, 0, "0-1"), V100(02, 1, "2-3"), V100(03, 1, "2-3")},
    {{0, 3, 2}, {1, 2, 2}, {0, 1, 1}, {2, 3, 1}},
};

const struct test_node test_torn = {
    "package:2 [numa] core:2 pu:1",
    NULL,
    {{0, "0-1", ""}, {1, "2-3", ""}, {-1, NULL, NULL}},
    {V100(00, 0, "0-1"), V100(01, 0, "0-1"), V100(02, 1, "2-3"), V100(03, 1, "2-3")},
    {{0, 1, 3}, {0, 2, 2}, {1, 3, 2}},
};

/* ---- making them ------------------------------------------------------------------------------------------------- */

static void add_gpu(struct muster_topology *node, const struct test_gpu *gpu, uint8_t bus)
{
    struct mu_pci pci = {.bus = bus};
    struct muster_device *device =
        mu_node_add_device(node, gpu->of < 0 ? MUSTER_DEVICE_GPU : MUSTER_DEVICE_GPU_PART, &pci);

    assert_non_null(device);
    device->pci_vendor = gpu->of < 0 ? gpu->vendor : 0;
    device->pci_device = (uint32_t)gpu->name[0];
    device->numa_node = gpu->numa;
    device->cpus = gpu->cpus;
    device->uuid = gpu->uuid;
    device->name = gpu->name;
    device->minor = gpu->minor;
    device->parent = gpu->of;
    device->gpu_instance = gpu->of < 0 ? -1 : gpu->instance;
    device->compute_instance = gpu->of < 0 ? -1 : 0;
    device->sources = MUSTER_SOURCE_HWLOC;
}

struct muster_topology *test_topology(const struct test_node *from)
{
    struct muster_topology *node = mu_node_new();

    assert_non_null(node);
    for (const struct test_numa *numa = from->numas; numa->number >= 0; numa++) {
        struct muster_numa *added = mu_node_add_numa(node, numa->number);

        assert_non_null(added);
        added->cpus = numa->cpus;
        added->kind = numa->kind;
    }
    for (int i = 0; i < 24 && from->gpus[i].vendor; i++)
        add_gpu(node, &from->gpus[i], (uint8_t)(0x10 + i));
    for (const struct test_wire *wire = from->wires; wire->from || wire->to; wire++)
        mu_node_add_wire(node,
                         &(struct mu_wire){wire->from, wire->to < 0 ? MU_WIRE_SWITCH : wire->to,
                                           from->gpus[wire->from].vendor == AMD ? MUSTER_LINK_XGMI : MUSTER_LINK_NVLINK,
                                           wire->lanes, 0});
    mu_node_link(node);
    assert_false(node->failed);
    return node;
}

struct mu_launch_gpus *test_gpus(const struct test_node *node, char *const *variables)
{
    struct mu_launch_gpus *gpus = NULL;
    char why[200] = "";

    if (mu_launch_gpus_of(test_topology(node), variables, &gpus, why, sizeof why))
        fail_msg("%s", why);
    return gpus;
}

struct mu_launch_machine *test_machine(const struct test_node *node)
{
    struct mu_launch_source source = {.synthetic = node->machine, .allowed_size = 256};
    struct mu_launch_machine *machine = NULL;
    cpu_set_t *set = mu_cpus_new(256);
    char why[200] = "";

    assert_non_null(set);
    if (node->allowed) {
        assert_int_equal(mu_cpus_parse(node->allowed, set, 256), 0);
        source.allowed = set;
    }
    if (mu_launch_machine_load(&source, &machine, why, sizeof why))
        fail_msg("%s: %s", node->machine, why);
    CPU_FREE(set);
    return machine;
}
