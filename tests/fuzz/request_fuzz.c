/*
 * tests/fuzz/request_fuzz.c: libFuzzer on the parser of HTTP requests. `make fuzz SECONDS=60`.
 */
#include "request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    request_try(data, size);
    return 0;
}
