/*
 * tests/bridge/link_many_test.c: many hosts that come all at once, wait together, talk, and go.
 */
/* timeout: 240 */
#include "cm.h"

#include <stdio.h>
#include <string.h>

#include "ends.h"

static struct end leader, followers[100];
static struct end *all[101];
static uint32_t waiting[101], num_waiting;
static bool is_met;

static enum mu_join_verdict keep(void *arg, uint32_t connection, const struct mu_join *join, uint32_t *ret_host,
                                 struct mu_pack *welcome, char *refusal, size_t size)
{
    (void)arg;
    (void)refusal;
    (void)size;
    assert_true(join->node >= 1 && join->node <= 100);
    if (is_met) { /* it comes by a relay now */
        *ret_host = join->node;
        mu_pack_text(welcome, "welcome");
        return MU_JOIN_ACCEPTED;
    }
    assert_int_equal(waiting[join->node], 0);
    waiting[join->node] = connection;
    num_waiting++;
    return MU_JOIN_LATER;
}

static bool are_up(unsigned wanted)
{
    for (unsigned i = 0; i < wanted; i++)
        if (!followers[i].is_up[0] || !leader.is_up[i + 1])
            return false;
    return true;
}

static bool have_echo(unsigned wanted)
{
    for (unsigned i = 0; i < wanted; i++)
        if (followers[i].frames != 1)
            return false;
    return true;
}

/* `count` followers. star_hosts: of so many hosts all connect to the leader. */
static void come_all(unsigned count, const uint8_t *key, uint32_t star_hosts)
{
    static char bytes[20000];
    unsigned behind = 0;

    end_init(&leader);
    num_waiting = 0;
    is_met = false;
    memset(waiting, 0, sizeof waiting);
    leader.options.events.join = keep;
    leader.options.key = key;
    leader.options.num_hosts = count + 1;
    leader.options.star_hosts = star_hosts;
    leader.options.timeout_ns = 60000000000u;
    leader.echo = true;
    all[0] = &leader;
    end_listen(&leader);
    for (unsigned i = 0; i < count; i++) {
        all[i + 1] = &followers[i];
        end_init(&followers[i]);
        followers[i].options.key = key;
        followers[i].options.timeout_ns = 60000000000u;
        followers[i].options.num_hosts = 1;
        end_connect(&followers[i], &leader, i + 1);
    }
    ends_await(all, count + 1, num_waiting == count, "all wait");
    is_met = true;
    for (unsigned i = 1; i <= count; i++) {
        struct mu_pack welcome = {0};

        mu_pack_text(&welcome, "welcome");
        mu_link_welcome(leader.link, waiting[i], i, welcome.bytes, welcome.len);
        mu_pack_done(&welcome);
    }
    ends_await(all, count + 1, are_up(count), "all are up");
    for (unsigned i = 1; i <= count; i++)
        behind += mu_link_relay_of(leader.link, i) != 0;
    /* in time all; whoever was late comes directly */
    assert_true(star_hosts && count + 1 > star_hosts ? behind > count / 2 : behind == 0);
    for (unsigned i = 0; i < count; i++)
        assert_true(mu_link_send(followers[i].link, 0, 16, bytes, i * 190));
    ends_await(all, count + 1, have_echo(count), "all have their echo");
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(followers[i].last_len, i * 190);
    if (!star_hosts)
        assert_string_equal(leader.said, "");
    ends_free(all, count + 1);
}

TEST(sixty_five_in_the_clear)
{
    come_all(65, NULL, 0);
}

TEST(sixty_five_with_a_key)
{
    come_all(65, end_key, 0);
}

TEST(a_hundred_with_a_key)
{
    come_all(100, end_key, 0);
}

TEST(sixty_four_hosts_are_still_a_star)
{
    come_all(63, end_key, 64);
}

TEST(sixty_five_hosts_are_none_any_more)
{
    come_all(64, end_key, 64);
}

TEST(sixty_five_by_relays_in_the_clear)
{
    come_all(65, NULL, 64);
}

TEST(a_hundred_by_relays_with_a_key)
{
    come_all(100, end_key, 64);
}
