/*
 * tests/fuzz/h2_fuzz.c: libFuzzer on connections of gRPC. `make fuzz SECONDS=60`.
 */
#include "h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    h2_try(data, size);
    return 0;
}
