/*
 * tests/checkpoint/relay_test.c: what agents of several hosts tell each other of checkpoints: in any order of saving,
 * telling and hearing, with agents that are replaced and jobs that are started again, no host takes for whole what is
 * not, none is behind what another has waited for when the job is started again, and nobody is left waiting. What is
 * damaged is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/private.h"
#include "test.h"

enum { HOSTS = 3, EACH = 2, RANKS = HOSTS * EACH, LETTERS_MAX = 4096 };

struct letter {
    uint32_t from, to;
    void *bytes;
    size_t len;
};

static struct mu_checkpoint_relay *relays[HOSTS];
static struct mu_checkpoint_head *heads[HOSTS];
static char runs[HOSTS][64];
static struct letter letters[LETTERS_MAX]; /* in the order in which they were sent */
static size_t num_letters, said;
static uint64_t now = 1, saved[RANKS];
static uint32_t speaker;

static uint32_t dice(uint32_t sides)
{
    return (uint32_t)random() % sides;
}

static void letter_put(uint32_t to, const struct mu_pack *what)
{
    struct letter *l = &letters[num_letters++];

    assert_in_range(num_letters, 1, LETTERS_MAX);
    *l = (struct letter){.from = speaker, .to = to, .bytes = malloc(what->len), .len = what->len};
    memcpy(l->bytes, what->bytes, what->len);
    said++;
}

static void say(void *arg, const struct mu_pack *what)
{
    (void)arg;
    for (uint32_t h = 0; h < HOSTS; h++)
        if (h != speaker && (speaker == 0 || h == 0))
            letter_put(h, what);
}

static uint64_t look(uint32_t host)
{
    speaker = host;
    return mu_checkpoint_relay_look(relays[host], now, true, say, NULL);
}

static void letter_hear(size_t i)
{
    struct letter l = letters[i];
    struct mu_unpack u = mu_unpack_of(l.bytes, l.len);

    memmove(&letters[i], &letters[i + 1], (--num_letters - i) * sizeof l);
    assert_true(mu_checkpoint_relay_hear(relays[l.to], l.from ? l.from * EACH : 0, l.from ? EACH : RANKS, &u));
    free(l.bytes);
}

/* The oldest of those between two hosts: a connection keeps their order. */
static void hear_one(void)
{
    size_t at = dice((uint32_t)num_letters), i = 0;
    uint32_t to;

    while (letters[i].from != letters[at].from || letters[i].to != letters[at].to)
        i++;
    to = letters[i].to;
    letter_hear(i);
    look(to);
}

static uint64_t whole_of(uint32_t host)
{
    return mu_checkpoint_settle(heads[host], RANKS);
}

static uint64_t step_of(uint64_t generation)
{
    return generation * 10 + 3;
}

/* As a task of that rank does. */
static void rank_save(uint32_t rank)
{
    struct mu_checkpoint_head *head = heads[rank / EACH];
    uint64_t whole = whole_of(rank / EACH);

    if (whole < saved[rank])
        return; /* it waits */
    saved[rank] = whole + 1;
    mu_checkpoint_done(head, rank, saved[rank], step_of(saved[rank]));
    mu_checkpoint_settle(head, RANKS);
}

static void host_begin(uint32_t host)
{
    relays[host] = mu_checkpoint_relay_new(runs[host], RANKS, host * EACH, EACH, host == 0);
    assert_non_null(relays[host]);
}

static void letters_drop(void)
{
    for (size_t i = 0; i < num_letters; i++)
        free(letters[i].bytes);
    num_letters = 0;
}

/* Nothing that any host takes for whole lacks a rank. */
static uint64_t check_all(void)
{
    uint64_t newest = 0;

    for (uint32_t h = 0; h < HOSTS; h++) {
        uint64_t whole = whole_of(h);

        newest = whole > newest ? whole : newest;
        for (uint32_t r = 0; r < RANKS; r++)
            assert_true(saved[r] >= whole && saved[r] <= whole + 2);
        for (uint32_t r = 0; r < RANKS && whole; r++)
            if (mu_load_relaxed(&heads[h]->rows[r].done) <= whole + 1) /* relaxed: there is one thread */
                assert_int_equal(mu_load_relaxed(&heads[h]->rows[r].step[whole & 1]), step_of(whole));
    }
    assert_in_range(newest, whole_of(0), whole_of(0) + 1);
    return newest;
}

/* All tasks are dead. What a follower says comes before it says so; what the leader says may never come. */
static void job_again(void)
{
    uint64_t newest = check_all();
    struct mu_pack p = {.bytes = NULL};

    for (uint32_t h = 1; h < HOSTS; h++)
        look(h);
    for (size_t i = 0; i < num_letters;)
        if (letters[i].to == 0)
            letter_hear(i);
        else
            i++;
    look(0);
    assert_int_equal(mu_checkpoint_rewind(runs[0], MU_CHECKPOINT_ALL), MUSTER_OK);
    assert_true(whole_of(0) >= newest);
    newest = whole_of(0);
    mu_checkpoint_pack_newest(runs[0], RANKS, &p);
    letters_drop();
    for (uint32_t h = 0; h < HOSTS; h++) {
        struct mu_unpack u = mu_unpack_of(p.bytes, p.len);

        mu_checkpoint_relay_free(relays[h]);
        if (h)
            assert_true(mu_checkpoint_take_newest(runs[h], RANKS, &u));
        host_begin(h);
        look(h);
        assert_int_equal(whole_of(h), newest);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        saved[r] = newest;
    mu_pack_done(&p);
}

static int relay_begin(void)
{
    srandom(20261128);
    for (uint32_t h = 0; h < HOSTS; h++) {
        snprintf(runs[h], sizeof runs[h], "relay-%d-%u", (int)getpid(), h);
        host_begin(h);
    }
    for (uint32_t h = 0; h < HOSTS; h++) {
        char folder[256];

        mu_checkpoint_folder(runs[h], folder, sizeof folder);
        assert_int_equal(mu_checkpoint_head_open(folder, "m", RANKS, true, &heads[h]), MUSTER_OK);
    }
    memset(saved, 0, sizeof saved);
    return 0;
}

static int relay_end(void)
{
    char folder[256];

    letters_drop();
    for (uint32_t h = 0; h < HOSTS; h++) {
        mu_checkpoint_relay_free(relays[h]);
        mu_checkpoint_head_close(heads[h], RANKS);
        mu_checkpoint_remove(runs[h]);
        mu_checkpoint_folder(runs[h], folder, sizeof folder);
        if (access(folder, F_OK) == 0)
            return 1;
    }
    return 0;
}

#define RELAY_TEST(name) TEST_WITH(name, relay_begin, relay_end)

/* Everything is said and heard. */
static void settle_all(void)
{
    for (int quiet = 0; quiet < 2; quiet = num_letters ? 0 : quiet + 1) {
        now += 1000000000;
        for (uint32_t h = 0; h < HOSTS; h++)
            look(h);
        while (num_letters)
            hear_one();
    }
}

RELAY_TEST(no_host_is_ever_wrong_and_nobody_waits_for_ever)
{
    uint64_t generations = 0;

    for (int i = 0; i < 60000; i++) {
        uint32_t what = dice(1000);

        now += dice(20000000);
        if (what < 400)
            rank_save(dice(RANKS));
        else if (what < 700)
            look(dice(HOSTS));
        else if (what < 990 && num_letters)
            hear_one();
        else if (what >= 998 && num_letters == 0) /* an agent is replaced, and told all anew, as it tells */
            for (uint32_t h = 0; h < HOSTS; h++) {
                mu_checkpoint_relay_free(relays[h]);
                host_begin(h);
            }
        else if (what == 997)
            job_again();
        check_all();
        if (i % 3000 == 2999) { /* each rank saves as often as it may: all have it */
            uint64_t newest = check_all() + 1;

            for (int turn = 0; turn < 3; turn++) {
                for (uint32_t r = 0; r < RANKS; r++)
                    rank_save(r);
                settle_all();
            }
            assert_true(check_all() > newest);
            for (uint32_t h = 0; h < HOSTS; h++)
                assert_int_equal(whole_of(h), whole_of(0));
            generations = whole_of(0);
        }
    }
    assert_true(generations > 100);
}

RELAY_TEST(a_generation_costs_a_message_to_the_leader_and_one_back)
{
    for (int g = 0; g < 5; g++) {
        said = 0;
        for (uint32_t r = 0; r < RANKS; r++) {
            rank_save(r);
            look(r / EACH);
        }
        while (num_letters)
            hear_one();
        assert_int_equal(said, 2 * (HOSTS - 1));
        for (uint32_t h = 0; h < HOSTS; h++)
            assert_int_equal(whole_of(h), g + 1);
    }
}

RELAY_TEST(a_row_that_is_late_is_told_in_time)
{
    rank_save(2);
    assert_int_equal(look(1), now + 100000000);
    assert_int_equal(num_letters, 0);
    now += 100000000;
    assert_int_equal(look(1), UINT64_MAX);
    assert_int_equal(num_letters, 1);
    settle_all();
    assert_int_equal(mu_load_relaxed(&heads[2]->rows[2].done), 1); /* relaxed, both: there is one thread */
    assert_int_equal(mu_load_relaxed(&heads[2]->rows[3].done), 0);
}

static uint64_t generation_told = 1;

static bool hear(uint32_t host, uint32_t first, uint32_t count, const char *name, uint32_t begin, uint32_t num,
                 size_t cut)
{
    struct mu_pack p = {.bytes = NULL};
    struct mu_unpack u;
    bool good;

    mu_pack_text(&p, name);
    mu_pack_u32(&p, begin);
    mu_pack_u32(&p, num);
    mu_pack_u64(&p, generation_told);
    for (int i = 0; i < 2; i++)
        mu_pack_u64(&p, 1);
    u = mu_unpack_of(p.bytes, p.len - cut);
    good = mu_checkpoint_relay_hear(relays[host], first, count, &u);
    mu_pack_done(&p);
    return good;
}

RELAY_TEST(what_is_damaged_is_refused)
{
    assert_true(hear(0, 2, 2, "m", 2, 2, 0));
    assert_false(hear(0, 2, 2, "m", 4, 1, 0));          /* another host's rank */
    assert_false(hear(0, 2, 2, "m", 3, 2, 0));          /* likewise, beside its own */
    assert_false(hear(0, 2, 2, "m", 3, UINT32_MAX, 0)); /* round */
    assert_false(hear(1, 0, RANKS, "m", RANKS, 1, 0));  /* no rank */
    assert_false(hear(0, 2, 2, "../m", 2, 1, 0));       /* a way out of the folder */
    assert_false(hear(0, 2, 2, "", 2, 1, 0));
    generation_told = 1ull << 47;
    assert_false(hear(0, 2, 2, "m", 2, 2, 0)); /* more than the word has room for */
    generation_told = 1;
    for (size_t cut = 1; cut < 32; cut++)
        assert_false(hear(0, 2, 2, "m", 2, 1, cut));
    assert_int_equal(mu_load_relaxed(&heads[0]->rows[4].done), 0); /* relaxed, both: there is one thread */
    assert_true(hear(1, 0, RANKS, "m", 0, RANKS, 0));
    assert_int_equal(mu_load_relaxed(&heads[1]->rows[2].done), 0); /* its own ranks' rows are its tasks' */
    assert_int_equal(whole_of(1), 0);
}
