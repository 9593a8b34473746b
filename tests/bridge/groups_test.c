/*
 * tests/bridge/groups_test.c: groups that span hosts: every collective against what is computed here, members and hosts
 * that are lost, patience that ends, connections that break and agents that are killed: all who know how an instance
 * ended know the same (I16), and nobody hangs.
 */
#include "cm.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <muster/muster.h>

#include "barrier/group.h"
#include "child.h"
#include "gang.h"

static struct test_random dice;
static bool trusts; /* the leader trusts the last host with the verdict */

static struct gang_work work_of(uint32_t count, uint64_t rounds)
{
    struct gang_work w = {.name = "g",
                          .count = count,
                          .data_bytes = 1024,
                          .rounds = rounds,
                          .max_len = 1024,
                          .kind = GANG_ANY,
                          .seed = test_below(&dice, 1u << 30)};

    for (uint32_t i = 0; i < count; i++)
        w.tasks[i] = (int32_t)i;
    return w;
}

static void start(struct hosts *h, const struct gang_work *w, pid_t *pids)
{
    gang_wipe();
    for (uint32_t i = 0; i < w->count; i++)
        pids[i] = hosts_task(h, (uint32_t)w->tasks[i], gang_member, (void *)(uintptr_t)w);
}

static void all_end_well(struct hosts *h, const struct gang_work *w, const pid_t *pids)
{
    for (uint32_t i = 0; i < w->count; i++) {
        int result = hosts_reap(h, pids[i]);

        if (result)
            fail_msg("member %u ended with %d: %s", i, result, gang->places[i].text);
    }
}

/* No synchronisation: some time goes by, so that faults come at all moments. */
static void dawdle(void)
{
    for (volatile uint64_t i = test_below(&dice, 3000000); i; i--)
        ;
}

/* ---- who yields, and who sleeps at once -------------------------------------------------------------------------- */

/* The first processor that it may use is its only one from now on. How often it would yield before it sleeps. */
static int bind_and_meet(struct muster *m, void *arg)
{
    bool yields = false, *expected = arg;
    struct muster_group *g;
    cpu_set_t set;
    int first = 0;

    if (sched_getaffinity(0, sizeof set, &set))
        return 77; /* more processors than such a set holds */
    while (!CPU_ISSET(first, &set))
        first++;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    if (sched_setaffinity(0, sizeof set, &set) ||
        muster_barrier_wait(m, "all are bound", 0, NULL, 0, 0, muster_after_ms(50000)) ||
        muster_group_create(m, "bound", NULL, 0, 0, muster_after_ms(50000), &g))
        return 1;
    yields = g->spins > 0;
    for (int i = 0; i < 50; i++)
        if (muster_group_barrier(g, muster_after_ms(50000)))
            return 2;
    muster_group_free(g);
    return yields == *expected ? 0 : 3;
}

static void bound(const struct hosts_config *config, uint32_t tasks, bool yields)
{
    struct hosts *h = hosts_open(config);
    pid_t pids[GANG_MAX] = {0};

    for (uint32_t i = 0; i < tasks; i++)
        pids[i] = hosts_task(h, i, bind_and_meet, &yields);
    for (uint32_t i = 0; i < tasks; i++) {
        int result = hosts_reap(h, pids[i]);

        assert_true(result == 0 || result == 77);
    }
    assert_int_equal(hosts_close(h), 0);
}

TEST(members_with_a_processor_each_yield_before_they_sleep)
{
    bound(&(struct hosts_config){.latency = trusts, .tasks = {1, 1}}, 2, true);
}

TEST(members_of_one_processor_sleep_at_once)
{
    bound(&(struct hosts_config){.latency = trusts, .tasks = {2, 2}}, 4, false);
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

static void collectives(const struct hosts_config *config, uint32_t tasks, uint64_t rounds)
{
    struct hosts *h = hosts_open(config);
    struct gang_work w = work_of(tasks, rounds);
    pid_t pids[GANG_MAX] = {0};

    w.twice = true;
    start(h, &w, pids);
    all_end_well(h, &w, pids);
    for (uint32_t i = 0; i < tasks; i++)
        assert_int_equal(gang->places[i].last_ok, rounds);
    assert_int_equal(hosts_close(h), 0);
}

TEST(two_hosts_of_one_member_each)
{
    collectives(&(struct hosts_config){.latency = trusts, .tasks = {1, 1}}, 2, 400);
}

TEST(two_hosts_of_several_members)
{
    collectives(&(struct hosts_config){.latency = trusts, .tasks = {2, 3}}, 5, 200);
}

TEST(three_hosts_of_which_the_leader_has_no_member)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {1, 2, 2}});
    struct gang_work w = work_of(4, 200);
    pid_t pids[GANG_MAX] = {0};

    for (int i = 0; i < 4; i++)
        w.tasks[i] = 4 - i; /* ranks go against the hosts */
    start(h, &w, pids);
    all_end_well(h, &w, pids);
    assert_int_equal(hosts_close(h), 0);
}

TEST(eight_hosts_of_two_members_each)
{
    collectives(&(struct hosts_config){.latency = trusts, .tasks = {2, 2, 2, 2, 2, 2, 2, 2}}, 16, 60);
}

TEST(largest_data_of_all)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {2, 2, 1}});
    struct gang_work w = work_of(5, 40);
    pid_t pids[GANG_MAX] = {0};

    w.data_bytes = w.max_len = MUSTER_GROUP_DATA_MAX;
    start(h, &w, pids);
    all_end_well(h, &w, pids);
    assert_int_equal(hosts_close(h), 0);
}

/* So many more, or the end: then the fault that was set has had its chance. */
static bool has_gone_on(uint64_t wanted)
{
    uint64_t at = gang->places[0].last_ok;

    return at >= wanted;
}

TEST(connections_that_break_delay_and_change_nothing)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {2, 2, 2}});
    struct gang_work w = work_of(6, 400);
    pid_t pids[GANG_MAX] = {0};

    start(h, &w, pids);
    for (uint64_t goal = 1; goal < w.rounds; goal += 8) {
        uint32_t host = 1 + (uint32_t)test_below(&dice, 2);

        if (test_below(&dice, 2)) {
            hosts_cut_after(h, host, (uint32_t)test_below(&dice, 12));
            dawdle();
        }
        hosts_cut(h, host);
        hosts_join(h, host);
        hosts_await(h, has_gone_on(goal), "the group goes on");
    }
    hosts_mend(h);
    all_end_well(h, &w, pids);
    assert_int_equal(hosts_close(h), 0);
}

TEST(agents_that_are_killed_and_replaced_change_nothing)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {2, 2, 2}});
    struct gang_work w = work_of(6, 300);
    pid_t pids[GANG_MAX] = {0};

    start(h, &w, pids);
    for (uint64_t goal = 1; goal < w.rounds; goal += 8) {
        uint32_t host = (uint32_t)test_below(&dice, 3);

        hosts_kill_after(h, host, (uint32_t)test_below(&dice, 40));
        dawdle();
        hosts_kill(h, host);
        hosts_start(h, host);
        hosts_await(h, has_gone_on(goal), "the group goes on");
    }
    hosts_mend(h);
    all_end_well(h, &w, pids);
    assert_int_equal(hosts_close(h), 0);
}

/* ---- one outcome ------------------------------------------------------------------------------------------------- */

TEST(a_member_that_is_killed_at_any_moment_fails_one_instance_for_all)
{
    for (int round = 0; round < 12; round++) {
        struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {2, 2, 1}});
        struct gang_work w = work_of(5, 0);
        uint32_t victim = test_below(&dice, 5);
        bool returned[GANG_MAX];
        pid_t pids[GANG_MAX] = {0};
        char name[32];

        start(h, &w, pids);
        gang_let_run(h, &w, victim, 1 + test_below(&dice, 20));
        kill(pids[victim], SIGKILL);
        if (victim == 4 || round % 4) /* what its launcher does; else a member of its host finds it */
            gang_find_the_dead(h, victim < 4 ? victim / 2 : 2, pids[victim]);
        snprintf(name, sizeof name, "task %u (pid", victim);
        for (uint32_t i = 0; i < 5; i++) {
            returned[i] = i != victim;
            assert_int_equal(hosts_reap(h, pids[i]), i == victim ? 1000 + SIGKILL : 0);
            if (i != victim && !strstr(gang->places[i].text, name))
                fail_msg("member %u was told \"%s\", without %s", i, gang->places[i].text, name);
        }
        assert_true(gang_one_outcome(5, returned));
        assert_int_equal(hosts_close(h), 0);
    }
}

TEST(who_loses_patience_and_who_does_not_agree_across_hosts)
{
    bool all[GANG_MAX];

    memset(all, 1, sizeof all);
    for (int round = 0; round < 20; round++) {
        struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {2, 2, 1}});
        struct gang_work w[5];
        pid_t pids[GANG_MAX] = {0};

        gang_wipe();
        w[0] = work_of(5, 0);
        for (uint32_t i = 0; i < 5; i++) { /* from some instance on, each has about as much time as one takes */
            w[i] = w[0];
            w[i].patient_at = 5;
            w[i].patience_ns = 10000 + test_below(&dice, 3000000);
            w[i].twice = true;
            pids[i] = hosts_task(h, i, gang_member, &w[i]);
        }
        all_end_well(h, &w[0], pids);
        assert_true(gang_one_outcome(5, all));
        assert_int_equal(hosts_close(h), 0);
    }
}

static int stay_away(struct muster *m, void *arg)
{
    const struct gang_work *w = arg;
    struct muster_group *g;

    CHECK(!muster_group_create(m, w->name, w->tasks, w->count, w->data_bytes, muster_after_ms(50000), &g));
    while (!atomic_load(&gang->go)) {
        struct timespec ms = {0, 1000000};

        nanosleep(&ms, NULL); /* sleep: the test ends it, when all others have lost their patience */
    }
    CHECK(muster_group_barrier(g, muster_after_ms(50000)) == MUSTER_DEADLINE_EXCEEDED);
    muster_group_free(g);
    return 0;
}

static int lose_patience(struct muster *m, void *arg)
{
    const struct gang_work *w = arg;
    struct muster_group *g;
    int32_t missing[GANG_MAX];
    size_t count = 0;

    CHECK(!muster_group_create(m, w->name, w->tasks, w->count, w->data_bytes, muster_after_ms(50000), &g));
    CHECK(muster_group_barrier(g, muster_after_ms(3000)) == MUSTER_DEADLINE_EXCEEDED);
    CHECK(strstr(muster_last_error(), "task 2 (pid"));
    CHECK(strstr(muster_last_error(), "had not arrived"));
    for (int i = 0; i < 4; i++) {
        char name[32];

        snprintf(name, sizeof name, "task %d (pid", i);
        CHECK(i == 2 || !strstr(muster_last_error(), name));
    }
    CHECK(!muster_group_missing(g, missing, GANG_MAX, &count));
    CHECK(count == 1 && missing[0] == 2);
    for (atomic_fetch_add(&gang->told, 1); atomic_load(&gang->told) < 3;) {
        struct timespec ms = {0, 1000000};

        nanosleep(&ms, NULL); /* sleep: who has left is named as lost, so all stay until all were told */
    }
    muster_group_free(g);
    return 0;
}

TEST(who_is_missing_is_named_on_every_host)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {1, 2, 1}});
    struct gang_work w = work_of(4, 1);
    pid_t pids[4];

    gang_wipe();
    for (uint32_t i = 0; i < 4; i++)
        pids[i] = hosts_task(h, i, i == 2 ? stay_away : lose_patience, &w);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2)
            assert_int_equal(hosts_reap(h, pids[i]), 0);
    atomic_store(&gang->go, 1);
    assert_int_equal(hosts_reap(h, pids[2]), 0);
    assert_int_equal(hosts_close(h), 0);
}

/* ---- the end of a host ------------------------------------------------------------------------------------------- */

TEST(a_lost_host_ends_the_others_instance_and_its_own_do_not_know)
{
    for (int round = 0; round < 6; round++) {
        struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {2, 2, 2}});
        struct gang_work w = work_of(6, 0);
        bool returned[GANG_MAX] = {true, true, false, false, true, true};
        pid_t pids[GANG_MAX] = {0};

        start(h, &w, pids);
        gang_let_run(h, &w, 2, 1 + test_below(&dice, 20));
        hosts_cut(h, 1);
        hosts_lose(h, 0, 1, "host 1 is lost");
        hosts_lose(h, 1, 0, "host 0 is lost");
        all_end_well(h, &w, pids);
        /* those of the lost host: at the same instance at the latest, never beyond */
        for (uint32_t i = 2; i < 4; i++) {
            assert_int_equal(gang->places[i].status, MUSTER_UNAVAILABLE);
            if (gang->places[i].last_ok == gang->places[0].failed) { /* it was trusted: then the others do not know */
                for (uint32_t k = 0; k < 6; k++)
                    assert_true(!returned[k] || strstr(gang->places[k].text, "had the last word"));
                assert_true(trusts);
                gang->places[i].last_ok--;
            }
            assert_true(gang->places[i].last_ok < gang->places[0].failed);
            gang->places[i].failed = 0;
        }
        assert_true(gang_one_outcome(6, returned));
        assert_int_equal(hosts_close(h), 0);
    }
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static int come_alone(struct muster *m, void *arg)
{
    const struct gang_work *w = arg;
    struct muster_group *g;

    CHECK(muster_group_create(m, w->name, w->tasks, w->count, w->data_bytes, muster_after_ms(2000), &g) ==
          MUSTER_DEADLINE_EXCEEDED);
    CHECK(strstr(muster_last_error(), "members came before the deadline; not there: task "));
    CHECK(strstr(muster_last_error(), "on host ")); /* whatever it is doing there yet */
    atomic_fetch_add(&gang->go, 1);
    return 0;
}

TEST(who_gives_up_building_spoils_nothing_for_the_next)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {1, 1}});
    struct gang_work w = work_of(2, 20);

    for (uint32_t who = 0; who < 2; who++) {
        pid_t pids[2];
        uint32_t one = 1;

        gang_wipe();
        pids[0] = hosts_task(h, who, come_alone, &w);
        hosts_await(h, atomic_load(&gang->go) >= one, "one has come alone");
        assert_int_equal(hosts_reap(h, pids[0]), 0);
        start(h, &w, pids);
        all_end_well(h, &w, pids);
    }
    assert_int_equal(hosts_close(h), 0);
}

static int come_otherwise(struct muster *m, void *arg)
{
    const struct gang_work *w = arg;
    struct muster_group *g;
    enum muster_status status;
    int32_t tasks[2] = {w->tasks[1], w->tasks[0]};

    status = muster_group_create(m, w->name, tasks, 2, w->data_bytes, muster_after_ms(4000), &g);
    CHECK(status == MUSTER_INVALID_ARGUMENT || status == MUSTER_DEADLINE_EXCEEDED || status == MUSTER_UNAVAILABLE);
    CHECK(status != MUSTER_INVALID_ARGUMENT || strstr(muster_last_error(), "another order"));
    atomic_fetch_add(&gang->go, status == MUSTER_INVALID_ARGUMENT);
    return 0;
}

static int come_so(struct muster *m, void *arg)
{
    const struct gang_work *w = arg;
    struct muster_group *g;
    enum muster_status status =
        muster_group_create(m, w->name, w->tasks, w->count, w->data_bytes, muster_after_ms(4000), &g);

    CHECK(status == MUSTER_INVALID_ARGUMENT || status == MUSTER_DEADLINE_EXCEEDED || status == MUSTER_UNAVAILABLE);
    atomic_fetch_add(&gang->go, status == MUSTER_INVALID_ARGUMENT);
    return 0;
}

/* Made, and left at once: nobody's making fails because another has it and has gone. */
static int makes_and_leaves(struct muster *m, void *arg)
{
    for (int i = *(int *)arg; i; i--) {
        struct muster_group *g;

        if (muster_group_create(m, "g", NULL, 0, 64, muster_after_ms(60000), &g)) {
            fprintf(stderr, "task %d, %d left: %s\n", (int)muster_task_id(m), i, muster_last_error());
            return 1;
        }
        muster_group_free(g);
    }
    return 0;
}

TEST(members_that_leave_at_once_have_had_the_same_group)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {2, 2}});
    int often = 300;
    pid_t pids[4];

    for (uint32_t i = 0; i < 4; i++)
        pids[i] = hosts_task(h, i, makes_and_leaves, &often);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_int_equal(hosts_close(h), 0);
}

TEST(members_that_do_not_fit_are_told_so)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.latency = trusts, .tasks = {1, 1}});
    struct gang_work w = work_of(2, 1);
    pid_t pids[2];

    gang_wipe();
    pids[0] = hosts_task(h, 0, come_so, &w);
    pids[1] = hosts_task(h, 1, come_otherwise, &w);
    assert_int_equal(hosts_reap(h, pids[0]), 0);
    assert_int_equal(hosts_reap(h, pids[1]), 0);
    assert_true(atomic_load(&gang->go) >= 1);
    assert_int_equal(hosts_close(h), 0);
}

int main(void)
{
    int failed;

    dice = (struct test_random){test_seed()};
    failed = test_run(NULL, NULL);
    trusts = true;
    return failed + test_run(NULL, NULL);
}
