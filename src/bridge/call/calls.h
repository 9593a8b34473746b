/*
 * bridge/call/calls.h: what the two files of the calls share: bridge/call/calls.c, the asking host, and
 * bridge/call/dispatch.c, which carries calls out.
 */
#ifndef MU_BRIDGE_CALL_CALLS_H
#define MU_BRIDGE_CALL_CALLS_H

#include "bridge/core/modules.h"

enum {
    KEPT_MAX = 4096,
    SWEEP_BUCKETS = 4096 /* looked through for settled records in one turn */
};
#define WINDOW   ((size_t)MU_FRAME_VALUE_MAX)
#define LATER_NS 5000000u   /* until a call that could not be carried out is sent again */
#define SWEEP_NS 250000000u /* between looks for dead callers, and for settled records */
/* An answer is acknowledged with others, a while later: nobody waits for it, and alone it would wake the leader again.
 * The slot's next call says the same. */
#define ACK_NS       10000000u
#define ACK_BYTES    (12u * 64)
#define DELETE_PIECE 2048u /* looks at a bucket, or as much work, at a time: about a millisecond */

/* A call of this host's. */
struct asked {
    uint64_t number;
    size_t bytes;    /* on their way to the leader */
    uint32_t holder; /* of the slot, when it was last looked at for dead callers; 0: never */
    bool open;       /* not answered, as far as known */
    bool again;      /* to be sent once more, at again_at */
};

/* What became of a slot's last call: for slots of all hosts, on the host that carries it out. */
enum call_fate { UNKNOWN, OPEN, ANSWERED, SETTLED };
struct call_entry {
    uint64_t number;
    uint32_t op;
    enum call_fate fate;
    uint8_t *answer;       /* the ANSWER frame's payload; NULL: not kept */
    size_t len, unsettled; /* bytes of the answer, kept or not, until it is acknowledged */
};
struct entries {
    struct call_entry *at;
    uint32_t count;
};
struct host_calls {
    struct entries slots[2]; /* MU_SLOT_TABLE() */
    uint32_t open;
    size_t unsettled;
    bool lost;
    uint32_t gone_from; /* calls of slots from here on, up to this number, are of an agent that is no more */
    uint64_t gone;      /* 0: none */
};

struct calls {
    struct asked *asked; /* by own slot */
    uint32_t num_slots, num_open;
    size_t on_the_way;
    bool started;
    uint64_t again_at, sweep_at, ack_at; /* UINT64_MAX: not */
    struct mu_pack acks;
    struct host_calls *hosts; /* the leader's by host; a follower has its own alone */
    uint64_t *records;        /* the leader's: a bit a bucket that may hold some */
    uint32_t num_buckets, sweep_from;
    bool any_record;
    struct deletion *deletions; /* the leader's, that are under way (kv_ops.c) */
    uint64_t delete_at;         /* UINT64_MAX: none is */
    uint64_t deleted_at;        /* the turn of the last piece */
    uint32_t delete_of;         /* the host that it was for */
};

/* A call of ours to the leader. False: no memory. */
bool mu_send_call(struct mu_core *core, const struct mu_request *r);
/* To the leader, a while later: what it kept of this call and those before it can go. */
void mu_acknowledge(struct calls *c, uint32_t slot, uint64_t number);
/* How many calls of ours are open, for people. */
void mu_show_asking(struct mu_core *core);

/* ---- lanes.c ---- */
size_t mu_lanes_on_the_way(struct mu_core *core);
uint32_t mu_lanes_asking(struct mu_core *core);
/* An answer to a slot that no thread has. False: it cannot be. */
bool mu_lanes_take_answer(struct mu_core *core, uint32_t slot, uint64_t number, bool later, enum muster_status status,
                          const char *text, const struct mu_unpack *u);

static inline struct calls *mu_calls_of(struct mu_core *core)
{
    return mu_core_state(core, MU_M_CALLS);
}

static inline struct host_calls *mu_calls_of_host(struct mu_core *core, uint32_t host)
{
    return &mu_calls_of(core)->hosts[core->leader ? host : 0];
}

/* Do what is asked, unless it was done. */
void mu_dispatch_out(struct mu_core *core, const struct mu_request *r);
/* This host's caller is dead: nobody waits for what it asked its own agent, up to this number. */
void mu_dispatch_end(struct mu_core *core, uint32_t slot, uint64_t number);
/* The answer into this host's segment. */
enum muster_status mu_hand_over(struct mu_core *core, uint32_t slot, uint64_t number, enum muster_status status,
                                const char *text, const void *body, size_t len);
void mu_sweep_records(struct mu_core *core);
/* kv_ops.c: the next piece of a delete. */
void mu_deletions_look(struct mu_core *core);
void mu_deletions_done(struct calls *c);
void mu_free_entries(struct host_calls *h);
/* The host will not ask again. */
void mu_forget_host(struct mu_core *core, uint32_t host);
/* A call of this host's has been answered, or is to be asked again in a while. */
void mu_asked_settle(struct mu_core *core, uint32_t slot, uint64_t number);
void mu_asked_later(struct mu_core *core, uint32_t slot);

#endif
