/*
 * kv/change.h: a change of keys, whoever asked for it: this process, or a task of another host through the leader's
 * agent.
 */
#ifndef MU_KV_CHANGE_H
#define MU_KV_CHANGE_H

#include "kv/key.h"
#include "segment/remote.h"

/* For a task of another host. */
struct mu_kv_behalf {
    struct mu_done *done;
    bool resent;
    mu_forget_fn forget;
    void (*left_record)(void *arg, uint32_t bucket); /* a record of the call is there now */
    void *arg;                                       /* of both */
};

/* Small, so that making one costs nothing beside the change. */
struct mu_kv_change {
    const struct mu_key *key; /* as mu_kv_key() made it; of a delete: the root directory's is NULL */
    const void *value;
    size_t len;
    uint64_t number; /* the version that is expected, or what is added */
    uint64_t result; /* version; sum; length; keys deleted. Of a comparison that failed: the version that is there */
    const struct mu_kv_behalf *behalf; /* NULL: for this process */
    enum mu_op op;
    bool was_done; /* it had been made before */
};

/*
 * Make the change in this segment: at most once for each behalf->done, whose earlier result counts. UNAVAILABLE, only
 * on behalf: there are too many records where this one should be; nothing, or of a delete not all, was changed: again
 * later.
 */
enum muster_status mu_kv_change(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c);

/* The delete: the key and all under it. kv/delete.c */
enum muster_status mu_kv_delete_tree(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c);

/* What a public call does with a change: here, or by the leader. kv/store.c */
enum muster_status mu_kv_change_anywhere(struct muster *m, struct mu_ctx *ctx, struct mu_kv_change *c);

#endif
