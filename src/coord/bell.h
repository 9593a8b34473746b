/*
 * coord/bell.h: a thread that sleeps on the bell of a job of one host (segment/hosts.h), for a loop in which calls
 * wait: for what processes of the job do without the loop.
 *
 *     loop:    if anything waits: mu_listener_arm(l); then look at all that waits;
 *     thread:  sleeps until something has changed, then calls rung(), by which the loop comes to look again.
 *
 * Arming comes before looking: what changes before the look is seen by it, what changes later rings. Each arming is
 * followed by one rung() at least, 100 ms later at the latest, for a ringer may have died. So nobody needs to disarm;
 * and while nothing is armed, nothing here runs.
 */
#ifndef MU_COORD_BELL_H
#define MU_COORD_BELL_H

#include "segment/segment.h"

struct mu_listener;
/*
 * `rung` is called in the thread's own context: uv_async_send() and the like. FAILED_PRECONDITION: the segment was not
 * made for it (muster_segment_config.listened), or its bell is the bridge's. RESOURCE_EXHAUSTED: no thread.
 */
enum muster_status mu_listener_start(struct muster_segment *seg, void (*rung)(void *arg), void *arg,
                                     struct mu_listener **ret_listener);
/* By one thread only, the loop's. A few instructions; the first after a ring wakes the listener: a system call. */
void mu_listener_arm(struct mu_listener *l);
/* Ends the thread: no rung() comes after it. NULL is allowed. */
void mu_listener_stop(struct mu_listener *l);

#endif
