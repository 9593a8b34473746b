/*
 * tests/topology/nvml_test.c: what is made of NVML's answers. The library is our fake one (fake_nvml.c), no GPU is
 * asked.
 *
 * Each case is a process of its own: a library that has been loaded stays so, and the fake reads its facts once.
 */
#include "cm.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "topology/nvml.h"

/* The vendor's layouts, in bytes, as its own header gives them. */
_Static_assert(offsetof(struct nvml_pci, domain) == 16 && offsetof(struct nvml_pci, device_id) == 28 &&
                   offsetof(struct nvml_pci, bus_id) == 36 && sizeof(struct nvml_pci) == 68,
               "PCI");
_Static_assert(sizeof(struct nvml_memory) == 24 && sizeof(struct nvml_memory_v2) == 40 &&
                   offsetof(struct nvml_memory_v2, total) == 8 && (NVML_MEMORY_V2 & 0xffffff) == 40,
               "memory");
_Static_assert(sizeof(struct nvml_fabric_v1) == 28 && offsetof(struct nvml_fabric_v1, state) == 24, "fabric v1");
_Static_assert(offsetof(struct nvml_fabric, cluster) == 4 && offsetof(struct nvml_fabric, clique) == 24 &&
                   offsetof(struct nvml_fabric, state) == 28 && offsetof(struct nvml_fabric, health_mask) == 32 &&
                   sizeof(struct nvml_fabric) == 40,
               "fabric v2, v3");
_Static_assert((NVML_FABRIC_V3 & 0xffffff) == 40 && (NVML_FABRIC_V2 & 0xffffff) == 36, "fabric versions");
_Static_assert(offsetof(struct nvml_event, type) == 8 && offsetof(struct nvml_event, data) == 16 &&
                   offsetof(struct nvml_event, gpu_instance) == 24 &&
                   offsetof(struct nvml_event, compute_instance) == 28 && sizeof(struct nvml_event) == 32,
               "events");
_Static_assert(sizeof(struct nvml_field) == 40 && offsetof(struct nvml_field, error) == 28 &&
                   offsetof(struct nvml_field, value) == 32,
               "fields");
_Static_assert(sizeof(struct nvml_attributes) == 40 && offsetof(struct nvml_attributes, memory_mib) == 32,
               "attributes");

static struct mu_nvml nvml;
static struct mu_nvml_device gpu, parts[MU_NVML_PARTS_MAX];
static char why[512];

/* The fake of this name, telling these facts. */
static int open_fake(const char *name, const char *facts)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/facts.%d", getenv("TMPDIR"), (int)getpid());
    file = fopen(path, "w");
    CHECK(file && fputs(facts, file) >= 0 && fclose(file) == 0);
    setenv("MUSTER_FAKE_NVML", path, 1);
    snprintf(path, sizeof path, "%s/tests/topology/libfake_%s.so", getenv("BUILD"), name);
    return mu_nvml_open(path, &nvml, why, sizeof why);
}

static size_t look(uint32_t index)
{
    nvml_device handle;

    mu_nvml_gpu(&nvml, index, &gpu, &handle);
    return mu_nvml_parts(&nvml, index, handle, parts);
}

#define H100                                                                                                           \
    "gpu 0000:3b:00.0 0x233010de\nname NVIDIA H100 80GB HBM3\nuuid GPU-8932f937-d72c-4106-c12f-20bd9faed9f6\n"         \
    "serial 1652123000001\nminor 3\nmemory 85520809984\ncapability 9 0\ncpus ff00000000\nnuma 1\n"

static int whole(void *arg)
{
    uint32_t count;

    CHECK(open_fake(arg, "driver 535.104.05\n" H100) == 0);
    CHECK(mu_nvml_count(&nvml, &count) == 0 && count == 1);
    CHECK(look(0) == 0 && gpu.refused == 0 && !gpu.is_lost && !gpu.is_part);
    CHECK(strcmp(gpu.pci, "0000:3b:00.0") == 0 && gpu.device_id == 0x233010de);
    CHECK(strcmp(gpu.name, "NVIDIA H100 80GB HBM3") == 0 && strcmp(gpu.serial, "1652123000001") == 0);
    CHECK(strcmp(gpu.uuid, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6") == 0);
    CHECK(gpu.minor == 3 && gpu.memory_bytes == 85520809984 && gpu.major_capability == 9 && gpu.minor_capability == 0);
    CHECK(gpu.cpus[0] == 0xff00000000 && gpu.cpus[1] == 0);
    CHECK(gpu.numa_node == (strcmp(arg, "nvml_old") == 0 ? -1 : 1)); /* an old driver cannot tell it */
    CHECK(gpu.num_wires == 0 && gpu.fabric[0] == 0 && gpu.multiprocessors == 0);
    return 0;
}

TEST(a_gpu_is_described)
{
    assert_int_equal(test_in_child(whole, "nvml"), 0);
}

TEST(an_old_driver_lacks_functions_and_tells_the_rest)
{
    assert_int_equal(test_in_child(whole, "nvml_old"), 0);
}

static int does_not_start(void *arg)
{
    CHECK(open_fake("nvml", arg) == NVML_DRIVER_NOT_LOADED);
    CHECK(strstr(why, "does not start: the driver is not loaded (9)"));
    CHECK(mu_nvml_open("/no/such/library.so", &nvml, why, sizeof why) == MU_NVML_ABSENT);
    CHECK(strcmp(why, "/no/such/library.so is not here") == 0);
    CHECK(mu_nvml_open("", &nvml, why, sizeof why) == MU_NVML_ABSENT && strcmp(why, "not asked") == 0);
    CHECK(mu_nvml_open("/proc/self/status", &nvml, why, sizeof why) == MU_NVML_BROKEN);
    return 0;
}

TEST(a_library_that_does_not_serve_says_why)
{
    assert_int_equal(test_in_child(does_not_start, "fail nvmlInitWithFlags 9\n"), 0);
}

static int starts_without_flags(void *arg)
{
    CHECK(open_fake("nvml", arg) == 0);
    CHECK(look(0) == 0 && gpu.memory_bytes == 5);
    return 0;
}

TEST(flags_that_are_refused_are_not_needed)
{
    assert_int_equal(test_in_child(starts_without_flags, "fail nvmlInitWithFlags 2\ngpu 0000:01:00.0\nmemory 5\n"), 0);
}

static int refused(void *arg)
{
    uint32_t count;

    CHECK(open_fake("nvml", arg) == 0);
    CHECK(mu_nvml_count(&nvml, &count) == 0 && count == 4);
    look(0);
    CHECK(gpu.refused == NVML_NO_PERMISSION && !gpu.is_lost && gpu.pci[0] == 0);
    look(1);
    CHECK(gpu.refused == NVML_OPERATING_SYSTEM && !gpu.is_lost);
    look(2);
    CHECK(gpu.refused == NVML_GPU_IS_LOST && gpu.is_lost);
    look(3);
    CHECK(gpu.refused == 0 && gpu.is_lost && strcmp(gpu.pci, "0000:04:00.0") == 0);
    return 0;
}

TEST(gpus_that_may_not_be_opened_or_are_lost_are_told_apart)
{
    static char facts[] = "gpu 0000:01:00.0\nfail nvmlDeviceGetHandleByIndex_v2 4\n"
                          "gpu 0000:02:00.0\nfail nvmlDeviceGetHandleByIndex_v2 17\n"
                          "gpu 0000:03:00.0\nfail nvmlDeviceGetHandleByIndex_v2 15\n"
                          "gpu 0000:04:00.0\nfail nvmlDeviceGetMemoryInfo_v2 15\nfail nvmlDeviceGetMemoryInfo 15\n";

    assert_int_equal(test_in_child(refused, facts), 0);
}

/* ---- NVLink ------------------------------------------------------------------------------------------------------ */

static int switched(void *arg)
{
    (void)arg;
    CHECK(look(0) == 0 && gpu.num_wires == 1);
    CHECK(gpu.wires[0].far == NVML_REMOTE_SWITCH && gpu.wires[0].lanes == 18 && gpu.wires[0].pci[0] == 0);
    CHECK(gpu.wires[0].bandwidth_mbs == 18 * 26562);
    look(1); /* direct, to two others; one link is down, one leads nowhere that is an address */
    CHECK(gpu.num_wires == 3);
    CHECK(gpu.wires[0].far == NVML_REMOTE_GPU && gpu.wires[0].lanes == 4);
    CHECK(strcmp(gpu.wires[0].pci, "0000:09:00.0") == 0 && gpu.wires[0].bandwidth_mbs == 0);
    CHECK(gpu.wires[1].lanes == 2 && strcmp(gpu.wires[1].pci, "0001:0a:00.0") == 0);
    CHECK(gpu.wires[2].far == NVML_REMOTE_UNKNOWN && gpu.wires[2].lanes == 1 && gpu.wires[2].pci[0] == 0);
    return 0;
}

static int links(void *arg)
{
    char facts[4096] = "gpu 0000:01:00.0\nspeed 26562\n";

    for (int i = 0; i < 18; i++) /* each switch has an address that is none */
        snprintf(facts + strlen(facts), 64, "link %d switch bad\n", i);
    snprintf(facts + strlen(facts), 1024,
             "gpu 0000:02:00.0\nlink 0 gpu 0000:09:00.0\nlink 1 gpu 0000:09:00.0\nlink 2 gpu 0000:09:00.0\n"
             "link 3 gpu 0000:09:00.0\nlink 4 down\nlink 5 gpu 0001:0a:00.0\nlink 6 gpu 0001:0a:00.0\n"
             "link 7 unknown bad\n");
    CHECK(open_fake("nvml", facts) == 0);
    return switched(arg);
}

TEST(nvlinks_are_counted_by_their_far_end)
{
    assert_int_equal(test_in_child(links, NULL), 0);
}

static int more_links(void *arg)
{
    char facts[4096] = "gpu 0000:01:00.0\n";

    for (int i = 0; i < 36; i++)
        snprintf(facts + strlen(facts), 64, "link %d switch 0000:05:00.0\n", i);
    CHECK(open_fake(arg, facts) == 0);
    look(0);
    CHECK(gpu.num_wires == 1 && gpu.wires[0].lanes == 36);
    if (strcmp(arg, "nvml_old") == 0) /* what is there is not told: its address is */
        CHECK(gpu.wires[0].far == NVML_REMOTE_UNKNOWN && strcmp(gpu.wires[0].pci, "0000:05:00.0") == 0);
    return 0;
}

/* Of every other one nothing is told; and of the ten behind those, before one that is not reached. */
static int links_with_gaps(void *arg)
{
    char facts[4096] = "gpu 0000:01:00.0\n";

    (void)arg;
    for (int i = 0; i < 36; i++)
        snprintf(facts + strlen(facts), 64, "link %d %s bad\n", i, i % 2 || (i > 24 && i < 35) ? "broken" : "switch");
    CHECK(open_fake("nvml", facts) == 0);
    look(0);
    CHECK(gpu.num_wires == 1 && gpu.wires[0].lanes == 13);
    return 0;
}

TEST(links_of_which_nothing_is_told_are_passed_over)
{
    assert_int_equal(test_in_child(links_with_gaps, NULL), 0);
}

TEST(as_many_links_as_there_are)
{
    assert_int_equal(test_in_child(more_links, "nvml"), 0);
    assert_int_equal(test_in_child(more_links, "nvml_old"), 0);
}

/* ---- the fabric -------------------------------------------------------------------------------------------------- */

#define CLUSTER "0123456789abcdef00112233445566ff"

static int fabric(void *arg)
{
    const char *facts = "gpu 0000:01:00.0\nfabric 3 " CLUSTER " 7\ngpu 0000:02:00.0\nfabric 2 " CLUSTER " 4294967295\n"
                        "gpu 0000:03:00.0\nfabric 1 " CLUSTER " 7\ngpu 0000:04:00.0\nfabric 3 " CLUSTER " 7 2\n"
                        "gpu 0000:05:00.0\nfabric 3 00000000000000000000000000000000 7\ngpu 0000:06:00.0\n";
    static const char *const expected[] = {"01234567-89ab-cdef-0011-2233445566ff/7",
                                           "01234567-89ab-cdef-0011-2233445566ff/4294967295",
                                           "01234567-89ab-cdef-0011-2233445566ff/7",
                                           "", /* it is not ready */
                                           "", /* it has no name: a machine of its own */
                                           ""};

    CHECK(open_fake(arg, facts) == 0);
    for (uint32_t i = 0; i < 6; i++) {
        look(i);
        if (strcmp(gpu.fabric, strcmp(arg, "nvml_old") == 0 ? "" : expected[i]) != 0) {
            fprintf(stderr, "GPU %u: '%s'\n", i, gpu.fabric);
            return 1;
        }
    }
    return 0;
}

TEST(a_fabric_is_asked_for_in_all_its_forms)
{
    assert_int_equal(test_in_child(fabric, "nvml"), 0);
    assert_int_equal(test_in_child(fabric, "nvml_old"), 0);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static int divided(void *arg)
{
    CHECK(open_fake("nvml", arg) == 0);
    CHECK(look(0) == 3);
    CHECK(strcmp(parts[0].uuid, "MIG-1111") == 0 && parts[0].gpu_instance == 7 && parts[0].compute_instance == 0);
    CHECK(parts[0].is_part && parts[0].multiprocessors == 16 && parts[0].memory_bytes == 9728ull << 20);
    CHECK(strcmp(parts[0].profile, "1g.10gb") == 0); /* from its name */
    CHECK(strcmp(parts[1].profile, "3g.40gb") == 0); /* by its slices */
    CHECK(strcmp(parts[2].profile, "1c.3g.40gb") == 0 && parts[2].compute_instance == 1);
    CHECK(look(1) == 0); /* may be divided, and is not */
    return 0;
}

TEST(parts_lie_in_any_place)
{
    static char facts[] = "gpu 0000:01:00.0\nname NVIDIA H100\nslots 7\nmig 1 MIG-1111 7 0 16 1 1 9728\n"
                          "name NVIDIA H100 MIG 1g.10gb\nmig 4 MIG-2222 2 0 60 3 3 40192\n"
                          "mig 5 MIG-3333 2 1 16 3 1 40192\nmig 6 MIG-4444 3 0 16 1 1 9728\n"
                          "fail nvmlDeviceGetUUID 2\n" /* it is taken away while we look */
                          "gpu 0000:02:00.0\n";

    assert_int_equal(test_in_child(divided, facts), 0);
}

/* ---- worse ------------------------------------------------------------------------------------------------------- */

static int garbage(void *arg)
{
    static const char *const functions[] = {"nvmlDeviceGetName",
                                            "nvmlDeviceGetUUID",
                                            "nvmlDeviceGetSerial",
                                            "nvmlDeviceGetPciInfo_v3",
                                            "nvmlDeviceGetMinorNumber",
                                            "nvmlDeviceGetMemoryInfo_v2",
                                            "nvmlDeviceGetNvLinkState",
                                            "nvmlDeviceGetFieldValues",
                                            "nvmlDeviceGetNvLinkRemotePciInfo_v2",
                                            "nvmlDeviceGetMigMode",
                                            "nvmlDeviceGetGpuFabricInfoV",
                                            "nvmlDeviceGetCudaComputeCapability",
                                            "nvmlDeviceGetMemoryAffinity",
                                            "nvmlDeviceGetMaxMigDeviceCount"};
    char facts[8192] = "gpu 0000:01:00.0\nslots 7\n"
                       "link 0 unknown bad\nfabric 3 " CLUSTER " 7\n";
    uint32_t count;

    (void)arg;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        snprintf(facts + strlen(facts), 64, "%s %s\n", "garbage", functions[i]);
    snprintf(facts + strlen(facts), 160,
             "mig 0 MIG-1 1 1 1 1 1 1\ngpu 0000:02:00.0\nslots 4294967295\ngarbage nvmlDeviceGetNvLinkState\n"
             "count 4294967295\n");
    CHECK(open_fake("nvml", facts) == 0);
    CHECK(mu_nvml_count(&nvml, &count) == 0 && count == MU_NVML_GPUS_MAX);
    look(0);
    CHECK(gpu.refused == 0 && gpu.pci[0] == 0 && gpu.minor == -1 && gpu.memory_bytes == 0 && gpu.major_capability == 0);
    CHECK(strlen(gpu.name) == NVML_TEXT_MAX - 1 && gpu.name[0] == '?' && gpu.num_wires == 0);
    CHECK(look(1) == 0 && gpu.num_wires == 0);
    look(63);
    CHECK(gpu.refused == NVML_INVALID_ARGUMENT);
    return 0;
}

TEST(garbage_is_not_taken_over)
{
    assert_int_equal(test_in_child(garbage, NULL), 0);
}

static int of_the_parent(void *arg)
{
    uint32_t count;

    (void)arg;
    CHECK(mu_nvml_count(&nvml, &count) == NVML_UNINITIALIZED && count == 0);
    look(0);
    CHECK(gpu.refused == NVML_UNINITIALIZED);
    CHECK(open_fake("nvml", "") == 0 && mu_nvml_count(&nvml, &count) == 0); /* for itself it may */
    return 0;
}

static int forks(void *arg)
{
    uint32_t count;
    int status;

    CHECK(open_fake("nvml", arg) == 0);
    CHECK(mu_nvml_enter(&nvml, 1) == 0); /* somebody is within a call while the process forks */
    status = test_in_child(of_the_parent, NULL);
    mu_nvml_leave();
    CHECK(mu_nvml_count(&nvml, &count) == 0 && count == 1);
    return status;
}

TEST(a_forked_child_starts_anew)
{
    assert_int_equal(test_in_child(forks, "gpu 0000:01:00.0\n"), 0);
}

TEST(addresses_are_written_as_sysfs_does)
{
    static const struct {
        const char *bus_id, *expected;
    } cases[] = {{"00000000:3B:00.0", "0000:3b:00.0"},
                 {"0001:0A:1F.7", "0001:0a:1f.7"},
                 {"00010000:E1:00.0", "10000:e1:00.0"},
                 {"FFFFFFFF:FF:1F.7", "ffffffff:ff:1f.7"},
                 {"", NULL},
                 {"0000:3b:00", NULL},
                 {"0000:3b:20.0", NULL},
                 {"0000:3b:00.0x", NULL},
                 {"0000:3b:00.8", NULL},
                 {"zz", NULL}};
    char pci[MU_NVML_PCI_MAX];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = mu_nvml_address(cases[i].bus_id, pci);

        assert_int_equal(rc, cases[i].expected ? 0 : -1);
        if (rc == 0)
            assert_string_equal(pci, cases[i].expected);
    }
}
