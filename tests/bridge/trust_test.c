/*
 * tests/bridge/trust_test.c: a barrier's last host has the last word (--latency; I16): it passes without an answer; who
 * gives up elsewhere asks it; of a host out of reach nobody waits past the deadline, and it is said that it is not
 * known.
 */
#include "cm.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <muster/muster.h>

#include "base/clock.h"
#include "bridge/group/groups.h"
#include "child.h"
#include "gang.h"

/* The barrier's group of one task a host; where a member stands goes to the board. */
static int meet(struct muster *m, void *arg)
{
    const uint32_t *rank = arg;
    struct gang_place *place = &gang->places[*rank];
    struct muster_group *g;
    enum muster_status status;

    CHECK(!muster_group_create(m, "g", NULL, 0, 64, muster_after_ms(50000), &g));
    place->made = 1;
    while (*rank == 1 && !atomic_load(&gang->go)) {
        struct timespec ms = {0, 1000000};

        nanosleep(&ms, NULL); /* sleep: until the test lets it come */
    }
    place->at = 1;
    status = muster_group_barrier(g, gang->told && !*rank ? muster_after_ms(gang->told) : muster_after_ms(50000));
    snprintf(place->text, sizeof place->text, "%s", status ? muster_last_error() : "");
    place->status = status;
    place->last_ok = !status;
    place->failed = !!status;
    muster_group_free(g);
    return 0;
}

static bool has_returned(const uint32_t *rank)
{
    return gang->places[*rank].last_ok || gang->places[*rank].failed;
}

static uint32_t ranks[] = {0, 1};

/* The host's agent has heard that it has the last word. Stepped: nobody else uses its core. */
struct awaited {
    struct hosts *h;
    uint32_t host;
};

static bool is_trusted(const struct awaited *a)
{
    struct mu_core *core = hosts_lock(a->h, a->host);
    bool is = mu_groups_of(core)->first && mu_groups_of(core)->first->trusted == 1;

    hosts_unlock(a->h, a->host);
    return is;
}

/* Task 0 is at the barrier, and host 1 knows that it has the last word. */
static struct hosts *trusting(bool stepped, uint32_t patience_ms, pid_t *pids)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = stepped, .latency = true});
    struct awaited last = {h, 1};

    gang_wipe();
    gang->told = patience_ms;
    for (uint32_t i = 0; i < 2; i++)
        pids[i] = hosts_task(h, i, meet, &ranks[i]);
    hosts_await(h, gang->places[ranks[0]].at, "the first rank is there");
    if (stepped)
        hosts_await(h, is_trusted(&last), "the last host is trusted");
    return h;
}

/* The leader's agent takes no step. */
static void let_pass(struct hosts *h)
{
    muster_deadline deadline = muster_after_ms(60000);

    atomic_store(&gang->go, 1);
    while (!has_returned(&ranks[1])) {
        hosts_step(h, 1);
        assert_true(mu_now() < deadline);
    }
    assert_int_equal(gang->places[1].status, MUSTER_OK);
    assert_false(has_returned(&ranks[0]));
}

static void end(struct hosts *h, const pid_t *pids)
{
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_int_equal(hosts_close(h), 0);
}

TEST(the_last_host_passes_without_an_answer)
{
    pid_t pids[2];
    struct hosts *h = trusting(true, 0, pids);

    let_pass(h);
    end(h, pids);
    assert_int_equal(gang->places[0].status, MUSTER_OK);
}

TEST(what_it_passed_is_said_anew_when_the_connection_broke)
{
    pid_t pids[2];
    struct hosts *h = trusting(true, 0, pids);

    let_pass(h);
    hosts_cut(h, 1); /* with what it said */
    hosts_kill(h, 1);
    hosts_start(h, 1);
    end(h, pids);
    assert_int_equal(gang->places[0].status, MUSTER_OK);
}

TEST(who_gives_up_elsewhere_asks_it)
{
    pid_t pids[2];
    struct hosts *h = trusting(false, 200, pids);

    hosts_await(h, has_returned(&ranks[0]), "the first rank has returned");
    assert_int_equal(gang->places[0].status, MUSTER_DEADLINE_EXCEEDED);
    assert_non_null(strstr(gang->places[0].text, "had not arrived"));
    atomic_store(&gang->go, 1);
    end(h, pids);
    assert_int_equal(gang->places[1].status, MUSTER_DEADLINE_EXCEEDED);
}

TEST(out_of_reach_it_is_not_waited_for_past_the_deadline)
{
    pid_t pids[2];
    struct hosts *h = trusting(true, 4000, pids);

    hosts_cut(h, 1);
    hosts_await(h, has_returned(&ranks[0]), "the first rank has returned");
    assert_int_equal(gang->places[0].status, MUSTER_UNAVAILABLE);
    assert_non_null(strstr(gang->places[0].text, "is not known here: who had the last word, host"));
    hosts_join(h, 1);
    atomic_store(&gang->go, 1);
    end(h, pids);
    /* it had the last word: it was there first, or was asked first, or had seen that task 0 left */
    assert_true(gang->places[1].status == MUSTER_OK || gang->places[1].status == MUSTER_DEADLINE_EXCEEDED ||
                gang->places[1].status == MUSTER_UNAVAILABLE);
}

TEST(when_it_is_lost_nobody_knows)
{
    pid_t pids[2];
    struct hosts *h = trusting(true, 0, pids);

    let_pass(h);
    hosts_cut(h, 1);
    hosts_lose(h, 0, 1, "host 1 is lost");
    hosts_lose(h, 1, 0, "host 0 is lost");
    end(h, pids);
    assert_int_equal(gang->places[1].status, MUSTER_OK);
    assert_int_equal(gang->places[0].status, MUSTER_UNAVAILABLE);
    assert_non_null(strstr(gang->places[0].text, "that host had the last word, and may have let its members pass"));
}

/* ---- who left while another host was trusted ----------------------------------------------------------------------
 */

static const struct timespec a_moment = {0, 1000000};

/* Rank `leaves` gives up at the first instance, and frees the group; it stays in the job until the others are through
 * the second. */
struct leaver {
    uint32_t rank, leaves, last, count; /* the last comes when it is told */
};

static int meet_twice(struct muster *m, void *arg)
{
    const struct leaver *l = arg;
    struct gang_place *place = &gang->places[l->rank];
    struct muster_group *g;
    enum muster_status status;

    CHECK(!muster_group_create(m, "g", NULL, 0, 64, muster_after_ms(50000), &g));
    place->made = 1;
    while (l->rank == l->last && !atomic_load(&gang->go))
        nanosleep(&a_moment, NULL); /* sleep: until the test lets it come */
    place->at = 1;
    status = muster_group_barrier(g, muster_after_ms(l->rank == l->leaves ? 4000 : 50000));
    if (!status) {
        place->last_ok = 1;
        place->at = 2;
        status = muster_group_barrier(g, muster_after_ms(20000));
    }
    snprintf(place->text, sizeof place->text, "%s", status ? muster_last_error() : "");
    place->status = status;
    muster_group_free(g);
    place->failed = 1;
    atomic_fetch_add(&gang->told, 1);
    while (atomic_load(&gang->told) < l->count)
        nanosleep(&a_moment, NULL); /* sleep: the loss of a task would end the group, too */
    return 0;
}

static bool has_passed(void *arg)
{
    return gang->places[((const struct leaver *)arg)->rank].last_ok;
}

static struct hosts *parting(struct leaver *l, uint32_t count, uint32_t leaves, pid_t *pids)
{
    struct hosts_config config = {.stepped = true, .latency = true};
    struct awaited last = {NULL, count - 1};
    struct hosts *h;

    for (uint32_t i = 0; i < count; i++)
        config.tasks[i] = 1;
    last.h = h = hosts_open(&config);
    gang_wipe();
    for (uint32_t i = 0; i < count; i++) {
        l[i] = (struct leaver){i, leaves, count - 1, count};
        pids[i] = hosts_task(h, i, meet_twice, &l[i]);
    }
    hosts_await(h, is_trusted(&last), "the last host is trusted");
    return h;
}

/* Its host alone takes steps. */
static void step_until_passed(struct hosts *h, struct leaver *l)
{
    muster_deadline deadline = muster_after_ms(60000);

    while (!has_passed(l)) {
        hosts_step(h, l->rank);
        assert_true(mu_now() < deadline);
    }
}

static void ended_for_those_who_are_left(struct hosts *h, const pid_t *pids, uint32_t count, uint32_t leaves)
{
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_int_equal(hosts_close(h), 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(gang->places[i].status, MUSTER_UNAVAILABLE);
        assert_int_equal(gang->places[i].last_ok, i != leaves);
    }
}

TEST(who_left_without_knowing_is_not_waited_for_at_the_next)
{
    struct leaver l[2];
    pid_t pids[2];
    struct hosts *h = parting(l, 2, 0, pids);

    atomic_store(&gang->go, 1); /* it passes, and what it says is lost */
    step_until_passed(h, &l[1]);
    hosts_cut(h, 1);
    hosts_await(h, gang->places[l[0].rank].failed, "the leaver knows");
    hosts_join(h, 1);
    ended_for_those_who_are_left(h, pids, 2, 0);
}

TEST(a_host_that_was_done_while_another_passed_is_not_waited_for_at_the_next)
{
    struct leaver l[3];
    pid_t pids[3];
    struct hosts *h = parting(l, 3, 1, pids);
    struct test_random random = {test_seed()};

    hosts_cut(h, 1);
    atomic_store(&gang->go, 1); /* it passes, and what it says is lost */
    step_until_passed(h, &l[2]);
    hosts_cut(h, 2);
    hosts_await(h, gang->places[l[1].rank].failed, "the leaver knows");
    hosts_join(h, 1);
    hosts_settle(h, &random);
    hosts_join(h, 2);
    ended_for_those_who_are_left(h, pids, 3, 1);
}

/* The leader's agent dies between giving the host up and saying so in the verdict; its heir finds the row. */
TEST(who_was_given_up_by_an_agent_that_died_is_not_waited_for)
{
    pid_t pids[2];
    struct hosts *h = trusting(true, 0, pids);

    hosts_cut(h, 1);
    hosts_kill(h, 0);
    mu_store_release(&hosts_segment(h, 0)->hosts[1].state,
                     MU_HOST_LOST); /* release: as the agent does; pairs with losses_remember() */
    hosts_start(h, 0);
    hosts_await(h, has_returned(&ranks[0]), "the first rank has returned");
    assert_int_equal(gang->places[0].status, MUSTER_UNAVAILABLE);
    assert_non_null(strstr(gang->places[0].text, "that host had the last word"));
    hosts_lose(h, 1, 0, "host 0 is lost");
    atomic_store(&gang->go, 1);
    end(h, pids);
}
