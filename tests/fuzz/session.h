/* tests/fuzz/session.h: what the fuzz target of bridged sessions and its short form share. */
#ifndef TEST_SESSION_H
#define TEST_SESSION_H

#include <stddef.h>
#include <stdint.h>

struct session_sum {
    unsigned taken, refused, sent; /* frames */
};

/*
 * The bytes as a program of what happens to one host's end of a bridge: hosts that come, break and are lost, frames of
 * any content, changes of its own tasks, turns. abort() when the segment is not sound afterwards, or when a frame is
 * sent that the other side would refuse by its length.
 */
void session_try(const uint8_t *data, size_t size, struct session_sum *sum);

#endif
