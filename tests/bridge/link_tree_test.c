/*
 * tests/bridge/link_tree_test.c: hosts that come to the leader by relays: whole messages, in each one's order, the same
 * bytes once a relay; and what a relay, a host behind it, or a stranger at its port may do to the others: nothing.
 */
/* timeout: 240 */
#include "cm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bridge/link/private.h"
#include "ends.h"
#include "seed.h"

enum { HOSTS = 9, RELAYS = 2, BEHIND = 6 }; /* host 1 and 2 relay, three behind each */

static struct end leader, followers[HOSTS]; /* followers[0] is not used */
static struct end *all[HOSTS];
static uint8_t bytes[2 << 20];

static struct mu_link *below(uint32_t relay)
{
    return followers[relay].link->relay->down;
}

static bool are_up(uint32_t wanted)
{
    for (uint32_t i = 1; i <= wanted; i++)
        if (followers[i].link && (!followers[i].is_up[0] || !leader.is_up[i]))
            return false;
    return true;
}

static bool relays_listen(void)
{
    for (uint32_t i = 1; i <= RELAYS; i++)
        if (!leader.link->hosts[i].peer || !leader.link->hosts[i].peer->branch ||
            !leader.link->hosts[i].peer->branch->listens)
            return false;
    return true;
}

static void begin(const uint8_t *key, size_t queue_bytes)
{
    end_init(&leader);
    leader.options.key = key;
    leader.options.num_hosts = HOSTS;
    leader.options.star_hosts = 2;
    leader.options.queue_bytes = queue_bytes;
    all[0] = &leader;
    end_listen(&leader);
    for (uint32_t i = 1; i < HOSTS; i++) {
        all[i] = &followers[i];
        end_init(&followers[i]);
        followers[i].options.key = key;
        followers[i].options.num_hosts = 1;
        followers[i].options.queue_bytes = queue_bytes;
    }
}

static void come(uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++)
        end_connect(&followers[i], &leader, i);
    ends_await(all, last + 1, are_up(last), "all are up");
}

static void come_all(const uint8_t *key, size_t queue_bytes)
{
    begin(key, queue_bytes);
    come(1, RELAYS);
    ends_await(all, RELAYS + 1, relays_listen(), "the relays listen");
    come(RELAYS + 1, HOSTS - 1);
    for (uint32_t i = 1; i < HOSTS; i++) {
        uint32_t relay = mu_link_relay_of(leader.link, i);

        assert_true(i <= RELAYS ? relay == 0 : relay == 1 || relay == 2);
        assert_int_equal(followers[i].ups, 1);
        assert_int_equal(followers[i].downs, 0);
    }
    assert_int_equal(leader.downs, 0);
    assert_string_equal(leader.said, "");
}

/* ---- frames ---- */

static bool have_echo(uint64_t wanted)
{
    for (uint32_t i = 1; i < HOSTS; i++)
        if (followers[i].link && followers[i].frames < wanted)
            return false;
    return true;
}

static void echo(uint64_t so_many)
{
    uint64_t want = so_many;

    ends_await(all, HOSTS, have_echo(want), "all have their echo");
}

static void pass_messages_of_all_lengths(const uint8_t *key)
{
    static const size_t lengths[] = {0, 1, 65528, 65529, 65536, 65537, 200000, sizeof bytes};
    uint64_t sum[HOSTS] = {0};

    come_all(key, 0);
    leader.echo = true;
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        for (uint32_t i = 1; i < HOSTS; i++) {
            bytes[0] = (uint8_t)i; /* each its own */
            assert_true(mu_link_send(followers[i].link, 0, (uint8_t)(16 + n), bytes, lengths[n]));
            for (size_t at = 0; at<lengths[n]; at += lengths[n]> 100000 ? 997 : 1)
                sum[i] = sum[i] * 31 + bytes[at];
        }
        echo(n + 1);
        for (uint32_t i = 1; i < HOSTS; i++) {
            assert_int_equal(followers[i].last_len, lengths[n]);
            assert_int_equal(followers[i].last_type, 16 + n);
            assert_int_equal(followers[i].sum, sum[i]);
        }
    }
    ends_free(all, HOSTS);
}

TEST(messages_of_all_lengths_pass_whole_in_the_clear)
{
    pass_messages_of_all_lengths(NULL);
}

TEST(messages_of_all_lengths_pass_whole_with_a_key)
{
    pass_messages_of_all_lengths(end_key);
}

TEST(what_all_are_told_crosses_once_a_relay)
{
    uint64_t before[RELAYS + 1];

    come_all(NULL, 0);
    for (uint32_t i = 1; i <= RELAYS; i++)
        before[i] = leader.link->hosts[i].stats.bytes_out;
    for (uint32_t i = 1; i < HOSTS; i++)
        assert_true(mu_link_send(leader.link, i, 20, bytes, 1 << 20));
    mu_link_flush(leader.link);
    echo(1);
    for (uint32_t i = 1; i <= RELAYS; i++) { /* its own, and one for the three behind it */
        uint64_t sent = leader.link->hosts[i].stats.bytes_out - before[i];

        assert_true(sent > 2 << 20 && sent < (2 << 20) + 10000);
    }
    ends_free(all, HOSTS);
}

/* To all, to some, to one; in turns that are flushed now and then. What each gets is what was said to it, in order. */
TEST(each_host_keeps_its_order)
{
    struct test_random r = {test_seed()};
    uint64_t sum[HOSTS] = {0}, frames[HOSTS] = {0}, fewest = UINT64_MAX;

    come_all(NULL, 0);
    for (int n = 0; n < 3000; n++) {
        uint32_t whom = (uint32_t)test_below(&r, 3), len = (uint32_t)test_below(&r, 200);
        uint64_t mask = whom == 0 ? ~0ul : whom == 1 ? test_random(&r) : 1ul << test_below(&r, HOSTS);

        bytes[0] = (uint8_t)test_below(&r, 3); /* the same ones come again */
        for (uint32_t i = 1; i < HOSTS; i++) {
            if (!(mask >> i & 1))
                continue;
            assert_true(mu_link_send(leader.link, i, 30, bytes, len));
            frames[i]++;
            for (uint32_t at = 0; at < len; at++)
                sum[i] = sum[i] * 31 + bytes[at];
        }
        if (test_below(&r, 20) == 0)
            mu_link_flush(leader.link);
    }
    mu_link_flush(leader.link);
    for (uint32_t i = 1; i < HOSTS; i++)
        fewest = frames[i] < fewest ? frames[i] : fewest;
    echo(fewest);
    for (uint32_t i = 1; i < HOSTS; i++) {
        while (followers[i].frames < frames[i])
            ends_turn(all, HOSTS);
        assert_int_equal(followers[i].frames, frames[i]);
        assert_int_equal(followers[i].sum, sum[i]);
    }
    ends_free(all, HOSTS);
}

static bool are_measured(void)
{
    for (uint32_t i = 1; i < HOSTS; i++) {
        struct mu_link_stats s;

        for (uint32_t j = 0; j < HOSTS; j++)
            all[j]->ahead += 1000000; /* heartbeats go out every 2.5 s of this */
        if (!mu_link_stats(leader.link, i, &s) || !s.rtt_ns || !s.rtt_min_ns || s.rtt_min_ns > s.rtt_ns)
            return false;
        if (i > RELAYS && s.rtt_min_ns <= leader.link->hosts[mu_link_relay_of(leader.link, i)].stats.rtt_min_ns)
            return false;
    }
    return true;
}

TEST(round_trips_are_those_of_the_whole_way)
{
    come_all(NULL, 0);
    ends_await(all, HOSTS, are_measured(), "all round trips are measured, and longer than the relay's");
    for (uint32_t i = 1; i < HOSTS; i++)
        assert_int_equal(followers[i].downs, 0);
    ends_free(all, HOSTS);
}

/* ---- relays that go ---- */

/* As by SIGKILL: its sockets close, and nothing is said. */
static void kill_relay(uint32_t relay)
{
    struct mu_link *links[] = {followers[relay].link, below(relay)};

    close(links[1]->listener);
    links[1]->listener = -1;
    for (int i = 0; i < 2; i++)
        while (links[i]->peers)
            mu_peer_close(links[i]->peers, MU_LINK_QUIET, "killed");
    all[relay] = &followers[0]; /* takes no turns any more */
}

static bool have_come_again(uint32_t gone)
{
    for (uint32_t i = RELAYS + 1; i < HOSTS; i++)
        if (!followers[i].is_up[0] || !leader.is_up[i] || mu_link_relay_of(leader.link, i) == gone)
            return false;
    return !leader.is_up[gone];
}

static void behind_a_relay_that_dies_all_come_again(const uint8_t *key)
{
    uint32_t gone = 1, moved = 0, relays = 0;

    come_all(key, 0);
    kill_relay(gone);
    ends_await(all, HOSTS, have_come_again(gone), "all behind the dead relay have come again");
    for (uint32_t i = RELAYS + 1; i < HOSTS; i++) {
        moved += followers[i].ups == 2;
        assert_true(followers[i].ups == 1 || followers[i].ups == 2);
        assert_int_equal(followers[i].refusals, 0);
    }
    for (uint32_t i = 1; i < HOSTS; i++)
        relays += leader.link->hosts[i].peer && leader.link->hosts[i].peer->branch;
    assert_int_equal(relays, RELAYS); /* one that was behind it is one instead */
    assert_int_equal(moved, BEHIND / 2);
    assert_int_equal(leader.downs, 1 + BEHIND / 2);
    leader.echo = true;
    for (uint32_t i = 2; i < HOSTS; i++)
        assert_true(mu_link_send(followers[i].link, 0, 17, bytes, 70000));
    followers[gone].frames = 1;
    echo(1);
    all[gone] = &followers[gone];
    ends_free(all, HOSTS);
}

TEST(behind_a_dead_relay_all_come_again_in_the_clear)
{
    behind_a_relay_that_dies_all_come_again(NULL);
}

TEST(behind_a_dead_relay_all_come_again_with_a_key)
{
    behind_a_relay_that_dies_all_come_again(end_key);
}

static void *free_link(void *arg)
{
    struct end *e = arg;

    mu_link_free(e->link);
    return NULL;
}

TEST(a_relay_that_leaves_takes_nobody_with_it)
{
    uint32_t gone = 1;
    pthread_t thread;

    come_all(end_key, 0);
    all[gone] = &followers[0];
    assert_int_equal(pthread_create(&thread, NULL, free_link, &followers[gone]), 0);
    ends_await(all, HOSTS, leader.lefts == 1 && have_come_again(gone),
               "the relay has left, and all behind it have come again");
    pthread_join(thread, NULL);
    followers[gone].link = NULL;
    for (uint32_t i = RELAYS + 1; i < HOSTS; i++)
        assert_int_equal(followers[i].lefts, 0);
    all[gone] = &followers[gone];
    ends_free(all, HOSTS);
}

static bool all_have_heard(void)
{
    for (uint32_t i = 1; i < HOSTS; i++)
        if (followers[i].lefts != 1 || followers[i].frames != 1)
            return false;
    return true;
}

TEST(what_the_leader_says_last_reaches_all)
{
    pthread_t thread;

    come_all(end_key, 0);
    for (uint32_t i = 1; i < HOSTS; i++)
        assert_true(mu_link_send(leader.link, i, 40, "it is over", 10));
    assert_int_equal(pthread_create(&thread, NULL, free_link, &leader), 0);
    ends_await(all + 1, HOSTS - 1, all_have_heard(), "all have heard that the leader has left");
    pthread_join(thread, NULL);
    ends_free(all + 1, HOSTS - 1);
}

TEST(a_host_that_leaves_has_left)
{
    uint32_t last = HOSTS - 1;
    pthread_t thread;

    come_all(NULL, 0);
    all[last] = &followers[0];
    assert_int_equal(pthread_create(&thread, NULL, free_link, &followers[last]), 0);
    while (leader.lefts == 0)
        ends_turn(all, HOSTS);
    pthread_join(thread, NULL);
    assert_false(leader.is_up[last]);
    assert_int_equal(leader.downs, 0);
    ends_free(all, HOSTS - 1);
}

TEST(one_that_the_leader_drops_comes_again)
{
    uint32_t last = HOSTS - 1;

    come_all(end_key, 0);
    mu_link_drop(leader.link, last, "it said something wrong");
    ends_await(all, HOSTS, followers[last].ups == 2 && followers[last].is_up[0] && leader.is_up[last],
               "it has come again");
    assert_non_null(strstr(followers[last].why, "dropped the connection: it said something wrong"));
    assert_string_equal(leader.why, "it said something wrong");
    assert_int_equal(leader.downs, 1);
    for (uint32_t i = 1; i < last; i++)
        assert_int_equal(followers[i].downs, 0);
    ends_free(all, HOSTS);
}

/* ---- relays that cannot be reached ---- */

TEST(a_relay_that_nobody_reaches_is_done_without)
{
    begin(NULL, 0);
    come(1, RELAYS);
    ends_await(all, RELAYS + 1, relays_listen(), "the relays listen");
    for (uint32_t i = 1; i <= RELAYS; i++) {
        close(below(i)->listener);
        below(i)->listener = -1;
    }
    come(RELAYS + 1, HOSTS - 1);
    for (uint32_t i = 1; i < HOSTS; i++) {
        assert_int_equal(mu_link_relay_of(leader.link, i), 0);
        assert_int_equal(followers[i].ups, 1);
    }
    assert_non_null(strstr(leader.said, "comes directly, not by a relay"));
    ends_free(all, HOSTS);
}

TEST(a_relay_that_does_not_answer_is_waited_for_a_while)
{

    begin(NULL, 0);
    come(1, RELAYS);
    ends_await(all, RELAYS + 1, relays_listen(), "the relays listen");
    all[1] = all[2] = &followers[0];
    end_connect(&followers[3], &leader, 3);
    for (int i = 0; i < 2000 && !followers[3].link->moving; i++)
        ends_turn(all, 4);
    assert_non_null(followers[3].link->moving);
    assert_false(leader.is_up[3]);
    for (int i = 0; i < 3; i++, ends_turn(all, 4)) /* in steps that do not look like a sleep */
        followers[3].ahead += 4000000000u;
    all[1] = all[2] = all[3];
    ends_await(all, 4, are_up(3), "host 3 is up");
    assert_int_equal(mu_link_relay_of(leader.link, 3), 0);
    all[1] = &followers[1];
    all[2] = &followers[2];
    ends_free(all, 4);
}

/* ---- hosts behind a relay that are slow, and strangers at its port ---- */

TEST(a_host_that_does_not_read_harms_only_itself)
{
    uint32_t slow = HOSTS - 1, relay;
    uint64_t want = 0;

    come_all(NULL, 1 << 20);
    relay = mu_link_relay_of(leader.link, slow);
    all[slow] = &followers[0];
    for (int n = 0; n < 200 && leader.is_up[slow]; n++) {
        want++;
        for (uint32_t i = 1; i < HOSTS; i++)
            if (leader.is_up[i])
                assert_true(mu_link_send(leader.link, i, 50, bytes, i == slow ? 200000 : 100));
        mu_link_flush(leader.link);
        followers[slow].frames = want; /* it is not waited for */
        echo(want);
    }
    assert_false(leader.is_up[slow]);
    assert_int_equal(leader.downs, 1);
    assert_non_null(strstr(leader.why, "it does not read what it is sent"));
    assert_true(leader.is_up[relay]);
    for (uint32_t i = 1; i < slow; i++)
        assert_int_equal(followers[i].downs, 0);
    all[slow] = &followers[slow];
    ends_free(all, HOSTS);
}

static int knock_at(uint32_t relay)
{
    struct end door = {.link = below(relay)};

    return end_socket(&door);
}

static void still_fine(uint64_t *frames)
{
    leader.echo = true;
    ++*frames;
    for (uint32_t i = 1; i < HOSTS; i++)
        assert_true(mu_link_send(followers[i].link, 0, 18, bytes, 5000));
    echo(*frames);
    assert_int_equal(leader.downs, 0);
    for (uint32_t i = 1; i < HOSTS; i++)
        assert_int_equal(followers[i].downs, 0);
}

TEST(strangers_at_a_relay_harm_nobody)
{
    uint8_t frame[200], garbage[64];
    uint64_t frames = 0;
    int fds[4];

    come_all(NULL, 0);
    memset(garbage, 0xa5, sizeof garbage);
    fds[0] = knock_at(1); /* says nothing */
    fds[1] = knock_at(1); /* half of what it wants to say */
    end_write(fds[1], frame, end_join_frame(frame, 5) / 2);
    fds[2] = knock_at(1); /* no protocol */
    end_write(fds[2], garbage, sizeof garbage);
    fds[3] = knock_at(1); /* a frame before it is known */
    end_write(fds[3], frame, end_frame(frame, 20, 0, "words", 5));
    still_fine(&frames);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    still_fine(&frames);
    ends_free(all, HOSTS);
}

static bool has_ended(uint32_t wanted)
{
    struct mu_link_peer *p = below(1)->peers;

    for (; p; p = p->next)
        if (p->connection == wanted && p->state != MU_LINK_ENDING)
            return false;
    return true;
}

static bool by_hand_is_up(uint32_t *connection)
{
    struct mu_link_peer *p = below(1)->peers; /* the newest is first */

    *connection = p->connection;
    return p->state == MU_LINK_UP && strcmp(p->name, "by-hand") == 0;
}

/* Whoever has the key may come; what it says then is its own, and nobody else's. */
TEST(a_host_speaks_for_itself_alone)
{
    static const uint8_t types[] = {MU_FRAME_VIA, MU_FRAME_RELAY, MU_FRAME_TRIP, MU_FRAME_MOVE, MU_FRAME_STAY};
    uint64_t frames = 0;

    come_all(NULL, 0);
    for (size_t n = 0; n < sizeof types; n++) {
        uint8_t frame[200], said[40] = {30, 1, 0};
        uint32_t connection = 0;
        int fd = knock_at(1);

        end_write(fd, frame, end_join_frame(frame, 0)); /* a place that nobody has here */
        ends_await(all, HOSTS, by_hand_is_up(&connection), "the one by hand is up");
        assert_true(leader.is_up[0]);
        said[3] = (uint8_t)below(1)->peers->next->connection; /* a sibling's channel */
        end_write(fd, frame, end_frame(frame, types[n], 1, said, 20));
        ends_await(all, HOSTS, has_ended(connection), "it is sent away");
        close(fd);
        while (leader.is_up[0])
            ends_turn(all, HOSTS);
        leader.downs--;
        still_fine(&frames);
    }
    ends_free(all, HOSTS);
}

TEST(another_key_opens_no_relay)
{
    static struct end stranger;
    struct end *both[HOSTS + 1];
    struct end door;
    uint64_t frames = 0;

    come_all(end_key, 0);
    memcpy(both, all, sizeof all);
    both[HOSTS] = &stranger;
    door.link = below(1);
    end_init(&stranger);
    stranger.options.key = end_other_key;
    stranger.options.num_hosts = 1;
    end_connect(&stranger, &door, 3);
    ends_await(both, HOSTS + 1, stranger.refusals > 0, "the stranger is refused");
    assert_non_null(strstr(stranger.why, "has another key"));
    assert_int_equal(stranger.ups, 0);
    assert_non_null(strstr(followers[1].said, "has another key"));
    still_fine(&frames);
    ends_free(both, HOSTS + 1);
}
