/*
 * kv/ask.h: reads of keys on a host that is not the leader's.
 *
 * What lies in a follower's table is a copy, as old as the last thing that this host heard, and good as an answer. What
 * does not lie there may exist all the same: the leader is asked. Its answer says whether the key is there; the value
 * comes as a copy, ahead of the answer, or in the answer when it is large or changes so fast that no copy lasts.
 */
#ifndef MU_KV_ASK_H
#define MU_KV_ASK_H

#include "kv/key.h"
#include "segment/handle.h"
#include "segment/wait.h"

/* MU_OP_KV_GET: flags 1, offset 8, key (length 4). Answer: what 1, version 8, length of the value 8; then, if that is
 * MU_READ_VALUE, at most MU_READ_PIECE bytes of it from the offset on. */
enum { MU_READ_WAITS = 1, MU_READ_WHOLE = 2 }; /* who asks will sleep until it comes or changes; wants no copy */
enum { MU_READ_ABSENT = 0, MU_READ_COPIED = 1, MU_READ_VALUE = 2 };
#define MU_READ_PIECE (16u << 20)

/* MU_OP_KV_DIR: prefix (length 4), key behind which to begin (length 4), room 4: no more entries behind so many bytes
 * of the answer. Answer: fingerprint 8, of all keys below the prefix; how many they are 8; how many of them follow 4;
 * each: version 8, length of the value 8, key (length 4), then the value unless it is longer than MU_LISTED_MAX, or
 * than the room. MU_OP_KV_COUNT: prefix (length 4). Answer: count 8. */
#define MU_LISTED_MAX        (1u << 20)
#define MU_LISTED_CUT        (8u << 20) /* the most room */
#define MU_LISTED_LEAST      (16u << 10)
#define MU_LISTED_WITH(room) ((room) < MU_LISTED_MAX ? (room) : MU_LISTED_MAX) /* the longest value among its keys */

/* The leader's answer. The value, when it has one, is whole, and lies in `memory`, which the caller frees. */
struct mu_kv_answer {
    int what;
    uint64_t version;
    size_t len;
    const uint8_t *value;
    void *memory;
};
enum muster_status mu_kv_ask(struct muster *m, struct mu_ctx *ctx, const struct mu_key *k, uint8_t flags,
                             muster_deadline deadline, struct mu_kv_answer *ret_answer);

struct mu_snapshot;
/* All keys below s->prefix, or how many, by the leader's answers. ABORTED: they changed meanwhile. */
enum muster_status mu_kv_ask_below(struct muster *m, struct mu_ctx *ctx, struct mu_snapshot *s);

#endif
