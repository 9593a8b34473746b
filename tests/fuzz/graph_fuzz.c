/*
 * tests/fuzz/graph_fuzz.c: libFuzzer on graphs, tensors and kernels. `make fuzz SECONDS=60`.
 */
#include "graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct graph_sum sum = {0};

    graph_try(data, size, &sum);
    return 0;
}
