/*
 * tests/fuzz/frame_test.c: the short form of frame_fuzz: a session's frames, then thousands of their mutations drawn
 * from a seed. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"
#include "seed.h"

static const struct mutation mutation = {{0, 1, 0x7f, 0x80, 0xff, 'M', 'u', 16}, 0, 3, 40};

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
        frame_try(bytes, mutate(&r, &mutation, bytes, len), &sum);
    }
    printf("%lu mutations: %u messages, %u faults\n", cases, sum.messages, sum.faults);
    return cases >= 1000 && (sum.faults == 0 || sum.faults == cases);
}
