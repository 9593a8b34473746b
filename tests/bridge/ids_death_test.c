/*
 * tests/bridge/ids_death_test.c: who makes an NCCL id, or has taken it, dies on any host: the others hear of it on all
 * of them, by name, or go on without it; nobody gets the id of the dead. (The library is a FAKE one: ranks.h.)
 */
#include "ranks.h"

#include <stdio.h>
#include <string.h>

#include <muster/muster.h>

#include "segment/hosts.h"

enum { ID = MUSTER_NCCL_ID_BYTES };

TEST(a_killed_maker_ends_its_waiters_on_every_host_by_name)
{
    for (int k = 0; k < 2; k++) {
        uint32_t maker = makers[k];
        uint32_t waiters[2] = {other_than(maker, 0), other_than(maker, 1)};
        char name[64];

        cast_open(TWO_HOSTS);
        enter_all(0);
        snprintf(name, sizeof name, "task %u (pid %d on host node%d)", maker, (int)cast_pid(maker), maker > 1);
        stop_maker(maker, 4, 0);
        for (int i = 0; i < 2; i++) {
            tell_take(waiters[i], 4, 0);
            until_it_waits(waiters[i]);
        }
        cast_kill(maker);
        for (int i = 0; i < 2; i++) {
            struct cast_reply r = cast_hear(waiters[i]);

            assert_reply(r, MUSTER_UNAVAILABLE);
            assert_in(r.text, name);
        }
        cast_close();
    }
}

TEST(waiters_take_over_from_a_maker_that_may_die)
{
    for (int k = 0; k < 2; k++) {
        uint32_t maker = makers[k];
        struct cast_reply r[4], first;

        cast_open(TWO_HOSTS);
        enter_all(MUSTER_JOIN_RECOVERABLE);
        stop_maker(maker, 4, 0);
        for (uint32_t i = 0; i < 4; i++)
            if (i != maker) {
                tell_take(i, 4, 0);
                until_it_waits(i);
            }
        cast_kill(maker);
        for (uint32_t i = 0; i < 4; i++)
            if (i != maker) {
                r[i] = cast_hear(i);
                assert_has(r[i], 2, r[other_than(maker, 0) < i ? other_than(maker, 0) : i].bytes);
            }
        first = r[other_than(maker, 0)];
        cast_enter(maker, MUSTER_JOIN_RECOVERABLE); /* its successor is the rank that misses */
        assert_has(do_take(maker, 4, 0), 2, first.bytes);
        cast_close();
    }
}

/* Whoever has an id of the dead is told on each host, and nobody gets it any more. */
TEST(an_id_whose_maker_or_taker_died_is_handed_to_nobody)
{
    for (int k = 0; k < 4; k++) {
        uint32_t maker = makers[k % 2], dead = k < 2 ? maker : other_than(maker, maker == 0), who;
        struct cast_reply r, fresh;
        char says[64];

        cast_open(TWO_HOSTS);
        enter_all(MUSTER_JOIN_RECOVERABLE);
        r = do_take(maker, 4, 0);
        assert_has(r, 1, NULL);
        for (uint32_t i = 0; i < 4; i++)
            if (i != maker && (i == dead || i == other_than(maker, 0)))
                assert_has(do_take(i, 4, 0), 1, r.bytes);
        cast_kill(dead);
        cast_until_known(dead, false);
        snprintf(says, sizeof says, "task %u (host node%d), which ", dead, dead > 1);
        for (uint32_t i = 0; i < 4; i++)
            if (i != dead) {
                struct cast_reply c = do_fn(i, rank_check, 1);

                if (c.status == MUSTER_OK && mu_host_of(cast_leader->seg, i) == 1) /* about to hear of it */
                    i--;
                else {
                    assert_reply(c, MUSTER_ABORTED);
                    assert_in(c.text, says);
                }
            }
        who = dead == 2 ? 3 : 2;
        fresh = do_take(who, 4, 0);
        assert_has(fresh, 2, NULL);
        assert_memory_not_equal(fresh.bytes, r.bytes, ID);
        r = do_fn(other_than(who, 0) == dead ? 1 - dead : other_than(who, 0), rank_check, 1);
        assert_reply(r, MUSTER_ABORTED);
        assert_in(r.text, "generation 2 has begun: task ");
        cast_close();
    }
}

TEST(a_host_that_is_given_up_takes_its_makers_with_it)
{
    struct cast_reply r;

    cast_open(THREE_HOSTS);
    enter_all(MUSTER_JOIN_RECOVERABLE);
    stop_maker(2, 4, 0); /* on host 1 */
    tell_take(0, 4, 0);
    tell_take(3, 4, 0); /* on host 2 */
    until_it_waits(0);
    until_it_waits(3);
    hosts_lose(cast_hosts, 0, 1, "it is silent");
    r = cast_hear(0);
    assert_has(r, 2, NULL);
    assert_has(cast_hear(3), 2, r.bytes);
    go_on(2); /* its call goes nowhere: its leader has given it up */
    hosts_lose(cast_hosts, 1, 0, "as the other says");
    assert_reply(cast_hear(2), MUSTER_UNAVAILABLE);
    cast_close();
}
