/*
 * kv/remote.h: keys on a host that is not the leader's: what the leader is asked, in steps (segment/steps.h).
 *
 * What lies in a follower's table is a copy, as old as the last thing that this host heard, and good as an answer. What
 * does not lie there may exist all the same: the leader is asked. Its answer says whether the key is there; the value
 * comes as a copy, ahead of the answer, or in the answer when it is large or changes so fast that no copy lasts.
 */
#ifndef MU_KV_REMOTE_H
#define MU_KV_REMOTE_H

#include "kv/snapshot.h"
#include "segment/steps.h"

/* ---- changes: MU_OP_KV_SET and the like ---- */

/* Request: key (length 4), number 8, value (the rest). Answer: number 8, also of a comparison that failed. */
struct mu_kv_remote_change {
    struct mu_steps steps;
    uint64_t result; /* as of struct mu_kv_change */
};
/* k: as mu_kv_key() made it; NULL: the root directory. The value stays where it is until the operation has ended. */
void mu_kv_change_begin(struct mu_kv_remote_change *c, enum mu_op op, const struct mu_key *k, uint64_t number,
                        const void *value, size_t len);

/* ---- reads ---- */

/* MU_OP_KV_GET: flags 1, offset 8, key (length 4). Answer: what 1, version 8, length of the value 8; then, if that is
 * MU_READ_VALUE, at most MU_READ_PIECE bytes of it from the offset on. */
enum { MU_READ_WAITS = 1, MU_READ_WHOLE = 2 }; /* the caller will sleep until it comes or changes; wants no copy */
enum { MU_READ_ABSENT = 0, MU_READ_COPIED = 1, MU_READ_VALUE = 2 };
#define MU_READ_PIECE (16u << 20)

struct mu_kv_read {
    struct mu_steps steps;
    const void *key; /* the caller's */
    size_t key_len;
    uint8_t flags; /* MU_READ_* */
    /*
     * A value has come, of this version and length: set `to` to where it goes. NULL: it is not wanted, and the read
     * ends. Called once more when the value changed between two of its pieces.
     */
    enum muster_status (*room)(struct mu_kv_read *read);
    void *arg;
    /* the answer */
    uint8_t what; /* MU_READ_ABSENT and the like */
    uint64_t version, len;
    uint8_t *to;
    uint64_t from; /* so much of the value is there */
};
/* With `key`, `room` and `arg` set, the first time zeroed: from the beginning. */
void mu_kv_read_begin(struct mu_kv_read *read, uint8_t flags);
/* For a thread: a deadline that has passed leaves time for one answer. */
enum muster_status mu_kv_read_run(struct muster *m, struct mu_ctx *ctx, struct mu_kv_read *read,
                                  muster_deadline deadline);

/* ---- listings ---- */

/* MU_OP_KV_DIR: prefix (length 4), key behind which to begin (length 4), room 4: no more entries behind so many bytes
 * of the answer. Answer: fingerprint 8, of all keys below the prefix; how many they are 8; how many of them follow 4;
 * each: version 8, length of the value 8, key (length 4), then the value unless it is longer than MU_LISTED_MAX, or
 * than the room. MU_OP_KV_COUNT: prefix (length 4). Answer: count 8. */
#define MU_LISTED_MAX        (1u << 20)
#define MU_LISTED_CUT        (8u << 20) /* the most room */
#define MU_LISTED_LEAST      (16u << 10)
#define MU_LISTED_WITH(room) ((room) < MU_LISTED_MAX ? (room) : MU_LISTED_MAX) /* the longest value among its keys */

/*
 * All keys below a prefix: pages, and values that are too long for a page, each by a read of its own. They belong
 * together when all of them are of the same keys and versions. When they are not, the listing begins anew, as one does
 * that is taken from the table itself.
 */
struct mu_kv_remote_list {
    struct mu_steps steps;
    struct mu_snapshot s; /* prefix is set, which is the caller's; the rest is zero. At the end not yet sorted */
    /* It takes so many bytes now. May be NULL, and may end the listing with an error. */
    enum muster_status (*hold)(struct mu_kv_remote_list *list, size_t bytes);
    void *arg;
    uint64_t fingerprint, total; /* as the last page said */
    uint32_t tries;
    size_t at;               /* the entries before have their values */
    bool reads;              /* the request is that of the next one's, */
    struct mu_kv_read value; /* which is this */
};
void mu_kv_list_begin(struct mu_kv_remote_list *list);
void mu_kv_list_done(struct mu_kv_remote_list *list);

struct mu_kv_remote_count {
    struct mu_steps steps;
    uint64_t count;
};
void mu_kv_count_begin(struct mu_kv_remote_count *c, const char *prefix, size_t prefix_len);

#endif
