/*
 * segment/handle.h: a process's handle on a job, and how every public call begins and ends.
 */
#ifndef MU_SEGMENT_HANDLE_H
#define MU_SEGMENT_HANDLE_H

#include <muster/task.h>

#include "segment/segment.h"

struct mu_ledger;    /* the objects that the process holds; segment/ledger.c */
struct mu_heartbeat; /* the heartbeat thread; task/heartbeat.c */

struct muster {
    struct muster_segment *seg;
    _Atomic uint32_t state; /* MU_HANDLE_*; handles are never freed at once: a call after leave is told so */
    uint32_t forks;         /* mu_forks when it joined */
    uint64_t id;            /* unique in the process */
    int32_t task_id;        /* -1: observer */
    uint32_t flags;
    uint64_t incarnation;
    uint64_t member;            /* a random number, of this handle alone */
    _Atomic uint32_t attempt;   /* as registered; 0: not looked up yet */
    mu_a32 interrupt;           /* non-zero: every wait ends */
    _Atomic uint32_t calls;     /* that were made to the leader's host, and have a name there; counted */
    mu_a64 untold[16];          /* of those, which were given up in vain: barrier/remote.c */
    struct mu_slot *pulse;      /* its life, and its heartbeat; NULL for observers */
    uint32_t pulse_incarnation; /* as it was claimed: by now it may be another's */
    struct mu_heartbeat *heartbeat;
    struct mu_use *uses;                /* its threads' contexts */
    _Atomic(struct mu_ledger *) ledger; /* NULL: it has held no object yet */
    /* a higher room's, or NULL: called within muster_leave(), before anything goes */
    void (*_Atomic at_leave)(struct muster *m);
    struct muster *next_left;
};
enum { MU_HANDLE_OPEN = 1, MU_HANDLE_LEFT = 2 };

/* A new handle on `seg` (one user of it is taken over). NULL when there is no memory. */
struct muster *mu_handle_new(struct muster_segment *seg, uint32_t flags);
/* Mark it left and put it away, and let go of the segment. In a forked child: of its copies. */
void mu_handle_put_away(struct muster *m);

/* Reached without a call, also in a shared library: only for a few words, for the loader's room for them is small. */
#define MU_TLS_FAST __attribute__((tls_model("initial-exec")))

/* The handle that this thread used last, by its id, and its context there. */
extern _Thread_local struct mu_last_use {
    uint64_t handle_id;
    struct mu_ctx *ctx;
} mu_last_use MU_TLS_FAST;

/* A call is under way in this thread; and how many forks deep this process is. Process-local. */
extern _Thread_local volatile uint32_t mu_inside MU_TLS_FAST;
extern _Atomic uint32_t mu_forks;

/* The sentence for a handle that is not usable, and for a handler that interrupted a call. */
enum muster_status mu_handle_refuse(const struct muster *m);
enum muster_status mu_handle_refuse_handler(void);

/*
 * Begin and end a call that works without a slot, so far at least. First it says that a call is under way, then it
 * looks at the handle: a signal handler in between finds itself refused, or has left the job before we looked.
 */
static inline enum muster_status mu_enter_handle(struct muster *m)
{
    if (!m || mu_inside)
        return mu_handle_refuse(m);
    mu_inside = 1;
    atomic_signal_fence(memory_order_seq_cst); /* process-local: for a signal handler of this thread */
    /* relaxed, process-local: state and fork count of this process */
    if (atomic_load_explicit(&m->state, memory_order_relaxed) == MU_HANDLE_OPEN &&
        m->forks == atomic_load_explicit(&mu_forks, memory_order_relaxed))
        return MUSTER_OK;
    mu_inside = 0;
    return mu_handle_refuse(m);
}
/* In such a call: whether the segment is there still; what is written in one that was removed, nobody finds. Else the
 * call has ended. */
enum muster_status mu_handle_refuse_removed(const struct muster *m);
static inline enum muster_status mu_enter_segment(const struct muster *m)
{
    /* relaxed: a call that is made meanwhile may still succeed; pairs with mu_segment_mark_closed() */
    return mu_load32_relaxed(&m->seg->header->state) != MU_REMOVED ? MUSTER_OK : mu_handle_refuse_removed(m);
}
static inline enum muster_status mu_enter_read(struct muster *m)
{
    enum muster_status status = mu_enter_handle(m);

    return status ? status : mu_enter_segment(m);
}
static inline void mu_exit_read(void)
{
    atomic_signal_fence(memory_order_seq_cst); /* process-local: likewise */
    mu_inside = 0;
}

/* Within such a call: the calling thread's context, claiming a slot if it has none yet. */
enum muster_status mu_handle_claim(struct muster *m, struct mu_ctx **ret_ctx); /* the thread used another last */
static inline enum muster_status mu_handle_context(struct muster *m, struct mu_ctx **ret_ctx)
{
    if (mu_last_use.handle_id != m->id)
        return mu_handle_claim(m, ret_ctx);
    *ret_ctx = mu_last_use.ctx;
    return MUSTER_OK;
}

/*
 * Begin a call that writes: refuses handles that were left or inherited through fork, read-only ones, and calls from
 * a signal handler that interrupted another; finds the thread's context or claims a slot for it. After MUSTER_OK the
 * call must end with mu_exit().
 */
static inline enum muster_status mu_enter(struct muster *m, struct mu_ctx **ret_ctx)
{
    enum muster_status status = mu_enter_read(m);

    if (status)
        return status;
    status = mu_handle_context(m, ret_ctx);
    if (status)
        mu_exit_read();
    return status;
}
static inline void mu_exit(struct mu_ctx *ctx)
{
    (void)ctx;
    mu_exit_read();
}

/* The same, if it has one already; else NULL. */
struct mu_ctx *mu_handle_find(struct muster *m);
static inline struct mu_ctx *mu_handle_peek(struct muster *m)
{
    return mu_last_use.handle_id == m->id ? mu_last_use.ctx : mu_handle_find(m);
}

/* Begin a call that reads and may have to wait: as mu_enter(), but without a slot (NULL) when read-only. */
enum muster_status mu_enter_wait(struct muster *m, struct mu_ctx **ret_ctx);

/* Whether the handle was made by this very process (not by the parent it was forked from). */
bool mu_handle_is_ours(const struct muster *m);

/* Whether the calling thread's slot of this handle is this one. */
bool mu_handle_holds(const struct muster *m, const struct mu_slot *slot);

/* Give back the calling thread's slot of this handle, if it has one. */
void mu_handle_detach_thread(struct muster *m);

/*
 * For leaving. The context of any thread of the handle, none of which may be in a call: NULL when no thread has one.
 * No thread can give its context back until mu_handle_return().
 */
struct mu_ctx *mu_handle_borrow(struct muster *m);
void mu_handle_return(void);

/* No call finds the handle open any more, and the slots of all its threads are free, also of those that live on. */
void mu_handle_end(struct muster *m);

#endif
