/*
 * coord/kv.c: keys: inserting, counting up, comparing, appending, reading. The store needs no registration and knows
 * no errors of tasks.
 *
 * What clients call a key and what the store does is told by coord/key.c. What a guest writes wakes the guests who wait
 * for it in the same call; the commit itself wakes the tasks of the C library.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/change.h"
#include "coord/remote.h"
#include "segment/hosts.h"
#include "segment/stats.h"

enum { SHOWN = 1000 /* bytes of a key, in a sentence */ };

/* One change, here and now. */
static enum muster_status change(struct mu_coord *coord, struct mu_kv_change *c)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(coord->m, &ctx);

    if (status)
        return status;
    c->guest = true;
    status = mu_kv_change(coord->seg, ctx, c);
    if (mu_is_leader(coord->seg))
        mu_bell_ring_always(coord->seg); /* other hosts are told */
    if (status == MUSTER_ALREADY_EXISTS)
        mu_fail(status, "key %.*s already exists.", MU_KEY_SHOWN(c->key)); /* with the period: clients match it */
    if (!status) {
        mu_count(&ctx->own->kv_writes, 1);
        mu_wishes_written(coord, ctx, c->key);
    }
    mu_exit(ctx);
    return status;
}

/* The ask's answer, then those of the others whom it has woken. */
static void answer_change(struct mu_coord *coord, struct mu_ask *ask, enum muster_status status)
{
    if (status)
        mu_coord_fail(ask, status, mu_key_payload(status));
    else
        mu_coord_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_coord_deliver(coord);
}

/* Here, or by the leader. */
static void change_anywhere(struct mu_coord *coord, struct mu_ask *ask, struct mu_kv_change *c)
{
    enum muster_status status;
    char sum[24];

    if (coord->remote) {
        mu_coord_remote_change(coord, ask, c->op, c->key, c->number, c->value, c->len);
        mu_coord_deliver(coord);
        return;
    }
    status = change(coord, c);
    if (!status && c->op == MU_OP_KV_INCREMENT) {
        ask->len = (size_t)snprintf(sum, sizeof sum, "%" PRId64, (int64_t)c->result);
        ask->value = sum;
    }
    mu_coord_result(ask, c->op, c->result);
    answer_change(coord, ask, status);
}

/* A long key lies in front of its value. */
static enum muster_status join_head(struct mu_kv_change *c, const struct mu_coord_head *head, void **ret_joined)
{
    bool counts = c->op == MU_OP_KV_INCREMENT || c->op == MU_OP_KV_APPEND;

    *ret_joined = NULL;
    if (c->len + mu_coord_head_bytes(head) > MUSTER_VALUE_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the value is %zu bytes long; %u is the most", c->len,
                       MUSTER_VALUE_MAX - (unsigned)mu_coord_head_bytes(head));
    if (!head->key || c->op == MU_OP_KV_DELETE)
        return MUSTER_OK;
    if (counts)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "a key of %zu bytes can be set alone: those that are counted up or "
                       "appended to are %u bytes long at most",
                       head->len, MUSTER_KEY_MAX);
    c->value = *ret_joined = mu_coord_head_join(head, c->value, c->len);
    c->len += mu_coord_head_bytes(head);
    return *ret_joined ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value");
}

static void put(struct mu_coord *coord, struct mu_ask *ask, const char *key, size_t key_len, struct mu_kv_change *c)
{
    struct mu_coord_head head;
    enum muster_status status;
    void *joined = NULL;
    struct mu_key k;

    if (mu_coord_refuses(coord, ask))
        return;
    status = mu_coord_key(coord, key, key_len, &k, &head);
    c->key = &k;
    if (!status)
        status = join_head(c, &head, &joined);
    if (status)
        answer_change(coord, ask, status);
    else
        change_anywhere(coord, ask, c);
    free(joined);
    free(head.key);
}

void mu_coord_insert(struct mu_coord *coord, struct mu_ask *ask, const char *key, size_t key_len, const void *value,
                     size_t len, bool overwrite)
{
    put(coord, ask, key, key_len,
        &(struct mu_kv_change){.op = overwrite ? MU_OP_KV_SET : MU_OP_KV_INSERT, .value = value, .len = len});
}

void mu_coord_compare_and_set(struct mu_coord *coord, struct mu_ask *ask, const char *key, size_t key_len,
                              uint64_t expected, const void *value, size_t len)
{
    put(coord, ask, key, key_len,
        &(struct mu_kv_change){.op = MU_OP_KV_COMPARE_AND_SET, .value = value, .len = len, .number = expected});
}

void mu_coord_append(struct mu_coord *coord, struct mu_ask *ask, const char *key, size_t key_len, const void *value,
                     size_t len)
{
    put(coord, ask, key, key_len, &(struct mu_kv_change){.op = MU_OP_KV_APPEND, .value = value, .len = len});
}

void mu_coord_erase(struct mu_coord *coord, struct mu_ask *ask, const char *key, size_t key_len)
{
    put(coord, ask, key, key_len, &(struct mu_kv_change){.op = MU_OP_KV_DELETE, .number = 1});
}

void mu_coord_increment(struct mu_coord *coord, struct mu_ask *ask, const char *key, size_t key_len, int64_t by)
{
    put(coord, ask, key, key_len, &(struct mu_kv_change){.op = MU_OP_KV_INCREMENT, .number = (uint64_t)by});
}

/* What lies in our table. The ask is parked when it is not there, and who asks waits for it, or the leader may have it.
 */
static enum muster_status look(struct mu_coord *coord, struct mu_ask *ask, const char *key, size_t key_len, bool waits,
                               struct mu_blob **ret, uint64_t *ret_version)
{
    struct mu_coord_head head;
    struct mu_found found = {0};
    struct mu_ctx *ctx;
    struct mu_key k;
    enum muster_status status = mu_enter(coord->m, &ctx);

    *ret = NULL;
    if (status)
        return status;
    status = mu_coord_key(coord, key, key_len, &k, &head);
    ask->head = mu_coord_head_bytes(&head);
    free(head.key);
    if (!status)
        status = mu_coord_fetch(coord, ctx, &k,
                                ask->is_bare       ? MU_FETCH_BARE
                                : ask->is_favoured ? MU_FETCH_FAVOURED
                                                   : MU_FETCH_VALUE,
                                &found, ret);
    ask->len = status == MUSTER_RESOURCE_EXHAUSTED ? found.len : 0;
    mu_exit(ctx);
    *ret_version = found.version;
    return !status && !*ret && (waits || coord->remote) ? mu_wish_park(coord, ask, &k, found.word, waits) : status;
}

/* It was not found here. */
static void ask_leader(struct mu_coord *coord, struct mu_ask *ask, const char *key, size_t key_len)
{
    struct mu_parked *p = ask->parked;
    size_t shown = key_len < SHOWN ? key_len : SHOWN;
    char *copy = calloc(1, shown + 1);

    if (copy)
        memcpy(copy, key, shown);
    p->owned[0] = copy;
    mu_key_fetch_want(coord, p->at, p);
    mu_coord_deliver(coord);
}

static void answer_value(struct mu_ask *ask, struct mu_blob *value, uint64_t version)
{
    mu_coord_point(ask, value, version);
    mu_coord_answer(ask, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_blob_drop(value);
}

void mu_coord_get(struct mu_coord *coord, struct mu_ask *ask, const char *key, size_t key_len)
{
    struct mu_blob *value;
    uint64_t version;
    enum muster_status status;

    if (mu_coord_refuses(coord, ask))
        return;
    status = look(coord, ask, key, key_len, true, &value, &version);
    if (status)
        mu_coord_fail(ask, status, MU_PAYLOAD_NONE);
    else if (value)
        answer_value(ask, value, version);
    else if (coord->remote)
        ask_leader(coord, ask, key, key_len);
}

void mu_coord_try_get(struct mu_coord *coord, struct mu_ask *ask, const char *key, size_t key_len)
{
    struct mu_blob *value;
    uint64_t version;
    enum muster_status status;

    if (mu_coord_refuses(coord, ask))
        return;
    status = look(coord, ask, key, key_len, false, &value, &version);
    if (!status && !value && coord->remote) {
        ask_leader(coord, ask, key, key_len);
        return;
    }
    if (!status && !value)
        status = mu_fail(MUSTER_NOT_FOUND, "Config key %.*s not found.", (int)(key_len < SHOWN ? key_len : SHOWN), key);
    if (status)
        mu_coord_fail(ask, status, mu_key_payload(status));
    else
        answer_value(ask, value, version);
}
