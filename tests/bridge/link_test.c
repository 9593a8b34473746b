/*
 * tests/bridge/link_test.c: two ends that meet, talk and part; who is refused, and in which words, on both sides.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "certificates.h"
#include "ends.h"

static struct end leader, follower, second;
static struct end *const all[] = {&leader, &follower, &second};

static int setup(void)
{
    end_init(&leader);
    end_init(&follower);
    end_init(&second);
    return 0;
}

static int teardown(void)
{
    ends_free(all, 3);
    return 0;
}

static bool both_up(void)
{
    return leader.is_up[3] && follower.is_up[0];
}

static void meet(void)
{
    if (!leader.link)
        end_listen(&leader);
    end_connect(&follower, &leader, 3);
    ends_await(all, 3, both_up(), "both are up");
    assert_string_equal(leader.join.host, "host-3");
    assert_int_equal(leader.join.num_tasks, 2);
}

#define assert_contains(text, part)                                                                                    \
    do {                                                                                                               \
        if (!strstr(text, part))                                                                                       \
            fail_msg("\"%s\" does not mention \"%s\"", text, part);                                                    \
    } while (0)

/* The leader goes on after whatever it refused. */
static void others_go_on(const uint8_t *key)
{
    second.options.key = key;
    end_connect(&second, &leader, 5);
    ends_await(all, 3, leader.is_up[5] && second.is_up[0], "another host is up");
}

/* ---- parting ---- */

/* It answers whatever comes by a reset then, and has said something before. */
TEST_WITH(what_was_said_is_heard_though_who_said_it_is_gone, setup, teardown)
{
    for (int with_key = 0; with_key < 2; with_key++) {
        setup();
        leader.options.key = follower.options.key = with_key ? end_key : NULL;
        meet();
        assert_true(mu_link_send(leader.link, 3, 20, "the last word", 13));
        mu_link_free(leader.link); /* it has waited for us to read that, as long as it does */
        leader.link = NULL;
        for (int i = 0; i < 3; i++) {
            mu_link_send(follower.link, 0, 16, "x", 1);
            mu_link_flush(follower.link);
        }
        ends_await(all, 3, follower.lefts == 1, "its leaving is heard");
        assert_int_equal(follower.frames, 1);
        assert_int_equal(follower.downs, 0);
        mu_link_free(follower.link);
        follower.link = NULL;
    }
}

/* ---- talking ---- */

static const size_t lengths[] = {0, 1, 15, 16359, 16360, 16368, 16384, 65535, 65536, 65537, 200000, 3 << 20};
static const size_t heads[] = {40, 65520, 65535, 65536, 65537, 131072, 199999, 1 << 20};

/* The same once more, the end of each in a blob that others hold as well; short ones in between. What is before that
 * may be longer than a frame. */
static void talk_in_slices(const uint8_t *bytes, size_t most, uint64_t *sent, uint64_t *sum)
{
    struct mu_blob *blob = mu_blob_new((3 << 20) + 1000);

    memcpy(blob->bytes + 1000, bytes, 3 << 20);
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
        size_t len = lengths[n], head = len < most ? len : most;
        const struct mu_slice rest = {blob, 1000 + head, len - head};

        assert_true(mu_link_send(follower.link, 0, 99, bytes, 3));
        assert_true(mu_link_send_slice(follower.link, 0, (uint8_t)(16 + n), bytes, head, &rest));
        *sent += 2;
        for (size_t i = 0; i < 3; i++)
            *sum = *sum * 31 + bytes[i];
        for (size_t i = 0; i<len; i += len> 100000 ? 997 : 1)
            *sum = *sum * 31 + bytes[i];
    }
    ends_await(all, 3, follower.frames == *sent, "all has come back, from where it lies");
    assert_int_equal(blob->holders, 1);
    mu_blob_drop(blob);
}

/* Lengths about every limit come back as they went. */
static void talk(void)
{
    uint64_t sent = 0, sum = 0;
    uint8_t *bytes = malloc(3 << 20);

    leader.echo = true;
    for (size_t i = 0; i < 3 << 20; i++)
        bytes[i] = (uint8_t)(i * 7 + (i >> 9));
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
        assert_true(mu_link_send(follower.link, 0, (uint8_t)(16 + n), bytes, lengths[n]));
        sent++;
        for (size_t i = 0; i<lengths[n]; i += lengths[n]> 100000 ? 997 : 1)
            sum = sum * 31 + bytes[i];
    }
    ends_await(all, 3, follower.frames == sent, "all has come back");
    for (size_t n = 0; n < sizeof heads / sizeof heads[0]; n++)
        talk_in_slices(bytes, heads[n], &sent, &sum);
    assert_int_equal(follower.sum, sum);
    assert_int_equal(leader.sum, sum);
    assert_int_equal(follower.last_type, 16 + sizeof lengths / sizeof lengths[0] - 1);
    free(bytes);
}

TEST_WITH(in_the_clear_on_loopback, setup, teardown)
{
    meet();
    talk();
}

TEST_WITH(with_a_key, setup, teardown)
{
    leader.options.key = follower.options.key = end_key;
    meet();
    talk();
}

TEST_WITH(with_certificates, setup, teardown)
{
    certificates_make();
    certificates_use(&leader.options, "good");
    certificates_use(&follower.options, "good");
    meet();
    talk();
}

TEST_WITH(over_ipv6, setup, teardown)
{
    leader.options.address = "[::1]:0";
    leader.options.key = follower.options.key = end_key;
    if (mu_link_listen(&leader.options, &leader.link)) {
        print_message("no IPv6 here: %s\n", muster_last_error());
        assert_says("[::1]:0");
        return;
    }
    assert_int_equal(strncmp(mu_link_address(leader.link), "[::1]:", 6), 0);
    meet();
    talk();
    assert_int_equal(strncmp(mu_link_peer_address(leader.link, 3), "[::1]:", 6), 0);
}

TEST_WITH(by_name, setup, teardown)
{
    char address[64];

    end_listen(&leader);
    snprintf(address, sizeof address, "localhost%s", strrchr(mu_link_address(leader.link), ':'));
    follower.options.address = address;
    end_connect(&follower, NULL, 3);
    ends_await(all, 3, both_up(), "both are up");
}

TEST_WITH(without_a_host_a_leader_with_a_key_listens_everywhere, setup, teardown)
{
    char address[64];

    leader.options.address = ":0";
    leader.options.key = follower.options.key = end_key;
    end_listen(&leader);
    snprintf(address, sizeof address, "127.0.0.1%s", strrchr(mu_link_address(leader.link), ':'));
    follower.options.address = address;
    end_connect(&follower, NULL, 3);
    ends_await(all, 3, both_up(), "both are up");
}

static bool has_rtt(void)
{
    struct mu_link_stats a, b;

    return mu_link_stats(leader.link, 3, &a) && mu_link_stats(follower.link, 0, &b) && a.rtt_ns && b.rtt_ns;
}

TEST_WITH(counts_what_went_over_it, setup, teardown)
{
    struct mu_link_stats a, b;

    meet();
    ends_await(all, 3, has_rtt(), "the round trip is known on both sides");
    mu_link_stats(leader.link, 3, &a);
    mu_link_stats(follower.link, 0, &b);
    assert_true(a.rtt_min_ns && a.rtt_min_ns <= a.rtt_ns);
    assert_int_equal(a.connects, 1);
    assert_true(a.frames_in && a.frames_out && a.bytes_in && a.bytes_out && a.heard_ns);
    assert_false(mu_link_stats(leader.link, END_HOSTS, &a));
    assert_false(mu_link_send(leader.link, 4, 16, "x", 1));
    assert_false(mu_link_send(leader.link, UINT32_MAX, 16, "x", 1));
    mu_link_drop(leader.link, UINT32_MAX, "nobody");
}

/* ---- heartbeats ---- */

static uint64_t frames_in(const struct end *e, uint32_t host)
{
    struct mu_link_stats s;

    assert_true(mu_link_stats(e->link, host, &s));
    return s.frames_in;
}

static uint64_t first[2]; /* how many frames each had heard */

static bool have_heard(void)
{
    return frames_in(&leader, 3) == first[0] + 2 && frames_in(&follower, 0) == first[1] + 2;
}

/* The leader's owner beats between turns, when the next heartbeat is near; the follower's goes with its answer. Nobody
 * has to wake up again, for time's sake, before most of another period has passed. */
TEST_WITH(who_is_asked_asks_along_and_nobody_wakes_up_for_it, setup, teardown)
{
    const uint64_t period = leader.options.timeout_ns / 4;

    meet();
    ends_await(all, 3, has_rtt(), "the round trip is known on both sides");
    first[0] = frames_in(&leader, 3);
    first[1] = frames_in(&follower, 0);
    leader.ahead += period - period / 10;
    follower.ahead += period / 2 + period / 10;
    mu_link_beat(leader.link, mu_now() + leader.ahead);
    mu_link_flush(leader.link);
    ends_await(all, 3, have_heard(), "each has asked and answered");
    for (int i = 0; i < 3; i++)
        ends_turn(all, 3);
    assert_true(have_heard());
    for (int i = 0; i < 2; i++)
        assert_true(mu_link_next(all[i]->link) > mu_now() + all[i]->ahead + period / 2);
    mu_link_beat(leader.link, mu_now() + leader.ahead); /* not yet */
    ends_turn(all, 3);
    assert_true(have_heard());
}

/* ---- refusals ---- */

TEST_WITH(another_key_is_refused, setup, teardown)
{
    leader.options.key = end_key;
    follower.options.key = end_other_key;
    end_listen(&leader);
    end_connect(&follower, &leader, 3);
    ends_await(all, 3, follower.refusals > 0, "the follower is refused");
    ends_await(all, 3, leader.said[0] != 0, "the leader says so");
    assert_contains(follower.why, "has another key than this host");
    assert_contains(leader.said, "refused a connection from 127.0.0.1:");
    assert_contains(leader.said, "has another key than this host");
    assert_int_equal(leader.ups, 0);
    others_go_on(end_key);
}

TEST_WITH(no_key_where_one_is_needed_is_refused, setup, teardown)
{
    leader.options.key = end_key;
    end_listen(&leader);
    end_connect(&follower, &leader, 3);
    ends_await(all, 3, follower.refusals > 0, "the follower is refused");
    assert_contains(follower.why, "it came in the clear, and this job has a key");
    assert_contains(leader.said, "it came in the clear, and this job has a key");
    others_go_on(end_key);
}

TEST_WITH(a_key_where_there_is_none_is_refused, setup, teardown)
{
    follower.options.key = end_key;
    end_listen(&leader);
    end_connect(&follower, &leader, 3);
    ends_await(all, 3, follower.refusals > 0, "the follower is refused");
    assert_contains(follower.why, "does not speak TLS: is it there without a key");
    assert_contains(leader.said, "speaks TLS, and here there is no key");
    others_go_on(NULL);
}

TEST_WITH(certificates_of_others_are_refused, setup, teardown)
{
    certificates_make();
    certificates_use(&leader.options, "good");
    certificates_use(&follower.options, "foreign");
    end_listen(&leader);
    end_connect(&follower, &leader, 3);
    ends_await(all, 3, follower.refusals > 0, "the follower is refused");
    assert_contains(follower.why, "was not believed by its certificate");
}

TEST_WITH(a_leader_of_another_name_is_refused, setup, teardown)
{
    certificates_make();
    certificates_use(&leader.options, "elsewhere");
    certificates_use(&follower.options, "good");
    end_listen(&leader);
    end_connect(&follower, &leader, 3);
    ends_await(all, 3, follower.refusals > 0, "the follower is refused");
    assert_contains(follower.why, "was not believed by its certificate");
}

TEST_WITH(the_owners_refusal_is_read_on_both_sides, setup, teardown)
{
    leader.verdict = MU_JOIN_REFUSED;
    end_listen(&leader);
    end_connect(&follower, &leader, 3);
    ends_await(all, 3, follower.refusals > 0, "the follower is refused");
    assert_contains(follower.why, "refused this host: the owner does not like host host-3");
    assert_contains(leader.said, "refused host host-3 (127.0.0.1:");
    assert_int_equal(leader.gones, 0);
    leader.verdict = MU_JOIN_ACCEPTED;
    others_go_on(NULL);
}

/* Its leader listens, or the name is wrong: patience is for those that come before their leader. */
TEST_WITH(whom_the_leader_has_called_is_told_at_once_and_gives_up_soon, setup, teardown)
{
    static char address[64];
    int fd = end_listener(address);

    close(fd); /* nobody is there now */
    follower.options.address = address;
    follower.options.patience_ns = 30000000000u;
    follower.options.is_called = true;
    end_connect(&follower, NULL, 3);
    for (int i = 0; i < 5; i++)
        ends_turn(all, 3);
    assert_contains(follower.said, "cannot reach the leader (127.0.0.1:");
    assert_contains(follower.said, "Connection refused");
    assert_int_equal(follower.refusals, 0);
    for (int i = 0; i < 10 && !follower.refusals; i++) {
        follower.ahead += 1000000000u;
        for (int turn = 0; turn < 3; turn++)
            ends_turn(all, 3);
    }
    assert_int_equal(follower.refusals, 1);
    assert_contains(follower.why, "Connection refused");
}

TEST_WITH(another_job_is_refused, setup, teardown)
{
    end_listen(&leader);
    snprintf(follower.options.join.job, sizeof follower.options.join.job, "another");
    end_connect(&follower, &leader, 3);
    ends_await(all, 3, follower.refusals > 0, "the follower is refused");
    assert_contains(follower.why, "it belongs to job 'another'");
    others_go_on(NULL);
}

TEST_WITH(a_place_beyond_the_last_is_refused, setup, teardown)
{
    end_listen(&leader);
    end_connect(&follower, &leader, END_HOSTS);
    ends_await(all, 3, follower.refusals > 0, "the follower is refused");
    assert_contains(follower.why, "a place that the job does not have");
    others_go_on(NULL);
}

TEST_WITH(off_loopback_nobody_listens_or_connects_without_a_key, setup, teardown)
{
    static const char *const addresses[] = {"0.0.0.0:0", "[::]:0", "*:0", "192.0.2.1:0"};

    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        leader.options.address = addresses[i];
        assert_status(MUSTER_FAILED_PRECONDITION, mu_link_listen(&leader.options, &leader.link));
        assert_says("is not loopback: without a key or certificates");
    }
    leader.options.address = NULL;
    end_listen(&leader);
    follower.options.address = "192.0.2.1:4711"; /* for documentation: nobody has it */
    end_connect(&follower, NULL, 3);
    ends_await(all, 3, follower.refusals > 0, "the follower is refused");
    assert_contains(follower.why, "the leader (192.0.2.1:4711) is not on this host, and there is neither a key nor");
}

TEST_WITH(bad_addresses_are_said_to_be_bad, setup, teardown)
{
    static const char *const addresses[] = {"",        "host",  "host:",   "host:65536", "host:1x",         "::1:80",
                                            "[::1]80", "[]:80", "[::1:80", "a b:80",     "host:99999999999"};

    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        leader.options.address = follower.options.address = addresses[i];
        assert_status(MUSTER_INVALID_ARGUMENT, mu_link_listen(&leader.options, &leader.link));
        assert_says("is no address");
        assert_status(MUSTER_INVALID_ARGUMENT, mu_link_connect(&follower.options, &follower.link));
        assert_says("is no address");
    }
    follower.options.address = "127.0.0.1:0";
    assert_status(MUSTER_INVALID_ARGUMENT, mu_link_connect(&follower.options, &follower.link));
    assert_says("has no port");
}

TEST_WITH(a_port_in_use_is_named, setup, teardown)
{
    end_listen(&leader);
    second.options.address = mu_link_address(leader.link);
    assert_status(MUSTER_ALREADY_EXISTS, mu_link_listen(&second.options, &second.link));
    assert_says(mu_link_address(leader.link));
    assert_says("Address already in use");
    second.options.address = "192.0.2.1:0";
    second.options.key = end_key;
    assert_status(MUSTER_UNAVAILABLE, mu_link_listen(&second.options, &second.link));
    assert_says("cannot listen at 192.0.2.1:0");
}

TEST_WITH(a_name_that_does_not_resolve_is_named, setup, teardown)
{
    leader.options.address = "no..such.host:4711";
    assert_status(MUSTER_NOT_FOUND, mu_link_listen(&leader.options, &leader.link));
    assert_says("the name 'no..such.host' to listen at does not resolve");
    follower.options.address = "no..such.host:4711";
    follower.options.patience_ns = 50000000;
    end_connect(&follower, NULL, 3);
    ends_await(all, 3, follower.refusals > 0, "it gives up");
    assert_contains(follower.why, "the leader (no..such.host:4711) could not be reached for");
    assert_contains(follower.why, "the name 'no..such.host' does not resolve");
}

TEST_WITH(files_that_are_no_certificates_are_named, setup, teardown)
{
    certificates_make();
    certificates_use(&leader.options, "good");
    leader.options.address = "127.0.0.1:0";
    leader.options.authority = NULL;
    assert_status(MUSTER_INVALID_ARGUMENT, mu_link_listen(&leader.options, &leader.link));
    assert_says("certificates need all three");
    leader.options.authority = "/nonexistent/ca.pem";
    assert_status(MUSTER_INVALID_ARGUMENT, mu_link_listen(&leader.options, &leader.link));
    assert_says("/nonexistent/ca.pem");
    certificates_use(&leader.options, "good");
    leader.options.private_key = leader.options.certificate;
    assert_status(MUSTER_INVALID_ARGUMENT, mu_link_listen(&leader.options, &leader.link));
    assert_says("private key");
    certificates_use(&leader.options, "good");
    leader.options.key = end_key;
    assert_status(MUSTER_INVALID_ARGUMENT, mu_link_listen(&leader.options, &leader.link));
    assert_says("not both");
}
