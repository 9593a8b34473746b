/* tests/fuzz/attach.h: what the fuzz target and its short form share. */
#ifndef TEST_ATTACH_H
#define TEST_ATTACH_H

#include <stddef.h>
#include <stdint.h>

/*
 * One case. The first byte chooses: even, the rest is the segment's bytes; odd, the rest is a program of edits to a
 * sound segment that holds some of everything. Then every call that reads, and every call that writes, is made on it.
 * Whatever they return is right; crashing or not returning is not.
 */
void attach_try(const uint8_t *data, size_t size);

/* The sound segment, as a case for the first kind would hold it. */
const uint8_t *attach_image(size_t *ret_size);

#endif
