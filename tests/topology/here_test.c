/*
 * tests/topology/here_test.c: this machine, what the environment may say of it, and a machine without hwloc.
 *
 * It passes on a machine of any shape, with GPUs or without.
 */
#include "cm.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpus.h"
#include "child.h"
#include "describe.h"
#include "topology/node.h"

extern char **environ;

static struct muster_topology *here(void)
{
    struct muster_topology *topology = NULL;

    CHECK(muster_topology_load(NULL, &topology) == MUSTER_OK);
    return topology;
}

static const char *find_note(const struct muster_topology *topology, const char *part)
{
    const char *note;

    for (size_t i = 0; (note = muster_topology_note(topology, i)); i++)
        if (strstr(note, part))
            return note;
    return NULL;
}

static int is_uuid(const char *text)
{
    return strlen(text) == 36 && text[8] == '-' && text[23] == '-' && strspn(text, "0123456789abcdef-") == 36;
}

TEST(this_machine_has_a_name_a_boot_and_a_device)
{
    struct muster_topology *topology = here();
    char host[65] = "";

    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    assert_string_equal(muster_topology_host(topology), host);
    assert_true(is_uuid(muster_topology_boot_id(topology)));
    assert_true(muster_topology_num_devices(topology) > 0);
    assert_true(muster_topology_num_numas(topology) > 0);
    for (size_t i = 0; i < muster_topology_num_devices(topology); i++) {
        const struct muster_device *device = muster_topology_device(topology, i);

        assert_int_equal(device->index, i);
        assert_true(device->sources != 0);
        assert_int_equal(muster_topology_link(topology, i, i).level, MUSTER_LINK_SELF);
    }
    muster_topology_free(topology);
}

static int is_bound(void *arg)
{
    struct muster_topology *topology;
    char one[16];
    cpu_set_t set;
    int cpu = sched_getcpu(), found = 0;

    (void)arg;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
    snprintf(one, sizeof one, "%d", cpu);
    topology = here();
    for (size_t i = 0; i < muster_topology_num_devices(topology); i++) {
        const char *cpus = muster_topology_device(topology, i)->cpus;

        CHECK(strcmp(cpus, one) == 0 || strcmp(cpus, "") == 0);
        found += *cpus != '\0';
    }
    CHECK(found > 0 || muster_topology_device(topology, 0)->kind == MUSTER_DEVICE_GPU);
    muster_topology_free(topology);
    return 0;
}

TEST(only_processors_that_this_process_may_use_are_near)
{
    assert_int_equal(test_in_child(is_bound, NULL), 0);
}

/* ---- the environment --------------------------------------------------------------------------------------------- */

static int sees_words(void *arg)
{
    struct muster_topology *topology;
    char **before;

    (void)arg;
    CHECK(setenv("HWLOC_SYNTHETIC", "package:2 core:3 pu:1", 1) == 0);
    before = environ;
    topology = here();
    CHECK(environ == before && !getenv("HWLOC_PLUGINS_PATH"));
    CHECK(muster_topology_num_devices(topology) == 2);
    CHECK(strcmp(muster_topology_device(topology, 1)->cpus, "3-5") == 0);
    CHECK(find_note(topology, "hwloc: HWLOC_SYNTHETIC in the environment shows another machine than this one"));
    CHECK(strcmp(muster_topology_host(topology), "") == 0 && strcmp(muster_topology_boot_id(topology), "") == 0);
    muster_topology_free(topology);
    CHECK(setenv("HWLOC_THISSYSTEM", "1", 1) == 0); /* now it is taken for this one */
    topology = here();
    CHECK(muster_topology_num_devices(topology) >= 1);
    CHECK(!find_note(topology, "shows another machine"));
    CHECK(is_uuid(muster_topology_boot_id(topology)));
    muster_topology_free(topology);
    return 0;
}

static int sees_a_file(void *arg)
{
    const char *top = getenv("TOP");
    struct muster_topology *topology;
    char path[512];

    (void)arg;
    snprintf(path, sizeof path, "%s/tests/topology/machines/switched.xml", top ? top : ".");
    CHECK(setenv("HWLOC_XMLFILE", path, 1) == 0);
    topology = here();
    CHECK(muster_topology_num_devices(topology) == 4);
    CHECK(find_note(topology, "HWLOC_XMLFILE"));
    CHECK(strcmp(muster_topology_host(topology), "hgx") == 0);
    muster_topology_free(topology);
    return 0;
}

static int asks_for_another(void *arg)
{
    struct muster_topology *topology;

    (void)arg;
    CHECK(setenv("HWLOC_SYNTHETIC", "package:5 pu:1", 1) == 0);
    CHECK(muster_topology_load(&(struct muster_topology_source){.synthetic = "package:3 pu:1"}, &topology) ==
          MUSTER_OK);
    CHECK(muster_topology_num_devices(topology) == 3);
    CHECK(!muster_topology_note(topology, 0));
    muster_topology_free(topology);
    return 0;
}

static int sees_a_broken_file(void *arg)
{
    struct muster_topology *topology = NULL;
    char path[512];
    FILE *file;

    (void)arg;
    snprintf(path, sizeof path, "%s/broken.%d.xml", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    file = fopen(path, "w");
    CHECK(file && fputs("<topology version=\"2.0\">\n</topology>\n", file) >= 0 && fclose(file) == 0);
    CHECK(setenv("HWLOC_XMLFILE", path, 1) == 0);
    CHECK(muster_topology_load(NULL, &topology) == MUSTER_INVALID_ARGUMENT && !topology);
    CHECK(strstr(muster_last_error(), "hwloc cannot read the machine that HWLOC_XMLFILE="));
    CHECK(strstr(muster_last_error(), path));
    unlink(path);
    return 0;
}

TEST(a_machine_from_the_environment_is_not_this_one)
{
    assert_int_equal(test_in_child(sees_words, NULL), 0);
    assert_int_equal(test_in_child(sees_a_file, NULL), 0);
    assert_int_equal(test_in_child(asks_for_another, NULL), 0);
    assert_int_equal(test_in_child(sees_a_broken_file, NULL), 0);
}

/* ---- hwloc's plugins --------------------------------------------------------------------------------------------- */

static int maps_plugins(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "re");
    int found = 0;

    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, "/hwloc_") != NULL; /* hwloc_opencl.so, hwloc_gl.so, ... */
    fclose(maps);
    return found;
}

static int loads_alone(void *arg)
{
    const struct mu_hwloc_wish wish = {.source = NULL};
    char why[200], note[MU_HWLOC_NOTE_SIZE];
    struct mu_hwloc hwloc;
    hwloc_topology_t tree;

    (void)arg;
    CHECK(mu_hwloc_open(NULL, &hwloc, why, sizeof why) == 0);
    CHECK(mu_hwloc_load(&hwloc, &wish, &tree, note) == MUSTER_OK);
    CHECK(!maps_plugins());
    hwloc.hwloc_topology_destroy(tree);
    mu_hwloc_close(&hwloc);
    return 0;
}

TEST(a_process_of_one_thread_opens_none)
{
    assert_int_equal(test_in_child(loads_alone, NULL), 0);
}

static void *waits_at_the_barrier(void *arg)
{
    pthread_barrier_wait(arg);
    return NULL;
}

static int loads_with_company(void *arg)
{
    struct muster_topology *topology;
    pthread_barrier_t barrier;
    char **before = environ;
    pthread_t thread;

    (void)arg;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, waits_at_the_barrier, &barrier) == 0);
    topology = here();
    CHECK(environ == before);
    CHECK(muster_topology_num_devices(topology) > 0);
    muster_topology_free(topology);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_barrier_destroy(&barrier);
    return 0;
}

TEST(threads_do_no_harm)
{
    assert_int_equal(test_in_child(loads_with_company, NULL), 0);
}

/* ---- without hwloc ----------------------------------------------------------------------------------------------- */

TEST(a_file_needs_hwloc)
{
    static const struct muster_topology_source words = {.synthetic = "pu:1"};
    struct mu_look look = {.source = &words, .library = "libhwloc.so.0"};
    struct muster_topology *topology = NULL;

    assert_status(MUSTER_UNAVAILABLE, mu_node_look(&look, &topology));
    assert_null(topology);
    assert_says("cannot load hwloc (libhwloc.so.0: ");
    assert_says("install the package libhwloc15");
    look.library = "libm.so.6";
    assert_status(MUSTER_UNAVAILABLE, mu_node_look(&look, &topology));
    assert_says("undefined symbol: hwloc_");
}
