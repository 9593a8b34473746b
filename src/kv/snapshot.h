/* kv/snapshot.h: all keys below a prefix, as they were at one moment. */
#ifndef MU_KV_SNAPSHOT_H
#define MU_KV_SNAPSHOT_H

#include "kv/key.h"

enum mu_snapshot_of { MU_SNAPSHOT_COUNT, MU_SNAPSHOT_KEYS, MU_SNAPSHOT_VALUES }; /* what is kept besides the numbers */

struct mu_snapshot {
    const char *prefix;
    size_t prefix_len;
    enum mu_snapshot_of of;
    struct muster_kv_entry *entries;
    size_t count, capacity;
    char *bytes; /* keys and values; entries hold offsets until mu_snapshot_sort() */
    size_t used, size;
    uint64_t fingerprint; /* of the keys and their versions */
    uint64_t deletes;
    uint64_t looks; /* at keys */
    uint32_t room; /* of a page of the leader's: MU_LISTED_CUT, or less where this host has not so much; 0: not known */
};

/* Set prefix and what of, zero the rest. ABORTED: so many passes, and no two alike. */
enum muster_status mu_snapshot_take(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_snapshot *s, int passes);
/* A further entry of a snapshot that comes from elsewhere; the value may be NULL: room is made for it. */
enum muster_status mu_snapshot_add(struct mu_snapshot *s, const char *key, size_t key_len, const void *value,
                                   size_t len, uint64_t version);
/* By key; nothing moves any more: the entries point. */
void mu_snapshot_sort(struct mu_snapshot *s);
/* Its parts, to make one in steps (kv/survey.h): adds what a bucket has of it, also to the fingerprint. */
enum muster_status mu_snapshot_bucket(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_snapshot *s,
                                      uint32_t bucket, struct mu_bucket_info *ret_info);
uint64_t mu_snapshot_mix(uint64_t h, uint64_t v);
void mu_snapshot_point(const struct mu_snapshot *s, struct muster_kv_entry *entry); /* offsets become pointers */
int mu_snapshot_by_key(const void *a, const void *b);                               /* for qsort() */
void mu_snapshot_done(struct mu_snapshot *s);

#endif
