/*
 * tests/stream/stream_lines_test.c: the protocol of the stream barrier alone, under a seeded scheduler.
 *
 * Every member's operations are executed one at a time, in its order, by whoever the seed picks; each may also be
 * picked to fail the barrier, in the small steps between which a SIGKILL may come, and to be killed between them. What
 * must hold: nobody goes on behind a sound round before all have arrived, and everybody's stream runs empty.
 * A seed is printed and may be given as the first argument.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accel/stream.h"
#include "seed.h"

enum { MEMBERS = 5, ROUNDS = 24 };

struct player {
    struct mu_stream_op ops[MU_STREAM_OPS_MAX];
    uint32_t count, at;
    uint64_t round;   /* whose operations these are */
    uint64_t last;    /* its last one */
    bool dead;        /* executes nothing more */
    uint32_t failing; /* 0: no; else the next step of failing */
};

struct world {
    struct mu_stream_page page;
    struct player players[MEMBERS];
    uint32_t size;
    uint64_t first, early; /* the first round that somebody passed before all had arrived; 0: none */
    uint64_t arrived[MEMBERS];
    bool without_reset;
    struct test_random random;
};

static struct test_random seeds;

static void next_round(struct world *w, uint32_t rank)
{
    struct player *p = &w->players[rank];

    p->count = 0;
    p->at = 0;
    p->round++;
    if (p->round > p->last)
        return;
    p->count = mu_stream_plan(rank, w->size, p->round, p->ops);
    if (w->without_reset && p->ops[1].kind == MU_STREAM_WRITE_32) {
        memmove(p->ops, p->ops + 1, --p->count * sizeof *p->ops);
        assert_int_equal(p->ops[0].kind, MU_STREAM_WRITE_32);
    }
}

static void start(struct world *w, uint32_t size, uint64_t first)
{
    memset(w, 0, sizeof *w);
    w->size = size;
    w->first = first;
    w->random = seeds;
    test_random(&seeds);
    mu_stream_format(&w->page, size, first);
    for (uint32_t i = 0; i < size; i++) {
        w->players[i].round = first - 1;
        w->players[i].last = first - 1 + ROUNDS;
        w->arrived[i] = first - 1;
        next_round(w, i);
    }
}

static bool is_done(const struct player *p)
{
    return p->dead || p->round > p->last;
}

/* One operation, if it can be executed. */
static bool step(struct world *w, uint32_t rank)
{
    struct player *p = &w->players[rank];
    const struct mu_stream_op *op = &p->ops[p->at];
    struct mu_stream_word *word = (struct mu_stream_word *)((char *)&w->page + op->offset);

    if (is_done(p))
        return false;
    if (op->kind == MU_STREAM_WRITE_32) {
        atomic_store(&word->arrived, (uint32_t)op->value);
        if (op->value)
            w->arrived[rank] = p->round;
    } else if ((int64_t)(((uint64_t)word->released << 32 | word->arrived) - op->value) < 0) {
        return false;
    }
    if (++p->at < p->count)
        return true;
    for (uint32_t i = 0; i < w->size; i++)
        if (w->arrived[i] < p->round && (!w->early || p->round < w->early))
            w->early = p->round;
    next_round(w, rank);
    return true;
}

/* mu_stream_fail() in the steps between which its caller may be killed. False when all are done. */
static bool fail_step(struct world *w, uint32_t rank)
{
    struct player *p = &w->players[rank];
    uint32_t line = (p->failing - 2) / 2, word = p->failing % 2;

    if (p->failing == 1) {
        uint64_t good = mu_stream_good(&w->page, w->size, p->round), none = 0;

        atomic_compare_exchange_strong(&w->page.failed, &none, MU_STREAM_FAILED(good, rank, MU_STREAM_LOST));
    } else if (line < w->size) {
        atomic_store(&w->page.lines[line].words[word].released, 1);
    } else {
        return false;
    }
    p->failing++;
    return true;
}

/* Until nobody can go on. */
static void run_out(struct world *w)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < w->size; i++)
            while (step(w, i))
                moved = true;
    }
}

static void play(struct world *w, uint32_t moves)
{
    for (uint32_t i = 0; i < moves; i++)
        step(w, (uint32_t)test_below(&w->random, w->size));
}

static const uint64_t beginnings[] = {
    1,
    MU_STREAM_RESET - 7,
    MU_STREAM_EPOCH - 7,
    MU_STREAM_EPOCH + MU_STREAM_RESET - 7,
    2 * MU_STREAM_EPOCH - 7,
    2 * MU_STREAM_EPOCH + MU_STREAM_RESET - 7,
    3 * MU_STREAM_EPOCH - 7,
    (1ull << 40) - 7,
};

TEST(nobody_goes_on_before_all_have_come_also_where_numbers_begin_anew)
{
    static struct world w;

    for (size_t b = 0; b < sizeof beginnings / sizeof *beginnings; b++)
        for (int i = 0; i < 200; i++) {
            start(&w, 2 + (uint32_t)i % (MEMBERS - 1), beginnings[b]);
            play(&w, 2000);
            run_out(&w);
            for (uint32_t k = 0; k < w.size; k++) {
                assert_true(is_done(&w.players[k]));
                assert_int_equal(mu_stream_arrived(&w.page, k, w.players[k].last), w.players[k].last);
            }
            assert_int_equal(w.early, 0);
            assert_int_equal(mu_stream_good(&w.page, w.size, w.players[0].last), w.players[0].last);
        }
}

TEST(arrivals_are_read_right_at_every_moment)
{
    static struct world w;

    for (size_t b = 0; b < sizeof beginnings / sizeof *beginnings; b++)
        for (int i = 0; i < 20; i++) {
            start(&w, 3, beginnings[b]);
            for (int k = 0; k < 1500; k++) {
                uint32_t reader = (uint32_t)test_below(&w.random, w.size),
                         rank = (uint32_t)test_below(&w.random, w.size);
                /* what the reader's process may have enqueued by now: its round, or many more */
                uint64_t enqueued = w.players[reader].round + test_below(&w.random, 2) * MU_STREAM_AHEAD;

                step(&w, (uint32_t)test_below(&w.random, w.size));
                if (enqueued > w.first) /* one before its first round nothing is known of an earlier epoch */
                    assert_int_equal(mu_stream_arrived(&w.page, rank, enqueued), w.arrived[rank]);
            }
        }
}

/* The rule is there for a reason: without it the stale number of two epochs ago opens a wait. This test sees that. */
TEST(without_the_reset_a_round_would_open_early)
{
    static struct world w;
    uint64_t early = 0;

    for (int i = 0; i < 50 && !early; i++) {
        start(&w, 3, MU_STREAM_EPOCH + MU_STREAM_RESET - 1);
        w.without_reset = true;
        /* from the middle of an epoch to the next: those 2^30 rounds are left out, the words set as they would be */
        for (uint32_t k = 0; k < w.size; k++)
            next_round(&w, k);
        for (uint32_t k = 0; k < w.size; k++) {
            assert_int_equal(w.page.lines[k].words[0].arrived, MU_STREAM_EPOCH);
            w.page.lines[k].words[1].arrived = (uint32_t)MU_STREAM_EPOCH - 2;
            w.players[k].round = 2 * MU_STREAM_EPOCH - 2;
            w.players[k].last = w.players[k].round + ROUNDS;
            w.arrived[k] = w.players[k].round;
            next_round(&w, k);
        }
        play(&w, 2000);
        early = w.early;
    }
    assert_int_equal(early, 2 * MU_STREAM_EPOCH + 1);
}

/*
 * A member dies at some moment; another finds it, and may be killed at any step of failing the barrier, up to all but
 * one; the last one finishes. The dead one's device may have some operations left in its queue, which come late.
 */
static void die(struct world *w, uint64_t *ret_good)
{
    uint32_t victim = (uint32_t)test_below(&w->random, w->size), finder = (victim + 1) % w->size;
    uint32_t late = (uint32_t)test_below(&w->random, 40);
    uint32_t last = (victim + w->size - 1) % w->size;

    play(w, (uint32_t)test_below(&w->random, 400));
    w->players[victim].last = w->players[victim].round + test_below(&w->random, 3); /* what its queue still holds */
    for (;; finder = (finder + 1) % w->size) {
        uint32_t steps = finder == last ? UINT32_MAX : (uint32_t)test_below(&w->random, 2 * w->size + 4);

        w->players[finder].failing = 1;
        while (steps-- && fail_step(w, finder))
            play(w, (uint32_t)test_below(&w->random, 6));
        if (finder == last)
            break;
        w->players[finder].last = w->players[finder].round + test_below(&w->random, 3); /* killed, too */
    }
    for (uint32_t i = 0; i < late; i++)
        step(w, victim);
    run_out(w);
    *ret_good = MU_STREAM_GOOD(w->page.failed);
}

TEST(whoever_dies_wherever_the_others_run_empty_and_know_what_is_sound)
{
    static struct world w;

    for (size_t b = 0; b < sizeof beginnings / sizeof *beginnings; b++)
        for (int i = 0; i < 400; i++) {
            uint64_t good = 0;

            start(&w, 2 + (uint32_t)i % (MEMBERS - 1), beginnings[b]);
            die(&w, &good);
            for (uint32_t k = 0; k < w.size; k++)
                if (!is_done(&w.players[k]))
                    fail_msg("member %u of %u hangs in round %llu", k, w.size, (unsigned long long)w.players[k].round);
            if (w.early && w.early <= good)
                fail_msg("round %llu was passed early, and round %llu is called sound", (unsigned long long)w.early,
                         (unsigned long long)good);
            assert_true(good >= w.first - 1);
        }
}

/* mu_stream_fail() itself opens everything, once and for all: the owner's next writes do not close it again. */
TEST(a_release_cannot_be_taken_back_by_the_owner)
{
    static struct world w;

    start(&w, 3, 1);
    play(&w, 100);
    mu_stream_fail(&w.page, w.size, w.players[1].round, 2, MU_STREAM_LOST);
    assert_int_equal(MU_STREAM_CULPRIT(w.page.failed), 2);
    assert_int_equal(MU_STREAM_CAUSE(w.page.failed), MU_STREAM_LOST);
    for (uint32_t i = 0; i < ROUNDS * 10; i++)
        step(&w, 2); /* it lives, and writes on */
    assert_true(is_done(&w.players[2]));
    run_out(&w);
    assert_true(is_done(&w.players[0]) && is_done(&w.players[1]));
    /* a second failure changes neither number nor name */
    mu_stream_fail(&w.page, w.size, 1000, 0, MU_STREAM_GIVEN_UP);
    assert_int_equal(MU_STREAM_CULPRIT(w.page.failed), 2);
}

int main(int argc, char **argv)
{
    seeds.state = argc > 1 ? strtoull(argv[1], NULL, 10) : test_seed();
    return test_run(NULL, NULL);
}
