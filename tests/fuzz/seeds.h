/* tests/fuzz/seeds.h: what was recorded of real traffic (record.sh), for the short forms of the fuzzers. */
#ifndef TEST_SEEDS_H
#define TEST_SEEDS_H

#include <stddef.h>
#include <stdint.h>

enum { SEEDS_MOST = 32, SEED_BYTES_MOST = 16384 };

struct seed {
    char name[64];
    size_t size;
    uint8_t bytes[SEED_BYTES_MOST];
};

/* Those of tests/fuzz/seeds whose names end so, by name; how many. It exits with a sentence when there are none. */
size_t seeds_load(const char *ending, struct seed seeds[SEEDS_MOST]);

#endif
