/*
 * tests/agent/sights_test.c: what an agent says of its host's tasks comes as it was said, by another host's clock;
 * every beginning of it is refused, or all that it says whole.
 */
#include "cm.h"

#include <string.h>

#include "agent/hosts/sights.h"

static const struct mu_sight sights[] = {
    {.task = 2, .incarnation = 77, .letter = 'T', .ran = 4000},
    {.task = 3, .incarnation = UINT64_MAX, .letter = 'S', .ran = 1000, .since = 4999, .waiting = "barrier epoch"},
    {.task = 9, .pid = 4711, .letter = 'S', .ran = 1},
    {.task = UINT32_MAX, .incarnation = 1, .letter = 0, .since = 5000, .waiting = "key \xc3\xa9"},
};
enum { SIGHTS = sizeof sights / sizeof sights[0] };

/* Theirs is 5000 now, ours 105000: what they say in ages is so long ago here. */
TEST(ages_travel)
{
    struct mu_pack p = {.bytes = NULL};
    struct mu_unpack u;
    struct mu_sight s;

    for (unsigned i = 0; i < SIGHTS; i++)
        mu_sight_pack(&p, &sights[i], 5000);
    u = mu_unpack_of(p.bytes, p.len);
    for (unsigned i = 0; i < SIGHTS; i++) {
        assert_true(mu_sight_unpack(&u, 105000, &s));
        assert_int_equal(s.task, sights[i].task);
        assert_int_equal(s.incarnation, sights[i].incarnation);
        assert_int_equal(s.pid, sights[i].pid);
        assert_int_equal(s.letter, sights[i].letter);
        assert_int_equal(s.ran, sights[i].ran ? sights[i].ran + 100000 : 0);
        assert_string_equal(s.waiting, sights[i].waiting);
        if (sights[i].since == 5000) /* at this very moment: it waits all the same */
            assert_int_equal(s.since, 104999);
        else
            assert_int_equal(s.since, sights[i].since ? sights[i].since + 100000 : 0);
    }
    assert_true(mu_unpack_end(&u));
    mu_pack_done(&p);
}

TEST(what_is_older_than_the_clock_has_no_time)
{
    struct mu_pack p = {.bytes = NULL};
    struct mu_unpack u;
    struct mu_sight s;

    mu_sight_pack(&p, &sights[0], 5000);
    u = mu_unpack_of(p.bytes, p.len);
    assert_true(mu_sight_unpack(&u, 999, &s)); /* it was 1000 ago */
    assert_int_equal(s.ran, 0);
    mu_pack_done(&p);
}

TEST(a_part_is_refused)
{
    struct mu_pack p = {.bytes = NULL};
    struct mu_unpack u;
    struct mu_sight s;

    mu_sight_pack(&p, &sights[1], 5000);
    for (size_t len = 0; len < p.len; len++) {
        u = mu_unpack_of(p.bytes, len);
        assert_false(mu_sight_unpack(&u, 5000, &s));
    }
    p.bytes[p.len - strlen(sights[1].waiting) - 4] = 200; /* a text that is too long */
    u = mu_unpack_of(p.bytes, p.len);
    assert_false(mu_sight_unpack(&u, 5000, &s));
    mu_pack_done(&p);
}
