/*
 * tests/fuzz/attach_fuzz.c: libFuzzer on attaching to corrupt segments. `make fuzz SECONDS=60`.
 */
#include "attach.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    attach_try(data, size);
    return 0;
}
