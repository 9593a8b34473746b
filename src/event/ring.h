/*
 * event/ring.h: the ring, for the agent of a job of several hosts.
 *
 * The leader's ring numbers the events. Its agent sends for other hosts' tasks, and reads what it tells the other
 * agents; those place each event in their own host's ring under the number that it has.
 */
#ifndef MU_EVENT_RING_H
#define MU_EVENT_RING_H

#include <muster/event.h>

#include "segment/segment.h"

/* The number that the next event of this ring will get. */
enum muster_status mu_event_tail(struct muster_segment *seg, uint64_t *ret_tail);

/* The leader's: the next event. Of the record, the number is filled in here and the rest is the caller's. */
enum muster_status mu_event_send(struct mu_ctx *ctx, struct mu_event_record *record, const void *payload, size_t len);

/*
 * A follower's: this event under its number. One that is there already, or was there and has been overwritten, is left
 * alone. Numbers may be left out only where as many follow as the ring holds: until then its readers stand still.
 */
enum muster_status mu_event_place(struct mu_ctx *ctx, const struct mu_event_record *record, const void *payload,
                                  size_t len);

/*
 * A copy of event `sequence`, of which `buffer` takes MUSTER_EVENT_MAX bytes. NOT_FOUND: not sent yet; OUT_OF_RANGE:
 * overwritten; DATA_LOSS. No sentence is left for the first two.
 */
enum muster_status mu_event_copy(const struct muster_segment *seg, uint64_t sequence,
                                 struct mu_event_record *ret_record, void *buffer, size_t *ret_len);

#endif
