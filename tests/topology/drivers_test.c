/*
 * tests/topology/drivers_test.c: what NVML and the CUDA driver add to a node. Both are our fake ones (fake_nvml.c,
 * fake_cuda.c), no GPU is asked; the processors are hwloc's own, of a machine in words.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "describe.h"
#include "topology/node.h"
#include "tree.h"

#define WORDS "package:2 [numa] core:4 pu:1"

static char library[512];

/* The fake NVML tells these facts from now on: each look asks it in another process. */
static const char *telling(const char *name, const char *facts)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/facts", getenv("TMPDIR"));
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(facts, file);
    assert_int_equal(fclose(file), 0);
    setenv("MUSTER_FAKE_NVML", path, 1);
    snprintf(library, sizeof library, "%s/tests/topology/libfake_%s.so", getenv("BUILD"), name);
    return library;
}

/* Devices and links alone: the lines before the memory nodes, and the notes. */
static void expect(const char *name, const char *facts, const char *expected)
{
    struct muster_topology_source source = {.synthetic = WORDS, .nvml = telling(name, facts)};
    struct muster_topology *topology;
    char *text, *from, *to;

    assert_ok(muster_topology_load(&source, &topology));
    text = test_describe(topology);
    from = strstr(text, "\nnuma 0 package");
    assert_non_null(from++);
    to = strstr(from, "note: ");
    if (to)
        memmove(from, to, strlen(to) + 1);
    else
        *from = '\0';
    if (strcmp(text, expected) != 0)
        fail_msg("expected:\n%s\nis:\n%s", expected, text);
    free(text);
    muster_topology_free(topology);
}

#define GPU(bus, rest) "gpu 0000:" bus ":00.0 0x233010de\nname NVIDIA H100\ncapability 9 0\nmemory 1000\n" rest
#define SWITCHES(of)   "link 0 switch bad\nlink 1 switch bad\nlink 2 switch bad\nspeed 25000\n" of

TEST(gpus_are_added_where_nobody_else_tells_of_them)
{
    expect(
        "nvml",
        GPU("3b", "uuid GPU-b\nserial 7\nnuma 1\ncpus f0\n" SWITCHES("link 3 switch bad\n"))
            GPU("1a", "uuid GPU-a\nnuma 0\ncpus f\n" SWITCHES("")),
        "0000:1a:00.0 10de:2330/0000 numa 0 package 0 cpus 0-3 \"NVIDIA H100\" GPU-a 9.0 minor 1 memory 1000 by nvml\n"
        "0000:3b:00.0 10de:2330/0000 numa 1 package 1 cpus 4-7 \"NVIDIA H100\" GPU-b serial 7 9.0 minor 0 memory 1000 "
        "by nvml\n"
        "X NV3/75000\nNV3/75000 X\n"); /* as narrow as the narrower */
}

TEST(direct_links_connect_their_two_ends_alone)
{
    expect("nvml",
           GPU("01", "numa 0\nlink 0 gpu 0000:02:00.0\nlink 1 gpu 0000:02:00.0\nlink 2 gpu 0000:77:00.0\n")
               GPU("02", "numa 0\nlink 0 gpu 0000:01:00.0\nlink 1 gpu 0000:01:00.0\nlink 2 npu 0004:00:00.0\n")
                   GPU("03", "numa 1\nlink 0 npu 0004:00:00.0\n"),
           "0000:01:00.0 10de:2330/0000 numa 0 package 0 \"NVIDIA H100\" 9.0 minor 0 memory 1000 by nvml\n"
           "0000:02:00.0 10de:2330/0000 numa 0 package 0 \"NVIDIA H100\" 9.0 minor 1 memory 1000 by nvml\n"
           "0000:03:00.0 10de:2330/0000 numa 1 package 1 \"NVIDIA H100\" 9.0 minor 2 memory 1000 by nvml\n"
           "X NV2 SYS\nNV2 X SYS\nSYS SYS X\n");
}

/* An old driver does not say what is at the far end: a GPU has its address, what has none is a switch. */
TEST(what_the_far_end_is_need_not_be_told)
{
    expect("nvml_old",
           GPU("01", "link 0 gpu 0000:02:00.0\nlink 1 switch bad\n") GPU("02", "link 1 switch bad\n")
               GPU("03", "link 1 switch bad\n"),
           "0000:01:00.0 10de:2330/0000 \"NVIDIA H100\" 9.0 minor 0 memory 1000 by nvml\n"
           "0000:02:00.0 10de:2330/0000 \"NVIDIA H100\" 9.0 minor 1 memory 1000 by nvml\n"
           "0000:03:00.0 10de:2330/0000 \"NVIDIA H100\" 9.0 minor 2 memory 1000 by nvml\n"
           "X NV1 NV1\nNV1 X NV1\nNV1 NV1 X\n");
}

TEST(parts_stand_behind_their_gpu)
{
    expect("nvml",
           GPU("02", "numa 1\nslots 7\nmig 2 MIG-y 9 0 32 2 2 20096\nmig 5 MIG-x 3 0 16 1 1 9728\n")
               GPU("01", "numa 0\n"),
           "0000:01:00.0 10de:2330/0000 numa 0 package 0 \"NVIDIA H100\" 9.0 minor 1 memory 1000 by nvml\n"
           "0000:02:00.0 10de:2330/0000 numa 1 package 1 \"NVIDIA H100\" 9.0 minor 0 memory 1000 by nvml\n"
           "0000:02:00.0 PART of 1 instance 3 compute 0 10de:2330/0000 numa 1 package 1 \"NVIDIA H100\" MIG-x profile "
           "1g.10gb 9.0 minor 0 cores 16 memory 10200547328 by nvml\n"
           "0000:02:00.0 PART of 1 instance 9 compute 0 10de:2330/0000 numa 1 package 1 \"NVIDIA H100\" MIG-y profile "
           "2g.20gb 9.0 minor 0 cores 32 memory 21072183296 by nvml\n"
           "X SYS SYS SYS\nSYS X X X\nSYS X X X\nSYS X X X\n");
}

TEST(a_gpu_that_is_refused_or_lost_is_said)
{
    expect("nvml", GPU("01", "fail nvmlDeviceGetHandleByIndex_v2 4\n") GPU("02", "fail nvmlDeviceGetSerial 15\n"),
           "0000:02:00.0 10de:2330/0000 \"NVIDIA H100\" 9.0 minor 1 memory 1000 health -1 by nvml\n"
           "note: NVML: a GPU may not be looked at: no permission (which one is not told; its number is 0 in NVML)\n");
}

#define LIST(bus) "/proc/driver/nvidia/gpus/0000:" bus ":00.0/information"

/* Of a machine whose driver lists three GPUs; NVML tells these facts. */
static void expect_of_three(const char *facts, const char *expected)
{
    struct muster_topology_source source = {.nvml = telling("nvml", facts)};
    struct muster_topology *topology;
    char *text, *from;

    assert_int_equal(test_tree_begin(), 0);
    test_tree_file(LIST("01"), "Model: NVIDIA H100");
    test_tree_file(LIST("02"), "Model: NVIDIA H100");
    test_tree_file(LIST("03"), "Model: NVIDIA H100");
    source.root = test_tree;
    assert_ok(muster_topology_load(&source, &topology));
    text = test_describe(topology);
    from = strstr(text, "X ");
    assert_non_null(from);
    *from = '\0';
    for (size_t i = 0; muster_topology_note(topology, i); i++)
        if (strncmp(muster_topology_note(topology, i), "NVML", 4) == 0) {
            char *more;

            assert_true(asprintf(&more, "%s%s\n", text, muster_topology_note(topology, i)) > 0);
            free(text);
            text = more;
        }
    if (strcmp(text, expected) != 0)
        fail_msg("expected:\n%s\nis:\n%s", expected, text);
    free(text);
    muster_topology_free(topology);
    assert_int_equal(test_tree_end(), 0);
}

#define WELL(bus, by) "0000:" bus ":00.0 10de:0000/0000 \"NVIDIA H100\" 9.0 minor " by

/* NVML has no address for it, and may count on without it: the others' numbers are no longer theirs. */
TEST(a_gpu_that_is_lost_is_found_by_its_address)
{
    expect_of_three(
        GPU("01", "") GPU("02", "fail nvmlDeviceGetHandleByIndex_v2 15\n") GPU("03", ""),
        WELL("01", "0 memory 1000 by proc+nvml\n") "0000:02:00.0 10de:0000/0000 \"NVIDIA H100\" health -1 by "
                                                   "proc\n" WELL(
                                                       "03", "2 memory 1000 by proc+nvml\n") "NVML: 0000:02:00.0 may "
                                                                                             "not be looked at: it has "
                                                                                             "gone from the bus\n");
    expect_of_three(
        GPU("01", "") GPU("03", ""),
        WELL("01", "0 memory 1000 by proc+nvml\n") "0000:02:00.0 10de:0000/0000 \"NVIDIA H100\" health -1 by "
                                                   "proc\n" WELL(
                                                       "03",
                                                       "1 memory 1000 by proc+nvml\n") "NVML: 0000:02:00.0 is in the "
                                                                                       "driver's list, and NVML does "
                                                                                       "not count it: it is lost\n");
    /* one is refused, and two are not told of: which is which cannot be said */
    expect_of_three(GPU("01", "fail nvmlDeviceGetHandleByIndex_v2 15\n") GPU("02", ""),
                    "0000:01:00.0 10de:0000/0000 \"NVIDIA H100\" by proc\n" WELL(
                        "02", "1 memory 1000 by proc+nvml\n") "0000:03:00.0 10de:0000/0000 \"NVIDIA H100\" by proc\n"
                                                              "NVML: a GPU may not be looked at: it has gone from the "
                                                              "bus (which one is not told; its number is 0 "
                                                              "in NVML)\n");
}

TEST(a_fabric_is_told)
{
    expect("nvml", GPU("01", "fabric 2 000102030405060708090a0b0c0d0e0f 4294967295\n"),
           "0000:01:00.0 10de:2330/0000 \"NVIDIA H100\" fabric 00010203-0405-0607-0809-0a0b0c0d0e0f/4294967295 9.0 "
           "minor 0 "
           "memory 1000 by nvml\n");
}

#define PROCESSORS                                                                                                     \
    "CPU numa 0 package 0 cpus 0-3 cores 4 by hwloc\n"                                                                 \
    "CPU numa 1 package 1 cpus 4-7 cores 4 by hwloc\nX SYS\nSYS X\n"

TEST(a_library_that_does_not_serve_is_a_note)
{
    char expected[1024];

    expect("nvml", "crash nvmlDeviceGetCount_v2\n",
           PROCESSORS "note: NVML: asking it kills the process: signal 6 (ABRT)\n");
    expect("nvml", GPU("01", "") GPU("02", "hang nvmlDeviceGetUUID\n"), /* ten seconds */
           "0000:01:00.0 10de:2330/0000 \"NVIDIA H100\" 9.0 minor 0 memory 1000 by nvml\n"
           "note: NVML: no answer within 10 s\n");
    telling("nothing", "");
    snprintf(expected, sizeof expected, PROCESSORS "note: NVML: %s is not here\n", library);
    expect("nothing", "", expected);
}

/* What hwloc and the kernel have told of a GPU is kept where NVML does not know better. */
TEST(a_gpu_that_is_known_is_found_by_its_address)
{
    const struct mu_pci pci = {.domain = 0, .bus = 0x3b}, other = {.domain = 1, .bus = 0x3b};
    struct muster_topology_source source = {
        .nvml = telling("nvml", GPU("3b", "uuid GPU-b\nnuma 1\ncpus f0\nlink 0 gpu 0001:3b:00.0\n"))};
    struct mu_look look = {.source = &source};
    struct muster_topology *node = mu_node_new();
    struct muster_device *device = mu_node_add_device(node, MUSTER_DEVICE_GPU, &other);

    device = mu_node_add_device(node, MUSTER_DEVICE_GPU, &pci);
    device->numa_node = 0;
    device->cpus = "0-3";
    device->name = "GH100";
    device->pci_vendor = 0x10de;
    device->pci_device = 0x2331;
    mu_provider_nvml(node, &look);
    assert_int_equal(node->num_devices, 2);
    device = &node->devices[1];
    assert_string_equal(device->uuid, "GPU-b");
    assert_string_equal(device->name, "NVIDIA H100");
    assert_string_equal(device->cpus, "0-3");
    assert_int_equal(device->numa_node, 0);
    assert_int_equal(device->pci_device, 0x2331);
    assert_int_equal(node->num_wires, 1);
    assert_int_equal(node->wires[0].to, 0);
    muster_topology_free(node);
}

/* ---- CUDA -------------------------------------------------------------------------------------------------------- */

/* What a look with CUDA says of GPUs, and the notes: of this machine, whose own GPUs these would be. */
static void expect_cuda(const char *what, const char *expected)
{
    struct muster_topology_source source = {.ask_cuda = 1};
    struct mu_look look = {.source = &source};
    struct muster_topology *node = mu_node_new();
    const struct mu_pci pci = {.bus = 2};
    struct muster_device *device = mu_node_add_device(node, MUSTER_DEVICE_GPU, &pci);
    char *text;

    device->memory_bytes = 5;
    device = mu_node_add_device(node, MUSTER_DEVICE_GPU_PART, &pci);
    device->parent = 0;
    device->uuid = "MIG-00000000-0000-0000-0000-000000000003";
    setenv("MUSTER_FAKE_CUDA", what, 1);
    mu_provider_cuda(node, &look);
    mu_node_link(node);
    text = test_describe(node);
    text[strcspn(text, "X")] = '\0';
    if (strcmp(text, expected) != 0 && (!muster_topology_note(node, 0) || strcmp(node->notes[0], expected) != 0))
        fail_msg("%s: expected:\n%s\nis:\n%s%s", what, expected, text, node->num_notes ? node->notes[0] : "");
    free(text);
    muster_topology_free(node);
}

static void fake_cuda(void)
{
    char path[512];

    snprintf(path, sizeof path, "%s/tests/topology/libfake_cuda.so", getenv("BUILD"));
    setenv("MUSTER_CUDA", path, 1);
}

TEST(cuda_tells_its_numbers)
{
    fake_cuda();
    expect_cuda(
        "3",
        "0000:02:00.0 10de:0000/0000 \"Fake GPU 1\" GPU-00000000-0000-0000-0000-000000000002 9.0 ordinal 1 cores "
        "132 memory 5 by cuda\n"
        "0000:02:00.0 PART of 0 10de:0000/0000 \"Fake GPU 2\" MIG-00000000-0000-0000-0000-000000000003 9.0 ordinal "
        "2 cores 132 memory 3221225472 by cuda\n"
        "0000:01:00.0 10de:0000/0000 \"Fake GPU 0\" GPU-00000000-0000-0000-0000-000000000001 9.0 ordinal 0 cores "
        "132 memory 1073741824 by cuda\n");
}

TEST(each_way_in_which_cuda_does_not_serve_has_its_words)
{
    static const struct {
        const char *what, *note;
    } cases[] = {
        {"0", "CUDA: no device (100): CUDA_VISIBLE_DEVICES is '7'"},
        {"fail 3", "CUDA: it cannot be asked by a child of a process that has started it (3): ask before cuInit()"},
        {"fail 802", "CUDA: the NVLink fabric is not ready (802): is nvidia-fabricmanager running?"},
        {"fail 803", "CUDA: library and driver do not fit (803): restart after the driver's upgrade"},
        {"fail 999", "CUDA: cuInit fails (999): see NVRM lines in 'dmesg'; reload nvidia_uvm"},
        {"fail 46", "CUDA: cuInit fails (46)"},
        {"crash", "CUDA: asking it kills the process: signal 6 (ABRT)"},
    };
    char note[1024];

    fake_cuda();
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_cuda(cases[i].what, cases[i].note);
    snprintf(note, sizeof note,
             "CUDA: %s is the toolkit's stub (34), not the driver: take its folder out of LD_LIBRARY_PATH",
             getenv("MUSTER_CUDA"));
    expect_cuda("fail 34", note);
    setenv("MUSTER_CUDA", "/no/such.so", 1);
    expect_cuda("3", "CUDA: /no/such.so is not here");
    setenv("MUSTER_CUDA", "libdl.so.2", 1);
    expect_cuda("3", "CUDA: libdl.so.2 lacks functions: it is no CUDA driver");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(garbage_of_cuda_is_not_taken_over)
{
    fake_cuda();
    expect_cuda("garbage",
                "0000:02:00.0 memory 5\n0000:02:00.0 PART of 0 MIG-00000000-0000-0000-0000-000000000003\n"
                "GPU 10de:0000/0000 \"???????????????????????????????????????????????????????????????"
                "????????????????????????????????????????????????????????????????\" ordinal 0 memory 1073741824 "
                "by cuda\n");
}
