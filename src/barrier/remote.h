/* barrier/remote.h: calls on named barriers by the leader, in steps (segment/steps.h). */
#ifndef MU_BARRIER_REMOTE_H
#define MU_BARRIER_REMOTE_H

#include "barrier/named_steps.h"
#include "segment/steps.h"

/*
 * A wait is one request, answered when the instance has ended. A caller that goes away earlier says so by another one,
 * which carries all that the first one did: whichever of the two the leader takes first is the arrival, for both have
 * one name.
 */
struct mu_barrier_remote {
    struct mu_steps steps;
    const char *id;       /* the caller's, as is */
    struct mu_call *call; /* what is asked, with a name; of the answer, the instance and whether it goes on (waiting) */
    bool gives_up;        /* the instance may go on */
    bool said;            /* the leader has said something of the barrier, */
    uint64_t present;     /* its own instance then, */
    uint8_t flags;        /* and MU_MEET_* */
};
/* With id and call set, the rest zero. */
void mu_barrier_wait_begin(struct mu_barrier_remote *r);
/* When the wait has been begun: its caller goes away. */
void mu_barrier_give_up_begin(struct mu_barrier_remote *r);

void mu_barrier_cancel_begin(struct mu_steps *steps, const char *id, uint64_t asked);

#endif
