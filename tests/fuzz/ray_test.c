/*
 * tests/fuzz/ray_test.c: the short form of ray_fuzz: programs drawn from a seed. `TEST_SEED=… TEST_CASES=…` repeats or
 * prolongs it.
 */
/* variants: release asan */
#include "ray.h"

#include <stdio.h>
#include <stdlib.h>

#include "seed.h"

static uint8_t draw_step(struct test_random *r)
{
    static const uint8_t often[] = {RAY_PUT,    RAY_MADE,  RAY_MADE,    RAY_ALIAS,  RAY_SUBMIT,
                                    RAY_SUBMIT, RAY_ENDED, RAY_REQUEST, RAY_ARRIVED};

    if (test_below(r, 4))
        return often[test_below(r, sizeof often)];
    return (uint8_t)test_below(r, test_below(r, 40) ? RAY_KILL : RAY_STEPS);
}

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 2000;
    struct test_random r = {.state = test_seed()};
    struct ray_sum sum = {0};

    for (unsigned long i = 0; i < cases; i++) {
        static const uint8_t begin[][2] = {{RAY_STORE, 0},  {RAY_STORE, 1},    {RAY_DRIVER, 0},  {RAY_WORKER, 0},
                                           {RAY_WORKER, 1}, {RAY_FUNCTION, 1}, {RAY_FUNCTION, 2}};
        enum { STEP = 6, BEGIN = sizeof begin / 2, MOST = 150 };
        uint8_t bytes[STEP * MOST];
        size_t steps = BEGIN + test_below(&r, MOST - BEGIN);

        for (size_t k = 0; k < STEP * steps; k++)
            bytes[k] = k % STEP ? (uint8_t)test_random(&r) : draw_step(&r);
        for (size_t k = 0; k < BEGIN; k++) {
            bytes[STEP * k] = begin[k][0];
            bytes[STEP * k + 1] = begin[k][1];
        }
        ray_try(bytes, STEP * steps, &sum);
    }
    printf("%lu programs: %u requests carried out, %u refused; %u tasks, %u deliveries, %u aliases told, %u freed\n",
           cases, sum.done, sum.refused, sum.executed, sum.delivered, sum.aliased, sum.freed);
    return cases >= 1000 && (sum.executed < cases / 2 || sum.delivered < cases / 20 || sum.freed < cases / 2 ||
                             sum.aliased < cases / 400 || !sum.refused);
}
