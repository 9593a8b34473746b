/* schedule/private.h: what the files of this room share. */
#ifndef MU_SCHEDULE_PRIVATE_H
#define MU_SCHEDULE_PRIVATE_H

#include <muster/schedule.h>

#include "object/holding.h"
#include "segment/work.h"

/* What a submission and a worker need to know of a function. Asked once for each function and thread, in a row. */
struct mu_function_shape {
    uint32_t kind, num_results, max_retries;
};
enum muster_status mu_function_shape(struct muster *m, struct mu_ctx *ctx, uint64_t function,
                                     struct mu_function_shape *ret_shape);

/* Whether the slot's owner is a worker, and what it does. */
bool mu_schedule_worker(const struct muster_segment *seg, uint32_t slot, struct muster_worker_look *ret_look);

/* The function's name, of `size` bytes at most; "": it is none. */
void mu_function_name(const struct muster_segment *seg, uint64_t function, uint64_t *body, char *name, size_t size);

/* A call that this thread runs. */
struct muster_call {
    struct muster *m;
    struct mu_ctx *ctx;
    uint64_t ref, data, function;
    const struct mu_call_data *spec;
    uint64_t maker, place;
    uint32_t which, num_arguments, num_results, retries;
    int32_t task;
    uint64_t began;       /* mu_now(); only of a thread that is traced */
    struct mu_object end; /* of a single result: what it will be */
    uint64_t bundle;      /* what several will be, or what a single one forwards; 0: nothing yet */
};

/* The call was claimed: what `o` says of it, in *ret_call; with an error among its arguments it ends here, and so it
 * does too late, or where there is no memory: *ret_call is NULL then. */
enum muster_status mu_schedule_begin(struct muster *m, struct mu_ctx *ctx, const struct mu_object *o, uint32_t which,
                                     uint64_t maker, struct muster_call **ret_call);

/* Of this thread: it runs the call; and it has ended so, and is freed. */
void mu_schedule_enter(struct muster_call *call);
void mu_schedule_leave(struct muster_call *call, enum muster_status status);

/* A call of no place: where there is none it is waited for. */
enum muster_status mu_schedule_next(struct muster *m, struct mu_ctx *ctx, uint64_t maker, muster_deadline deadline,
                                    struct muster_call **ret_call);

enum muster_status mu_place_next(struct muster *m, struct mu_ctx *ctx, uint64_t place, muster_deadline deadline,
                                 uint64_t maker, struct muster_call **ret_call);

/* Room for the i-th result. */
enum muster_status mu_schedule_room(struct muster_call *call, uint32_t i, size_t len, size_t meta_len,
                                    struct muster_object_room *ret_room);

/* resource.c: what the options ask for, as the call's bundle says it. */
enum muster_status mu_schedule_asks(struct muster *m, struct mu_ctx *ctx, const struct muster_submit_options *options,
                                    uint64_t asks[MU_POOL_KINDS], uint32_t *ret_count);

/* What a call that is queued asks for becomes this thread's. NOT_FOUND: it is not to be claimed, for it cannot have
 * that now, or is queued no more. */
enum muster_status mu_schedule_lease(struct mu_ctx *ctx, uint64_t call);

/* This process's maker. */
enum muster_status mu_schedule_maker(struct muster *m, uint64_t *ret_maker);

#endif
