/*
 * tests/fuzz/topology_fuzz.c: libFuzzer on local topologies of strangers. `make fuzz SECONDS=60`.
 */
#include "topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    topology_try(data, size);
    return 0;
}
