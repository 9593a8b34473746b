/*
 * accel/nccl_id.h: one rank's dealings with a communicator's name in the segment, for ids and for communicators.
 */
#ifndef MU_ACCEL_NCCL_ID_H
#define MU_ACCEL_NCCL_ID_H

#include "accel/nccl_library.h"
#include "accel/nccl_record.h"
#include "base/pack.h"
#include "segment/handle.h"
#include "segment/table.h"
#include "segment/wait.h"

/* In the leader's store, in front of the name. */
#define MU_NCCL_KEYS "/nccl/"

struct mu_nccl_call {
    struct muster *m;
    const char *name;
    char what[MUSTER_NCCL_NAME_MAX + 32]; /* "NCCL id NAME" */
    bool shared;                          /* the name is one for all hosts of the job */
    bool remote;                          /* and its record is another host's */
    struct mu_nccl_asker asker;
    uint64_t generation; /* that the caller waits for, makes, or has */
    void *room;          /* a private copy of the record; malloc()ed */
    size_t room_size;
    struct mu_nccl_record record; /* a view of it */
    const struct mu_nccl *nccl;   /* NULL where no library is needed */
    /* remote: what the leader said in this round, of which there is no copy here */
    bool asked, told;
    bool unsure; /* the last step got no answer: it may be made yet, if nothing follows it */
    uint32_t round;
    struct mu_key key; /* last, for it is large */
};

/* Checks the name and the handle. After MUSTER_OK the call is given back with mu_nccl_call_done(). */
enum muster_status mu_nccl_call_begin(struct mu_nccl_call *call, struct muster *m, const char *name);
void mu_nccl_call_done(struct mu_nccl_call *call);
/* The same without checks, within a call of the handle. */
void mu_nccl_call_make(struct mu_nccl_call *call, struct muster *m, const char *name);

/* What a rank says of itself, and its library. INVALID_ARGUMENT, FAILED_PRECONDITION. */
enum muster_status mu_nccl_introduce(struct mu_nccl_call *call, const struct mu_nccl *nccl, uint32_t nranks,
                                     uint32_t rank, uint32_t count, const struct muster_nccl_options *options);

/* The ids of a new or the present generation, after mu_nccl_introduce(). */
enum muster_status mu_nccl_take(struct mu_nccl_call *call, muster_deadline deadline, struct mu_nccl_id *ret_ids);

/* As muster_nccl_check(), of call->generation. With `wait_ns`, up to so long until something changes. */
enum muster_status mu_nccl_watch(struct mu_nccl_call *call, uint64_t wait_ns);

/* Give call->generation (0: the present one) up, and end our root of it. */
enum muster_status mu_nccl_give_up(struct mu_nccl_call *call, const char *reason);

/* The record as it is now, a view in call->record; not in the middle of another call. */
enum muster_status mu_nccl_read(struct mu_nccl_call *call, bool *ret_there);

/* The same for people, by the leader's own word, with times of this host; without the takers. */
enum muster_status mu_nccl_state(struct mu_nccl_call *call, bool *ret_there);

/* End the roots of this process with a dead generation. */
enum muster_status mu_nccl_look_after_roots(struct muster *m);

/* This rank is through with its initialisation; the last one forgets the name, if no generation of it has died. */
enum muster_status mu_nccl_finish(struct mu_nccl_call *call);

/* "rank 3, 5 and 2 more": those that have not taken call->generation, or, with MU_NCCL_DONE, not initialised; "" when
 * all have. Read anew; where it cannot be, so it says. True: it names some. */
bool mu_nccl_missing(struct mu_nccl_call *call, uint32_t flag, char *text, size_t size);

/* muster_nccl_comm_init() with the library given. */
enum muster_status mu_nccl_comm_init(const struct mu_nccl *nccl, struct muster *m, const char *name, uint32_t nranks,
                                     uint32_t rank, const struct muster_nccl_options *options, muster_deadline deadline,
                                     struct ncclComm **ret_comm);

/* ---- nccl_cell.c: reading and changing the record ---- */

/* As it is now, or as this host knows it; within a call. w: the wait that reads it; NULL: one look. */
enum muster_status mu_nccl_look(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_wait *w, uint64_t *ret_word,
                                bool *ret_there);
/* The same in this segment; *ret_there false: there is none. *ret_word: to sleep on. */
enum muster_status mu_nccl_read_here(struct mu_nccl_call *call, struct mu_ctx *ctx, uint64_t *ret_word,
                                     bool *ret_there);
struct mu_table mu_nccl_table(const struct mu_nccl_call *call);

/* What the asker does to call->generation; the numbers go over the bridge (PROTOCOL.md). */
enum mu_nccl_step {
    MU_NCCL_LOOK = 0,
    MU_NCCL_REQUEST = 1,
    MU_NCCL_CLAIM = 2,
    MU_NCCL_MADE = 3,
    MU_NCCL_FAIL = 4,
    MU_NCCL_WITHDRAW = 5, /* neither ids nor a failure can be said, for the segment is full: deleting has a reserve */
    MU_NCCL_FINISH = 6,
    MU_NCCL_EXPIRE = 7, /* the leader's agent's */
};
struct mu_nccl_act {
    enum mu_nccl_step step;
    const char *ids;    /* MADE */
    const char *reason; /* FAIL */
    bool takes_back;    /* neither an interrupt nor an error of the job ends waiting for its answer */
    /* told */
    enum mu_nccl_answer answer; /* to ASK and CLAIM; else _AGAIN */
    uint64_t generation;        /* FAIL: the present one */
    bool there;                 /* call->record is what there is now; of another host's without the other takers */
    bool changed, deletes;
    bool lost, rechecked; /* the maker that is asked for is; its death was looked for */
    bool accepted;        /* the others: done, or done by an earlier sending */
};
enum muster_status mu_nccl_step(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_nccl_act *act,
                                muster_deadline deadline);
/* In this segment, by one edit. */
enum muster_status mu_nccl_step_here(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_nccl_act *act);

/* The kernel says that somebody is dead, and perhaps nobody has said so to the job yet: then this does. */
void mu_nccl_recheck(struct mu_ctx *ctx);
/* For the asking rank: mu_nccl_asker's presence, with the call as its argument. */
enum mu_nccl_presence mu_nccl_presence(void *arg, int32_t task, uint64_t incarnation, uint32_t attempt);
/* "task 3"; in a job of several hosts "task 3 (host b)". */
void mu_nccl_task_name(const struct mu_nccl_call *call, int32_t task, char name[MU_NCCL_TASK_NAME]);
/* A reason of the caller's: "task 3 (host b)", the joint, the words; as much as has room. */
void mu_nccl_say(const struct mu_nccl_call *call, const char *joint, const char *words, char reason[120]);
bool mu_nccl_make_room(struct mu_nccl_call *call, size_t size);
enum muster_status mu_nccl_no_memory(const struct mu_nccl_call *call);
enum muster_status mu_nccl_corrupt(const struct mu_nccl_call *call);

/* ---- nccl_remote.c: the same on a host that is not the leader's, and what goes over the bridge ---- */

enum muster_status mu_nccl_read_remote(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_wait *w,
                                       uint64_t *ret_word, bool *ret_there);
enum muster_status mu_nccl_step_remote(struct mu_nccl_call *call, struct mu_ctx *ctx, struct mu_nccl_act *act,
                                       muster_deadline deadline);

/* A request as it came, checked: into call->asker and *act, which refers to it. False: not well formed. The name is
 * copied. */
bool mu_nccl_unpack_request(struct mu_unpack *u, char name[MUSTER_NCCL_NAME_MAX + 1], struct mu_nccl_asker *ret_asker,
                            uint64_t *ret_generation, struct mu_nccl_act *ret_act, char reason[120]);
/* The answer to it. */
void mu_nccl_pack_answer(struct mu_pack *p, const struct mu_nccl_call *call, const struct mu_nccl_act *act);

#endif
