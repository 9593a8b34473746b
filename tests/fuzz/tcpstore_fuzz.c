/*
 * tests/fuzz/tcpstore_fuzz.c: libFuzzer on TCPStore's requests. `make fuzz SECONDS=60`. An input is, by its first byte,
 * a stream; a stream behind VALIDATE; or changes (place, byte) to what a client of either dialect really said.
 */
#include "tcpstore.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_changed_session(char dialect, const uint8_t *data, size_t size, struct tcpstore_sum *sum)
{
    uint8_t bytes[1000];
    size_t len = tcpstore_session(dialect, bytes, sizeof bytes);

    for (; size >= 3; data += 3, size -= 3)
        bytes[(size_t)(data[0] | data[1] << 8) % len] = data[2];
    tcpstore_try(bytes, len, sum);
}

static void try_validated(const uint8_t *data, size_t size, struct tcpstore_sum *sum)
{
    static const uint8_t validate[] = {0x00, 0xCE, 0xF7, 0x85, 0x3C};
    uint8_t *copy = malloc(sizeof validate + size);

    memcpy(copy, validate, sizeof validate);
    if (size)
        memcpy(copy + sizeof validate, data, size);
    tcpstore_try(copy, sizeof validate + size, sum);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tcpstore_sum sum = {0, 0};

    if (!size || data[0] % 4 == 0)
        tcpstore_try(data, size, &sum);
    else if (data[0] % 4 == 1)
        try_validated(data + 1, size - 1, &sum);
    else
        try_changed_session(data[0] % 4 == 2 ? 'A' : 'B', data + 1, size - 1, &sum);
    return 0;
}
