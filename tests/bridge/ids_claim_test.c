/*
 * tests/bridge/ids_claim_test.c: another host's rank claims ids that are there, and its call gets no answer: the caller
 * dies, its leader is lost or replaced, or it waits no longer. Whether or not the leader had carried the call out, the
 * ids are had by who got them and nobody else, and no rank waits for one that will not come. (The library is a FAKE
 * one: ranks.h.)
 */
#include "ranks.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include <muster/muster.h>

enum { MAKER = 0, CLAIMER = 3, OTHER = 2 }; /* the last two on host 1 */
#define PATIENCE_NS 600000000000u           /* hosts that are slow because this machine is are not given up */

static const struct hosts_config config = {.tasks = {2, 2}, .stepped = true, .timeout_ns = PATIENCE_NS};

static uint32_t taken(void)
{
    struct muster_nccl_info info;

    assert_ok(muster_nccl_get(cast_leader, "world", &info));
    return info.taken;
}

/* Agents are driven until it has. */
static struct cast_reply hear(uint32_t task)
{
    hosts_await(cast_hosts, cast_has_answered(task), "task %u gets an answer", task);
    return cast_hear(task);
}

static struct cast_reply act(uint32_t task, struct cast_act a)
{
    cast_tell(task, &a);
    return hear(task);
}

static bool has_failed(void)
{
    struct muster_nccl_info info;

    assert_ok(muster_nccl_get(cast_leader, "world", &info));
    return info.state == MUSTER_NCCL_FAILED;
}

/* One agent's step; tasks have the time between two. */
static void step(uint32_t host)
{
    struct timespec pause = {0, 200000};

    if (!hosts_step(cast_hosts, host))
        nanosleep(&pause, NULL); /* sleep: for a process that is about to ask */
}

/*
 * The maker has its ids, and the claimer's call for them is with the leader, carried out or not; then the connection
 * breaks, and with it goes the call, or the answer. ret_made: what the maker has.
 */
static void open_claim(bool is_carried_out, uint64_t patience_ns, struct cast_reply *ret_made)
{
    struct cast_act claim = taking("world", 4, CLAIMER, 0);
    uint64_t calls;
    int steps = 0;

    claim.patience_ns = patience_ns;
    cast_open(&config);
    enter_all(MUSTER_JOIN_RECOVERABLE);
    *ret_made = act(MAKER, taking("world", 4, MAKER, 0));
    assert_has(*ret_made, 1, NULL);
    hosts_settle(cast_hosts, NULL);
    calls = hosts_frames(cast_hosts, 1, MU_FRAME_CALL);
    cast_tell(CLAIMER, &claim);
    while (hosts_frames(cast_hosts, 1, MU_FRAME_CALL) < calls + 2) { /* it asks; it claims */
        step(1);
        if (hosts_frames(cast_hosts, 1, MU_FRAME_CALL) < calls + 2)
            step(0);
        assert_true(++steps < 200000);
    }
    assert_int_equal(taken(), 1);
    for (; is_carried_out && taken() == 1; steps++) {
        step(0);
        assert_true(steps < 200000);
    }
    hosts_cut(cast_hosts, 1);
    assert_int_equal(taken(), 1u + is_carried_out);
    assert_false(cast_has_answered(CLAIMER));
}

/* Those who have the id hear of its death; or it never had it, and the others go on. */
TEST(a_claimer_that_dies_is_one_of_the_dead_or_never_was_a_taker)
{
    for (int is_carried_out = 0; is_carried_out < 2; is_carried_out++) {
        struct cast_reply made, r;

        open_claim(is_carried_out, 0, &made);
        cast_kill(CLAIMER);
        hosts_join(cast_hosts, 1);
        cast_until_known(CLAIMER, false);
        hosts_settle(cast_hosts, NULL);
        r = act(MAKER, act_of(rank_check, "world", 1));
        if (is_carried_out || r.status) { /* its host may say the call again before it sees that the caller is dead */
            assert_reply(r, MUSTER_ABORTED);
            assert_in(r.text, "task 3 (host node1), which ");
            r = act(OTHER, taking("world", 4, OTHER, 0));
            assert_has(r, 2, NULL);
            assert_memory_not_equal(r.bytes, made.bytes, sizeof made.bytes);
        } else {
            assert_reply(r, MUSTER_OK);
            assert_has(act(OTHER, taking("world", 4, OTHER, 0)), 1, made.bytes);
            cast_enter(CLAIMER, MUSTER_JOIN_RECOVERABLE); /* its successor is the rank that misses */
            assert_has(act(CLAIMER, taking("world", 4, CLAIMER, 0)), 1, made.bytes);
        }
        cast_close();
    }
}

TEST(a_claim_is_made_once_by_the_leaders_next_agent)
{
    for (int is_carried_out = 0; is_carried_out < 2; is_carried_out++) {
        struct cast_reply made;

        open_claim(is_carried_out, 0, &made);
        hosts_kill(cast_hosts, 0);
        hosts_start(cast_hosts, 0);
        assert_has(hear(CLAIMER), 1, made.bytes);
        assert_int_equal(taken(), 2);
        hosts_mend(cast_hosts);
        assert_reply(act(MAKER, act_of(rank_check, "world", 1)), MUSTER_OK);
        cast_close();
    }
}

TEST(without_a_leader_there_is_no_id)
{
    for (int is_carried_out = 0; is_carried_out < 2; is_carried_out++) {
        struct cast_reply made, r;

        open_claim(is_carried_out, 0, &made);
        hosts_lose(cast_hosts, 1, 0, "it is silent");
        r = hear(CLAIMER);
        assert_reply(r, MUSTER_UNAVAILABLE);
        assert_int_equal(r.number, 0);
        hosts_lose(cast_hosts, 0, 1, "it is silent, too"); /* those whom the leader took for takers are dead there */
        hosts_settle(cast_hosts, NULL);
        r = act(MAKER, act_of(rank_check, "world", 1));
        assert_reply(r, is_carried_out ? MUSTER_ABORTED : MUSTER_OK);
        cast_close();
    }
}

/* What it may have been given it gives back: nobody relies on a rank that will not use the id. */
TEST(who_waits_no_longer_takes_the_claim_back)
{
    for (int is_carried_out = 0; is_carried_out < 2; is_carried_out++) {
        struct cast_reply made, r;

        open_claim(is_carried_out, 50000000, &made);
        r = hear(CLAIMER); /* a second later: claims are given that long */
        assert_reply(r, MUSTER_DEADLINE_EXCEEDED);
        hosts_join(cast_hosts, 1);
        hosts_await(cast_hosts, has_failed(), "the generation has failed (%d)", is_carried_out);
        r = act(MAKER, act_of(rank_check, "world", 1));
        assert_reply(r, MUSTER_ABORTED);
        assert_in(r.text, "task 3 (host node1): the deadline passed");
        r = act(CLAIMER, taking("world", 4, CLAIMER, 0));
        assert_has(r, 2, NULL);
        assert_has(act(MAKER, taking("world", 4, MAKER, 0)), 2, r.bytes);
        cast_close();
    }
}
