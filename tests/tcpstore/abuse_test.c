/*
 * tests/tcpstore/abuse_test.c: clients that stop half-way, announce too much, read nothing, come in floods, ask without
 * an end, or are somebody else's.
 */
#include "wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void is_served(struct client *c)
{
    say(c, SET, "ss", "/served", "v");
    say(c, GET, "s", "/served");
    hear(c, "s", "v");
}

WIRE_TEST(a_client_that_stops_half_way_stops_nobody)
{
    struct client *half[3], *c;

    wire_open();
    c = client_of('B');
    for (const char *d = "AB"; *d; d++)
        for (int i = 0; i < 3; i++) {
            uint8_t bytes[64];
            size_t len = spell(*d, bytes, sizeof bytes, SET, "ss", "/half", "value");

            half[i] = client_of(*d);
            say_bytes(half[i], bytes, 1 + 7 * (size_t)i);
            is_served(c);
            if (i == 2) { /* it goes on */
                say_bytes(half[i], bytes + 15, len - 15);
                say(half[i], GET, "s", "/half");
                hear(half[i], "s", "value");
            } else {
                client_close(half[i]);
            }
        }
    wire_close();
}

struct announced {
    enum call call;
    const char *shape;
    uint64_t first, second;
    const char *word;
};

WIRE_TEST(too_much_is_refused_before_it_comes)
{
    static const struct announced cases[] = {
        {GET, "8", UINT64_MAX, 0, "a key is longer than 1 MiB"},
        {GET, "8", (1u << 20) + 2, 0, "a key is longer than 1 MiB"},
        {SET, "88", 0, (64u << 20) + 1, "a value is longer than 64 MiB"},
        {SET, "88", 0, UINT64_MAX - 8, "a value is longer than 64 MiB"},
        {WAIT, "8", 131073, 0, "more than 131072 keys"},
        {MULTI_SET, "8", UINT64_MAX, 0, "more than 131072 keys"},
        {CHECK, "88", 1, INT64_MAX, "a key is longer than 1 MiB"},
    };

    wire_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client *c = client_of('B');

        say(c, cases[i].call, cases[i].shape, (int64_t)cases[i].first, (int64_t)cases[i].second);
        hear_the_end(c);
        if (!strstr(wire_said, cases[i].word))
            fail_msg("'%s' does not say '%s'", wire_said, cases[i].word);
    }
    assert_int_equal(wire_stats().held, 0);
    wire_close();
}

WIRE_TEST(what_is_announced_costs_nothing_until_it_comes)
{
    static uint8_t bytes[100000];
    uint64_t until;

    wire_open();
    for (int i = 0; i < 100; i++)
        say(client_of('B'), SET, "88", INT64_C(0), INT64_C(64) << 20);
    until = wire_stats().bytes_in;
    assert_true(wire_stats().held < 100 * 100);
    say_bytes(client_of('A'), "\x00", 1);
    for (int i = 0; i < 10; i++) {
        struct client *c = client_of('B');

        say(c, SET, "88", INT64_C(0), INT64_C(64) << 20);
        say_bytes(c, bytes, sizeof bytes);
    }
    until += 1 + 10 * (5 + 17 + sizeof bytes);
    counter_await(wire_stats().bytes_in >= until, "the server has read what was sent");
    assert_true(wire_stats().held < 10 * 5 * sizeof bytes + 100 * 100);
    is_served(client_of('B'));
    wire_close();
}

static struct client *slow;
static uint8_t requests[64 << 10];

/* Its socket has room for so much, and not for ever more. */
static struct client *new_slow(void)
{
    struct client *c = client_of('B');
    int room = 1 << 20;

    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    return c;
}

/* Forty times a megabyte, that nobody takes. */
WIRE_TEST(who_reads_nothing_is_not_served_any_more)
{
    enum { SIZE = 1 << 20, GETS = 40, EACH = 1 + 8 + 4 };
    char *value = malloc(SIZE);
    uint8_t *back = malloc(8 + SIZE);
    struct client *c;
    uint64_t much = SIZE / 4;

    memset(value, 'v', SIZE);
    wire_open();
    c = client_of('B');
    {
        uint8_t head[64];

        say_bytes(c, head, spell('B', head, sizeof head, SET, "s8", "/big", (int64_t)SIZE));
        say_bytes(c, value, SIZE);
        is_served(c);
    }
    slow = new_slow();
    for (int i = 0; i < GETS; i++)
        spell('B', requests + i * EACH, EACH, GET, "s", "/big");
    say_bytes(slow, requests, GETS * EACH);
    counter_await(wire_stats().held > much, "the server holds answers back");
    for (int i = 0; i < 20; i++)
        is_served(c);
    assert_true(wire_stats().calls[GET] < 1 + 20 + 15);
    assert_true(wire_stats().held < 4 * SIZE);
    is_served(c);
    for (int i = 0; i < GETS; i++) {
        hear_bytes(slow, back, 8 + SIZE);
        assert_int_equal(mu_ts_u64(back), SIZE);
        assert_memory_equal(back + 8, value, SIZE);
    }
    is_served(slow);
    assert_int_equal(wire_stats().held, 0);
    wire_close();
    free(value);
    free(back);
}

/* The same of one request: its keys are read as the answer is taken. */
WIRE_TEST(a_long_answer_is_made_as_it_is_taken)
{
    enum { SIZE = 1 << 20, KEYS = 40 };
    char *value = malloc(SIZE);
    uint8_t *back = malloc(8 + SIZE), head[64];
    struct client *c;

    memset(value, 'v', SIZE);
    wire_open();
    c = client_of('B');
    say_bytes(c, head, spell('B', head, sizeof head, SET, "s8", "/big", (int64_t)SIZE));
    say_bytes(c, value, SIZE);
    is_served(c);
    slow = new_slow();
    say_bytes(slow, head, spell('B', head, sizeof head, MULTI_GET, "8", (int64_t)KEYS));
    for (int i = 0; i < KEYS; i++)
        say_bytes(slow, "\x04\x00\x00\x00\x00\x00\x00\x00/big", 12);
    is_served(c);
    assert_true(wire_stats().held < 4 * SIZE);
    for (int i = 0; i < KEYS; i++) {
        hear_bytes(slow, back, 8 + SIZE);
        assert_memory_equal(back + 8, value, SIZE);
    }
    wire_close();
    free(value);
    free(back);
}

/* A deep stack would end the test. */
WIRE_TEST(a_hundred_thousand_requests_at_once_leave_others_their_turn)
{
    enum { N = 100000, EACH = 1 + 8 + 2 + 8 };
    uint8_t *all = malloc((size_t)N * EACH), *back = malloc((size_t)N * 8);
    struct client *many, *c;
    ssize_t n;

    wire_open();
    many = client_of('B');
    c = client_of('B');
    is_served(c);
    for (int i = 0; i < N; i++)
        spell('B', all + (size_t)i * EACH, EACH, ADD, "s8", "/n", INT64_C(1));
    n = send(many->fd, all, 15000 * EACH, MSG_NOSIGNAL | MSG_DONTWAIT); /* more than a turn's */
    assert_true(n > 0);
    say(c, ADD, "s8", "/c", INT64_C(1));
    hear(c, "8", INT64_C(1));
    if (n > 12000 * EACH)
        assert_true(wire_stats().calls[ADD] < 12000);
    for (size_t at = (size_t)n, heard = 0; heard < (size_t)N * 8;) {
        size_t piece = (size_t)N * EACH - at < 1 << 18 ? (size_t)N * EACH - at : 1 << 18;

        say_bytes(many, all + at, piece);
        at += piece;
        piece = at == (size_t)N * EACH ? (size_t)N * 8 - heard : (at - piece) / EACH * 8 - heard;
        hear_bytes(many, back + heard, piece);
        heard += piece;
    }
    for (size_t i = 0; i < N; i++)
        assert_int_equal(mu_ts_u64(back + i * 8), i + 1);
    wire_close();
    free(all);
    free(back);
}

/* Those whose answer comes in the same turn as the next request: one write. */
WIRE_TEST(requests_of_all_kinds_in_one_pipeline)
{
    enum { N = 2000 };
    static uint8_t bytes[N * 128];
    struct client *c;
    size_t len = 0;

    wire_open();
    c = client_of('B');
    for (int i = 0; i < N; i++) {
        len += spell('B', bytes + len, 64, SET, "ss", "/k", i % 2 ? "odd" : "even");
        len += spell('B', bytes + len, 64, PUSH, "ss", "/q", "item");
        len += spell('B', bytes + len, 64, GET, "s", "/k");
        len += spell('B', bytes + len, 64, POP, "s", "/q");
    }
    say_bytes(c, bytes, len);
    for (int i = 0; i < N; i++)
        hear(c, "s8s", i % 2 ? "odd" : "even", INT64_C(1), "item");
    wire_close();
}

WIRE_TEST(a_flood_of_connections_leaves_nothing)
{
    enum { ROUNDS = 5, EACH = 200 };
    struct client *c[EACH];

    wire_open();
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < EACH; i++) {
            c[i] = client_of(i % 2 ? 'A' : 'B');
            if (i % 3 == 0)
                say(c[i], WAIT, "8s", INT64_C(1), "/never");
            else if (i % 3 == 1)
                say_bytes(c[i], "\x01\x08", 2);
        }
        for (int i = 0; i < EACH; i++)
            client_close(c[i]);
    }
    counter_await(wire_stats().connections == 0, "all connections are gone");
    assert_int_equal(wire_stats().waiting, 0);
    assert_int_equal(wire_stats().held, 0);
    is_served(client_of('B'));
    wire_close();
}

WIRE_TEST(more_connections_than_allowed_are_refused_in_words)
{
    const struct mu_tcpstore_options o = {.clients = 3};
    struct client *c[3];

    counter_open(2, NULL);
    wire_start(&o);
    for (int i = 0; i < 3; i++) {
        c[i] = client_of('B');
        is_served(c[i]);
    }
    hear_the_end(client_new());
    assert_non_null(strstr(wire_said, "3 connections are open, and more are not taken"));
    assert_int_equal(wire_stats().refused, 1);
    client_close(c[1]);
    while (wire_stats().connections == 3)
        is_served(c[0]);
    is_served(client_of('B'));
    wire_close();
}

/* Sentences are few, whatever comes. */
WIRE_TEST(a_thousand_bad_clients_are_few_sentences)
{
    wire_open();
    for (int i = 0; i < 1000; i++) {
        struct client *c = client_new();

        say_bytes(c, "\xff", 1);
        hear_the_end(c);
        client_close(c);
    }
    assert_true(wire_sentences >= 1 && wire_sentences < 200);
    wire_close();
}

WIRE_TEST(an_address_that_others_reach_is_refused_unless_it_is_meant)
{
    struct mu_tcpstore_options o = {.address = "*:0", .loop = &counter_loop};

    wire_open();
    o.coord = coord;
    struct mu_tcpstore *other = NULL;
    assert_int_equal(mu_tcpstore_start(&o, &other), MUSTER_FAILED_PRECONDITION);
    assert_non_null(strstr(muster_last_error(), "--tcpstore-insecure"));
    o.address = "unix:/tmp/x";
    assert_int_equal(mu_tcpstore_start(&o, &other), MUSTER_INVALID_ARGUMENT);
    o.address = mu_tcpstore_address(store);
    assert_int_equal(mu_tcpstore_start(&o, &other), MUSTER_ALREADY_EXISTS);
    wire_close();
    counter_open(2, NULL);
    o = (struct mu_tcpstore_options){.address = "*:0", .insecure = true};
    wire_start(&o);
    is_served(client_of('B'));
    wire_close();
}

/* In the child: 0, if it was refused. */
static int come_as_somebody_else(const struct sockaddr_in *to)
{
    uint8_t byte;
    int fd;

    if (setgid(65534) || setuid(65534))
        return 2;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (const struct sockaddr *)to, sizeof *to))
        return 3;
    if (send(fd, "\x07\x01\x00\x00\x00\x00\x00\x00\x00k", 10, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
        errno != ECONNRESET)
        return 4;
    return recv(fd, &byte, 1, 0) > 0;
}

WIRE_TEST(somebody_elses_client_is_refused)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int child[2];

    if (geteuid() != 0) {
        print_message("skipped: only root can be somebody else\n");
        skip();
    }
    wire_open();
    to.sin_port = htons((uint16_t)strtoul(strrchr(mu_tcpstore_address(store), ':') + 1, NULL, 10));
    child[0] = fork();
    assert_true(child[0] >= 0);
    if (child[0] == 0)
        _exit(come_as_somebody_else(&to));
    counter_await(waitpid(child[0], &child[1], WNOHANG) != 0, "the child has ended");
    assert_true(WIFEXITED(child[1]));
    if (WEXITSTATUS(child[1]) == 2) {
        wire_close();
        print_message("skipped: this root cannot be somebody else\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(child[1]), 0);
    assert_non_null(strstr(wire_said, "it is of user 65534, and the job of user 0"));
    is_served(client_of('B'));
    wire_close();
}

/* Without taking what there is for it: the server hears of it when it sends. */
static void leave(struct client *c)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    client_close(c);
    counter_await(wire_stats().connections == 1, "the connection is gone");
    assert_int_equal(wire_stats().held, 0);
}

/* The value of /big, or an item of the queue /big. */
static void put_big(struct client *c, enum call call, size_t size)
{
    char *value = calloc(1, size);
    uint8_t head[64];

    say_bytes(c, head, spell('B', head, sizeof head, call, "s8", "/big", (int64_t)size));
    say_bytes(c, value, size);
    free(value);
    is_served(c);
}

WIRE_TEST(who_goes_before_its_long_answer_is_made_is_gone)
{
    enum { KEYS = 40 };
    uint64_t much = 1 << 18;
    uint8_t head[64];
    struct client *c;

    wire_open();
    c = client_of('B');
    put_big(c, SET, 1 << 20);
    slow = new_slow();
    say_bytes(slow, head, spell('B', head, sizeof head, MULTI_GET, "8", (int64_t)KEYS));
    for (int i = 0; i < KEYS; i++)
        say_bytes(slow, "\x04\x00\x00\x00\x00\x00\x00\x00/big", 12);
    counter_await(wire_stats().held > much, "the server holds answers back");
    leave(slow);
    wire_close();
}

/* Before the server has read that it asks for them. */
WIRE_TEST(who_goes_before_it_has_the_list_of_keys_is_gone)
{
    static char key[3900];
    uint8_t both[16];
    struct client *c, *gone;
    size_t len;

    wire_open();
    c = client_of('B');
    memset(key, 'k', sizeof key - 1);
    for (int i = 0; i < 40; i++) { /* more than the server's buffer */
        key[0] = (char)('0' + i);
        say(c, SET, "ss", key, "v");
    }
    is_served(c);
    gone = client_of('B');
    is_served(gone);
    len = spell('B', both, sizeof both, PING, "4", 1u);
    len += spell('B', both + len, sizeof both - len, LIST, "");
    assert_int_equal(send(gone->fd, both, len, MSG_NOSIGNAL), len);
    leave(gone);
    is_served(c);
    wire_close();
}

/* What it popped is of nobody any more. */
WIRE_TEST(who_goes_before_it_has_its_item_leaves_nothing_of_it)
{
    uint64_t much = 1 << 23;
    struct client *c;

    wire_open();
    c = client_of('B');
    put_big(c, PUSH, 1 << 24);
    slow = new_slow();
    say(slow, POP, "s", "/big");
    counter_await(wire_stats().held > much, "the server holds the item back");
    leave(slow);
    say(c, LEN, "s", "/big");
    hear(c, "8", INT64_C(0));
    assert_answer(do_try_get(0, "tcpstore-queue/:big/1"), MUSTER_NOT_FOUND);
    wire_close();
}

/* For the same key, over and over: as many as one request has. */
static void wait_for_all(struct client *c)
{
    enum { EACH = 8 + 2 };
    size_t size = 9 + (size_t)MU_TS_KEYS_MAX * EACH;
    uint8_t *bytes = malloc(size);

    spell('B', bytes, 9, WAIT, "8", (int64_t)MU_TS_KEYS_MAX);
    for (size_t i = 0; i < MU_TS_KEYS_MAX; i++)
        memcpy(bytes + 9 + i * EACH, "\x02\x00\x00\x00\x00\x00\x00\x00/k", EACH);
    say_bytes(c, bytes, size);
    free(bytes);
}

/* The longest request may wait, a second one not: others are to wait, too. */
WIRE_TEST(who_waits_for_more_than_its_part_is_sent_away)
{
    struct client *much, *w, *c;

#ifdef __SANITIZE_ADDRESS__
    print_message("skipped: half a million calls that wait take the sanitizer minutes\n");
    skip();
#endif
    wire_open();
    c = client_of('B');
    w = client_of('B');
    much = client_of('B');
    say(w, WAIT, "8s", INT64_C(1), "/k");
    wait_for_all(much);
    wire_until_waiting(2);
    wait_for_all(much);
    hear_the_end(much);
    assert_non_null(strstr(wire_said, "too many calls of this connection wait"));
    assert_int_equal(wire_stats().waiting, 1);
    much = client_of('B');
    wait_for_all(much);
    wire_until_waiting(2);
    say(c, SET, "ss", "/k", "v");
    hear(w, "1", 0u);
    hear(much, "1", 0u);
    wire_close();
}

WIRE_TEST(who_ends_speaking_hears_the_rest)
{
    struct client *c;

    wire_open();
    c = client_of('B');
    say(c, ADD, "s8", "/n", INT64_C(7));
    shutdown(c->fd, SHUT_WR);
    hear(c, "8", INT64_C(7));
    hear_the_end(c);
    wire_close();
}

WIRE_TEST(a_server_that_stops_drops_all)
{
    struct client *c[3];

    wire_open();
    for (int i = 0; i < 3; i++)
        c[i] = client_of('B');
    say(c[0], WAIT, "8s", INT64_C(1), "/never");
    say(c[1], BARRIER, "s8", "/barrier", INT64_C(9));
    say_bytes(c[2], "\x01", 1);
    wire_until_waiting(2);
    wire_close();
}
