/*
 * tests/segment/hosts_test.c: segments of one job on several hosts: whose task is where, the bell, calls to the agent
 * and their answers, and what a segment that lies about its hosts gives.
 */
#include "cm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "segment/file.h"
#include "segment/remote.h"
#include "segment/slot.h"
#include "task/task.h"

static const uint32_t tasks[] = {2, 0, 3, 1};
static struct test_job job;
static struct muster *agent;

/* The segment of host 2: tasks 2, 3, 4. */
static int setup(void)
{
    const struct mu_hosts_config hosts = {.num_hosts = 4, .host = 2, .num_tasks = tasks, .run_id = {7, 8}};
    const struct muster_segment_config config = {
        .num_tasks = 6, .num_slots = 70, .num_buckets = 64, .num_events = 16, .heap_bytes = 160u << 20};

    test_name(job.name, "h2");
    if (mu_segment_create_hosts(job.name, &config, &hosts, true, &job.segment))
        return -1;
    return mu_task_join_open(job.segment, &agent) ? -1 : 0;
}

static int teardown(void)
{
    muster_leave(agent);
    return test_job_end(&job) ? -1 : 0;
}

static void say(enum mu_bridge_state state)
{
    struct mu_ctx *ctx;

    assert_ok(mu_enter(agent, &ctx));
    mu_host_bridge_say(ctx, state);
    mu_exit(ctx);
}

TEST_WITH(test_tasks_are_where_the_header_says, setup, teardown)
{
    static const uint32_t where[] = {0, 0, 2, 2, 2, 3};
    struct muster_segment *seg = job.segment;
    struct muster_segment_info info;
    char name[64];

    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(mu_host_of(seg, i), where[i]);
        assert_int_equal(mu_is_local_task(seg, i), where[i] == 2);
    }
    assert_true(mu_is_bridged(seg) && mu_is_follower(seg) && !mu_is_leader(seg));
    assert_ok(muster_segment_info(seg, &info));
    assert_int_equal(info.run_id[0], 7);
    mu_host_name(seg, 3, name, sizeof name);
    assert_string_equal(name, "host 3");
    mu_host_set_name(seg, 3, "a-name-of-a-host-that-is-longer-than-the-sixty-three-bytes-kept-of-it");
    mu_host_name(seg, 3, name, sizeof name);
    assert_string_equal(name, "a-name-of-a-host-that-is-longer-than-the-sixty-three-bytes-kept");
}

TEST(test_impossible_hosts_are_refused)
{
    const struct muster_segment_config config = {.num_tasks = 6, .heap_bytes = 1 << 20};
    struct mu_hosts_config hosts = {.num_hosts = 4, .host = 4, .num_tasks = tasks};
    struct muster_segment *seg;
    char name[128];

    test_name(name, "bad");
    assert_status(MUSTER_INVALID_ARGUMENT, mu_segment_create_hosts(name, &config, &hosts, true, &seg));
    assert_says("host 4 of 4");
    hosts = (struct mu_hosts_config){.num_hosts = 3, .host = 0, .num_tasks = tasks};
    assert_status(MUSTER_INVALID_ARGUMENT, mu_segment_create_hosts(name, &config, &hosts, true, &seg));
    assert_says("the hosts have 5 tasks, the job 6");
    assert_false(test_exists(name));
}

/* A header whose table of hosts was changed behind its back. */
TEST_WITH(test_a_damaged_table_is_refused, setup, teardown)
{
    struct muster_segment *seg;
    uint32_t *first = &job.segment->hosts[2].first_task, before = *first;

    *first = before + 1;
    assert_status(MUSTER_DATA_LOSS, mu_segment_open(job.name, false, &seg));
    assert_says("impossible tasks of a host");
    *first = before;
    job.segment->hosts[3].num_tasks = 0;
    assert_status(MUSTER_DATA_LOSS, mu_segment_open(job.name, false, &seg));
    assert_says("tasks of no host");
    job.segment->hosts[3].num_tasks = 1;
    assert_ok(mu_segment_open(job.name, false, &seg));
    muster_segment_close(seg);
}

static void *ring(void *arg)
{
    struct muster_segment *seg = arg;

    while (!mu_load32_acquire(&seg->header->bell)) /* acquire: until the agent has armed it */
        usleep(100);                               /* sleep: nothing tells a ringer that the bell is armed */
    mu_bell_ring(seg);
    return NULL;
}

TEST_WITH(test_the_bell_wakes_who_sleeps, setup, teardown)
{
    pthread_t thread;

    mu_bell_ring(job.segment); /* nobody is there: nothing is kept */
    mu_bell_arm(job.segment);
    assert_false(mu_bell_wait(job.segment, 1));
    assert_int_equal(pthread_create(&thread, NULL, ring, job.segment), 0);
    mu_bell_arm(job.segment);
    assert_true(mu_bell_wait(job.segment, MUSTER_FOREVER));
    pthread_join(thread, NULL);
    mu_bell_arm(job.segment);
    mu_bell_ring(job.segment);
    assert_true(mu_bell_disarm(job.segment));
}

/* ---- calls ---- */

struct served {
    struct mu_ctx *ctx;
    unsigned answered;
};

/* Turns the body round; a body "fail" gets an error; op NONE is nobody's. */
static void serve(void *arg, uint32_t slot)
{
    struct served *s = arg;
    struct mu_request r;
    uint8_t *turned;

    assert_ok(mu_remote_read(s->ctx, slot, &r));
    if (r.op == MU_OP_NONE)
        return;
    turned = malloc(r.body.left + 1);
    for (size_t i = 0; i < r.body.left; i++)
        turned[i] = r.body.at[r.body.left - 1 - i];
    if (r.body.left == 4 && !memcmp(r.body.at, "fail", 4))
        assert_ok(mu_remote_answer(s->ctx, slot, r.number, MUSTER_NOT_FOUND, "there is none", NULL, 0));
    else
        assert_ok(mu_remote_answer(s->ctx, slot, r.number, MUSTER_OK, NULL, turned, r.body.left));
    /* a late answer to an earlier call changes nothing */
    assert_ok(mu_remote_answer(s->ctx, slot, r.number - 1, MUSTER_OK, NULL, "stale", 5));
    s->answered++;
    free(turned);
    mu_request_done(&r);
}

/* Answers until `calls` have been. */
static void serve_calls(unsigned calls)
{
    struct served s = {0};

    assert_ok(mu_enter(agent, &s.ctx));
    while (s.answered < calls) {
        mu_bell_arm(job.segment);
        mu_remote_collect(job.segment, serve, &s);
        mu_bell_wait(job.segment, s.answered < calls ? muster_after_ns(100000000) : 0);
    }
    mu_exit(s.ctx);
}

static enum muster_status call(struct muster *m, const void *bytes, size_t len, muster_deadline deadline,
                               struct mu_answer *a)
{
    struct mu_pack request = {0};
    struct mu_remote_call c = {.op = MU_OP_SYNC, .request = &request, .deadline = deadline, .what = "a test's call"};
    struct mu_ctx *ctx;
    enum muster_status status;

    mu_pack_raw(&request, bytes, len);
    CHECK(mu_enter(m, &ctx) == MUSTER_OK);
    status = mu_remote_call(m, ctx, &c, a);
    mu_exit(ctx);
    mu_pack_done(&request);
    return status;
}

static struct muster *come(int32_t task)
{
    struct muster_options o;
    struct muster *m;

    muster_options_init(&o);
    o.job = job.name;
    o.task_id = task;
    o.flags = MUSTER_JOIN_NO_CREATE;
    CHECK(muster_join(&o, &m) == MUSTER_OK);
    return m;
}

static int caller(void *arg)
{
    struct muster *m = come(3);
    size_t large = 9u << 20;
    uint8_t *bytes = malloc(large);
    struct mu_answer a;

    (void)arg;
    CHECK(call(m, "abc", 3, MUSTER_FOREVER, &a) == MUSTER_OK && a.body.left == 3 && !memcmp(a.body.at, "cba", 3));
    mu_answer_done(&a);
    CHECK(call(m, "fail", 4, MUSTER_FOREVER, &a) == MUSTER_NOT_FOUND && a.status == MUSTER_NOT_FOUND);
    CHECK(!strcmp(muster_last_error(), "there is none"));
    mu_answer_done(&a);
    for (size_t i = 0; i < large; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    CHECK(call(m, bytes, large, MUSTER_FOREVER, &a) == MUSTER_OK && a.body.left == large);
    for (size_t i = 0; i < large; i++)
        if (a.body.at[i] != bytes[large - 1 - i])
            CHECK(!"the answer's bytes");
    mu_answer_done(&a);
    CHECK(call(m, "", 0, MUSTER_FOREVER, &a) == MUSTER_OK && a.body.left == 0);
    mu_answer_done(&a);
    free(bytes);
    muster_leave(m);
    return 0;
}

TEST_WITH(test_calls_are_answered, setup, teardown)
{
    struct muster_audit sum;
    pid_t pid;

    say(MU_BRIDGE_UP);
    pid = test_fork(caller, NULL);
    serve_calls(4);
    assert_int_equal(test_reap(pid), 0);
    assert_ok(muster_segment_check(job.segment, NULL, NULL, &sum));
    assert_true(sum.bytes_live < 1 << 20); /* the large call left nothing behind */
}

static int impatient(void *arg)
{
    struct muster *m = come(4);
    struct mu_answer a;

    (void)arg;
    CHECK(call(m, "abc", 3, muster_after_ns(20000000), &a) == MUSTER_DEADLINE_EXCEEDED && !a.memory);
    CHECK(strstr(muster_last_error(), "a test's call"));
    muster_leave(m);
    return 0;
}

static int forlorn(void *arg)
{
    struct muster *m = come(4);
    struct mu_answer a;

    (void)arg;
    CHECK(call(m, "abc", 3, MUSTER_FOREVER, &a) == MUSTER_UNAVAILABLE);
    CHECK(strstr(muster_last_error(), "the leader of the job, host host 0, is lost") ||
          strstr(muster_last_error(), "is lost"));
    muster_leave(m);
    return 0;
}

static void count_open(void *arg, uint32_t slot)
{
    struct served *s = arg;
    struct mu_request r;

    assert_ok(mu_remote_read(s->ctx, slot, &r));
    s->answered += r.op != MU_OP_NONE;
    mu_request_done(&r);
}

/* What the agent had not answered, another one finds; and a wait for an answer ends when the leader is lost. */
TEST_WITH(test_open_calls_are_found_again, setup, teardown)
{
    struct served s = {0};
    pid_t pid;

    say(MU_BRIDGE_UP);
    assert_int_equal(test_in_child(impatient, NULL), 0);
    assert_ok(mu_enter(agent, &s.ctx));
    mu_remote_collect_all(job.segment, count_open, &s);
    mu_exit(s.ctx);
    assert_int_equal(s.answered, 1);
    pid = test_fork(forlorn, NULL);
    test_until_asleep(pid);
    say(MU_BRIDGE_LOST);
    assert_int_equal(test_reap(pid), 0);
    say(MU_BRIDGE_UP);
}
