/*
 * tests/bridge/control_test.c: what agents say to each other arrives once and in order, over a connection that breaks
 * anywhere: before a frame, with frames on their way, between a message and its acknowledgement. An agent that takes
 * another's place is heard of, and begins anew.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/core/modules.h"

struct end {
    struct mu_core core;
    struct mu_peer peers[3];
    char heard[4096]; /* what came, a word a message */
    bool is_full;     /* and it takes no more */
};

static bool hear(void *arg, uint32_t host, uint32_t kind, const void *bytes, size_t len)
{
    struct end *end = arg;
    size_t at = strlen(end->heard);

    if (end->is_full)
        return false;
    snprintf(end->heard + at, sizeof end->heard - at, "%u:%u%.*s ", host, kind, (int)len, (const char *)bytes);
    return true;
}

static void open_end(struct end *end, int leader, uint32_t num_hosts)
{
    memset(end, 0, sizeof *end);
    end->core.leader = leader;
    end->core.num_hosts = num_hosts;
    end->core.peers = end->peers;
    end->core.control = hear;
    end->core.arg = end;
    assert_true(mu_module_control.init(&end->core, &end->core.state[MU_M_CONTROL]));
}

static void close_end(struct end *end)
{
    mu_module_control.done(&end->core);
    for (int i = 0; i < 3; i++)
        mu_pack_done(&end->peers[i].tail);
}

static void connect_end(struct end *end, uint32_t host)
{
    end->peers[host].state = MU_PEER_UP;
    mu_module_control.up(&end->core, host);
}

/* What is on its way is gone. */
static void cut_end(struct end *end, uint32_t host)
{
    end->peers[host].state = MU_PEER_DOWN;
    mu_pack_done(&end->peers[host].tail);
}

/* At most `most` frames of `from` (whose peer is `host`) are taken by `to`, for which they come from `as`. How many. */
static int carry(struct end *from, uint32_t host, struct end *to, uint32_t as, int most)
{
    struct mu_pack *p = &from->peers[host].tail;
    struct mu_unpack all = mu_unpack_of(p->bytes, p->len);
    int count = 0;

    assert_false(p->failed);
    while (all.left > 0 && count < most) {
        const void *at = mu_unpack_raw(&all, sizeof(struct mu_spoken));
        struct mu_spoken said;
        struct mu_unpack u;

        assert_non_null(at);
        memcpy(&said, at, sizeof said);
        assert_int_equal(said.type, MU_FRAME_CONTROL);
        assert_null(said.body.blob); /* none here is long */
        at = mu_unpack_raw(&all, said.head_len);
        assert_non_null(at);
        u = mu_unpack_of(at, said.head_len);
        assert_int_equal(mu_take_control(&to->core, as, &u), !to->is_full);
        if (to->is_full)
            break;
        count++;
    }
    if (all.left > 0)
        memmove(p->bytes, all.at, all.left);
    p->len = all.left;
    return count;
}

TEST(messages_arrive_in_order)
{
    struct end leader, one, two;

    open_end(&leader, 1, 3);
    open_end(&one, 0, 3);
    open_end(&two, 0, 3);
    mu_control_send(&leader.core, 1, 7, "early", 5); /* kept until it comes */
    connect_end(&leader, 1);
    connect_end(&one, 0);
    connect_end(&leader, 2);
    connect_end(&two, 0);
    mu_control_send(&leader.core, UINT32_MAX, 8, NULL, 0);
    mu_control_send(&two.core, 0, 9, "up", 2);
    while (carry(&leader, 1, &one, 0, 9) + carry(&leader, 2, &two, 0, 9) + carry(&one, 0, &leader, 1, 9) +
           carry(&two, 0, &leader, 2, 9))
        ;
    assert_string_equal(one.heard, "0:7early 0:8 ");
    assert_string_equal(two.heard, "0:8 ");
    assert_string_equal(leader.heard, "2:9up ");
    cut_end(&leader, 1); /* all was acknowledged: nothing comes again */
    cut_end(&one, 0);
    connect_end(&leader, 1);
    connect_end(&one, 0);
    assert_int_equal(carry(&leader, 1, &one, 0, 9), 1); /* who they are */
    assert_int_equal(carry(&one, 0, &leader, 1, 9), 1);
    assert_int_equal(leader.peers[1].tail.len + one.peers[0].tail.len, 0);
    assert_string_equal(one.heard, "0:7early 0:8 ");
    close_end(&leader);
    close_end(&one);
    close_end(&two);
}

/* A seeded walk over sending, carrying some frames, and breaking the connection. */
TEST(a_broken_connection_loses_and_doubles_nothing)
{
    for (unsigned seed = 1; seed <= 300; seed++) {
        struct end leader, follower;
        char sent[2][4096] = {"", ""};
        unsigned random = seed * 2654435761u;

        open_end(&leader, 1, 2);
        open_end(&follower, 0, 2);
        for (unsigned step = 0; step < 120; step++) {
            unsigned which;

            random = random * 1664525u + 1013904223u;
            which = random >> 24;
            if (which < 100 && strlen(sent[0]) < 3000 && strlen(sent[1]) < 3000) {
                int up = which & 1;
                char text[16];

                snprintf(text, sizeof text, "m%u", step);
                mu_control_send(up ? &follower.core : &leader.core, up ? 0 : 1, 3, text, strlen(text));
                snprintf(sent[up] + strlen(sent[up]), 40, "%u:3%s ", up, text);
            } else if (which < 190) {
                carry(&leader, 1, &follower, 0, (int)(which & 3));
                carry(&follower, 0, &leader, 1, (int)(which >> 2 & 3));
            } else if (which < 220) {
                cut_end(&leader, 1);
                cut_end(&follower, 0);
            } else if (leader.peers[1].state != MU_PEER_UP) {
                connect_end(&leader, 1);
                connect_end(&follower, 0);
            }
        }
        cut_end(&leader, 1);
        cut_end(&follower, 0);
        connect_end(&leader, 1);
        connect_end(&follower, 0);
        while (carry(&leader, 1, &follower, 0, 99) + carry(&follower, 0, &leader, 1, 99))
            ;
        assert_string_equal(follower.heard, sent[0]);
        assert_string_equal(leader.heard, sent[1]);
        close_end(&leader);
        close_end(&follower);
    }
}

/* Everything that is on its way, both ways. */
static void carry_all(struct end *leader, struct end *follower)
{
    while (carry(leader, 1, follower, 0, 99) + carry(follower, 0, leader, 1, 99))
        ;
}

TEST(another_agent_begins_anew)
{
    for (int leads = 0; leads < 2; leads++) {
        struct end leader, follower, *lives = leads ? &follower : &leader, *dies = leads ? &leader : &follower;
        uint32_t to = leads ? 0 : 1, from = leads ? 1 : 0; /* hosts: as the living calls the dead, and the reverse */
        char wanted[64];

        open_end(&leader, 1, 2);
        open_end(&follower, 0, 2);
        connect_end(&leader, 1);
        connect_end(&follower, 0);
        for (int i = 0; i < 3; i++) {
            mu_control_send(&lives->core, to, 1, "a", 1);
            mu_control_send(&dies->core, from, 2, "b", 1);
            carry_all(&leader, &follower);
        }
        mu_control_send(&lives->core, to, 3, "on its way", 10);
        cut_end(lives, to);
        cut_end(dies, from);
        close_end(dies);
        open_end(dies, leads, 2);
        mu_control_send(&dies->core, from, 4, "new", 3);
        mu_control_send(&lives->core, to, 5, "later", 5);
        connect_end(&leader, 1); /* a connection on which only one side hears of the other */
        connect_end(&follower, 0);
        carry(lives, to, dies, from, 1);
        cut_end(lives, to);
        cut_end(dies, from);
        connect_end(&leader, 1);
        connect_end(&follower, 0);
        carry_all(&leader, &follower);
        mu_control_send(&lives->core, to, 6, "last", 4);
        carry_all(&leader, &follower);
        snprintf(wanted, sizeof wanted, "%u:3on its way %u:5later %u:6last ", from, from, from);
        assert_string_equal(dies->heard, wanted);
        snprintf(wanted, sizeof wanted, "%u:2b %u:2b %u:2b %u:0 %u:4new ", to, to, to, to, to);
        assert_string_equal(lives->heard, wanted);
        close_end(&leader);
        close_end(&follower);
    }
}

/* Who has no room for what is said breaks the connection, and hears it on the next: also that the other is another. */
TEST(what_there_is_no_room_for_comes_again)
{
    struct end leader, one;

    open_end(&leader, 1, 2);
    open_end(&one, 0, 2);
    for (int another = 0; another < 2; another++) {
        for (int full = 1; full >= 0; full--) {
            connect_end(&leader, 1);
            connect_end(&one, 0);
            carry(&leader, 1, &one, 0, 9);
            if (!another && full)
                carry(&one, 0, &leader, 1, 9); /* they know each other by now */
            leader.is_full = full;
            if (full)
                mu_control_send(&one.core, 0, 5, another ? "b" : "a", 1);
            carry(&one, 0, &leader, 1, 9);
            assert_string_equal(leader.heard, !another ? full ? "" : "1:5a " : full ? "1:5a " : "1:5a 1:0 1:5b ");
            leader.is_full = false;
            if (full || !another) {
                carry(&leader, 1, &one, 0, 9);
                cut_end(&leader, 1);
                cut_end(&one, 0);
            }
        }
        if (!another) {
            close_end(&one);
            open_end(&one, 0, 2);
        }
    }
    close_end(&leader);
    close_end(&one);
}

TEST(frames_that_cannot_be_are_refused)
{
    static const struct {
        uint64_t number, heard, sender;
        bool is_to_us;
        size_t more; /* bytes behind the head */
    } rows[] = {{2, 0, 7, true, 0}, {1, 1, 7, true, 0},  {UINT64_MAX, 0, 7, true, 0}, {0, UINT64_MAX, 7, true, 0},
                {0, 0, 7, true, 1}, {1, 0, 7, false, 0}, {0, 0, 0, true, 0},          {0, 0, 8, true, 0}};
    struct end leader;
    uint64_t self;

    open_end(&leader, 1, 2);
    memcpy(&self, leader.core.state[MU_M_CONTROL], sizeof self); /* which agent it is comes first there */
    connect_end(&leader, 1);
    for (size_t i = 0; i <= sizeof rows / sizeof rows[0]; i++) {
        struct mu_pack p = {.bytes = NULL};
        struct mu_unpack u;

        mu_pack_u64(&p, i ? rows[i - 1].number : 0);
        mu_pack_u64(&p, i ? rows[i - 1].heard : 0);
        mu_pack_u64(&p, i ? rows[i - 1].sender : 7);
        mu_pack_u64(&p, !i || !rows[i - 1].is_to_us ? 0 : self);
        mu_pack_u32(&p, i ? 1 : 0);
        mu_pack_raw(&p, "x", i ? rows[i - 1].more : 0);
        u = mu_unpack_of(p.bytes, p.len);
        assert_int_equal(mu_take_control(&leader.core, 1, &u), !i); /* the first says who it is, and is good */
        mu_pack_done(&p);
    }
    assert_string_equal(leader.heard, "");
    close_end(&leader);
}

/* Who is lost is told nothing more, and nothing is kept for it. */
TEST(the_lost_are_forgotten)
{
    struct end leader;

    open_end(&leader, 1, 2);
    mu_control_send(&leader.core, 1, 1, "x", 1);
    leader.peers[1].state = MU_PEER_LOST;
    mu_module_control.lost(&leader.core, 1, "gone");
    mu_control_send(&leader.core, UINT32_MAX, 1, "x", 1);
    assert_int_equal(leader.peers[1].tail.len, 0);
    close_end(&leader);
}
