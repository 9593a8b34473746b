/*
 * tests/agent/status_test.c: what an agent says of its host's tasks comes as it was said, by another host's clock;
 * every beginning of it is refused, or all that it says whole.
 */
#include "cm.h"

#include <string.h>

#include "agent/hosts/status.h"

static const struct mu_agent_status statuses[] = {
    {.task = 2, .incarnation = 77, .letter = 'T', .ran = 4000},
    {.task = 3, .incarnation = UINT64_MAX, .letter = 'S', .ran = 1000, .since = 4999, .waiting = "barrier epoch"},
    {.task = 9, .pid = 4711, .letter = 'S', .ran = 1},
    {.task = UINT32_MAX, .incarnation = 1, .letter = 0, .since = 5000, .waiting = "key \xc3\xa9"},
};
enum { STATUSES = sizeof statuses / sizeof statuses[0] };

/* Theirs is 5000 now, ours 105000: what they say in ages is so long ago here. */
TEST(ages_travel)
{
    struct mu_pack p = {.bytes = NULL};
    struct mu_unpack u;
    struct mu_agent_status s;

    for (unsigned i = 0; i < STATUSES; i++)
        mu_agent_status_pack(&p, &statuses[i], 5000);
    u = mu_unpack_of(p.bytes, p.len);
    for (unsigned i = 0; i < STATUSES; i++) {
        assert_true(mu_agent_status_unpack(&u, 105000, &s));
        assert_int_equal(s.task, statuses[i].task);
        assert_int_equal(s.incarnation, statuses[i].incarnation);
        assert_int_equal(s.pid, statuses[i].pid);
        assert_int_equal(s.letter, statuses[i].letter);
        assert_int_equal(s.ran, statuses[i].ran ? statuses[i].ran + 100000 : 0);
        assert_string_equal(s.waiting, statuses[i].waiting);
        if (statuses[i].since == 5000) /* at this very moment: it waits all the same */
            assert_int_equal(s.since, 104999);
        else
            assert_int_equal(s.since, statuses[i].since ? statuses[i].since + 100000 : 0);
    }
    assert_true(mu_unpack_end(&u));
    mu_pack_done(&p);
}

TEST(what_is_older_than_the_clock_has_no_time)
{
    struct mu_pack p = {.bytes = NULL};
    struct mu_unpack u;
    struct mu_agent_status s;

    mu_agent_status_pack(&p, &statuses[0], 5000);
    u = mu_unpack_of(p.bytes, p.len);
    assert_true(mu_agent_status_unpack(&u, 999, &s)); /* it was 1000 ago */
    assert_int_equal(s.ran, 0);
    mu_pack_done(&p);
}

TEST(a_part_is_refused)
{
    struct mu_pack p = {.bytes = NULL};
    struct mu_unpack u;
    struct mu_agent_status s;

    mu_agent_status_pack(&p, &statuses[1], 5000);
    for (size_t len = 0; len < p.len; len++) {
        u = mu_unpack_of(p.bytes, len);
        assert_false(mu_agent_status_unpack(&u, 5000, &s));
    }
    p.bytes[p.len - strlen(statuses[1].waiting) - 4] = 200; /* a text that is too long */
    u = mu_unpack_of(p.bytes, p.len);
    assert_false(mu_agent_status_unpack(&u, 5000, &s));
    mu_pack_done(&p);
}
