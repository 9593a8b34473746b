/*
 * tests/bridge/whole.h: a host with its whole bridge as a process, its tasks as others: it meets the rest of the job,
 * its tasks do what the test's plan says, and it ends.
 */
#ifndef TEST_WHOLE_H
#define TEST_WHOLE_H

#include "cm.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bridge/bridge_private.h"
#include "child.h"
#include "job.h"
#include "segment/file.h"

struct plan {
    uint32_t host, num_hosts, tasks_here;
    const uint8_t *key;
    bool latency;
    int (*task)(struct muster *m, void *arg);
    int often;
    const char *address; /* a follower's */
    int tell;            /* leader: where its address goes, with a NUL */
    uint64_t timeout_ns, join_ns, adopt_ns;
    enum muster_status ends; /* of meeting */
    const char *why;         /* part of its sentence */
    struct test_gate *gate;
    uint64_t incarnation; /* 0: the process's */
    bool is_apart;        /* its task is not this process's child; the gate says when it has ended */
    bool is_resuming;     /* where another agent has died */
    bool is_left_alone;   /* the leader will die: wait until it is lost */
};

static char job[128];

struct host {
    const struct plan *plan;
    int tells[2]; /* the processes of its tasks what they are */
    pid_t pids[8];
    struct mu_bridge *bridge;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t ended; /* hosts that have left or are lost */
    char why[300];
};

static void on_listens(void *arg, const char *address)
{
    const struct host *h = arg;

    CHECK(write(h->plan->tell, address, strlen(address) + 1) > 0);
}

static void on_said(void *arg, const char *sentence)
{
    const struct host *h = arg;

    printf("host %u: %s\n", h->plan->host, sentence);
}

static void on_changed(void *arg, uint32_t host, enum mu_peer_state state, const char *why)
{
    struct host *h = arg;

    (void)host;
    if (state != MU_PEER_LOST)
        return;
    pthread_mutex_lock(&h->lock);
    h->ended++;
    snprintf(h->why, sizeof h->why, "%s", why);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void await_ended(struct host *h, uint32_t count)
{
    struct timespec until;
    int error = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&h->lock);
    while (h->ended < count && !error)
        error = pthread_cond_timedwait(&h->changed, &h->lock, &until);
    pthread_mutex_unlock(&h->lock);
    CHECK(!error);
}

static void options_of(struct host *h, struct mu_bridge_options *ret_options)
{
    const struct plan *plan = h->plan;

    *ret_options =
        (struct mu_bridge_options){.leader = plan->host == 0,
                                   .latency = plan->latency,
                                   .job = job,
                                   .num_hosts = plan->num_hosts,
                                   .adopt_ns = plan->adopt_ns,
                                   .num_tasks = plan->tasks_here,
                                   .welcome = "for all",
                                   .welcome_len = 8,
                                   .num_events = 16,
                                   .num_buckets = 64,
                                   .heap_bytes = 16 << 20,
                                   .join_until = muster_after_ns(plan->join_ns ? plan->join_ns : 60000000000u),
                                   .arg = h,
                                   .listens = plan->tell ? on_listens : NULL,
                                   .said = on_said,
                                   .host_changed = on_changed};
    ret_options->link.address = plan->host || plan->is_resuming ? plan->address : "127.0.0.1:0";
    ret_options->link.key = plan->key;
    ret_options->link.timeout_ns = plan->timeout_ns;
    ret_options->link.join.node = plan->host;
    ret_options->link.join.pid = (uint32_t)getpid();
    ret_options->link.join.incarnation[0] = plan->incarnation ? plan->incarnation : (uint64_t)getpid();
    snprintf(ret_options->link.join.host, sizeof ret_options->link.join.host, "name-%u", plan->host);
}

struct task {
    const struct plan *plan;
    int32_t id;
    char segment[128];
};

static int run_task(void *arg)
{
    struct task *t = arg;
    struct muster *m = test_join(t->segment, t->id, 0);
    int result;

    CHECK(m);
    result = t->plan->task(m, (void *)(uintptr_t)t->plan);
    CHECK(muster_leave(m) == MUSTER_OK);
    return result;
}

/*
 * The processes of a host's tasks are begun before the bridge's threads are: who forks beside a thread that allocates
 * may find AddressSanitizer's allocator locked for ever. They wait for what they are; where nobody tells them they end.
 */
static int run_told_task(void *arg)
{
    const struct host *h = arg;
    struct task t;

    close(h->tells[1]);
    return read(h->tells[0], &t, sizeof t) == sizeof t ? run_task(&t) : 0;
}

static void begin_tasks(struct host *h)
{
    CHECK(pipe(h->tells) == 0);
    for (uint32_t i = 0; i < h->plan->tasks_here && !h->plan->is_apart; i++)
        h->pids[i] = test_fork(run_told_task, h);
    close(h->tells[0]);
}

static void tell_tasks(const struct host *h, struct task t)
{
    for (uint32_t i = 0; i < h->plan->tasks_here && !h->plan->is_apart; i++, t.id++)
        CHECK(write(h->tells[1], &t, sizeof t) == sizeof t);
}

static int reap_tasks(const struct host *h)
{
    int result = 0;

    close(h->tells[1]);
    for (uint32_t i = 0; i < h->plan->tasks_here && !h->plan->is_apart; i++)
        result |= test_reap(h->pids[i]);
    return result;
}

/* Its segment, its tasks, its bridge, and their end. */
static int run_met(struct host *h)
{
    const struct mu_bridge_shape *shape = mu_bridge_shape(h->bridge);
    const struct plan *plan = h->plan;
    struct mu_hosts_config hosts = {.num_hosts = shape->num_hosts,
                                    .host = shape->host,
                                    .num_tasks = shape->tasks,
                                    .run_id = {shape->run_id[0], shape->run_id[1]},
                                    .adopt_ns = shape->adopt_ns};
    struct muster_segment_config config = {.num_tasks = shape->num_tasks,
                                           .num_slots = 32,
                                           .num_buckets = shape->num_buckets,
                                           .num_events = shape->num_events,
                                           .heap_bytes = shape->heap_bytes,
                                           .heartbeat_timeout_ns = 600000000000u};
    struct task task = {.plan = plan};
    struct test_job mine;
    struct muster *m;
    int result;

    CHECK(shape->welcome_len == 8 && !memcmp(shape->welcome, "for all", 8));
    for (uint32_t i = 0; i < shape->host; i++)
        task.id += (int32_t)shape->tasks[i];
    snprintf(task.segment, sizeof task.segment, shape->host ? "%.100s.h%u" : "%.100s", job, shape->host);
    snprintf(mine.name, sizeof mine.name, "%s", task.segment);
    CHECK(mu_segment_create_hosts(task.segment, &config, &hosts, true, &mine.segment) == MUSTER_OK);
    tell_tasks(h, task);
    CHECK(mu_task_join_open(mine.segment, &m) == MUSTER_OK);
    CHECK(mu_bridge_start(h->bridge, m) == MUSTER_OK);
    result = reap_tasks(h);
    if (plan->is_apart)
        test_gate_pass(plan->gate);
    if (plan->is_left_alone)
        await_ended(h, 1);
    if (!plan->host)
        await_ended(h, plan->num_hosts - 1);
    mu_bridge_stop(h->bridge);
    CHECK(muster_leave(m) == MUSTER_OK);
    CHECK(test_job_end(&mine) == 0);
    return result;
}

static int run_resumed(struct host *h, const struct mu_bridge_options *options)
{
    const struct plan *plan = h->plan;
    struct test_job mine;
    struct muster *m;

    snprintf(mine.name, sizeof mine.name, plan->host ? "%.100s.h%u" : "%.100s", job, plan->host);
    CHECK(mu_segment_open(mine.name, true, &mine.segment) == MUSTER_OK);
    CHECK(mu_task_join_open(mine.segment, &m) == MUSTER_OK);
    CHECK(mu_bridge_resume(options, m, &h->bridge) == MUSTER_OK);
    if (plan->host)
        test_gate_pass(plan->gate);
    else
        await_ended(h, plan->num_hosts - 1);
    mu_bridge_stop(h->bridge);
    CHECK(muster_leave(m) == MUSTER_OK);
    return test_job_end(&mine);
}

static int run_host(void *arg)
{
    struct host h = {.plan = arg, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct mu_bridge_options options;
    enum muster_status status;

    options_of(&h, &options);
    if (h.plan->is_resuming)
        return run_resumed(&h, &options);
    begin_tasks(&h);
    status = mu_bridge_meet(&options, NULL, &h.bridge);
    if (status != h.plan->ends || (h.plan->why && !strstr(muster_last_error(), h.plan->why))) {
        printf("host %u: meeting gave %s: %s\n", h.plan->host, muster_status_name(status), muster_last_error());
        return 1;
    }
    return status ? reap_tasks(&h) : run_met(&h);
}

/* ---- the test's side ---- */

static char address[64];

/* The leader's process; its address is known when it returns. */
static pid_t begin_leader(struct plan *plan)
{
    int ends[2];
    size_t have = 0;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    plan->tell = ends[1];
    pid = test_fork(run_host, plan);
    close(ends[1]);
    do {
        assert_int_equal(read(ends[0], address + have, 1), 1);
    } while (address[have++]);
    close(ends[0]);
    return pid;
}

static void run_hosts(struct plan plan, uint32_t count)
{
    struct plan plans[8];
    pid_t pids[8];

    plan.num_hosts = count;
    for (uint32_t i = 0; i < count; i++) {
        plans[i] = plan;
        plans[i].host = i;
        plans[i].address = address;
        pids[i] = i ? test_fork(run_host, &plans[i]) : begin_leader(&plans[0]);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(test_reap(pids[i]), 0);
}

#endif
