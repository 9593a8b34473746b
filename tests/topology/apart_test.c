/*
 * tests/topology/apart_test.c: a child is asked, and whatever becomes of it is an answer.
 */
#include "cm.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "topology/apart.h"

struct record {
    int number;
    char text[100];
};

static int taken, in_order, fd_of_ours;
static char why[256];

static void take(const void *record, void *arg)
{
    const struct record *one = record;

    (void)arg;
    in_order &= one->number == taken && strcmp(one->text, "text") == 0;
    taken++;
}

static int ask(void (*tell)(const struct mu_apart_pipe *pipe, void *arg), void *arg, unsigned limit_ms)
{
    taken = 0;
    in_order = 1;
    why[0] = '\0';
    return mu_apart(tell, take, arg, sizeof(struct record), limit_ms, why, sizeof why);
}

static void tell_some(const struct mu_apart_pipe *pipe, int count)
{
    struct record record = {.text = "text"};

    for (record.number = 0; record.number < count; record.number++)
        mu_apart_tell(pipe, &record);
}

static void many(const struct mu_apart_pipe *pipe, void *arg)
{
    tell_some(pipe, *(int *)arg);
}

static void hangs(const struct mu_apart_pipe *pipe, void *arg)
{
    (void)arg;
    tell_some(pipe, 2);
    for (;;)
        pause();
}

static void crashes(const struct mu_apart_pipe *pipe, void *arg)
{
    (void)arg;
    tell_some(pipe, 3);
    raise(SIGKILL);
}

static void leaves(const struct mu_apart_pipe *pipe, void *arg)
{
    (void)pipe;
    (void)arg;
    _exit(0);
}

static void writes_elsewhere(const struct mu_apart_pipe *pipe, void *arg)
{
    (void)arg;
    tell_some(pipe, 1);
    for (int fd = 0; fd < 100; fd++)
        if (write(fd, "this is no record of anything", 29) < 0)
            continue;
}

static void holds_nothing_of_ours(const struct mu_apart_pipe *pipe, void *arg)
{
    (void)arg;
    tell_some(pipe, fcntl(fd_of_ours, F_GETFD) < 0);
}

TEST(all_records_come_in_order)
{
    int count = 2000;

    assert_int_equal(ask(many, &count, 60000), 0);
    assert_int_equal(taken, 2000);
    assert_true(in_order);
    count = 0;
    assert_int_equal(ask(many, &count, 60000), 0);
    assert_int_equal(taken, 0);
}

TEST(what_was_told_before_a_silence_holds)
{
    assert_int_equal(ask(hangs, NULL, 1500), -1);
    assert_string_equal(why, "no answer within 2 s");
    assert_int_equal(taken, 2);
}

/* Each GPU that nobody holds is started before it tells of itself. */
static void is_slow(const struct mu_apart_pipe *pipe, void *arg)
{
    struct record record = {.text = "text"};

    for (record.number = 0; record.number < *(int *)arg; record.number++) {
        poll(NULL, 0, 500); /* sleep: the library's work */
        mu_apart_tell(pipe, &record);
    }
}

TEST(the_limit_is_that_of_a_silence)
{
    int count = 7;

    assert_int_equal(ask(is_slow, &count, 3000), 0); /* 3.5 s */
    assert_int_equal(taken, 7);
    count = INT_MAX; /* not for ever */
    assert_int_equal(ask(is_slow, &count, 600), -1);
    assert_string_equal(why, "no answer within 1 s");
}

TEST(a_crash_is_named)
{
    assert_int_equal(ask(crashes, NULL, 60000), MU_APART_DIED);
    assert_string_equal(why, "asking it kills the process: signal 9 (KILL)");
    assert_int_equal(taken, 3);
    assert_int_equal(ask(leaves, NULL, 60000), MU_APART_DIED);
    assert_string_equal(why, "asking it ends the process");
}

TEST(what_is_no_record_is_not_taken)
{
    assert_int_equal(ask(writes_elsewhere, NULL, 60000), -1);
    assert_string_equal(why, "something else than an answer was told");
    assert_int_equal(taken, 1);
}

TEST(the_child_holds_no_descriptor_of_ours)
{
    fd_of_ours = fcntl(1, F_DUPFD, 50);
    assert_true(fd_of_ours >= 50);
    assert_int_equal(ask(holds_nothing_of_ours, NULL, 60000), 0);
    assert_int_equal(taken, 1);
    close(fd_of_ours);
}

/* As daemons do: then the pipe has their numbers. */
TEST(a_process_without_standard_streams_may_ask)
{
    int kept[3], count = 5, rc;

    for (int fd = 0; fd < 3; fd++) {
        kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 50);
        close(fd);
    }
    rc = ask(many, &count, 60000);
    for (int fd = 0; fd < 3; fd++) {
        dup2(kept[fd], fd);
        close(kept[fd]);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(taken, 5);
}

/* The kernel reaps in our place. */
TEST(a_process_that_ignores_its_children_may_ask)
{
    int count = 5;

    signal(SIGCHLD, SIG_IGN);
    assert_int_equal(ask(many, &count, 60000), 0);
    assert_int_equal(taken, 5);
    assert_int_equal(ask(crashes, NULL, 60000), MU_APART_DIED);
    signal(SIGCHLD, SIG_DFL);
}

TEST(no_child_is_left)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}
