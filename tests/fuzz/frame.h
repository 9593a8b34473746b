/* tests/fuzz/frame.h: what the fuzz target of the bridge's frames and its short form share. */
#ifndef TEST_FRAME_H
#define TEST_FRAME_H

#include <stddef.h>
#include <stdint.h>

struct frame_sum {
    unsigned messages, faults;
};

/*
 * The bytes as what a peer sends: read whole, and cut into pieces of every small length. abort() when the reader
 * contradicts itself, holds more than it may, or takes what it must not. A JOIN among them is unpacked and packed.
 */
void frame_try(const uint8_t *data, size_t size, struct frame_sum *sum);

/* What two agents really said to each other, each way: seeds. Returns the length. */
size_t frame_session(uint8_t *to, size_t size);

#endif
