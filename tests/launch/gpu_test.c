/*
 * tests/launch/gpu_test.c: which GPUs a job may use, as the driver, the PCI buses and CUDA_VISIBLE_DEVICES and its like
 * tell.
 *
 * The trees are written here, in the form that the kernel and the driver give them.
 */
#include "cm.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu_machines.h"

static char root[256];

static void make_folder(const char *path)
{
    char whole[512];

    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(whole, 0700);
        *at = '/';
    }
    assert_int_equal(mkdir(whole, 0700), 0);
}

static void make_file(const char *folder, const char *name, const char *text)
{
    char whole[512];
    FILE *file;

    snprintf(whole, sizeof whole, "%s%s/%s", root, folder, name);
    file = fopen(whole, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    assert_int_equal(fclose(file), 0);
}

static void make_device(const char *address, const char *vendor, const char *class)
{
    char folder[128];

    snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%s", address);
    make_folder(folder);
    make_file(folder, "vendor", vendor);
    make_file(folder, "class", class);
}

static int begin(void)
{
    const char *folder = getenv("TMPDIR");

    snprintf(root, sizeof root, "%s/gpu.XXXXXX", folder ? folder : "/tmp");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static int end(void)
{
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Two H100, their switch and network card, an audio function, the console, and a GPU of another maker. */
static void make_buses(void)
{
    make_device("0000:18:00.0", "0x10de", "0x030200");
    make_device("0000:2a:00.0", "0x10de", "0x030000");
    make_device("0000:2a:00.1", "0x10de", "0x040300");
    make_device("0000:05:00.0", "0x10de", "0x068000");
    make_device("0000:19:00.0", "0x15b3", "0x020700");
    make_device("0000:03:00.0", "0x1a03", "0x030000");
    make_device("0000:c1:00.0", "0x1002", "0x038000");
}

TEST_WITH(a_machine_without_any_has_none, begin, end)
{
    assert_int_equal(mu_launch_gpus_seen(root), 0);
}

TEST_WITH(accelerators_of_the_makers_are_seen, begin, end)
{
    make_buses();
    assert_int_equal(mu_launch_gpus_seen(root), 3);
}

TEST_WITH(the_drivers_word_goes_before_the_buses, begin, end)
{
    make_buses();
    make_folder("/proc/driver/nvidia/gpus");
    make_folder("/proc/driver/nvidia/gpus/0000:18:00.0");
    assert_int_equal(mu_launch_gpus_seen(root), 1);
}

/* ---- what is hidden ---------------------------------------------------------------------------------------------- */

#define U0 "GPU-00000000-aaaa-bbbb-cccc-dddddddddddd"
#define U1 "GPU-00000001-aaaa-bbbb-cccc-dddddddddddd"
#define U3 "GPU-00000003-aaaa-bbbb-cccc-dddddddddddd"

static const struct {
    const struct test_node *node;
    const char *variables[4];
    const char *expected; /* devices, then notes */
} hidden[] = {
    {&test_pairs, {NULL}, "0 1 2 3\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES="}, "\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=0"}, "0\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=3,1"}, "3 1\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=1, 0"}, "1 0\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=0,"}, "0\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=-1"}, "\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=none"}, "\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=0x1"}, "\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=4"}, "\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=18446744073709551616"}, "\n"},
    {&test_pairs,
     {"CUDA_VISIBLE_DEVICES=0,2,-1,1"},
     "0 2\nCUDA_VISIBLE_DEVICES='0,2,-1,1' ends before '-1', which names no GPU more here: 2 left\n"},
    {&test_pairs,
     {"CUDA_VISIBLE_DEVICES=2,2,1"},
     "\nCUDA_VISIBLE_DEVICES='2,2,1' names '2' twice, and so shows no GPU at all\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=" U3 "," U0}, "3 0\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=GPU-00000003,GPU-00000000-a"}, "3 0\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=gpu-00000003-AAAA"}, "3\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=GPU-0000000"}, "\n"}, /* which of the four? */
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=GPU-"}, "\n"},
    {&test_pairs, {"CUDA_VISIBLE_DEVICES=" U0 "0"}, "\n"},
    {&test_unknown, {"ROCR_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=1"}, "0 1\n"}, /* another maker's */

    /* Parts: all of them unless something is named; a GPU stands for its first. */
    {&test_divided, {NULL}, "0 2 3 4 5\n"},
    {&test_divided, {"CUDA_VISIBLE_DEVICES=0,1,2"}, "0 2 5\n"},
    {&test_divided, {"CUDA_VISIBLE_DEVICES=" U1}, "2\n"},
    {&test_divided, {"CUDA_VISIBLE_DEVICES=MIG-33333333-aaaa-bbbb-cccc-dddddddddddd,0"}, "4 0\n"},
    {&test_divided, {"CUDA_VISIBLE_DEVICES=MIG-" U1 "/8/0,MIG-" U1 "/7/0"}, "3 2\n"},
    {&test_divided, {"CUDA_VISIBLE_DEVICES=MIG-" U1 "/8/1"}, "\n"},
    {&test_divided, {"CUDA_VISIBLE_DEVICES=MIG-" U0 "/8/0"}, "\n"},
    {&test_divided, {"CUDA_VISIBLE_DEVICES=MIG-3"}, "\n"},
    {&test_divided,
     {"CUDA_VISIBLE_DEVICES=1,MIG-11111111-aaaa-bbbb-cccc-dddddddddddd"},
     "2\nCUDA_VISIBLE_DEVICES='1,MIG-11111111-aaaa-bbbb-cccc-dddddddddddd' ends before "
     "'MIG-11111111-aaaa-bbbb-cccc-dddddddddddd', which names no GPU more here: 1 left\n"},

    /* Numbers of GPUs that are not alike are CUDA's secret, unless it was told. Another maker's are left out. */
    {&test_mixed, {NULL}, "0 1 3\n1 GPU of AMD is left out: tasks are given those of NVIDIA\n"},
    {&test_mixed,
     {"CUDA_VISIBLE_DEVICES=2"},
     "3\n1 GPU of AMD is left out: tasks are given those of NVIDIA\n"
     "the GPUs here are not alike, so the numbers in CUDA_VISIBLE_DEVICES may be others for CUDA than by PCI address, "
     "as they are read here; CUDA_DEVICE_ORDER=PCI_BUS_ID makes them the same, and UUIDs are certain\n"},
    {&test_mixed,
     {"CUDA_VISIBLE_DEVICES=2", "CUDA_DEVICE_ORDER=PCI_BUS_ID"},
     "3\n1 GPU of AMD is left out: tasks are given those of NVIDIA\n"},
    {&test_mixed, {"CUDA_VISIBLE_DEVICES=" U1}, "3\n1 GPU of AMD is left out: tasks are given those of NVIDIA\n"},

    /* Without UUIDs, by number. */
    {&test_nameless, {"CUDA_VISIBLE_DEVICES=2,0"}, "2 0\n"},
    {&test_nameless, {"CUDA_VISIBLE_DEVICES=GPU-"}, "\n"},

    /* ROCm's two, one after the other; CUDA's in HIP's stead. */
    {&test_reversed, {"ROCR_VISIBLE_DEVICES=4,3,2"}, "4 3 2\n"},
    {&test_reversed, {"ROCR_VISIBLE_DEVICES=4,3,2", "HIP_VISIBLE_DEVICES=2,0"}, "2 4\n"},
    {&test_reversed, {"ROCR_VISIBLE_DEVICES=4,3,2", "CUDA_VISIBLE_DEVICES=1"}, "3\n"},
    {&test_reversed, {"HIP_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1"}, "0\n"},
    {&test_reversed, {"ROCR_VISIBLE_DEVICES=GPU-00000000000000de"}, "7\n"},

    /* As a task of a job that was given some. */
    {&test_pairs, {"MUSTER_GPUS=" U3, NULL}, "0 1 2 3\n"},
    {&test_pairs, {"MUSTER_RUN_ID=1", "MUSTER_GPUS=" U3 "," U1, "CUDA_VISIBLE_DEVICES=0,1,2,3"}, "3 1\n"},
    {&test_nameless, {"MUSTER_RUN_ID=1", "MUSTER_GPUS=0000:11:00.0"}, "1\n"},
    {&test_divided, {"MUSTER_RUN_ID=1", "MUSTER_GPUS=MIG-33333333-aaaa-bbbb-cccc-dddddddddddd"}, "4\n"},
};

TEST(what_the_variables_hide_is_not_given_out)
{
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        char *variables[5] = {NULL}, *text = NULL;
        struct mu_launch_gpus *gpus;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        assert_non_null(out);
        memcpy(variables, hidden[i].variables, sizeof hidden[i].variables);
        gpus = test_gpus(hidden[i].node, variables);
        for (size_t n = 0; n < gpus->count; n++)
            fprintf(out, "%s%d", n ? " " : "", (int)gpus->list[n].device->index);
        putc('\n', out);
        for (unsigned n = 0; n < gpus->notes.count; n++)
            fprintf(out, "%s\n", gpus->notes.text[n]);
        fclose(out);
        if (strcmp(text, hidden[i].expected) != 0)
            fail_msg("row %zu (%s): %s", i, hidden[i].variables[0] ? hidden[i].variables[0] : "", text);
        free(text);
        mu_launch_gpus_free(gpus);
    }
}

TEST(why_there_are_none_is_said)
{
    char *variables[] = {"CUDA_VISIBLE_DEVICES=7", NULL}, why[400];
    struct mu_launch_gpus *gpus = test_gpus(&test_pairs, variables);
    struct test_node bare = {.machine = "core:1 pu:1", .numas = {{-1, NULL, NULL}}};

    mu_launch_gpus_lack(gpus, why, sizeof why);
    assert_string_equal(why, "CUDA_VISIBLE_DEVICES='7' leaves no GPU of 4");
    mu_launch_gpus_free(gpus);
    gpus = test_gpus(&bare, NULL);
    mu_launch_gpus_lack(gpus, why, sizeof why);
    assert_string_equal(why, "there is no GPU of NVIDIA or AMD here");
    mu_launch_gpus_free(gpus);
}
