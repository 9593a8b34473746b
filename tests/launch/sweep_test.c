/*
 * tests/launch/sweep_test.c: who is found by a sweep, and who is spared.
 */
#include "cm.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/guard/guard.h"

/* A child of ours, with this name, that has a memory file of this name where a guard has its table. */
static pid_t begin(const char *name, const char *file)
{
    int ready[2];
    pid_t pid;
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = memfd_create(file, 0);

        prctl(PR_SET_NAME, name);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ready[1], 100);
        dup2(fd, MU_GUARD_TABLE_FD);
        byte = write(100, "", 1) == 1;
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static int was_killed(pid_t pid)
{
    int status = 0;

    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* Sweep our children: how many were found. The first's name is in `name`. */
static size_t sweep(const char *spare, char name[32])
{
    struct mu_launch_mark mark = {.run_id = "-", .parent = getpid(), .session = -1, .spare = spare};
    pid_t first = 0;

    return mu_launch_sweep(&mark, SIGKILL, &first, name);
}

TEST(a_guard_is_spared_by_its_name_and_by_its_table)
{
    char name[32] = "";
    pid_t named = begin(MU_LAUNCH_GUARD_NAME, "something"), tabled = begin("5", MU_LAUNCH_GUARD_NAME),
          other = begin("other", "something");

    assert_int_equal(sweep(MU_LAUNCH_GUARD_NAME, name), 1);
    assert_string_equal(name, "other");
    assert_true(was_killed(other));
    assert_int_equal(sweep(MU_LAUNCH_GUARD_NAME, name), 0);
    assert_int_equal(waitpid(named, NULL, WNOHANG), 0);
    assert_int_equal(waitpid(tabled, NULL, WNOHANG), 0);
    assert_int_equal(sweep(NULL, name), 2);
    assert_true(was_killed(named));
    assert_true(was_killed(tabled));
}
