/*
 * kv/snapshot.c: all keys below a prefix, as they were at one moment.
 *
 * Two passes over all buckets that find the same matching keys at the same versions, with no
 * deletion in between in any bucket: then every key listed had its value, and no other matching key existed, at the
 * moment between the passes. (A key that came and went between the two looks would have moved its bucket's count of
 * deletions; overwrites and inserts of other keys move nothing that is compared.)
 */
#include "kv/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "kv/key.h"

static bool snapshot_wants(void *arg, const char *key, uint32_t key_len)
{
    struct mu_snapshot *p = arg;

    p->looks++;
    return !mu_kv_is_own(key) && key_len > p->prefix_len && !memcmp(key, p->prefix, p->prefix_len);
}

static bool snapshot_reserve(struct mu_snapshot *p, size_t more)
{
    size_t size = p->size ? p->size : 4096;
    char *bytes;

    if (p->count == p->capacity) {
        size_t n = p->capacity ? p->capacity * 2 : 64;
        struct muster_kv_entry *entries = realloc(p->entries, n * sizeof *entries);

        if (!entries)
            return false;
        p->entries = entries;
        p->capacity = n;
    }
    while (size - p->used < more)
        size *= 2;
    if (size == p->size)
        return true;
    bytes = realloc(p->bytes, size);
    if (!bytes)
        return false;
    p->bytes = bytes;
    p->size = size;
    return true;
}

enum muster_status mu_snapshot_add(struct mu_snapshot *s, const char *key, size_t key_len, const void *value,
                                   size_t len, uint64_t version)
{
    if (!snapshot_reserve(s, key_len + len + 2))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the listing");
    /* offsets now, pointers when nothing moves any more */
    s->entries[s->count++] = (struct muster_kv_entry){.key = (char *)(uintptr_t)s->used,
                                                      .key_len = key_len,
                                                      .value = (char *)(uintptr_t)(s->used + key_len + 1),
                                                      .value_len = len,
                                                      .version = version};
    memcpy(s->bytes + s->used, key, key_len);
    s->bytes[s->used + key_len] = 0;
    if (value && len)
        memcpy(s->bytes + s->used + key_len + 1, value, len);
    s->bytes[s->used + key_len + 1 + len] = 0;
    s->used += key_len + len + 2;
    return MUSTER_OK;
}

uint64_t mu_snapshot_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ (h >> 29);
}

static enum muster_status entry_take(void *arg, const struct mu_item *i)
{
    struct mu_snapshot *p = arg;
    enum muster_status status;
    uint64_t h = i->version;

    if (p->of == MU_SNAPSHOT_COUNT) { /* where nothing is deleted, the number and the sum of versions only grow */
        p->count++;
        p->fingerprint += i->version;
        return MUSTER_OK;
    }
    for (uint32_t k = 0; k < i->key_len; k++)
        h = mu_snapshot_mix(h, (unsigned char)i->key[k]);
    p->fingerprint += h; /* order within a bucket does not matter */
    if (p->of == MU_SNAPSHOT_VALUES)
        return mu_snapshot_add(p, i->key, i->key_len, i->value, i->len, i->version);
    status = mu_snapshot_add(p, i->key, i->key_len, NULL, 0, i->version);
    if (!status)
        p->entries[p->count - 1].value_len = i->len; /* its length alone */
    return status;
}

enum muster_status mu_snapshot_bucket(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_snapshot *p,
                                      uint32_t bucket, struct mu_bucket_info *ret_info)
{
    struct mu_table t = mu_table_kv(seg);
    struct mu_walk w = {snapshot_wants, entry_take, p, p->of != MU_SNAPSHOT_VALUES};

    return mu_table_walk(&t, ctx, bucket, &w, ret_info);
}

static enum muster_status run_pass(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_snapshot *p)
{
    uint32_t mask = mu_table_kv(seg).mask;
    enum muster_status status = MUSTER_OK;

    p->count = p->used = 0;
    p->fingerprint = p->deletes = 0;
    for (uint32_t b = 0; b <= mask && !status; b++) {
        struct mu_bucket_info info;

        status = mu_snapshot_bucket(seg, ctx, p, b, &info);
        p->deletes += info.deletes;
        p->fingerprint = mu_snapshot_mix(p->fingerprint, 0);
    }
    return status;
}

/* Passes until two in a row agree; the last one is in *p. */
enum muster_status mu_snapshot_take(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_snapshot *p, int passes)
{
    uint64_t fingerprint = 0, deletes = 0;
    enum muster_status status = run_pass(seg, ctx, p);

    for (int n = 1; !status && n < passes; n++) {
        fingerprint = p->fingerprint;
        deletes = p->deletes;
        status = run_pass(seg, ctx, p);
        if (!status && p->fingerprint == fingerprint && p->deletes == deletes)
            return MUSTER_OK;
    }
    if (status)
        return status;
    return mu_fail(MUSTER_ABORTED, "the keys change too fast for a snapshot: %d passes and no two alike", passes);
}

int mu_snapshot_by_key(const void *a, const void *b)
{
    const struct muster_kv_entry *x = a, *y = b;
    size_t n = x->key_len < y->key_len ? x->key_len : y->key_len;
    int d = memcmp(x->key, y->key, n);

    return d ? d : (x->key_len > y->key_len) - (x->key_len < y->key_len);
}

void mu_snapshot_point(const struct mu_snapshot *s, struct muster_kv_entry *entry)
{
    entry->key = s->bytes + (uintptr_t)entry->key;
    entry->value = s->bytes + (uintptr_t)entry->value;
}

void mu_snapshot_sort(struct mu_snapshot *s)
{
    for (size_t i = 0; i < s->count; i++)
        mu_snapshot_point(s, &s->entries[i]);
    if (s->count)
        qsort(s->entries, s->count, sizeof *s->entries, mu_snapshot_by_key);
}

void mu_snapshot_done(struct mu_snapshot *s)
{
    free(s->entries);
    free(s->bytes);
    s->entries = NULL;
    s->bytes = NULL;
    s->count = s->capacity = s->used = s->size = 0;
}
