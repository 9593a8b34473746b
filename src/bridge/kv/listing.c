/*
 * bridge/kv/listing.c: listing and counting the leader's keys for other hosts.
 *
 * A page is cut from a snapshot of its own, of the keys alone; its values are read behind it, at the versions that the
 * snapshot says, or the page is made anew. So nothing of a listing is kept here between two pages: that they belong
 * together is seen by the fingerprint of all keys and versions, which is the same in all of them.
 */
#include <string.h>

#include "bridge/core/modules.h"
#include "kv/remote.h"
#include "kv/snapshot.h"

enum { PASSES = 20, TRIES = 5 }; /* the caller asks again; meanwhile others have their turn */

static int entry_compare(const struct muster_kv_entry *e, const void *key, size_t len)
{
    size_t n = e->key_len < len ? e->key_len : len;
    int d = memcmp(e->key, key, n);

    return d ? d : (e->key_len > len) - (e->key_len < len);
}

/* The entry at its version. ABORTED: it has gone, or changed. */
static enum muster_status add_entry(struct mu_core *core, struct mu_ctx *ctx, const struct muster_kv_entry *e,
                                    uint32_t room, struct mu_pack *p)
{
    struct mu_table t = mu_table_kv(core->seg);
    size_t len = e->value_len <= MU_LISTED_WITH(room) ? e->value_len : 0;
    struct mu_found f;
    struct mu_key k;
    size_t at;
    enum muster_status status;

    mu_pack_u64(p, e->version);
    mu_pack_u64(p, e->value_len);
    mu_pack_blob(p, e->key, e->key_len);
    at = p->len;
    for (size_t n = 0; n < len; n += 4096) {
        static const uint8_t zeros[4096];

        mu_pack_raw(p, zeros, len - n < sizeof zeros ? len - n : sizeof zeros);
    }
    if (p->failed)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the listing");
    if (!len)
        return MUSTER_OK;
    mu_key_make(&k, core->seg, e->key, e->key_len);
    status = mu_table_get(&t, ctx, &k, p->bytes + at, len, &f);
    if (!status && f.version != e->version)
        status = mu_fail(MUSTER_ABORTED, "key %.*s changed", MU_KEY_SHOWN(&k));
    return status;
}

static enum muster_status make_page(struct mu_core *core, struct mu_ctx *ctx, struct mu_snapshot *s, const void *after,
                                    size_t after_len, struct mu_pack *p)
{
    enum muster_status status = mu_snapshot_take(core->seg, ctx, s, PASSES);
    uint32_t n = 0;
    size_t i = 0;

    if (status)
        return status;
    mu_snapshot_sort(s);
    while (after_len && i < s->count && entry_compare(&s->entries[i], after, after_len) <= 0)
        i++;
    mu_pack_reset(p);
    mu_pack_u64(p, s->fingerprint);
    mu_pack_u64(p, s->count);
    mu_pack_u32(p, 0);
    for (; !status && i < s->count && p->len < s->room; i++, n++)
        status = add_entry(core, ctx, &s->entries[i], s->room, p);
    if (!status)
        mu_pack_put_u32(p, 16, n);
    return status;
}

static void listing_answer(struct mu_core *core, const struct mu_request *r, enum muster_status status,
                           struct mu_pack *p)
{
    if (!status && p->failed)
        status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for the listing");
    mu_call_answer(core, r->host, r->slot, r->number, status, NULL, p->bytes, status ? 0 : p->len);
    mu_pack_done(p);
}

static bool listing_refuse(struct mu_core *core, const struct mu_request *r)
{
    mu_call_answer(core, r->host, r->slot, r->number, MUSTER_INVALID_ARGUMENT, "the prefix is not well formed", NULL,
                   0);
    return true;
}

bool mu_op_kv_dir(struct mu_core *core, const struct mu_request *r)
{
    struct mu_unpack u = r->body;
    size_t prefix_len, after_len;
    const char *prefix = mu_unpack_blob(&u, MU_KEY_MAX + 1, &prefix_len);
    const void *after = mu_unpack_blob(&u, MU_KEY_MAX, &after_len);
    uint32_t room = mu_unpack_u32(&u);
    struct mu_pack p = {0};
    struct mu_ctx *ctx;
    enum muster_status status;

    if (!mu_unpack_end(&u))
        return listing_refuse(core, r);
    room = room < MU_LISTED_LEAST ? MU_LISTED_LEAST : room > MU_LISTED_CUT ? MU_LISTED_CUT : room;
    status = mu_enter(core->m, &ctx);
    if (!status) {
        status = MUSTER_ABORTED;
        for (int n = 0; n < TRIES && status == MUSTER_ABORTED; n++) {
            struct mu_snapshot s = {.prefix = prefix, .prefix_len = prefix_len, .of = MU_SNAPSHOT_KEYS, .room = room};

            status = make_page(core, ctx, &s, after, after_len, &p);
            mu_snapshot_done(&s);
        }
        mu_exit(ctx);
    }
    listing_answer(core, r, status, &p);
    return true;
}

bool mu_op_kv_count(struct mu_core *core, const struct mu_request *r)
{
    struct mu_unpack u = r->body;
    struct mu_snapshot s = {.of = MU_SNAPSHOT_COUNT};
    struct mu_pack p = {0};
    struct mu_ctx *ctx;
    enum muster_status status;

    s.prefix = mu_unpack_blob(&u, MU_KEY_MAX + 1, &s.prefix_len);
    if (!mu_unpack_end(&u))
        return listing_refuse(core, r);
    status = mu_enter(core->m, &ctx);
    if (!status) {
        status = mu_snapshot_take(core->seg, ctx, &s, PASSES);
        mu_exit(ctx);
    }
    mu_pack_u64(&p, s.count);
    listing_answer(core, r, status, &p);
    return true;
}
