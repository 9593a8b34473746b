/* tests/common/seed.h: random numbers that can be had again: TEST_SEED=… repeats a run. Usable without cmocka. */
#ifndef TEST_SEED_H
#define TEST_SEED_H

#include <stdint.h>

/* The seed of this process, printed at the first call: from TEST_SEED, else from the kernel. */
uint64_t test_seed(void);

struct test_random {
    uint64_t state;
};
uint64_t test_random(struct test_random *r);
/* 0 to n - 1. */
uint64_t test_below(struct test_random *r, uint64_t n);

#endif
