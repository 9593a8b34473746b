/*
 * tests/accel/nccl_skew_test.c: two real libnccl of different versions in one job: the one that muster finds, and the
 * one that MUSTER_TEST_NCCL_OTHER names. Whoever comes second is told, and so are those who have the id.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/nccl_library.h"
#include "accel/nccl_roots.h"
#include "checkin.h"
#include "child.h"
#include "job.h"

static struct test_job job;
static int other_version;

static int say_version(void *arg)
{
    int found, *ret = arg;

    setenv("MUSTER_NCCL_LIBRARY", getenv("MUSTER_TEST_NCCL_OTHER"), 1);
    if (muster_nccl_version(&found)) {
        printf("MUSTER_TEST_NCCL_OTHER: %s\n", muster_last_error());
        return 1;
    }
    return dprintf(*ret, "%d", found) <= 0;
}

/* The other one's version, asked in a process of its own, for a process has one libnccl. */
static int ask_other(void)
{
    char text[16] = "";
    int ends[2];

    if (pipe(ends) || test_in_child(say_version, &ends[1]) || read(ends[0], text, sizeof text - 1) <= 0)
        return 0;
    return (int)strtol(text, NULL, 10);
}

/* Rank 1, forked before this process has opened its library. */
static int come_with_the_other(void *arg)
{
    struct test_gate *gate = arg;
    char id[MUSTER_NCCL_ID_BYTES], ours[MU_NCCL_VERSION_TEXT], theirs[MU_NCCL_VERSION_TEXT];
    struct muster_nccl_info info;
    struct muster *m;

    setenv("MUSTER_NCCL_LIBRARY", getenv("MUSTER_TEST_NCCL_OTHER"), 1);
    test_gate_pass(gate);
    m = test_join(job.name, 1, 0);
    CHECK(m && !muster_nccl_get(m, "world", &info) && info.version != other_version);
    CHECK(muster_nccl_unique_id(m, "world", 3, 1, NULL, muster_after_ms(60000), id, NULL) ==
          MUSTER_FAILED_PRECONDITION);
    CHECK(strstr(muster_last_error(), mu_nccl_version_text(other_version, ours)));
    CHECK(strstr(muster_last_error(), mu_nccl_version_text(info.version, theirs)));
    CHECK(strstr(muster_last_error(), "task 0"));
    CHECK(!muster_leave(m));
    return 0;
}

static pid_t other;
static struct test_gate gate;

TEST(a_rank_with_another_version_is_told_and_so_are_its_peers)
{
    struct muster *m = test_join(job.name, 0, 0);
    char id[MUSTER_NCCL_ID_BYTES];

    assert_non_null(m);
    assert_ok(muster_nccl_unique_id(m, "world", 3, 0, NULL, MUSTER_FOREVER, id, NULL));
    test_gate_release(&gate);
    assert_int_equal(test_reap(other), 0);
    assert_status(MUSTER_ABORTED, muster_nccl_check(m, "world", 1));
    assert_says("task 1 has NCCL");
    assert_int_equal(mu_nccl_roots_count(), 0);
    muster_leave(m);
}

int main(void)
{
    int version = 0;

    if (!getenv("MUSTER_TEST_NCCL_OTHER")) {
        printf("MUSTER_TEST_NCCL_OTHER names no second libnccl\n");
        return 77;
    }
    other_version = ask_other();
    if (!other_version || test_gate_open(&gate) || test_job_create(&job, NULL))
        return 1;
    other = test_fork(come_with_the_other, &gate);
    if (muster_nccl_version(&version) || version == other_version) {
        kill(other, SIGKILL);
        test_reap(other);
        if (test_job_end(&job))
            return 1;
        if (version)
            printf("MUSTER_TEST_NCCL_OTHER is of the same version, %d\n", version);
        else
            printf("%s\n", muster_last_error());
        return 77;
    }
    return test_run(NULL, NULL) || test_job_end(&job);
}
