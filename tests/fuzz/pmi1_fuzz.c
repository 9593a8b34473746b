/*
 * tests/fuzz/pmi1_fuzz.c: libFuzzer on the PMI-1 server. `make fuzz SECONDS=60`. An input is, by its first byte, what a
 * task says, or that behind what it has to say first.
 */
#include "pmi1.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char init[] = "cmd=init pmi_version=1 pmi_subversion=1\n";
    struct pmi1_sum sum = {0, 0, 0};
    uint8_t bytes[4096];
    size_t len = sizeof init - 1;

    if (size == 0 || data[0] % 2 == 0 || size > sizeof bytes - len) {
        pmi1_try(data, size, &sum);
        return 0;
    }
    memcpy(bytes, init, len);
    memcpy(bytes + len, data + 1, size - 1);
    pmi1_try(bytes, len + size - 1, &sum);
    return 0;
}
