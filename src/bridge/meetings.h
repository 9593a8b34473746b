/*
 * bridge/meetings.h: what the files about meetings share: bridge/meetings.c, calls that wait; bridge/meet.c, how a
 * barrier and a question are looked at; bridge/sight.c, how other hosts see the leader's barriers.
 */
#ifndef MU_BRIDGE_MEETINGS_H
#define MU_BRIDGE_MEETINGS_H

#include "barrier/named_steps.h"
#include "bridge/modules.h"
#include "task/alive.h"

struct meeting;

/* A call that waits, or is about to arrive. */
struct waiter {
    struct waiter *prev, *next; /* of its meeting, in the order in which they came */
    struct meeting *meeting;
    uint32_t host, slot;
    uint64_t number, incarnation;
    uint32_t attempt;
    bool here; /* its arrival has been made */
    union {
        struct mu_call call;
        struct mu_alive_call alive;
    };
};

/* A barrier, or a set of tasks, at which calls of other hosts wait. */
struct meeting {
    struct meeting *prev, *next, *chain;
    struct waiter *first, *last;
    uint32_t arriving, waiting;
    size_t bytes; /* of lists that the arriving ones brought */
    mu_a64 *bucket;
    uint64_t word;    /* of the bucket, when last looked */
    uint64_t version; /* of the job's state, then */
    uint64_t checked; /* as mu_named's */
    uint64_t look_at; /* even if nothing changes */
    uint32_t key_len;
    char key[]; /* its cell's: 'B' and the id, 'A' or 'a' and the set; and a NUL */
};

enum { CHAINS = 1024 };

struct sight {
    uint64_t *words, *versions; /* by bucket: as of the last look; the last version of a barrier that was sent */
    uint64_t at;                /* not again before */
    bool stale;                 /* something may have changed since */
};

struct meetings {
    struct meeting *list, *chains[CHAINS];
    struct {
        struct waiter **slots;
        uint32_t count;
    } * hosts; /* by host and slot: who waits */
    uint32_t num_waiters;
    struct mu_named named; /* with memory that goes from barrier to barrier */
    struct sight sight;
};

static inline struct meetings *mu_meetings_of(struct mu_core *core)
{
    return mu_core_state(core, MU_M_MEETINGS);
}

/* ---- meet.c: look at it, let arrive who is arriving; whoever has an answer gets it, and is gone ---- */
void mu_meet_barrier(struct mu_core *core, struct meeting *m);
void mu_meet_alive(struct mu_core *core, struct meeting *m);
/* meetings.c: answer it, and forget it. */
void mu_meeting_answer(struct mu_core *core, struct waiter *w, enum muster_status status, const char *text,
                       const struct mu_pack *body);

/* ---- sight.c ---- */
bool mu_sight_init(struct mu_core *core, struct sight *s);
void mu_sight_done(struct sight *s);
void mu_sight_up(struct mu_core *core, uint32_t host);
void mu_sight_look(struct mu_core *core);

#endif
