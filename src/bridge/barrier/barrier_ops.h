/*
 * bridge/barrier/barrier_ops.h: what the files about barriers share: barrier_ops.c, other hosts' calls that wait;
 * mirror.c, how other hosts see the leader's barriers.
 */
#ifndef MU_BRIDGE_BARRIER_BARRIER_OPS_H
#define MU_BRIDGE_BARRIER_BARRIER_OPS_H

#include "bridge/core/modules.h"
#include "bridge/barrier/pending.h"

/* A call of another host. */
struct barrier_waiter {
    struct mu_pending_call pending;
    uint32_t host, slot;
    uint64_t number, incarnation;
    uint32_t attempt;
};

struct barrier_mirror {
    uint64_t *words, *versions; /* by bucket: as of the last look; the last version of a barrier that was sent */
    uint64_t at;                /* not again before */
    bool stale;                 /* something may have changed since */
};

struct barrier_ops {
    struct mu_core *core;
    struct mu_pending_table pending;
    struct {
        struct barrier_waiter **slots;
        uint32_t count;
    } * hosts; /* the waiters, by host and slot */
    uint32_t num_waiters;
    struct barrier_mirror mirror;
};

static inline struct barrier_ops *mu_pending_ops_of(struct mu_core *core)
{
    return mu_core_state(core, MU_M_BARRIERS);
}

/* ---- mirror.c ---- */
bool mu_mirror_init(struct mu_core *core, struct barrier_mirror *s);
void mu_mirror_done(struct barrier_mirror *s);
void mu_mirror_up(struct mu_core *core, uint32_t host);
void mu_mirror_look(struct mu_core *core);

#endif
