/*
 * tests/topology/memory_test.c: looking at a node when memory runs out at each allocation in turn: a topology or
 * RESOURCE_EXHAUSTED, nothing in between, and nothing leaked.
 *
 * The allocator is glibc's, behind functions of this program that let the n-th call fail. So hwloc, which is not made
 * for that, is left out: the machine is a tree of files.
 * variants: release
 */
#include "cm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "describe.h"
#include "topology/node.h"
#include "tree.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *old);

/* volatile: a compiler knows that malloc() and free() change no variable of the program's. */
static volatile int armed;     /* allocations are counted */
static volatile unsigned left; /* until one fails; 0: none does */
static volatile long live;     /* allocated and not freed */

static int fails(void)
{
    if (!armed)
        return 0;
    if (left > 0 && --left == 0) {
        errno = ENOMEM;
        return 1;
    }
    live++;
    return 0;
}

/* Visible, so that the C library's own calls come here, too. */
MUSTER_API void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

MUSTER_API void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

MUSTER_API void *realloc(void *old, size_t size)
{
    if (fails())
        return NULL;
    live -= armed && old;
    return __libc_realloc(old, size);
}

MUSTER_API void free(void *old)
{
    live -= armed && old;
    __libc_free(old);
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */

#define KFD "/sys/class/kfd/kfd/topology/nodes/"

static void make_tree(void)
{
    static const int packages[] = {0, 0, 1, 1};

    test_tree_cpus(packages, 4, 1);
    test_tree_numa(0, "0-1", 1024);
    test_tree_numa(1, "2-3", 1024);
    test_tree_pci(&(struct test_pci){"pci0000:16/0000:16:01.0", "0000:19:00.0", 0x10de, 0x2330, 0x0302, 0, "0-1"});
    test_tree_pci(&(struct test_pci){"pci0000:30/0000:30:01.0", "0000:31:00.0", 0x10de, 0x2330, 0x0302, 0, "0-1"});
    test_tree_pci(&(struct test_pci){"pci0000:40/0000:40:01.0", "0000:41:00.0", 0x1002, 0x74a1, 0x1200, 1, "2-3"});
    test_tree_file("/proc/driver/nvidia/gpus/0000:19:00.0/information", "Model: H100\nGPU UUID: GPU-1");
    test_tree_file(KFD "1/properties", "simd_count 8\nlocation_id %d\nunique_id 7\ngfx_target_version 90402", 0x4100);
    test_tree_file(KFD "2/properties", "simd_count 8\nlocation_id %d\nunique_id 8\ngfx_target_version 90402", 0x4101);
    test_tree_file(KFD "1/io_links/0/properties", "type 11\nnode_to 0\nmax_bandwidth 7");
}

/* How many allocations were left over: 0 when one failed. */
static unsigned look_with(unsigned limit, struct muster_topology **ret_topology, enum muster_status *ret_status)
{
    const struct muster_topology_source source = {.root = test_tree};
    struct mu_look look = {.source = &source};

    left = limit;
    armed = 1;
    *ret_topology = NULL;
    *ret_status = mu_node_look(&look, ret_topology);
    armed = 0;
    return left;
}

static void free_topology(struct muster_topology *topology)
{
    armed = 1;
    muster_topology_free(topology);
    armed = 0;
}

TEST_WITH(when_memory_runs_out_the_node_is_whole_or_refused, test_tree_begin, test_tree_end)
{
    struct muster_topology *topology;
    enum muster_status status;
    unsigned refused = 0, limit = 1;
    char *whole, *text;
    long kept;

    make_tree();
    look_with(0, &topology, &status); /* the loader keeps what it allocates at first */
    assert_int_equal(status, MUSTER_OK);
    whole = test_describe(topology);
    free_topology(topology);
    kept = live;
    while (look_with(limit, &topology, &status) == 0) {
        if (status == MUSTER_OK) {
            text = test_describe(topology);
            assert_string_equal(text, whole);
            free(text);
        } else {
            assert_status(MUSTER_RESOURCE_EXHAUSTED, status);
            assert_null(topology);
            refused++;
        }
        free_topology(topology);
        if (live != kept)
            fail_msg("when allocation %u failed, %ld were leaked", limit, live - kept);
        limit++;
    }
    free_topology(topology);
    free(whole);
    print_message("each of %u allocations failed once: %u refusals\n", limit - 1, refused);
    assert_true(refused > 20);
}
