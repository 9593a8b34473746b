/* tests/fuzz/request.h: what the fuzz target of HTTP requests and its short form share. */
#ifndef TEST_REQUEST_H
#define TEST_REQUEST_H

#include <stddef.h>
#include <stdint.h>

/*
 * The bytes as what a client sends: whole, and as it would arrive in pieces. abort() when the parser contradicts
 * itself, reads past the end (address sanitizer) or takes what it must not. Returns what it said of the whole.
 */
long request_try(const uint8_t *data, size_t size);

#endif
