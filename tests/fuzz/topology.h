/* tests/fuzz/topology.h: what the fuzz target of topology messages and its short form share. */
#ifndef TEST_FUZZ_TOPOLOGY_H
#define TEST_FUZZ_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

/*
 * The first byte chooses the form and whether processes are given their ids; then come local topologies, each behind
 * two bytes of length. Their global topology is made twice, from two orders of the locals, and read again. abort() when
 * the two differ, a device is lost, ids are not 0 to n - 1, or what was written cannot be read. Returns the number of
 * devices, or -1: refused.
 */
long topology_try(const uint8_t *data, size_t size);

#endif
