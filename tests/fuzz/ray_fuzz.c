/*
 * tests/fuzz/ray_fuzz.c: libFuzzer on the scheduler of Ray's protocol. `make fuzz SECONDS=60`.
 */
#include "ray.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ray_sum sum = {0};

    ray_try(data, size, &sum);
    return 0;
}
