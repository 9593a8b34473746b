/*
 * tests/fuzz/datagram_test.c: the short form of datagram_fuzz: programs drawn from a seed. `TEST_SEED=… TEST_CASES=…`
 * repeats or prolongs it.
 */
/* variants: release asan */
#include "datagram.h"

#include <stdio.h>
#include <stdlib.h>

#include "seed.h"

/* Half of the steps are what really happens; a byte behind a step is small more often than not. */
static uint8_t draw(struct test_random *r)
{
    if (test_below(r, 2))
        return (uint8_t)test_below(r, DATAGRAM_TAKEN + 1);
    return (uint8_t)(test_below(r, 3) ? test_below(r, DATAGRAM_STEPS) : test_random(r));
}

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 5000;
    struct test_random r = {.state = test_seed()};
    struct datagram_sum sum = {0};

    for (unsigned long i = 0; i < cases; i++) {
        uint8_t bytes[400];
        size_t size = test_below(&r, sizeof bytes);

        for (size_t k = 0; k < size; k++)
            bytes[k] = draw(&r);
        datagram_try(bytes, size, &sum);
    }
    printf(
        "%lu programs: %u datagrams that were said, %u forged or out of time; %u instances passed, %u by the agent\n",
        cases, sum.said, sum.forged, sum.passed, sum.by_agent);
    return cases >= 1000 && (!sum.said || !sum.forged || sum.passed < cases + cases / 2 || !sum.by_agent);
}
