/*
 * kv/delete.c: deleting a key and everything under it, key by key, each at its own instant.
 *
 * Bucket by bucket, that of the key itself first: what is there is collected, then deleted. On behalf of another host's
 * task that is done in pieces, and each deletion leaves the call's record in the page that it makes: the number of keys
 * that the call has deleted there, and the highest version that was there when it came to this bucket. So when the call
 * is carried out again, by another agent perhaps, what it had deleted before is counted, and what has come since to a
 * bucket where it was before stays: no key goes twice. (A key that was still to go, and was written in that moment,
 * stays, too: as if it had been written afterwards.)
 */
#include <string.h>

#include "kv/change.h"
#include "segment/handle.h"
#include "segment/stats.h"

enum { KEY_COST = 16 }; /* of a deletion, in looks at a bucket */

struct removal {
    const struct mu_kv_tree *tree;
    bool gone;
};

static enum mu_verdict remove_it(struct mu_edit *e)
{
    struct removal *r = e->arg;
    uint64_t *before = e->done ? e->done->result : NULL; /* what this page's record says: keys; the highest version */

    r->gone = e->version && !(r->tree->again && e->version > r->tree->bound);
    if (!r->gone)
        return MU_KEEP;
    if (before) {
        before[0]++;
        before[1] = r->tree->bound;
    }
    return MU_DELETE;
}

static enum muster_status delete_one(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_tree *tree,
                                     const struct mu_key *k)
{
    struct mu_table t = mu_table_kv(seg);
    struct removal r = {.tree = tree};
    const struct mu_kv_behalf *b = tree->change->behalf;
    struct mu_edit e = {
        .arg = &r, .done = b ? b->done : NULL, .forget = b ? b->forget : NULL, .forget_arg = b ? b->arg : NULL};
    enum muster_status status = mu_table_edit(&t, ctx, k, 0, remove_it, &e, NULL);

    if (!status && r.gone && b)
        b->left_record(b->arg, (uint32_t)(k->hash >> 20) & t.mask);
    tree->change->result += !status && r.gone;
    return status;
}

static bool is_itself(const struct mu_kv_tree *tree, const char *key, uint32_t key_len)
{
    const struct mu_key *k = tree->change->key;

    return k && key_len == k->len && !memcmp(key, k->words, key_len);
}

static bool tree_wants(void *arg, const char *key, uint32_t key_len)
{
    const struct mu_kv_tree *tree = arg;
    const struct mu_key *k = tree->change->key;

    if (is_itself(tree, key, key_len) || tree->change->number)
        return is_itself(tree, key, key_len);
    if (tree->change->len) { /* tree_key_take() looks at the rest of it */
        const size_t begins = tree->change->len < MU_KV_LONG_BEGINS ? tree->change->len : MU_KV_LONG_BEGINS;

        return key_len > begins && !memcmp(key, tree->change->value, begins);
    }
    if (tree->keep && key_len >= strlen(tree->keep) && !memcmp(key, tree->keep, strlen(tree->keep)))
        return false;
    return !mu_kv_is_own(key) && (!k || (key_len > k->len + 1 && key[k->len] == '/' && !memcmp(key, k->words, k->len)));
}

static enum muster_status tree_key_take(void *arg, const struct mu_item *i)
{
    struct mu_kv_tree *tree = arg;

    if (tree->change->len && !is_itself(tree, i->key, i->key_len) &&
        !mu_kv_begins(i->key, i->key_len, i->value, i->len, tree->change->value, tree->change->len))
        return MUSTER_OK;
    if ((tree->again && i->version > tree->bound) || (tree->clients && !i->client))
        return MUSTER_OK;
    if (i->version > tree->bound)
        tree->bound = i->version;
    if (is_itself(tree, i->key, i->key_len))
        tree->itself = true;
    else
        mu_pack_blob(&tree->keys, i->key, i->key_len);
    return tree->keys.failed ? mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the keys to be deleted") : MUSTER_OK;
}

/* What the call has deleted in this bucket before, when it may have been carried out in part. */
static enum muster_status deletion_recall(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_tree *tree,
                                          uint32_t bucket)
{
    struct mu_table t = mu_table_kv(seg);
    struct mu_done *done = tree->change->behalf->done;
    enum muster_status status;

    memset(done->result, 0, sizeof done->result);
    status = mu_table_done(&t, ctx, bucket, done);
    tree->again = done->result[0] > 0;
    tree->bound = done->result[1];
    tree->change->result += done->result[0];
    return status;
}

/* Collect what is to go of the next bucket. */
static enum muster_status bucket_visit(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_tree *tree)
{
    struct mu_table t = mu_table_kv(seg);
    const struct mu_kv_change *c = tree->change;
    uint32_t first = c->key ? (uint32_t)(c->key->hash >> 20) : 0, bucket = (first + tree->visited++) & t.mask;
    struct mu_walk w = {tree_wants, tree_key_take, tree, c->len == 0};
    struct mu_bucket_info info;
    enum muster_status status = MUSTER_OK;

    mu_pack_reset(&tree->keys);
    tree->at = 0;
    tree->bound = 0;
    tree->again = tree->itself = false;
    if (c->behalf && c->behalf->resent)
        status = deletion_recall(seg, ctx, tree, bucket);
    if (!status)
        status = mu_table_walk(&t, ctx, bucket, &w, &info);
    if (!status && tree->itself)
        status = delete_one(seg, ctx, tree, c->key);
    return status;
}

static enum muster_status delete_next(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_tree *tree)
{
    struct mu_unpack left = mu_unpack_of(tree->keys.bytes + tree->at, tree->keys.len - tree->at);
    struct mu_key k;
    size_t len;
    const void *key = mu_unpack_blob(&left, MU_KEY_MAX, &len);

    tree->at = tree->keys.len - left.left;
    mu_key_make(&k, seg, key, len);
    return delete_one(seg, ctx, tree, &k);
}

bool mu_kv_delete_piece(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_tree *tree, uint64_t most,
                        enum muster_status *ret_status)
{
    uint32_t mask = tree->change->number ? 0 : mu_table_kv(seg).mask; /* the key's own bucket is the first */
    uint64_t spent = 0;

    *ret_status = MUSTER_OK;
    if (tree->change->behalf)
        tree->change->behalf->done->goes_on = true;
    while (!*ret_status && (tree->at < tree->keys.len || tree->visited <= mask)) {
        bool is_key = tree->at < tree->keys.len;

        if (spent >= most)
            return false;
        spent += is_key ? KEY_COST : 1;
        *ret_status = is_key ? delete_next(seg, ctx, tree) : bucket_visit(seg, ctx, tree);
    }
    return true;
}

void mu_kv_tree_done(struct mu_kv_tree *tree)
{
    mu_pack_done(&tree->keys);
}

enum muster_status mu_kv_delete_tree(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    struct mu_kv_tree tree = {.change = c};
    enum muster_status status;

    mu_kv_delete_piece(seg, ctx, &tree, UINT64_MAX, &status);
    mu_kv_tree_done(&tree);
    return status;
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
