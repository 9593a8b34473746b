/*
 * kv/delete.c: deleting a key and everything under it, key by key, each at its own instant.
 *
 * On behalf of another host's task each deletion leaves the call's record in the page that it makes, with the number of
 * keys that the call has deleted there, and whether the key itself is among them. So when the call is carried out
 * again, by another agent perhaps, what it had deleted before is counted, and the key, if it came again since, stays. A
 * key under it that came again since goes again: as if it had come before the call got there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/pack.h"
#include "kv/change.h"
#include "segment/handle.h"
#include "segment/stats.h"

struct removal {
    bool itself; /* the key that was named, not one under it */
    bool gone;
};

static enum mu_verdict remove_it(struct mu_edit *e)
{
    struct removal *r = e->arg;
    uint64_t *before =
        e->done ? e->done->result : NULL; /* what this page's record says: keys; whether the key itself */

    r->gone = e->version && !(before && r->itself && before[1]);
    if (!r->gone)
        return MU_KEEP;
    if (before) {
        before[0]++;
        before[1] += r->itself;
    }
    return MU_DELETE;
}

static enum muster_status delete_one(struct muster_segment *seg, struct mu_ctx *ctx, const struct mu_key *k,
                                     struct mu_kv_change *c)
{
    struct mu_table t = mu_table_kv(seg);
    struct removal r = {.itself = k == c->key};
    const struct mu_kv_behalf *b = c->behalf;
    struct mu_edit e = {
        .arg = &r, .done = b ? b->done : NULL, .forget = b ? b->forget : NULL, .forget_arg = b ? b->arg : NULL};
    enum muster_status status = mu_table_edit(&t, ctx, k, 0, remove_it, &e, NULL);

    if (!status && r.gone && b)
        b->left_record(b->arg, (uint32_t)(k->hash >> 20) & t.mask);
    c->result += !status && r.gone;
    return status;
}

/* The keys of one bucket under a prefix: each its length, then its bytes. */
struct under {
    const char *prefix;
    size_t prefix_len;
    struct mu_pack keys;
};

static bool wants(void *arg, const char *key, uint32_t key_len)
{
    const struct under *u = arg;

    return !mu_kv_is_own(key) && key_len > u->prefix_len && !memcmp(key, u->prefix, u->prefix_len);
}

static enum muster_status take(void *arg, const struct mu_item *i)
{
    struct under *u = arg;

    mu_pack_blob(&u->keys, i->key, i->key_len);
    return u->keys.failed ? mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the keys to be deleted") : MUSTER_OK;
}

/* Bucket by bucket: collected, then deleted one by one. */
static enum muster_status delete_under(struct muster_segment *seg, struct mu_ctx *ctx, struct under *u,
                                       struct mu_kv_change *c)
{
    struct mu_table t = mu_table_kv(seg);
    struct mu_walk w = {wants, take, u, true};
    enum muster_status status = MUSTER_OK;

    for (uint32_t b = 0; b <= t.mask && !status; b++) {
        struct mu_bucket_info info;
        struct mu_unpack left;

        mu_pack_reset(&u->keys);
        status = mu_table_walk(&t, ctx, b, &w, &info);
        left = mu_unpack_of(u->keys.bytes, u->keys.len);
        while (!status && left.left) {
            struct mu_key k;
            size_t len;
            const void *key = mu_unpack_blob(&left, MU_KEY_MAX, &len);

            mu_key_make(&k, seg, key, len);
            status = delete_one(seg, ctx, &k, c);
        }
    }
    mu_pack_done(&u->keys);
    return status;
}

/* What the call has deleted before, when it may have been carried out in part. */
static enum muster_status count_before(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    struct mu_table t = mu_table_kv(seg);
    enum muster_status status = MUSTER_OK;

    c->behalf->done->result[0] = 0;
    for (uint32_t b = 0; b <= t.mask && !status; b++)
        status = mu_table_done(&t, ctx, b, c->behalf->done);
    c->result = c->behalf->done->result[0];
    return status;
}

enum muster_status mu_kv_delete_tree(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    char prefix[MUSTER_KEY_MAX + 2];
    struct under u = {.prefix = prefix};
    enum muster_status status = MUSTER_OK;

    if (c->behalf) {
        c->behalf->done->goes_on = true;
        if (c->behalf->resent)
            status = count_before(seg, ctx, c);
    }
    if (c->key && !status) {
        memcpy(prefix, c->key->words, c->key->len);
        prefix[c->key->len] = '/';
        u.prefix_len = c->key->len + 1u;
        status = delete_one(seg, ctx, c->key, c);
    }
    return status ? status : delete_under(seg, ctx, &u, c);
}

enum muster_status muster_kv_delete(struct muster *muster, const char *key, size_t key_len, size_t *ret_count)
{
    char path[MUSTER_KEY_MAX + 2];
    struct mu_kv_change c = {.op = MU_OP_KV_DELETE};
    struct mu_ctx *ctx;
    struct mu_key k;
    size_t len;
    enum muster_status status = mu_enter(muster, &ctx);

    if (status)
        return status;
    status = mu_kv_directory(key, key_len, path, &len);
    if (!status) {
        if (len) {
            mu_key_make(&k, muster->seg, path, len - 1);
            c.key = &k;
        }
        status = mu_kv_change_anywhere(muster, ctx, &c);
    }
    if (c.result)
        mu_count(&ctx->own->kv_writes, 1);
    if (ret_count)
        *ret_count = c.result;
    mu_exit(ctx);
    return status;
}
