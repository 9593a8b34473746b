/*
 * segment/replica.h: this host's copies of objects of other hosts.
 *
 * A reference names its home host. On any other host a replica stands for it: an object like any, of the maker
 * MU_OBJECT_REMOTE, which the host's agent seals when the bytes have come. A task makes it, open, and asks the
 * agent (MU_OP_OBJECT_PULL: 8 reference, 8 replica; the answer: 8, the replica to use, which may be another task's).
 * Which replica stands for a reference lies in the cell "O" + reference, which the agent alone writes. A cell may
 * outlive its replica for some seconds.
 */
#ifndef MU_SEGMENT_REPLICA_H
#define MU_SEGMENT_REPLICA_H

#include "segment/hosts.h"
#include "segment/table.h"

/* Whether the reference names another host of the job. */
static inline bool mu_ref_is_remote(const struct muster_segment *seg, uint64_t ref)
{
    return MU_OBJECT_HOST(ref) != seg->host && MU_OBJECT_HOST(ref) < seg->num_hosts && MU_OBJECT_GENERATION(ref);
}

/* The replica that stands for a reference, or did; 0: none. ctx may be NULL. */
enum muster_status mu_remote_replica_find(struct muster_segment *seg, struct mu_ctx *ctx, uint64_t ref,
                                          uint64_t *ret_local);

/* For the agent. */
enum muster_status mu_remote_replica_put(struct mu_ctx *ctx, uint64_t ref, uint64_t local);
enum muster_status mu_remote_replica_forget(struct mu_ctx *ctx, uint64_t ref);
/* Every cell of a replica; no cell may be written within `visit`. */
enum muster_status mu_remote_replica_walk(struct mu_ctx *ctx, void (*visit)(void *arg, uint64_t ref, uint64_t local),
                                          void *arg);

#endif
