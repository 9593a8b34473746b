/*
 * bridge/barrier/pending.h: calls that wait, which an agent makes for others: at named barriers, and liveness queries.
 * The leader's agent makes them for tasks of other hosts (barrier_ops.c), an engine for its clients (coord/barrier.c).
 *
 * What is pending is a barrier, or a set of tasks: a cell of the segment at which calls wait. It is looked at when a
 * call comes to it, and when something says that it may have changed: its bucket's word, the job's state, its deadline.
 * The rules are those of barrier/named_steps.h and task/alive.h; this is when they are asked, and for which caller.
 *
 *     c = …; mu_pending_add(mu_pending_of(t, key, len), c);     it arrives at the next look, with all that came since
 *     mu_pending_look_due(t, now, version);                     each call that has its answer: t->answered(), and is
 * out mu_pending_next(t);                                       when to look, even if nothing changes
 *
 * All of a table is used by one thread, or under one lock. Nothing is kept in the segment: an agent that starts has
 * none of it, and is sent the calls again.
 */
#ifndef MU_BRIDGE_BARRIER_PENDING_H
#define MU_BRIDGE_BARRIER_PENDING_H

#include "barrier/named_steps.h"
#include "segment/handle.h"
#include "task/alive.h"

#define MU_PENDING_OUT_NS 100000000u /* a recoverable participant is out: what becomes of it may change no version */

/* A call that waits, or is about to arrive; within what its owner keeps of it. */
struct mu_pending_call {
    struct mu_pending_call *prev, *next; /* in the order in which they came */
    struct mu_pending *at;
    bool here; /* its arrival has been made */
    union {
        struct mu_call call;
        struct mu_alive_call alive;
    };
};

struct mu_pending {
    struct mu_pending *prev, *next, *chain;
    struct mu_pending_call *first, *last;
    uint32_t arriving, waiting;
    size_t bytes;                  /* of lists that the arriving ones brought */
    struct mu_pending_call *payer; /* its owner's: the call of the client that bears what a look takes; NULL: none */
    mu_a64 *bucket;
    uint64_t word;    /* of the bucket, when last looked */
    uint64_t version; /* of the job's state, then */
    uint64_t checked; /* as mu_named's */
    uint64_t look_at; /* even if nothing changes */
    uint32_t key_len;
    char key[]; /* its cell's: 'B' and the id, 'A' or 'a' and the set; and a NUL */
};

/* Can the call be made? Not yet: its task's record is on its way. Never: another process is the task. */
enum mu_readiness { MU_CALL_READY, MU_CALL_AWAITED, MU_CALL_REPLACED };

struct mu_pending_answer {
    enum muster_status status;
    const char *text; /* NULL: the last error's */
    /* of a barrier: */
    uint64_t present; /* the instance that is there now; 0: none */
    uint8_t flags;    /* MU_MEET_* */
    /* of the tasks alive, with OK: all callers that one look answers have the same */
    const struct mu_alive *alive;
};

struct mu_pending_table {
    struct muster *m;
    struct mu_named named; /* with memory that goes from barrier to barrier */
    /* The call is in no list any more; its owner frees it, with mu_barrier_call_done() if it was at a barrier. */
    void (*answered)(void *arg, struct mu_pending_call *c, const struct mu_pending_answer *a);
    /* NULL: all are ready. */
    enum mu_readiness (*ready)(void *arg, const struct mu_pending_call *c, uint32_t task);
    /* A look is over; may be NULL. */
    void (*looked)(void *arg, struct mu_pending *p);
    void *arg;
    struct mu_pending *list, **chains;
};
/* The functions and arg are set, the rest is zero. */
bool mu_pending_open(struct mu_pending_table *t, struct muster *m);
void mu_pending_close(struct mu_pending_table *t); /* all calls are out */

struct mu_pending *mu_pending_find(const struct mu_pending_table *t, const char *key, uint32_t len);
/* Made when there is none; NULL: no memory. */
struct mu_pending *mu_pending_of(struct mu_pending_table *t, const char *key, uint32_t len);
/* Unless a call is there. */
void mu_pending_drop(struct mu_pending_table *t, struct mu_pending *p);
static inline bool mu_pending_is_barrier(const struct mu_pending *p)
{
    return p->key[0] == 'B';
}

/* With `here` set, and the call's part: one that has arrived waits. */
void mu_pending_add(struct mu_pending *p, struct mu_pending_call *c);
void mu_pending_remove(struct mu_pending_call *c); /* c->at stays */

/* Within mu_enter(). alive: that of the set, begun by the caller; NULL: begun here. p may have no call afterwards. */
void mu_pending_look(struct mu_pending_table *t, struct mu_ctx *ctx, struct mu_pending *p, uint64_t now,
                     struct mu_alive *alive);
/* At all that may have changed; version: of the job's state. What nobody waits at any more is dropped. */
void mu_pending_look_due(struct mu_pending_table *t, uint64_t now, uint64_t version);
uint64_t mu_pending_next(const struct mu_pending_table *t);

#endif
