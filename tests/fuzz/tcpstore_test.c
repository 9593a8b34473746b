/*
 * tests/fuzz/tcpstore_test.c: the short form of tcpstore_fuzz: a session of each dialect, then thousands of their
 * mutations drawn from a seed. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "tcpstore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"
#include "seed.h"

static const struct mutation mutation = {STRANGE("\0\1\2\x7f\x80\xff/\x12"), .most = 3, .piece = 40};

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 3000;
    struct test_random r = {.state = test_seed()};
    struct tcpstore_sum sum = {0, 0};
    uint8_t session[1000], bytes[1000];

    tcpstore_try(session, tcpstore_session('A', session, sizeof session), &sum);
    tcpstore_try(session, tcpstore_session('B', session, sizeof session), &sum);
    if (sum.requests != 16 + 23 || sum.faults) {
        printf("the sessions themselves are not read: %u requests\n", sum.requests);
        return 1;
    }
    for (unsigned long i = 0; i < cases; i++) {
        size_t len = tcpstore_session(i % 2 ? 'A' : 'B', bytes, sizeof bytes);

        tcpstore_try(bytes, mutate(&r, &mutation, bytes, len), &sum);
    }
    printf("%lu mutations: %u requests, %u faults\n", cases, sum.requests, sum.faults);
    return cases >= 1000 && (sum.faults == 0 || sum.faults == cases);
}
