/* segment/trace.h: noting what a thread does in its slot's ring, and reading the rings of all. */
#ifndef MU_SEGMENT_TRACE_H
#define MU_SEGMENT_TRACE_H

#include "base/clock.h"
#include "segment/segment.h"

/* Bytes of one slot's ring. */
static inline uint64_t mu_trace_ring_bytes(uint32_t events, uint32_t names)
{
    uint64_t bytes = sizeof(struct mu_ring) + (uint64_t)names * sizeof(struct mu_ring_name) +
                     (uint64_t)events * sizeof(struct mu_ring_event);

    return (bytes + MU_TRACE_PAGE - 1) / MU_TRACE_PAGE * MU_TRACE_PAGE;
}

/* Lay the section of rings out behind all others, and choose its clock. `events` is a power of two. */
void mu_trace_plan(struct mu_header *header, uint32_t events);

#ifdef MU_GENMC
#define mu_trace_open(ctx) ((void)(ctx))
#else
/* The slot has just been claimed: go on in its ring. Where there is no room for its pages, the thread is not traced. */
void mu_trace_open(struct mu_ctx *ctx);
#endif

/* The one branch that an untraced job pays for each event that it could have noted. */
static inline bool mu_is_traced(const struct mu_ctx *ctx)
{
    return __builtin_expect(ctx->trace.ring != NULL, 0);
}

static inline uint64_t mu_trace_now(const struct mu_ctx *ctx)
{
#if defined(__x86_64__) && !defined(MU_SIM) && !defined(MU_GENMC)
    if (ctx->seg->trace_tsc)
        return __builtin_ia32_rdtsc();
#endif
    (void)ctx;
    return mu_now();
}

/* Only when traced, both. A name for the object, in the ring of names unless it is there; its number. */
uint32_t mu_trace_name(struct mu_ctx *ctx, uint64_t object, const char *text, size_t len);
void mu_trace_note(struct mu_ctx *ctx, uint64_t time, enum mu_trace_kind kind, enum muster_status status, uint32_t name,
                   uint64_t object, uint64_t value);

/* ---- reading ---- */

struct mu_traced {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t object, value;
    uint64_t number; /* in its ring, from 0 */
    uint32_t slot;
    int32_t task; /* of the thread that noted it; -1: an observer's */
    enum mu_trace_kind kind;
    enum muster_status status;
    char name[57]; /* "" when it is not known any more */
};

/*
 * All events of all rings, in order of time; malloc()ed. *ret_lost: so many were overwritten before this look, or
 * during it. Works while the rings are written to, and on segments that are only mapped for reading.
 */
enum muster_status mu_trace_read(const struct muster_segment *seg, struct mu_traced **ret_events, size_t *ret_count,
                                 uint64_t *ret_lost);

#endif
