/*
 * tests/fuzz/topology_test.c: the short form of topology_fuzz: sound clusters with some of everything, cut short at
 * each byte, then thousands of their mutations drawn from a seed. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"

#define BOOT    "\x12\x02\xc3\xa9"
#define DEVICE  "\x1a\x0c\x08\x05\x12\x04H100\x28\x07\x70\x03"
#define FABRIC  "\x1a\x05\x62\x03\x61/1"
#define ENTRY   "\x1a\x09\x5a\x07\x0a\x01k\x12\x02\x18\x01"
#define VALUES  "\x1a\x0a\x5a\x08\x12\x06\x22\x04\x0a\x02\x01\x02"
#define NETWORK "\x2a\x03spn\x2a\x00"
#define UNKNOWN "\xa2\x06\x02hi\xfd\x7f\x01\x02\x03\x04"

/* The choice, then locals behind their lengths. */
static const struct {
    const char *bytes;
    size_t size;
} sound[] = {
#define CASE(s)                                                                                                        \
    {                                                                                                                  \
        s, sizeof s - 1                                                                                                \
    }
    CASE("\x02\x2b\x00" BOOT DEVICE DEVICE NETWORK "\x20\x05"),
    CASE("\x02\x19\x00" BOOT FABRIC FABRIC NETWORK "\x0b\x00" BOOT FABRIC "\x04\x00" BOOT),
    CASE("\x02\x0d\x00" ENTRY "\x20\x05\x0e\x00" VALUES "\x20\x7f"),
    CASE("\x02\x0b\x00" UNKNOWN "\x0b\x00" ENTRY "\x02\x00\x1a\x00"),
    CASE("\x03\x08\x00\x12\x06\x08\x01\x12\x02GP\x02\x00\x12\x00\x02\x00\x08\x01"),
    CASE("\x00\x02\x00\x08\x01\x02\x00\x08\x00"),
#undef CASE
};

static const struct mutation mutation = {STRANGE("\0\1\x7f\x80\xff\x08\x12\x1a*Z\x0b\xc0"), .least = 1, .most = 5,
                                         .piece = 12, .room = 600};

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 100000, taken = 0, refused = 0;
    struct test_random r = {.state = test_seed()};
    uint8_t bytes[600];

    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
        if (topology_try((const uint8_t *)sound[i].bytes, sound[i].size) < 0) {
            printf("cluster %zu is refused\n", i);
            return 1;
        }
        for (size_t cut = 0; cut < sound[i].size; cut++)
            topology_try((const uint8_t *)sound[i].bytes, cut);
    }
    for (unsigned long i = 0; i < cases; i++) {
        size_t which = i % (sizeof sound / sizeof sound[0]);

        memcpy(bytes, sound[which].bytes, sound[which].size);
        if (topology_try(bytes, mutate(&r, &mutation, bytes, sound[which].size)) < 0)
            refused++;
        else
            taken++;
    }
    printf("%lu mutations: %lu taken, %lu refused\n", cases, taken, refused);
    return cases >= 1000 && (!taken || !refused);
}
