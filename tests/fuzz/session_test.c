/*
 * tests/fuzz/session_test.c: the short form of session_fuzz: programs drawn from a seed. `TEST_SEED=… TEST_CASES=…`
 * repeats or prolongs it.
 */
/* variants: release asan */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>

#include "seed.h"

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 400;
    struct test_random r = {.state = test_seed()};
    struct session_sum sum = {0};
    uint8_t bytes[3000];

    for (unsigned long i = 0; i < cases; i++) {
        size_t size = 1 + test_below(&r, sizeof bytes);

        for (size_t k = 0; k < size; k++) /* small numbers mean something more often */
            bytes[k] = (uint8_t)(test_below(&r, 3) ? test_below(&r, 12) : test_random(&r));
        session_try(bytes, size, &sum);
    }
    printf("%lu sessions: %u frames in, %u of them refused, %u frames out\n", cases, sum.taken, sum.refused, sum.sent);
    return cases >= 100 && (!sum.sent || !sum.refused || sum.refused >= sum.taken);
}
