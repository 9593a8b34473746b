/*
 * kv/directory.c: many keys: listing, counting.
 *
 * The keys as they were at one moment (kv/snapshot.h); on a follower the leader's, never the copies. A long listing
 * comes in pages, each cut from a snapshot of its own: they belong together when all those were alike.
 */
#include <stdlib.h>
#include <string.h>

#include "kv/remote.h"
#include "kv/snapshot.h"
#include "segment/hosts.h"

enum { PASSES_MAX = 1000 };

/* The same by the leader. */
static enum muster_status take_remote(struct muster *m, struct mu_ctx *ctx, struct mu_snapshot *s)
{
    struct mu_kv_remote_list list = {.s = *s};
    struct mu_kv_remote_count count = {0};
    enum muster_status status;

    if (s->of == MU_SNAPSHOT_COUNT) {
        mu_kv_count_begin(&count, s->prefix, s->prefix_len);
        status = mu_steps_run(m, ctx, &count.steps, MUSTER_FOREVER);
        s->count = count.count;
        return status;
    }
    mu_kv_list_begin(&list);
    status = mu_steps_run(m, ctx, &list.steps, MUSTER_FOREVER);
    *s = list.s;
    list.s = (struct mu_snapshot){0};
    mu_kv_list_done(&list);
    return status;
}

static enum muster_status directory_gather(struct muster *m, const char *directory, size_t len, enum mu_snapshot_of of,
                                           struct mu_snapshot *s, char *prefix)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter_wait(m, &ctx);

    if (status)
        return status;
    memset(s, 0, sizeof *s);
    s->prefix = prefix;
    s->of = of;
    status = mu_kv_directory(directory, len, prefix, &s->prefix_len);
    if (!status)
        status = mu_is_follower(m->seg) ? take_remote(m, ctx, s) : mu_snapshot_take(m->seg, ctx, s, PASSES_MAX);
    mu_exit(ctx);
    if (status)
        mu_snapshot_done(s);
    return status;
}

/* A listing owns its bytes through this; what the caller sees is the first member. */
struct directory_listing {
    struct muster_kv_list list;
    char *bytes;
};

enum muster_status muster_kv_get_dir(struct muster *muster, const char *directory, size_t directory_len,
                                     struct muster_kv_list **ret_list)
{
    char prefix[MUSTER_KEY_MAX + 2];
    struct mu_snapshot p;
    struct directory_listing *l;
    enum muster_status status = directory_gather(muster, directory, directory_len, MU_SNAPSHOT_VALUES, &p, prefix);

    if (status)
        return status;
    l = malloc(sizeof *l);
    if (!l) {
        mu_snapshot_done(&p);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the listing");
    }
    mu_snapshot_sort(&p);
    l->list.entries = p.entries;
    l->list.count = p.count;
    l->bytes = p.bytes;
    *ret_list = &l->list;
    return MUSTER_OK;
}

void muster_kv_list_free(struct muster_kv_list *list)
{
    struct directory_listing *l = (struct directory_listing *)list;

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
    struct mu_snapshot p;
    enum muster_status status = directory_gather(muster, directory, directory_len, MU_SNAPSHOT_COUNT, &p, prefix);

    if (!status)
        *ret_count = p.count;
    return status;
}
