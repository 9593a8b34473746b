/*
 * tests/tcpstore/waits_test.c: WAIT, CANCEL_WAIT and BARRIER: what wakes whom, and what does not.
 */
#include "wire.h"

#include <stdio.h>
#include <string.h>

WIRE_TEST(everything_that_makes_a_key_wakes)
{
    struct client *c, *w;

    wire_open();
    c = client_of('B');
    w = client_of('B');
    say(w, WAIT, "8s", INT64_C(1), "/set");
    say(c, SET, "ss", "/set", "v");
    hear(w, "1", 0u);
    say(w, WAIT, "8s", INT64_C(1), "/add");
    say(c, ADD, "s8", "/add", INT64_C(1));
    hear(w, "1", 0u);
    say(w, WAIT, "8s", INT64_C(1), "/append");
    say(c, APPEND, "ss", "/append", "v");
    hear(w, "1", 0u);
    say(w, WAIT, "8ss", INT64_C(2), "/multi1", "/multi2");
    say(c, MULTI_SET, "8ssss", INT64_C(2), "/multi2", "v", "/multi1", "v");
    hear(w, "1", 0u);
    say(w, WAIT, "8s", INT64_C(1), "/compare");
    say(c, COMPARE_SET, "sss", "/compare", "", "v");
    hear(w, "1", 0u);
    say(w, WAIT, "8s", INT64_C(1), "/push");
    say(c, PUSH, "ss", "/push", "v");
    hear(w, "1", 0u);
    wire_close();
}

/* What is answered with the expected value makes no key. */
WIRE_TEST(a_comparison_that_fails_wakes_nobody)
{
    struct client *c, *w;

    wire_open();
    c = client_of('B');
    w = client_of('B');
    say(w, WAIT, "8s", INT64_C(1), "/k");
    say(c, COMPARE_SET, "sss", "/k", "expected", "v");
    hear(c, "s", "expected");
    hear_nothing(w);
    wire_close();
}

WIRE_TEST(a_key_that_came_and_went_has_come)
{
    struct client *c, *w;

    wire_open();
    c = client_of('B');
    w = client_of('B');
    say(w, WAIT, "8ss", INT64_C(2), "/d1", "/d2");
    say(c, SET, "ss", "/d1", "v");
    say(c, DELETE, "s", "/d1");
    hear(c, "8", INT64_C(1));
    hear_nothing(w);
    say(c, SET, "ss", "/d2", "v");
    hear(w, "1", 0u);
    wire_close();
}

WIRE_TEST(a_key_may_be_named_twice)
{
    struct client *c, *w;

    wire_open();
    c = client_of('B');
    w = client_of('B');
    say(w, WAIT, "8sss", INT64_C(3), "/k", "/there", "/k");
    say(c, SET, "ss", "/there", "v");
    hear_nothing(w);
    say(c, SET, "ss", "/k", "v");
    hear(w, "1", 0u);
    hear_nothing(w);
    wire_close();
}

WIRE_TEST(who_waits_is_served_on)
{
    struct client *c;

    wire_open();
    c = client_of('B');
    say(c, WAIT, "8s", INT64_C(1), "/k");
    say(c, NUM, "");
    say(c, SET, "ss", "/other", "v");
    say(c, GET, "s", "/other");
    hear(c, "8s", INT64_C(0), "v");
    say(c, SET, "ss", "/k", "by itself");
    hear(c, "1", 0u);
    wire_close();
}

WIRE_TEST(a_wait_that_is_cancelled_is_answered_once)
{
    struct client *c, *other;

    wire_open();
    c = client_of('B');
    other = client_of('B');
    say(c, WAIT, "8s", INT64_C(1), "/k");
    say(c, CANCEL, "");
    hear(c, "1", 1u);
    assert_int_equal(wire_stats().waiting, 0);
    say(other, SET, "ss", "/k", "v");
    hear_nothing(c);
    say(c, CANCEL, ""); /* nothing to be cancelled: answered all the same */
    hear(c, "1", 1u);
    say(c, WAIT, "8s", INT64_C(1), "/k");
    hear(c, "1", 0u);
    say(c, CANCEL, ""); /* too late: both are answered */
    hear(c, "1", 1u);
    say(c, WAIT, "8ss", INT64_C(2), "/k", "/l");
    say(c, CANCEL, "");
    say(c, SET, "ss", "/l", "the same client sets it then");
    say(c, GET, "s", "/l");
    hear(c, "1s", 1u, "the same client sets it then");
    wire_close();
}

/* PyTorch 1.13 gives up without a word; what is answered late would be taken for the next answer. */
WIRE_TEST(in_dialect_a_the_next_request_gives_the_wait_up)
{
    struct client *a, *b;

    wire_open();
    a = client_of('A');
    b = client_of('A');
    say(a, ADD, "s8", "/n", INT64_C(1));
    hear(a, "8", INT64_C(1));
    say(a, WAIT, "8s", INT64_C(1), "/late");
    wire_until_waiting(1);
    say(a, ADD, "s8", "/n", INT64_C(1));
    hear(a, "8", INT64_C(2));
    say(b, SET, "ss", "/late", "v");
    hear_nothing(a);
    say(a, ADD, "s8", "/n", INT64_C(1));
    hear(a, "8", INT64_C(3));
    wire_close();
}

/* Not only a whole one: its first byte does. */
WIRE_TEST(in_dialect_a_half_a_request_gives_the_wait_up)
{
    struct client *a, *b;

    wire_open();
    a = client_of('A');
    b = client_of('A');
    say(a, WAIT, "8s", INT64_C(1), "/late");
    wire_until_waiting(1);
    say_bytes(a, "\x02", 1);
    wire_until_waiting(0);
    say(b, SET, "ss", "/late", "v");
    hear_nothing(a);
    say_bytes(a, "\x05\x00\x00\x00\x00\x00\x00\x00/late", 13);
    hear(a, "s", "v");
    wire_close();
}

WIRE_TEST(in_dialect_a_the_second_connection_says_nothing)
{
    struct client *idle, *a;

    wire_open();
    a = client_of('A');
    idle = client_of('A');
    say(a, SET, "ss", "/k", "v");
    say(a, GET, "s", "/k");
    hear(a, "s", "v");
    hear_nothing(idle);
    wire_close();
}

WIRE_TEST(who_goes_takes_its_waits_along_and_leaves_its_keys)
{
    struct client *c, *w;

    wire_open();
    c = client_of('B');
    w = client_of('B');
    say(w, SET, "ss", "/mine", "v");
    say(w, WAIT, "8s", INT64_C(1), "/k");
    wire_until_waiting(1);
    client_close(w);
    wire_until_waiting(0);
    say(c, SET, "ss", "/k", "v");
    say(c, GET, "s", "/mine");
    hear(c, "s", "v");
    wire_close();
}

WIRE_TEST(a_push_wakes_one)
{
    struct client *c, *w[3];

    wire_open();
    c = client_of('B');
    for (int i = 0; i < 3; i++) {
        w[i] = client_of('B');
        say(w[i], WAIT, "8s", INT64_C(1), "/q");
        wire_until_waiting((uint32_t)i + 1);
        for (int k = 0; k < 3; k++)
            hear_nothing(w[i]); /* the leader has been asked for the queue's tail, and for the item */
    }
    for (int i = 0; i < 3; i++) {
        char item[24];

        snprintf(item, sizeof item, "%d", i);
        say(c, PUSH, "ss", "/q", item);
        hear(w[i], "1", 0u);
        for (int k = i + 1; k < 3; k++)
            hear_nothing(w[k]);
        say(w[i], POP, "s", "/q");
        hear(w[i], "8s", INT64_C(1), item);
    }
    wire_close();
}

static void many_turns(void)
{
    for (int i = 0; i < 20; i++)
        hear_nothing(client_of('B'));
}

/* Two clients, each at the server of a host. */
static void open_two(struct client **ret_here, struct client **ret_other)
{
    wire_open();
    wire_start_other();
    *ret_here = client_of('B');
    *ret_other = client_of_other();
}

/* What another host's client pushes and pops at once may not be seen here; what it pushes then is. */
WIRE_TEST(who_waits_is_told_of_what_is_pushed_after_others_have_popped)
{
    struct client *w, *o;

    open_two(&w, &o);
    for (int round = 0; round < 3; round++) {
        uint8_t both[64], byte;
        size_t len = spell('B', both, sizeof both, PUSH, "ss", "/q", "gone");

        len += spell('B', both + len, sizeof both - len, POP, "s", "/q");
        say(w, WAIT, "8s", INT64_C(1), "/q");
        wire_until_waiting(1);
        many_turns();
        say_bytes(o, both, len);
        hear(o, "8s", INT64_C(1), "gone");
        many_turns();
        if (hears_now(w, &byte, 1)) { /* it has been seen */
            say(w, POP, "s", "/q");
            hear(w, "8", INT64_C(0));
            say(w, WAIT, "8s", INT64_C(1), "/q");
        }
        say(o, PUSH, "ss", "/q", "stays");
        hear(w, "1", 0u);
        say(w, POP, "s", "/q");
        hear(w, "8s", INT64_C(1), "stays");
    }
    wire_close();
}

static struct client *woken; /* one of those who wait */

static bool one_hears(struct client **w)
{
    uint8_t byte;

    for (woken = NULL; *w && !woken; w++)
        woken = hears_now(*w, &byte, 1) ? *w : NULL;
    return woken != NULL;
}

/* Another one, and no more than one. */
WIRE_TEST(what_one_was_told_of_and_did_not_pop_another_is_told_of)
{
    struct client *c, *w[4] = {NULL};

    wire_open();
    c = client_of('B');
    for (int i = 0; i < 3; i++) {
        w[i] = client_of('B');
        say(w[i], WAIT, "8s", INT64_C(1), "/q");
        wire_until_waiting((uint32_t)i + 1);
        many_turns();
    }
    say(c, PUSH, "ss", "/q", "item");
    hear(w[0], "1", 0u);
    client_close(w[0]);
    counter_await(one_hears(w + 1), "another one is told");
    say(woken, POP, "s", "/q");
    hear(woken, "8s", INT64_C(1), "item");
    hear_nothing(woken == w[1] ? w[2] : w[1]);
    wire_close();
}

/* Two clients play with two queues, as clone()d stores do. */
WIRE_TEST(queues_play_ping_pong)
{
    struct client *a, *b;
    char item[24];

    wire_open();
    a = client_of('B');
    b = client_of('B');
    for (int i = 0; i < 50; i++) {
        snprintf(item, sizeof item, "ball %d", i);
        say(b, WAIT, "8s", INT64_C(1), "/ping");
        say(a, PUSH, "ss", "/ping", item);
        hear(b, "1", 0u);
        say(b, POP, "s", "/ping");
        hear(b, "8s", INT64_C(1), item);
        say(a, WAIT, "8s", INT64_C(1), "/pong");
        say(b, PUSH, "ss", "/pong", item);
        hear(a, "1", 0u);
        say(a, POP, "s", "/pong");
        hear(a, "8s", INT64_C(1), item);
    }
    wire_close();
}

WIRE_TEST(a_barrier_lets_all_pass_when_the_last_has_come)
{
    struct client *c[4];

    wire_open();
    for (int i = 0; i < 4; i++)
        c[i] = client_of('B');
    for (int i = 0; i < 3; i++) {
        say(c[i], BARRIER, "s8", "/bar", INT64_C(4));
        wire_until_waiting((uint32_t)i + 1);
    }
    hear_nothing(c[0]);
    say(c[3], BARRIER, "s8", "/bar", INT64_C(4));
    for (int i = 0; i < 4; i++)
        hear(c[i], "1", 0u);
    say(c[1], BARRIER, "s8", "/bar", INT64_C(4)); /* it is not reset */
    say(c[1], GET, "s", "/bar");
    hear(c[1], "1s", 0u, "5");
    say(c[1], NUM, "");
    hear(c[1], "8", INT64_C(1));
    wire_close();
}

WIRE_TEST(a_barrier_whose_key_was_deleted_begins_anew)
{
    struct client *a, *b;

    wire_open();
    a = client_of('B');
    b = client_of('B');
    for (int i = 0; i < 3; i++) {
        say(a, BARRIER, "s8", "/bar", INT64_C(2));
        wire_until_waiting(1);
        hear_nothing(a);
        say(b, BARRIER, "s8", "/bar", INT64_C(2));
        hear(a, "1", 0u);
        say(b, DELETE, "s", "/bar");
        hear(b, "18", 0u, INT64_C(1));
    }
    say(a, BARRIER, "s8", "/bar", INT64_C(2));
    wire_until_waiting(1);
    say(a, CANCEL, "");
    hear(a, "1", 1u);
    say(b, BARRIER, "s8", "/bar", INT64_C(2)); /* who has given up had come, all the same */
    hear(b, "1", 0u);
    hear_nothing(a);
    wire_close();
}

/* Also who asks for more of them than have passed it before waits for these. */
WIRE_TEST(a_barrier_whose_key_is_set_back_begins_anew)
{
    struct client *c[3];

    wire_open();
    for (int i = 0; i < 3; i++)
        c[i] = client_of('B');
    for (int round = 0; round < 4; round++) {
        say(c[0], BARRIER, "s8", "/bar", INT64_C(2));
        wire_until_waiting(1);
        hear_nothing(c[0]);
        say(c[1], BARRIER, "s8", "/bar", INT64_C(2));
        hear(c[0], "1", 0u);
        hear(c[1], "1", 0u);
        say(c[0], BARRIER, "s8", "/bar", INT64_C(4));
        wire_until_waiting(1);
        hear_nothing(c[0]);
        say(c[2], BARRIER, "s8", "/bar", INT64_C(4));
        hear(c[2], "1", 0u);
        hear(c[0], "1", 0u);
        say(c[2], SET, "ss", "/bar", "0");
        say(c[2], GET, "s", "/bar");
        hear(c[2], "s", "0");
    }
    wire_close();
}

/* Who lets the others pass deletes the key at once, on another host. */
WIRE_TEST(nobody_misses_that_a_barrier_is_passed)
{
    struct client *w, *o;

    open_two(&w, &o);
    for (int round = 0; round < 20; round++) {
        uint8_t both[64];
        size_t len = spell('B', both, sizeof both, BARRIER, "s8", "/bar", INT64_C(2));

        len += spell('B', both + len, sizeof both - len, DELETE, "s", "/bar");
        say(w, BARRIER, "s8", "/bar", INT64_C(2));
        wire_until_waiting(1);
        say_bytes(o, both, len);
        hear(w, "1", 0u);
        hear(o, "18", 0u, INT64_C(1));
    }
    wire_close();
}

/* However often it was passed before, on another host. */
WIRE_TEST(nobody_passes_a_barrier_by_an_earlier_sign)
{
    struct client *w, *o;

    open_two(&w, &o);
    for (int round = 0; round < 20; round++) {
        uint8_t three[96];
        size_t len = spell('B', three, sizeof three, BARRIER, "s8", "/bar", INT64_C(1));

        len += spell('B', three + len, sizeof three - len, SET, "ss", "/bar", "0");
        len += spell('B', three + len, sizeof three - len, GET, "s", "/bar");
        say_bytes(o, three, len);
        hear(o, "1s", 0u, "0");
        say(w, BARRIER, "s8", "/bar", INT64_C(2));
        wire_until_waiting(1);
        hear_nothing(w);
        say(o, BARRIER, "s8", "/bar", INT64_C(2));
        hear(w, "1", 0u);
        hear(o, "1", 0u);
        say(o, SET, "ss", "/bar", "0");
        say(o, GET, "s", "/bar");
        hear(o, "s", "0");
    }
    wire_close();
}

/* Who comes again and again passes at once, and takes the old signs away. */
WIRE_TEST(nobody_misses_a_pass_that_is_followed_by_others)
{
    enum { AGAIN = 5 };
    struct client *w, *o;

    open_two(&w, &o);
    for (int round = 0; round < 5; round++) {
        uint8_t all[AGAIN * 32];
        size_t len = 0;

        say(w, BARRIER, "s8", "/bar", INT64_C(2));
        wire_until_waiting(1);
        for (int i = 0; i < AGAIN; i++)
            len += spell('B', all + len, sizeof all - len, BARRIER, "s8", "/bar", INT64_C(2));
        say_bytes(o, all, len);
        hear(w, "1", 0u);
        for (int i = 0; i < AGAIN; i++)
            hear(o, "1", 0u);
        say(w, DELETE, "s", "/bar");
        hear(w, "8", INT64_C(1));
    }
    wire_close();
}

/* All of them, by one SET. */
WIRE_TEST(hundreds_are_woken_by_one)
{
    enum { N = 400 };
    static struct client *w[N];

    wire_open();
    for (int i = 0; i < N; i++) {
        w[i] = client_of(i % 2 ? 'A' : 'B');
        say(w[i], WAIT, "8s", INT64_C(1), "/go");
    }
    wire_until_waiting(N);
    say(client_of('B'), SET, "ss", "/go", "v");
    for (int i = 0; i < N; i++)
        hear(w[i], "1", 0u);
    assert_int_equal(wire_stats().waiting, 0);
    wire_close();
}

WIRE_TEST(a_wait_for_thousands_of_keys)
{
    enum { N = 2000 };
    static uint8_t bytes[N * 32];
    struct client *c, *w;
    size_t len;

    wire_open();
    c = client_of('B');
    w = client_of('B');
    len = spell('B', bytes, sizeof bytes, WAIT, "8", (int64_t)N);
    for (int i = 0; i < N; i++) {
        char key[24];

        mu_ts_put_u64(bytes + len, (uint64_t)snprintf(key, sizeof key, "/%07d", i));
        memcpy(bytes + len + 8, key, 8);
        len += 16;
    }
    say_bytes(w, bytes, len);
    for (int i = 0; i < N; i++) {
        char key[24];

        snprintf(key, sizeof key, "/%07d", i);
        if (i == N - 1)
            hear_nothing(w);
        say(c, SET, "ss", key, "v");
    }
    hear(w, "1", 0u);
    bytes[0] = CHECK;
    say_bytes(w, bytes, len);
    hear(w, "1", 0u);
    wire_close();
}
