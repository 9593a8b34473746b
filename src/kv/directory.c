/*
 * kv/directory.c: many keys: listing, counting.
 *
 * A listing is a snapshot by two passes over all buckets that find the same matching keys at the same versions, with no
 * deletion in between in any bucket: then every key listed had its value, and no other matching key existed, at the
 * moment between the passes. (A key that came and went between the two looks would have moved its bucket's count of
 * deletions; overwrites and inserts of other keys move nothing that is compared.)
 */
#include <stdlib.h>
#include <string.h>

#include "kv/key.h"
#include "segment/handle.h"

enum { PASSES_MAX = 1000 };

struct pass {
    const char *prefix;
    size_t prefix_len;
    bool values; /* keep keys and values, not only their fingerprint */
    struct muster_kv_entry *entries;
    size_t count, capacity;
    char *bytes; /* keys and values; entries hold offsets until the end */
    size_t used, size;
    uint64_t fingerprint, deletes;
};

static bool wants(void *arg, const char *key, uint32_t key_len)
{
    const struct pass *p = arg;

    return key_len > p->prefix_len && !memcmp(key, p->prefix, p->prefix_len);
}

static bool reserve(struct pass *p, size_t more)
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

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ (h >> 29);
}

static enum muster_status take(void *arg, const struct mu_item *i)
{
    struct pass *p = arg;
    uint64_t h = i->version;

    for (uint32_t k = 0; k < i->key_len; k++)
        h = mix(h, (unsigned char)i->key[k]);
    p->fingerprint += h; /* order within a bucket does not matter */
    if (!p->values) {
        p->count++;
        return MUSTER_OK;
    }
    if (!reserve(p, i->key_len + i->len + 2))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the listing");
    /* offsets now, pointers when nothing moves any more */
    p->entries[p->count++] = (struct muster_kv_entry){.key = (char *)(uintptr_t)p->used,
                                                      .key_len = i->key_len,
                                                      .value = (char *)(uintptr_t)(p->used + i->key_len + 1),
                                                      .value_len = i->len,
                                                      .version = i->version};
    memcpy(p->bytes + p->used, i->key, i->key_len);
    p->bytes[p->used + i->key_len] = 0;
    memcpy(p->bytes + p->used + i->key_len + 1, i->value, i->len);
    p->bytes[p->used + i->key_len + 1 + i->len] = 0;
    p->used += i->key_len + i->len + 2;
    return MUSTER_OK;
}

static enum muster_status run_pass(struct muster_segment *seg, struct mu_ctx *ctx, struct pass *p)
{
    struct mu_table t = mu_table_kv(seg);
    struct mu_walk w = {wants, take, p, !p->values};
    enum muster_status status = MUSTER_OK;

    p->count = p->used = 0;
    p->fingerprint = p->deletes = 0;
    for (uint32_t b = 0; b <= t.mask && !status; b++) {
        struct mu_bucket_info info;

        status = mu_table_walk(&t, ctx, b, &w, &info);
        p->deletes += info.deletes;
        p->fingerprint = mix(p->fingerprint, 0);
    }
    return status;
}

/* Passes until two in a row agree; the last one is in *p. */
static enum muster_status settle(struct muster_segment *seg, struct mu_ctx *ctx, struct pass *p)
{
    uint64_t fingerprint = 0, deletes = 0;
    enum muster_status status = run_pass(seg, ctx, p);

    for (int n = 1; !status && n < PASSES_MAX; n++) {
        fingerprint = p->fingerprint;
        deletes = p->deletes;
        status = run_pass(seg, ctx, p);
        if (!status && p->fingerprint == fingerprint && p->deletes == deletes)
            return MUSTER_OK;
    }
    if (status)
        return status;
    return mu_fail(MUSTER_ABORTED, "the keys change too fast for a snapshot: %d passes and no two alike", PASSES_MAX);
}

static int by_key(const void *a, const void *b)
{
    const struct muster_kv_entry *x = a, *y = b;
    size_t n = x->key_len < y->key_len ? x->key_len : y->key_len;
    int d = memcmp(x->key, y->key, n);

    return d ? d : (x->key_len > y->key_len) - (x->key_len < y->key_len);
}

static enum muster_status gather(struct muster *m, const char *directory, size_t len, bool values, struct pass *p,
                                 char *prefix)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter_wait(m, &ctx);

    if (status)
        return status;
    memset(p, 0, sizeof *p);
    p->prefix = prefix;
    p->values = values;
    status = mu_kv_directory(directory, len, prefix, &p->prefix_len);
    if (!status)
        status = settle(m->seg, ctx, p);
    mu_exit(ctx);
    if (status) {
        free(p->entries);
        free(p->bytes);
    }
    return status;
}

/* A listing owns its bytes through this; what the caller sees is the first member. */
struct listing {
    struct muster_kv_list list;
    char *bytes;
};

enum muster_status muster_kv_get_dir(struct muster *muster, const char *directory, size_t directory_len,
                                     struct muster_kv_list **ret_list)
{
    char prefix[MUSTER_KEY_MAX + 2];
    struct pass p;
    struct listing *l;
    enum muster_status status = gather(muster, directory, directory_len, true, &p, prefix);

    if (status)
        return status;
    l = malloc(sizeof *l);
    if (!l) {
        free(p.entries);
        free(p.bytes);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the listing");
    }
    for (size_t i = 0; i < p.count; i++) {
        p.entries[i].key = p.bytes + (uintptr_t)p.entries[i].key;
        p.entries[i].value = p.bytes + (uintptr_t)p.entries[i].value;
    }
    if (p.count)
        qsort(p.entries, p.count, sizeof *p.entries, by_key);
    l->list.entries = p.entries;
    l->list.count = p.count;
    l->bytes = p.bytes;
    *ret_list = &l->list;
    return MUSTER_OK;
}

void muster_kv_list_free(struct muster_kv_list *list)
{
    struct listing *l = (struct listing *)list;

    if (!l)
        return;
    free(l->list.entries);
    free(l->bytes);
    free(l);
}

enum muster_status muster_kv_count(struct muster *muster, const char *directory, size_t directory_len,
                                   size_t *ret_count)
{
    char prefix[MUSTER_KEY_MAX + 2];
    struct pass p;
    enum muster_status status = gather(muster, directory, directory_len, false, &p, prefix);

    if (!status)
        *ret_count = p.count;
    return status;
}
