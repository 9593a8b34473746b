/*
 * tests/base/activity_test.c: when a process last ran is known, whichever processors it and who asks are on:
 * their clocks are seconds apart on a virtual machine that has run for days.
 */
#include "cm.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/activity.h"
#include "base/clock.h"
#include "base/process.h"
#include "child.h"

#define PATIENCE_NS 60000000000u
#define NEAR_NS     100000000u /* a tick, and what interrupts the reading of two clocks; it was seconds */

static cpu_set_t ours;

static int go_to(int processor)
{
    cpu_set_t only;

    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    return sched_setaffinity(0, sizeof only, &only);
}

static int compute(void *arg)
{
    volatile int for_ever = 1;

    (void)arg;
    while (for_ever)
        ;
    return 0;
}

/* What a look at a stopped process from a processor is to show. */
struct look {
    pid_t pid;
    int processor, from;
    uint64_t before, after; /* it was stopped between */
};

/* 77: it is not known. That is kept in mind for a while, so each look is a process's only one. */
static int look(void *arg)
{
    const struct look *look = arg;
    struct mu_activity_clock clock;
    struct mu_activity seen;

    CHECK(go_to(look->from) == 0);
    mu_activity_clock(&clock);
    clock.asks_processors = true;
    CHECK(mu_activity_look((uint32_t)look->pid, mu_process_start(look->pid), &clock, &seen));
    CHECK(seen.letter == 'T');
    CHECK(seen.processor == look->processor);
    if (seen.last_ran == 0 && look->from != look->processor)
        return 77; /* no turn there in time: it is not guessed */
    if (seen.last_ran + NEAR_NS >= look->before && seen.last_ran <= look->after + NEAR_NS)
        return 0;
    fprintf(
        stderr,
        "a process stopped on processor %d ran, from %d, %lld ns after it was told to stop, and %lld after it had\n",
        look->processor, look->from, (long long)(seen.last_ran - look->before),
        (long long)(seen.last_ran - look->after));
    return 1;
}

/* A process that computes on that processor is stopped, and looked at from each, until the time is known. */
static void stop_one(int processor)
{
    struct look it = {.processor = processor};
    int status, code;
    pid_t pid;

    assert_int_equal(go_to(processor), 0); /* as the child is, then */
    pid = test_fork(compute, NULL);
    assert_true(pid > 0);
    it.pid = pid;
    it.before = mu_now();
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    it.after = mu_now();
    for (int from = 0; from < CPU_SETSIZE; from++) {
        if (!CPU_ISSET(from, &ours))
            continue;
        it.from = from;
        for (uint64_t until = mu_now() + PATIENCE_NS; (code = test_in_child(look, &it)) == 77;)
            if (mu_now() > until)
                fail_msg("processor %d has never been asked from %d", processor, from);
        assert_int_equal(code, 0);
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(sched_setaffinity(0, sizeof ours, &ours), 0);
}

TEST(whoever_asks_gets_the_same_time)
{
    struct mu_activity_clock clock;
    int count = 0;

    mu_activity_clock(&clock);
    if (clock.scheduler == 0) /* the kernel hides it */
        skip();
    for (int processor = 0; processor < CPU_SETSIZE && count < 4; processor++)
        if (CPU_ISSET(processor, &ours)) {
            stop_one(processor);
            count++;
        }
}

/* One that has taken its number, none, and one that runs: nothing is guessed. */
TEST(of_another_process_nothing_is_said)
{
    struct mu_activity_clock clock;
    struct mu_activity seen = {.letter = 'x'};

    mu_activity_clock(&clock);
    assert_false(mu_activity_look((uint32_t)getpid(), mu_process_start(getpid()) + 1, &clock, &seen));
    assert_false(mu_activity_look(0, 0, &clock, &seen));
    assert_int_equal(seen.letter, 'x');
    assert_true(mu_activity_look((uint32_t)getpid(), mu_process_start(getpid()), &clock, &seen));
    assert_int_equal(seen.letter, 'R');
    assert_true(seen.last_ran == 0);
}

int main(void)
{
    if (sched_getaffinity(0, sizeof ours, &ours))
        return 77; /* more processors than there are numbers for */
    return test_run(NULL, NULL);
}
