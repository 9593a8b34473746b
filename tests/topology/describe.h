/*
 * tests/topology/describe.h: a topology as text, so that a test can say all that it expects of one.
 */
#ifndef TEST_TOPOLOGY_DESCRIBE_H
#define TEST_TOPOLOGY_DESCRIBE_H

#include <muster/topology.h>

/*
 * A line a device, with what is known of it; the matrix of links; a line a memory node; the notes. malloc()ed.
 *     0000:19:00.0 10de:2330/0302 numa 0 package 0 cpus 0-3 "NVIDIA H100" GPU-1 serial 165 ... by hwloc
 *     X NV18/450000 PXB
 *     numa 8 package 1 cpus 4-7 memory 17179869184
 *     note: NVML: ...
 */
char *test_describe(const struct muster_topology *topology);
/* Load and compare; what differs fails the test with both texts. */
void test_expect_topology(const struct muster_topology_source *source, const char *expected);

#endif
