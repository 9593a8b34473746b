/*
 * coord/generation.c: what a generation of wire clients leaves, when all of them have shut down.
 *
 * Clients know a service that begins anew with them: JAX's process 0 ends its own with jax.distributed.shutdown(). So
 * what wire clients have written goes then, the keys of PyTorch's store and of others stay, and where no task of the C
 * library is connected barriers go, too: the next caller counts their instances from 0 again. It is done before the
 * last one is answered. A generation that has failed leaves all for people to look at, and the next one that ends well
 * takes it along.
 */
#include <stdlib.h>

#include "kv/change.h"
#include "coord/private.h"
#include "segment/stats.h"

#define KEPT "tcpstore" /* keys of clients that are no wire clients begin so: compat/tcpstore_key.c */

/* A task that is connected, and has not called for the shutdown. */
static bool task_stays(const struct mu_coord *coord, uint32_t task, bool *ret_is_client)
{
    struct mu_cluster cluster;
    struct mu_task_record r;

    *ret_is_client = false;
    if (mu_cluster_task(coord->seg, task, &r, NULL, &cluster))
        return false;
    *ret_is_client = (r.flags & MU_TASK_GUEST) != 0;
    return r.state == MUSTER_TASK_CONNECTED && !coord->tasks[task].left;
}

/* From the one that stayed at the last look on: mostly it is the first that is looked at. */
static bool a_wire_client_stays(struct mu_coord *coord)
{
    for (uint32_t i = 0; i < coord->num_tasks; i++) {
        uint32_t task = (coord->stayed + i) % coord->num_tasks;
        bool is_client;

        if (!task_stays(coord, task, &is_client) || !is_client)
            continue;
        coord->stayed = task;
        return true;
    }
    return false;
}

static bool anybody_stays(const struct mu_coord *coord)
{
    bool is_client;

    for (uint32_t i = 0; i < coord->num_tasks; i++)
        if (task_stays(coord, i, &is_client))
            return true;
    return false;
}

/* ---- barriers ---- */

static bool is_barrier(void *arg, const char *key, uint32_t key_len)
{
    (void)arg;
    return key_len > 1 && key[0] == 'B';
}

static enum muster_status note_key(void *arg, const struct mu_item *item)
{
    struct mu_pack *keys = arg;

    mu_pack_blob(keys, item->key, item->key_len);
    return keys->failed ? mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for barriers' ids") : MUSTER_OK;
}

static enum mu_verdict delete_it(struct mu_edit *e)
{
    return e->version ? MU_DELETE : MU_KEEP;
}

static void delete_barriers(struct mu_coord *coord, struct mu_ctx *ctx)
{
    struct mu_table t = mu_table_cells(coord->seg);

    for (uint32_t i = 0; i <= t.mask; i++) {
        struct mu_pack keys = {0};
        struct mu_walk w = {is_barrier, note_key, &keys, true};
        struct mu_bucket_info info;
        struct mu_unpack u;

        if (!mu_table_walk(&t, ctx, i, &w, &info) && !keys.failed) {
            u = mu_unpack_of(keys.bytes, keys.len);
            while (u.left && !u.failed) {
                size_t len;
                const void *key = mu_unpack_blob(&u, MU_KEY_MAX, &len);
                struct mu_edit e = {0};
                struct mu_key k;

                if (!key)
                    break;
                mu_key_make(&k, coord->seg, key, len);
                mu_table_edit(&t, ctx, &k, 0, delete_it, &e, NULL);
            }
        }
        mu_pack_done(&keys);
    }
}

/* ---- the end ---- */

static void delete_keys(struct mu_coord *coord, struct mu_ctx *ctx)
{
    struct mu_kv_change c = {.op = MU_OP_KV_DELETE};
    struct mu_kv_tree tree = {.change = &c, .clients = true, .keep = KEPT};
    enum muster_status status;

    mu_kv_delete_piece(coord->seg, ctx, &tree, UINT64_MAX, &status);
    mu_kv_tree_done(&tree);
    if (c.result)
        mu_count(&ctx->own->kv_writes, 1);
}

uint64_t mu_coord_generation(const struct mu_coord *coord)
{
    return coord->generation;
}

void mu_coord_clients_gone(struct mu_coord *coord)
{
    struct mu_ctx *ctx;

    if (!mu_coord_follows(coord) && a_wire_client_stays(coord))
        return; /* it is recoverable, and the barrier passes without it */
    coord->generation++;
    coord->lived = false;
    if (mu_coord_follows(coord) || mu_enter(coord->m, &ctx))
        return; /* where the keys are, host 0's engine has deleted them */
    delete_keys(coord, ctx);
    if (!anybody_stays(coord))
        delete_barriers(coord, ctx);
    if (mu_is_leader(coord->seg))
        mu_bell_ring_always(coord->seg); /* other hosts are told */
    mu_exit(ctx);
}

static void generation_look(struct mu_coord *coord, const struct mu_cluster_root *root)
{
    if (a_wire_client_stays(coord))
        coord->lived = true;
    else if (coord->lived && !root->errors && !coord->registering.count && !coord->coming && !coord->leaving.count)
        mu_coord_clients_gone(coord);
}

const struct mu_coord_feature mu_generation_feature = {.look_tasks = generation_look};
