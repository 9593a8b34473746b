/*
 * segment/remote.h: calls that a thread makes to its host's agent, which answers them or asks the leader.
 *
 * A call is one value in the cell "Q" + slot number, its answer one in "Z" + slot number, each put there by one edit:
 * so a call is made whole or not at all, large ones need no other way, and what an agent that died had in hand the next
 * one finds. The caller numbers its calls: one more than the last of this slot, in the same edit. {host, slot, number}
 * names a call for ever: that is what makes a resent one recognisable (I11). At most one call of a slot is open: a
 * new number says that the answer to the older one has come, or is not wanted any more.
 */
#ifndef MU_SEGMENT_REMOTE_H
#define MU_SEGMENT_REMOTE_H

#include "base/blob.h"
#include "base/pack.h"
#include "segment/handle.h"
#include "segment/hosts.h"
#include "segment/table.h"
#include "segment/wait.h"

/*
 * What is asked. Those below MU_OP_LOCAL go to the leader; the others are for the host's own agent. Each op's request
 * and answer are described where it is packed.
 */
enum mu_op {
    MU_OP_NONE = 0, /* nothing is asked: the last call's room has been given back */
    MU_OP_SYNC = 1, /* an answer, and before it all that was committed before: a fresh read is this, then a read */
    MU_OP_KV_INSERT = 2,
    MU_OP_KV_SET = 3,
    MU_OP_KV_COMPARE_AND_SET = 4,
    MU_OP_KV_INCREMENT = 5,
    MU_OP_KV_APPEND = 6,
    MU_OP_KV_DELETE = 7,
    MU_OP_KV_GET = 8, /* also subscribes: the copy comes, and its changes */
    MU_OP_KV_DIR = 9,
    MU_OP_KV_COUNT = 10,
    MU_OP_BARRIER_WAIT = 16, /* answered when the instance has ended */
    MU_OP_BARRIER_GIVE_UP = 17,
    MU_OP_BARRIER_CANCEL = 18,
    MU_OP_TASK_ALIVE = 24, /* answered when all have called */
    MU_OP_ERROR_REPORT = 26,
    MU_OP_TASK_RESET = 27,
    MU_OP_TASK_HEARTBEAT = 28,
    MU_OP_MEMBERSHIP = 29, /* a change of it is proposed, cancelled, or a task is ready, or done */
    MU_OP_EVENT_SEND = 32,
    MU_OP_NCCL_ID = 36,
    MU_OP_GROUP_OPEN = 40,  /* a member comes to a group that spans hosts; answered when all have */
    MU_OP_GROUP_CLOSE = 41, /* it gave that up */
    MU_OP_LOCAL = 64,       /* those from here on are for the own host's agent */
    MU_OP_OBJECT_PULL = 64, /* a replica has been made: segment/replica.h */
    MU_OPS = 128,
};

/* ---- the caller's side ---- */
struct mu_answer {
    enum muster_status status;
    struct mu_unpack body; /* what the op's answer holds besides */
    void *memory;          /* freed by mu_answer_done() */
};
void mu_answer_done(struct mu_answer *a);

/*
 * Ask, and wait for the answer. The status is the answer's, with its sentence as the last error; or UNAVAILABLE (the
 * leader is lost; the agent has died and nobody adopted the job), DEADLINE_EXCEEDED, CANCELLED, RESOURCE_EXHAUSTED.
 * *ret_answer is set in every case, to be given to mu_answer_done(); its memory is NULL when no answer came. While the
 * connection is down it waits: only the deadline, an interrupt or the leader's loss end it. `what`: for status, as in
 * mu_wait_begin(). With ctx from mu_enter() or mu_enter_wait(); kind: for the counts of waits. An op with an answer
 * that may come late takes `ends`: called on each look, it may end the wait with a status (NULL: none).
 */
struct mu_remote_call {
    enum mu_op op;
    const struct mu_pack *request;
    const void *value; /* the request's last value_len bytes: they go from here into the cell */
    size_t value_len;
    muster_deadline deadline;
    const char *what;
    enum mu_wait_kind kind;
    enum muster_status (*ends)(void *arg); /* NULL: nothing else ends it */
    void *arg;
    bool undisturbed; /* muster_interrupt() does not end it: it takes back what an interrupted one may have done */
};
/* What ends every wait for the agent: the leader is lost, or the agent has been dead for too long; *dead_since is 0 at
 * first. */
enum muster_status mu_remote_abandoned(const struct muster_segment *seg, const char *what, uint64_t *dead_since);
enum muster_status mu_remote_call(struct muster *m, struct mu_ctx *ctx, const struct mu_remote_call *call,
                                  struct mu_answer *ret_answer);

/* ---- the agent's side ---- */
struct mu_request {
    uint32_t host, slot; /* the caller's */
    uint64_t number;
    uint32_t op;
    uint32_t task;    /* id + 1; 0: an observer */
    uint32_t flags;   /* MUSTER_JOIN_* of its handle */
    uint32_t attempt; /* of the task's registration */
    uint64_t incarnation;
    bool resent; /* it may have been carried out before */
    struct mu_unpack body;
    struct mu_blob *memory; /* NULL when the body lies elsewhere */
};
void mu_request_done(struct mu_request *r);

/* For each slot that has asked since the last collection. */
void mu_remote_collect(struct muster_segment *seg, void (*visit)(void *arg, uint32_t slot), void *arg);
/* For each slot that was ever claimed: for an agent that starts. */
void mu_remote_collect_all(struct muster_segment *seg, void (*visit)(void *arg, uint32_t slot), void *arg);
/* Its open call: ret->op is MU_OP_NONE when there is none, or when it has been answered; number is the last one's also
 * then. */
enum muster_status mu_remote_read(struct mu_ctx *ctx, uint32_t slot, struct mu_request *ret_request);
/* Answer it: dropped silently when a later call of the slot has been answered. */
enum muster_status mu_remote_answer(struct mu_ctx *ctx, uint32_t slot, uint64_t number, enum muster_status status,
                                    const char *text, const void *body, size_t len);

/* The slot's holder, not 0: another number for each thread that holds it, and another one when that is dead. While it
 * is the same, no call of the slot has lost its caller. */
uint32_t mu_remote_holder(const struct muster_segment *seg, uint32_t slot);
/* If the caller of the slot's last call is dead, or holds the slot no more, nobody will read the answer: the call is
 * taken back, so that no agent asks it again, and the room that it and its answer take is given back. */
struct mu_taken {
    uint64_t number; /* nobody waits for the answer to this one of the slot's calls, nor to those before it; 0: none */
    bool any;        /* something was taken back */
};
enum muster_status mu_remote_take_back(struct mu_ctx *ctx, uint32_t slot, struct mu_taken *ret_taken);

#endif
