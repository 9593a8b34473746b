/*
 * segment/steps.h: a remote operation in steps that never sleep: which request comes next, and what its answer means.
 *
 * An operation is a struct that begins with a struct mu_steps, in the room that knows its rules (kv/remote.h). Its
 * begin function composes the first request. `answer` takes each answer: it composes the next request, or the operation
 * has ended. Two drivers make the requests: mu_steps_run() for a thread, which sleeps until each answer comes, and the
 * loop of an agent (coord/remote.h), which does not. A driver does not know what is asked, an operation does not know
 * its driver.
 *
 * Nothing is kept for a connection. When it breaks, the bridge makes the open request again under its old number, and
 * the leader carries it out once (I11). The driver hears of that only by a later answer.
 */
#ifndef MU_SEGMENT_STEPS_H
#define MU_SEGMENT_STEPS_H

#include "segment/remote.h"

struct mu_steps {
    enum mu_op op;          /* of the request that is to be made; MU_OP_NONE: none, the operation has ended */
    struct mu_pack request; /* its bytes, */
    const void *value;      /* and its last value_len bytes, which lie there until it has been made */
    size_t value_len;
    enum mu_wait_kind kind; /* for the counts of waits */
    char about[160];        /* for sentences: "key x" */
    const char *what;       /* what a thread waits for, as status says it; NULL: `about` */
    /*
     * Takes the answer: its status, of an error with the sentence as the last error, and what the op's answer holds
     * besides. That is empty when no answer came: the deadline has passed, the leader is lost. Returns the operation's
     * status. MUSTER_OK with `op` set: another request is to be made.
     */
    enum muster_status (*answer)(struct mu_steps *steps, enum muster_status status, struct mu_unpack *body);
};

/* The next request, to be packed: an empty one. */
struct mu_pack *mu_steps_ask(struct mu_steps *steps, enum mu_op op);
/* The next request is that of another operation, which is a part of this one. */
void mu_steps_pass(struct mu_steps *steps, struct mu_steps *part);
/* As `answer`, of an operation of one request; the answer is a status alone. */
enum muster_status mu_steps_take_status(struct mu_steps *steps, enum muster_status status, struct mu_unpack *body);
/* DATA_LOSS, with its sentence. */
enum muster_status mu_steps_malformed(const struct mu_steps *steps);
void mu_steps_done(struct mu_steps *steps);

/* All requests that the operation makes, each as mu_remote_call(). Its status; the request's memory is freed. */
enum muster_status mu_steps_run(struct muster *m, struct mu_ctx *ctx, struct mu_steps *steps, muster_deadline deadline);

#endif
