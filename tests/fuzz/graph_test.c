/*
 * tests/fuzz/graph_test.c: the short form of graph_fuzz: programs drawn from a seed; and the messages of a real client,
 * changed. `TEST_SEED=… TEST_CASES=…` repeats or prolongs it.
 */
/* variants: release asan */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"

/* Const = 3, Const_1 = 4, add = AddV2; and [2,2] of floats, two strings. */
static const char *const sent[] = {
    "000a320a05436f6e73741205436f6e73742a0b0a056474797065120230012a150a0576616c7565120c420a080112002a04000040400a340a07"
    "43"
    "6f6e73745f311205436f6e73742a150a0576616c7565120c420a080112002a04000080402a0b0a056474797065120230010a250a0361646412"
    "0541646456321a05436f6e73741a07436f6e73745f312a070a0154120230011200220308aa13",
    "010801120812020802120208022210000000400000404000008040000080bf",
    "010807120412020802220502016162"
    "63",
    "010809120412020803520403ffff01",
};

static size_t bytes_of(const char *hex, uint8_t *to)
{
    size_t len = strlen(hex) / 2;

    for (size_t k = 0; k < len; k++) {
        char pair[3] = {hex[2 * k], hex[2 * k + 1], 0};

        to[k] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return len;
}

int main(void)
{
    const char *said = getenv("TEST_CASES");
    unsigned long cases = said ? strtoul(said, NULL, 0) : 4000;
    struct test_random r = {.state = test_seed()};
    struct mutation m = {STRANGE("\x80\xff\x01\x12\x2a\x22\x08"), .least = 0, .most = 4, .piece = 12, .room = 512};
    struct graph_sum sum = {0};

    for (unsigned long i = 0; i < cases; i++) {
        uint8_t bytes[512];
        size_t len;

        if (i % 4 == 0) {
            len = bytes_of(sent[test_below(&r, 4)], bytes);
            len = 1 + mutate(&r, &m, bytes + 1, len - 1);
        } else {
            len = 12 + test_below(&r, test_below(&r, 4) ? 40 : 480);
            bytes[0] = 2;
            for (size_t k = 1; k < len; k++)
                bytes[k] = (uint8_t)test_random(&r);
        }
        graph_try(bytes, len, &sum);
    }
    printf("%lu cases: %u graphs taken, of %u nodes, %u refused; %u steps done, %u failed, %u waited; %u tensors\n",
           cases, sum.taken, sum.nodes, sum.refused, sum.done, sum.failed, sum.waited, sum.tensors);
    return cases >= 1000 &&
           (sum.taken < cases / 20 || sum.failed < cases / 40 || sum.done < cases / 100 || !sum.tensors);
}
