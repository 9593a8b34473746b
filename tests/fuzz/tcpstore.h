/* tests/fuzz/tcpstore.h: what the fuzz target of TCPStore's requests and its short form share. */
#ifndef TEST_TCPSTORE_H
#define TEST_TCPSTORE_H

#include <stddef.h>
#include <stdint.h>

struct tcpstore_sum {
    unsigned requests, faults;
};

/*
 * The bytes as what a client sends: read whole, and cut into pieces of every small length. abort() when it matters how
 * they arrive, when more is looked at than has come, or when a key's name in the store is not its own.
 */
void tcpstore_try(const uint8_t *data, size_t size, struct tcpstore_sum *sum);

/* What a client of that dialect really said: seeds. Returns the length. */
size_t tcpstore_session(char dialect, uint8_t *to, size_t size);

#endif
