/*
 * segment/table.h: keyed entries in buckets, each bucket one object.
 *
 * Two tables live in a segment: the key-value store's buckets and muster's own cells (barriers, groups, ...). A
 * bucket's root block (a page) holds every entry with a hash that falls there; an edit replaces the page by one commit,
 * so an entry's value, its version, the futex that its waiters sleep on and the sign that something changed are decided
 * at once.
 */
#ifndef MU_SEGMENT_TABLE_H
#define MU_SEGMENT_TABLE_H

#include "segment/object.h"
#include "shm_layout/values.h"

#define MU_KEY_MAX   4096u
#define MU_VALUE_MAX (64u << 20)
#define MU_ENTRY_MAX (MU_VALUE_MAX + (64u << 10)) /* of a cell: such a value, and what is said of it */

struct mu_table {
    struct muster_segment *seg;
    mu_a64 *buckets;
    uint32_t mask;
};

static inline struct mu_table mu_table_kv(struct muster_segment *seg)
{
    return (struct mu_table){seg, seg->buckets, seg->num_buckets - 1};
}
static inline struct mu_table mu_table_cells(struct muster_segment *seg)
{
    return (struct mu_table){seg, seg->cells, seg->num_cells - 1};
}

/* A key, copied into whole words (the last one padded with zeros), and its hash. */
struct mu_key {
    uint64_t hash;
    uint32_t len;
    uint64_t words[MU_KEY_MAX / 8];
};
void mu_key_make(struct mu_key *k, const struct muster_segment *seg, const void *bytes, size_t len);

/* The hash, word by word, for callers that make a key's words themselves: begin, step for each word, end. */
static inline uint64_t mu_hash_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
}
static inline uint64_t mu_hash_begin(const struct muster_segment *seg, size_t len)
{
    return seg->hash_seed ^ (len * 0x9e3779b97f4a7c15ull);
}
static inline uint64_t mu_hash_step(uint64_t h, uint64_t word)
{
    return mu_hash_fold(h ^ word, 0xd6e8feb86659fd93ull);
}
static inline uint64_t mu_hash_end(uint64_t h)
{
    return mu_hash_fold(h, 0xa0761d6478bd642full) | 1;
}

static inline mu_a64 *mu_table_bucket(const struct mu_table *t, const struct mu_key *k)
{
    return &t->buckets[(k->hash >> 20) & t->mask];
}

/* What a read found. */
struct mu_found {
    uint64_t word;    /* the bucket's, for waiting and for pins */
    uint64_t version; /* 0: absent */
    size_t len;
};

/*
 * Look the key up and copy its value into `buffer` (at most `capacity` bytes; found->len is the whole length, and
 * nothing useful is copied when it is larger). MUSTER_OK also when absent (version 0); DATA_LOSS when corrupt.
 * ctx may be NULL for read-only access; then a value that changes faster than it can be copied gives ABORTED.
 */
enum muster_status mu_table_get(const struct mu_table *t, struct mu_ctx *ctx, const struct mu_key *k, void *buffer,
                                size_t capacity, struct mu_found *ret_found);

/*
 * A call of another host's task, and what came of it. A commit that carries one out leaves this in the page that it
 * makes, until the caller is known to have its answer: so an agent that carries the call out a second time, perhaps
 * another process, finds that it was done, and with what result (exactly once).
 */
struct mu_done {
    uint64_t id; /* MU_DONE_ID() of its host and slot */
    uint64_t number;
    uint64_t result[2]; /* for the callback to fill */
    uint64_t version;   /* told when it was done: of the commit that did it */
    /* The call changes several keys, each once: a record of its own number does not end the edit but tells the callback
     * what the call has done in this page (result; zeros: nothing), and is replaced. */
    bool goes_on;
};
/* Whether the caller has the answer to the call of this id and number: then its record goes. */
typedef bool (*mu_forget_fn)(void *arg, uint64_t id, uint64_t number);

/* One edit, decided by a callback on a private copy of the old value. It may be called several times. */
enum mu_verdict { MU_KEEP, MU_PUT, MU_DELETE };
struct mu_edit {
    /* what is there */
    const struct mu_key *key;
    uint64_t version; /* 0: absent */
    const void *old;  /* NULL unless `wants_old`, or absent */
    size_t old_len;
    const uint64_t *refs; /* the entry's own references (see num_refs), NULL when absent */
    uint32_t old_refs;
    /* what is wanted; filled by the callback */
    const void *value;
    size_t len;
    const void *more;    /* the last more_len of the value's bytes lie here, and not behind the others */
    size_t more_len;     /* 0: they all lie at `value` */
    uint32_t num_refs;   /* for a new entry: how many reference places it has, all empty */
    int32_t ref_at;      /* -1: none; else this place gets new_ref (0: becomes empty) */
    uint64_t new_ref;    /* OWNED by the caller's context, filled */
    bool quiet;          /* no sleeper on the entry waits for this change: none is woken */
    bool client;         /* marks the entry: for a wire client */
    uint64_t version_as; /* not 0: a copy, of this version elsewhere, which is kept instead of the bucket's count */
    /* on behalf of another host's task; NULL: not */
    struct mu_done *done;
    bool was_done;       /* it had been carried out: nothing was changed, *done has the result */
    mu_forget_fn forget; /* with forget_arg; may be NULL */
    void *forget_arg;
    /* the callback's own */
    void *arg;
    enum muster_status status; /* what mu_table_edit() returns after MU_KEEP */
};
typedef enum mu_verdict (*mu_edit_fn)(struct mu_edit *e);

#define MU_EDIT_WANTS_OLD 1u
/*
 * Apply the edit atomically. Returns e->status after MU_KEEP, MUSTER_OK after a commit (*ret_version gets the entry's
 * new version, or the bucket's commit number after MU_DELETE), RESOURCE_EXHAUSTED or DATA_LOSS otherwise. An unused
 * new_ref is freed. With `done`: MUSTER_OK with was_done set when the call had been carried out; CANCELLED when a later
 * call of that id has been; UNAVAILABLE when the page holds MU_DONE_MAX records: try again once some are forgotten.
 */
enum muster_status mu_table_edit(const struct mu_table *t, struct mu_ctx *ctx, const struct mu_key *k, uint32_t flags,
                                 mu_edit_fn fn, struct mu_edit *e, uint64_t *ret_version);

/* What the bucket's record of this call says, added to its result; nothing where it has none. */
enum muster_status mu_table_done(const struct mu_table *t, struct mu_ctx *ctx, uint32_t bucket, struct mu_done *done);

/* Drop what is to be forgotten from the page that the key falls into. */
enum muster_status mu_table_forget(const struct mu_table *t, struct mu_ctx *ctx, const struct mu_key *k,
                                   mu_forget_fn forget, void *arg);

/*
 * The short way for the commonest edit: replace the value of an entry in its page by one of as many words. False: not
 * that case, or another commit came first; nothing was changed, use mu_table_edit().
 */
bool mu_table_overwrite(const struct mu_table *t, struct mu_ctx *ctx, const struct mu_key *k, const void *value,
                        size_t len, uint64_t *ret_version);

/* Walk one bucket: every entry of one consistent page. The key and value are private copies. */
struct mu_item {
    const char *key;
    uint32_t key_len;
    uint64_t version;
    const void *value;
    size_t len;
    const uint64_t *refs; /* the entry's own references */
    uint32_t num_refs;
    bool client; /* as in struct mu_edit */
};
struct mu_bucket_info {
    uint64_t word, commits, deletes;
};
/* `wants` decides by key whether the value is fetched; `visit` gets it. Either may be NULL. */
struct mu_walk {
    bool (*wants)(void *arg, const char *key, uint32_t key_len);
    enum muster_status (*visit)(void *arg, const struct mu_item *item);
    void *arg;
    bool lengths_only; /* `visit` looks at no value: the large ones are not copied */
};
enum muster_status mu_table_walk(const struct mu_table *t, struct mu_ctx *ctx, uint32_t bucket, const struct mu_walk *w,
                                 struct mu_bucket_info *ret_info);

#endif
