/*
 * tests/cli/diagnose_test.c: the sentences of a picture that is made up, word for word. What real processes look like
 * is hung_test.sh's.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/status/picture.h"

enum { TASKS = 12 };

static struct mu_cli_task tasks[TASKS];
static struct mu_cli_picture picture;
static int32_t missing[TASKS * 2];
static struct mu_barrier_view barrier;

/* Twelve connected tasks that work. */
static int setup(void)
{
    memset(tasks, 0, sizeof tasks);
    for (int i = 0; i < TASKS; i++) {
        struct muster_task_info *info = &tasks[i].info;

        *info = (struct muster_task_info){.task_id = i, .state = MUSTER_TASK_CONNECTED, .alive = 1, .attempt = 1};
        info->pid = 100 + (uint32_t)i;
        tasks[i].letter = 'R';
        tasks[i].cpu_percent = -1;
    }
    picture = (struct mu_cli_picture){.now_ns = muster_now_ns(), .tasks = tasks, .count = TASKS};
    picture.states[MUSTER_TASK_CONNECTED] = TASKS;
    return 0;
}

static int teardown(void)
{
    free(picture.findings);
    return 0;
}

/* Who is in `who`, "0,3", is missing in barrier "b" since an hour, and all others have come. */
static void lack(const char *who)
{
    barrier = (struct mu_barrier_view){.state = MU_VIEW_WAITING, .id = "b", .participants = TASKS};
    barrier.since_ns = picture.now_ns > 3600000000000u ? picture.now_ns - 3600000000000u : 1;
    barrier.missing = missing;
    barrier.present = missing + TASKS;
    for (int i = 0; i < TASKS; i++) {
        char number[16];

        snprintf(number, sizeof number, "%d,", i);
        if (strncmp(who, number, strlen(number)) == 0) {
            barrier.missing[barrier.missing_count++] = i;
            who += strlen(number);
        } else {
            barrier.present[barrier.arrived++] = i;
        }
    }
    assert_string_equal(who, "");
    picture.barriers = &barrier;
    picture.num_barriers = 1;
}

/* The sentence begins so. */
static void says(size_t number, const char *want)
{
    assert_true(picture.num_findings > number);
    if (strncmp(picture.findings[number].text, want, strlen(want)) != 0)
        fail_msg("\"%s\" does not begin with \"%s\"", picture.findings[number].text, want);
}

static void wait_for(int task, const char *what, uint64_t ns)
{
    snprintf(tasks[task].info.waiting, sizeof tasks[task].info.waiting, "%s", what);
    tasks[task].info.waiting_since_ns = picture.now_ns - ns;
}

TEST_WITH(many_tasks_are_one_sentence, setup, teardown)
{
    static const struct {
        const char *missing, *want;
    } vectors[] = {
        {"3,", "task 3 (pid 103) is stopped: 11 tasks wait for it in barrier b, for "},
        {"2,6,", "tasks 2 and 6 are stopped: 10 tasks wait for them in barrier b, for "},
        {"1,3,4,", "tasks 1, 3 and 4 are stopped: 9 tasks"},
        {"3,4,", "tasks 3 and 4 are stopped: 10 tasks"},
        {"1,2,4,5,", "tasks 1, 2, 4 and 5 are stopped: 8 tasks"},
        {"0,1,2,5,6,7,9,", "tasks 0-2, 5-7 and 9 are stopped: 5 tasks"},
        {"0,2,4,6,8,9,10,11,", "tasks 0, 2, 4, 6 and 8-11 are stopped: 4 tasks"},
        {"0,1,3,4,6,7,9,11,", "tasks 0, 1, 3, 4, 6, 7 and 2 more are stopped: 4 tasks"},
    };

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        setup();
        lack(vectors[i].missing);
        for (uint32_t k = 0; k < barrier.missing_count; k++)
            tasks[barrier.missing[k]].letter = 'T';
        assert_int_equal(mu_cli_diagnose(&picture), 0);
        says(0, vectors[i].want);
        assert_int_equal(picture.num_findings, 1);
        teardown();
    }
    setup();
}

/* Of three, with four tasks each, one looks. */
static void three_hosts(uint32_t own)
{
    static struct mu_cli_host hosts[3];

    for (uint32_t i = 0; i < 3; i++) {
        hosts[i].view = (struct mu_host_view){.host = i, .first_task = i * 4, .num_tasks = 4, .state = MU_HOST_UP};
        snprintf(hosts[i].view.name, sizeof hosts[i].view.name, "n%u", i);
    }
    picture.hosts = hosts;
    picture.num_hosts = 3;
    picture.own_host = own;
}

static void lack_again(const char *who)
{
    free(picture.findings);
    picture.findings = NULL;
    picture.num_findings = 0;
    lack(who);
    assert_int_equal(mu_cli_diagnose(&picture), 0);
}

TEST_WITH(tasks_of_other_hosts_are_named_with_their_host, setup, teardown)
{
    char buffer[192];

    three_hosts(1);
    tasks[9].letter = tasks[1].letter = tasks[2].letter = 0;
    lack_again("9,");
    says(0,
         "task 9 (pid 109 on host n2) is alive (what it does is known on host n0): 11 tasks wait for it in barrier b");
    assert_string_equal(mu_cli_why_missing(&picture, 9, buffer), "alive on host n2, pid 109");
    assert_string_equal(mu_cli_why_missing(&picture, 4, buffer), "running elsewhere, pid 104");
    lack_again("1,2,9,");
    says(0, "tasks 1, 2 and 9 are alive on other hosts (what they do is known on host n0): 9 tasks");
    lack_again("4,9,");
    says(0, "tasks 4 and 9 are running elsewhere: 10 tasks");
}

/* Seen from host 0, whose agent is told by the others'. */
TEST_WITH(what_tasks_of_other_hosts_do_is_said, setup, teardown)
{
    char buffer[192];

    three_hosts(0);
    tasks[9].letter = 0;
    lack_again("9,");
    says(0, "task 9 (pid 109 on host n2) is alive: 11 tasks wait for it in barrier b, for ");
    tasks[9].letter = 'R';
    lack_again("9,");
    says(0, "task 9 (pid 109 on host n2) is running elsewhere: 11 tasks");
    assert_string_equal(mu_cli_why_missing(&picture, 9, buffer), "running on host n2, pid 109");
    tasks[9].letter = 'T';
    lack_again("9,");
    says(0, "task 9 (pid 109 on host n2) is stopped: 11 tasks wait for it in barrier b, for ");
    assert_string_equal(mu_cli_why_missing(&picture, 9, buffer), "stopped on host n2, pid 109");
    tasks[8].letter = 'T';
    lack_again("8,9,");
    says(0, "tasks 8 and 9 (on host n2) are stopped: 10 tasks wait for them in barrier b, for ");
    tasks[2].letter = tasks[4].letter = 'T';
    lack_again("2,8,");
    says(0, "tasks 2 and 8 are stopped: 10 tasks"); /* of two hosts: the table has which */
    lack_again("4,8,");
    says(0, "tasks 4 and 8 are stopped: 10 tasks");
    tasks[8].letter = tasks[9].letter = 'S';
    wait_for(9, "key never", 2000000000u);
    lack_again("9,");
    assert_non_null(strstr(mu_cli_why_missing(&picture, 9, buffer), "waits on host n2 in key never for 2."));
}

/* Only what two looks have seen counts: a life in which it has worked says nothing of now. */
TEST_WITH(who_has_a_thread_that_works_does_not_sleep, setup, teardown)
{
    tasks[5].letter = 'S';
    tasks[5].last_ran = picture.now_ns - 10000000000u;
    tasks[5].cpu_percent = 90;
    assert_int_equal(mu_cli_kind_of(&picture, &tasks[5]), MU_CLI_SLEEPS);
    tasks[5].cpu_is_recent = 1;
    assert_int_equal(mu_cli_kind_of(&picture, &tasks[5]), MU_CLI_RUNS);
    tasks[5].cpu_percent = 0.4;
    assert_int_equal(mu_cli_kind_of(&picture, &tasks[5]), MU_CLI_SLEEPS);
}

TEST_WITH(a_key_that_is_cut_off_is_not_said_to_be_one, setup, teardown)
{
    char key[120] = "key ", want[160];

    memset(key + 4, 'x', 110);
    for (int i = 0; i < 3; i++)
        wait_for(i, key, 5000000000u);
    wait_for(7, "key y", 5000000000u);
    assert_int_equal(mu_cli_diagnose(&picture), 0);
    assert_int_equal(picture.num_findings, 2);
    snprintf(want, sizeof want, "tasks 0-2 wait for keys that begin with %.91s, for ", key + 4);
    says(0, want);
    says(1, "task 7 (pid 107) waits for key y, for ");
}

TEST_WITH(the_accused_are_not_named_again_for_their_waits, setup, teardown)
{
    for (int i = 0; i < TASKS; i++)
        wait_for(i, "key never", 5000000000u);
    tasks[4].letter = 'T';
    assert_int_equal(mu_cli_diagnose(&picture), 0);
    assert_int_equal(picture.num_findings, 2);
    says(0, "task 4 (pid 104) is stopped");
    says(1, "tasks 0-3 and 5-11 wait for key never, for ");
}

TEST_WITH(a_long_wait_is_not_denied, setup, teardown)
{
    wait_for(2, "an error of any task", 20000000);
    assert_int_equal(mu_cli_diagnose(&picture), 0);
    assert_int_equal(picture.num_findings, 1);
    says(0, "no wait is longer than 0.1 s: 12 of 12 tasks connected");
    teardown();
    setup();
    wait_for(2, "an error of any task", 2000000000u);
    wait_for(3, "an error of any task", 3000000000u);
    assert_int_equal(mu_cli_diagnose(&picture), 0);
    assert_int_equal(picture.num_findings, 1);
    says(0, "nobody is known to hold the job up: 12 of 12 tasks connected; task 3 (pid 103) has waited longest, for an "
            "error of any task, for ");
}

/* What the launcher alone knows of. */
static void unjoined(int task, uint32_t attempt, char letter)
{
    tasks[task].info.attempt = attempt;
    tasks[task].info.state = MUSTER_TASK_DISCONNECTED;
    tasks[task].unjoined = true;
    tasks[task].letter = letter;
}

TEST_WITH(who_has_not_joined_is_said_with_what_it_does, setup, teardown)
{
    char why[192];

    lack("3,");
    unjoined(3, 0, 'S');
    assert_int_equal(mu_cli_diagnose(&picture), 0);
    says(0, "task 3 (pid 103) has never joined: 11 tasks wait for it in barrier b");
    assert_string_equal(mu_cli_why_missing(&picture, 3, why), "sleeping, pid 103, not registered");
    tasks[3].last_ran = picture.now_ns - 2000000000u;
    picture.num_findings = 0;
    free(picture.findings);
    picture.findings = NULL;
    assert_int_equal(mu_cli_diagnose(&picture), 0);
    says(0, "task 3 (pid 103) has never joined, and has slept for 2.0 s: 11 tasks wait for it in barrier b, for ");
}

TEST_WITH(who_runs_or_is_blocked_before_it_has_joined, setup, teardown)
{
    lack("3,");
    unjoined(3, 2, 'R');
    tasks[3].cpu_percent = 98;
    tasks[3].cpu_is_recent = 1;
    assert_int_equal(mu_cli_diagnose(&picture), 0);
    says(0, "task 3 (pid 103) has not joined again, and runs (98 % CPU): 11 tasks");
    free(picture.findings);
    picture.findings = NULL;
    picture.num_findings = 0;
    tasks[3].letter = 'D';
    assert_int_equal(mu_cli_diagnose(&picture), 0);
    says(0,
         "task 3 (pid 103) has not joined again, and is blocked in the kernel (disk, network file system, driver): 11");
}

TEST_WITH(several_that_are_stopped_before_they_have_joined_are_one_sentence, setup, teardown)
{
    lack("3,4,");
    unjoined(3, 0, 'T');
    unjoined(4, 0, 'T');
    unjoined(7, 0, 'R');
    assert_int_equal(mu_cli_diagnose(&picture), 0);
    says(0, "tasks 3 and 4 are stopped, and have not joined: 10 tasks wait for them in barrier b");
}
