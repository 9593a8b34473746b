/* tests/bridge/ear_test.c: who listens to the bell of a job of several hosts besides the bridge is told of what changes
 * after it has armed: on the leader's host and on another, whoever of the bridge's threads sleeps, works or polls. */
#include "lanes.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <muster/barrier.h>
#include <muster/kv.h>
#include <muster/task.h>

#include "child.h"
#include "job.h"
#include "kv/remote.h"

/* Hosts that are slow because this machine is are not given up. */
#define PATIENCE_NS 600000000000u
enum { ROUNDS = 300 };

static struct hosts *open_hosts(void)
{
    return hosts_open(&(struct hosts_config){.tasks = {2, 1}, .timeout_ns = PATIENCE_NS});
}

static void drain(struct caller *c)
{
    while (!sem_trywait(&c->rung))
        ;
}

/* As a loop does it: arm, look, wait to be told. Fails where nobody tells for so long that nobody will. */
static void listen_step(struct caller *c, bool waits)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    if (waits && sem_timedwait(&c->rung, &until))
        fail_msg("nobody tells");
    drain(c);
    mu_lanes_arm(c->lanes);
    mu_lanes_take(c->lanes);
}
#define listen_await(c, condition, ...)                                                                                \
    do {                                                                                                               \
        listen_step((c), false);                                                                                       \
        await_by(listen_step((c), true), condition, __VA_ARGS__);                                                      \
    } while (0)

struct key {
    struct muster *m;
    char name[32];
};

/* Each key when the one before has been seen. */
static int set_keys(struct muster *m, void *arg)
{
    char name[32], found[8];

    for (int i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof name, "%s/%d", (const char *)arg, i);
        CHECK(muster_kv_set(m, name, MUSTER_NTS, "x", 1, NULL) == MUSTER_OK);
        snprintf(name, sizeof name, "seen/%d", i);
        CHECK(muster_kv_get(m, name, MUSTER_NTS, MUSTER_FOREVER, found, sizeof found, NULL, NULL) == MUSTER_OK);
    }
    return 0;
}

static void hear_keys(struct caller *c, struct muster *m)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct key k = {.m = m};

        snprintf(k.name, sizeof k.name, "key/%d", i);
        listen_await(c, muster_kv_try_get(k.m, k.name, MUSTER_NTS, NULL, 0, NULL, NULL) == MUSTER_OUT_OF_RANGE,
                     "key is there");
        snprintf(k.name, sizeof k.name, "seen/%d", i);
        assert_ok(muster_kv_set(m, k.name, MUSTER_NTS, "y", 1, NULL));
    }
}

/* The leader's listener hears of what a task of its own host does, and of what another host's asks the leader for. */
TEST(the_leader_hears_of_keys_from_both_hosts)
{
    static char key[] = "key";

    for (uint32_t task = 0; task < 3; task += 2) {
        struct hosts *h = open_hosts();
        struct muster *m;
        struct caller c;
        pid_t pid;

        caller_begin(&c, h, 0);
        m = hosts_observer(h, 0);
        pid = hosts_task(h, task, set_keys, key);
        hear_keys(&c, m);
        assert_int_equal(hosts_reap(h, pid), 0);
        assert_ok(muster_leave(m));
        caller_end(&c);
        assert_int_equal(hosts_close(h), 0);
    }
}

/* On another host a key that it has asked for comes as a copy. */
TEST(a_follower_hears_of_the_copies_that_come)
{
    static char key[] = "key";
    struct hosts *h = open_hosts();
    struct muster *m = hosts_observer(h, 1);
    struct question q = {.answers = 0};
    struct caller c;
    pid_t pid;

    caller_begin(&c, h, 1);
    pid = hosts_task(h, 0, set_keys, key);
    for (int i = 0; i < ROUNDS; i++) {
        struct key k = {.m = m};

        snprintf(k.name, sizeof k.name, "key/%d", i);
        question_get(&q, k.name, MU_READ_WAITS, 0);
        assert_status(MUSTER_OK, caller_do(&c, &q, NULL));
        assert_int_not_equal(q.bytes[0], MU_READ_VALUE);
        listen_await(&c, muster_kv_try_get(k.m, k.name, MUSTER_NTS, NULL, 0, NULL, NULL) == MUSTER_OUT_OF_RANGE,
                     "key is there");
        snprintf(k.name, sizeof k.name, "seen/%d", i);
        question_set(&q, k.name, "y", 1);
        assert_status(MUSTER_OK, caller_do(&c, &q, NULL));
    }
    assert_int_equal(hosts_reap(h, pid), 0);
    question_done(&q);
    assert_ok(muster_leave(m));
    caller_end(&c);
    assert_int_equal(hosts_close(h), 0);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

struct record {
    struct muster *m;
    uint32_t task;
    enum muster_task_state state;
};

static bool record_is(const struct record *r)
{
    struct muster_task_info info;

    return muster_task_get(r->m, (int32_t)r->task, &info) == MUSTER_OK && info.state == r->state;
}

static int come_and_fail(struct muster *m, void *arg)
{
    char found[8];

    CHECK(muster_kv_get(m, "go", MUSTER_NTS, MUSTER_FOREVER, found, sizeof found, NULL, NULL) == MUSTER_OK);
    CHECK(muster_error_report(m, *(int32_t *)arg, MUSTER_DATA_LOSS, "bits fell off") == MUSTER_OK);
    return 0;
}

/* Of the task on the other host: that it is there, and that it has failed. */
TEST(records_of_other_hosts_are_heard_of)
{
    for (uint32_t host = 0; host < 2; host++) {
        struct hosts *h = open_hosts();
        struct muster *m = hosts_observer(h, host), *leader = hosts_observer(h, 0);
        struct record r = {m, host ? 0 : 2, MUSTER_TASK_CONNECTED};
        int32_t task = (int32_t)r.task;
        struct caller c;
        pid_t pid;

        caller_begin(&c, h, host);
        pid = hosts_task(h, r.task, come_and_fail, &task);
        listen_await(&c, record_is(&r), "the record is so");
        r.state = MUSTER_TASK_ERROR;
        assert_ok(muster_kv_set(leader, "go", MUSTER_NTS, "go", 2, NULL));
        listen_await(&c, record_is(&r), "the record is so");
        assert_int_equal(hosts_reap(h, pid), 0);
        assert_ok(muster_leave(m));
        assert_ok(muster_leave(leader));
        caller_end(&c);
        assert_int_equal(hosts_close(h), 0);
    }
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

struct barrier {
    struct muster *m;
    uint64_t instance;
    bool ended;
};

static int see_barrier(void *arg, const struct muster_barrier_info *info)
{
    struct barrier *b = arg;

    if (!strcmp(info->id, "b"))
        b->ended = info->counter > b->instance || (info->counter == b->instance && info->passed);
    return 0;
}

static bool has_ended(struct barrier *b)
{
    b->ended = false;
    assert_ok(muster_barrier_list(b->m, see_barrier, b));
    return b->ended;
}

static int meet(struct muster *m, void *arg)
{
    static const int32_t both[] = {1, 2};
    char name[32], found[8];

    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(muster_barrier_wait(m, "b", (uint64_t)i, both, 2, 0, MUSTER_FOREVER) == MUSTER_OK);
        snprintf(name, sizeof name, "seen/%d", i);
        CHECK(muster_kv_get(m, name, MUSTER_NTS, MUSTER_FOREVER, found, sizeof found, NULL, NULL) == MUSTER_OK);
    }
    return 0;
}

/* Where barriers are: a task here and one on the other host meet, and whoever comes last ends it. */
TEST(the_leader_hears_of_a_barrier_s_end)
{
    struct hosts *h = open_hosts();
    struct muster *m = hosts_observer(h, 0);
    struct barrier b = {.m = m};
    struct caller c;
    pid_t pids[2];
    char name[32];

    caller_begin(&c, h, 0);
    for (uint32_t i = 0; i < 2; i++)
        pids[i] = hosts_task(h, i + 1, meet, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        b.instance = (uint64_t)i;
        listen_await(&c, has_ended(&b), "the barrier has ended");
        snprintf(name, sizeof name, "seen/%d", i);
        assert_ok(muster_kv_set(m, name, MUSTER_NTS, "y", 1, NULL));
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_ok(muster_leave(m));
    caller_end(&c);
    assert_int_equal(hosts_close(h), 0);
}
