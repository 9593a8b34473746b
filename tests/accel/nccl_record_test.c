/*
 * tests/accel/nccl_record_test.c: the states of a communicator's id, one transition after another, without processes;
 * then many random histories of ranks that ask, make, die, come back and give up.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/nccl_record.h"
#include "seed.h"

enum { RANKS = 4, ROOM = 4096 };

/* Tasks as the record knows them: task i is rank i, and alive in one incarnation. */
static enum mu_nccl_presence present[RANKS];
static uint64_t incarnations[RANKS], now;

static enum mu_nccl_presence presence(void *arg, int32_t task, uint64_t incarnation, uint32_t attempt)
{
    (void)arg;
    (void)attempt;
    return incarnations[task] == incarnation ? present[task] : MU_NCCL_LOST;
}

static struct mu_nccl_asker asker(uint32_t rank)
{
    return (struct mu_nccl_asker){.nranks = RANKS,
                                  .nids = 1,
                                  .rank = rank,
                                  .version = 22809,
                                  .task = (int32_t)rank,
                                  .incarnation = incarnations[rank],
                                  .now = now,
                                  .expiry = 100,
                                  .presence = presence};
}

static _Alignas(8) char room[ROOM];
static struct mu_nccl_record r;
static char id[MUSTER_NCCL_ID_BYTES], reason[120];

static int begin(void)
{
    struct mu_nccl_asker a;

    now = 1000;
    for (uint32_t i = 0; i < RANKS; i++) {
        present[i] = MU_NCCL_HERE;
        incarnations[i] = 100 + i;
    }
    memset(room, 0, sizeof room);
    a = asker(0);
    mu_nccl_first(&r, room, &a);
    return 0;
}

static enum mu_nccl_answer ask(uint32_t rank)
{
    struct mu_nccl_asker a = asker(rank);

    return mu_nccl_request(&r, &a);
}

static bool made(uint32_t rank, uint64_t generation)
{
    struct mu_nccl_asker a = asker(rank);

    memset(id, (int)generation, sizeof id);
    return mu_nccl_made(&r, &a, generation, id);
}

static bool through(uint32_t rank, uint64_t generation)
{
    struct mu_nccl_asker a = asker(rank);

    return mu_nccl_done(&r, &a, generation);
}

static bool is_dead(uint64_t generation)
{
    struct mu_nccl_asker a = asker(0);

    return mu_nccl_is_dead(&r, &a, generation, reason);
}

TEST_WITH(all_take_then_the_next_generation_begins, begin, NULL)
{
    assert_int_equal(r.head->generation, 1);
    assert_int_equal(ask(1), MU_NCCL_WAIT);
    assert_true(made(0, 1));
    for (uint32_t i = 1; i < RANKS; i++) {
        assert_int_equal(ask(0), MU_NCCL_TWICE);
        assert_int_equal(ask(i), MU_NCCL_TAKE);
        assert_false(is_dead(1));
    }
    assert_int_equal(ask(2), MU_NCCL_MAKE);
    assert_int_equal(r.head->generation, 2);
    assert_int_equal(r.head->owner_task, 2);
    assert_false(is_dead(1)); /* all have it: it is in use */
    assert_false(is_dead(2));
}

/* Who holds a dead generation may look for the first time when many others have come and gone. */
TEST_WITH(who_holds_a_dead_generation_is_told_however_late_he_asks, begin, NULL)
{
    assert_true(made(0, 1));
    for (uint32_t i = 1; i < RANKS; i++)
        assert_int_equal(ask(i), MU_NCCL_TAKE);
    incarnations[2]++; /* killed before it had checked in, and started again: it is the first to ask */
    assert_int_equal(ask(2), MU_NCCL_MAKE);
    assert_true(is_dead(1));
    assert_non_null(strstr(reason, "generation 2 has begun: task 2, which is rank 2, is dead"));
    for (uint64_t generation = 2; generation < 60; generation++) {
        assert_true(made(2, generation));
        for (uint32_t i = 0; i < RANKS; i++)
            assert_int_equal(ask(i), i == 2 ? MU_NCCL_TWICE : MU_NCCL_TAKE);
        assert_int_equal(ask(2), MU_NCCL_MAKE);
        assert_true(is_dead(1));
        assert_false(is_dead(generation));
        assert_true(mu_nccl_has_died(&r));
    }
}

TEST_WITH(a_lost_maker_is_replaced, begin, NULL)
{
    present[0] = MU_NCCL_LOST;
    assert_int_equal(ask(1), MU_NCCL_MAKE);
    assert_int_equal(r.head->generation, 2);
    present[0] = MU_NCCL_HERE; /* it was only slow */
    assert_false(made(0, 1));
    assert_false(made(0, 2));
    assert_true(made(1, 2));
    assert_true(is_dead(1));
}

TEST_WITH(an_id_is_dead_when_its_maker_or_a_taker_is, begin, NULL)
{
    assert_true(made(0, 1));
    assert_int_equal(ask(1), MU_NCCL_TAKE);
    for (uint32_t who = 0; who < 2; who++)
        for (enum mu_nccl_presence how = MU_NCCL_LEFT; how <= MU_NCCL_LOST; how++) {
            present[who] = how;
            assert_true(is_dead(1));
            assert_non_null(strstr(reason, how == MU_NCCL_LEFT ? "has left" : "dead or in error"));
            present[who] = MU_NCCL_HERE;
            assert_false(is_dead(1));
        }
    present[3] = MU_NCCL_LOST; /* has not taken it */
    assert_false(is_dead(1));
    incarnations[1]++; /* the taker was replaced: who comes is another process */
    assert_true(is_dead(1));
    assert_int_equal(ask(1), MU_NCCL_MAKE);
    assert_int_equal(r.head->generation, 2);
    assert_non_null(strstr(r.head->reason, "task 1"));
}

TEST_WITH(who_is_through_may_leave_and_the_last_forgets, begin, NULL)
{
    assert_true(made(0, 1));
    for (uint32_t i = 1; i < RANKS; i++)
        assert_int_equal(ask(i), MU_NCCL_TAKE);
    present[3] = MU_NCCL_LEFT;
    assert_true(is_dead(1));
    assert_true(through(3, 1));
    assert_false(through(3, 1));
    assert_false(is_dead(1));
    present[3] = MU_NCCL_LOST;
    assert_true(is_dead(1));
    assert_false(through(0, 2));
}

/* A rank of another host takes in two steps; whatever is asked twice because the answer was lost is done once. */
TEST_WITH(what_another_host_asks_twice_is_done_once, begin, NULL)
{
    struct mu_nccl_asker a = asker(1), again = asker(1);
    char other[MUSTER_NCCL_ID_BYTES] = "another";

    a.claims = again.claims = again.resent = true;
    a.attempt = again.attempt = 7;
    assert_true(made(0, 1));
    assert_int_equal(mu_nccl_request(&r, &a), MU_NCCL_THERE);
    assert_int_equal(mu_nccl_request(&r, &again), MU_NCCL_THERE); /* nothing was changed by it */
    assert_int_equal(r.head->taken, 1);
    assert_int_equal(mu_nccl_claim(&r, &a, 1), MU_NCCL_TAKE);
    assert_int_equal(mu_nccl_claim(&r, &again, 1), MU_NCCL_TAKE);
    assert_int_equal(r.head->taken, 2);
    assert_int_equal(MU_NCCL_ATTEMPT(r.takers[1].flags), 7);
    assert_int_equal(mu_nccl_claim(&r, &a, 1), MU_NCCL_CLAIMED); /* a second time, and not the same call */
    assert_int_equal(mu_nccl_request(&r, &a), MU_NCCL_TWICE);
    for (uint32_t i = 2; i < RANKS; i++)
        assert_int_equal(ask(i), MU_NCCL_TAKE);
    assert_int_equal(mu_nccl_request(&r, &a), MU_NCCL_MAKE); /* the next one, whose maker's answer is lost */
    assert_int_equal(mu_nccl_request(&r, &again), MU_NCCL_MAKE);
    assert_int_equal(r.head->generation, 2);
    assert_int_equal(mu_nccl_claim(&r, &again, 1), MU_NCCL_TAKE); /* all had taken it, so this one, too */
    assert_int_equal(mu_nccl_claim(&r, &a, 1), MU_NCCL_AGAIN);
    assert_true(mu_nccl_made(&r, &a, 2, id));
    assert_true(mu_nccl_made(&r, &again, 2, other));
    assert_memory_equal(r.ids, id, sizeof id);
    assert_false(mu_nccl_made(&r, &a, 2, other));
    assert_int_equal(r.head->taken, 1);
    assert_true(mu_nccl_done(&r, &a, 2));
    assert_false(mu_nccl_done(&r, &again, 2));
    assert_int_equal(r.head->done, 1);
    assert_true(mu_nccl_fail(&r, 2, now, "enough"));
    assert_int_equal(ask(3), MU_NCCL_MAKE);
    assert_false(mu_nccl_made(&r, &again, 2, other)); /* it was made, and is dead */
    assert_int_equal(mu_nccl_claim(&r, &again, 2), MU_NCCL_AGAIN);
    assert_false(mu_nccl_fail(&r, 2, now, "enough"));
    assert_true(made(3, 3)); /* nor does the end of an earlier record of this name count for this one */
    assert_false(mu_nccl_done(&r, &again, 3));
    again.nids = 2;
    assert_false(mu_nccl_made(&r, &again, 3, other));
}

TEST_WITH(an_id_is_made_to_expire_once, begin, NULL)
{
    assert_false(mu_nccl_expire(&r, UINT64_MAX)); /* being made */
    assert_true(made(0, 1));
    assert_false(mu_nccl_expire(&r, now + 99));
    assert_true(mu_nccl_expire(&r, now + 100));
    assert_int_equal(r.head->state, MUSTER_NCCL_FAILED);
    assert_non_null(strstr(r.head->reason, "only 1 of 4 ranks"));
    assert_false(mu_nccl_expire(&r, now + 101));
    assert_true(is_dead(1));
    assert_int_equal(ask(1), MU_NCCL_MAKE);
    assert_true(made(1, 2));
    for (uint32_t i = 0; i < RANKS; i++)
        if (i != 1)
            assert_int_equal(ask(i), MU_NCCL_TAKE);
    assert_false(mu_nccl_expire(&r, UINT64_MAX)); /* all have it */
}

TEST_WITH(expiry_is_for_those_who_never_come, begin, NULL)
{
    now += 1000000; /* a maker may take its time */
    assert_int_equal(ask(1), MU_NCCL_WAIT);
    assert_true(made(0, 1));
    now += 99;
    assert_false(is_dead(1));
    now += 1;
    assert_true(is_dead(1));
    assert_non_null(strstr(reason, "only 1 of 4"));
    now -= 1;
    for (uint32_t i = 1; i < RANKS; i++)
        assert_int_equal(ask(i), MU_NCCL_TAKE);
    now += 1000000;
    assert_false(is_dead(1));
}

TEST_WITH(another_version_ends_the_generation_and_names_both, begin, NULL)
{
    struct mu_nccl_asker a = asker(2);

    assert_true(made(0, 1));
    a.version = 23203;
    assert_int_equal(mu_nccl_request(&r, &a), MU_NCCL_OTHER_VERSION);
    assert_true(is_dead(1));
    assert_string_equal(reason, "task 2 has NCCL 2.32.3, but the id was made by task 0 with 2.28.9");
    assert_int_equal(ask(1), MU_NCCL_MAKE);
}

TEST_WITH(other_numbers_are_refused_until_the_next_generation, begin, NULL)
{
    struct mu_nccl_asker a = asker(1);

    a.nranks = 2;
    assert_int_equal(mu_nccl_request(&r, &a), MU_NCCL_OTHER_COUNT);
    assert_true(made(0, 1));
    assert_int_equal(mu_nccl_request(&r, &a), MU_NCCL_OTHER_COUNT);
    a = asker(1);
    a.task = 3;
    a.rank = 0;
    a.incarnation = incarnations[3];
    assert_int_equal(mu_nccl_request(&r, &a), MU_NCCL_CLAIMED);
    assert_true(mu_nccl_fail(&r, 1, now, "because"));
    assert_false(mu_nccl_fail(&r, 1, now, "again"));
    a = asker(1);
    a.nranks = 2;
    a.nids = 2;
    assert_int_equal(mu_nccl_request(&r, &a), MU_NCCL_MAKE);
    assert_int_equal(r.head->nranks, 2);
    assert_int_equal(r.head->nids, 2);
    assert_string_equal(r.head->reason, "because");
}

TEST_WITH(what_is_not_well_formed_is_seen, begin, NULL)
{
    size_t len = mu_nccl_record_size(RANKS, 1);
    struct mu_nccl_record view;

    assert_true(mu_nccl_record_view(&view, room, len));
    for (size_t cut = 0; cut < len; cut++)
        assert_false(mu_nccl_record_view(&view, room, cut));
    r.head->nranks = 0;
    assert_false(mu_nccl_record_view(&view, room, len));
    r.head->nranks = UINT32_MAX;
    assert_false(mu_nccl_record_view(&view, room, len));
    r.head->nranks = RANKS;
    r.head->state = 9;
    assert_false(mu_nccl_record_view(&view, room, len));
    r.head->state = MUSTER_NCCL_READY;
    r.head->owner_rank = RANKS;
    assert_false(mu_nccl_record_view(&view, room, len));
}

/*
 * Random histories against a plain account of who holds what: a generation has one maker, no rank has it twice, and
 * none is handed out when its maker is gone.
 */
static uint64_t holds[RANKS], making[RANKS];

static void one_step(struct test_random *random)
{
    uint32_t rank = (uint32_t)test_below(random, RANKS);
    uint64_t before = r.head->generation;
    enum mu_nccl_answer answer;

    now += test_below(random, 8);
    switch (test_below(random, 8)) {
    case 0: /* dies, or comes back as another */
        present[rank] = present[rank] == MU_NCCL_HERE ? MU_NCCL_LOST : MU_NCCL_HERE;
        incarnations[rank] += present[rank] == MU_NCCL_HERE;
        holds[rank] = making[rank] = 0;
        return;
    case 1:
        mu_nccl_fail(&r, holds[rank], now, "given up");
        holds[rank] = 0;
        return;
    default: break;
    }
    if (present[rank] != MU_NCCL_HERE)
        return;
    if (making[rank]) {
        bool owner = r.head->generation == making[rank] && r.head->state == MUSTER_NCCL_MAKING;

        assert_int_equal(made(rank, making[rank]), owner);
        holds[rank] = owner ? making[rank] : 0;
        making[rank] = 0;
        return;
    }
    answer = ask(rank);
    assert_true(r.head->generation == before + (answer == MU_NCCL_MAKE));
    if (answer == MU_NCCL_MAKE)
        making[rank] = r.head->generation;
    if (answer == MU_NCCL_TWICE)
        assert_int_equal(holds[rank], r.head->generation);
    if (answer == MU_NCCL_TAKE) {
        assert_int_not_equal(holds[rank], r.head->generation);
        assert_int_equal(r.ids[0], (char)r.head->generation);
        assert_int_equal(present[r.head->owner_task], MU_NCCL_HERE);
        holds[rank] = r.head->generation;
    }
    if (answer == MU_NCCL_WAIT)
        assert_int_equal(making[r.head->owner_rank], r.head->generation);
}

TEST(random_histories_keep_the_rules)
{
    struct test_random random = {test_seed()};

    for (int history = 0; history < 300; history++) {
        begin();
        memset(holds, 0, sizeof holds);
        memset(making, 0, sizeof making);
        making[0] = 1;
        for (int i = 0; i < 500; i++)
            one_step(&random);
        assert_true(r.head->generation > 10);
    }
}
