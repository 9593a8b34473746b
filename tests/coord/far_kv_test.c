/*
 * tests/coord/far_kv_test.c: keys as guests of several hosts see them; that both see the same is drivers_test.c's. Task
 * 0's guest is at the leader's engine, task 2's at a follower's; tasks 1 and 3 are of the C library where a test enters
 * them.
 */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/kv/copies.h"
#include "bridge/call/lanes.h"

enum { LEADER = 0, FAR = 2, TASK = 1, FAR_TASK = 3 };

static const struct hosts_config two = {.tasks = {2, 2}};

/* ---- waiting ---- */

PAIR_TEST(a_get_waits_for_whoever_writes)
{
    struct asked *a, *b;

    pair_open(&two, NULL);
    a = do_get(pair_as(FAR), "from/leader");
    b = do_get(pair_as(LEADER), "from/afar");
    assert_waits(a);
    assert_waits(b);
    assert_answer(do_insert(pair_as(LEADER), "from/leader", "1", false), MUSTER_OK);
    assert_value(a, "1");
    assert_answer(do_insert(pair_as(FAR), "from/afar", "2", false), MUSTER_OK);
    assert_value(b, "2");
    a = do_get(FAR, "own");
    assert_answer(do_insert(FAR, "own", "3", false), MUSTER_OK);
    assert_value(a, "3");
    assert_answer(do_delete(FAR, "own"), MUSTER_OK);
    a = do_get(FAR, "own");
    assert_answer(do_increment(pair_as(LEADER), "own", 4), MUSTER_OK);
    assert_value(a, "4");
    pair_close();
}

static void set_a_key(struct muster *m, const struct cast_act *act, struct cast_reply *reply, int fd)
{
    (void)fd;
    reply->status = (int)muster_kv_set(m, act->id, MUSTER_NTS, "task", 4, NULL);
}

static void get_a_key(struct muster *m, const struct cast_act *act, struct cast_reply *reply, int fd)
{
    size_t len = 0;

    (void)fd;
    reply->status =
        (int)muster_kv_get(m, act->id, MUSTER_NTS, MUSTER_FOREVER, reply->bytes, sizeof reply->bytes, &len, NULL);
}

static struct cast_act act(cast_fn fn, const char *key)
{
    struct cast_act a = {.kind = CAST_DO, .fn = fn};

    snprintf(a.id, sizeof a.id, "%s", key);
    return a;
}

PAIR_TEST(guests_share_keys_with_tasks_of_every_host)
{
    struct cast_act sets = act(set_a_key, "t"), sets_far = act(set_a_key, "ft"), gets = act(get_a_key, "g");
    struct asked *a, *b, *c, *d;

    cast_open(&two);
    cast_enter(TASK, 0);
    cast_enter(FAR_TASK, 0);
    pair_begin(NULL);
    a = do_get(pair_as(FAR), "t");
    b = do_get(FAR, "ft");
    c = do_get(pair_as(LEADER), "t");
    d = do_get(LEADER, "ft");
    assert_reply(pair_do(TASK, &sets), MUSTER_OK);
    assert_reply(pair_do(FAR_TASK, &sets_far), MUSTER_OK);
    assert_value(a, "task");
    assert_value(b, "task");
    assert_value(c, "task");
    assert_value(d, "task");
    cast_tell(TASK, &gets);
    cast_tell(FAR_TASK, &gets);
    assert_answer(do_insert(pair_as(FAR), "g", "guest", false), MUSTER_OK);
    assert_string_equal(pair_hear(TASK).bytes, "guest");
    assert_string_equal(pair_hear(FAR_TASK).bytes, "guest");
    pair_close();
}

PAIR_TEST(a_thousand_who_want_one_key_make_one_call)
{
    struct asked *gets[1000];
    uint64_t before;

    pair_open(&two, NULL);
    before = hosts_frames(cast_hosts, 1, MU_FRAME_CALL);
    pair_as(FAR);
    for (int i = 0; i < 1000; i++)
        gets[i] = do_get(FAR, "topology");
    assert_answer(do_increment(FAR, "and/another/one", 1), MUSTER_OK); /* the leader knows by now */
    assert_answer(do_insert(pair_as(LEADER), "topology", "all of it", false), MUSTER_OK);
    for (int i = 0; i < 1000; i++)
        assert_value(gets[i], "all of it");
    assert_int_equal(hosts_frames(cast_hosts, 1, MU_FRAME_CALL) - before, 2);
    pair_close();
}

/* Who tries after the question has gone may know of what came since: it is asked for anew, for all of them at once. */
PAIR_TEST(a_thousand_who_try_are_not_told_what_was)
{
    struct asked *tries[1000];
    uint64_t before;

    pair_open(&two, NULL);
    before = hosts_frames(cast_hosts, 1, MU_FRAME_CALL);
    pair_as(FAR);
    for (int i = 0; i < 1000; i++)
        tries[i] = do_try_get(FAR, "nothing");
    for (int i = 0; i < 1000; i++)
        assert_says_so(tries[i], MUSTER_NOT_FOUND, "Config key nothing not found.");
    assert_int_equal(hosts_frames(cast_hosts, 1, MU_FRAME_CALL) - before, 2);
    pair_close();
}

PAIR_TEST(what_one_has_written_one_reads)
{
    char text[16];

    pair_open(&two, NULL);
    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof text, "%d", i);
        assert_answer(do_insert(pair_as(FAR), "own", text, true), MUSTER_OK);
        assert_value(do_try_get(FAR, "own"), text);
        assert_answer(do_insert(pair_as(LEADER), "other", text, true), MUSTER_OK);
        assert_answer(do_insert(pair_as(FAR), "mark", text, true), MUSTER_OK); /* behind it */
        assert_value(do_get(FAR, "other"), text);
        if (i % 3 == 0) {
            assert_answer(do_delete(FAR, "own"), MUSTER_OK);
            assert_answer(do_try_get(FAR, "own"), MUSTER_NOT_FOUND);
        }
    }
    pair_close();
}

/* ---- large values ---- */

enum { LARGE = (16 << 20) + 5, LARGER = 40 << 20 };

static char *pattern(size_t len, unsigned seed)
{
    char *bytes = malloc(len);

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)((i * 2654435761u + seed) >> 11);
    return bytes;
}

static void put(int guest, const char *key, const char *bytes, size_t len)
{
    struct asked *a = ask(pair_as(guest));

    mu_coord_insert(coord, &a->ask, key, strlen(key), bytes, len, true);
    assert_answer(a, MUSTER_OK);
}

static void holds(struct asked *a, const char *bytes, size_t len)
{
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->len, len);
    assert_memory_equal(a->value, bytes, len);
}

static const struct hosts_config roomy = {.tasks = {2, 2}, .segment = {.heap_bytes = 512u << 20}};

PAIR_TEST(large_values_go_both_ways)
{
    char *large = pattern(LARGE, 1), *larger = pattern(LARGER, 2);
    struct asked *waits, *waits_too;

    pair_open(&roomy, NULL);
    waits = do_get(pair_as(FAR), "a");
    waits_too = do_get(FAR, "b");
    put(FAR, "a", large, LARGE);
    holds(waits, large, LARGE);
    holds(do_get(pair_as(LEADER), "a"), large, LARGE);
    put(LEADER, "b", larger, LARGER);
    holds(waits_too, larger, LARGER);
    holds(do_try_get(pair_as(FAR), "b"), larger, LARGER);
    put(LEADER, "b", "small", 5);
    assert_value(do_get(pair_as(FAR), "b"), "small");
    put(FAR, "empty", "", 0);
    holds(do_get(pair_as(LEADER), "empty"), "", 0);
    holds(do_get(pair_as(FAR), "empty"), "", 0);
    free(large);
    free(larger);
    pair_close();
}

/* Its pieces are of one version, whatever is written meanwhile. */
PAIR_TEST(a_large_value_is_of_one_version)
{
    char *values[2] = {pattern(LARGE, 3), pattern(LARGE + 7, 4)};
    size_t lens[2] = {LARGE, LARGE + 7};

    pair_open(&roomy, NULL);
    put(LEADER, "v", values[0], lens[0]);
    for (int i = 0; i < 4; i++) {
        struct asked *a = do_get(pair_as(FAR), "v"), *written = ask(pair_as(LEADER));
        int now;

        for (int turns = 0; turns < i * 3; turns++)
            counter_turn();
        mu_coord_insert(coord, &written->ask, "v", 1, values[(i + 1) % 2], lens[(i + 1) % 2], true);
        assert_answer(written, MUSTER_OK);
        assert_answer(a, MUSTER_OK);
        now = a->len == lens[1];
        holds(a, values[now], lens[now]);
    }
    free(values[0]);
    free(values[1]);
    pair_close();
}

PAIR_TEST(a_value_that_is_too_large_is_refused_everywhere)
{
    char *much = calloc(1, (64u << 20) + 1);
    struct asked *near, *far;

    pair_open(&roomy, NULL);
    near = ask(pair_as(LEADER));
    mu_coord_insert(coord, &near->ask, "v", 1, much, (64u << 20) + 1, true);
    far = ask(pair_as(FAR));
    mu_coord_insert(coord, &far->ask, "v", 1, much, (64u << 20) + 1, true);
    assert_answer(far, MUSTER_INVALID_ARGUMENT);
    assert_string_equal(far->text, near->text);
    free(much);
    pair_close();
}

PAIR_TEST(listings_hold_large_values)
{
    char *large = pattern(LARGE, 5);
    struct asked *a;

    pair_open(&roomy, NULL);
    put(LEADER, "d/a", "small", 5);
    put(LEADER, "d/b", large, LARGE);
    put(FAR, "d/c", large, (1 << 20) + 1);
    put(FAR, "d/d", large, 1 << 20);
    a = do_list(pair_as(FAR), "d");
    assert_answer(a, MUSTER_OK);
    assert_string_equal(a->keys, "d/a\nd/b\nd/c\nd/d\n");
    free(large);
    pair_close();
}

/* ---- many, and connections that break ---- */

enum { MANY = 10000 };

PAIR_TEST(ten_thousand_wait_over_a_broken_connection)
{
    const struct hosts_config c = {.tasks = {2, 2}, .segment = {.heap_bytes = 256u << 20, .num_buckets = 16384}};
    struct asked **gets = calloc(MANY, sizeof(struct asked *));
    char key[32];

    pair_open(&c, NULL);
    pair_as(FAR);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "many/%d", i);
        gets[i] = do_get(FAR, key);
        if (i == MANY / 2)
            hosts_cut(cast_hosts, 1);
    }
    hosts_join(cast_hosts, 1);
    assert_answer(do_increment(FAR, "and/back", 1), MUSTER_OK);
    pair_as(LEADER);
    for (int i = 0; i < MANY; i++) {
        struct asked *a = ask(LEADER);

        snprintf(key, sizeof key, "many/%d", i);
        mu_coord_insert(coord, &a->ask, key, strlen(key), key, strlen(key), false);
        assert_answer(a, MUSTER_OK);
        if (i == MANY / 3)
            hosts_cut(cast_hosts, 1);
        if (i == MANY / 2)
            hosts_join(cast_hosts, 1);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "many/%d", i);
        assert_value(gets[i], key);
    }
    free(gets);
    pair_close();
}

PAIR_TEST(calls_wait_for_the_connection)
{
    struct asked *inserted, *summed, *tried, *waits, *listed, *deleted;

    pair_open(&two, NULL);
    assert_answer(do_insert(pair_as(LEADER), "d/1", "x", false), MUSTER_OK);
    assert_answer(do_insert(LEADER, "gone", "x", false), MUSTER_OK);
    hosts_cut(cast_hosts, 1);
    pair_as(FAR);
    inserted = do_insert(FAR, "k", "v", false);
    summed = do_increment(FAR, "n", 1);
    tried = do_try_get(FAR, "nothing");
    waits = do_get(FAR, "later");
    listed = do_list(FAR, "d");
    deleted = do_delete(FAR, "gone");
    assert_waits(inserted);
    assert_waits(tried);
    hosts_join(cast_hosts, 1);
    assert_answer(inserted, MUSTER_OK);
    assert_value(summed, "1");
    assert_answer(tried, MUSTER_NOT_FOUND);
    assert_answer(listed, MUSTER_OK);
    assert_string_equal(listed->keys, "d/1\n");
    assert_answer(deleted, MUSTER_OK);
    assert_answer(do_insert(pair_as(LEADER), "later", "now", false), MUSTER_OK);
    assert_value(waits, "now");
    pair_close();
}

/* Every change is made once, however often the connection breaks. */
PAIR_TEST(changes_are_made_once)
{
    struct asked *sums[300];

    pair_open(&two, NULL);
    pair_as(FAR);
    for (int i = 0; i < 300; i++) {
        sums[i] = do_increment(FAR, "sum", 1);
        if (i % 60 == 30)
            hosts_cut_after(cast_hosts, 1, 7);
        if (i % 60 == 55)
            hosts_mend(cast_hosts);
        counter_turn();
    }
    hosts_mend(cast_hosts);
    for (int i = 0; i < 300; i++)
        assert_answer(sums[i], MUSTER_OK);
    assert_value(do_get(pair_as(LEADER), "sum"), "300");
    pair_close();
}

/* Copies that made room, and interest that was forgotten: who waits asks again. */
PAIR_TEST(few_copies_are_enough)
{
    struct asked *gets[64];
    char key[32];
    struct mu_core *core;

    pair_open(&two, NULL);
    core = hosts_lock(cast_hosts, 1);
    mu_copies_bound(core, 4, 1 << 20);
    hosts_unlock(cast_hosts, 1);
    for (int i = 0; i < 64; i++) {
        snprintf(key, sizeof key, "k/%d", i);
        gets[i] = do_get(pair_as(FAR), key);
    }
    for (int i = 0; i < 64; i++) {
        snprintf(key, sizeof key, "k/%d", i);
        assert_answer(do_insert(pair_as(i % 2 ? FAR : LEADER), key, key, false), MUSTER_OK);
    }
    for (int i = 0; i < 64; i++) {
        snprintf(key, sizeof key, "k/%d", i);
        assert_value(gets[i], key);
        assert_value(do_get(pair_as(FAR), key), key);
        assert_value(do_try_get(FAR, key), key);
    }
    pair_close();
}

PAIR_TEST(who_loses_the_leader_is_told)
{
    struct asked *waits, *inserted, *tried, *listed;

    pair_open(&two, NULL);
    waits = do_get(pair_as(FAR), "never");
    assert_answer(do_increment(FAR, "n", 1), MUSTER_OK);
    assert_value(do_get(FAR, "n"), "1"); /* the leader knows of the get before */
    hosts_cut(cast_hosts, 1);
    inserted = do_insert(FAR, "k", "v", false);
    tried = do_try_get(FAR, "k");
    listed = do_list(FAR, "d");
    assert_waits(waits);
    hosts_lose(cast_hosts, 1, 0, "the test gives it up");
    assert_says_so(waits, MUSTER_UNAVAILABLE, "key never: the leader of the job, host node0, is lost");
    assert_says_so(inserted, MUSTER_UNAVAILABLE, "the leader of the job, host node0, is lost");
    assert_says_so(tried, MUSTER_UNAVAILABLE, "the leader of the job, host node0, is lost");
    assert_says_so(listed, MUSTER_UNAVAILABLE, "the leader of the job, host node0, is lost");
    assert_answer(do_insert(FAR, "k", "v", false), MUSTER_UNAVAILABLE);
    assert_answer(do_get(FAR, "k"), MUSTER_UNAVAILABLE);
    assert_value(do_get(FAR, "n"), "1"); /* a copy is there */
    pair_close();
}

/* ---- going away ---- */

PAIR_TEST(who_goes_away_leaves_nothing)
{
    struct asked *a[8];

    pair_open(&two, NULL);
    assert_answer(do_insert(pair_as(LEADER), "d/1", "x", false), MUSTER_OK);
    for (int round = 0; round < 3; round++) {
        if (round == 2)
            hosts_cut(cast_hosts, 1);
        pair_as(FAR);
        a[0] = do_get(FAR, "never");
        a[1] = do_get(FAR, "never");
        a[2] = do_try_get(FAR, "nor/this");
        a[3] = do_insert(FAR, "k", "v", true);
        a[4] = do_list(FAR, "d");
        a[5] = do_increment(FAR, "n", 1);
        a[6] = do_delete(FAR, "gone");
        if (round == 1)
            mu_coord_drop(coord, &a[0]->ask);
        for (int i = 0; i < 7 && round != 1; i++)
            mu_coord_drop(coord, &a[i]->ask);
        if (round == 1)
            hang_up(FAR, "closed by its peer");
        if (round < 2)
            counter_await(mu_lanes_open(pair_lanes[1]) == 0, "all calls have ended");
    }
    hosts_join(cast_hosts, 1);
    counter_await(mu_lanes_open(pair_lanes[1]) == 0, "all calls have ended");
    assert_value(do_get(pair_as(LEADER), "n"), "3"); /* what they had asked to be changed is */
    assert_value(do_get(LEADER, "k"), "v");
    assert_answer(do_insert(pair_as(LEADER), "never", "come", false), MUSTER_OK);
    assert_value(do_get(pair_as(FAR), "never"), "come");
    pair_close();
}

PAIR_TEST(a_coord_that_stops_answers_all)
{
    struct asked *waits, *rests, *inserted, *listed, *tried;

    pair_open(&two, NULL);
    rests = do_get(pair_as(FAR), "never");
    assert_answer(do_increment(FAR, "n", 1), MUSTER_OK);
    hosts_cut(cast_hosts, 1);
    waits = do_get(FAR, "nor/this");
    inserted = do_insert(FAR, "k", "v", true);
    listed = do_list(FAR, "d");
    tried = do_try_get(FAR, "k");
    mu_coord_stop(coord);
    assert_says_so(rests, MUSTER_CANCELLED, "KeyValueStore destructed");
    assert_says_so(waits, MUSTER_CANCELLED, "KeyValueStore destructed");
    assert_says_so(inserted, MUSTER_CANCELLED, "KeyValueStore destructed");
    assert_says_so(listed, MUSTER_CANCELLED, "KeyValueStore destructed");
    assert_says_so(tried, MUSTER_CANCELLED, "KeyValueStore destructed");
    assert_answer(do_get(FAR, "n"), MUSTER_INTERNAL);
    assert_int_equal(mu_lanes_open(pair_lanes[1]), 0);
    pair_close();
}
