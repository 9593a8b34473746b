/*
 * tests/fuzz/session_test.c: the short form of session_fuzz: recorded sessions as they were, their mutations, and
 * programs drawn from a seed. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"
#include "seeds.h"

static const char strange[] = {0, 1, '\xff', SESSION_DOWN, SESSION_UP, SESSION_TURN, SESSION_SAID, SESSION_GROUP};
static const struct mutation mutation = {
    .strange = strange, .num_strange = sizeof strange, .least = 1, .most = 8, .piece = 40};
static struct seed seeds[SEEDS_MOST];
static unsigned by_lanes, live; /* calls that were answered, and acts with a live shortcut, in what was recorded */

static void draw(struct test_random *r, struct session_sum *sum)
{
    uint8_t bytes[3000];
    size_t size = 1 + test_below(r, sizeof bytes);

    for (size_t k = 0; k < size; k++) /* small numbers mean something more often */
        bytes[k] = (uint8_t)(test_below(r, 3) ? test_below(r, SESSION_STEPS) : test_random(r));
    session_try(bytes, size, sum);
}

/* One that was recorded, with a piece of another in it now and then. */
static void change(struct test_random *r, size_t count, struct session_sum *sum)
{
    static uint8_t bytes[2 * SEED_BYTES_MOST];
    const struct seed *s = &seeds[test_below(r, count)], *other = &seeds[test_below(r, count)];
    size_t size = s->size;

    memcpy(bytes, s->bytes, size);
    if (!test_below(r, 3)) {
        size_t at = test_below(r, size), from = test_below(r, other->size);

        memcpy(bytes + at, other->bytes + from, other->size - from);
        size = at + other->size - from;
    }
    session_try(bytes, mutate(r, &mutation, bytes, size), sum);
}

/* What was really said is taken. */
static int replay(const struct seed *s)
{
    struct session_sum sum = {.has_room =
                                  true}; /* what is sent has numbers of this process's, and may end with any byte */

    session_try(s->bytes, s->size, &sum);
    printf("%s: %u frames in, %u of them refused, %u calls asked, %u by lanes, %u of them answered, %u frames out, "
           "%u acts beside a shortcut\n",
           s->name, sum.taken, sum.refused, sum.asked, sum.lanes, sum.answered, sum.sent, sum.live);
    by_lanes += sum.answered;
    live += sum.live;
    return !sum.taken || sum.refused;
}

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 400;
    struct test_random r = {.state = test_seed()};
    struct session_sum drawn = {0}, changed = {0};
    size_t count = seeds_load(".session", seeds);
    int bad = 0;

    for (size_t i = 0; i < count; i++)
        bad += replay(&seeds[i]);
    for (unsigned long i = 0; i < cases; i++) {
        if (i % 2)
            change(&r, count, &changed);
        else
            draw(&r, &drawn);
    }
    printf("%lu sessions: drawn: %u frames in, %u of them refused, %u frames out; changed: %u, %u, %u\n", cases,
           drawn.taken, drawn.refused, drawn.sent, changed.taken, changed.refused, changed.sent);
    if (!by_lanes || !live)
        printf("of the agents' own calls none was answered, or no group's shortcut was live\n");
    if (bad)
        printf("of %d recorded sessions frames were refused\n", bad);
    return bad || !by_lanes || !live ||
           (cases >= 100 && (!drawn.sent || !drawn.refused || drawn.refused >= drawn.taken));
}
