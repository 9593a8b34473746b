/*
 * tests/bridge/shortcut_told_test.c: barriers of two hosts by datagrams between tasks (barrier/shortcut.h): who passes
 * sees every write that came before (I10), though it came over another connection; and who did not hear a datagram is
 * told by the agents, though the other one passed and does nothing more.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <muster/muster.h>

#include "barrier/group.h"
#include "bridge/group/groups.h"
#include "child.h"
#include "gang.h"

static const struct timespec a_moment = {0, 1000000};

static struct hosts *open_two(bool stepped)
{
    return hosts_open(&(struct hosts_config){.tasks = {1, 1}, .latency = true, .shortcuts = true, .stepped = stepped});
}

static bool is_live(struct hosts *h, uint32_t host)
{
    bool live = mu_groups_of(hosts_lock(h, host))->first->way_is_live;

    hosts_unlock(h, host);
    return live;
}

/* ---- causality --------------------------------------------------------------------------------------------------- */

enum { WRITES = 1500, EVERY = 3 };

static int value_of(struct muster *m, const char *key)
{
    char text[16];
    size_t len;

    if (muster_kv_get(m, key, MUSTER_NTS, muster_after_ms(50000), text, sizeof text, &len, NULL))
        return -1;
    return (int)strtol(text, NULL, 10);
}

/* Each host's task writes a key, now and then, before a barrier; the other reads it behind that, from its own copies.
 */
static int write_and_read(struct muster *m, void *arg)
{
    int own = muster_task_id(m), other = !own, written[2] = {0, 0};
    const char *keys[] = {"of the leader's", "of the other's"};
    struct muster_group *g;

    (void)arg;
    CHECK(!muster_group_create(m, "g", NULL, 0, 8, muster_after_ms(50000), &g));
    for (int n = 1; n <= WRITES; n++) {
        char text[16];

        for (int i = 0; i < 2; i++)
            if (n % EVERY == 0 && n / EVERY % 2 == i)
                written[i] = n;
        snprintf(text, sizeof text, "%d", n);
        if (written[own] == n)
            CHECK(!muster_kv_set(m, keys[own], MUSTER_NTS, text, strlen(text) + 1, NULL));
        CHECK(!muster_group_barrier(g, muster_after_ms(50000)));
        if (written[other] && value_of(m, keys[other]) != written[other]) {
            printf("behind barrier %d the key is %d, not %d\n", n, value_of(m, keys[other]), written[other]);
            fflush(stdout);
            return 3;
        }
        CHECK(!muster_group_barrier(g, muster_after_ms(50000)));
    }
    muster_group_free(g);
    return 0;
}

TEST(who_passes_sees_what_was_written_before)
{
    struct hosts *h = open_two(false);
    pid_t pids[2];

    for (uint32_t i = 0; i < 2; i++)
        pids[i] = hosts_task(h, i, write_and_read, NULL);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_int_equal(hosts_close(h), 0);
}

enum { SET_UP = 20, TOLD = SET_UP + 1 };

/* Some barriers, until the shortcut is there; then, when the test says so, the leader's task writes and both meet. What
 * the other reads behind it goes to the board. Of three (arg) the third has a copy of the key before the second. */
static int write_when_told(struct muster *m, void *arg)
{
    static const int32_t both[] = {0, 1};
    struct gang_place *place = &gang->places[muster_task_id(m)];
    struct muster_group *g;

    CHECK(!muster_group_create(m, "g", both, 2, 8, muster_after_ms(50000), &g));
    if (!muster_task_id(m))
        CHECK(!muster_kv_set(m, "k", MUSTER_NTS, "1", 2, NULL));
    for (place->at = 1; place->at <= SET_UP; place->at++)
        CHECK(!muster_group_barrier(g, muster_after_ms(50000)));
    while (arg && !gang->places[2].made)
        nanosleep(&a_moment, NULL); /* sleep: until it has it */
    CHECK(value_of(m, "k") == 1);
    place->made = 1;
    while (atomic_load(&gang->go) < 1)
        nanosleep(&a_moment, NULL); /* sleep: until the test lets it go on */
    if (!muster_task_id(m))
        CHECK(!muster_kv_set(m, "k", MUSTER_NTS, "2", 2, NULL));
    place->made = 2;
    while (atomic_load(&gang->go) < 2)
        nanosleep(&a_moment, NULL); /* sleep: likewise */
    CHECK(!muster_group_barrier(g, muster_after_ms(50000)));
    place->last_ok = (uint64_t)value_of(m, "k");
    muster_group_free(g);
    return 0;
}

static bool both_are_at(uint32_t wanted)
{
    return gang->places[0].made >= wanted && gang->places[1].made >= wanted;
}

/* Has its copy, and waits until the others are done. */
static int read_first(struct muster *m, void *arg)
{
    (void)arg;
    CHECK(value_of(m, "k") == 1);
    gang->places[2].made = 1;
    while (!gang->places[1].last_ok)
        nanosleep(&a_moment, NULL); /* sleep: likewise */
    return 0;
}

/* Stepped. What the leader's task wrote is there; of the agents none has told, or the leader's alone, in so many turns.
 */
static void written_and_told_in(int turns, bool third)
{
    struct hosts *h =
        hosts_open(&(struct hosts_config){.tasks = {1, 1, third}, .latency = true, .shortcuts = true, .stepped = true});
    struct test_random random = {test_seed()};
    uint32_t one = 1, two = 2;
    pid_t pids[3];

    gang_wipe();
    for (uint32_t i = 0; i < 2; i++)
        pids[i] = hosts_task(h, i, write_when_told, third ? h : NULL);
    if (third)
        pids[2] = hosts_task(h, 2, read_first, NULL);
    hosts_await(h, both_are_at(one), "both have begun");
    hosts_settle(h, &random);
    assert_true(is_live(h, 0) && is_live(h, 1));
    atomic_store(&gang->go, 1);
    while (!both_are_at(two))
        nanosleep(&a_moment, NULL); /* sleep: the tasks need no agent now */
    while (turns-- && hosts_step(h, 0))
        ;
    atomic_store(&gang->go, 2);
    for (int i = 0; i < 50; i++) {
        nanosleep(&a_moment, NULL); /* sleep: so that who may pass does */
        assert_int_equal(gang->places[1].last_ok, 0);
    }
    for (uint32_t i = 0; i < 2u + third; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_int_equal(gang->places[1].last_ok, 2);
    assert_int_equal(hosts_close(h), 0);
}

TEST(nobody_passes_before_the_other_agent_was_told)
{
    written_and_told_in(0, false);
}

TEST(nobody_passes_before_his_agent_has_taken_it)
{
    written_and_told_in(-1, false);
}

/* A batch for another host that has the key, too: what goes to ours is collected with it, and waits for the next turn.
 */
TEST(nobody_passes_before_what_was_collected_has_gone)
{
    for (int turns = 0; turns < 4; turns++)
        written_and_told_in(turns, true);
}

/* The other host's speaker has committed to the instance, and looks no further before the test says so. */
static unsigned stay(uint64_t instance)
{
    if (instance == TOLD && !atomic_load(&gang->places[0].last_ok))
        gang->told = 1;
    while (instance == TOLD && atomic_load(&gang->go) < 3)
        nanosleep(&a_moment, NULL); /* sleep: until the test lets it go on */
    return 1;
}

/* The first instance behind the setting up carries data of the leader's task's; the next one does not. */
static int give_and_go_on(struct muster *m, void *arg)
{
    int task = muster_task_id(m);
    struct gang_place *place = &gang->places[task];
    struct muster_group *g;
    uint64_t given = task ? 0 : 42;

    (void)arg;
    mu_shortcut_fate = task == 1 ? stay : NULL;
    CHECK(!muster_group_create(m, "g", NULL, 0, 8, muster_after_ms(50000), &g));
    for (place->at = 1; place->at <= SET_UP; place->at++)
        CHECK(!muster_group_barrier(g, muster_after_ms(50000)));
    place->made = 1;
    while (atomic_load(&gang->go) < (task ? 1u : 2u))
        if (!task)
            nanosleep(&a_moment, NULL); /* sleep: likewise; the others come at once */
    CHECK(!muster_group_broadcast(g, 0, &given, sizeof given, muster_after_ms(50000)));
    place->wrong = given != 42;
    place->last_ok = 1;
    CHECK(!muster_group_barrier(g, muster_after_ms(50000)));
    muster_group_free(g);
    return 0;
}

/* Stepped. The leader's agent has heard that the other host has arrived, and lets its own task pass: what that gave is
 * not on its way yet when it goes on by datagrams. True: the other's speaker had committed before its agent was asked.
 */
static bool give_and_go_on_before_it_is_sent(void)
{
    struct hosts *h =
        hosts_open(&(struct hosts_config){.tasks = {1, 2}, .latency = true, .shortcuts = true, .stepped = true});
    struct test_random random = {test_seed()};
    uint64_t said;
    bool committed;
    pid_t pids[3];

    gang_wipe();
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = hosts_task(h, i, give_and_go_on, NULL);
    hosts_await(h, gang->places[0].made && gang->places[1].made && gang->places[2].made, "all are ready");
    hosts_settle(h, &random);
    assert_true(is_live(h, 0) && is_live(h, 1));
    said = hosts_frames(h, 1, MU_FRAME_GROUP);
    atomic_store(&gang->go, 1);
    while (hosts_frames(h, 1, MU_FRAME_GROUP) == said) {
        hosts_step(h, 1);
        nanosleep(&a_moment, NULL); /* sleep: until a task has asked its agent */
    }
    atomic_store(&gang->go, 2);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 20 && !gang->places[0].last_ok; k++)
            nanosleep(&a_moment, NULL); /* sleep: so that the leader's task arrives, and passes */
        if (!gang->places[0].last_ok)
            hosts_step(h, 0);
    }
    for (int i = 0; i < 20; i++)
        nanosleep(&a_moment, NULL); /* sleep: so that it goes on */
    committed = gang->told;
    atomic_store(&gang->go, 3);
    for (int i = 0; i < 20; i++)
        nanosleep(&a_moment, NULL); /* sleep: so that who may pass does */
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(gang->places[i].wrong, 0);
    assert_int_equal(hosts_close(h), 0);
    return committed;
}

TEST(what_was_given_comes_before_the_next_datagram)
{
    for (int round = 0, met = 0; round < 20 && met < 3; round++)
        met += give_and_go_on_before_it_is_sent();
}

/* A leader that is mad asks the agents for instances that nobody can be at: they do not go their way for that. */
TEST(what_cannot_be_under_way_is_not_asked_for)
{
    struct hosts *h = open_two(true);
    struct test_random random = {test_seed()};
    uint32_t one = 1;
    struct mu_pack p = {0};
    struct span *s;
    pid_t pids[2];

    gang_wipe();
    for (uint32_t i = 0; i < 2; i++)
        pids[i] = hosts_task(h, i, write_when_told, NULL);
    hosts_await(h, both_are_at(one), "both have begun");
    hosts_settle(h, &random);
    s = mu_groups_of(hosts_lock(h, 1))->first;
    mu_bridge_span_pack(&p, MU_SAY_TRUSTED, s);
    mu_pack_u64(&p, 1u << 20);
    mu_pack_u32(&p, 0);
    hosts_inject(h, 0, 1, MU_FRAME_GROUP, p.bytes, p.len);
    hosts_unlock(h, 1);
    mu_pack_done(&p);
    hosts_settle(h, &random);
    s = mu_groups_of(hosts_lock(h, 1))->first;
    assert_true(s->way_is_live && mu_load_relaxed(&s->way->ask) <= TOLD); /* relaxed: nobody moves it now */
    hosts_unlock(h, 1);
    atomic_store(&gang->go, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_int_equal(hosts_close(h), 0);
}

/* ---- who passed and is silent ------------------------------------------------------------------------------------ */

static unsigned not_the_last(uint64_t instance)
{
    return instance != TOLD;
}

/* The last datagram of the task `*lost` does not come; it passes, and does nothing more until the other has, too. */
static int pass_and_be_silent(struct muster *m, void *arg)
{
    const int *lost = arg;
    struct muster_group *g;

    mu_shortcut_fate = muster_task_id(m) == *lost ? not_the_last : NULL;
    CHECK(!muster_group_create(m, "g", NULL, 0, 8, muster_after_ms(50000), &g));
    for (int i = 1; i <= TOLD; i++)
        CHECK(!muster_group_barrier(g, muster_after_ms(50000)));
    atomic_fetch_add(&gang->told, 1);
    while (atomic_load(&gang->told) < 2)
        nanosleep(&a_moment, NULL); /* sleep: until the other has passed */
    muster_group_free(g);
    return 0;
}

TEST(who_did_not_hear_it_is_told_by_the_agents)
{
    for (int lost = 0; lost < 2; lost++)
        for (int round = 0; round < 10; round++) {
            struct hosts *h = open_two(false);
            pid_t pids[2];

            gang_wipe();
            for (uint32_t i = 0; i < 2; i++)
                pids[i] = hosts_task(h, i, pass_and_be_silent, &lost);
            for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(hosts_reap(h, pids[i]), 0);
            assert_int_equal(hosts_close(h), 0);
        }
}
