/*
 * tests/agent/gather_test.c: what the hosts give is put together, in the order of the hosts, for each of them and once:
 * between hosts that are none, whose messages come in every order that the bridge allows (each pair's own is kept).
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/serve/gather.h"

enum { HOSTS = 5, LETTERS_MAX = 4096 };

struct answer {
    int times;
    enum muster_status status;
    char text[256], why[128];
};

/* What is on its way, in the order in which it was sent. */
static struct letter {
    uint32_t from, to;
    struct mu_pack what;
} letters[LETTERS_MAX];
static int num_letters;
static struct mu_gathers *hosts[HOSTS];
static uint32_t numbers[HOSTS] = {0, 1, 2, 3, 4};

static void tell(void *arg, uint32_t host, const struct mu_pack *what)
{
    struct letter *letter = &letters[num_letters++];

    assert_true(num_letters < LETTERS_MAX);
    *letter = (struct letter){.from = *(uint32_t *)arg, .to = host};
    mu_pack_raw(&letter->what, what->bytes, what->len);
}

/* The first letter of a random pair of hosts. */
static void carry_one(unsigned *seed)
{
    int at = (int)((unsigned)rand_r(seed) % (unsigned)num_letters);
    struct letter it;
    struct mu_unpack u;

    for (int i = 0; i < at; i++)
        if (letters[i].from == letters[at].from && letters[i].to == letters[at].to)
            at = i;
    it = letters[at];
    memmove(&letters[at], &letters[at + 1], sizeof it * (size_t)(--num_letters - at));
    u = mu_unpack_of(it.what.bytes, it.what.len);
    if (hosts[it.to])
        mu_gathers_hear(hosts[it.to], it.from, &u);
    mu_pack_done(&it.what);
}

static void carry_all(unsigned *seed)
{
    while (num_letters > 0)
        carry_one(seed);
}

static int set_up(void)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        assert_non_null(hosts[i] = mu_gathers_new(i, HOSTS, tell, &numbers[i]));
    return 0;
}

static int tear_down(void)
{
    for (uint32_t i = 0; i < HOSTS; i++) {
        mu_gathers_free(hosts[i], "the end");
        hosts[i] = NULL;
    }
    while (num_letters > 0)
        mu_pack_done(&letters[--num_letters].what);
    return 0;
}

static void done(void *arg, enum muster_status status, const struct mu_gathered *all)
{
    struct answer *answer = arg;

    answer->times++;
    answer->status = status;
    snprintf(answer->why, sizeof answer->why, "%s", all->why);
    answer->text[0] = 0;
    for (uint32_t i = 0; i < all->num_parts; i++) {
        size_t len = strlen(answer->text);

        snprintf(answer->text + len, sizeof answer->text - len, "%.*s,", (int)all->parts[i].len,
                 (const char *)all->parts[i].bytes);
    }
}

static void give(uint32_t host, const char *name, const char *text, struct answer *answer)
{
    assert_int_equal(mu_gathers_give(hosts[host], numbers, HOSTS, name, text, strlen(text), done, answer), MUSTER_OK);
}

TEST_WITH(alone_a_host_has_its_answer_at_once, set_up, tear_down)
{
    struct mu_gathers *alone = mu_gathers_new(0, 1, tell, &numbers[0]);
    struct answer answer = {.times = 0};

    assert_int_equal(mu_gathers_give(alone, numbers, 1, "x", "me", 2, done, &answer), MUSTER_OK);
    assert_int_equal(answer.times, 1);
    assert_string_equal(answer.text, "me,");
    assert_int_equal(num_letters, 0);
    mu_gathers_free(alone, "");
}

/* Two names, and of each two rounds under way at once. */
TEST_WITH(rounds_are_met_in_order_whatever_comes_first, set_up, tear_down)
{
    for (unsigned seed = 1, dice = 1; seed <= 300; seed++, dice = seed) {
        struct answer answers[HOSTS][2][2] = {0};

        for (uint32_t i = 0; i < HOSTS; i++)
            for (int round = 0; round < 2; round++)
                for (int name = 0; name < 2; name++) {
                    char text[32];

                    snprintf(text, sizeof text, "%u.%d%c", i, round, "ab"[name]);
                    give(i, name ? "b" : "a", text, &answers[i][round][name]);
                    if (num_letters > 0 && rand_r(&dice) % 2)
                        carry_one(&dice);
                }
        carry_all(&dice);
        for (uint32_t i = 0; i < HOSTS; i++) {
            assert_int_equal(answers[i][0][0].times, 1);
            assert_string_equal(answers[i][0][0].text, "0.0a,1.0a,2.0a,3.0a,4.0a,");
            assert_string_equal(answers[i][1][0].text, "0.1a,1.1a,2.1a,3.1a,4.1a,");
            assert_string_equal(answers[i][0][1].text, "0.0b,1.0b,2.0b,3.0b,4.0b,");
            assert_string_equal(answers[i][1][1].text, "0.1b,1.1b,2.1b,3.1b,4.1b,");
        }
    }
}

TEST_WITH(some_hosts_gather_without_the_first, set_up, tear_down)
{
    struct answer one = {.times = 0}, three = {.times = 0};
    const uint32_t some[] = {1, 3};
    unsigned seed = 7;

    assert_int_equal(mu_gathers_give(hosts[1], some, 2, "some", "one", 3, done, &one), MUSTER_OK);
    carry_all(&seed);
    assert_int_equal(one.times, 0);
    assert_int_equal(mu_gathers_give(hosts[3], some, 2, "some", "three", 5, done, &three), MUSTER_OK);
    carry_all(&seed);
    assert_string_equal(one.text, "one,three,");
    assert_string_equal(three.text, "one,three,");
}

struct length {
    int times;
    size_t sum;
    bool sound;
};

static void measure(void *arg, enum muster_status status, const struct mu_gathered *all)
{
    struct length *length = arg;

    length->times++;
    length->sound = status == MUSTER_OK;
    for (uint32_t i = 0; i < all->num_parts; i++) {
        length->sum += all->parts[i].len;
        for (size_t at = 0; at < all->parts[i].len; at++)
            length->sound &= ((const uint8_t *)all->parts[i].bytes)[at] == (uint8_t)(at * 31 + i);
    }
}

/* None, and more than a message of the agents holds. */
TEST_WITH(parts_are_as_long_as_they_are, set_up, tear_down)
{
    static const size_t lengths[HOSTS] = {3 << 20, 0, 1, (256 << 10) + 1, 700000};
    struct length length[HOSTS] = {0};
    unsigned seed = 3;

    for (uint32_t i = 0; i < HOSTS; i++) {
        uint8_t *bytes = malloc(lengths[i] + 1);

        assert_non_null(bytes);
        for (size_t at = 0; at < lengths[i]; at++)
            bytes[at] = (uint8_t)(at * 31 + i);
        assert_int_equal(mu_gathers_give(hosts[i], numbers, HOSTS, "long", bytes, lengths[i], measure, &length[i]),
                         MUSTER_OK);
        free(bytes);
    }
    carry_all(&seed);
    for (uint32_t i = 0; i < HOSTS; i++) {
        assert_int_equal(length[i].times, 1);
        assert_true(length[i].sound);
        assert_int_equal(length[i].sum, lengths[0] + lengths[1] + lengths[2] + lengths[3] + lengths[4]);
    }
}

TEST_WITH(a_lost_host_fails_what_needs_it_and_what_will, set_up, tear_down)
{
    struct answer answers[HOSTS] = {0}, later[HOSTS] = {0}, others = {.times = 0};
    const uint32_t some[] = {0, 1};
    unsigned seed = 5;

    for (uint32_t i = 0; i < HOSTS; i++)
        if (i != 2 && i != 4)
            give(i, "x", "part", &answers[i]);
    carry_all(&seed);
    mu_gathers_lost(hosts[0], 2, "host c is lost: its cable is cut");
    give(4, "x", "late", &answers[4]);
    carry_all(&seed);
    for (uint32_t i = 0; i < HOSTS; i++)
        if (i != 2) {
            assert_int_equal(answers[i].times, 1);
            assert_int_equal(answers[i].status, MUSTER_ABORTED);
            assert_string_equal(answers[i].why, "host c is lost: its cable is cut");
            give(i, "x", "again", &later[i]);
        }
    carry_all(&seed);
    for (uint32_t i = 0; i < HOSTS; i++)
        assert_int_equal(later[i].status, i == 2 ? MUSTER_OK : MUSTER_ABORTED);
    assert_int_equal(mu_gathers_give(hosts[0], some, 2, "x", "", 0, done, &others), MUSTER_OK);
    assert_int_equal(mu_gathers_give(hosts[1], some, 2, "x", "", 0, done, &others), MUSTER_OK);
    carry_all(&seed);
    assert_int_equal(others.times, 2);
    assert_int_equal(others.status, MUSTER_OK);
}

TEST_WITH(without_the_leader_nothing_is_gathered, set_up, tear_down)
{
    struct answer answer = {.times = 0};

    give(3, "x", "part", &answer);
    mu_gathers_lost(hosts[3], 0, "the leader is lost");
    assert_int_equal(answer.times, 1);
    assert_string_equal(answer.why, "the leader is lost");
    assert_int_equal(mu_gathers_give(hosts[3], numbers, HOSTS, "x", "", 0, done, &answer), MUSTER_ABORTED);
    assert_int_equal(answer.times, 1);
}

/* The late part must not be taken for the next round's. */
TEST_WITH(a_round_that_was_given_up_is_given_up_for_the_late_ones_too, set_up, tear_down)
{
    struct answer first[HOSTS] = {0}, second[HOSTS] = {0};
    uint32_t missing[HOSTS];
    unsigned seed = 9;

    for (uint32_t i = 0; i < 3; i++)
        give(i, "x", "early", &first[i]);
    carry_all(&seed);
    assert_int_equal(mu_gathers_missing(hosts[0], "y", missing, HOSTS), 0);
    assert_int_equal(mu_gathers_missing(hosts[0], "x", missing, HOSTS), 2);
    assert_int_equal(missing[0], 3);
    assert_int_equal(missing[1], 4);
    mu_gathers_fail(hosts[0], "x", "task 7 has ended");
    for (uint32_t i = 0; i < 3; i++)
        give(i, "x", "second", &second[i]);
    carry_all(&seed);
    for (uint32_t i = 3; i < HOSTS; i++) {
        give(i, "x", "late", &first[i]);
        give(i, "x", "second", &second[i]);
    }
    carry_all(&seed);
    for (uint32_t i = 0; i < HOSTS; i++) {
        assert_int_equal(first[i].times, 1);
        assert_string_equal(first[i].why, "task 7 has ended");
        assert_string_equal(second[i].text, "second,second,second,second,second,");
    }
}

TEST_WITH(at_the_end_all_that_waits_fails, set_up, tear_down)
{
    struct answer answer = {.times = 0}, mine = {.times = 0};
    unsigned seed = 2;

    give(1, "x", "part", &answer);
    give(0, "x", "part", &mine);
    carry_all(&seed);
    tear_down();
    assert_int_equal(answer.times, 1);
    assert_string_equal(answer.why, "the end");
    assert_int_equal(mine.times, 1);
}

TEST_WITH(what_cannot_be_given_is_refused, set_up, tear_down)
{
    const uint32_t others[] = {1, 2}, wrong[] = {0, 0}, unknown[] = {0, HOSTS};
    struct answer answer = {.times = 0};
    char name[MU_GATHER_NAME_MAX + 2];

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(mu_gathers_give(hosts[0], others, 2, "x", "", 0, done, &answer), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(mu_gathers_give(hosts[0], wrong, 2, "x", "", 0, done, &answer), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(mu_gathers_give(hosts[0], unknown, 2, "x", "", 0, done, &answer), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(mu_gathers_give(hosts[0], numbers, HOSTS, "", "", 0, done, &answer), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(mu_gathers_give(hosts[0], numbers, HOSTS, name, "", 0, done, &answer), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(mu_gathers_give(hosts[0], numbers, HOSTS, "x", name, MU_GATHER_BYTES_MAX + 1, done, &answer),
                     MUSTER_RESOURCE_EXHAUSTED);
    assert_int_equal(answer.times, 0);
}

/* Every beginning of a message, and every damaged byte of one, from another host: whatever it is taken for. */
TEST_WITH(damaged_messages_harm_nobody, set_up, tear_down)
{
    static struct answer answer; /* it is told at the end */
    struct mu_pack sound = {.bytes = NULL};

    give(1, "name", "bytes", &answer);
    mu_pack_raw(&sound, letters[0].what.bytes, letters[0].what.len);
    for (size_t len = 0; len < sound.len; len++) {
        struct mu_unpack u = mu_unpack_of(sound.bytes, len);

        mu_gathers_hear(hosts[0], 1, &u);
        mu_gathers_hear(hosts[2], 0, &u);
    }
    for (size_t at = 0; at < sound.len; at++)
        for (int bit = 0; bit < 8; bit++) {
            struct mu_unpack u = mu_unpack_of(sound.bytes, sound.len);

            sound.bytes[at] ^= (uint8_t)(1 << bit);
            mu_gathers_hear(hosts[0], 1, &u);
            u = mu_unpack_of(sound.bytes, sound.len);
            mu_gathers_hear(hosts[2], 0, &u);
            sound.bytes[at] ^= (uint8_t)(1 << bit);
        }
    mu_pack_done(&sound);
}
