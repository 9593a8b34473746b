/* tests/fuzz/h2.h: what the fuzz target of gRPC's connections and its short form share. */
#ifndef TEST_H2_H
#define TEST_H2_H

#include <stddef.h>
#include <stdint.h>

/*
 * The bytes as what a client sends behind a greeting (unless they begin with 'P': the greeting's own), then its end: to
 * a real server, over a Unix socket. abort() when the server keeps something of it, loses a call, or does not end.
 * Returns how many calls were begun.
 */
unsigned long h2_try(const uint8_t *data, size_t size);

/* A frame behind `to`; its length. */
size_t h2_frame(uint8_t *to, uint8_t kind, uint8_t flags, uint32_t stream, const void *payload, size_t len);
/* Headers of a call of /mu.test.Fuzz/`method`; their length. */
size_t h2_request(uint8_t *to, const char *method, const char *name, const char *value);

#endif
