/*
 * rpc/desk_work.c: what may take longer than one turn of the loop: deleting a directory, listing one while others
 * write.
 *
 * The first piece is done at once, and most ask no more. What is left goes on piece by piece when the loop has nothing
 * else to do, the oldest first.
 */
#include <stdlib.h>
#include <string.h>

#include "kv/change.h"
#include "kv/snapshot.h"
#include "rpc/desk_far.h"
#include "segment/hosts.h"
#include "segment/stats.h"

#define LOOKS  8192u /* at buckets, of a piece of a delete */
#define PASSES 8     /* of a piece of a listing */
#define PIECES 2000u /* of a listing, until it is given up */

struct work {
    bool lists;
    uint32_t pieces;
    /* a delete */
    struct mu_kv_change change;
    struct mu_kv_tree tree;
    struct mu_key key;
    /* a listing */
    struct mu_snapshot snapshot;
    char prefix[MUSTER_KEY_MAX + 2];
};

static void free_work(struct work *w)
{
    mu_kv_tree_done(&w->tree);
    if (w->lists)
        mu_snapshot_done(&w->snapshot);
    free(w);
}

static bool list_piece(struct mu_desk *desk, struct mu_ctx *ctx, struct work *w, enum muster_status *ret_status)
{
    memset(&w->snapshot, 0, sizeof w->snapshot);
    w->snapshot.prefix = w->prefix;
    w->snapshot.prefix_len = strlen(w->prefix);
    w->snapshot.of = MU_SNAPSHOT_VALUES;
    *ret_status = mu_snapshot_take(desk->seg, ctx, &w->snapshot, PASSES);
    if (!*ret_status) {
        mu_snapshot_sort(&w->snapshot);
        return true;
    }
    mu_snapshot_done(&w->snapshot);
    memset(&w->snapshot, 0, sizeof w->snapshot);
    return *ret_status != MUSTER_ABORTED || ++w->pieces == PIECES;
}

/* True: it has ended, with *ret_status. */
static bool piece(struct mu_desk *desk, struct work *w, enum muster_status *ret_status)
{
    struct mu_ctx *ctx;
    bool ended;

    *ret_status = mu_enter(desk->m, &ctx);
    if (*ret_status)
        return true;
    if (w->lists)
        ended = list_piece(desk, ctx, w, ret_status);
    else
        ended = mu_kv_delete_piece(desk->seg, ctx, &w->tree, LOOKS, ret_status);
    if (ended && w->change.result)
        mu_count(&ctx->own->kv_writes, 1);
    if (!w->lists && mu_is_leader(desk->seg))
        mu_bell_ring_always(desk->seg); /* other hosts are told */
    mu_exit(ctx);
    return ended;
}

static void point(struct mu_ask *ask, const struct work *w)
{
    ask->entries = w->snapshot.entries;
    ask->num_entries = w->snapshot.count;
}

static void work_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    free_work(p->at);
    if (!desk->work.count)
        uv_idle_stop(&desk->idle);
}

/* What is left of it waits for its turn; it was begun. */
static void put_off(struct mu_desk *desk, struct mu_ask *ask, struct work *w)
{
    struct mu_parked *p = mu_desk_park(desk, ask, &desk->work, sizeof *w);

    if (!p) {
        free_work(w);
        mu_desk_fail(ask, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE);
        return;
    }
    p->at = w;
    p->dropped = work_dropped;
    uv_idle_start(&desk->idle, mu_work_go);
}

static void begin(struct mu_desk *desk, struct mu_ask *ask, struct work *w)
{
    enum muster_status status;

    if (!piece(desk, w, &status)) {
        put_off(desk, ask, w);
        return;
    }
    if (status) {
        mu_desk_fail(ask, status, MU_PAYLOAD_NONE);
    } else {
        point(ask, w);
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    }
    free_work(w);
}

void mu_work_go(uv_idle_t *idle)
{
    struct mu_desk *desk = idle->data;
    struct mu_parked *p = desk->work.first;
    struct work *w = p ? p->at : NULL;
    enum muster_status status;

    if (w && piece(desk, w, &status)) {
        mu_parked_answer(desk, p, status, MU_PAYLOAD_NONE, status ? muster_last_error() : NULL);
        if (!status && w->lists) {
            point(p->ask, w);
            p->owned[0] = w->snapshot.entries;
            p->owned[1] = w->snapshot.bytes;
            w->lists = false;
        }
        free_work(w);
    }
    if (!desk->work.count)
        uv_idle_stop(idle);
    mu_desk_deliver(desk);
}

void mu_work_stop(struct mu_desk *desk)
{
    while (desk->work.first) {
        struct work *w = desk->work.first->at;

        mu_parked_answer(desk, desk->work.first, MUSTER_CANCELLED, MU_PAYLOAD_NONE, "KeyValueStore destructed");
        free_work(w);
    }
    uv_idle_stop(&desk->idle);
}

/* NULL: it was answered. *ret_len: of the path that the key stands for, with a '/' behind it; 0: the root. */
static struct work *work_of(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len, size_t *ret_len)
{
    struct work *w;
    enum muster_status status;

    if (mu_desk_refuses(desk, ask))
        return NULL;
    w = malloc(sizeof *w);
    if (w) {
        memset(w, 0, offsetof(struct work, key));
        memset(&w->snapshot, 0, sizeof w->snapshot);
        status = mu_kv_directory(key, key_len, w->prefix, ret_len);
    } else {
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a directory");
    }
    if (!status && *ret_len) {
        w->prefix[*ret_len] = 0;
        return w;
    }
    free(w);
    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_NONE);
    else /* nothing is under the root: no key begins with a '/' */
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    return NULL;
}

void mu_desk_get_dir(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len)
{
    size_t len;
    struct work *w;

    ask->entries = NULL;
    ask->num_entries = 0;
    w = work_of(desk, ask, key, key_len, &len);
    if (!w)
        return;
    if (desk->far) {
        mu_far_list(desk, ask, w->prefix, len);
        free_work(w);
        mu_desk_deliver(desk);
        return;
    }
    w->lists = true;
    begin(desk, ask, w);
}

void mu_desk_delete(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len)
{
    size_t len;
    struct work *w = work_of(desk, ask, key, key_len, &len);

    if (!w)
        return;
    mu_key_make(&w->key, desk->seg, w->prefix, len - 1);
    if (desk->far) {
        mu_far_change(desk, ask, MU_OP_KV_DELETE, &w->key, 0, NULL, 0);
        free_work(w);
        mu_desk_deliver(desk);
        return;
    }
    w->change.op = MU_OP_KV_DELETE;
    w->change.key = &w->key;
    w->tree.change = &w->change;
    begin(desk, ask, w);
}
