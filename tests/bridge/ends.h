/* tests/bridge/ends.h: both ends of links in one process, what their owners were told, and sockets that behave badly.
 */
#ifndef TEST_ENDS_H
#define TEST_ENDS_H

#include <stdbool.h>

#include "bridge/link/link.h"

#define END_HOSTS 128u

struct end {
    struct mu_link *link;
    struct mu_link_options options;
    uint64_t ahead; /* how far its clock is ahead of the machine's */
    enum mu_join_verdict verdict;
    bool echo; /* every frame goes back as it came */
    uint32_t ups, downs, lefts, gones, refusals, connection, last_host;
    uint32_t ups_of[END_HOSTS];
    uint64_t frames, bytes, sum; /* sum: of all bytes, in order */
    uint64_t before_up;          /* frames of hosts that were not up: must stay 0 */
    bool is_up[END_HOSTS];
    uint8_t last_type;
    size_t last_len;
    char why[512]; /* of the last down or refused */
    char said[4096];
    struct mu_join join; /* the last that came */
};

extern const uint8_t end_key[MU_KEY_BYTES], end_other_key[MU_KEY_BYTES];

/* Small time limits; what is set after is the caller's. */
void end_init(struct end *e);
/* Address "127.0.0.1:0" unless the options say otherwise; fails the test when it cannot. */
void end_listen(struct end *e);
void end_connect(struct end *e, const struct end *leader, uint32_t node);
/* All at once: each waits until the others have read its goodbye. */
void ends_free(struct end *const *ends, unsigned count);

/* Turns of all of them until the condition holds: await() of test.h. */
#define ends_await(ends, count, condition, ...)                                                                        \
    do {                                                                                                               \
        ends_turn((ends), (count));                                                                                    \
        await_by(ends_step((ends), (count)), condition, __VA_ARGS__);                                                  \
    } while (0)
/* Sleeps until one of them has something to do, and then a turn of each. */
void ends_step(struct end *const *ends, unsigned count);
/* One turn of each, without waiting. */
void ends_turn(struct end *const *ends, unsigned count);

/* A plain socket, connected to the leader's port; and one that listens, for a follower to come to. */
int end_socket(const struct end *leader);
int end_listener(char address[64]);
/* Header and payload. Returns how many bytes. */
size_t end_frame(uint8_t *to, uint8_t type, uint32_t sequence, const void *payload, size_t len);
void end_write(int fd, const void *bytes, size_t len);
/* A JOIN of node 0 or any other, as a frame with sequence 0. */
size_t end_join_frame(uint8_t *to, uint32_t node);
/* The next frame's payload from a blocking socket (at most ten seconds); its type, 0 when the stream has ended. */
uint8_t end_read_frame(int fd, void *payload, size_t size, size_t *ret_len);

#endif
