/*
 * tests/launch/gpu_test.c: GPUs are counted as the driver, the PCI buses and CUDA_VISIBLE_DEVICES tell of them.
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

#include "launch/bind.h"

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

static int begin(void **state)
{
    const char *folder = getenv("TMPDIR");

    (void)state;
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

static int end(void **state)
{
    (void)state;
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

static void a_machine_without_any_has_none(void **state)
{
    (void)state;
    assert_int_equal(mu_launch_gpus(root, NULL), 0);
    assert_int_equal(mu_launch_gpus(root, "0,1"), 0);
}

static void display_controllers_of_one_maker_count(void **state)
{
    (void)state;
    make_buses();
    assert_int_equal(mu_launch_gpus(root, NULL), 2);
}

static void the_drivers_word_goes_before_the_buses(void **state)
{
    (void)state;
    make_buses();
    make_folder("/proc/driver/nvidia/gpus");
    assert_int_equal(mu_launch_gpus(root, NULL), 0); /* none was handed into this container */
    make_folder("/proc/driver/nvidia/gpus/0000:18:00.0");
    assert_int_equal(mu_launch_gpus(root, NULL), 1);
}

static void those_that_cuda_is_told_to_see_count(void **state)
{
    static const struct {
        const char *visible;
        uint32_t expected;
    } cases[] = {
        {"", 0},
        {"0", 1},
        {"1,0", 2},
        {"0,1,2", 2}, /* there is no third: it and what follows are not seen */
        {"2,0", 0},
        {"0,-1,1", 1},
        {"-1", 0},
        {"none", 0},
        {"0x1", 0},
        {"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 1},
        {"MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0,MIG-1", 2},
        {"0,", 1},
    };

    (void)state;
    make_buses();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (mu_launch_gpus(root, cases[i].visible) != cases[i].expected)
            fail_msg("CUDA_VISIBLE_DEVICES='%s' leaves %u of 2", cases[i].visible,
                     mu_launch_gpus(root, cases[i].visible));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_machine_without_any_has_none, begin, end),
        cmocka_unit_test_setup_teardown(display_controllers_of_one_maker_count, begin, end),
        cmocka_unit_test_setup_teardown(the_drivers_word_goes_before_the_buses, begin, end),
        cmocka_unit_test_setup_teardown(those_that_cuda_is_told_to_see_count, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
