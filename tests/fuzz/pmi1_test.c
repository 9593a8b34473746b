/*
 * tests/fuzz/pmi1_test.c: the short form of pmi1_fuzz: what MPICH says, then thousands of its mutations drawn from a
 * seed. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "pmi1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"
#include "seed.h"

static const struct mutation mutation = {STRANGE("\0\n =\r\xff-9"), .least = 1, .most = 6, .piece = 60};

int main(void)
{
    const char *text = getenv("TEST_CASES");
    unsigned long cases = text ? strtoul(text, NULL, 0) : 2000;
    struct test_random r = {.state = test_seed()};
    struct pmi1_sum sum = {0, 0, 0};
    uint8_t session[2048], bytes[2048];
    size_t len = pmi1_session(session, sizeof session);

    pmi1_try(session, len, &sum);
    if (sum.answers != 12 || sum.aborts || sum.closed) { /* it stays in the barrier, to which the other does not come */
        printf("the session itself has %u answers\n", sum.answers);
        return 1;
    }
    for (unsigned long i = 0; i < cases; i++) {
        memcpy(bytes, session, len);
        pmi1_try(bytes, mutate(&r, &mutation, bytes, len), &sum);
    }
    printf("%lu mutations: %u answers, %u aborts, %u closed\n", cases, sum.answers, sum.aborts, sum.closed);
    return cases >= 1000 && (sum.answers == 0 || sum.closed == 0);
}
