/*
 * segment/hosts.h: a segment's place in a job of several hosts.
 *
 * Each host has a segment of its own. Host 0's is the leader's: the truth about keys, named barriers, events and the
 * order of errors. A follower's holds its own tasks' slots and records, copies of what the leader told it, and the
 * calls that its tasks make to the leader (segment/remote.h). Task ids are the job's; each host has a run of them.
 */
#ifndef MU_SEGMENT_HOSTS_H
#define MU_SEGMENT_HOSTS_H

#include "segment/segment.h"

/* seg->num_hosts is 1, and its run of tasks all of them, where the job has one host. */
static inline bool mu_is_bridged(const struct muster_segment *seg)
{
    return seg->num_hosts > 1;
}
static inline bool mu_is_follower(const struct muster_segment *seg)
{
    return seg->host != 0;
}
static inline bool mu_is_leader(const struct muster_segment *seg)
{
    return seg->num_hosts > 1 && seg->host == 0;
}
static inline bool mu_is_local_task(const struct muster_segment *seg, uint32_t task)
{
    return task - seg->first_task < seg->local_tasks;
}

/* The host that a task runs on; 0 when alone. */
uint32_t mu_host_of(const struct muster_segment *seg, uint32_t task);
/* Its name: as told by its agent, else "host 3"; alone: the header's. */
void mu_host_name(const struct muster_segment *seg, uint32_t host, char *name, size_t size);
/* For its agent: the name that it is called by from now on. */
void mu_host_set_name(struct muster_segment *seg, uint32_t host, const char *name);

/* For the creator of one of several hosts' segments. */
struct mu_hosts_config {
    uint32_t num_hosts;        /* 2 to MU_HOSTS_MAX */
    uint32_t host;             /* own index */
    const uint32_t *num_tasks; /* of each host, 0 allowed; the sum is the configuration's num_tasks */
    uint64_t run_id[2];        /* the job's, the same on all hosts; 0, 0: made here (the leader) */
    uint64_t adopt_ns;         /* within which an agent that died must be replaced; 0: MU_ADOPT_NS */
};
#define MU_ADOPT_NS 60000000000u

enum mu_host_state {
    MU_HOST_AWAITED = 0, /* has not joined yet */
    MU_HOST_UP = 1,
    MU_HOST_DOWN = 2, /* its connection broke; it may come back */
    MU_HOST_LOST = 3, /* given up, for good */
    MU_HOST_LEFT = 4, /* in good order */
};

/*
 * The bell: how a task, or any writer of the leader's segment, calls its agent's attention. The ringer has made its
 * change, by a CAS; a full fence; then it looks at the bell, and if that is armed, rings and wakes. The agent arms the
 * bell; a full fence; looks at everything once more; sleeps. So one of the two sees the other. What a ringer that
 * dies in between has changed is found by the agent's next look, at most 100 ms later; where another thread looks in
 * its place (mu_bridge_be_looked_after()) by that, and if that hangs, 2 s later.
 *
 * A job of one host has an agent that listens only where its segment was made so (muster_segment_config.listened): for
 * wire clients' calls that wait. One thread sleeps on it, never two.
 */
void mu_bell_ring_always(struct muster_segment *seg);
static inline void mu_bell_ring(struct muster_segment *seg)
{
    if (seg->listened)
        mu_bell_ring_always(seg);
}
void mu_bell_arm(struct muster_segment *seg);
/* Sleep while it is armed, until the deadline at most; the bell is off afterwards. True: it was rung. */
bool mu_bell_wait(struct muster_segment *seg, muster_deadline deadline);
/* Wakes the sleeper though it is not armed: a ringer was killed, or stopped, between its ring and its wake, and until
 * the ring is taken back nobody else rings. For a thread that looks in the sleeper's stead. */
void mu_bell_wake(struct muster_segment *seg);
/* Take the ring back without sleeping: true when it had been rung. For a thread with work between arming and sleep. */
bool mu_bell_disarm(struct muster_segment *seg);

/* For an agent with two listeners (bridge/core/listener.h): arm it; false: it was not armed, or not all the time, so a
 * change before this may have rung for nobody. Arm it, unless it is armed, or rung for its sleeper. */
bool mu_bell_arm_again(struct muster_segment *seg);
void mu_bell_arm_if_off(struct muster_segment *seg);
/* Whether it is; a ring that lies there is taken back. */
bool mu_bell_is_armed(struct muster_segment *seg);

/* Say that the slot has made a call, which is there; and ring. */
void mu_asks_set(struct muster_segment *seg, uint32_t slot);
/* For the agent: which of the slots 64 * i to 64 * i + 63 have, since it last asked. */
uint64_t mu_asks_take(struct muster_segment *seg, uint32_t i);

/* What waits may believe about the agent's connection to the leader; of the leader's own agent: UP. */
enum mu_bridge_state {
    MU_BRIDGE_DOWN = 0, /* no connection now: calls wait */
    MU_BRIDGE_UP = 1,
    MU_BRIDGE_LOST = 2, /* the leader is given up: every call fails */
};
/* The agent says so, by the slot of this context, and all waiters look again. Each saying begins a round: what
 * was asked of the leader in an earlier one is not believed to be remembered there. */
void mu_host_bridge_say(struct mu_ctx *ctx, enum mu_bridge_state state);
enum mu_bridge_state mu_host_bridge_state(const struct muster_segment *seg);
uint32_t mu_host_bridge_round(const struct muster_segment *seg);
/* Whether the agent that spoke last lives, by the kernel's word. */
bool mu_host_bridge_agent_lives(const struct muster_segment *seg);

#endif
