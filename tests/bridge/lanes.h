/*
 * tests/bridge/lanes.h: an agent that calls for others, as a test plays it: questions by the lanes of one host, and
 * their answers. The test's thread is the loop. Hosts may be stepped, or have threads (hosts.h).
 */
#ifndef TEST_LANES_H
#define TEST_LANES_H

#include <semaphore.h>

#include "bridge/call/lanes.h"
#include "cm.h"
#include "hosts.h"

/* One who asks. */
struct caller {
    struct mu_lanes *lanes;
    struct hosts *h;
    uint32_t host;
    sem_t rung;
};

struct question {
    struct mu_lane_call call;
    unsigned answers; /* since it was last asked: 1 at most */
    enum muster_status status;
    char text[300];
    uint8_t *bytes; /* malloc()ed */
    size_t len;
};

void caller_begin(struct caller *c, struct hosts *h, uint32_t host);
void caller_end(struct caller *c);
/* The agent is another one now: so are the lanes. What was asked is not answered. */
void caller_anew(struct caller *c);
/* Takes answers until this question has its own; fails the test after a minute. */
void caller_await(struct caller *c, struct question *q);
/* Takes answers until the condition holds: await() of test.h. */
#define lanes_await(c, condition, ...)                                                                                 \
    do {                                                                                                               \
        mu_lanes_take((c)->lanes);                                                                                     \
        await_by(caller_step(c), condition, __VA_ARGS__);                                                              \
    } while (0)
void caller_step(struct caller *c);

/* Not yet asked: what is in the request. */
void question_add(struct question *q, const char *key, int64_t by);
void question_append(struct question *q, const char *key, const char *text);
void question_set(struct question *q, const char *key, const void *value, size_t len);
void question_get(struct question *q, const char *key, uint8_t flags, uint64_t from);
void question_done(struct question *q);
/* Asks, waits, and gives the status; with the number that changes answer. */
enum muster_status caller_do(struct caller *c, struct question *q, uint64_t *ret_number);

/* What the leader still has of a host's calls. */
struct left {
    uint32_t open, waiters;
    size_t unsettled;
};
struct left left_at_leader(struct hosts *h, uint32_t host);

#endif
