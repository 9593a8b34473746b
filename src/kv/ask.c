/*
 * kv/ask.c: asking the leader for a key.
 */
#include "kv/ask.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/remote.h"

#define GRACE_NS 1000000000u /* a look that is not to wait takes a round trip all the same */

/* One question. The answer's bytes behind its head are in *ret_piece. */
static enum muster_status ask_once(struct muster *m, struct mu_ctx *ctx, const struct mu_key *k, uint8_t flags,
                                   uint64_t from, muster_deadline deadline, struct mu_kv_answer *a,
                                   struct mu_answer *ret_piece)
{
    struct mu_pack p = {0};
    char what[160];
    struct mu_remote_call call = {
        .op = MU_OP_KV_GET, .request = &p, .deadline = deadline, .what = what, .kind = MU_WAIT_KEY};
    enum muster_status status;

    snprintf(what, sizeof what, "key %.*s", MU_KEY_SHOWN(k));
    mu_pack_u8(&p, flags);
    mu_pack_u64(&p, from);
    mu_pack_blob(&p, k->words, k->len);
    status = mu_remote_call(m, ctx, &call, ret_piece);
    mu_pack_done(&p);
    if (status)
        return status;
    a->what = mu_unpack_u8(&ret_piece->body);
    a->version = mu_unpack_u64(&ret_piece->body);
    a->len = mu_unpack_u64(&ret_piece->body);
    if (ret_piece->body.failed || a->what > MU_READ_VALUE || a->len > MUSTER_VALUE_MAX)
        return mu_fail(MUSTER_DATA_LOSS, "the leader's answer about %s is not well formed", what);
    return MUSTER_OK;
}

static void forget_value(struct mu_kv_answer *a)
{
    free(a->memory);
    a->memory = NULL;
    a->value = NULL;
}

/* The answer holds a piece of the value from `from` on: where that is all of it, it stays where it lies. */
static enum muster_status keep_piece(struct mu_kv_answer *a, struct mu_answer *piece, uint64_t from)
{
    size_t n = piece->body.left;

    if (n > a->len - from || (!n && from < a->len))
        return mu_fail(MUSTER_DATA_LOSS, "a piece of a value has %zu bytes, which cannot be", n);
    if (!a->value && n == a->len) {
        a->value = piece->body.at;
        a->memory = piece->memory;
        piece->memory = NULL;
        return MUSTER_OK;
    }
    if (!a->value)
        a->value = a->memory = malloc(a->len + 1);
    if (!a->value)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value of %zu bytes", a->len);
    memcpy((uint8_t *)a->memory + from, piece->body.at, n);
    return MUSTER_OK;
}

enum muster_status mu_kv_ask(struct muster *m, struct mu_ctx *ctx, const struct mu_key *k, uint8_t flags,
                             muster_deadline deadline, struct mu_kv_answer *ret_answer)
{
    struct mu_kv_answer *a = ret_answer;
    uint64_t from = 0, version = 0, len = 0, now = mu_now();
    enum muster_status status;

    *a = (struct mu_kv_answer){0};
    if (deadline <= now)
        deadline = now + GRACE_NS;
    do {
        struct mu_answer piece;

        status = ask_once(m, ctx, k, flags, from, deadline, a, &piece);
        if (!status && a->what == MU_READ_VALUE && from && a->version != version) {
            forget_value(a); /* it changed between two pieces: from the beginning */
            from = 0;
        } else if (!status && a->what == MU_READ_VALUE && from && a->len != len) {
            status = mu_fail(MUSTER_DATA_LOSS, "a value cannot be %" PRIu64 " bytes long and %zu", len, a->len);
        } else if (!status && a->what == MU_READ_VALUE) {
            status = keep_piece(a, &piece, from);
            from += piece.body.left;
            version = a->version;
            len = a->len;
        }
        mu_answer_done(&piece);
        flags |= MU_READ_WHOLE;
    } while (!status && a->what == MU_READ_VALUE && (!a->value || from < a->len));
    if (status || a->what != MU_READ_VALUE)
        forget_value(a);
    return status;
}
