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

static bool is_there(void *arg)
{
    const uint32_t *rank = arg;

    return gang->places[*rank].at;
}

static bool has_returned(void *arg)
{
    const uint32_t *rank = arg;

    return gang->places[*rank].last_ok || gang->places[*rank].failed;
}

static uint32_t ranks[] = {0, 1};

/* Task 0 is at the barrier, and host 1 knows that it has the last word. */
static struct hosts *trusting(bool stepped, uint32_t patience_ms, pid_t *pids)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = stepped, .latency = true});
    struct test_random random = {test_seed()};
    uint64_t frames;

    gang_wipe();
    gang->told = patience_ms;
    for (uint32_t i = 0; i < 2; i++)
        pids[i] = hosts_task(h, i, meet, &ranks[i]);
    assert_true(hosts_until(h, is_there, &ranks[0]));
    frames = hosts_frames(h, 1, 0);
    if (stepped)
        hosts_settle(h, &random);
    assert_true(hosts_frames(h, 1, 0) >= frames);
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

static void the_last_host_passes_without_an_answer(void **state)
{
    pid_t pids[2];
    struct hosts *h = trusting(true, 0, pids);

    (void)state;
    let_pass(h);
    end(h, pids);
    assert_int_equal(gang->places[0].status, MUSTER_OK);
}

static void what_it_passed_is_said_anew_when_the_connection_broke(void **state)
{
    pid_t pids[2];
    struct hosts *h = trusting(true, 0, pids);

    (void)state;
    let_pass(h);
    hosts_cut(h, 1); /* with what it said */
    hosts_kill(h, 1);
    hosts_start(h, 1);
    end(h, pids);
    assert_int_equal(gang->places[0].status, MUSTER_OK);
}

static void who_gives_up_elsewhere_asks_it(void **state)
{
    pid_t pids[2];
    struct hosts *h = trusting(false, 200, pids);

    (void)state;
    assert_true(hosts_until(h, has_returned, &ranks[0]));
    assert_int_equal(gang->places[0].status, MUSTER_DEADLINE_EXCEEDED);
    assert_non_null(strstr(gang->places[0].text, "had not arrived"));
    atomic_store(&gang->go, 1);
    end(h, pids);
    assert_int_equal(gang->places[1].status, MUSTER_DEADLINE_EXCEEDED);
}

static void out_of_reach_it_is_not_waited_for_past_the_deadline(void **state)
{
    pid_t pids[2];
    struct hosts *h = trusting(true, 200, pids);

    (void)state;
    hosts_cut(h, 1);
    assert_true(hosts_until(h, has_returned, &ranks[0]));
    assert_int_equal(gang->places[0].status, MUSTER_UNAVAILABLE);
    assert_non_null(strstr(gang->places[0].text, "is not known here: who had the last word, host"));
    hosts_join(h, 1);
    atomic_store(&gang->go, 1);
    end(h, pids);
    if (gang->places[1].status != MUSTER_OK) /* it had the last word; unless it has seen first that task 0 left */
        assert_int_equal(gang->places[1].status, MUSTER_UNAVAILABLE);
}

static void when_it_is_lost_nobody_knows(void **state)
{
    pid_t pids[2];
    struct hosts *h = trusting(true, 0, pids);

    (void)state;
    let_pass(h);
    hosts_cut(h, 1);
    hosts_lose(h, 0, 1, "host 1 is lost");
    hosts_lose(h, 1, 0, "host 0 is lost");
    end(h, pids);
    assert_int_equal(gang->places[1].status, MUSTER_OK);
    assert_int_equal(gang->places[0].status, MUSTER_UNAVAILABLE);
    assert_non_null(strstr(gang->places[0].text, "that host had the last word, and may have let its members pass"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_host_passes_without_an_answer),
        cmocka_unit_test(what_it_passed_is_said_anew_when_the_connection_broke),
        cmocka_unit_test(who_gives_up_elsewhere_asks_it),
        cmocka_unit_test(out_of_reach_it_is_not_waited_for_past_the_deadline),
        cmocka_unit_test(when_it_is_lost_nobody_knows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
