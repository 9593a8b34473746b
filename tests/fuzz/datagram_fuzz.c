/*
 * tests/fuzz/datagram_fuzz.c: libFuzzer on the datagrams of a shortcut. `make fuzz SECONDS=60`.
 */
#include "datagram.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct datagram_sum sum = {0};

    datagram_try(data, size, &sum);
    return 0;
}
