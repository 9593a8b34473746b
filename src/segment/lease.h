/*
 * segment/lease.h: what the job has for calls besides workers, such as GPUs, and which call has what of it.
 *
 * All of it is one cell (struct mu_pool). A call asks for amounts, and a worker that is about to claim it takes a lease
 * first, by one commit of the cell. The lease counts while the worker's slot names the call as the one that it runs. So
 * the call's end, the worker's death and a claim that fails give it back, all by the word that says so anyway; the next
 * commit drops what does not count.
 *
 * A call that cannot have what it asks for is parked: it stays queued, but no hint of it is in the queue. Its worker
 * counts it in the pool, fences, and looks at the leases again; a thread that has ended its call fences, and looks at
 * that count: so one of the two sees the other. Where calls are parked, the end of a lease asks for a look at them
 * (MU_RESCAN_PARKED), as each death does. The worker that answers takes the oldest one that can have what it asks for,
 * ahead of the queue, and asks again where another one can have what is left: so a look starts one call, and no call
 * hides another.
 *
 * The header's `look_at` is no later than the deadline of a parked call: a worker that looks for a call sees whether it
 * has come, an idle one with each recheck of its sleep.
 */
#ifndef MU_SEGMENT_LEASE_H
#define MU_SEGMENT_LEASE_H

#include "segment/hold.h"

struct mu_asks {
    uint64_t since, deadline;        /* when the call was submitted; 0: no deadline */
    uint64_t amounts[MU_POOL_KINDS]; /* of a kind with units: how many */
};

/* Of a call that is QUEUED and has asks. False: it is not. Of a corrupt one they are none: its worker finds that. */
bool mu_lease_asks(struct mu_ctx *ctx, uint64_t call, struct mu_asks *ret_asks);

/* A kind of that name and total; with `has_units` the total is a set. One that is there gets another total. */
enum muster_status mu_lease_offer(struct mu_ctx *ctx, const char *name, uint64_t total, bool has_units);

/* The pool, with the leases that count. ctx may be NULL. */
enum muster_status mu_lease_look(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_pool *ret_pool);

/* How much of the kind is lent; of one with units, the set. */
uint64_t mu_lease_lent(const struct mu_pool *pool, uint32_t kind);

/* ctx gets what the call asks for, which is QUEUED; ctx's next claim is of that call. ALREADY_EXISTS, without a
 * sentence: it cannot have it now, and is parked. */
enum muster_status mu_lease_take(struct mu_ctx *ctx, uint64_t call, const struct mu_asks *asks);

/* ctx's slot does not name the call any more. True: calls are parked, ask for a look at them. */
bool mu_lease_ended(struct mu_ctx *ctx);

/* A worker looks at the parked calls. */
void mu_lease_rescan(struct muster_segment *seg);
/* That was asked, or it is time: this thread is the one that does. */
bool mu_lease_asked(struct muster_segment *seg);
/* Look at all calls that are queued and ask for something, and end those that are too late. The oldest one that can
 * have what it asks for; 0: none. Where further ones can, a look was asked for again. */
uint64_t mu_lease_next(struct mu_ctx *ctx);

#endif
