/*
 * bridge/call/lanes.h: the bridge of an agent that calls for others: what tasks ask that speak through it, without a
 * thread or a slot of the segment for each call, and without sleeping; and how it hears that something has changed.
 *
 * A lane is a slot number that no thread has. To the leader it is a slot like any other: at most one call of it is
 * open, a call is carried out once, also when it is sent again after a broken connection. But what a lane asks lies in
 * this agent's memory, not in the segment, and dies with it; the host's next agent says so to the leader.
 *
 *     mu_bridge_lanes(bridge, &lanes);                      agent: with the bridge; on the leader, too
 *     mu_lanes_listen(lanes, rung, arg);                    loop: rung() is uv_async_send() and the like
 *
 *     loop:  mu_lanes_take(lanes);                          answers that have come
 *            if anything waits: mu_lanes_arm(lanes); then look at all that waits;
 *
 * One thread, the loop's, makes all calls here; the bridge's threads send them and bring the answers. Arming comes
 * before looking: what changes before the look is seen by it, what changes later is followed by a rung(), 100 ms later
 * at the latest. An answer is followed by a rung() whether anything is armed or not. While nothing is armed or asked,
 * nothing here runs.
 *
 * The leader has no lanes: what its agent wants to know lies in its own segment. It listens all the same.
 */
#ifndef MU_BRIDGE_CALL_LANES_H
#define MU_BRIDGE_CALL_LANES_H

#include "bridge/core/core.h"

struct mu_lanes;

/* With the lock of the core's owner held; at most one of a core. It may outlive the core: then calls are answered
 * UNAVAILABLE. While the core is there, it is freed under the same lock; NULL is allowed. Calls that are open then are
 * not answered any more. RESOURCE_EXHAUSTED: memory. */
enum muster_status mu_lanes_make(struct mu_core *core, struct mu_lanes **ret_lanes);
void mu_lanes_free(struct mu_lanes *lanes);

/* rung: in a thread of the bridge, or in the loop's own, under a lock: nothing of this file may be called in it. NULL:
 * nobody listens; when this returns, no rung() of the one before runs or will. */
void mu_lanes_listen(struct mu_lanes *lanes, void (*rung)(void *arg), void *arg);
void mu_lanes_arm(struct mu_lanes *lanes);

/*
 * A call: its owner zeroes it, fills it in, and keeps it where it is until it has been answered or dropped.
 * answered: in mu_lanes_take(), once for each call; with the answer's status, its sentence ("" with OK) and the op's
 * own bytes, which are there until it returns. The call may be freed or asked again within it, others asked or dropped.
 */
struct mu_lane_call {
    enum mu_op op;           /* one of the leader's: below MU_OP_LOCAL */
    uint32_t task;           /* id + 1, one of this host's; 0: an observer */
    uint32_t flags, attempt; /* MUSTER_JOIN_*; of the task's registration */
    uint64_t incarnation;
    struct mu_pack request; /* taken over: empty when the call has been asked */
    const char *what;       /* for sentences, as of mu_remote_call(); there until it is answered */
    void (*answered)(struct mu_lane_call *call, enum muster_status status, const char *text, struct mu_unpack body);
    void *arg;
    uint32_t lane; /* the lanes'; 0: nothing is asked */
};

/*
 * Ask the leader. While the connection is down the call waits; it ends with its answer, or UNAVAILABLE when the leader
 * is given up. RESOURCE_EXHAUSTED (no lane is free, no memory), FAILED_PRECONDITION (the leader's own agent): nothing
 * is asked, and `answered` will not be called.
 */
enum muster_status mu_lanes_ask(struct mu_lanes *lanes, struct mu_lane_call *call);
/* The same with another question on the call's lane, by which the one that is open there is given up, or its answer
 * thrown away: what MU_OP_BARRIER_GIVE_UP is to MU_OP_BARRIER_WAIT. Of a call that is not open: mu_lanes_ask(). */
enum muster_status mu_lanes_again(struct mu_lanes *lanes, struct mu_lane_call *call);
/* Nobody waits any more: `answered` will not be called. The leader may have carried it out, or may yet. */
void mu_lanes_drop(struct mu_lanes *lanes, struct mu_lane_call *call);
/* Give out the answers that have come. Not within `answered`. */
void mu_lanes_take(struct mu_lanes *lanes);
uint32_t mu_lanes_open(struct mu_lanes *lanes); /* calls that are not answered yet */
uint32_t mu_lanes_left(struct mu_lanes *lanes); /* and how many more there may be */

#endif
