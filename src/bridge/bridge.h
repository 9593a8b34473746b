/*
 * bridge/bridge.h: the bridge of one agent: core + link + the two threads that drive them. What the agent room uses.
 *
 * The leader listens, waits until every host has come (so the counts of tasks are known), creates nothing itself: the
 * agent creates the segment from the shape and hands its handle over; a follower connects, learns the shape from the
 * welcome, and does the same. From then on two threads take turns under one lock: one sleeps in epoll, one on the bell;
 * the one that wakes does the work, so nothing is handed over. With latency, one of them polls while somebody waits.
 */
#ifndef MU_BRIDGE_BRIDGE_H
#define MU_BRIDGE_BRIDGE_H

#include "bridge/core/core.h"
#include "bridge/call/lanes.h"
#include "bridge/link/link.h"

struct mu_bridge;

struct mu_bridge_options {
    /* Address, key, certificates, limits of time, join; events are filled in here. timeout_ns, after which a silent
     * host is lost, is the leader's for all; 0: 10 s. patience_ns 0: until join_until while meeting, twice the timeout
     * later. A leader's join is what it says of itself. star_hosts 0: 64. */
    struct mu_link_options link;
    bool leader, latency;
    const char *job;     /* a follower's may be NULL or "": it takes part in whatever the leader's is */
    uint32_t num_hosts;  /* leader */
    uint32_t num_tasks;  /* own */
    uint64_t run_id[2];  /* leader: 0, 0: a new run; else that of the segment which it adopted */
    uint64_t adopt_ns;   /* leader: an agent that has died may be replaced for so long; 0: its host is lost at once */
    const void *welcome; /* leader: bytes that every follower's agent gets (the launcher's: commands, environment) */
    size_t welcome_len;
    uint32_t num_events, num_buckets; /* leader: handed on in the shape, as it likes */
    uint64_t heap_bytes, object_bytes, heartbeat_timeout_ns;
    uint64_t join_until; /* CLOCK_MONOTONIC: all hosts must have come */
    void *arg;
    void (*listens)(void *arg, const char *address); /* leader: from within meet, once; may be NULL. As the link's */
    /* Leader: what the user calls a host that has not come; NULL, or "": it has no name yet. May be NULL. */
    const char *(*name_of)(void *arg, uint32_t host);
    void (*said)(void *arg, const char *sentence); /* something the user should read: a refused peer, a lost host */
    bool (*control)(void *arg, uint32_t host, uint32_t kind, const void *bytes, size_t len);   /* bridge's thread, */
    void (*host_changed)(void *arg, uint32_t host, enum mu_peer_state state, const char *why); /* or the watcher's */
};

struct mu_bridge_shape {
    uint32_t num_hosts, host, num_tasks; /* num_tasks: of all hosts */
    const uint32_t *tasks;               /* of each host */
    const char (*names)[64];             /* of each host */
    char job[208];
    uint64_t run_id[2];
    uint32_t num_events, num_buckets;
    uint64_t heap_bytes, object_bytes, heartbeat_timeout_ns;
    uint64_t timeout_ns; /* a host that is silent for longer is lost */
    uint64_t adopt_ns;   /* a host with a dead agent has so long to be back; 0: as above */
    const void *welcome; /* the leader's bytes */
    size_t welcome_len;
};

/* Listen, or connect, and meet: blocks until all hosts are there (the leader), or the welcome has come, or join_until,
 * or *stop becomes non-zero. Errors name the hosts that have not come, or why the leader refused. Texts and bytes of
 * the options are used until the bridge is stopped. */
enum muster_status mu_bridge_meet(const struct mu_bridge_options *options, const _Atomic int *stop,
                                  struct mu_bridge **ret_bridge);
/*
 * Go on where an agent that has died ended: with its segment (the table of hosts is the shape), its address, key and
 * incarnation. Nobody is waited for: a host that was there before comes, or is given up. The options of the meeting and
 * the run, and what the leader hands on, do not count; with `listens` the leader's address is told.
 */
enum muster_status mu_bridge_resume(const struct mu_bridge_options *options, struct muster *m,
                                    struct mu_bridge **ret_bridge);
const struct mu_bridge_shape *mu_bridge_shape(const struct mu_bridge *bridge);
/* The segment is there: go. Takes an observer's handle that outlives it. UNAVAILABLE: the leader has left since. */
enum muster_status mu_bridge_start(struct mu_bridge *bridge, struct muster *m);
/* To another agent (a follower: the leader alone; host UINT32_MAX: all). Any thread. */
void mu_bridge_control(struct mu_bridge *bridge, uint32_t host, uint32_t kind, const void *bytes, size_t len);
/* The leader's: the host will not be back, as its owner knows otherwise: it is lost at once. Any thread. */
void mu_bridge_give_up(struct mu_bridge *bridge, uint32_t host, const char *why);
/* For an agent that calls for others (bridge/call/lanes.h): once the bridge has started. Any thread; the second before
 * the bridge is stopped, or after its end by mu_lanes_free(). */
enum muster_status mu_bridge_lanes(struct mu_bridge *bridge, struct mu_lanes **ret_lanes);
void mu_bridge_end_lanes(struct mu_bridge *bridge, struct mu_lanes *lanes);
/* A follower: the leader has said that its process will be stopped, and that its silence means nothing; or that it goes
 * on. Until then only the end of the connection is its end. Any thread. */
void mu_bridge_be_patient(struct mu_bridge *bridge, bool is_patient);
/* Another thread looks every 100 ms, by the second of these, whether somebody changed something and was killed or
 * stopped before it rang the bell; or no longer. For one that wakes up as often anyway: the bridge's own then does not.
 * Once the bridge has started, and before it is stopped. */
void mu_bridge_be_looked_after(struct mu_bridge *bridge, bool is);
void mu_bridge_look(struct mu_bridge *bridge);
/* Orderly: the others see LEAVE; joins the threads; frees. NULL is fine. Not from within the bridge's thread. */
void mu_bridge_stop(struct mu_bridge *bridge);

#endif
