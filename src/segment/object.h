/*
 * segment/object.h: the one mechanism. A mutable object is a word that names an immutable root block.
 *
 *     mu_txn_begin(&t, ctx, word);
 *     do {
 *         n = mu_txn_read(&t, ...)              copy the root
 *         ... allocate, fill; mu_txn_root(), mu_txn_new(), mu_txn_old()
 *     } while (mu_txn_commit(&t) == MU_RETRY);
 *
 * Between begin and commit nobody sees anything; mu_txn_abort() gives everything back.
 */
#ifndef MU_SEGMENT_OBJECT_H
#define MU_SEGMENT_OBJECT_H

#include "segment/heap.h"

/* A consistent copy of an object's root, in the context's scratch memory or the caller's. */
struct mu_root {
    uint64_t word; /* as read, S included */
    uint32_t refs, bytes, type;
    uint64_t *body; /* references, then data */
};

enum mu_read { MU_READ_OK, MU_READ_EMPTY, MU_READ_CORRUPT };

/*
 * Copy the object's root into `body` (room for MU_CHUNK / 8 words). EMPTY: the word names nothing (root->word is set).
 * Retries while others commit; lock-free.
 */
enum mu_read mu_object_read(const struct muster_segment *seg, const mu_a64 *word, uint64_t *body,
                            struct mu_root *ret_root);

static inline uint64_t *mu_root_data(const struct mu_root *r)
{
    return r->body + r->refs;
}

/* Same commit? The sleepers bit may come and go. */
static inline bool mu_word_same(uint64_t a, uint64_t b)
{
    return ((a ^ b) & ~MU_WORD_S) == 0;
}

/* Whether the object's root, or what it refers to in turn, names `ref`. Uses no scratch. */
bool mu_object_reaches(const struct muster_segment *seg, const mu_a64 *word, uint64_t ref);

struct mu_txn {
    struct mu_ctx *ctx;
    mu_a64 *word;
    uint64_t seen;
    uint64_t news[MU_INTENT_REFS]; /* [0]: the root, 0 when the object becomes empty */
    uint64_t olds[MU_INTENT_REFS]; /* [0]: the old root */
    uint32_t num_news, num_olds;
    bool unpinned; /* nobody pins what this object refers to */
    bool woke;     /* the commit found sleepers */
    uint32_t live; /* news below this index are LIVE and named by the intent; bit per index */
};

void mu_txn_begin(struct mu_txn *t, struct mu_ctx *ctx, mu_a64 *word);

/* Start an attempt: copy the root into the context's scratch. What the last attempt replaced is forgotten. */
enum mu_read mu_txn_read(struct mu_txn *t, struct mu_root *ret_root);

/* Allocate and describe the new root; the caller fills body. A root of an earlier attempt is given back first. */
enum muster_status mu_txn_root(struct mu_txn *t, uint32_t type, uint32_t refs, size_t bytes, uint32_t flags,
                               mu_a64 **ret_body);

/* The object becomes empty. A root of an earlier attempt is given back. */
void mu_txn_no_root(struct mu_txn *t);

/* Hand over a block that the new root refers to: OWNED by ctx, filled. Once per transaction, not per attempt. */
void mu_txn_new(struct mu_txn *t, uint64_t ref);

/* Take back what was handed over last, and free it. */
void mu_txn_drop_last(struct mu_txn *t);

/* A reference of the old root that the new one no longer has: freed after the commit. */
void mu_txn_old(struct mu_txn *t, uint64_t ref);

enum mu_commit { MU_COMMITTED, MU_RETRY };

/* One CAS. On success the sleepers are woken and the old blocks freed. */
enum mu_commit mu_txn_commit(struct mu_txn *t);
/* The same, but nobody is woken: no sleeper on the object waits for what it changes. */
enum mu_commit mu_txn_commit_quietly(struct mu_txn *t);
/* The same for an object that stands for one elsewhere: commits may be left out. `tag` is ahead of the word's own. */
enum mu_commit mu_txn_commit_as(struct mu_txn *t, uint64_t tag);

/* Behind a commit that woke sleepers: the agent may be one, which the bell wakes. */
void mu_txn_ring(struct mu_txn *t);

void mu_txn_abort(struct mu_txn *t);

#endif
