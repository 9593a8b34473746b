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
 * that count: so one of the two sees the other. Where calls are parked, the end of a lease asks for a rescan, as each
 * death does, and that puts hints of the oldest ones into the queue that can have what they ask for.
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

/* ctx's slot does not name the call any more. True: calls are parked, ask for a rescan. */
bool mu_lease_ended(struct mu_ctx *ctx);

/* A rescan: begin, all calls that are queued and have asks, end. */
enum { MU_LEASE_CANDIDATES = 64 };
struct mu_lease_scan {
    struct mu_pool *pool; /* NULL: there is none, or no memory */
    uint32_t found, count;
    struct {
        uint64_t ref;
        struct mu_asks asks;
    } oldest[MU_LEASE_CANDIDATES];
};
void mu_lease_scan_begin(struct mu_ctx *ctx, struct mu_lease_scan *s);
void mu_lease_scan_add(struct mu_ctx *ctx, struct mu_lease_scan *s, uint64_t call);
void mu_lease_scan_end(struct mu_ctx *ctx, struct mu_lease_scan *s);

#endif
