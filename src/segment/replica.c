/*
 * segment/replica.c: which replica stands for a reference to another host's object: a cell each.
 */
#include "segment/replica.h"

#include <string.h>

enum { KEY_LEN = 1 + 8 };

static void replica_key(struct mu_key *k, const struct muster_segment *seg, uint64_t ref)
{
    char bytes[KEY_LEN] = {'O'};

    memcpy(bytes + 1, &ref, sizeof ref);
    mu_key_make(k, seg, bytes, sizeof bytes);
}

enum muster_status mu_remote_replica_find(struct muster_segment *seg, struct mu_ctx *ctx, uint64_t ref,
                                          uint64_t *ret_local)
{
    struct mu_table t = mu_table_cells(seg);
    struct mu_found f;
    struct mu_key k;
    enum muster_status status;

    *ret_local = 0;
    replica_key(&k, seg, ref);
    status = mu_table_get(&t, ctx, &k, ret_local, sizeof *ret_local, &f);
    if (status || !f.version || f.len != sizeof *ret_local)
        *ret_local = 0;
    return status;
}

static enum mu_verdict local_put(struct mu_edit *e)
{
    e->value = e->arg;
    e->len = sizeof(uint64_t);
    return MU_PUT;
}

static enum mu_verdict local_delete(struct mu_edit *e)
{
    e->status = MUSTER_OK;
    return e->version ? MU_DELETE : MU_KEEP;
}

enum muster_status mu_remote_replica_put(struct mu_ctx *ctx, uint64_t ref, uint64_t local)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct mu_edit e = {.arg = &local};
    struct mu_key k;

    replica_key(&k, ctx->seg, ref);
    return mu_table_edit(&t, ctx, &k, 0, local_put, &e, NULL);
}

enum muster_status mu_remote_replica_forget(struct mu_ctx *ctx, uint64_t ref)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct mu_edit e = {0};
    struct mu_key k;

    replica_key(&k, ctx->seg, ref);
    return mu_table_edit(&t, ctx, &k, 0, local_delete, &e, NULL);
}

struct walking {
    void (*visit)(void *arg, uint64_t ref, uint64_t local);
    void *arg;
};

static bool key_is_replicas(void *arg, const char *key, uint32_t key_len)
{
    (void)arg;
    return key_len == KEY_LEN && key[0] == 'O';
}

static enum muster_status item_visit(void *arg, const struct mu_item *item)
{
    struct walking *w = arg;
    uint64_t ref, local;

    if (item->len != sizeof local)
        return MUSTER_OK;
    memcpy(&ref, item->key + 1, sizeof ref);
    memcpy(&local, item->value, sizeof local);
    w->visit(w->arg, ref, local);
    return MUSTER_OK;
}

enum muster_status mu_remote_replica_walk(struct mu_ctx *ctx, void (*visit)(void *arg, uint64_t ref, uint64_t local),
                                          void *arg)
{
    struct mu_table t = mu_table_cells(ctx->seg);
    struct walking walking = {visit, arg};
    struct mu_walk w = {.wants = key_is_replicas, .visit = item_visit, .arg = &walking};
    enum muster_status status = MUSTER_OK;
    struct mu_bucket_info info;

    for (uint32_t i = 0; !status && i < ctx->seg->num_cells; i++)
        status = mu_table_walk(&t, ctx, i, &w, &info);
    return status;
}
