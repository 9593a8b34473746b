/*
 * tests/barrier/group_again_test.c: a group that is left and made again under its name, over and over: its members meet
 * in the same one each time, whoever leaves last, comes first, or is held up in between. (Where they did not, it took
 * some 200,000 times to see it: the name's generation was moved on from a group that was gone and made anew meanwhile.)
 */
#include "cm.h"

#include <stdio.h>
#include <sys/mman.h>

#include <muster/muster.h>

#include "barrier/group.h"
#include "child.h"
#include "job.h"

enum { TASKS = 2, TIMES = 20000 };
static struct test_job job;
static uint64_t (*met)[TIMES]; /* by task: in which generation; in memory that all share */

static int meet_again_and_again(void *arg)
{
    static const int32_t all[] = {0, 1};
    struct muster *m = test_join(job.name, *(int *)arg, 0);
    struct muster_group *g;

    for (int i = 0; i < TIMES; i++) {
        /* nobody waits for anybody before: so one may be at the next while another is leaving the last */
        CHECK(!muster_group_create(m, "again", all, TASKS, 64, muster_after_ms(20000), &g));
        CHECK(!muster_group_barrier(g, muster_after_ms(20000))); /* all have it */
        muster_group_free(g);
    }
    CHECK(!muster_leave(m));
    return 0;
}

/* Without a barrier who came last may have gone before the others look, and may be at the next. */
static int meet_and_leave_at_once(void *arg)
{
    static const int32_t all[] = {0, 1};
    int task = *(int *)arg;
    struct muster *m = test_join(job.name, task, 0);
    struct muster_group *g;

    for (int i = 0; i < TIMES; i++) {
        if (muster_group_create(m, "again", all, TASKS, 64, muster_after_ms(20000), &g)) {
            fprintf(stderr, "task %d, the %dth time: %s\n", task, i, muster_last_error());
            return 1;
        }
        met[task][i] = g->generation;
        muster_group_free(g);
    }
    CHECK(!muster_leave(m));
    return 0;
}

static void run_all(int (*fn)(void *arg))
{
    pid_t pids[TASKS];
    int ids[] = {0, 1};

    assert_ok(test_job_create(&job, &(struct muster_segment_config){.num_tasks = TASKS}));
    for (int i = 0; i < TASKS; i++)
        pids[i] = test_fork(fn, &ids[i]);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(test_reap(pids[i]), 0);
    assert_int_equal(test_job_end(&job), 0);
}

TEST(members_meet_in_one_group_each_time)
{
    run_all(meet_again_and_again);
}

TEST(nor_do_those_who_leave_at_once_meet_in_others)
{
    met = mmap(NULL, TASKS * sizeof *met, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(met != MAP_FAILED);
    run_all(meet_and_leave_at_once);
    for (int i = 0; i < TIMES; i++)
        assert_int_equal(met[0][i], met[1][i]);
    munmap(met, TASKS * sizeof *met);
}
