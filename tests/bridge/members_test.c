/*
 * tests/bridge/members_test.c: tasks of several hosts, as every host sees them.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "crowd.h"
#include "segment/cluster.h"
#include "segment/hosts.h"
#include "task/task.h"

/* ---- what tasks do ---- */

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

/* ---- the tests ---- */

TEST(a_task_that_comes_and_goes_is_seen_everywhere)
{
    uint64_t version[3];
    struct muster_task_info infos[6];
    size_t count;

    crowd_open(&(struct hosts_config){.tasks = {2, 2, 2}});
    for (int32_t t = 0; t < 6; t++) {
        pid_t pid;

        for (uint32_t i = 0; i < 3; i++)
            assert_ok(muster_task_list(eyes[i], NULL, 0, NULL, &version[i]));
        pid = crowd_start((uint32_t)t);
        for (uint32_t i = 0; i < 3; i++) {
            assert_ok(
                muster_task_watch(eyes[i], version[i], muster_after_ns(60000000000u), infos, 6, &count, &version[i]));
            assert_int_equal(count, 6);
        }
        crowd_until_everywhere(t, MUSTER_TASK_CONNECTED, 1);
        for (uint32_t i = 0; i < 3; i++) {
            struct muster_task_info own = crowd_look((uint32_t)t / 2, t), there = crowd_look(i, t);
            char host[16];

            snprintf(host, sizeof host, "node%d", t / 2);
            assert_string_equal(there.host, host);
            assert_int_equal(there.pid, pid);
            assert_int_equal(there.incarnation, own.incarnation);
            assert_true(there.alive);
        }
        crowd_end(pid);
        board->go = 0;
        crowd_until_everywhere(t, MUSTER_TASK_DISCONNECTED, 1);
        assert_int_equal(hosts_reap(h, hosts_task(h, (uint32_t)t, leave_at_once, NULL)), 0);
        crowd_until_everywhere(t, MUSTER_TASK_DISCONNECTED, 2);
    }
    crowd_close();
}

TEST(a_death_is_told_to_all_with_name_pid_and_host)
{
    pid_t victim, waiting[2];

    crowd_open(&(struct hosts_config){.tasks = {1, 1, 2}});
    victim = crowd_start(1);
    crowd_until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
    for (int i = 0; i < 2; i++) { /* on the leader's host, and on a third */
        memset(&board->error, 0, sizeof board->error);
        waiting[i] = hosts_task(h, i ? 3 : 0, await_error, NULL);
        if (i == 0)
            crowd_murder(victim, 1);
        assert_int_equal(hosts_reap(h, waiting[i]), 0);
        assert_int_equal(board->error.task_id, 1);
        assert_int_equal(board->error.pid, victim);
        assert_int_equal(board->error.cause, MUSTER_CAUSE_DIED);
        assert_string_equal(board->error.host, "node1");
        assert_string_equal(board->error.message, "its process died");
    }
    crowd_until_everywhere(1, MUSTER_TASK_ERROR, 1);
    for (uint32_t i = 0; i < 3; i++) {
        char expected[128];

        assert_false(crowd_look(i, 1).alive);
        assert_status(MUSTER_UNAVAILABLE, mu_cluster_error(eyes[i]->seg, "it"));
        snprintf(expected, sizeof expected, "it: task 1 (pid %d on host node1) is in error: its process died",
                 (int)victim);
        assert_string_equal(muster_last_error(), expected);
    }
    crowd_close();
}

TEST(an_error_may_be_reported_from_any_host)
{
    static const uint32_t from[] = {0, 2, 1};

    for (size_t i = 0; i < 3; i++) {
        pid_t pid;

        crowd_open(&(struct hosts_config){.tasks = {1, 1, 1}});
        pid = crowd_start(1);
        crowd_until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
        assert_ok(muster_error_report(eyes[from[i]], 1, MUSTER_ABORTED, "it computes nonsense"));
        assert_int_equal(crowd_look(from[i], 1).state, MUSTER_TASK_ERROR); /* who reported it sees it */
        crowd_until_everywhere(1, MUSTER_TASK_ERROR, 1);
        for (uint32_t k = 0; k < 3; k++) {
            struct muster_task_info info = crowd_look(k, 1);

            assert_int_equal(info.cause, MUSTER_CAUSE_REPORTED);
            assert_int_equal(info.error, MUSTER_ABORTED);
            assert_string_equal(info.message, "it computes nonsense");
        }
        assert_status(MUSTER_FAILED_PRECONDITION, muster_error_report(eyes[from[i]], 1, MUSTER_ABORTED, "again"));
        assert_says("task 1 is not connected or already in error");
        crowd_end(pid);
        crowd_close();
    }
}

TEST(a_reset_is_decided_on_the_tasks_host)
{
    static const uint32_t from[] = {0, 2};

    for (size_t i = 0; i < 2; i++) {
        pid_t pid;

        crowd_open(&(struct hosts_config){.tasks = {1, 1, 1}});
        assert_status(MUSTER_FAILED_PRECONDITION, muster_task_reset(eyes[from[i]], 1));
        assert_says("task 1 is disconnected already");
        pid = crowd_start(1);
        crowd_until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
        assert_ok(muster_error_report(eyes[from[i]], 1, MUSTER_ABORTED, "nonsense"));
        assert_status(MUSTER_FAILED_PRECONDITION, muster_task_reset(eyes[from[i]], 1));
        assert_says("task 1 is alive (pid ");
        crowd_murder(pid, 1);
        assert_ok(muster_task_reset(eyes[from[i]], 1));
        assert_int_equal(crowd_look(from[i], 1).state, MUSTER_TASK_DISCONNECTED);
        crowd_until_everywhere(1, MUSTER_TASK_DISCONNECTED, 1);
        assert_status(MUSTER_DEADLINE_EXCEEDED, muster_error_wait(eyes[from[i]], 0, &board->error));
        pid = crowd_start(1);
        crowd_until_everywhere(1, MUSTER_TASK_CONNECTED, 2);
        crowd_end(pid);
        crowd_close();
    }
}

TEST(a_heartbeat_is_brought_to_the_tasks_host)
{
    uint64_t before;
    pid_t pid;

    crowd_open(&(struct hosts_config){.tasks = {1, 1, 1}});
    assert_status(MUSTER_INVALID_ARGUMENT, muster_task_heartbeat(eyes[2], 1, 7));
    assert_says("task 1 must be registered before it sends heartbeats");
    pid = crowd_start(1);
    crowd_until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
    before = mu_load_relaxed(&eyes[1]->seg->beats[1]); /* relaxed: nobody else brings any */
    assert_ok(muster_task_heartbeat(eyes[0], 1, crowd_look(0, 1).incarnation));
    assert_ok(muster_task_heartbeat(eyes[2], 1, crowd_look(2, 1).incarnation));
    assert_int_equal(mu_load_relaxed(&eyes[1]->seg->beats[1]), before + 2); /* relaxed: as above */
    assert_status(MUSTER_ABORTED, muster_task_heartbeat(eyes[2], 1, 7));
    assert_says("task 1: the heartbeat is of a stale incarnation");
    crowd_until_everywhere(1, MUSTER_TASK_ERROR, 1);
    assert_int_equal(crowd_look(0, 1).cause, MUSTER_CAUSE_RESTARTED);
    assert_status(MUSTER_ABORTED, muster_task_heartbeat(eyes[0], 1, 7));
    assert_says("unexpected heartbeat from task 1, which is already in error");
    crowd_end(pid);
    crowd_close();
}

TEST(what_changes_while_hosts_are_apart_is_told_when_they_meet)
{
    pid_t pids[3];

    crowd_open(&(struct hosts_config){.tasks = {1, 1, 1}});
    pids[1] = crowd_start(1);
    crowd_until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
    hosts_cut(h, 1);
    hosts_kill(h, 2);
    pids[2] = crowd_start(2);
    crowd_murder(pids[1], 1);
    pids[0] = crowd_start(0);
    hosts_mend(h);
    crowd_until_everywhere(0, MUSTER_TASK_CONNECTED, 1);
    crowd_until_everywhere(1, MUSTER_TASK_ERROR, 1);
    crowd_until_everywhere(2, MUSTER_TASK_CONNECTED, 1);
    hosts_kill(h, 0); /* the leader's own records go on, too */
    crowd_murder(pids[0], 0);
    hosts_mend(h);
    crowd_until_everywhere(0, MUSTER_TASK_ERROR, 1);
    assert_string_equal(crowd_look(1, 0).host, "node0");
    crowd_end(pids[2]);
    crowd_close();
}

TEST(a_new_connection_or_agent_changes_nothing)
{
    struct test_random r = {test_seed()};
    uint64_t versions[3];
    pid_t pids[3];

    crowd_open(&(struct hosts_config){.tasks = {1, 1, 1}, .stepped = true});
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = crowd_start(i);
    for (int32_t i = 0; i < 3; i++)
        crowd_until_everywhere(i, MUSTER_TASK_CONNECTED, 1);
    assert_ok(muster_error_report(eyes[0], 2, MUSTER_ABORTED, "nonsense"));
    crowd_until_everywhere(2, MUSTER_TASK_ERROR, 1);
    hosts_settle(h, &r);
    for (uint32_t i = 0; i < 3; i++)
        versions[i] = crowd_version(i);
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
        assert_int_equal(crowd_version(i), versions[i]);
    board->go = 1;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    crowd_close();
}

int main(void)
{
    return test_run(crowd_begin, NULL);
}
