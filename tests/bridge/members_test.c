/*
 * tests/bridge/members_test.c: tasks of several hosts, as every host sees them.
 *
 * Hosts are named node0, node1, ...; what is waited for is looked at until it is there.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "hosts.h"
#include "segment/cluster.h"
#include "segment/hosts.h"
#include "task/task.h"

enum { MOST = 4 };
static struct hosts *h;
static struct muster *eyes[MOST]; /* an observer on each host */
static struct board {             /* what tasks and the test tell one another */
    _Atomic int go;               /* acq_rel by default on both sides: tests only */
    struct muster_error error;
    uint64_t incarnation;
} * board;

static int begin(void **state)
{
    (void)state;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? -1 : 0;
}

static void open_hosts(const struct hosts_config *config)
{
    memset(board, 0, sizeof *board);
    h = hosts_open(config);
    for (uint32_t i = 0; i < hosts_count(h); i++)
        eyes[i] = hosts_observer(h, i);
}

static void close_hosts(void)
{
    for (uint32_t i = 0; i < hosts_count(h); i++)
        assert_ok(muster_leave(eyes[i]));
    assert_int_equal(hosts_close(h), 0);
}

static struct muster_task_info look(uint32_t host, int32_t task)
{
    struct muster_task_info info;

    assert_ok(muster_task_get(eyes[host], task, &info));
    return info;
}

struct state {
    uint32_t host;
    int32_t task;
    enum muster_task_state state;
    uint32_t attempt;
};

static bool is_in(void *arg)
{
    const struct state *s = arg;
    struct muster_task_info info = look(s->host, s->task);

    return info.state == s->state && info.attempt == s->attempt;
}

/* On every host that still listens. */
static void until_everywhere(int32_t task, enum muster_task_state state, uint32_t attempt)
{
    for (uint32_t i = 0; i < hosts_count(h); i++) {
        struct state s = {i, task, state, attempt};

        if (!hosts_until(h, is_in, &s))
            fail_msg("on host %u task %d is in state %d, attempt %u", i, task, look(i, task).state,
                     look(i, task).attempt);
    }
}

/* ---- what tasks do ---- */

static int stay(struct muster *m, void *arg)
{
    (void)m;
    (void)arg;
    while (!board->go)
        usleep(1000); /* sleep: a task that does nothing */
    return 0;
}

static int stay_recoverable(struct muster *m, void *arg)
{
    board->incarnation = muster_incarnation(m);
    return stay(m, arg);
}

static int await_error(struct muster *m, void *arg)
{
    (void)arg;
    CHECK(muster_error_wait(m, MUSTER_FOREVER, &board->error) == MUSTER_OK);
    return 0;
}

static int leave_at_once(struct muster *m, void *arg)
{
    (void)m;
    (void)arg;
    return 0;
}

static pid_t start(uint32_t task)
{
    pid_t pid = hosts_task(h, task, stay, NULL);

    return pid;
}

static void end(pid_t pid)
{
    board->go = 1;
    assert_int_equal(hosts_reap(h, pid), 0);
}

/* Killed, and noticed on its own host as an agent there would. */
static void murder(pid_t pid, uint32_t host)
{
    kill(pid, SIGKILL);
    assert_int_equal(hosts_reap(h, pid), 1000 + SIGKILL);
    assert_ok(muster_scavenge(eyes[host], NULL));
}

/* ---- the tests ---- */

static void a_task_that_comes_and_goes_is_seen_everywhere(void **state)
{
    uint64_t version[3];
    struct muster_task_info infos[6];
    size_t count;

    (void)state;
    open_hosts(&(struct hosts_config){.tasks = {2, 2, 2}});
    for (int32_t t = 0; t < 6; t++) {
        pid_t pid;

        for (uint32_t i = 0; i < 3; i++)
            assert_ok(muster_task_list(eyes[i], NULL, 0, NULL, &version[i]));
        pid = start((uint32_t)t);
        for (uint32_t i = 0; i < 3; i++) {
            assert_ok(
                muster_task_watch(eyes[i], version[i], muster_after_ns(60000000000u), infos, 6, &count, &version[i]));
            assert_int_equal(count, 6);
        }
        until_everywhere(t, MUSTER_TASK_CONNECTED, 1);
        for (uint32_t i = 0; i < 3; i++) {
            struct muster_task_info own = look((uint32_t)t / 2, t), there = look(i, t);
            char host[16];

            snprintf(host, sizeof host, "node%d", t / 2);
            assert_string_equal(there.host, host);
            assert_int_equal(there.pid, pid);
            assert_int_equal(there.incarnation, own.incarnation);
            assert_true(there.alive);
        }
        end(pid);
        board->go = 0;
        until_everywhere(t, MUSTER_TASK_DISCONNECTED, 1);
        assert_int_equal(hosts_reap(h, hosts_task(h, (uint32_t)t, leave_at_once, NULL)), 0);
        until_everywhere(t, MUSTER_TASK_DISCONNECTED, 2);
    }
    close_hosts();
}

static void a_death_is_told_to_all_with_name_pid_and_host(void **state)
{
    pid_t victim, waiting[2];

    (void)state;
    open_hosts(&(struct hosts_config){.tasks = {1, 1, 2}});
    victim = start(1);
    until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
    for (int i = 0; i < 2; i++) { /* on the leader's host, and on a third */
        memset(&board->error, 0, sizeof board->error);
        waiting[i] = hosts_task(h, i ? 3 : 0, await_error, NULL);
        if (i == 0)
            murder(victim, 1);
        assert_int_equal(hosts_reap(h, waiting[i]), 0);
        assert_int_equal(board->error.task_id, 1);
        assert_int_equal(board->error.pid, victim);
        assert_int_equal(board->error.cause, MUSTER_CAUSE_DIED);
        assert_string_equal(board->error.host, "node1");
        assert_string_equal(board->error.message, "its process died");
    }
    until_everywhere(1, MUSTER_TASK_ERROR, 1);
    for (uint32_t i = 0; i < 3; i++) {
        char expected[128];

        assert_false(look(i, 1).alive);
        assert_status(MUSTER_UNAVAILABLE, mu_cluster_error(eyes[i]->seg, "it"));
        snprintf(expected, sizeof expected, "it: task 1 (pid %d on host node1) is in error: its process died",
                 (int)victim);
        assert_string_equal(muster_last_error(), expected);
    }
    close_hosts();
}

static void an_error_may_be_reported_from_any_host(void **state)
{
    static const uint32_t from[] = {0, 2, 1};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        pid_t pid;

        open_hosts(&(struct hosts_config){.tasks = {1, 1, 1}});
        pid = start(1);
        until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
        assert_ok(muster_error_report(eyes[from[i]], 1, MUSTER_ABORTED, "it computes nonsense"));
        assert_int_equal(look(from[i], 1).state, MUSTER_TASK_ERROR); /* who reported it sees it */
        until_everywhere(1, MUSTER_TASK_ERROR, 1);
        for (uint32_t k = 0; k < 3; k++) {
            struct muster_task_info info = look(k, 1);

            assert_int_equal(info.cause, MUSTER_CAUSE_REPORTED);
            assert_int_equal(info.error, MUSTER_ABORTED);
            assert_string_equal(info.message, "it computes nonsense");
        }
        assert_status(MUSTER_FAILED_PRECONDITION, muster_error_report(eyes[from[i]], 1, MUSTER_ABORTED, "again"));
        assert_says("task 1 is not connected or already in error");
        end(pid);
        close_hosts();
    }
}

static void a_reset_is_decided_on_the_tasks_host(void **state)
{
    static const uint32_t from[] = {0, 2};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        pid_t pid;

        open_hosts(&(struct hosts_config){.tasks = {1, 1, 1}});
        assert_status(MUSTER_FAILED_PRECONDITION, muster_task_reset(eyes[from[i]], 1));
        assert_says("task 1 is disconnected already");
        pid = start(1);
        until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
        assert_ok(muster_error_report(eyes[from[i]], 1, MUSTER_ABORTED, "nonsense"));
        assert_status(MUSTER_FAILED_PRECONDITION, muster_task_reset(eyes[from[i]], 1));
        assert_says("task 1 is alive (pid ");
        murder(pid, 1);
        assert_ok(muster_task_reset(eyes[from[i]], 1));
        assert_int_equal(look(from[i], 1).state, MUSTER_TASK_DISCONNECTED);
        until_everywhere(1, MUSTER_TASK_DISCONNECTED, 1);
        assert_status(MUSTER_DEADLINE_EXCEEDED, muster_error_wait(eyes[from[i]], 0, &board->error));
        pid = start(1);
        until_everywhere(1, MUSTER_TASK_CONNECTED, 2);
        end(pid);
        close_hosts();
    }
}

static void a_heartbeat_is_brought_to_the_tasks_host(void **state)
{
    uint64_t before;
    pid_t pid;

    (void)state;
    open_hosts(&(struct hosts_config){.tasks = {1, 1, 1}});
    assert_status(MUSTER_INVALID_ARGUMENT, muster_task_heartbeat(eyes[2], 1, 7));
    assert_says("task 1 must be registered before it sends heartbeats");
    pid = hosts_task(h, 1, stay_recoverable, NULL);
    until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
    before = mu_load_relaxed(&eyes[1]->seg->beats[1]); /* relaxed: nobody else brings any */
    assert_ok(muster_task_heartbeat(eyes[0], 1, look(0, 1).incarnation));
    assert_ok(muster_task_heartbeat(eyes[2], 1, look(2, 1).incarnation));
    assert_int_equal(mu_load_relaxed(&eyes[1]->seg->beats[1]), before + 2); /* relaxed: as above */
    assert_status(MUSTER_ABORTED, muster_task_heartbeat(eyes[2], 1, 7));
    assert_says("task 1: the heartbeat is of a stale incarnation");
    until_everywhere(1, MUSTER_TASK_ERROR, 1);
    assert_int_equal(look(0, 1).cause, MUSTER_CAUSE_RESTARTED);
    assert_status(MUSTER_ABORTED, muster_task_heartbeat(eyes[0], 1, 7));
    assert_says("unexpected heartbeat from task 1, which is already in error");
    end(pid);
    close_hosts();
}

static void what_changes_while_hosts_are_apart_is_told_when_they_meet(void **state)
{
    pid_t pids[3];

    (void)state;
    open_hosts(&(struct hosts_config){.tasks = {1, 1, 1}});
    pids[1] = start(1);
    until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
    hosts_cut(h, 1);
    hosts_kill(h, 2);
    pids[2] = start(2);
    murder(pids[1], 1);
    pids[0] = start(0);
    hosts_mend(h);
    until_everywhere(0, MUSTER_TASK_CONNECTED, 1);
    until_everywhere(1, MUSTER_TASK_ERROR, 1);
    until_everywhere(2, MUSTER_TASK_CONNECTED, 1);
    hosts_kill(h, 0); /* the leader's own records go on, too */
    murder(pids[0], 0);
    hosts_mend(h);
    until_everywhere(0, MUSTER_TASK_ERROR, 1);
    assert_string_equal(look(1, 0).host, "node0");
    end(pids[2]);
    close_hosts();
}

static uint64_t version_at(uint32_t host)
{
    uint64_t version;

    assert_ok(muster_task_list(eyes[host], NULL, 0, NULL, &version));
    return version;
}

static void a_new_connection_or_agent_changes_nothing(void **state)
{
    struct test_random r = {test_seed()};
    uint64_t versions[3];
    pid_t pids[3];

    (void)state;
    open_hosts(&(struct hosts_config){.tasks = {1, 1, 1}, .stepped = true});
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = start(i);
    for (int32_t i = 0; i < 3; i++)
        until_everywhere(i, MUSTER_TASK_CONNECTED, 1);
    assert_ok(muster_error_report(eyes[0], 2, MUSTER_ABORTED, "nonsense"));
    until_everywhere(2, MUSTER_TASK_ERROR, 1);
    hosts_settle(h, &r);
    for (uint32_t i = 0; i < 3; i++)
        versions[i] = version_at(i);
    for (int i = 0; i < 12; i++) {
        uint32_t host = (uint32_t)test_below(&r, 3);

        if (test_below(&r, 2))
            hosts_kill(h, host);
        else
            hosts_cut(h, host ? host : 1);
        hosts_settle(h, &r);
        hosts_pass(h, 1000000000u);
        hosts_mend(h);
        hosts_settle(h, &r);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(version_at(i), versions[i]);
    board->go = 1;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    close_hosts();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_that_comes_and_goes_is_seen_everywhere),
        cmocka_unit_test(a_death_is_told_to_all_with_name_pid_and_host),
        cmocka_unit_test(an_error_may_be_reported_from_any_host),
        cmocka_unit_test(a_reset_is_decided_on_the_tasks_host),
        cmocka_unit_test(a_heartbeat_is_brought_to_the_tasks_host),
        cmocka_unit_test(what_changes_while_hosts_are_apart_is_told_when_they_meet),
        cmocka_unit_test(a_new_connection_or_agent_changes_nothing),
    };

    return cmocka_run_group_tests_name("bridge/members", tests, begin, NULL);
}
