/*
 * tests/bridge/epochs_test.c: the membership of a job of several hosts: the leader's, with mirrors; what tasks of other
 * hosts say of a change is said once, whatever breaks; a host that is lost is an epoch.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <muster/membership.h>

#include "child.h"
#include "hosts.h"

static struct hosts *h;
static struct muster *eyes[3];
static pid_t pids[3];

static int member_run(struct muster *m, void *arg)
{
    struct muster_membership now = {0};
    uint64_t until = *(const uint64_t *)arg;

    while (now.epoch < until)
        CHECK(muster_membership_next(m, &now, MUSTER_FOREVER) == MUSTER_OK);
    return 0;
}

/* A change in which nobody comes or goes. */
static int observer_propose(struct muster *m, void *arg)
{
    uint64_t change = 0;

    (void)arg;
    CHECK(muster_membership_propose(m, NULL, 0, NULL, NULL, 0, UINT64_C(60000000000), &change) == MUSTER_OK);
    CHECK(change > 0);
    return 0;
}

static struct muster_membership seen_at(uint32_t host)
{
    struct muster_membership now = {0};

    if (muster_membership_read(eyes[host], &now, NULL, 0, NULL))
        memset(&now, 0, sizeof now);
    return now;
}

static void everywhere(uint64_t epoch, uint32_t hosts)
{
    for (uint32_t i = 0; i < hosts; i++) {
        hosts_await(h, seen_at(i).epoch == epoch && seen_at(i).phase == MUSTER_PHASE_STEADY,
                    "epoch %llu at host %u: %llu", (unsigned long long)epoch, i, (unsigned long long)seen_at(i).epoch);
    }
}

/* Three hosts with a task each, all members, which live until this epoch. */
static void job_begin(uint64_t until)
{
    h = hosts_open(&(struct hosts_config){.tasks = {1, 1, 1}});
    for (uint32_t i = 0; i < 3; i++)
        eyes[i] = hosts_observer(h, i);
    assert_int_equal(muster_membership_begin(eyes[0], 3, 1, 0, 1), MUSTER_OK);
    everywhere(1, 3);
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = hosts_task(h, i, member_run, &until);
}

static void job_end(uint32_t tasks)
{
    for (uint32_t i = 0; i < tasks; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    for (uint32_t i = 0; i < 3; i++)
        muster_leave(eyes[i]);
    assert_int_equal(hosts_close(h), 0);
}

static void propose_elsewhere(uint64_t epoch)
{
    pid_t pid = hosts_visitor(h, 2, observer_propose, NULL);

    hosts_await(h,
                seen_at(0).epoch == epoch + 1 || !hosts_connected(h, 1) || !hosts_connected(h, 2) ||
                    !hosts_lives(h, 0) || !hosts_lives(h, 1) || !hosts_lives(h, 2),
                "nothing has happened");
    hosts_mend(h);
    assert_int_equal(hosts_reap(h, pid), 0);
    everywhere(epoch + 1, 3);
}

enum { ROUNDS = 24 };

TEST(a_change_that_another_host_proposes_is_made_once_wherever_connections_break)
{
    job_begin(1 + 2 * ROUNDS);
    for (uint64_t i = 0; i < 2 * ROUNDS; i++) {
        hosts_cut_after(h, 1 + i % 2, (uint32_t)(i / 2));
        propose_elsewhere(1 + i);
        assert_int_equal(seen_at(0).change, i + 1);
    }
    job_end(3);
}

TEST(a_change_goes_on_whichever_agent_dies_in_it)
{
    job_begin(1 + 3 * ROUNDS);
    for (uint64_t i = 0; i < 3 * ROUNDS; i++) {
        hosts_kill_after(h, i % 3, (uint32_t)(i / 3 * 2));
        propose_elsewhere(1 + i);
        assert_int_equal(seen_at(0).change, i + 1);
    }
    job_end(3);
}

TEST(a_host_that_is_lost_is_an_epoch_of_the_others)
{
    struct muster_membership now;

    job_begin(2);
    hosts_await(h, hosts_connected(h, 2), "all are there");
    for (uint32_t i = 0; i < 3; i++) {
        struct muster_task_info info;

        hosts_await(h, muster_task_get(eyes[0], (int32_t)i, &info) == MUSTER_OK && info.state == MUSTER_TASK_CONNECTED,
                    "task %u is there", i);
    }
    hosts_kill(h, 2);
    hosts_lose(h, 0, 2, "it was cut off");
    everywhere(2, 2);
    now = seen_at(1);
    assert_int_equal(now.size, 2);
    assert_int_equal(now.outcome, MUSTER_OUTCOME_LOST);
    assert_non_null(strstr(now.text, "it was cut off"));
    assert_int_equal(seen_at(2).epoch, 1); /* nobody tells it */
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    kill(pids[2], SIGKILL);
    assert_int_equal(hosts_reap(h, pids[2]), 1000 + SIGKILL);
    job_end(0);
}

TEST(a_membership_that_cannot_be_is_refused)
{
    char why[700];
    uint8_t frame[200] = {1};

    job_begin(1);
    hosts_inject(h, 0, 1, MU_FRAME_MEMBERSHIP, frame, sizeof frame);
    hosts_await(h, strstr(hosts_dropped(h, why), "MEMBERSHIP frame (200 bytes) that is not well formed"), "%s", why);
    hosts_mend(h);
    everywhere(1, 3);
    job_end(3);
}

int main(void)
{
    return test_run(NULL, NULL);
}
