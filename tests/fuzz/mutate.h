/* tests/fuzz/mutate.h: bytes as they are not said: what the short forms of the fuzzers try. */
#ifndef MU_TESTS_FUZZ_MUTATE_H
#define MU_TESTS_FUZZ_MUTATE_H

#include <string.h>

#include "seed.h"

#define STRANGE(text) .strange = (text), .num_strange = sizeof(text) - 1

struct mutation {
    const char *strange;  /* bytes that mean something there, */
    size_t num_strange;   /* and how many */
    unsigned least, most; /* changes */
    size_t piece;         /* that goes out at most in one, or comes twice */
    size_t room;          /* for what comes twice; 0: nothing does */
};

/* How many bytes there are then. */
static inline size_t mutate(struct test_random *r, const struct mutation *m, uint8_t *bytes, size_t size)
{
    for (unsigned n = m->least + (unsigned)test_below(r, m->most - m->least + 1); n > 0 && size > 0; n--) {
        size_t at = test_below(r, size), len = 1 + test_below(r, m->piece);

        len = len < size - at ? len : size - at;
        switch (test_below(r, m->room ? 4 : 3)) {
        case 0: bytes[at] = (uint8_t)m->strange[test_below(r, m->num_strange)]; break;
        case 1: bytes[at] = (uint8_t)test_random(r); break;
        case 2: /* a piece out */
            memmove(bytes + at, bytes + at + len, size - at - len);
            size -= len;
            break;
        default: /* a piece twice */
            len = len < m->room - size ? len : m->room - size;
            memmove(bytes + at + len, bytes + at, size - at);
            size += len;
        }
    }
    return size;
}

#endif
