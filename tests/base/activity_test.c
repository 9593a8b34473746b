/*
 * tests/base/activity_test.c: when a process last ran is known, whichever processors it and who asks are on:
 * their clocks are seconds apart on a virtual machine that has run for days.
 */
#include "cm.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/activity.h"
#include "base/clock.h"
#include "base/process.h"
#include "child.h"

#define NEAR_NS 100000000u /* a tick, and what interrupts the reading of two clocks; it was seconds */

static cpu_set_t ours;

static void go_to(int processor)
{
    cpu_set_t only;

    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    assert_int_equal(sched_setaffinity(0, sizeof only, &only), 0);
}

static int compute(void *arg)
{
    volatile int for_ever = 1;

    (void)arg;
    while (for_ever)
        ;
    return 0;
}

/* A process that computes on that processor is stopped, and looked at from each. */
static void stop_one(int processor)
{
    struct mu_activity_clock clock;
    struct mu_activity seen;
    uint64_t before, after;
    int status;
    pid_t pid;

    go_to(processor); /* as the child is, then */
    pid = test_fork(compute, NULL);
    assert_true(pid > 0);
    before = mu_now();
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    after = mu_now();
    for (int from = 0; from < CPU_SETSIZE; from++) {
        if (!CPU_ISSET(from, &ours))
            continue;
        go_to(from);
        mu_activity_clock(&clock);
        clock.asks_processors = true;
        assert_true(mu_activity_look((uint32_t)pid, mu_process_start(pid), &clock, &seen));
        assert_int_equal(seen.letter, 'T');
        assert_int_equal(seen.processor, processor);
        if (seen.last_ran == 0 && from != processor) { /* no turn there in time: it is not guessed */
            print_message("processor %d from %d: not known\n", processor, from);
            continue;
        }
        if (seen.last_ran + NEAR_NS < before || seen.last_ran > after + NEAR_NS)
            fail_msg("a process stopped on processor %d ran, from %d, %lld ns after it was told to stop, and %lld "
                     "after it had",
                     processor, from, (long long)(seen.last_ran - before), (long long)(seen.last_ran - after));
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(sched_setaffinity(0, sizeof ours, &ours), 0);
}

static void whoever_asks_gets_the_same_time(void **state)
{
    struct mu_activity_clock clock;
    int count = 0;

    (void)state;
    mu_activity_clock(&clock);
    if (clock.scheduler == 0) /* the kernel hides it */
        skip();
    for (int processor = 0; processor < CPU_SETSIZE && count < 4; processor++)
        if (CPU_ISSET(processor, &ours)) {
            stop_one(processor);
            count++;
        }
}

/* A processor that there is not, or that is not for us, is not asked, and nothing is guessed. */
static void of_another_process_nothing_is_said(void **state)
{
    struct mu_activity_clock clock;
    struct mu_activity seen = {.letter = 'x'};

    (void)state;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_asks_gets_the_same_time),
        cmocka_unit_test(of_another_process_nothing_is_said),
    };

    if (sched_getaffinity(0, sizeof ours, &ours))
        return 77; /* more processors than there are numbers for */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
