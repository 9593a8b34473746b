/*
 * segment/work.h: calls of functions: objects that a call produces, the queue of those that are ready, and workers.
 *
 * A call is an object from its submission on. Its word alone says what has become of it: it waits for arguments, is
 * queued, runs in a thread, or is its result. All else are hints, which a death may lose: the queue, the chains of
 * calls that wait for an object, the bits of idle workers. Where hints may be lost, a bit of the header's `rescan` is
 * set, and a worker looks at all words.
 */
#ifndef MU_SEGMENT_WORK_H
#define MU_SEGMENT_WORK_H

#include "segment/bundle.h"

/* ---- a call's word: call.c ---- */

/* Whether the call, if it is in that state, has all of its arguments; *ret_open: one that it has not. */
enum mu_work_readiness { MU_WORK_READY, MU_WORK_BLOCKED, MU_WORK_ELSEWHERE };
enum mu_work_readiness mu_work_look(struct mu_ctx *ctx, uint64_t ref, uint32_t state, struct mu_object *ret_open);

/* A call was created as WAITING: queue it, or register it with an argument that is not there. */
void mu_work_advance(struct mu_ctx *ctx, uint64_t ref);

/* The object that these calls waited for is open no more. */
void mu_work_walk(struct mu_ctx *ctx, uint64_t waiting);

/* A call was created as PLACED: into its place's chain. Where the place has closed, the call is an error. */
void mu_work_place(struct mu_ctx *ctx, uint64_t ref, uint64_t place);

/* The place of a call that is PLACED; 0: it is not. */
uint64_t mu_work_place_of(struct mu_ctx *ctx, uint64_t ref);

/* For a rescan, of a call that was in that state: what is decided is done. Else the object, or the place, that it waits
 * for; 0: none. */
uint64_t mu_work_recheck(struct mu_ctx *ctx, uint64_t ref, uint32_t state);

/* Claim a call that is in `state` (QUEUED, PLACED) for ctx's thread, as its `which`-th. NOT_FOUND: it is not. */
enum muster_status mu_work_claim(struct mu_ctx *ctx, uint64_t ref, uint32_t state, uint32_t which, uint64_t maker,
                                 uint32_t task);

/* A call that ctx runs becomes what `end` says: state, data (OWNED by ctx, taken over), bytes, meta and code. Patient.
 */
enum muster_status mu_work_end(struct mu_ctx *ctx, uint64_t ref, uint32_t which, const struct mu_object *end);

/* A call that nobody has begun becomes an error. FAILED_PRECONDITION: it is begun. */
enum muster_status mu_work_cancel(struct mu_ctx *ctx, uint64_t ref, const struct mu_object *end);

/* A call that nobody has begun becomes an error, for its deadline has passed. Patient. */
#define MU_WORK_LATE "no worker had begun it when its deadline passed"
enum muster_status mu_work_expire(struct mu_ctx *ctx, uint64_t ref);

/* An error of this code and text: its state, data, bytes and code; with `detail` (0: none), of which a count is taken.
 */
enum muster_status mu_work_error(struct mu_ctx *ctx, enum muster_status code, const char *text, size_t len,
                                 uint64_t detail, struct mu_object *ret_end);

/* The text of an error that was read, and its detail; *ret_len 0: none. Of an object that the caller holds. */
const char *mu_work_error_text(struct muster_segment *seg, const struct mu_object *o, size_t *ret_len,
                               uint64_t *ret_detail);

/* ---- after a death: work_dead.c ---- */

/* A worker looks at all calls. */
void mu_work_rescan(struct muster_segment *seg);
/* Bits MU_RESCAN_*, without a wake-up. */
void mu_work_ask(struct muster_segment *seg, uint32_t bits);
/* Clear the bits, where one of them is set. True: this thread did it, and does what they ask. */
bool mu_work_answer(struct muster_segment *seg, uint32_t bits);
/* If that was asked: this thread is the one that does. `idle`: the queue is empty. */
void mu_work_rescan_if_asked(struct mu_ctx *ctx, bool idle);
/* mu_slot_free() of a thread that may have been a worker. */
void mu_work_leave(struct mu_ctx *ctx);
/* What the dead slot ran is queued again, or an error. False: not now. */
bool mu_work_bury(struct mu_ctx *ctx, uint32_t slot, uint64_t dead);
/* Call `visit` with each call in that state at that place (0: any). */
void mu_work_each(struct mu_ctx *ctx, uint32_t state, uint64_t place, void (*visit)(void *arg, uint64_t ref),
                  void *arg);

/* ---- the queue, and workers: crew.c ---- */

/* The queue's pages, before anything is put or taken. */
enum muster_status mu_queue_commit(struct muster_segment *seg);
/* Put a hint that the call is ready, and wake an idle worker. Full: a rescan will find it. */
void mu_queue_put(struct muster_segment *seg, uint64_t ref);
/* False: it is empty. The hint is of an object's word. */
bool mu_queue_take(struct muster_segment *seg, uint32_t *ret_index);
uint32_t mu_queue_length(const struct muster_segment *seg);

void mu_crew_idle(struct mu_ctx *ctx);         /* from now on the slot's bell is rung for a call */
bool mu_crew_busy(struct mu_ctx *ctx);         /* no more. False: it was rung, or is about to be */
void mu_crew_wake(struct muster_segment *seg); /* one that is idle */
void mu_crew_bury(struct muster_segment *seg, uint32_t slot);
bool mu_crew_is_idle(const struct muster_segment *seg, uint32_t slot);

/* The thread's state as a worker; watchers of workers are told. */
void mu_crew_say(struct mu_ctx *ctx, uint32_t state);
void mu_crew_moved(struct muster_segment *seg);

/* Of this thread, or none: told when it blocks in a call, and when it goes on. Process-local. */
struct mu_crew_watch {
    void (*moved)(void *arg, bool blocked);
    void *arg;
};
extern _Thread_local struct mu_crew_watch mu_crew_watch;

/* A wait for an object begins, and ends. True: in a call, and the worker is now blocked. */
bool mu_crew_block(struct mu_ctx *ctx);
void mu_crew_unblock(struct mu_ctx *ctx);

#endif
