/*
 * tests/tcpstore/room_test.c: clients whose requests and answers together are more than may be held: they are slowed
 * one behind the other, and who holds what others wait for, and stands still, is sent away in words.
 */
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/account.h"

enum { MIB = 1 << 20, LONG = 8 * MIB /* more than a socket takes */, CLIENTS = 12 };

static struct mu_account account;
static uint8_t value[LONG], back[8 + LONG];

/* Half of it is kept for the one whose turn it is. */
static void open_room(uint32_t stall_ms, size_t most)
{
    const struct mu_coord_options d = {.account = &account};
    const struct mu_tcpstore_options o = {.account = &account, .stall_ms = stall_ms};

    account = (struct mu_account){.most = most, .kept = most / 2};
    for (size_t i = 0; i < sizeof value; i++)
        value[i] = (uint8_t)(i * 7);
    counter_open(2, &d);
    wire_start(&o);
}

static void close_room(void)
{
    wire_close();
    assert_int_equal(account.held, 0);
}

static void is_served(struct client *c)
{
    say(c, SET, "ss", "/served", "v");
    say(c, GET, "s", "/served");
    hear(c, "s", "v");
}

/* What a client sends as the server takes it. */
struct sender {
    struct client *c;
    uint8_t head[64];
    size_t head_len, at, until; /* of head and value */
    bool is_gone;
};

static struct sender senders[CLIENTS];

static void begin_set(struct sender *s, int i, size_t len, size_t less)
{
    char key[16];

    snprintf(key, sizeof key, "/key%d", i);
    *s = (struct sender){.c = client_of('B')};
    s->head_len = spell('B', s->head, sizeof s->head, SET, "s8", key, (int64_t)len);
    s->until = s->head_len + len - less;
}

static void send_more(struct sender *s)
{
    while (s->at < s->until && !s->is_gone) {
        bool in_head = s->at < s->head_len;
        const uint8_t *from = in_head ? s->head + s->at : value + (s->at - s->head_len);
        size_t len = in_head ? s->head_len - s->at : s->until - s->at;
        ssize_t n = send(s->c->fd, from, len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            return;
        s->is_gone = n < 0;
        s->at += n > 0 ? (size_t)n : 0;
    }
}

static bool all_have_sent(void)
{
    bool all = true;

    for (int i = 0; i < CLIENTS; i++) {
        send_more(&senders[i]);
        all &= senders[i].at == senders[i].until;
        assert_false(senders[i].is_gone);
    }
    assert_true(account.held <= account.most);
    return all;
}

WIRE_TEST(more_values_at_once_than_there_is_room_for_come_one_behind_the_other)
{

    open_room(100000, 5 * MIB);
    for (int i = 0; i < CLIENTS; i++)
        begin_set(&senders[i], i, MIB, 0);
    counter_await(all_have_sent(), "everything is sent");
    assert_int_equal(wire_sentences, 0);
    for (int i = 0; i < CLIENTS; i++) {
        char key[16];

        snprintf(key, sizeof key, "/key%d", i);
        say(senders[i].c, GET, "s", key);
        hear_bytes(senders[i].c, back, 8 + MIB);
        assert_memory_equal(back + 8, value, MIB);
    }
    close_room();
}

static uint64_t sets;

static bool one_comes_to_an_end(const struct sender *honest)
{
    for (int i = 0; i < CLIENTS; i++)
        send_more(&senders[i]);
    assert_false(honest->is_gone);
    assert_true(account.held <= account.most);
    return wire_stats().calls[SET] > sets;
}

static bool one_waits(void)
{
    for (int i = 0; i < CLIENTS; i++)
        send_more(&senders[i]);
    return account.held > 2 * MIB;
}

/* The last byte of each never comes. While they hold all that there is a newcomer is served, and one with a long value
 * waits until they have been sent away. */
WIRE_TEST(halves_of_requests_keep_nobody_out)
{
    struct sender *honest = &senders[CLIENTS - 1];
    struct client *c;

    open_room(300, 5 * MIB);
    for (int i = 0; i < CLIENTS; i++)
        begin_set(&senders[i], i, MIB, 1);
    counter_await(one_waits(), "halves of requests are all that may be held");
    c = client_of('B');
    is_served(c);
    sets = wire_stats().calls[SET];
    honest->until++; /* it sends its last byte */
    counter_await(one_comes_to_an_end(honest), "the connections that hold its room are sent away");
    assert_non_null(strstr(wire_said, "has moved for 300 ms, and others wait for the memory"));
    is_served(c);
    is_served(honest->c);
    say(c, GET, "s", "/key11");
    hear_bytes(c, back, 8 + MIB);
    assert_memory_equal(back + 8, value, MIB);
    close_room();
}

/* /key0 */
static void set_long(struct client *c)
{
    begin_set(&senders[0], 0, LONG, 0);
    while (senders[0].at < senders[0].until) {
        send_more(&senders[0]);
        is_served(c);
    }
    is_served(senders[0].c); /* it is set */
}

WIRE_TEST(a_value_that_many_read_slowly_is_there_once)
{
    struct client *c, *slow[CLIENTS];
    uint64_t asked = CLIENTS;
    int room = 1 << 20;

    open_room(100000, 64 * MIB);
    c = client_of('B');
    set_long(c);
    asked += wire_stats().calls[GET];
    for (int i = 0; i < CLIENTS; i++) {
        slow[i] = client_of('B');
        assert_int_equal(setsockopt(slow[i]->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
        say(slow[i], GET, "s", "/key0");
    }
    counter_await(wire_stats().calls[GET] == asked, "all have asked");
    assert_true(account.held >= LONG && account.held < 2 * LONG);
    for (int i = 0; i < CLIENTS; i++) {
        hear_bytes(slow[i], back, sizeof back);
        assert_int_equal(mu_ts_u64(back), LONG);
        assert_memory_equal(back + 8, value, LONG);
    }
    assert_int_equal(wire_sentences, 0);
    close_room();
}

/* Behind one that the socket does not take at once. */
WIRE_TEST(what_is_answered_behind_a_long_value_comes_behind_it)
{
    enum { GETS = 6, EACH = 1 + 8 + 5 };
    static uint8_t requests[GETS * EACH + 64];
    struct client *c, *w;
    size_t len = 0;

    open_room(100000, 64 * MIB);
    c = client_of('B');
    set_long(c);
    w = client_of('B');
    len = spell('B', requests, sizeof requests, WAIT, "8s", INT64_C(1), "/late");
    for (int i = 0; i < GETS; i++)
        len += spell('B', requests + len, EACH, GET, "s", "/key0");
    say_bytes(w, requests, len);
    say(c, SET, "ss", "/late", "v");
    for (int i = 0, waits = 1; i < GETS; i++) {
        hear_bytes(w, back, 8);
        if (mu_ts_u64(back) != LONG) { /* the wait's byte is among them, and the rest one on */
            assert_int_equal(waits--, 1);
            memmove(back, back + 1, 7);
            hear_bytes(w, back + 7, 1);
        }
        assert_int_equal(mu_ts_u64(back), LONG);
        hear_bytes(w, back + 8, LONG);
        assert_memory_equal(back + 8, value, LONG);
        if (i == GETS - 1 && waits)
            hear(w, "1", 0u);
    }
    close_room();
}
