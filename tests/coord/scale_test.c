/*
 * tests/coord/scale_test.c: a job of four thousand guests: they register, each polls for errors and gets what nobody
 * has set yet; they meet, exchange keys, and shut down. How long each of it took is printed, for people.
 */
#include "counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUESTS = 4096, ROUNDS = 3 };

static struct mu_coord_request *asks;
static uint32_t answers, failures;

static void answered(struct mu_coord_request *ask)
{
    answers++;
    failures += ask->status != MUSTER_OK;
}

static struct mu_coord_request *guest(int i)
{
    memset(&asks[i], 0, sizeof asks[i]);
    asks[i].answered = answered;
    return &asks[i];
}

static void all_are_answered(const char *what)
{
    if (answers != GUESTS || failures)
        fail_msg("%s: %u of %d are answered, %u with an error", what, answers, GUESTS, failures);
    answers = 0;
}

static uint64_t since;

static void lap(const char *what)
{
    print_message("%s: %.1f ms\n", what, (double)(muster_now_ns() - since) / 1e6);
    since = muster_now_ns();
}

static void answered_alive(struct mu_coord_request *ask)
{
    answers++;
    failures += ask->status || ask->num_alive != GUESTS || ask->alive[GUESTS - 1] != GUESTS - 1 ||
                ask->incarnations[GUESTS - 1] != INCARNATION(GUESTS - 1);
}

/* All of all, whose numbers would be too long a key. */
static void who_is_alive(void)
{
    int32_t *all = calloc(GUESTS, sizeof *all);

    for (int i = 0; i < GUESTS; i++)
        all[i] = i;
    for (int i = 0; i < GUESTS; i++) {
        assert_int_equal(answers, 0);
        guest(i)->answered = answered_alive;
        mu_coord_alive(coord, &asks[i], i, all, GUESTS);
    }
    all_are_answered("who is alive");
    free(all);
}

COORD_TEST(four_thousand_guests)
{
    const struct mu_coord_options o = {.register_barrier = true, .shutdown_timeout_ns = 100000000000u};
    struct mu_coord_request *polls = calloc(GUESTS, sizeof *polls), *gets = calloc(GUESTS, sizeof *gets);
    char key[32];

    asks = calloc(GUESTS, sizeof *asks);
    counter_open(GUESTS, &o);
    since = muster_now_ns();
    for (int i = 0; i < GUESTS; i++)
        mu_coord_register(coord, guest(i), i, INCARNATION(i), false);
    all_are_answered("registering");
    lap("register");
    for (int i = 0; i < GUESTS; i++) {
        polls[i].answered = gets[i].answered = answered;
        mu_coord_poll_error(coord, &polls[i], i);
        mu_coord_get(coord, &gets[i], "notice", 6);
    }
    lap("poll and get");
    for (int i = 0; i < GUESTS; i++)
        mu_coord_heartbeat(coord, guest(i), i, INCARNATION(i));
    all_are_answered("heartbeats");
    lap("heartbeat");
    for (int64_t k = 0; k < ROUNDS; k++) {
        for (int i = 0; i < GUESTS; i++)
            mu_coord_barrier(coord, guest(i), i, "b", 1, 60000, NULL, 0, k);
        all_are_answered("a barrier");
    }
    lap("3 barriers");
    who_is_alive();
    lap("who is alive");
    for (int i = 0; i < GUESTS; i++) {
        snprintf(key, sizeof key, "topology/%d", i);
        mu_coord_get(coord, guest(i), key, strlen(key));
    }
    lap("gets that wait");
    for (int i = 0; i < GUESTS; i++) {
        struct asked *a = ask(-1);

        snprintf(key, sizeof key, "topology/%d", i);
        mu_coord_insert(coord, &a->ask, key, strlen(key), key, strlen(key), false);
        assert_true(a->answered);
    }
    all_are_answered("gets");
    lap("inserts");
    for (int i = 0; i < GUESTS; i++)
        mu_coord_drop(coord, &gets[i]);
    for (int i = 0; i < GUESTS; i++)
        mu_coord_shutdown(coord, guest(i), i);
    assert_int_equal(answers, 2 * GUESTS); /* the polls are cancelled */
    assert_int_equal(failures, GUESTS);
    lap("shutdown");
    assert_true(mu_coord_is_over(coord));
    counter_close();
    free(asks);
    free(polls);
    free(gets);
}
