/*
 * tests/tcpstore/calls_test.c: every request, in both dialects where both have it, and what servers are known to differ
 * in.
 */
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the conformance list, as far as it is the server's ---- */

static void set_get_and_check_mix(struct client *c)
{
    for (int i = 1; i <= 3; i++)
        say(c, ADD, "s8", "/key", (int64_t)i);
    hear(c, "888", INT64_C(1), INT64_C(3), INT64_C(6));
    for (int i = 0; i < 7; i++)
        say(c, ADD, "s8", "/key3", (int64_t)i);
    for (int i = 0, sum = 0; i < 7; i++)
        hear(c, "8", (int64_t)(sum += i));
    say(c, SET, "ss", "/key0", "value0");
    say(c, SET, "ss", "/key1", "value1");
    say(c, SET, "ss", "/key2", "value2");
    say(c, GET, "s", "/key");
    say(c, GET, "s", "/key3");
    say(c, GET, "s", "/key0");
    hear(c, "sss", "6", "21", "value0");
    say(c, CHECK, "8s", INT64_C(1), "/key3");
    say(c, CHECK, "8s", INT64_C(1), "/Randomkey3");
    say(c, NUM, "");
    hear(c, "118", 0u, 1u, INT64_C(5));
}

WIRE_TEST(set_get_and_check_mix_in_both_dialects)
{
    for (const char *d = "AB"; *d; d++) {
        wire_open();
        set_get_and_check_mix(client_of(*d));
        wire_close();
    }
}

WIRE_TEST(a_key_that_begins_with_a_dash_is_a_key)
{
    for (const char *d = "AB"; *d; d++) {
        struct client *c;

        wire_open();
        c = client_of(*d);
        say(c, ADD, "s8", "init/", INT64_C(1));
        say(c, SET, "ss", "/-key3", "7");
        say(c, GET, "s", "/-key3");
        say(c, NUM, "");
        say(c, DELETE, "s", "/-key3");
        say(c, NUM, "");
        hear(c, "8s888", INT64_C(1), "7", INT64_C(2), INT64_C(1), INT64_C(1));
        wire_close();
    }
}

WIRE_TEST(compare_set_has_its_five_answers)
{
    for (const char *d = "AB"; *d; d++) {
        struct client *c;

        wire_open();
        c = client_of(*d);
        say(c, COMPARE_SET, "sss", "/m", "wrong", "new");
        hear(c, "s", "wrong");
        say(c, CHECK, "8s", INT64_C(1), "/m");
        hear(c, "1", 1u);
        say(c, COMPARE_SET, "sss", "/m", "", "new");
        say(c, COMPARE_SET, "sss", "/m", "wrong", "newer");
        say(c, COMPARE_SET, "sss", "/m", "", "newer");
        say(c, COMPARE_SET, "sss", "/m", "new", "newest");
        say(c, GET, "s", "/m");
        hear(c, "sssss", "new", "new", "new", "newest", "newest");
        say(c, SET, "ss", "/empty", "");
        say(c, COMPARE_SET, "sss", "/empty", "", "full");
        hear(c, "s", "full");
        wire_close();
    }
}

WIRE_TEST(append_makes_a_key_and_adds_to_one)
{
    struct client *c;

    wire_open();
    c = client_of('B');
    say(c, SET, "ss", "/foo", "po");
    say(c, APPEND, "ss", "/foo", "tato");
    say(c, APPEND, "ss", "/bar", "po");
    say(c, APPEND, "ss", "/bar", "tato");
    say(c, GET, "s", "/foo");
    say(c, GET, "s", "/bar");
    hear(c, "ss", "potato", "potato");
    wire_close();
}

WIRE_TEST(several_keys_are_set_and_read_in_order)
{
    struct client *c;

    wire_open();
    c = client_of('B');
    say(c, MULTI_SET, "8ssss", INT64_C(2), "/foo", "bar", "/bar", "foo");
    say(c, MULTI_GET, "8sss", INT64_C(3), "/bar", "/absent", "/foo");
    hear(c, "sss", "foo", "", "bar");
    say(c, MULTI_SET, "8", INT64_C(0));
    say(c, MULTI_GET, "8", INT64_C(0));
    say(c, CHECK, "8", INT64_C(0));
    say(c, WAIT, "8", INT64_C(0));
    say(c, CHECK, "8ss", INT64_C(2), "/foo", "/bar");
    hear(c, "111", 0u, 0u, 0u);
    say(c, MULTI_SET, "8ssss", INT64_C(2), "/twice", "1", "/twice", "2");
    say(c, GET, "s", "/twice");
    hear(c, "s", "2");
    wire_close();
}

WIRE_TEST(a_queue_is_first_in_first_out)
{
    struct client *c;

    wire_open();
    c = client_of('B');
    say(c, CHECK, "8s", INT64_C(1), "/q");
    say(c, LEN, "s", "/q");
    say(c, POP, "s", "/q");
    hear(c, "188", 1u, INT64_C(0), INT64_C(0));
    say(c, PUSH, "ss", "/q", "a");
    say(c, PUSH, "ss", "/q", "");
    say(c, CHECK, "8s", INT64_C(1), "/q");
    say(c, LEN, "s", "/q");
    say(c, WAIT, "8s", INT64_C(1), "/q");
    say(c, WAIT, "8s", INT64_C(1), "/q");
    hear(c, "1811", 0u, INT64_C(2), 0u, 0u);
    say(c, NUM, "");
    say(c, LIST, "");
    say(c, GET, "s", "/q");
    hear(c, "88s", INT64_C(0), INT64_C(0), "");
    say(c, POP, "s", "/q");
    hear(c, "8s", INT64_C(2), "a");
    say(c, POP, "s", "/q");
    hear(c, "8s", INT64_C(1), "");
    say(c, CHECK, "8s", INT64_C(1), "/q");
    say(c, LEN, "s", "/q");
    say(c, POP, "s", "/q");
    hear(c, "188", 1u, INT64_C(0), INT64_C(0));
    for (int i = 0; i < 300; i++)
        say(c, PUSH, "ss", "/q", i % 2 ? "odd" : "even");
    for (int i = 0; i < 300; i++) {
        say(c, POP, "s", "/q");
        hear(c, "8s", (int64_t)(300 - i), i % 2 ? "odd" : "even");
    }
    wire_close();
}

WIRE_TEST(keys_are_listed_as_they_were_written)
{
    static const char *const keys[] = {"",    ".",   "..",     "/",    "//a//b/",    "%3A",
                                       "a:b", "key", "\x01\n", "\x7f", "caf\xc3\xa9"};
    enum { N = sizeof keys / sizeof keys[0] };
    struct client *c;
    int64_t count;

    wire_open();
    c = client_of('B');
    say(c, LIST, "");
    hear(c, "8", INT64_C(0));
    for (int i = 0; i < N; i++)
        say(c, SET, "ss", keys[i], keys[i]);
    for (int i = 0; i < N; i++) {
        say(c, GET, "s", keys[i]);
        hear(c, "s", keys[i]);
    }
    say(c, NUM, "");
    say(c, LIST, "");
    hear(c, "88", (int64_t)N, (int64_t)N);
    for (count = 0; count < N; count++) {
        uint8_t head[8], key[64];
        size_t len;
        int at = 0;

        hear_bytes(c, head, 8);
        len = mu_ts_u64(head);
        assert_true(len < sizeof key);
        hear_bytes(c, key, len);
        while (at < N && (strlen(keys[at]) != len || memcmp(keys[at], key, len) != 0))
            at++;
        assert_true(at < N);
        say(c, DELETE, "b", key, len);
    }
    for (int i = 0; i < N; i++)
        hear(c, "8", INT64_C(1));
    say(c, NUM, "");
    hear(c, "8", INT64_C(0));
    wire_close();
}

WIRE_TEST(a_deleted_key_leaves_those_that_look_as_if_they_were_below_it)
{
    struct client *c;

    wire_open();
    c = client_of('B');
    say(c, MULTI_SET, "8ssssss", INT64_C(3), "/a", "1", "/a/b", "2", "/a//", "3");
    say(c, DELETE, "s", "/a");
    say(c, DELETE, "s", "/a/");
    say(c, NUM, "");
    say(c, GET, "s", "/a/b");
    say(c, GET, "s", "/a//");
    hear(c, "888ss", INT64_C(1), INT64_C(0), INT64_C(2), "2", "3");
    wire_close();
}

/* Longer than the job's store has them: by their hash. */
enum { KEY = (1 << 20) + 1 }; /* as a client sends one of 1 MiB, behind a '/' */

WIRE_TEST(keys_longer_than_the_store_has_them)
{
    static char key[2][KEY + 1];
    struct client *c, *waits;

    wire_open();
    c = client_of('B');
    waits = client_of('B');
    for (int k = 0; k < 2; k++) {
        memset(key[k], 'k', KEY);
        key[k][0] = '/';
        key[k][KEY - 1] = (char)('a' + k);
    }
    say(waits, WAIT, "8s", INT64_C(1), key[0]);
    hear_nothing(waits);
    say(c, ADD, "s8", key[0], INT64_C(5));
    hear(c, "8", INT64_C(5));
    hear(waits, "1", 0u);
    say(c, ADD, "s8", key[0], INT64_C(-8));
    say(c, APPEND, "ss", key[1], "po");
    say(c, APPEND, "ss", key[1], "tato");
    say(c, GET, "s", key[0]);
    say(c, GET, "s", key[1]);
    hear(c, "8ss", INT64_C(-3), "-3", "potato");
    say(c, COMPARE_SET, "sss", key[1], "potato", "tomato");
    say(c, COMPARE_SET, "sss", key[1], "potato", "x");
    say(c, CHECK, "8ss", INT64_C(2), key[0], key[1]);
    say(c, LIST, "");
    hear(c, "ss18", "tomato", "tomato", 0u, INT64_C(2));
    for (int k = 0; k < 2; k++) {
        static uint8_t heard[KEY + 8];

        hear_bytes(c, heard, sizeof heard);
        assert_int_equal(mu_ts_u64(heard), KEY);
        assert_true(memcmp(heard + 8, key[0], KEY) == 0 || memcmp(heard + 8, key[1], KEY) == 0);
    }
    say(c, PUSH, "ss", key[0], "item");
    say(c, POP, "s", key[0]);
    say(c, BARRIER, "s8", key[0], INT64_C(-2));
    say(c, DELETE, "s", key[0]);
    say(c, NUM, "");
    hear(c, "8s188", INT64_C(1), "item", 0u, INT64_C(1), INT64_C(1));
    wire_close();
}

/* ---- numbers ---- */

WIRE_TEST(numbers_are_read_as_c_reads_them)
{
    static const struct {
        const char *text;
        int64_t sum;
    } good[] = {{"12abc", 13},
                {" \t\n7", 8},
                {"+5", 6},
                {"-1", 0},
                {"0012", 13},
                {"3 4", 4},
                {"9223372036854775806", INT64_MAX},
                {"9223372036854775807", INT64_MIN}};
    static const char *const bad[] = {"", "abc", "-", " ", "9223372036854775808"};

    for (const char *d = "AB"; *d; d++) {
        struct client *c;

        wire_open();
        c = client_of(*d);
        for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
            char text[32];

            say(c, SET, "ss", "/n", good[i].text);
            say(c, ADD, "s8", "/n", INT64_C(1));
            say(c, GET, "s", "/n");
            snprintf(text, sizeof text, "%lld", (long long)good[i].sum);
            hear(c, "8s", good[i].sum, text);
        }
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            c = client_of(*d);
            say(c, SET, "ss", "/n", bad[i]);
            say(c, ADD, "s8", "/n", INT64_C(1));
            hear_the_end(c);
            assert_non_null(strstr(wire_said, "ADD to a value that is no number"));
            c = client_of(*d);
            say(c, GET, "s", "/n");
            hear(c, "s", bad[i]);
        }
        wire_close();
    }
}

/* ---- what servers differ in ---- */

WIRE_TEST(what_is_absent_is_empty)
{
    for (const char *d = "AB"; *d; d++) {
        struct client *c;

        wire_open();
        c = client_of(*d);
        say(c, GET, "s", "/absent");
        hear(c, "s", "");
        say(c, DELETE, "s", "/absent");
        hear(c, "8", INT64_C(0));
        wire_close();
    }
}

WIRE_TEST(the_unknown_is_sent_away_in_words)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *word;
    } cases[] = {
        {"\x09", 1, "does not speak TCPStore's protocol"},
        {"GET / HTTP/1.1\r\n\r\n", 18, "does not speak TCPStore's protocol"},
        {"\x16\x03\x01", 3, "does not speak TCPStore's protocol"},
        {"\x00\xCE\xF7\x85\x3C\x13", 6, "something unknown"},
        {"\x00\xCE\xF7\x85\x3C\xff", 6, "something unknown"},
        {"\x00\xCE\xF7\x85\x3C\x00\xCE\xF7\x85\x3C", 10, "VALIDATE twice"},
        {"\x00\xCE\xF7\x85\x3D\x00\x00\x00\x00", 9, "a key is longer than 1 MiB"},
        {"\x07\x01\x00\x00\x00\x00\x00\x00\x00k", 10, "watchKey"},
    };

    wire_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client *c = client_new();

        say_bytes(c, cases[i].bytes, cases[i].len);
        hear_the_end(c);
        if (!strstr(wire_said, cases[i].word))
            fail_msg("'%s' does not say '%s'", wire_said, cases[i].word);
    }
    wire_close();
}

WIRE_TEST(validate_may_come_in_pieces_and_ping_is_not_needed)
{
    struct client *c;

    wire_open();
    c = client_new();
    for (int i = 0; i < 5; i++)
        say_bytes(c, &"\x00\xCE\xF7\x85\x3C"[i], 1);
    c->dialect = 'B';
    say(c, ADD, "s8", "init/", INT64_C(1));
    hear(c, "8", INT64_C(1));
    say(c, PING, "4", 0x12345678u);
    hear(c, "4", 0x12345678u);
    wire_close();
}

WIRE_TEST(large_keys_and_values_are_taken)
{
    size_t len = (8u << 20) + 1;
    char *value = malloc(len), *back = malloc(8 + len);
    static char key[8194];

    for (size_t i = 0; i < len; i++)
        value[i] = (char)(i * 31 >> 3);
    memset(key, 'k', 8193);
    for (const char *d = "AB"; *d; d++) {
        struct client *c;
        uint8_t head[9000];
        size_t n;

        wire_open();
        c = client_of(*d);
        n = spell(*d, head, sizeof head, SET, "s8", key, (int64_t)len);
        say_bytes(c, head, n);
        say_bytes(c, value, len);
        say(c, GET, "s", key);
        hear_bytes(c, back, 8 + len);
        assert_int_equal(mu_ts_u64((uint8_t *)back), len);
        assert_memory_equal(back + 8, value, len);
        wire_close();
    }
    free(value);
    free(back);
}

/* ---- tasks of the C library beside them ---- */

WIRE_TEST(tasks_of_the_library_see_the_keys)
{
    struct client *c;

    wire_open();
    c = client_of('B');
    say(c, SET, "ss", "/default_pg/0//cpu//0/1", "address");
    say(c, ADD, "s8", "/n", INT64_C(41));
    hear(c, "8", INT64_C(41));
    assert_value(do_get(0, "tcpstore/:default_pg:0::cpu::0:1"), "address");
    assert_value(do_increment(0, "tcpstore/:n", 1), "42");
    say(c, WAIT, "8s", INT64_C(1), "/from-c");
    hear_nothing(c);
    assert_answer(do_insert(0, "tcpstore/:from-c", "hello", false), MUSTER_OK);
    hear(c, "1", 0u);
    say(c, GET, "s", "/from-c");
    say(c, ADD, "s8", "/n", INT64_C(0));
    hear(c, "s8", "hello", INT64_C(42));
    wire_close();
}

/* There is no room for its item: those who push and pop then do not meet the number that it had. */
WIRE_TEST(a_push_that_is_refused_leaves_no_hole)
{
    const size_t size = 40u << 20;
    char *value = calloc(1, size);
    struct client *c, *d;
    uint8_t head[64];

    assert_non_null(value);
    wire_open();
    c = client_of('B');
    for (int i = 0; i < 2; i++) { /* in the heap there are 64 MiB */
        say_bytes(c, head, spell('B', head, sizeof head, i ? PUSH : SET, "s8", "/big", (int64_t)size));
        say_bytes(c, value, size);
    }
    free(value);
    hear_the_end(c);
    assert_non_null(strstr(wire_said, "QUEUE_PUSH"));
    d = client_of('B');
    say(d, PUSH, "ss", "/big", "x");
    say(d, LEN, "s", "/big");
    hear(d, "8", INT64_C(1));
    say(d, POP, "s", "/big");
    hear(d, "8s", INT64_C(1), "x");
    wire_close();
}
