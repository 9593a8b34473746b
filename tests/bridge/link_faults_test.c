/*
 * tests/bridge/link_faults_test.c: connections that break, hang, lie or do not read; the others go on.
 */
#include "cm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cutter.h"
#include "ends.h"

static struct end leader, follower, second;
static struct end *const all[] = {&leader, &follower, &second};
static struct cutter *cutter;

static int setup(void)
{
    for (unsigned i = 0; i < 3; i++)
        end_init(all[i]);
    return 0;
}

static int teardown(void)
{
    if (cutter)
        cutter_free(cutter);
    cutter = NULL;
    ends_free(all, 3);
    return 0;
}

#define assert_contains(text, part)                                                                                    \
    do {                                                                                                               \
        if (!strstr(text, part))                                                                                       \
            fail_msg("\"%s\" does not mention \"%s\"", text, part);                                                    \
    } while (0)

static bool both_up(void)
{
    if (cutter)
        while (cutter_turn(cutter, 0))
            ;
    return leader.is_up[3] && follower.is_up[0];
}

static void others_go_on(void)
{
    second.options.key = leader.options.key;
    end_connect(&second, &leader, 5);
    ends_await(all, 3, leader.is_up[5] && second.is_up[0], "another host is up");
}

static void meet(void)
{
    end_listen(&leader);
    end_connect(&follower, &leader, 3);
    ends_await(all, 3, both_up(), "both are up");
}

/* ---- ends, in order and not ---- */

static void *free_link(void *arg)
{
    mu_link_free(arg);
    return NULL;
}

/* Freed beside us, as another host would: it waits until it has been read. */
static void leave(struct end *e, const struct end *other)
{
    struct mu_link *link = e->link;
    pthread_t thread;

    e->link = NULL;
    assert_int_equal(pthread_create(&thread, NULL, free_link, link), 0);
    ends_await(all, 3, other->lefts == 1, "its leaving is heard");
    pthread_join(thread, NULL);
}

TEST_WITH(who_leaves_is_not_lost_but_has_left, setup, teardown)
{
    meet();
    assert_true(mu_link_send(follower.link, 0, 20, "the last word", 13));
    leave(&follower, &leader);
    assert_int_equal(leader.frames, 1);
    assert_int_equal(leader.downs, 0);
}

TEST_WITH(a_leader_that_leaves_is_not_called_again, setup, teardown)
{
    meet();
    leave(&leader, &follower);
    follower.ahead = 60000000000u;
    ends_turn(all, 3);
    assert_int_equal(follower.downs + follower.refusals, 0);
    assert_int_equal(mu_link_next(follower.link), UINT64_MAX);
}

TEST_WITH(who_is_dropped_learns_why_and_comes_again, setup, teardown)
{
    meet();
    mu_link_drop(leader.link, 3, "the test does not like it");
    assert_int_equal(leader.downs, 0); /* told by the turn, never from within */
    assert_false(mu_link_send(leader.link, 3, 16, "x", 1));
    ends_await(all, 3, follower.downs >= 1, "the follower is dropped");
    assert_contains(follower.why, "dropped the connection: the test does not like it");
    ends_await(all, 3, both_up(), "it is back");
    assert_int_equal(leader.downs, 1);
    mu_link_drop(follower.link, 0, "the follower, too, may");
    ends_await(all, 3, leader.downs >= 2, "the leader is dropped");
    assert_contains(leader.why, "host host-3 (127.0.0.1:");
    assert_contains(leader.why, "the follower, too, may");
    ends_await(all, 3, both_up(), "it is back again");
}

TEST_WITH(a_second_connection_of_a_host_replaces_the_first, setup, teardown)
{
    meet();
    end_connect(&second, &leader, 3); /* the owner takes it: the same host, whose first connection it has forgotten */
    follower.options.patience_ns = 0;
    ends_await(all, 3, leader.ups_of[3] == 2 && second.is_up[0], "the second is up");
    assert_int_equal(leader.downs, 1);
    assert_contains(leader.why, "has connected anew");
}

TEST_WITH(a_leader_that_comes_back_is_found_again, setup, teardown)
{
    static char address[64];

    meet();
    snprintf(address, sizeof address, "%s", mu_link_address(leader.link));
    assert_true(mu_link_send(leader.link, 3, 16, "x", 1));
    mu_link_drop(leader.link, 3, "restarting");
    ends_await(all, 3, follower.downs >= 1, "the follower knows");
    mu_link_free(leader.link);
    leader.link = NULL;
    memset(leader.is_up, 0, sizeof leader.is_up);
    leader.options.address = address;
    assert_ok(mu_link_listen(&leader.options, &leader.link));
    ends_await(all, 3, both_up(), "the follower has found it");
}

TEST_WITH(patience_ends_with_a_sentence, setup, teardown)
{
    static char address[64];
    int fd = end_listener(address);

    close(fd); /* nobody is there now */
    follower.options.address = address;
    follower.options.patience_ns = 30000000000u;
    end_connect(&follower, NULL, 3);
    for (int i = 0; i < 5; i++)
        ends_turn(all, 3);
    assert_int_equal(follower.refusals, 0);
    for (int i = 0; i < 40 && !follower.refusals; i++) { /* small steps: who is late grants a period */
        follower.ahead += 1000000000u;
        ends_turn(all, 3);
    }
    assert_int_equal(follower.refusals, 1);
    assert_contains(follower.why, "could not be reached for 30.");
    assert_contains(follower.why, "Connection refused");
}

/* ---- silence ---- */

/* Steps of a second for all ends, as if that time had passed. */
static void pass(unsigned seconds)
{
    for (unsigned s = 0; s < seconds * 2; s++) {
        for (unsigned i = 0; i < 3; i++)
            all[i]->ahead += 500000000u;
        ends_turn(all, 3);
        ends_turn(all, 3);
    }
}

TEST_WITH(a_peer_that_is_silent_is_down, setup, teardown)
{
    static char through[64];

    end_listen(&leader);
    cutter = cutter_new(mu_link_address(leader.link), through);
    follower.options.address = through;
    end_connect(&follower, NULL, 3);
    ends_await(all, 3, both_up(), "both are up");
    pass(30);
    both_up();
    assert_int_equal(leader.downs, 1); /* nobody relayed for half a minute */
    assert_contains(leader.why, "nothing has come from it for 10.");
}

TEST_WITH(heartbeats_keep_an_idle_connection, setup, teardown)
{
    struct mu_link_stats stats;

    meet();
    pass(60);
    assert_int_equal(leader.downs + follower.downs, 0);
    mu_link_stats(leader.link, 3, &stats);
    assert_true(stats.frames_in > 20 && stats.frames_in < 60); /* a PING and a PONG every 2.5 s */
}

TEST_WITH(who_was_asleep_himself_grants_a_period, setup, teardown)
{
    meet();
    leader.ahead += 3600000000000u;
    ends_turn(all, 1);
    assert_int_equal(leader.downs, 0);
    ends_await(all, 3, both_up(), "both are still up");
    pass(20);
    assert_int_equal(leader.downs + follower.downs, 0);
}

TEST_WITH(who_says_nothing_at_first_is_closed, setup, teardown)
{
    char byte;
    int fds[3];

    leader.options.key = end_key;
    end_listen(&leader);
    for (int i = 0; i < 3; i++)
        fds[i] = end_socket(&leader);
    end_write(fds[1], "\x16\x03\x01", 3); /* the beginning of a handshake, and no more */
    end_write(fds[2], "Mu", 1);
    pass(4);
    others_go_on();
    pass(2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(recv(fds[i], &byte, 1, 0), 0);
        close(fds[i]);
    }
    assert_contains(leader.said, "did not say in time who it is");
    assert_true(second.is_up[0]);
}

/* One byte at a time for as long as it likes: the time limit is for all of it. */
TEST_WITH(slow_bytes_do_not_prolong_the_limit, setup, teardown)
{
    uint8_t frame[400];
    size_t len = end_join_frame(frame, 3), sent = 0;
    int fd;

    end_listen(&leader);
    fd = end_socket(&leader);
    for (int i = 0; i < 14; i++) {
        end_write(fd, frame + sent++, 1);
        leader.ahead += 500000000u;
        ends_turn(all, 3);
    }
    assert_true(sent < len);
    assert_int_equal(recv(fd, frame, 1, 0), 0);
    close(fd);
    others_go_on();
}

TEST_WITH(many_who_say_nothing_delay_the_others_only, setup, teardown)
{
    int fds[200];

    end_listen(&leader);
    for (int i = 0; i < 200; i++)
        fds[i] = end_socket(&leader);
    end_connect(&follower, &leader, 3);
    for (int i = 0; i < 40 && !leader.is_up[3]; i++)
        pass(1);
    ends_await(all, 3, both_up(), "the follower is up");
    for (int i = 0; i < 200; i++)
        close(fds[i]);
}

/* ---- bad readers, bad writers ---- */

TEST_WITH(who_does_not_read_is_dropped_when_its_queue_is_full, setup, teardown)
{
    uint8_t frame[400];
    char *bytes = calloc(1, 1 << 20);
    int fd, sent = 0;

    leader.options.queue_bytes = 4 << 20;
    end_listen(&leader);
    others_go_on();
    fd = end_socket(&leader);
    end_write(fd, frame, end_join_frame(frame, 3));
    while (!leader.is_up[3])
        ends_turn(all, 3);
    while (mu_link_send(leader.link, 3, 16, bytes, 1 << 20)) {
        ends_turn(all, 3);
        assert_true(++sent < 100);
    }
    assert_int_equal(leader.downs, 0);
    ends_turn(all, 3);
    assert_int_equal(leader.downs, 1);
    assert_contains(leader.why, "it does not read what it is sent: ");
    assert_true(mu_link_send(leader.link, 5, 16, bytes, 1 << 20));
    close(fd);
    free(bytes);
}

/* What a connection that sent these bytes is told, and what the leader says of it. */
static void hostile(const uint8_t *bytes, size_t len, const char *told, const char *said)
{
    uint8_t payload[2000];
    uint8_t type;
    int fd = end_socket(&leader);

    leader.said[0] = 0;
    end_write(fd, bytes, len);
    ends_await(all, 3, strstr(leader.said, said) != NULL, "%s", said);
    do
        type = end_read_frame(fd, payload, sizeof payload, NULL);
    while (type == MU_FRAME_WELCOME || type == MU_FRAME_PING || type == MU_FRAME_PONG);
    if (type != MU_FRAME_REFUSE && type != MU_FRAME_DROP)
        fail_msg("got frame %u instead of \"%s\"", type, told);
    assert_contains((char *)payload, told);
    assert_int_equal(end_read_frame(fd, payload, sizeof payload, NULL), 0); /* and nothing more */
    close(fd);
    ends_turn(all, 3);
    leader.ahead += 20000000000u; /* so that it may say something again */
    ends_turn(all, 3);
}

TEST_WITH(hostile_frames_end_only_their_own_connection, setup, teardown)
{
    static const uint8_t zeros[1025];
    uint8_t bytes[3000] = {0};
    size_t len;

    end_listen(&leader);
    others_go_on();
    hostile((const uint8_t *)"GET / HTTP/1.1\r\n\r\n", 18, "does not speak muster's protocol",
            "(it begins with 47 45 54 20)");
    for (unsigned type = 0; type < 256; type += type < 20 ? 1 : 59) { /* before JOIN nothing else may come */
        if (type == MU_FRAME_JOIN)
            continue;
        len = end_frame(bytes, (uint8_t)type, 0, "12345678", 8);
        hostile(bytes, len, "in state JOINING", "in state JOINING");
    }
    for (unsigned type = 0; type < MU_FRAME_OWNER; type++) { /* and then, none that only leaders send */
        if (type >= MU_FRAME_LEAVE && type <= MU_FRAME_DROP)
            continue;
        len = end_join_frame(bytes, 3);
        len += end_frame(bytes + len, (uint8_t)type, 1, "12345678", 8);
        hostile(bytes, len, "in state UP", "in state UP");
    }
    len = end_join_frame(bytes, 3);
    len += end_frame(bytes + len, MU_FRAME_PING, 1, "1234567", 7);
    hostile(bytes, len, "and a wrong length", "and a wrong length");
    len = end_join_frame(bytes, 3);
    len += end_frame(bytes + len, 16, 1, "x", 1);
    len += end_frame(bytes + len, 16, 1, "x", 1); /* once more */
    hostile(bytes, len, "sent frame 1 where 2 was expected", "sent frame 1 where 2 was expected");
    len = end_join_frame(bytes, 3);
    bytes[MU_FRAME_HEADER + 35] ^= 0x80; /* the length of the job's name */
    hostile(bytes, len, "its JOIN is not well formed", "its JOIN is not well formed");
    len = end_frame(bytes, MU_FRAME_JOIN, 0, zeros, sizeof zeros);
    hostile(bytes, len, "sent a message of more than 1024 bytes", "sent a message of more than 1024 bytes");
    end_join_frame(bytes, 3);
    bytes[2] = 9;
    hostile(bytes, MU_FRAME_HEADER, "speaks version 9 of the bridge's protocol", "speaks version 9");
    end_join_frame(bytes, 3);
    memset(bytes + 4, 0xff, 4);
    hostile(bytes, MU_FRAME_HEADER, "4294967295 bytes", "4294967295 bytes");
    assert_true(second.is_up[0]);
    assert_int_equal(second.downs, 0);
}

/* A leader that is none: what a follower makes of these bytes. */
static void follow(const uint8_t *bytes, size_t len, const char *why)
{
    static char address[64];
    int listener = end_listener(address), fd;
    uint8_t payload[2000];

    end_init(&follower);
    follower.options.address = address;
    follower.options.patience_ns = 5000000000u;
    end_connect(&follower, NULL, 3);
    ends_turn(all, 3);
    fd = accept(listener, NULL, NULL);
    ends_turn(all, 3);
    assert_int_equal(end_read_frame(fd, payload, sizeof payload, NULL), MU_FRAME_JOIN);
    end_write(fd, bytes, len);
    ends_await(all, 3, follower.refusals > 0, "%s", why);
    assert_contains(follower.why, why);
    assert_int_equal(follower.ups, 0);
    close(fd);
    close(listener);
    mu_link_free(follower.link);
    follower.link = NULL;
}

TEST_WITH(a_false_leader_is_refused_with_a_sentence, setup, teardown)
{
    uint8_t bytes[200];
    char why[80];
    size_t len;

    follow((const uint8_t *)"SSH-2.0-OpenSSH_9.2p1\r\n", 23,
           "does not speak muster's protocol (it begins with 53 53 48 2d)");
    len = end_frame(bytes, MU_FRAME_WELCOME, 0, "", 0);
    bytes[2] = MU_BRIDGE_VERSION - 1;
    snprintf(why, sizeof why, "speaks version %u of the bridge's protocol instead of %u", MU_BRIDGE_VERSION - 1,
             MU_BRIDGE_VERSION);
    follow(bytes, len, why);
    len = end_frame(bytes, MU_FRAME_REFUSE, 0, "no\x1b[2J\n", 7);
    follow(bytes, len, "refused this host: no?[2J?"); /* no control characters reach a terminal */
}

/* ---- cuts ---- */

static bool settled(unsigned wanted)
{
    both_up();
    return (follower.last_type == 22 && follower.is_up[0]) || follower.downs > wanted || cutter_cuts(cutter) > 0;
}

/* A message of two frames: copied, or from where it lies. */
static void send_big(bool in_place)
{
    static char big[MU_FRAME_PAYLOAD + 100];
    struct mu_blob *blob = in_place ? mu_blob_new(sizeof big) : NULL;
    const struct mu_slice slice = {blob, 50, sizeof big - 50};

    if (in_place)
        mu_link_send_slice(follower.link, 0, 21, big, 50, &slice);
    else
        mu_link_send(follower.link, 0, 21, big, sizeof big);
    mu_blob_drop(blob);
}

/*
 * The connection breaks after every number of bytes of the small frames, and at places within the large ones, in both
 * directions, by an end and by a reset. Each time both come up anew, and then everything passes.
 */
static void cut_all(const uint8_t *key, unsigned way)
{
    static char through[64];
    size_t cut = 1, passed[2] = {0, 0};
    unsigned rounds = 0;

    leader.echo = true;
    leader.options.key = follower.options.key = key;
    end_listen(&leader);
    for (;; cut += cut < 400 ? 1 + (key != NULL) * 2 : 7919) {
        unsigned downs = follower.downs;
        struct end *const two_ends[] = {&leader, &follower};

        cutter = cutter_new(mu_link_address(leader.link), through);
        cutter_limit(cutter, way ? SIZE_MAX : cut, way ? cut : SIZE_MAX, cut % 2);
        end_init(&follower);
        follower.options.key = key;
        follower.options.address = through;
        end_connect(&follower, NULL, 3);
        while (!follower.is_up[0] && !cutter_cuts(cutter)) {
            both_up();
            ends_turn(two_ends, 2);
        }
        mu_link_send(follower.link, 0, 20, "short", 5);
        send_big(rounds % 2);
        mu_link_send(follower.link, 0, 22, "the end", 7);
        ends_await(two_ends, 2, settled(downs), "the cut, or the end");
        cutter_passed(cutter, &passed[0], &passed[1]);
        rounds++;
        if (!cutter_cuts(cutter)) /* it was not reached: the session is shorter */
            break;
        cutter_limit(cutter, SIZE_MAX, SIZE_MAX, false);
        ends_await(two_ends, 2, both_up(), "both are up anew");
        follower.last_type = 0;
        downs = UINT32_MAX;
        while (follower.last_type != 22) { /* again when the first end had been up just before the cut */
            if (both_up() && follower.downs != downs) {
                downs = follower.downs;
                mu_link_send(follower.link, 0, 22, "again", 5);
            }
            ends_turn(two_ends, 2);
        }
        mu_link_drop(follower.link, 0, "the round is over");
        cutter_free(cutter);
        cutter = NULL;
        mu_link_free(follower.link);
        follower.link = NULL;
        assert_int_equal(follower.before_up + leader.before_up, 0);
        while (leader.is_up[3])
            ends_turn(all, 1);
    }
    print_message("%u rounds\n", rounds);
    assert_true(rounds > (key ? 130 : 400));
}

TEST_WITH(cut_on_the_way_to_the_leader, setup, teardown)
{
    cut_all(NULL, 0);
}

TEST_WITH(cut_on_the_way_to_the_follower, setup, teardown)
{
    cut_all(NULL, 1);
}

TEST_WITH(cut_within_tls, setup, teardown)
{
    cut_all(end_key, 0);
}
