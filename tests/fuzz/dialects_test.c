/*
 * tests/fuzz/dialects_test.c: the short form of dialects_fuzz: sound requests as each of the kinds, cut short at each
 * byte, then thousands of their mutations drawn from a seed. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "dialects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"

#define INCARNATIONS "\x0a\x12\x11\x11\x11\x11\x11\x11\x11\x11\x11\x19\x22\x22\x22\x22\x22\x22\x22\x22"

static const struct {
    const char *bytes;
    size_t size;
} sound[] = {
#define CASE(s)                                                                                                        \
    {                                                                                                                  \
        s, sizeof s - 1                                                                                                \
    }
    CASE("\x19\x11\x11\x11\x11\x11\x11\x11\x11\x28\x03"),
    CASE(INCARNATIONS "\x12\x06\x0a\x01k\x12\x01v\x18\x01"),
    CASE(INCARNATIONS "\x12\x01"
                      "b\x18\x88\x27\x22\x02\x00\x01\x20\x07\x28\x01\x30\x02"),
    CASE(INCARNATIONS "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    CASE("\x0a\x01"
         "b\x10\x88\x27\x1a\x05\x0a\x03jax\x1a\x02\x10\x01\x22\x02\x10\x01\x22\x03\x0a\x01j\x28\x02"),
    CASE("\x2a\x02\x10\x01\x32\x2c\x0a\x2a\x0a\x1ftype.x/xla.LocalTopologyProto12345\x12\x07\x12\x01z\x1a\x02\x08\x01"),
    CASE("\x22\x0c\x12\x0a\x0a\x08\x0a\x06\x12\x04\x08\x01\x12\x00\x2a\x00"),
    CASE("\x22\x08\x0a\x06\x0a\x01x\x0a\x01y\x2a\x02\x10\x01\x2a\x00"),
    CASE("\x08\x07\x12\x01k\x18\x05\x1a\x02zz\xa2\x06\x02hi\xfd\x7f\x01\x02\x03\x04"),
#undef CASE
};

static const struct mutation mutation = {STRANGE("\0\1\x7f\x80\xff\x08\n\x12\x1a\"*2\x0b"), .most = 4, .piece = 12,
                                         .room = 599};

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 60000, taken = 0;
    struct test_random r = {.state = test_seed()};
    unsigned kinds = dialects_kinds();
    uint8_t bytes[600];

    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++)
        for (unsigned k = 0; k < kinds; k++)
            for (size_t cut = 0; cut <= sound[i].size; cut++) {
                bytes[0] = (uint8_t)k;
                memcpy(bytes + 1, sound[i].bytes, cut);
                dialects_try(bytes, 1 + cut);
            }
    for (unsigned long i = 0; i < cases; i++) {
        size_t which = i % (sizeof sound / sizeof sound[0]);

        bytes[0] = (uint8_t)test_below(&r, kinds);
        memcpy(bytes + 1, sound[which].bytes, sound[which].size);
        taken += (unsigned)dialects_try(bytes, 1 + mutate(&r, &mutation, bytes + 1, sound[which].size));
    }
    printf("%u kinds, %lu mutations: %lu taken\n", kinds, cases, taken);
    return cases >= 1000 && (!taken || taken == cases);
}
