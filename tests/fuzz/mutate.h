/* tests/fuzz/mutate.h: bytes as they are not said: what the short forms of the fuzzers try. */
#ifndef MU_TESTS_FUZZ_MUTATE_H
#define MU_TESTS_FUZZ_MUTATE_H

#include <string.h>

#include "seed.h"

struct mutation {
    uint8_t strange[8];   /* bytes that mean something there */
    unsigned least, most; /* changes */
    size_t piece;         /* that goes out at most in one */
};

/* How many bytes there are then. */
static inline size_t mutate(struct test_random *r, const struct mutation *m, uint8_t *bytes, size_t size)
{
    for (unsigned n = m->least + (unsigned)test_below(r, m->most - m->least + 1); n > 0 && size > 0; n--) {
        size_t at = test_below(r, size), len = 1 + test_below(r, m->piece);

        switch (test_below(r, 3)) {
        case 0: bytes[at] = m->strange[test_below(r, sizeof m->strange)]; break;
        case 1: bytes[at] = (uint8_t)test_random(r); break;
        default: /* a piece out */
            len = len < size - at ? len : size - at;
            memmove(bytes + at, bytes + at + len, size - at - len);
            size -= len;
        }
    }
    return size;
}

#endif
