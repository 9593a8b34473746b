/*
 * tests/fuzz/frame_test.c: the short form of frame_fuzz: a session's frames, then thousands of their mutations drawn
 * from a seed. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed.h"

static size_t mutate(struct test_random *r, uint8_t *bytes, size_t size)
{
    static const uint8_t strange[] = {0, 1, 0x7f, 0x80, 0xff, 'M', 'u', 16};

    for (unsigned n = (unsigned)test_below(r, 4); n > 0 && size > 0; n--) {
        size_t at = test_below(r, size), len = 1 + test_below(r, 40);

        switch (test_below(r, 3)) {
        case 0: bytes[at] = strange[test_below(r, sizeof strange)]; break;
        case 1: bytes[at] = (uint8_t)test_random(r); break;
        default: /* a piece out */
            len = len < size - at ? len : size - at;
            memmove(bytes + at, bytes + at + len, size - at - len);
            size -= len;
        }
    }
    return size;
}

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 3000;
    struct test_random r = {.state = test_seed()};
    struct frame_sum sum = {0, 0};
    uint8_t session[1000], bytes[1000];
    size_t len = frame_session(session, sizeof session);

    frame_try(session, len, &sum);
    if (sum.messages != 6 || sum.faults) {
        printf("the session itself is not read: %u messages\n", sum.messages);
        return 1;
    }
    for (unsigned long i = 0; i < cases; i++) {
        memcpy(bytes, session, len);
        frame_try(bytes, mutate(&r, bytes, len), &sum);
    }
    printf("%lu mutations: %u messages, %u faults\n", cases, sum.messages, sum.faults);
    return cases >= 1000 && (sum.faults == 0 || sum.faults == cases);
}
