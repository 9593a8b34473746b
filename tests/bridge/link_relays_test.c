/*
 * tests/bridge/link_relays_test.c: who is sent to which relay, and what becomes of those on the way to one that goes:
 * nobody waits for it, nobody is sent in a circle, and a host that relays no more passes nothing on.
 */
/* timeout: 120 */
#include "cm.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bridge/link/private.h"
#include "ends.h"

enum { HOSTS = 9, RELAYS = 2 }; /* host 1 and 2 relay, three are behind each */

static struct end leader, followers[HOSTS]; /* followers[0] is not used */
static struct end *all[HOSTS];
static struct {
    enum mu_join_verdict (*join)(void *, uint32_t, const struct mu_join *, uint32_t *, struct mu_pack *, char *,
                                 size_t);
    uint32_t connections[HOSTS], count;
    bool over;
} meeting;

static void begin(void)
{
    end_init(&leader);
    leader.options.num_hosts = HOSTS;
    leader.options.star_hosts = 2;
    all[0] = &leader;
    end_listen(&leader);
    for (uint32_t i = 1; i < HOSTS; i++) {
        all[i] = &followers[i];
        end_init(&followers[i]);
        followers[i].options.num_hosts = 1;
    }
}

static bool is_up(uint32_t host)
{
    return leader.is_up[host] && (!followers[host].link || followers[host].is_up[0]);
}

static bool are_up(uint32_t wanted)
{
    for (uint32_t i = 1; i <= wanted; i++)
        if (!is_up(i))
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

static void come(uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++)
        end_connect(&followers[i], &leader, i);
    ends_await(all, last + 1, are_up(last), "they are up");
}

TEST(who_cannot_relay_and_comes_again_is_not_kept_in_a_circle)
{
    uint8_t frame[200], port[4] = {0};
    int first, second, again;

    begin();
    first = end_socket(&leader);
    end_write(first, frame, end_join_frame(frame, 1));
    end_write(first, frame, end_frame(frame, MU_FRAME_RELAY, 1, port, sizeof port));
    ends_await(all, 1, leader.link->hosts[1].cannot_listen, "host 1 says that it cannot relay");
    close(first);
    ends_await(all, 1, !leader.is_up[1], "host 1 is down");
    second = end_socket(&leader); /* asked to relay, and does not answer yet */
    end_write(second, frame, end_join_frame(frame, 2));
    ends_await(all, 1, is_up(2), "host 2 is up");
    again = end_socket(&leader);
    end_write(again, frame, end_join_frame(frame, 1));
    ends_await(all, 1, is_up(1), "host 1 is up again, when host 2 has not answered in time");
    close(second);
    close(again);
    ends_free(all, 1);
}

TEST(who_is_on_the_way_to_relays_that_go_is_taken_as_it_is)
{

    begin();
    come(1, RELAYS);
    ends_await(all, RELAYS + 1, relays_listen(), "the relays listen");
    all[1] = all[2] = &leader; /* they are stopped: the kernel alone takes who connects to them */
    end_connect(&followers[3], &leader, 3);
    ends_await(all, 4, followers[3].link->moving != NULL, "host 3 is told to move");
    for (uint32_t i = 1; i <= RELAYS; i++)
        mu_peer_close(leader.link->hosts[i].peer, MU_LINK_QUIET, "nothing was heard of it");
    ends_await(all, 4, is_up(3), "host 3 is up");
    assert_int_equal(mu_link_relay_of(leader.link, 3), 0);
    assert_int_equal(followers[3].downs, 0);
    assert_string_equal(leader.said, ""); /* not when it had waited as long as it may, and said so */
    all[1] = &followers[1];
    all[2] = &followers[2];
    ends_free(all, 4);
}

/* As where a job meets: all are kept waiting, then all are welcomed at once. */
static enum mu_join_verdict keep(void *arg, uint32_t connection, const struct mu_join *join, uint32_t *ret_host,
                                 struct mu_pack *welcome, char *refusal, size_t size)
{
    if (meeting.over)
        return meeting.join(arg, connection, join, ret_host, welcome, refusal, size);
    meeting.connections[join->node] = connection;
    meeting.count++;
    return MU_JOIN_LATER;
}

TEST(the_first_relay_that_listens_gets_no_more_than_its_part)
{
    uint32_t last = HOSTS - 1, behind[HOSTS] = {0};
    struct mu_pack welcome = {0};

    begin();
    memset(&meeting, 0, sizeof meeting);
    meeting.join = leader.options.events.join;
    leader.link->options.events.join = keep;
    for (uint32_t i = 1; i < HOSTS; i++)
        end_connect(&followers[i], &leader, i);
    ends_await(all, HOSTS, meeting.count == HOSTS - 1, "all want to join");
    meeting.over = true;
    mu_pack_text(&welcome, "welcome");
    for (uint32_t i = 1; i < HOSTS; i++)
        mu_link_welcome(leader.link, meeting.connections[i], i, welcome.bytes, welcome.len);
    mu_link_flush(leader.link);
    mu_pack_done(&welcome);
    ends_await(all, 2, leader.link->hosts[1].peer->branch && leader.link->hosts[1].peer->branch->listens,
               "host 1 listens, and nobody else has had a turn");
    ends_await(all, HOSTS, are_up(last), "all are up");
    for (uint32_t i = 1; i < HOSTS; i++)
        behind[mu_link_relay_of(leader.link, i)]++;
    for (uint32_t i = 1; i <= RELAYS; i++)
        assert_in_range(behind[i], 0, (HOSTS - 1 - RELAYS) / RELAYS);
    ends_free(all, HOSTS);
}

static bool come_otherwise(uint32_t wanted)
{
    for (uint32_t i = 2; i < HOSTS; i++)
        if (!leader.is_up[i] || !followers[i].is_up[0] || mu_link_relay_of(leader.link, i) == wanted)
            return false;
    return true;
}

static bool is_answered(int wanted)
{
    uint8_t byte;

    return recv(wanted, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN || !leader.is_up[1];
}

TEST(who_relays_no_more_passes_nothing_on)
{
    struct end door;
    uint8_t frame[200];
    uint32_t last = HOSTS - 1, downs;
    int fd;

    begin();
    come(1, RELAYS);
    ends_await(all, RELAYS + 1, relays_listen(), "the relays listen");
    come(RELAYS + 1, HOSTS - 1);
    mu_peer_close(leader.link->hosts[1].peer, MU_LINK_QUIET, "broken by the test");
    for (int i = 0; i < 3; i++) { /* those behind it are told, and it has not yet come again */
        mu_link_turn(followers[1].link, mu_now());
        mu_link_turn(leader.link, mu_now());
    }
    all[1] = &leader;
    ends_await(all, HOSTS, come_otherwise(1), "the others have come without it");
    all[1] = &followers[1];
    ends_await(all, HOSTS, are_up(last), "it has come again");
    assert_non_null(followers[1].link->relay); /* it still listens */
    downs = followers[1].downs;
    door = (struct end){.link = followers[1].link->relay->down};
    fd = end_socket(&door);
    end_write(fd, frame, end_join_frame(frame, 0));
    ends_await(all, HOSTS, is_answered(fd), "the caller is answered");
    close(fd);
    assert_int_equal(followers[1].downs, downs);
    assert_true(leader.is_up[1]);
    ends_free(all, HOSTS);
}

/* The leader says nothing, the relay does, until it gives the leader up: then its silence, not the relay's, counts. */
TEST(a_silent_leader_is_not_heard_of_behind_a_relay)
{
    struct mu_link_stats s;
    uint64_t silent;

    begin();
    come(1, RELAYS);
    ends_await(all, RELAYS + 1, relays_listen(), "the relays listen");
    come(RELAYS + 1, HOSTS - 1);
    all[0] = &followers[1];
    silent = mu_now() + followers[3].ahead;
    for (int i = 0; i < 120 && !followers[3].downs; i++) {
        for (uint32_t k = 1; k < HOSTS; k++)
            followers[k].ahead += 250000000;
        ends_turn(all, HOSTS);
        ends_turn(all, HOSTS);
    }
    assert_int_equal(followers[3].downs, 1);
    assert_non_null(strstr(followers[3].why, "the host that relays it has lost the leader"));
    assert_true(mu_link_stats(followers[3].link, 0, &s));
    assert_in_range(s.heard_ns, 0, silent + 1000000000u);
    all[0] = &leader;
    ends_free(all, HOSTS);
}
