/*
 * bridge/core/core.h: one host's end of the bridge: what it holds, and how its modules hang together.
 *
 * The core knows nothing of sockets, threads or clocks: frames are given to it (mu_core_frame), peers come and go
 * (mu_core_up, _down, _lost), time is told (mu_core_turn), and what it has to say goes out through a wire. So the same
 * code runs over TCP (bridge/link/link.h), between threads in tests, and under a seeded scheduler.
 *
 * A turn. Modules look at their own segment (`look`): what changed there becomes frames (mu_core_send). Then, for each
 * host that anything is to be sent to, task records and events that have come meanwhile go in FRONT of that, and the
 * copies module collects the changed keys that this host is interested in and puts them AHEAD of it all (I10): whatever
 * a host learns, it learns after the writes that came before it. Then all goes to the wire.
 */
#ifndef MU_BRIDGE_CORE_CORE_H
#define MU_BRIDGE_CORE_CORE_H

#include <sys/socket.h>

#include "base/blob.h"
#include "base/pack.h"
#include "segment/remote.h"

#define MU_CORE_MODULES 11u

struct mu_core;

/* Where frames go. A message is handed over whole; the wire splits it. */
struct mu_core_tables;

struct mu_core_wire {
    void *arg;
    /* false: the peer is not there, or its queue is full, and it has been dropped (down will be called) */
    bool (*send)(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len);
    /* Break the connection, with the reason for both sides' messages. */
    void (*drop)(void *arg, uint32_t host, const char *why);
    /* The same as send, of a message with its end in a blob, which the wire holds for as long as it needs it. NULL:
     * such a message is put together first. */
    bool (*send_slice)(void *arg, uint32_t host, uint8_t type, const void *head, size_t head_len,
                       const struct mu_slice *body);
    /* The two ends of the connection. False: the host is not there, or comes through another. NULL: never. */
    bool (*path)(void *arg, uint32_t host, struct sockaddr_storage *ret_own, struct sockaddr_storage *ret_peer);
};

struct mu_module {
    const char *name;
    bool (*init)(struct mu_core *core, void **ret_state); /* false: no memory */
    void (*done)(struct mu_core *core);
    void (*up)(struct mu_core *core, uint32_t host);   /* (re)connected: say everything that it must know anew */
    void (*down)(struct mu_core *core, uint32_t host); /* broken; it may come back */
    void (*lost)(struct mu_core *core, uint32_t host, const char *why); /* given up for good, or left */
    void (*look)(struct mu_core *core);                 /* every turn: what changed in our own segment */
    void (*front)(struct mu_core *core, uint32_t host); /* members and events: see above */
    void (*ahead)(struct mu_core *core, uint32_t host); /* copies only, after all fronts */
    void (*says)(struct mu_core *core, uint32_t host);  /* all that is decided goes out to it now */
    void (*took)(struct mu_core *core, uint32_t host);  /* a frame of its has been taken */
    void (*rest)(struct mu_core *core);                 /* the turn is over */
    uint64_t (*next)(struct mu_core *core);             /* when it must look again though nothing happens; UINT64_MAX */
    bool (*busy)(struct mu_core *core); /* somebody waits for an answer that will come soon: --latency polls */
};

/* The one table of frames: PROTOCOL.md is checked against it. */
enum mu_frame_from { MU_FROM_LEADER = 1, MU_FROM_FOLLOWER = 2, MU_FROM_BOTH = 3 };
struct mu_frame_kind {
    uint8_t type;
    const char *name;
    enum mu_frame_from from;
    uint32_t min_len, max_len; /* of the payload; refused outside before the module sees it */
    /* false: not well formed; the connection is dropped with the sentence left by mu_fail() */
    bool (*take)(struct mu_core *core, uint32_t host, struct mu_unpack *u);
};
extern const struct mu_frame_kind mu_frame_kinds[]; /* bridge/core/tables.c */
extern const size_t mu_frame_kinds_count;

/* Types: 1-15 the link's own (bridge/link/link.h); then by module. */
enum mu_frame_type {
    /* calls.c */
    MU_FRAME_CALL = 16,
    MU_FRAME_ANSWER = 17,
    MU_FRAME_ACK = 18,
    /* copies.c */
    MU_FRAME_COPIES = 24,
    MU_FRAME_FORGET = 25,
    /* barrier_ops.c */
    MU_FRAME_MEETING = 32,
    /* members.c */
    MU_FRAME_RECORDS = 40,
    MU_FRAME_HOSTS = 41,
    MU_FRAME_TO_OWNER = 42,
    MU_FRAME_OWNER_SAYS = 43,
    /* epochs.c */
    MU_FRAME_MEMBERSHIP = 44,
    /* events.c */
    MU_FRAME_EVENTS = 48,
    MU_FRAME_EVENTS_FROM = 49,
    MU_FRAME_EVENTS_TAKEN = 50,
    /* groups.c */
    MU_FRAME_GROUP = 56,
    MU_FRAME_GROUP_END = 57,
    /* control.c */
    MU_FRAME_CONTROL = 64,
    /* object/objects.c */
    MU_FRAME_OBJECT = 72,
};

/*
 * What a peer is now, and what may happen to it: mu_peer_steps says what each event makes of each state, and so which
 * frames are taken. A frame in a state without a step breaks the connection.
 */
enum mu_peer_state { MU_PEER_ABSENT, MU_PEER_UP, MU_PEER_DOWN, MU_PEER_LOST, MU_PEER_STATES };
enum mu_peer_event { MU_PEER_COMES, MU_PEER_FRAME, MU_PEER_BREAKS, MU_PEER_GIVEN_UP, MU_PEER_EVENTS };
enum mu_peer_act {
    MU_ACT_NONE,   /* nothing happens */
    MU_ACT_REFUSE, /* the connection is broken, and the state stays */
    MU_ACT_UP,
    MU_ACT_TAKE,
    MU_ACT_DOWN,
    MU_ACT_AGAIN, /* down, then up */
    MU_ACT_LOST,
};
extern const enum mu_peer_act mu_peer_steps[MU_PEER_STATES][MU_PEER_EVENTS];
extern const char *const mu_peer_state_names[MU_PEER_STATES];

/* A message in one of a peer's three buffers; its head follows. What is long lies in a blob, so that it is not copied
 * again on its way. */
#define MU_SLICE_MIN 4096u
extern size_t mu_slice_min; /* what is longer; less than MU_SLICE_MIN for tests alone */
struct mu_spoken {
    struct mu_slice body; /* blob NULL: none */
    uint32_t head_len;
    uint8_t type;
};

struct mu_peer {
    enum mu_peer_state state;
    uint64_t since, heard;             /* CLOCK_MONOTONIC ns */
    uint64_t told, taken;              /* messages of this connection */
    struct mu_pack ahead, front, tail; /* messages of this turn: struct mu_spoken each, and its head */
    size_t slices;                     /* bytes that those of the tail have elsewhere */
    size_t may_go;                     /* bytes of the tail; what is behind them stays (mu_core_hold) */
    bool wanted;                       /* something must go out to it this turn, if only what is ahead */
    bool timed;                        /* `heard` is kept by mu_core_heard(), too */
};

struct mu_core {
    const struct mu_core_tables *tables;
    struct muster *m; /* an observer's handle on this host's segment; modules mu_enter() it when they need a context */
    struct muster_segment *seg;
    uint32_t num_hosts, host;
    bool leader;
    bool latency;     /* a leader's: of a group's barrier the last host is trusted with the verdict */
    bool worked;      /* in this turn: another may find more */
    bool is_calm;     /* the caller's: nobody has rung, nothing has come; this turn looks again, for time's sake */
    uint64_t now;     /* as of this turn */
    uint64_t timeout; /* ns: a host silent for longer is lost */
    uint64_t adopt;   /* ns: a host with a dead agent, rather than a silent one, has so long to be back; 0: as above */
    struct mu_core_wire wire;
    struct mu_peer *peers;        /* by host; a follower uses [0] alone */
    void *state[MU_CORE_MODULES]; /* by module, in the table's order */
    struct mu_core_listener
        *listener; /* the second listener to this host's bell (bridge/core/listener.h); NULL: none */
    /* the agent's: what other agents say to it (bridge/core/control.h); false: not now, the connection is to begin anew
     */
    bool (*control)(void *arg, uint32_t host, uint32_t kind, const void *bytes, size_t len);
    void (*host_changed)(void *arg, uint32_t host, enum mu_peer_state state, const char *why);
    void *arg;
};

/* The places in core->state; the table (bridge/core/tables.c) has each module at its own. NULL there: not linked in. */
enum mu_module_index {
    MU_M_CALLS,
    MU_M_COPIES,
    MU_M_BARRIERS,
    MU_M_MEMBERS,
    MU_M_EVENTS,
    MU_M_GROUPS,
    MU_M_CONTROL,
    MU_M_IDS,
    MU_M_LANES,
    MU_M_OBJECTS,
    MU_M_EPOCHS
};
/* What a core is made of. Modules and calls see the core, which knows them by these tables alone. */
struct mu_core_tables {
    const struct mu_module *const *modules; /* MU_CORE_MODULES */
    const struct mu_frame_kind *frames;
    size_t num_frames;
    const struct mu_op_kind *ops;
    size_t num_ops;
};
extern const struct mu_core_tables mu_bridge_tables; /* bridge/core/tables.c: all there is */

/*
 * The caller zeroes *core, and sets timeout, latency, control, host_changed and arg as it likes. Errors: no memory.
 * mu_core_done() is the end of this agent's part, orderly or not: the segment keeps what the next agent needs.
 */
enum muster_status mu_core_init(struct mu_core *core, const struct mu_core_tables *tables, struct muster *m,
                                const struct mu_core_wire *wire, uint64_t now);
void mu_core_done(struct mu_core *core);
void mu_core_up(struct mu_core *core, uint32_t host, uint64_t now);
void mu_core_down(struct mu_core *core, uint32_t host, const char *why, uint64_t now);
void mu_core_lost(struct mu_core *core, uint32_t host, const char *why, uint64_t now);
/* The reason to give for a host that leaves in good order. */
#define MU_CORE_LEFT "it has left"
/* The link's heartbeats, which the core does not see: the host was heard of then. A caller that keeps this up for its
 * peers gives the core reason to count a broken connection's silence from there. */
void mu_core_heard(struct mu_core *core, uint32_t host, uint64_t when);
void mu_core_frame(struct mu_core *core, uint32_t host, uint8_t type, const void *payload, size_t len, uint64_t now);
/* Look, collect, send. True: it did something, so another turn may find more. */
bool mu_core_turn(struct mu_core *core, uint64_t now);
uint64_t mu_core_next(struct mu_core *core);
bool mu_core_busy(struct mu_core *core);
/* "host b": for sentences. */
const char *mu_core_host_name(const struct mu_core *core, uint32_t host, char name[80]);

/* For modules, within a turn, a frame's `take` or `up`. A follower sends to host 0 alone. To a peer that is not up
 * nothing is sent: what it must know it learns when it comes. */
void mu_core_send(struct mu_core *core, uint32_t host, uint8_t type, const void *payload, size_t len);
/* The payload in two pieces: what a value's bytes are not copied together for. */
void mu_core_send_parts(struct mu_core *core, uint32_t host, uint8_t type, const void *head, size_t head_len,
                        const void *body, size_t len);
/* The second in a blob, which is held until it has gone out: no copy. */
void mu_core_send_slice(struct mu_core *core, uint32_t host, uint8_t type, const void *head, size_t head_len,
                        const struct mu_slice *body);
void mu_core_send_slice_ahead(struct mu_core *core, uint32_t host, uint8_t type, const void *head, size_t head_len,
                              const struct mu_slice *body);
void mu_core_send_ahead(struct mu_core *core, uint32_t host, uint8_t type, const void *payload, size_t len);
void mu_core_send_front(struct mu_core *core, uint32_t host, uint8_t type, const void *payload, size_t len);
/* For a module's `front` that has more to say than it may at once: only so many bytes of what is in the tail go now,
 * the rest when it says so. SIZE_MAX: all. */
void mu_core_hold(struct mu_core *core, uint32_t host, size_t may_go);
/* A buffer that has served: what a large value, or all records, took once is not kept. Empty afterwards. */
void mu_core_trim(struct mu_pack *p);
/* For core.c: the messages of a buffer to the wire, up to here; false: the connection is gone. Nothing of it goes out.
 */
bool mu_core_flush(struct mu_core *core, uint32_t host, struct mu_pack *p, size_t until);
void mu_core_forget_said(struct mu_peer *p);
void mu_core_want(struct mu_core *core, uint32_t host); /* run `ahead` for it though nothing else is to be sent */
/* Something was done that others may look for: there will be another turn at once. */
/* Hosts that can be peers: a follower's is the leader alone. */
static inline bool mu_core_is_peer(const struct mu_core *core, uint32_t host)
{
    return core->leader ? host && host < core->num_hosts : !host;
}
static inline void mu_core_worked(struct mu_core *core)
{
    core->worked = true;
}
static inline void *mu_core_state(struct mu_core *core, enum mu_module_index i)
{
    return core->state[i];
}

/* ---- calls.c, dispatch.c: requests of tasks on this host and, on the leader, of all hosts ---- */
/* Carry out a call. true: answered by mu_call_answer() now or by the time it returns; false: will be answered later by
 * the module that kept {host, slot, number}. */
typedef bool (*mu_op_fn)(struct mu_core *core, const struct mu_request *request);
struct mu_op_kind {
    enum mu_op op;
    const char *name;
    mu_op_fn fn; /* runs on the leader; LOCAL ones on the asking host's agent */
    /* It asks something else now, or its host is lost; NULL: nothing is kept. */
    void (*abandoned)(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number);
};
extern const struct mu_op_kind mu_op_kinds[];
extern const size_t mu_op_kinds_count;
/*
 * To the caller, on any host (our own too). Text may be NULL: the last error's when status is not OK. Not within
 * the callbacks of an edit or a walk. An answer to a call that is not open any more is dropped.
 */
void mu_call_answer(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number, enum muster_status status,
                    const char *text, const void *body, size_t len);
/* The same with status OK; the answer's end lies in a blob, which is held until it has gone. */
void mu_call_answer_slice(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number,
                          const struct mu_pack *head, const struct mu_slice *body);
/* It cannot be carried out now, for want of something that comes by itself, and nothing was changed: the asking host
 * sends it again in a while, so that nobody has to keep it here. */
void mu_call_later(struct mu_core *core, uint32_t host, uint32_t slot, uint64_t number);
/* mu_forget_fn, with the core as its argument: for edits that are made for other hosts' calls. */
bool mu_call_is_settled(void *core, uint64_t id, uint64_t number);
/* On the leader: a record of a call was put into this bucket of the keys' table: it is taken out when it is settled. */
void mu_call_left_record(struct mu_core *core, uint32_t bucket);

#endif
