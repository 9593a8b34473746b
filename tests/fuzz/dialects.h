/* tests/fuzz/dialects.h: what the fuzz target of the coordination protocols' requests and its short form share. */
#ifndef TEST_FUZZ_DIALECTS_H
#define TEST_FUZZ_DIALECTS_H

#include <stddef.h>
#include <stdint.h>

/* How many kinds of requests there are: every method of every dialect. */
unsigned dialects_kinds(void);

/*
 * The bytes behind the first, which chooses the kind, as a request. abort() when what is read is not written as it was
 * read, when a merged message is another or still to be merged, or when bytes that are no text got through. Of a
 * request that tells of devices, the answer to two such is made, too. 1: it was read; 0: refused.
 */
int dialects_try(const uint8_t *data, size_t size);

#endif
