/*
 * tests/fuzz/dialects_fuzz.c: libFuzzer on the requests of all dialects of the coordination service. `make fuzz
 * SECONDS=60`.
 */
#include "dialects.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dialects_try(data, size);
    return 0;
}
