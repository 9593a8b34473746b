/*
 * tests/accel/nccl_name_test.c: a group and a communicator may have the same name. Both keep something under it in the
 * segment's cells: the group its generation, from the second on, the communicator its ids. The second test needs a
 * libnccl, which is real.
 */
#include "cm.h"

#include <string.h>

#include "accel/nccl_id.h"
#include "checkin.h"
#include "job.h"
#include "segment/file.h"

static struct test_job job;
static struct muster *m;
static bool is_right_alone; /* the first test has passed */

static int setup(void)
{
    if (test_job_create(&job, NULL))
        return -1;
    m = test_join(job.name, 0, 0);
    return m ? 0 : -1;
}

static int teardown(void)
{
    return muster_leave(m) || test_job_end(&job) ? -1 : 0;
}

/* Two at a time: the second one is another generation. */
static void build_twice(const char *name)
{
    int32_t self = 0;
    struct muster_group *g[2];

    for (int i = 0; i < 2; i++) {
        assert_ok(muster_group_create(m, name, &self, 1, 0, muster_after_ms(60000), &g[i]));
        assert_ok(muster_group_barrier(g[i], muster_after_ms(60000)));
    }
    for (int i = 0; i < 2; i++)
        muster_group_free(g[i]);
}

TEST_WITH(a_group_of_several_generations_is_no_communicator, setup, teardown)
{
    struct muster_nccl_info info;

    build_twice("x");
    assert_ok(muster_nccl_get(m, "x", &info));
    assert_int_equal(info.generation, 0);
    assert_ok(muster_nccl_abandon(m, "x", 0, "never begun"));
    build_twice("x");
    is_right_alone = true;
}

/* The rest needs libnccl; where it is absent, the first test's failure must be said nevertheless. */
static int setup_nccl(void)
{
    if (is_right_alone)
        test_nccl_required();
    return setup();
}

TEST_WITH(a_communicator_that_is_being_made_and_groups_do_not_meet, setup_nccl, teardown)
{
    char id[MUSTER_NCCL_ID_BYTES];
    struct muster_nccl_info info;
    uint64_t generation;

    assert_ok(muster_nccl_unique_id(m, "y", 2, 0, NULL, muster_after_ms(60000), id, &generation));
    build_twice("y");
    assert_ok(muster_nccl_check(m, "y", generation));
    assert_ok(muster_nccl_get(m, "y", &info));
    assert_int_equal(info.taken, 1);
    assert_ok(muster_nccl_abandon(m, "y", generation, "enough"));
    build_twice("y");
}
