/*
 * ps/pull.c: reading dense tensors: views of the objects that a shard names, and copies. A shard may have other ones by
 * the time that they are looked at: then the old ones are gone, and the shard is read again.
 */
#include "ps/private.h"

#include <string.h>

#include "base/error.h"

enum muster_status mu_ps_shard_view(struct muster_ps *ps, uint32_t shard, uint32_t parts,
                                    struct muster_object_view *ret_views, uint64_t *ret_version, uint64_t *ret_steps)
{
    enum muster_status status;
    struct ps_shard s;

    do {
        struct mu_ctx *ctx;

        status = mu_enter(ps->m, &ctx);
        if (status)
            return status;
        status = mu_ps_shard_read(ps, ctx, shard, &s);
        mu_exit(ctx);
        if (status)
            return status;
        status = muster_object_get(ps->m, s.parts, parts, 0, ret_views, NULL);
        if (!status)
            break;
        if (status == MUSTER_NOT_FOUND) /* where a commit came between, the shard has other values */
            status = mu_ps_shard_moved(ps, &s);
    } while (!status);
    if (status)
        return status;
    if (ret_version)
        *ret_version = s.version;
    if (ret_steps)
        *ret_steps = s.steps;
    return status;
}

enum muster_status muster_ps_view(struct muster_ps *ps, uint32_t shard, struct muster_object_view *ret_view,
                                  uint64_t *ret_first, uint64_t *ret_version)
{
    enum muster_status status = mu_ps_refuse_kind(ps, false);

    if (status)
        return status;
    if (shard >= ps->config.shards)
        return mu_fail(MUSTER_OUT_OF_RANGE, "tensor %s has %u shards, and no shard %u", ps->name, ps->config.shards,
                       shard);
    if (ret_first)
        *ret_first = ps_first(ps, shard);
    return mu_ps_shard_view(ps, shard, 1, ret_view, ret_version, NULL);
}

/* The values of a shard that lie in a block, copied out without a hold. ABORTED: they do not, or have changed. */
static enum muster_status small_pull(struct muster_ps *ps, struct mu_ctx *ctx, uint32_t shard, uint8_t *to,
                                     uint64_t *ret_version)
{
    uint64_t bytes = ps_shard_bytes(ps, shard), words[PS_SMALL / 8];
    struct ps_shard s;
    enum muster_status status = bytes > PS_SMALL ? MUSTER_ABORTED : mu_ps_shard_read(ps, ctx, shard, &s);

    if (!status)
        status = mu_ps_part_copy(ps, ctx, s.parts[0], bytes, words);
    if (status) /* the other way says what it is */
        return status == MUSTER_NOT_FOUND ? MUSTER_ABORTED : status;
    memcpy(to, words, bytes);
    *ret_version = s.version;
    return MUSTER_OK;
}

static enum muster_status shard_pull(struct muster_ps *ps, uint32_t shard, uint8_t *to, uint64_t *ret_version)
{
    struct muster_object_view view;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(ps->m, &ctx);

    if (status)
        return status;
    status = small_pull(ps, ctx, shard, to, ret_version);
    mu_exit(ctx);
    if (status != MUSTER_ABORTED)
        return status;
    status = mu_ps_shard_view(ps, shard, 1, &view, ret_version, NULL);
    if (status)
        return status;
    memcpy(to, view.data, view.len);
    muster_object_unview(ps->m, &view, 1);
    return MUSTER_OK;
}

enum muster_status muster_ps_pull(struct muster_ps *ps, void *buffer, uint64_t *ret_version)
{
    enum muster_status status = mu_ps_refuse_kind(ps, false);
    uint64_t lowest = UINT64_MAX, version = 0;

    for (uint32_t i = 0; !status && i < ps->config.shards; i++) {
        status = shard_pull(ps, i, (uint8_t *)buffer + ps_first(ps, i) * ps->width, &version);
        lowest = version < lowest ? version : lowest;
    }
    if (!status && ret_version)
        *ret_version = lowest;
    return status;
}
