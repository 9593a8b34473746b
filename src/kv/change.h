/*
 * kv/change.h: a change of keys, for this process, or for a task of another host through the leader's agent.
 */
#ifndef MU_KV_CHANGE_H
#define MU_KV_CHANGE_H

#include "base/pack.h"
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
    /* Of an increment: what lies in front of the number, and stays there. Of a delete of a directory with a name of
     * more than MU_KV_LONG_BEGINS bytes with its '/': all of that; it stays where it is until the end. */
    const void *value;
    size_t len;
    /* The version that is expected, or what is added. Of a delete, 1: the key alone, not what is below. Of an append:
     * so many bytes are the value's beginning, are put there where it has none, and count nowhere. */
    uint64_t number;
    uint64_t result; /* version; sum; length; keys deleted. Of a comparison that failed: the version that is there */
    const struct mu_kv_behalf *behalf; /* NULL: for this process */
    enum mu_op op;
    bool client;   /* for a wire client */
    bool was_done; /* it had been made before */
};

/*
 * Make the change in this segment: at most once for each behalf->done: its earlier result counts. UNAVAILABLE, only
 * on behalf: there are too many records where this one should be; nothing, or of a delete not all, was changed: again
 * later.
 */
enum muster_status mu_kv_change(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c);

/* The delete: the key and all under it. kv/delete.c */
enum muster_status mu_kv_delete_tree(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c);

/* The same in pieces. Zeros but for the change, which must stay where it is. */
struct mu_kv_tree {
    struct mu_kv_change *change;
    /* the bucket that is under way */
    struct mu_pack keys; /* which are to go, or went: each its length, then its bytes */
    size_t at;           /* the next of them */
    uint64_t bound;      /* the highest version that was there when the call came to it, perhaps by an earlier agent */
    uint32_t visited;    /* how many were begun */
    bool again;          /* by an earlier agent: what has come since stays */
    bool clients;        /* only what wire clients have written last, */
    const char *keep;    /* and no key that begins so; NULL */
    bool itself;         /* the key that was named is in it */
};
/* Go on, for about so many looks at a bucket. True: it has ended, with *ret_status; false: there is more to do. */
bool mu_kv_delete_piece(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_tree *tree, uint64_t most,
                        enum muster_status *ret_status);
void mu_kv_tree_done(struct mu_kv_tree *tree);

/* What a public call does with a change: here, or by the leader. kv/store.c */
enum muster_status mu_kv_change_anywhere(struct muster *m, struct mu_ctx *ctx, struct mu_kv_change *c);

#endif
