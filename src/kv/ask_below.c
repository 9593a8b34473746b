/*
 * kv/ask_below.c: asking the leader for all keys below a prefix.
 *
 * A page comes through this host's heap. Where it finds no room there, a smaller one is asked for, and all after it are
 * as small; below MU_LISTED_LEAST it is the heap that lacks room for anything.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/ask.h"
#include "kv/snapshot.h"
#include "segment/remote.h"

static enum muster_status call(struct muster *m, struct mu_ctx *ctx, enum mu_op op, const struct mu_snapshot *s,
                               const void *after, size_t after_len, struct mu_answer *ret_answer)
{
    struct mu_pack p = {0};
    char what[160];
    struct mu_remote_call c = {
        .op = op, .request = &p, .deadline = MUSTER_FOREVER, .what = what, .kind = MU_WAIT_OTHER};
    enum muster_status status;

    snprintf(what, sizeof what, "the keys below \"%.*s\"", (int)(s->prefix_len < 120 ? s->prefix_len : 120), s->prefix);
    mu_pack_blob(&p, s->prefix, s->prefix_len);
    if (op == MU_OP_KV_DIR) {
        mu_pack_blob(&p, after, after_len);
        mu_pack_u32(&p, s->room);
    }
    status = mu_remote_call(m, ctx, &c, ret_answer);
    mu_pack_done(&p);
    return status;
}

static enum muster_status damaged(void)
{
    return mu_fail(MUSTER_DATA_LOSS, "the leader's listing is not well formed");
}

static enum muster_status changed(void)
{
    return mu_fail(MUSTER_ABORTED, "the keys change too fast for a snapshot of the leader's");
}

/* A value that is too long for a page, at the version that the page says. */
static enum muster_status fetch_value(struct muster *m, struct mu_ctx *ctx, const char *key, size_t key_len,
                                      uint64_t version, struct mu_snapshot *s)
{
    struct mu_kv_answer a;
    struct mu_key k;
    enum muster_status status;

    mu_key_make(&k, m->seg, key, key_len);
    status = mu_kv_ask(m, ctx, &k, MU_READ_WHOLE, MUSTER_FOREVER, &a);
    if (!status && (a.what != MU_READ_VALUE || a.version != version))
        status = changed();
    if (!status)
        status = mu_snapshot_add(s, key, key_len, a.value, a.len, version);
    free(a.memory);
    return status;
}

/* The entries of a page. *ret_last: where the last one's key lies among s->bytes. */
static enum muster_status take_entries(struct muster *m, struct mu_ctx *ctx, struct mu_unpack *u, uint32_t n,
                                       struct mu_snapshot *s)
{
    enum muster_status status = MUSTER_OK;

    while (n-- && !status) {
        uint64_t version = mu_unpack_u64(u), len = mu_unpack_u64(u);
        size_t key_len;
        const char *key = mu_unpack_blob(u, MUSTER_KEY_MAX, &key_len);
        const void *value = len <= MU_LISTED_WITH(s->room) ? mu_unpack_raw(u, len) : NULL;

        if (u->failed || !key_len || len > MUSTER_VALUE_MAX)
            return damaged();
        if (len <= MU_LISTED_WITH(s->room))
            status = mu_snapshot_add(s, key, key_len, value, len, version);
        else
            status = fetch_value(m, ctx, key, key_len, version, s);
    }
    return status;
}

/* The next page, with as much room as this host has for it. */
static enum muster_status ask_page(struct muster *m, struct mu_ctx *ctx, struct mu_snapshot *s, const void *after,
                                   size_t after_len, struct mu_answer *ret_page)
{
    enum muster_status status;

    if (!s->room)
        s->room = MU_LISTED_CUT;
    while ((status = call(m, ctx, MU_OP_KV_DIR, s, after, after_len, ret_page)) == MUSTER_RESOURCE_EXHAUSTED &&
           s->room > MU_LISTED_LEAST) {
        mu_answer_done(ret_page);
        s->room /= 8;
    }
    return status;
}

static enum muster_status list(struct muster *m, struct mu_ctx *ctx, struct mu_snapshot *s)
{
    uint64_t fingerprint = 0, total = 0;
    char last[MUSTER_KEY_MAX];
    size_t last_len = 0;
    enum muster_status status;

    s->count = s->used = 0;
    do {
        struct mu_answer page;
        uint64_t f, t;
        uint32_t n = 0;

        status = ask_page(m, ctx, s, last, last_len, &page);
        f = mu_unpack_u64(&page.body);
        t = mu_unpack_u64(&page.body);
        if (!status) {
            n = mu_unpack_u32(&page.body);
            if (page.body.failed || n > t - s->count || (!n && s->count < t))
                status = s->count && f != fingerprint ? changed() : damaged();
            else if (s->count && (f != fingerprint || t != total))
                status = changed();
        }
        fingerprint = f;
        total = t;
        if (!status)
            status = take_entries(m, ctx, &page.body, n, s);
        if (!status && s->count) {
            const struct muster_kv_entry *e = &s->entries[s->count - 1];

            memcpy(last, s->bytes + (uintptr_t)e->key, e->key_len);
            last_len = e->key_len;
        }
        mu_answer_done(&page);
    } while (!status && s->count < total);
    return status;
}

enum muster_status mu_kv_ask_below(struct muster *m, struct mu_ctx *ctx, struct mu_snapshot *s)
{
    struct mu_answer a;
    enum muster_status status;

    if (s->of != MU_SNAPSHOT_COUNT)
        return list(m, ctx, s);
    status = call(m, ctx, MU_OP_KV_COUNT, s, NULL, 0, &a);
    if (!status) {
        s->count = mu_unpack_u64(&a.body);
        if (a.body.failed)
            status = damaged();
    }
    mu_answer_done(&a);
    return status;
}
