/*
 * tests/cli/picture_test.c: what a picture says of processes is said of the right ones.
 */
#include "cm.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cli/status/picture.h"
#include "job.h"
#include "segment/handle.h"

static struct test_job job;

static int setup(void)
{
    return test_job_create(&job, NULL) ? -1 : 0;
}

static int teardown(void)
{
    return test_job_end(&job) ? -1 : 0;
}

static int is_creator_gone(struct muster *muster)
{
    struct mu_cli_picture picture;
    int gone;

    assert_ok(mu_cli_picture_take(muster, NULL, &picture));
    gone = picture.creator_gone;
    mu_cli_picture_free(&picture);
    return gone;
}

/* As after a wrap-around of pids: a process of that number lives, and has begun at another time. */
TEST_WITH(a_creator_whose_pid_is_anothers_is_gone, setup, teardown)
{
    struct mu_header *header = job.segment->header;
    struct muster *muster = test_join(job.name, -1, MUSTER_JOIN_READ_ONLY);

    assert_int_equal(header->creator_pid, getpid());
    assert_int_equal(is_creator_gone(muster), 0);
    header->creator_start++;
    assert_int_equal(is_creator_gone(muster), 1);
    header->creator_start--;
    assert_ok(muster_leave(muster));
}

static int ends(void *arg)
{
    (void)arg;
    return 0;
}

/* The kernel says that a thread of it lives; that the first one has ended is no reason to call it dead. */
TEST(a_living_task_without_its_first_thread_is_not_dead)
{
    struct muster_task_info info = {.state = MUSTER_TASK_CONNECTED, .alive = 1, .attempt = 1};
    pid_t pid = test_fork(ends, NULL);
    siginfo_t ended;

    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0); /* in /proc it is Z */
    info.pid = (uint32_t)pid;
    assert_int_equal(gethostname(info.host, sizeof info.host - 1), 0);
    assert_string_equal(mu_cli_process(&info), "running");
    info.alive = 0;
    assert_string_equal(mu_cli_process(&info), "dead");
    assert_int_equal(test_reap(pid), 0);
}
