/*
 * tests/fuzz/session_fuzz.c: libFuzzer on one end of a bridge. `make fuzz SECONDS=60`.
 */
#include "session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct session_sum sum = {0};

    session_try(data, size, &sum);
    return 0;
}
