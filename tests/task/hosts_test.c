/*
 * tests/task/hosts_test.c: tasks of other hosts as their records show them here. There is no bridge in this test: what
 * an agent would write is written by hand.
 */
#include "cm.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "job.h"
#include "segment/cluster.h"
#include "segment/file.h"
#include "segment/hosts.h"
#include "task/task.h"

static const uint32_t tasks[] = {2, 2, 0, 1};
static struct test_job job;
static struct muster *agent;
static struct mu_ctx *ctx;

/* The segment of host 1: tasks 2 and 3. Its heartbeats time out at once. */
static int setup(void)
{
    const struct mu_hosts_config hosts = {.num_hosts = 4, .host = 1, .num_tasks = tasks, .run_id = {7, 8}};
    const struct muster_segment_config config = {.num_tasks = 5,
                                                 .num_slots = 16,
                                                 .num_buckets = 64,
                                                 .num_events = 16,
                                                 .heap_bytes = 1 << 20,
                                                 .heartbeat_timeout_ns = 1};

    test_name(job.name, "h1");
    if (mu_segment_create_hosts(job.name, &config, &hosts, true, &job.segment))
        return -1;
    mu_host_set_name(job.segment, 0, "ada");
    mu_host_set_name(job.segment, 1, "bob");
    return mu_task_join_open(job.segment, &agent) ? -1 : 0;
}

static int teardown(void)
{
    muster_leave(agent);
    return test_job_end(&job) ? -1 : 0;
}

static bool put(struct mu_task_change *c)
{
    const struct mu_task_change *wanted = c->arg;

    c->record = wanted->record;
    memcpy(c->text, wanted->text, sizeof c->text);
    return true;
}

static void merge(uint32_t task, uint32_t task_state, uint32_t cause, const char *text)
{
    struct mu_task_change wanted = {.record = {.state = task_state,
                                               .cause = cause,
                                               .code = cause ? MUSTER_UNAVAILABLE : MUSTER_OK,
                                               .flags = MU_TASK_REMOTE,
                                               .pid = 4711,
                                               .attempt = 1,
                                               .incarnation = 12345,
                                               .since = mu_now()}};

    snprintf(wanted.text, sizeof wanted.text, "%s", text);
    assert_ok(mu_enter(agent, &ctx));
    assert_ok(mu_cluster_edit(ctx, task, put, &wanted));
    mu_exit(ctx);
}

static struct muster_task_info get(int32_t task)
{
    struct muster_task_info info;

    assert_ok(muster_task_get(agent, task, &info));
    return info;
}

TEST_WITH(a_task_of_another_host_is_listed_with_its_host, setup, teardown)
{
    struct muster_task_info info, all[5];
    size_t count;

    assert_string_equal(get(0).host, "");
    merge(0, MUSTER_TASK_CONNECTED, MUSTER_CAUSE_NONE, "");
    merge(4, MUSTER_TASK_CONNECTED, MUSTER_CAUSE_NONE, "");
    info = get(0);
    assert_int_equal(info.state, MUSTER_TASK_CONNECTED);
    assert_int_equal(info.pid, 4711);
    assert_true(info.alive);
    assert_string_equal(info.host, "ada");
    assert_ok(muster_task_list(agent, all, 5, &count, NULL));
    assert_string_equal(all[4].host, "host 3"); /* whose agent has not told its name */
    assert_string_equal(all[2].host, "");
}

TEST_WITH(an_error_names_task_pid_and_host, setup, teardown)
{
    struct muster_error e;

    merge(1, MUSTER_TASK_ERROR, MUSTER_CAUSE_DIED, "killed by signal 9");
    assert_false(get(1).alive);
    assert_ok(muster_error_wait(agent, 0, &e));
    assert_int_equal(e.task_id, 1);
    assert_int_equal(e.pid, 4711);
    assert_string_equal(e.host, "ada");
    assert_status(MUSTER_UNAVAILABLE, mu_cluster_error(job.segment, "it"));
    assert_string_equal(muster_last_error(), "it: task 1 (pid 4711 on host ada) is in error: killed by signal 9");
}

TEST_WITH(the_leader_says_which_error_was_first, setup, teardown)
{
    struct muster_error e;
    uint64_t version, again;

    merge(2, MUSTER_TASK_ERROR, MUSTER_CAUSE_REPORTED, "second");
    merge(1, MUSTER_TASK_ERROR, MUSTER_CAUSE_REPORTED, "first");
    merge(4, MUSTER_TASK_CONNECTED, MUSTER_CAUSE_NONE, "");
    assert_ok(muster_task_list(agent, NULL, 0, NULL, &version));
    assert_ok(mu_enter(agent, &ctx));
    assert_ok(mu_cluster_set_first(ctx, 1));
    assert_ok(mu_cluster_set_first(ctx, 4)); /* in no error */
    assert_ok(mu_cluster_set_first(ctx, 0));
    mu_exit(ctx);
    assert_ok(muster_error_wait(agent, 0, &e));
    assert_int_equal(e.task_id, 1);
    assert_string_equal(e.message, "first");
    assert_ok(muster_task_list(agent, NULL, 0, NULL, &again));
    assert_int_equal(again, version + 1); /* who waits for a change looks again, once */
}

TEST_WITH(only_own_heartbeats_are_watched, setup, teardown)
{
    struct muster *own = test_join(job.name, 2, 0);
    struct mu_beat beats[5] = {{0}};
    uint64_t last = 0;

    assert_non_null(own);
    merge(0, MUSTER_TASK_CONNECTED, MUSTER_CAUSE_NONE, "");
    assert_ok(mu_enter(agent, &ctx));
    for (int i = 0; i < 2; i++) {
        mu_beats_check(ctx, beats, &last);
        last = 0; /* a checker that was late grants a period; this one was not */
    }
    mu_exit(ctx);
    assert_int_equal(get(0).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(get(2).cause, MUSTER_CAUSE_HEARTBEAT);
    muster_leave(own);
}

TEST_WITH(a_task_joins_on_its_own_host_alone, setup, teardown)
{
    struct muster_options options;
    struct muster *m;

    muster_options_init(&options);
    options.job = job.name;
    options.flags = MUSTER_JOIN_NO_CREATE | MUSTER_JOIN_NO_HEARTBEAT;
    options.task_id = 1;
    assert_status(MUSTER_INVALID_ARGUMENT, muster_join(&options, &m));
    assert_says("task 1 of job ");
    assert_says(" is one of host 0 (ada); this is host 1 (bob), with tasks 2 to 3");
    options.task_id = 4;
    assert_status(MUSTER_INVALID_ARGUMENT, muster_join(&options, &m));
    assert_says(" is one of host 3 (host 3); ");
    options.task_id = 5;
    assert_status(MUSTER_INVALID_ARGUMENT, muster_join(&options, &m));
    assert_says("has tasks 0 to 4");
    options.task_id = 3;
    assert_ok(muster_join(&options, &m));
    assert_ok(muster_leave(m));
}
