/*
 * muster/event.h: numbered broadcast events.
 *
 * A sender never blocks: the ring keeps the last num_events (see muster_segment_config), older ones are overwritten.
 * Each reader keeps its own position; one that falls behind is told how many it lost. Numbers start at 0 and have no
 * holes. In a job of several hosts they are the same on all; there a sender waits for the leader's host, which numbers
 * them: MUSTER_UNAVAILABLE when that is lost, or when after a break it cannot be told whether the event was sent.
 */
#ifndef MUSTER_EVENT_H
#define MUSTER_EVENT_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_EVENT_MAX 16384u

struct muster_event {
    uint64_t sequence;
    uint64_t time_ns; /* CLOCK_MONOTONIC of the sender; of one on another host: here, about when it was sent */
    int32_t task_id;  /* sender; -1: an observer */
    uint32_t type;    /* the sender's own number */
    size_t len;       /* of the payload */
};

/* Send; *ret_sequence may be NULL. Up to MUSTER_EVENT_MAX bytes. */
MUSTER_API enum muster_status muster_event_send(struct muster *muster, uint32_t type, const void *payload, size_t len,
                                                uint64_t *ret_sequence);

/* The number that the next event will get: a reader that wants only what comes starts there; 0 wants all. */
MUSTER_API enum muster_status muster_event_next(struct muster *muster, uint64_t *ret_sequence);

/*
 * Read the event at *position, waiting for it until the deadline, and move *position behind it. When it has been
 * overwritten: MUSTER_OUT_OF_RANGE, *ret_lost gets how many are gone, and *position moves to the oldest one left.
 * A payload longer than `capacity` is cut; ret_event->len is its whole length.
 */
MUSTER_API enum muster_status muster_event_read(struct muster *muster, uint64_t *position, muster_deadline deadline,
                                                struct muster_event *ret_event, void *buffer, size_t capacity,
                                                uint64_t *ret_lost);

#ifdef __cplusplus
}
#endif
#endif
