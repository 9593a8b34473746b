/*
 * accel/nccl_id.h: one rank's dealings with a communicator's name in the segment, for ids and for communicators.
 */
#ifndef MU_ACCEL_NCCL_ID_H
#define MU_ACCEL_NCCL_ID_H

#include "accel/nccl_library.h"
#include "accel/nccl_record.h"
#include "segment/handle.h"
#include "segment/table.h"

struct mu_nccl_call {
    struct muster *m;
    const char *name;
    char what[MUSTER_NCCL_NAME_MAX + 32]; /* "the NCCL id of NAME" */
    struct mu_key key;
    struct mu_nccl_asker asker;
    uint64_t generation; /* that the caller waits for, makes, or has */
    void *room;          /* a private copy of the record; malloc()ed */
    size_t room_size;
    struct mu_nccl_record record; /* a view of it */
    const struct mu_nccl *nccl;   /* NULL where no library is needed */
};

/* Checks the name and the handle. After MUSTER_OK the call is given back with mu_nccl_call_done(). */
enum muster_status mu_nccl_call_begin(struct mu_nccl_call *call, struct muster *m, const char *name);
void mu_nccl_call_done(struct mu_nccl_call *call);

/* What a rank says of itself, and its library. INVALID_ARGUMENT, FAILED_PRECONDITION. */
enum muster_status mu_nccl_introduce(struct mu_nccl_call *call, const struct mu_nccl *nccl, uint32_t nranks,
                                     uint32_t rank, uint32_t count, const struct muster_nccl_options *options);

/* The ids of a new or the present generation, after mu_nccl_introduce(). */
enum muster_status mu_nccl_take(struct mu_nccl_call *call, muster_deadline deadline, struct mu_nccl_id *ret_ids);

/* As muster_nccl_check(), of call->generation. With `wait_ns`, up to so long until something changes. */
enum muster_status mu_nccl_watch(struct mu_nccl_call *call, uint64_t wait_ns);

/* Give call->generation (0: the present one) up, and end our root of it. */
enum muster_status mu_nccl_give_up(struct mu_nccl_call *call, const char *reason);

/* The record as it is now, a view in call->record. */
enum muster_status mu_nccl_read(struct mu_nccl_call *call, bool *ret_there);

/* End the roots of this process whose generation is dead. */
enum muster_status mu_nccl_look_after_roots(struct muster *m);

/* This rank is through with its initialisation; the last one forgets the name, if no generation of it has died. */
enum muster_status mu_nccl_finish(struct mu_nccl_call *call);

/* "rank 3; rank 5 and 2 more": those that have not taken call->generation; "" when all have. Read anew. */
void mu_nccl_missing(struct mu_nccl_call *call, char *text, size_t size);

/* muster_nccl_comm_init() with the library given. */
enum muster_status mu_nccl_comm_init(const struct mu_nccl *nccl, struct muster *m, const char *name, uint32_t nranks,
                                     uint32_t rank, const struct muster_nccl_options *options, muster_deadline deadline,
                                     struct ncclComm **ret_comm);

#endif
