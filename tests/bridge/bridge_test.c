/*
 * tests/bridge/bridge_test.c: whole bridges, a process each: they meet over TCP, their tasks' calls go over them, and
 * what breaks is either made good or said.
 */
/* variants: release asan tsan */
#include "cm.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "child.h"
#include "cutter.h"
#include "task/task.h"
#include "whole.h"

static const uint8_t key[MU_KEY_BYTES] = "the key of this test's whole job";

static int setup(void)
{
    test_name(job, "bridge");
    return 0;
}

/* One call whose answer proves that the leader was asked. */
static enum muster_status ask_leader(struct muster *m)
{
    struct mu_remote_call call = {.op = MU_OP_SYNC, .deadline = muster_after_ns(60000000000u), .what = "the leader"};
    struct mu_answer answer;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(m, &ctx);

    if (status)
        return status;
    status = mu_remote_call(m, ctx, &call, &answer);
    mu_answer_done(&answer);
    mu_exit(ctx);
    return status;
}

static int ask_often(struct muster *m, void *arg)
{
    const struct plan *plan = arg;

    for (int n = plan->often; n && plan->host; n--)
        CHECK(ask_leader(m) == MUSTER_OK);
    return 0;
}

/* Every task of every host counts as often; whoever comes last says so, and then all read the same. */
static int count_together(struct muster *m, void *arg)
{
    const struct plan *plan = arg;
    int64_t value = 0, all = (int64_t)plan->often * plan->num_hosts * plan->tasks_here;
    muster_deadline until = muster_after_ns(60000000000u);
    char key_of[32], text[32], got[32];
    size_t len;

    snprintf(key_of, sizeof key_of, "/own/%u", plan->host);
    for (int i = 1; i <= plan->often; i++) {
        snprintf(text, sizeof text, "%d", i);
        CHECK(muster_kv_set(m, key_of, MUSTER_NTS, text, MUSTER_NTS, NULL) == MUSTER_OK);
        CHECK(muster_kv_increment(m, "/sum", MUSTER_NTS, 1, &value) == MUSTER_OK);
        CHECK(value >= i && value <= all);
    }
    if (value == all)
        CHECK(muster_kv_set(m, "/all", MUSTER_NTS, "counted", MUSTER_NTS, NULL) == MUSTER_OK);
    CHECK(muster_kv_get(m, "/all", MUSTER_NTS, until, got, sizeof got, &len, NULL) == MUSTER_OK && len == 7);
    for (uint32_t h = 0; h < plan->num_hosts; h++) { /* what came before it is here, too */
        snprintf(key_of, sizeof key_of, "/own/%u", h);
        CHECK(muster_kv_get(m, key_of, MUSTER_NTS, until, got, sizeof got, &len, NULL) == MUSTER_OK);
        CHECK(len == strlen(text) && memcmp(got, text, len) == 0);
    }
    CHECK(muster_kv_increment(m, "/sum", MUSTER_NTS, 0, &value) == MUSTER_OK && value == all);
    return 0;
}

/* A follower's task writes and reads values of every length about those of frames and reads: each goes both ways. */
static int pass_values(struct muster *m, void *arg)
{
    static uint8_t value[300000], got[300000];
    const struct plan *plan = arg;
    size_t len;

    for (uint32_t i = 1; i <= (uint32_t)plan->often && plan->host; i++) {
        const char *key_of = i % 2 ? "/value" : "/other";
        size_t size = i * 7919u % sizeof value;

        for (size_t b = 0; b < size; b++)
            value[b] = (uint8_t)((b + i) * 2654435761u >> 13);
        CHECK(muster_kv_set(m, key_of, MUSTER_NTS, value, size, NULL) == MUSTER_OK);
        CHECK(muster_kv_try_get(m, key_of, MUSTER_NTS, got, sizeof got, &len, NULL) == MUSTER_OK);
        CHECK(len == size && memcmp(got, value, size) == 0);
    }
    return 0;
}

TEST_WITH(tasks_of_all_hosts_change_the_same_keys, setup, NULL)
{
    run_hosts((struct plan){.tasks_here = 2, .task = count_together, .often = 100, .key = key}, 3);
}

TEST_WITH(calls_go_over_tcp, setup, NULL)
{
    run_hosts((struct plan){.tasks_here = 2, .task = ask_often, .often = 200}, 2);
    run_hosts((struct plan){.tasks_here = 1, .task = pass_values, .often = 100}, 2);
}

TEST_WITH(calls_go_over_tls_between_four, setup, NULL)
{
    run_hosts((struct plan){.tasks_here = 1, .task = pass_values, .often = 100, .key = key}, 2);
    run_hosts((struct plan){.tasks_here = 1, .task = ask_often, .often = 100, .key = key}, 4);
}

TEST_WITH(calls_go_with_polling, setup, NULL)
{
    run_hosts((struct plan){.tasks_here = 1, .task = ask_often, .often = 300, .latency = true}, 2);
}

/* Reset after about so many bytes, again and again. */
static void break_often(int (*task)(struct muster *m, void *arg), int often, size_t bytes)
{
    struct plan leader = {.num_hosts = 2, .task = task};
    struct plan follower = {.host = 1, .tasks_here = 1, .often = often, .task = task};
    char through[64];
    struct cutter *c;
    pid_t pids[2];
    int status;

    pids[0] = begin_leader(&leader);
    c = cutter_new(address, through);
    follower.address = through;
    pids[1] = test_fork(run_host, &follower);
    cutter_limit(c, bytes + 1000, bytes + 1000, true);
    while (waitpid(pids[1], &status, WNOHANG) == 0) {
        cutter_turn(c, 20);
        cutter_limit(c, bytes + cutter_cuts(c) % 700, bytes + cutter_cuts(c) % 500, cutter_cuts(c) % 2);
    }
    assert_true(cutter_cuts(c) > 3);
    cutter_free(c);
    assert_int_equal(status, 0);
    assert_int_equal(test_reap(pids[0]), 0);
}

TEST_WITH(calls_go_on_after_the_connection_broke, setup, NULL)
{
    break_often(ask_often, 1000, 5000);
    break_often(pass_values, 60, 450000); /* within values: each is sent again, whole */
}

/* ---- meeting ---- */

static void refused_with(struct plan plan, const char *part)
{
    plan.address = address;
    plan.ends = MUSTER_FAILED_PRECONDITION;
    plan.why = part;
    assert_int_equal(test_in_child(run_host, &plan), 0);
}

static int in_another_job(void *arg)
{
    snprintf(job, sizeof job, "another-job");
    return run_host(arg);
}

TEST_WITH(who_does_not_belong_is_refused_and_the_others_meet, setup, NULL)
{
    struct plan leader = {.num_hosts = 3, .task = ask_often, .key = key};
    struct plan good = {.host = 1, .tasks_here = 1, .often = 5, .task = ask_often, .key = key, .address = address};
    struct plan other = {.host = 2, .tasks_here = 1, .often = 5, .task = ask_often, .key = key, .address = address};
    struct plan stray = {.host = 2,
                         .key = key,
                         .address = address,
                         .ends = MUSTER_FAILED_PRECONDITION,
                         .why = "it is of job 'another-job', this is job 'test-"};
    pid_t pids[2], first;

    pids[0] = begin_leader(&leader);
    refused_with((struct plan){.host = 3, .key = key}, "it calls itself node 3, and the job has 3 hosts: 0 to 2");
    refused_with((struct plan){.host = 4000000, .key = key}, "it calls itself node 4000000");
    refused_with((struct plan){.host = 1, .key = (const uint8_t *)"another key, also of 32 bytes...."},
                 "has another key than this host");
    refused_with((struct plan){.host = 1}, "it came in the clear, and this job has a key");
    assert_int_equal(test_in_child(in_another_job, &stray), 0);
    first = test_fork(run_host, &good);
    pids[1] = test_fork(run_host, &other);
    assert_int_equal(test_reap(pids[1]), 0);
    assert_int_equal(test_reap(first), 0);
    assert_int_equal(test_reap(pids[0]), 0);
}

static int pass_gate(struct muster *m, void *arg)
{
    const struct plan *plan = arg;

    (void)m;
    test_gate_arrive(plan->gate);
    test_gate_pass(plan->gate);
    return ask_often(m, arg);
}

TEST_WITH(who_comes_late_or_twice_is_refused, setup, NULL)
{
    struct test_gate gate;
    struct plan leader = {.num_hosts = 2, .task = ask_often};
    struct plan follower = {.host = 1, .tasks_here = 1, .often = 5, .task = pass_gate, .gate = &gate};
    pid_t pids[2];

    assert_int_equal(test_gate_open(&gate), 0);
    pids[0] = begin_leader(&leader);
    follower.address = address;
    pids[1] = test_fork(run_host, &follower);
    test_gate_await(&gate);
    refused_with((struct plan){.host = 1}, "node 1 is taken by host name-1, agent pid ");
    refused_with((struct plan){.host = UINT32_MAX}, "all 2 hosts of the job are there already");
    test_gate_release(&gate);
    assert_int_equal(test_reap(pids[1]), 0);
    assert_int_equal(test_reap(pids[0]), 0);
    test_gate_close(&gate);
}

TEST_WITH(who_is_missing_is_named_to_all, setup, NULL)
{
    struct plan leader = {.num_hosts = 40,
                          .join_ns = 1500000000,
                          .ends = MUSTER_DEADLINE_EXCEEDED,
                          .why = "hosts 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 and 22 more of 40 have "
                                 "not come in time"};
    struct plan follower = {
        .host = 2, .address = address, .ends = MUSTER_FAILED_PRECONDITION, .why = "and 22 more of 40"};
    pid_t pid = begin_leader(&leader);

    assert_int_equal(test_in_child(run_host, &follower), 0);
    assert_int_equal(test_reap(pid), 0);
}

static int wait_for_the_end(struct muster *m, void *arg)
{
    const struct plan *plan = arg;
    enum muster_status status = MUSTER_OK;

    while (plan->host && status == MUSTER_OK)
        status = ask_leader(m);
    CHECK(!plan->host || status == MUSTER_UNAVAILABLE);
    return 0;
}

TEST_WITH(a_leader_that_was_killed_is_lost, setup, NULL)
{
    struct plan leader = {.num_hosts = 2, .task = wait_for_the_end, .timeout_ns = 1000000000};
    struct plan follower = {
        .host = 1, .tasks_here = 1, .task = wait_for_the_end, .is_left_alone = true, .address = address};
    pid_t pids[2];

    pids[0] = begin_leader(&leader);
    pids[1] = test_fork(run_host, &follower);
    while (!test_exists(job)) /* both have met */
        poll(NULL, 0, 5);
    kill(pids[0], SIGKILL);
    assert_int_equal(test_reap(pids[0]), 1000 + SIGKILL);
    assert_int_equal(test_reap(pids[1]), 0);
    assert_ok(muster_segment_remove(job)); /* the leader could not */
}

/* Counts alone, and stops in the middle until the agent has died. */
static int count_through_a_death(struct muster *m, void *arg)
{
    const struct plan *plan = arg;
    int64_t value = 0;

    for (int i = 1; i <= plan->often; i++) {
        if (i % (plan->often / 4) == 0) {
            test_gate_arrive(plan->gate);
            test_gate_pass(plan->gate);
        }
        CHECK(muster_kv_increment(m, "/count", MUSTER_NTS, 1, &value) == MUSTER_OK && value == i);
    }
    return 0;
}

/* One after the other, and both at once: with the segment and the address, and without waiting for the other. */
TEST_WITH(agents_go_on_where_others_were_killed, setup, NULL)
{
    struct test_gate gate, over;
    struct plan plans[2] = {{.num_hosts = 2, .task = ask_often, .key = key, .timeout_ns = 2000000000, .gate = &over},
                            {.host = 1, .num_hosts = 2, .tasks_here = 1, .key = key, .is_apart = true, .gate = &over}};
    struct plan counts = {.often = 400, .gate = &gate, .task = count_through_a_death};
    struct task task = {.plan = &counts};
    pid_t pids[2], counter;

    assert_int_equal(test_gate_open(&gate), 0);
    assert_int_equal(test_gate_open(&over), 0);
    snprintf(task.segment, sizeof task.segment, "%.100s.h1", job);
    plans[0].adopt_ns = 60000000000u;
    plans[1].incarnation = 77;
    pids[0] = begin_leader(&plans[0]);
    plans[0].address = plans[1].address = address;
    pids[1] = test_fork(run_host, &plans[1]);
    while (!test_exists(task.segment))
        poll(NULL, 0, 5);
    counter = test_fork(run_task, &task);
    for (int i = 0; i < 4; i++) {
        test_gate_await(&gate);
        for (int h = 0; h < 2; h++)
            kill(pids[h], i == 1 - h ? 0 : SIGKILL);
        for (int h = 1; h >= 0; h--) {
            if (i == 1 - h)
                continue;
            assert_int_equal(test_reap(pids[h]), 1000 + SIGKILL);
            plans[h].is_resuming = true;
            plans[h].tell = 0; /* the address is known */
            pids[h] = test_fork(run_host, &plans[h]);
        }
        test_gate_release(&gate); /* the answer to its next count shows that both have met again */
    }
    assert_int_equal(test_reap(counter), 0);
    test_gate_release(&over);
    assert_int_equal(test_reap(pids[1]), 0);
    assert_int_equal(test_reap(pids[0]), 0);
    test_gate_close(&gate);
    test_gate_close(&over);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    return test_run(NULL, NULL);
}
