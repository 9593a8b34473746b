/* bridge/call/lanes_private.h: what the files of lanes share: lanes.c, the loop's side; lanes_send.c, the bridge's. */
#ifndef MU_BRIDGE_CALL_LANES_PRIVATE_H
#define MU_BRIDGE_CALL_LANES_PRIVATE_H

#include "bridge/call/calls.h"
#include "bridge/core/listener.h"
#include "bridge/call/lanes.h"

enum lane_state { IDLE, WAITS, GOES, LATER, CAME, STATES };

/* An answer: of this call, with its sentence, a NUL and its bytes. NULL: the lanes' own, see `why`. */
struct taken {
    struct mu_lane_call *call;
    uint64_t number;
    enum muster_status status;
    char *memory;
    size_t text_len, len;
};

struct lane {
    struct lane *prev, *next; /* of its state */
    enum lane_state state;
    struct mu_lane_call *call; /* NULL: idle */
    struct mu_request asked;   /* its body is in `request` */
    struct mu_pack request;
    bool sent;      /* this call, at least once, on whatever connection */
    bool unsettled; /* answered, and not acknowledged */
    uint64_t known; /* the last number of the lane that was sent; 0: none */
    size_t bytes;   /* on their way to the leader */
    struct taken answer;
};

struct list {
    struct lane *first, *last;
};

enum why { THERE, LEADER_LOST, AGENT_GOES };

struct mu_lanes {
    struct muster_segment *seg;
    struct mu_core *core; /* under its owner's lock */
    bool leader;
    pthread_mutex_t lock; /* over what follows, but for the listener */
    struct lane *lanes;   /* so many are touched as were in use at a time */
    uint32_t num_lanes, used, open;
    struct list lists[STATES];
    uint64_t first, number; /* before our first number; the last one */
    size_t on_the_way;
    uint64_t again_at; /* UINT64_MAX: not */
    struct mu_pack acks;
    enum why why;
    struct mu_core_listener listener;
};

static inline struct mu_lanes *mu_lanes_of(struct mu_core *core)
{
    return mu_core_state(core, MU_M_LANES);
}

/* lanes.c; with the lock held */
bool mu_lane_is_open(const struct lane *lane);
void mu_lane_move(struct mu_lanes *l, struct lane *lane, enum lane_state state);
/* All of a state are to be sent (again): in the order in which they were asked, and before later ones. */
void mu_lanes_wait_again(struct mu_lanes *l, enum lane_state state);
/* Not on its way any more. */
void mu_lane_arrived(struct mu_lanes *l, struct lane *lane);
/* Up to the last that was sent. */
void mu_lane_acknowledge(struct mu_lanes *l, const struct lane *lane);
/* It has its answer, or what there is instead; the memory is the lane's from now on. */
void mu_lane_come(struct mu_lanes *l, struct lane *lane, const struct taken *t);
/* All that is open ends without an answer. Without the lock. */
void mu_lanes_end_all(struct mu_lanes *l, enum why why);

/* lanes_send.c: to the leader, of all that lanes have asked up to this number. With the owner's lock held. */
void mu_lanes_acknowledge_all(struct mu_core *core, uint64_t number);

#endif
