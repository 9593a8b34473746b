/*
 * kv/remote.c: changes and reads of single keys by the leader.
 *
 * A large value comes in pieces, each the answer to a request of its own. Where its version changes between two pieces
 * the read begins anew.
 */
#include "kv/remote.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define GRACE_NS 1000000000u /* a look that is not to wait takes a round trip all the same */

/* ---- changes ---- */

static enum muster_status change_answer(struct mu_steps *steps, enum muster_status status, struct mu_unpack *body)
{
    struct mu_kv_remote_change *c = (struct mu_kv_remote_change *)steps;

    c->result = mu_unpack_u64(body);
    return !status && !mu_unpack_end(body) ? mu_steps_malformed(steps) : status;
}

void mu_kv_change_begin(struct mu_kv_remote_change *c, enum mu_op op, const struct mu_key *k, uint64_t number,
                        const void *value, size_t len)
{
    struct mu_pack *request = mu_steps_ask(&c->steps, op);

    mu_pack_blob(request, k ? (const void *)k->words : "", k ? k->len : 0);
    mu_pack_u64(request, number);
    c->steps.value = value;
    c->steps.value_len = len;
    c->steps.answer = change_answer;
    if (k)
        snprintf(c->steps.about, sizeof c->steps.about, "key %.*s", MU_KEY_SHOWN(k));
    else
        snprintf(c->steps.about, sizeof c->steps.about, "all keys");
}

/* ---- reads ---- */

static void read_ask(struct mu_kv_read *r)
{
    struct mu_pack *request = mu_steps_ask(&r->steps, MU_OP_KV_GET);

    mu_pack_u8(request, r->flags);
    mu_pack_u64(request, r->from);
    mu_pack_blob(request, r->key, r->key_len);
}

/* The answer holds a piece of the value, from r->from on. */
static enum muster_status read_piece(struct mu_kv_read *r, const struct mu_unpack *body)
{
    enum muster_status status = MUSTER_OK;

    if (!r->from) {
        r->to = NULL;
        status = r->room(r);
    }
    if (status || !r->to)
        return status;
    if (body->left > r->len - r->from || (!body->left && r->from < r->len))
        return mu_steps_malformed(&r->steps);
    if (body->left)
        memcpy(r->to + r->from, body->at, body->left);
    r->from += body->left;
    if (r->from < r->len) {
        r->flags |= MU_READ_WHOLE;
        read_ask(r);
    }
    return MUSTER_OK;
}

static enum muster_status read_answer(struct mu_steps *steps, enum muster_status status, struct mu_unpack *body)
{
    struct mu_kv_read *r = (struct mu_kv_read *)steps;
    uint64_t version, len;

    if (status)
        return status;
    r->what = mu_unpack_u8(body);
    version = mu_unpack_u64(body);
    len = mu_unpack_u64(body);
    if (body->failed || r->what > MU_READ_VALUE || len > MUSTER_VALUE_MAX)
        return mu_steps_malformed(steps);
    if (r->what == MU_READ_VALUE && r->from && version != r->version) {
        mu_kv_read_begin(r, r->flags | MU_READ_WHOLE); /* it changed between two pieces */
        return MUSTER_OK;
    }
    if (r->what == MU_READ_VALUE && r->from && len != r->len)
        return mu_steps_malformed(steps);
    r->version = version;
    r->len = len;
    return r->what == MU_READ_VALUE ? read_piece(r, body) : MUSTER_OK;
}

void mu_kv_read_begin(struct mu_kv_read *r, uint8_t flags)
{
    r->flags = flags;
    r->from = 0;
    r->steps.answer = read_answer;
    r->steps.kind = MU_WAIT_KEY;
    if (!r->steps.about[0])
        snprintf(r->steps.about, sizeof r->steps.about, "key %.*s", (int)(r->key_len < 120 ? r->key_len : 120),
                 (const char *)r->key);
    read_ask(r);
}

enum muster_status mu_kv_read_run(struct muster *m, struct mu_ctx *ctx, struct mu_kv_read *r, muster_deadline deadline)
{
    uint64_t now = mu_now();

    return mu_steps_run(m, ctx, &r->steps, deadline <= now ? now + GRACE_NS : deadline);
}
