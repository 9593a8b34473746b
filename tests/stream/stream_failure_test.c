/*
 * tests/stream/stream_failure_test.c: stream barriers whose members are killed at any moment, put in error, leave or
 * give up: every survivor's stream runs empty, all are told the same last sound round and who is to blame, and no round
 * up to it was passed early. The seed is printed; it may be given as the first argument.
 * variants: release asan tsan
 */
#include "band.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static void let_play(uint64_t rounds)
{
    uint64_t until = atomic_load(&coord->at[0]) + rounds;

    await(atomic_load(&coord->at[0]) >= until, "the streams go on");
}

/* No synchronisation: some instructions go by, so that deaths come at all moments. */
static void dawdle(uint64_t most)
{
    for (volatile uint64_t i = draw(most + 1); i; i--)
        ;
}

static void tell_all_play(uint32_t members)
{
    struct play_act a = {.wait = true};

    for (uint32_t i = 0; i < members; i++)
        stage_tell((int)i, act_stream_play, &a, sizeof a);
}

/* All whose bit is set in `who` answer the same, with words that name the culprit. */
static void hear_failure(uint32_t who, int status, const char *culprit)
{
    uint64_t good = UINT64_MAX;

    for (int i = 0; who >> i; i++) {
        struct reply r;
        struct play_answer a;

        if (!(who >> i & 1))
            continue;
        r = stage_hear(i);
        assert_status(r, status);
        assert_says(r.text, culprit);
        a = answer_of(&r);
        good = good == UINT64_MAX ? a.good : good;
        if (a.good != good || (a.early && a.early <= good))
            fail_msg("member %d: sound to round %llu, passed early %llu; another says sound to %llu", i,
                     (unsigned long long)a.good, (unsigned long long)a.early, (unsigned long long)good);
    }
}

static void rounds_of_kills(uint32_t members, int rounds)
{
    static const uint64_t firsts[] = {1, MU_STREAM_EPOCH - 10, MU_STREAM_EPOCH + MU_STREAM_RESET - 10};

    for (int round = 0; round < rounds; round++) {
        uint32_t victim = (uint32_t)draw(members);
        char name[32];

        band_open(members);
        band_create(members, firsts[round % 3]);
        tell_all_play(members);
        let_play(draw(30));
        dawdle(30000);
        stage_kill((int)victim);
        if (round % 2) /* an agent may look at once; else the members find it themselves */
            assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
        snprintf(name, sizeof name, "task %u (pid", victim);
        hear_failure(((1u << members) - 1) & ~(1u << victim), MUSTER_UNAVAILABLE, name);
        band_close();
    }
}

STAGE_TEST(two_members_of_whom_one_is_killed)
{
    rounds_of_kills(2, 30);
}

STAGE_TEST(four_members_of_whom_one_is_killed)
{
    rounds_of_kills(4, 20);
}

STAGE_TEST(eight_members_of_whom_one_is_killed)
{
    rounds_of_kills(8, 6);
}

STAGE_TEST(members_killed_one_after_the_other_leave_the_last_one_free)
{
    for (int round = 0; round < 5; round++) {
        band_open(4);
        band_create(4, 0);
        tell_all_play(4);
        let_play(draw(20));
        for (int i = 0; i < 3; i++) {
            stage_kill((i + round) % 4);
            dawdle(100000);
        }
        hear_failure(1u << (3 + round) % 4, MUSTER_UNAVAILABLE, "(pid");
        band_close();
    }
}

/* Whoever found a loss may be killed at every step of telling it. */
STAGE_TEST(a_finder_that_is_killed_between_its_steps_leaves_no_wait_closed)
{
    struct play_act endless = {.wait = true};

    for (uint32_t steps = 0; steps <= 1 + 2 * 3; steps++) {
        bool hold = true;

        band_open(3);
        band_create(3, 0);
        /* member 0 is slow, so that the stream of member 1 hangs in a wait, whichever of its words are open */
        assert_status(stage_do(0, act_stream_hold, &hold, sizeof hold), MUSTER_OK);
        stage_tell(1, act_stream_play, &endless, sizeof endless);
        stage_tell(2, act_stream_die_failing, &steps, sizeof steps);
        assert_int_equal(stage_end(2), SIGKILL);
        hear_failure(2, MUSTER_UNAVAILABLE,
                     "(pid"); /* the dead finder's word, or the dead one, whichever is seen first */
        assert_status(do_plain(0, act_stream_free), MUSTER_OK);
        assert_status(do_plain(1, act_stream_free), MUSTER_OK);
        band_close();
    }
}

/* It lives, and its stream writes its flags long after the others were let go: that shuts nobody in. */
STAGE_TEST(a_member_in_error_writes_on_and_the_others_are_free)
{
    struct play_act some = {.rounds = 500}, endless = {.wait = true};

    for (int round = 0; round < 5; round++) {
        bool hold = true;

        band_open(3);
        band_create(3, 0);
        for (int i = 1; i < 3; i++) {
            assert_status(stage_do(i, act_stream_hold, &hold, sizeof hold), MUSTER_OK);
            assert_status(stage_do(i, act_stream_play, &some, sizeof some), MUSTER_OK);
        }
        stage_tell(0, act_stream_play, &endless, sizeof endless);
        assert_status(do_report(1, 1, MUSTER_INTERNAL, "its GPU has an uncorrectable error"), MUSTER_OK);
        hear_failure(1, MUSTER_UNAVAILABLE, "uncorrectable error"); /* so the waits are open */
        hold = false;
        for (int i = 1; i < 3; i++) { /* first it writes on, then the other has to pass what it wrote */
            assert_status(stage_do(i, act_stream_hold, &hold, sizeof hold), MUSTER_OK);
            stage_tell(i, act_stream_result, NULL, 0);
            hear_failure(1u << i, MUSTER_UNAVAILABLE, "task 1 (pid");
        }
        for (int i = 0; i < 3; i++) { /* for good */
            struct reply r = stage_do(i, act_stream_play, &some, sizeof some);

            assert_status(r, MUSTER_UNAVAILABLE);
            assert_says(r.text, "failed after round");
        }
        band_close();
    }
}

STAGE_TEST(who_gives_up_gives_up_for_all_with_its_reason)
{
    struct play_act nine = {.rounds = 9};
    bool hold = true;

    band_open(3);
    band_create(3, 0);
    assert_status(stage_do(2, act_stream_hold, &hold, sizeof hold), MUSTER_OK);
    assert_status(stage_do(0, act_stream_play, &nine, sizeof nine), MUSTER_OK);
    assert_status(stage_do(1, act_stream_play, &nine, sizeof nine), MUSTER_OK);
    assert_status(do_text(2, act_stream_abort, "the loss is not a number"), MUSTER_OK);
    tell_plain(0, act_stream_result);
    tell_plain(1, act_stream_result);
    hear_failure(3, MUSTER_ABORTED, "task 2 (pid");
    tell_plain(0, act_stream_result);
    hear_failure(1, MUSTER_ABORTED, "gave up: the loss is not a number");
    band_close();
}

STAGE_TEST(who_frees_after_as_many_rounds_harms_nobody_and_after_fewer_is_named)
{
    struct play_act two = {.rounds = 2, .wait = true}, one = {.rounds = 1, .wait = true};
    struct reply r;

    band_open(2);
    band_create(2, 0);
    stage_tell(0, act_stream_play, &two, sizeof two);
    assert_status(stage_do(1, act_stream_play, &two, sizeof two), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    assert_status(do_plain(1, act_stream_free), MUSTER_OK);
    r = do_plain(0, act_stream_result);
    assert_status(r, MUSTER_OK);
    assert_int_equal(answer_of(&r).good, 2);
    r = stage_do(0, act_stream_play, &(struct play_act){.rounds = 1}, sizeof one);
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "task 1 (pid");
    assert_says(r.text, "fewer rounds");
    band_close();
}

STAGE_TEST(who_leaves_the_job_is_named)
{
    band_open(3);
    band_create(3, 0);
    stage_tell(0, act_stream_play, &(struct play_act){.wait = true}, sizeof(struct play_act));
    stage_tell(2, act_stream_play, &(struct play_act){.wait = true}, sizeof(struct play_act));
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    hear_failure(5, MUSTER_UNAVAILABLE, "task 1 (pid");
    band_close();
}

/* Whoever is told that it could not be made, or not any more, is told who died. True: while it was made. */
static int hear_of_a_death(int i, const char *dead)
{
    struct play_act some = {.rounds = 5, .wait = true};
    struct reply r = stage_hear(i);

    if (r.status) {
        assert_status(r, MUSTER_UNAVAILABLE);
        assert_says(r.text, dead);
        return 1;
    }
    stage_tell(i, act_stream_play, &some, sizeof some);
    hear_failure(1u << i, MUSTER_UNAVAILABLE, dead);
    assert_status(do_plain(i, act_stream_free), MUSTER_OK);
    return 0;
}

/* Killed while the barrier is made, at all moments, also who makes its memory: those who make it with the dead are
 * told, and can make another. */
STAGE_TEST(a_death_while_it_is_made_ends_the_making_for_all)
{
    int refused = 0;

    for (int round = 0; round < 60; round++) {
        int victim = round % 3, rest[2] = {victim == 0, 2 - (victim == 2)};
        struct create_act a = {.name = "b"}, again = {.name = "b", .tasks = {rest[0], rest[1]}, .count = 2};
        struct play_act some = {.rounds = 5, .wait = true};
        char dead[32];

        snprintf(dead, sizeof dead, "task %d", victim);
        band_open(3);
        for (int i = 2; i >= 0; i--)
            tell_create(i, &a);
        dawdle(12000000);
        stage_kill(victim);
        for (int i = 0; i < 2; i++)
            refused += hear_of_a_death(rest[i], dead);
        for (int i = 0; i < 2; i++)
            tell_create(rest[i], &again);
        for (int i = 0; i < 2; i++)
            assert_status(stage_hear(rest[i]), MUSTER_OK);
        for (int i = 0; i < 2; i++)
            stage_tell(rest[i], act_stream_play, &some, sizeof some);
        for (int i = 0; i < 2; i++)
            assert_status(stage_hear(rest[i]), MUSTER_OK);
        band_close();
    }
    print_message("%d of 120 were told while it was made, the others after\n", refused);
}

STAGE_TEST(a_restarted_member_makes_it_again_with_the_survivors)
{
    int last = 2;

    band_open(2);
    stage_kill(1);
    assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
    assert_int_equal(muster_task_reset(stage_observer, 1), MUSTER_OK);
    for (int round = 0; round < 5; round++) {
        struct create_act a = {.name = "b"};

        last = stage_enter(1, MUSTER_JOIN_RECOVERABLE);
        tell_create(0, &a);
        tell_create(last, &a);
        assert_status(stage_hear(0), MUSTER_OK);
        assert_status(stage_hear(last), MUSTER_OK);
        stage_tell(0, act_stream_play, &(struct play_act){.wait = true}, sizeof(struct play_act));
        stage_tell(last, act_stream_play, &(struct play_act){.wait = true}, sizeof(struct play_act));
        stage_kill(last);
        hear_failure(1, MUSTER_UNAVAILABLE, "task 1 (pid");
        assert_status(do_plain(0, act_stream_free), MUSTER_OK);
    }
    stage_close();
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : muster_now_ns() | 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    return test_run(NULL, NULL);
}
