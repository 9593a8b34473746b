/* tests/fuzz/datagram.h: what the fuzz target of a shortcut's datagrams and its short form share. */
#ifndef TEST_DATAGRAM_H
#define TEST_DATAGRAM_H

#include <stddef.h>
#include <stdint.h>

/* What a byte of the program says, by its remainder; what else a step needs is taken from the bytes behind it. */
enum datagram_step {
    DATAGRAM_TURN,    /* the speaker looks, and goes on when it is let pass */
    DATAGRAM_SAID,    /* how far ahead, messages: the other host's speaker says it */
    DATAGRAM_TAKEN,   /* so many messages more have been taken by our agent */
    DATAGRAM_ANY,     /* length, bytes: from anybody on the network */
    DATAGRAM_CHANGED, /* how far ahead, messages, a place, a byte: the same, and what a forger makes of it */
    DATAGRAM_LENGTH,  /* how far ahead, messages, bytes more or less */
    DATAGRAM_AGAIN,   /* which: one that was said before, on any connection */
    DATAGRAM_AGENT,   /* our agent lets this host pass */
    DATAGRAM_ANEW,    /* the connection is another: keys and count of messages, too */
    DATAGRAM_OFF,     /* messages, who: the same, and the speaker goes on, or is let pass, before it has looked */
    DATAGRAM_STEPS
};

struct datagram_sum {
    unsigned forged, said; /* datagrams that came */
    unsigned passed;       /* instances, by what was said */
    unsigned by_agent;
};

/*
 * The bytes as a program of what comes to a speaker's socket. abort() when it passes an instance that the other host's
 * speaker has not said, or before its agent has taken what came before that; or when it does not pass one that was
 * said.
 */
void datagram_try(const uint8_t *data, size_t size, struct datagram_sum *sum);

#endif
