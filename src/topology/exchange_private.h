/* topology/exchange_private.h: what the two ways of an exchange share: where the keys are (exchange.c), and elsewhere.
 */
#ifndef MU_TOPOLOGY_EXCHANGE_PRIVATE_H
#define MU_TOPOLOGY_EXCHANGE_PRIVATE_H

#include "base/error.h"
#include "segment/cluster.h"
#include "segment/handle.h"
#include "segment/table.h"
#include "topology/exchange.h"

enum { NAME_MAX_BYTES = 128, NAMED_MISSING = 3 };

/* Before the bytes of a local topology, and of the outcome. There the versions of the locals follow, one a task. */
struct local_head {
    uint32_t form;
    uint32_t reserved;
    uint64_t incarnation;
};
struct outcome_head {
    uint32_t status;
    uint32_t num_tasks;
};

struct mu_exchange {
    struct muster_segment *seg;
    struct mu_ctx *ctx;
    const char *name;
    uint32_t task;
    void *given; /* as it lies in the store: a struct local_head, then the bytes */
    size_t given_size;
    uint64_t version; /* of it there */
    bool outcome_there;
    struct mu_key own, global;
    uint32_t next;          /* all tasks below it have given theirs */
    uint64_t tasks_version; /* of the job's state when nobody had left */
    struct mu_task_record *records;
    void *value; /* the last one read */
    size_t capacity;
    char what[80];
};

/* All locals as they are now. */
struct mu_givens {
    uint32_t count;
    void **values;      /* as stored */
    const void **bytes; /* in them */
    size_t *sizes;
    uint64_t *versions;
};

enum muster_status mu_givens_begin(const struct mu_exchange *x, struct mu_givens *l);
void mu_givens_done(struct mu_givens *l);

/* Whether ours is to be put where that is; KEEP with *ret_status set: it must not. Sets x->version to what is there. */
enum mu_verdict mu_giving_judge(struct mu_exchange *x, uint64_t version, const void *old, size_t old_len,
                                enum muster_status *ret_status);
/* What is to be inserted as the outcome of all locals, malloc()ed. */
enum muster_status mu_giving_compose(const struct mu_exchange *x, const struct mu_givens *l, void **ret_value,
                                     size_t *ret_len);
/* x->value is an outcome of `len` bytes: handed over, or why not. */
enum muster_status mu_giving_deliver(struct mu_exchange *x, size_t len, void **ret_global, size_t *ret_size);
/* A task in error, or one that has left. */
enum muster_status mu_giving_look_for_failure(struct mu_exchange *x);

/* Give, wait and settle on a follower's host, which keeps its keys on the leader's. Not within a muster call. */
enum muster_status mu_giving_remote(struct muster *m, struct mu_exchange *x, muster_deadline deadline,
                                    void **ret_global, size_t *ret_size);

#endif
