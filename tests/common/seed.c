/*
 * tests/common/seed.c: random numbers that can be had again (splitmix64).
 */
#include "seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

uint64_t test_seed(void)
{
    static uint64_t seed;
    const char *said = getenv("TEST_SEED");

    if (seed)
        return seed;
    if (said)
        seed = strtoull(said, NULL, 0);
    while (!seed)
        if (getrandom(&seed, sizeof seed, 0) < 0)
            seed = 1;
    printf("seed: TEST_SEED=0x%llx\n", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

uint64_t test_random(struct test_random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint64_t test_below(struct test_random *r, uint64_t n)
{
    return test_random(r) % n;
}
