/*
 * rpc/desk_kv.c: keys: inserting, counting up, comparing, appending, reading. The store needs no registration and knows
 * no errors of tasks.
 *
 * A key is normalised as everywhere in muster (kv/key.h): what the reference stores under "" or cuts at a NUL is
 * refused in words. What a guest writes wakes the guests who wait for it in the same call; the commit itself wakes the
 * tasks of the C library.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/change.h"
#include "rpc/desk_remote.h"
#include "segment/hosts.h"
#include "segment/stats.h"

enum { SHOWN = 1000 /* bytes of a key, in a sentence */ };

/* One change, here and now. */
static enum muster_status change(struct mu_desk *desk, const char *key, size_t key_len, struct mu_kv_change *c)
{
    struct mu_ctx *ctx;
    struct mu_key k;
    enum muster_status status = mu_enter(desk->m, &ctx);

    if (status)
        return status;
    status = mu_kv_key(desk->seg, key, key_len, &k);
    c->key = &k;
    c->guest = true;
    if (!status)
        status = mu_kv_change(desk->seg, ctx, c);
    if (mu_is_leader(desk->seg))
        mu_bell_ring_always(desk->seg); /* other hosts are told */
    if (status == MUSTER_ALREADY_EXISTS)
        mu_fail(status, "key %.*s already exists.", MU_KEY_SHOWN(&k)); /* with the period: clients match it */
    if (!status) {
        mu_count(&ctx->own->kv_writes, 1);
        mu_wishes_written(desk, ctx, &k);
    }
    mu_exit(ctx);
    return status;
}

/* By the leader. */
static void change_remote(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len,
                          const struct mu_kv_change *c)
{
    struct mu_key k;
    enum muster_status status = mu_kv_key(desk->seg, key, key_len, &k);

    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_NONE);
    else
        mu_desk_remote_change(desk, ask, c->op, &k, c->number, c->value, c->len);
    mu_desk_deliver(desk);
}

/* The ask's answer, then those of the others whom it has woken. */
static void answer_change(struct mu_desk *desk, struct mu_ask *ask, enum muster_status status)
{
    if (status)
        mu_desk_fail(ask, status, mu_key_payload(status));
    else
        mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_desk_deliver(desk);
}

void mu_desk_result(struct mu_ask *ask, enum mu_op op, uint64_t result)
{
    if (op == MU_OP_KV_COMPARE_AND_SET)
        ask->version = (int64_t)result;
    else if (op == MU_OP_KV_APPEND || op == MU_OP_KV_DELETE)
        ask->counter = (int64_t)result;
}

/* A change that brings a value. */
static void put(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len, struct mu_kv_change *c)
{
    enum muster_status status = MUSTER_OK;

    if (mu_desk_refuses(desk, ask))
        return;
    if (c->len > MUSTER_VALUE_MAX)
        status =
            mu_fail(MUSTER_INVALID_ARGUMENT, "the value is %zu bytes long; %u is the most", c->len, MUSTER_VALUE_MAX);
    if (!status && desk->remote) {
        change_remote(desk, ask, key, key_len, c);
        return;
    }
    if (!status)
        status = change(desk, key, key_len, c);
    mu_desk_result(ask, c->op, c->result);
    answer_change(desk, ask, status);
}

void mu_desk_insert(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len, const void *value,
                    size_t len, bool overwrite)
{
    put(desk, ask, key, key_len,
        &(struct mu_kv_change){.op = overwrite ? MU_OP_KV_SET : MU_OP_KV_INSERT, .value = value, .len = len});
}

void mu_desk_compare_and_set(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len,
                             uint64_t expected, const void *value, size_t len)
{
    put(desk, ask, key, key_len,
        &(struct mu_kv_change){.op = MU_OP_KV_COMPARE_AND_SET, .value = value, .len = len, .number = expected});
}

void mu_desk_append(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len, const void *value,
                    size_t len)
{
    put(desk, ask, key, key_len, &(struct mu_kv_change){.op = MU_OP_KV_APPEND, .value = value, .len = len});
}

void mu_desk_erase(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len)
{
    put(desk, ask, key, key_len, &(struct mu_kv_change){.op = MU_OP_KV_DELETE, .number = 1});
}

void mu_desk_increment(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len, int64_t by)
{
    struct mu_kv_change c = {.op = MU_OP_KV_INCREMENT, .number = (uint64_t)by};
    enum muster_status status;
    char sum[24];

    if (mu_desk_refuses(desk, ask))
        return;
    if (desk->remote) {
        change_remote(desk, ask, key, key_len, &c);
        return;
    }
    status = change(desk, key, key_len, &c);
    if (!status) {
        ask->len = (size_t)snprintf(sum, sizeof sum, "%" PRId64, (int64_t)c.result);
        ask->value = sum;
    }
    answer_change(desk, ask, status);
}

/* What lies in our table. The ask is parked when it is not there, and who asks waits for it, or the leader may have it.
 */
static enum muster_status look(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len, bool waits,
                               struct mu_blob **ret, uint64_t *ret_version)
{
    struct mu_found found = {0};
    struct mu_ctx *ctx;
    struct mu_key k;
    enum muster_status status = mu_enter(desk->m, &ctx);

    *ret = NULL;
    if (status)
        return status;
    status = mu_kv_key(desk->seg, key, key_len, &k);
    if (!status)
        status = mu_desk_fetch(desk, ctx, &k,
                               ask->is_bare       ? MU_FETCH_BARE
                               : ask->is_favoured ? MU_FETCH_FAVOURED
                                                  : MU_FETCH_VALUE,
                               &found, ret);
    ask->len = status == MUSTER_RESOURCE_EXHAUSTED ? found.len : 0;
    mu_exit(ctx);
    *ret_version = found.version;
    return !status && !*ret && (waits || desk->remote) ? mu_wish_park(desk, ask, &k, found.word, waits) : status;
}

/* It was not found here. */
static void ask_leader(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len)
{
    struct mu_parked *p = ask->parked;
    size_t shown = key_len < SHOWN ? key_len : SHOWN;
    char *copy = calloc(1, shown + 1);

    if (copy)
        memcpy(copy, key, shown);
    p->owned[0] = copy;
    mu_key_fetch_want(desk, p->at, p);
    mu_desk_deliver(desk);
}

static void answer_value(struct mu_ask *ask, struct mu_blob *value, uint64_t version)
{
    mu_desk_point(ask, value, version);
    mu_desk_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_blob_drop(value);
}

void mu_desk_get(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len)
{
    struct mu_blob *value;
    uint64_t version;
    enum muster_status status;

    if (mu_desk_refuses(desk, ask))
        return;
    status = look(desk, ask, key, key_len, true, &value, &version);
    if (status)
        mu_desk_fail(ask, status, MU_PAYLOAD_NONE);
    else if (value)
        answer_value(ask, value, version);
    else if (desk->remote)
        ask_leader(desk, ask, key, key_len);
}

void mu_desk_try_get(struct mu_desk *desk, struct mu_ask *ask, const char *key, size_t key_len)
{
    struct mu_blob *value;
    uint64_t version;
    enum muster_status status;

    if (mu_desk_refuses(desk, ask))
        return;
    status = look(desk, ask, key, key_len, false, &value, &version);
    if (!status && !value && desk->remote) {
        ask_leader(desk, ask, key, key_len);
        return;
    }
    if (!status && !value)
        status = mu_fail(MUSTER_NOT_FOUND, "Config key %.*s not found.", (int)(key_len < SHOWN ? key_len : SHOWN), key);
    if (status)
        mu_desk_fail(ask, status, mu_key_payload(status));
    else
        answer_value(ask, value, version);
}
