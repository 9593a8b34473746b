/*
 * bridge/kv/reads.c: a host reads a key of the leader's, and wants to know from then on when it changes.
 *
 * A short value goes with the next batch of copies, as does that a key is absent; a long one goes in pieces as answers.
 */
#include <string.h>

#include "bridge/kv/copies.h"
#include "kv/remote.h"

static bool sleeps_in_vain(void *arg, const struct mu_wanted *k, const struct mu_want *want)
{
    (void)arg;
    (void)k;
    return !want->sent;
}

/* The host wants to know of the key from now on. NULL: there is no more room for it. */
static struct mu_want *want_key(struct mu_core *core, const struct mu_request *r, const struct mu_key *k, bool waits)
{
    struct mu_copies *c = mu_copies_of(core);
    struct mu_table t = mu_table_kv(core->seg);
    uint32_t bucket = (uint32_t)(mu_table_bucket(&t, k) - t.buckets);
    struct mu_want *want;

    if (r->host == core->host || core->peers[r->host].state != MU_PEER_UP)
        return NULL;
    want = mu_subscription_add(&c->in, r->host, bucket, k->words, k->len);
    if (!want && waits) { /* keys that never came: the waiters for one ask again */
        c->collections++;
        mu_subscription_drop(&c->in, r->host, sleeps_in_vain, NULL);
        c->out[r->host].anew = true;
        want = mu_subscription_add(&c->in, r->host, bucket, k->words, k->len);
    }
    if (want)
        want->waits |= waits;
    mu_subscription_look_again(&c->in, bucket);
    return want;
}

/* The value as it is now; NULL: it is not there, or the status says why. */
static struct mu_blob *read_value(struct mu_core *core, const struct mu_key *k, struct mu_found *f,
                                  enum muster_status *ret_status)
{
    struct mu_table t = mu_table_kv(core->seg);
    struct mu_blob *value = NULL;
    struct mu_ctx *ctx = NULL;
    enum muster_status status = mu_enter(core->m, &ctx);

    while (!status && f->version && (!value || f->len > value->len)) {
        mu_blob_drop(value);
        value = mu_blob_new(f->len);
        status = value ? mu_table_get(&t, ctx, k, value->bytes, value->len, f)
                       : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value of %zu bytes", f->len);
    }
    if (ctx)
        mu_exit(ctx);
    *ret_status = status;
    if (!status && f->version)
        return value;
    mu_blob_drop(value);
    return NULL;
}

/* A piece in memory of its own: what waits to be sent is not to hold the whole value. NULL: no memory. */
static struct mu_blob *cut_piece(struct mu_blob *value, size_t from, size_t len)
{
    struct mu_blob *piece = mu_blob_new(len);

    if (piece)
        memcpy(piece->bytes, value->bytes + from, len);
    mu_blob_drop(value);
    return piece;
}

/* A piece of the value, from `from` on, into the answer. */
static void answer_value(struct mu_core *core, const struct mu_request *r, const struct mu_key *k, uint64_t from,
                         struct mu_found *f)
{
    enum muster_status status;
    struct mu_slice body = {.blob = read_value(core, k, f, &status)};
    struct mu_pack p = {0};

    if (!status && body.blob && from < f->len)
        body.len = f->len - from < MU_READ_PIECE ? f->len - from : MU_READ_PIECE;
    if (body.len && body.len < f->len) { /* from anywhere, as a task may ask */
        body.blob = cut_piece(body.blob, from, body.len);
        if (!body.blob)
            status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value of %zu bytes", f->len);
    }
    mu_pack_u8(&p, f->version ? MU_READ_VALUE : MU_READ_ABSENT);
    mu_pack_u64(&p, f->version);
    mu_pack_u64(&p, f->len);
    if (status)
        mu_call_answer(core, r->host, r->slot, r->number, status, NULL, NULL, 0);
    else
        mu_call_answer_slice(core, r->host, r->slot, r->number, &p, &body);
    mu_pack_done(&p);
    mu_blob_drop(body.blob);
}

static void answer_found(struct mu_core *core, const struct mu_request *r, const struct mu_found *f)
{
    struct mu_pack p = {0};

    mu_pack_u8(&p, f->version ? MU_READ_COPIED : MU_READ_ABSENT);
    mu_pack_u64(&p, f->version);
    mu_pack_u64(&p, f->len);
    mu_call_answer(core, r->host, r->slot, r->number, MUSTER_OK, NULL, p.bytes, p.len);
    mu_pack_done(&p);
}

bool mu_op_kv_get(struct mu_core *core, const struct mu_request *r)
{
    struct mu_unpack u = r->body;
    uint8_t flags = mu_unpack_u8(&u);
    uint64_t from = mu_unpack_u64(&u);
    struct mu_table t = mu_table_kv(core->seg);
    struct mu_want *want = NULL;
    struct mu_found f = {0};
    size_t len;
    const void *key = mu_unpack_blob(&u, MU_KEY_MAX, &len);
    struct mu_ctx *ctx;
    struct mu_key k;
    enum muster_status status;

    if (!mu_unpack_end(&u) || !len) {
        mu_call_answer(core, r->host, r->slot, r->number, MUSTER_INVALID_ARGUMENT, "the read is not well formed", NULL,
                       0);
        return true;
    }
    mu_key_make(&k, core->seg, key, len);
    status = mu_enter(core->m, &ctx);
    if (!status) {
        status = mu_table_get(&t, ctx, &k, NULL, 0, &f);
        mu_exit(ctx);
    }
    if (status) {
        mu_call_answer(core, r->host, r->slot, r->number, status, NULL, NULL, 0);
        return true;
    }
    if ((flags & MU_READ_WAITS) || (f.version && f.len <= MU_COPY_MAX && !(flags & MU_READ_WHOLE)))
        want = want_key(core, r, &k, flags & MU_READ_WAITS);
    if ((flags & MU_READ_WAITS) && !want && r->host != core->host) {
        mu_call_answer(core, r->host, r->slot, r->number, MUSTER_RESOURCE_EXHAUSTED,
                       "this host waits for too many keys of the leader's", NULL, 0);
    } else if (!f.version || (want && f.len <= MU_COPY_MAX && !(flags & MU_READ_WHOLE))) {
        if (want && want->bare) /* it may have one now */
            *want = (struct mu_want){.host = want->host, .waits = want->waits};
        answer_found(core, r, &f);
    } else {
        answer_value(core, r, &k, from, &f);
        if (want && (!want->sent || want->bare)) {
            want->sent = f.version;
            want->bare = f.version != 0;
        }
    }
    return true;
}
