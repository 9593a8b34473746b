/*
 * tests/fuzz/frame_test.c: the short form of frame_fuzz: frames that were recorded, a session's that are made here,
 * then thousands of mutations of both drawn from a seed. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"
#include "seed.h"
#include "seeds.h"

static const struct mutation mutation = {STRANGE("\0\1\x7f\x80\xffMu\x10"), .most = 3, .piece = 40};
static struct seed seeds[SEEDS_MOST];

/* What was really said is read to its end. */
static int replay(const struct seed *s)
{
    struct frame_sum sum = {0, 0};

    frame_try(s->bytes, s->size, &sum);
    printf("%s: %u messages, %u faults\n", s->name, sum.messages, sum.faults);
    return !sum.messages || sum.faults;
}

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 3000;
    struct test_random r = {.state = test_seed()};
    struct frame_sum sum = {0, 0};
    static uint8_t session[1000], bytes[SEED_BYTES_MOST];
    size_t len = frame_session(session, sizeof session), count = seeds_load(".frames", seeds);
    int bad = 0;

    frame_try(session, len, &sum);
    if (sum.messages != 6 || sum.faults) {
        printf("the session itself is not read: %u messages\n", sum.messages);
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        bad += replay(&seeds[i]);
    for (unsigned long i = 0; i < cases; i++) {
        const struct seed *s = i % 2 ? &seeds[test_below(&r, count)] : NULL;
        size_t size = s ? s->size : len;

        memcpy(bytes, s ? s->bytes : session, size);
        frame_try(bytes, mutate(&r, &mutation, bytes, size), &sum);
    }
    printf("%lu mutations: %u messages, %u faults\n", cases, sum.messages, sum.faults);
    return bad || (cases >= 1000 && (sum.faults == 0 || sum.faults == cases));
}
