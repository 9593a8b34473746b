/*
 * barrier/named_steps.h: calls on named barriers in steps that never sleep: for an agent that calls on behalf of a task
 * of another host, and for the task itself (named.c), which sleeps between them.
 *
 *     mu_named_begin(&n, seg, ctx, id);
 *     mu_named_arrive(&n, calls, count);          one commit for all of them; each is answered, or waits
 *     for (;;) {
 *         mu_named_read(&n);                      n.b: as it is now; n.word: on which to wait for a change
 *         mu_barrier_call_answered(call, &n.b)            for each that waits
 *         if (!mu_named_settle(&n)) wait;         commits the timeout or the failure that is due, as any waiter does
 *     }
 *     mu_named_done(&n);
 *
 * A call that waits is small, and all that it needs until it is answered. A call that may have to be made again (its
 * answer was lost, with its maker) has a name, which the task's mark keeps: made `again`, it is found there.
 */
#ifndef MU_BARRIER_NAMED_STEPS_H
#define MU_BARRIER_NAMED_STEPS_H

#include <inttypes.h>

#include "barrier/state.h"
#include "base/pack.h"

#define MU_NOBODY     UINT32_MAX /* as the task of a call: an observer */
#define MU_CALLS_NONE UINT32_MAX /* no name */
#define MU_CALLS_MASK 0x7ffu     /* names go round: 11 bits; the mark's other four say of which instance it was */

struct mu_call {
    uint32_t task;
    uint32_t flags;   /* MUSTER_JOIN_* */
    uint32_t attempt; /* at which its process registered */
    uint32_t name;    /* the process's count of its calls, or MU_CALLS_NONE: the mark counts, it is not made again */
    uint32_t untold;  /* the first of its calls here that were given up in vain, unanswered; or MU_CALLS_NONE */
    bool again;       /* it may have been made before, under this name */
    bool leaves;      /* it arrives, unless it has, and does not wait: its task will ask again */
    bool all;
    uint32_t num;
    uint32_t *ids;              /* wanted participants, sorted; NULL: all */
    uint64_t asked, timeout_ns; /* asked: above INT64_MAX none is meant, see mu_barrier_number() */
    /* the answer */
    bool replayed; /* the instance that it asks for had ended before it came */
    bool waiting;
    int32_t place;
    uint32_t number;  /* of this task's calls, as marked */
    uint64_t counter; /* the instance */
    enum muster_status result;
    char *text; /* malloc()ed; NULL: none */
};
/* The sentence for a call that another one of its task has replaced: the barrier, the instance. */
#define MU_CALL_SUPERSEDED                                                                                             \
    "Cancelled because there's a more recent barrier call for %.100s::%" PRIu64                                        \
    " from the same task, or the task has been set in error"
void mu_barrier_call_done(struct mu_call *c); /* frees the list and the text */
/* The result as a status with its sentence. */
enum muster_status mu_barrier_call_result(const struct mu_call *c);

/* A barrier, as somebody deals with it. */
struct mu_named {
    struct muster_segment *seg;
    struct mu_ctx *ctx;
    const char *id;
    struct mu_barrier b;
    uint64_t word;
    uint64_t checked; /* version of the job's state in which no participant's failure is left to be acted upon */
    void *buffer, *value;
    size_t capacity;
    bool exists, caught_up; /* within an edit, */
    bool rings;             /* it ends an instance in which a client may wait for which the agent calls */
    bool is_heard;    /* the agent, which the bell would wake, calls here itself, and looks at what it has changed */
    uint32_t missing; /* how many have not come; UINT32_MAX: not counted */
    struct mu_task_record *records; /* of all tasks, */
    uint64_t records_version;       /* as of this version; 0: not read */
    enum muster_status fail_code;
    /* of a call that another host's task makes, and which leaves a record (segment/table.h); else NULL */
    struct mu_done *done;
    mu_forget_fn forget;
    void *forget_arg;
    char fail_text[MU_BARRIER_TEXT];
    struct mu_key key;
};
enum muster_status mu_named_begin(struct mu_named *n, struct muster_segment *seg, struct mu_ctx *ctx, const char *id);
/* Another barrier, with what has been allocated for the one before. */
enum muster_status mu_named_turn_to(struct mu_named *n, struct mu_ctx *ctx, const char *id);
void mu_named_done(struct mu_named *n);

/* An id of the calling host's own (MUSTER_BARRIER_HOST): no other host knows of it. */
bool mu_barrier_is_hosts(const char *id);

/* What an answer to another host says besides: the instance had ended before the call came; another call of the task
 * has taken its place in an instance that is open; it had not to wait; the task is another process by now, and it was
 * not made. */
enum { MU_MEET_REPLAYED = 1, MU_MEET_SUPERSEDED = 2, MU_MEET_AT_ONCE = 4, MU_MEET_REPLACED = 8 };
/* A call as bytes for another host, and back; *id: room for MUSTER_BARRIER_ID_MAX + 1. False: not well formed. */
void mu_barrier_call_pack(struct mu_pack *p, const char *id, const struct mu_call *c);
bool mu_barrier_call_unpack(struct mu_unpack *u, uint32_t num_tasks, char *id, struct mu_call *c);

/* Checks and sorts a list of participants into the call; count 0: all tasks. */
enum muster_status mu_barrier_call_take_list(struct mu_call *c, const struct mu_named *n, const int32_t *task_ids,
                                             size_t count);

/* The same of a barrier of a host's own, in a job of several: count 0 is the host's tasks, and no others may be in it.
 */
enum muster_status mu_barrier_call_take_own_list(struct mu_call *c, const struct mu_named *n, const int32_t *task_ids,
                                                 size_t count);

/* In order, as if one after the other. A failure (no memory, no room, damage): none has been made. */
enum muster_status mu_named_arrive(struct mu_named *n, struct mu_call *const *calls, uint32_t count);
/* n->b.h.num is 0 when nobody has come to it. */
enum muster_status mu_named_read(struct mu_named *n);
/* Has the call's instance an answer for it in this state? Then c->waiting is false, and its result is filled in. */
bool mu_barrier_call_answered(struct mu_call *c, const struct mu_named *n);
/* Is the instance in n->b, which is open, over by a failure or its deadline? *ret_ended: it was, and that has been
 * committed: read again. Takes back arrivals of recoverable tasks that are out. */
enum muster_status mu_named_settle(struct mu_named *n, bool *ret_ended);
/* The caller goes away. c->waiting: not answered yet, its next call will be told; else it has been answered by now. */
enum muster_status mu_named_leave(struct mu_named *n, struct mu_call *c);
/* c->asked, task: its answer is c's. With n->done: once. */
enum muster_status mu_named_cancel(struct mu_named *n, struct mu_call *c);

#endif
