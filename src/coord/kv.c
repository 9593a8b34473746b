/*
 * coord/kv.c: keys: inserting, counting up, comparing, appending, reading. The store needs no registration and knows
 * no errors of tasks.
 *
 * coord/key.c maps the keys of clients to those of the store. A wire client's write wakes the wire clients that wait
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
static enum muster_status key_change(struct mu_coord *coord, struct mu_kv_change *c)
{
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(coord->m, &ctx);

    if (status)
        return status;
    c->client = true;
    status = mu_kv_change(coord->seg, ctx, c);
    if (mu_is_leader(coord->seg))
        mu_bell_ring_always(coord->seg); /* other hosts are told */
    if (status == MUSTER_ALREADY_EXISTS)
        mu_fail(status, "key %.*s already exists.", MU_KEY_SHOWN(c->key)); /* with the period: clients match it */
    if (!status) {
        mu_count(&ctx->own->kv_writes, 1);
        mu_coord_key_waits_written(coord, ctx, c->key);
    }
    mu_exit(ctx);
    return status;
}

/* The request's answer, then those of the other requests that it has woken. */
static void answer_change(struct mu_coord *coord, struct mu_coord_request *request, enum muster_status status)
{
    mu_coord_complete(request, status, mu_coord_key_payload(status));
    mu_coord_deliver(coord);
}

/* Here, or by the leader. */
static void change_anywhere(struct mu_coord *coord, struct mu_coord_request *request, struct mu_kv_change *c)
{
    enum muster_status status;
    char sum[24];

    if (coord->remote) {
        mu_coord_remote_change(coord, request, c->op, c->key, c->number, c->value, c->len);
        mu_coord_deliver(coord);
        return;
    }
    status = key_change(coord, c);
    if (!status && c->op == MU_OP_KV_INCREMENT) {
        request->len = (size_t)snprintf(sum, sizeof sum, "%" PRId64, (int64_t)c->result);
        request->value = sum;
    }
    mu_coord_result(request, c->op, c->result);
    answer_change(coord, request, status);
}

/* A long key lies in front of its value. */
static enum muster_status join_head(struct mu_kv_change *c, const struct mu_coord_head *head, void **ret_joined)
{
    *ret_joined = NULL;
    if (c->len + mu_coord_head_bytes(head) > MUSTER_VALUE_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the value is %zu bytes long; %u is the most", c->len,
                       MUSTER_VALUE_MAX - (unsigned)mu_coord_head_bytes(head));
    if (!head->key || c->op == MU_OP_KV_DELETE)
        return MUSTER_OK;
    c->value = *ret_joined = mu_coord_head_join(head, c->value, c->len);
    c->len += mu_coord_head_bytes(head);
    if (c->op == MU_OP_KV_APPEND)
        c->number = mu_coord_head_bytes(head);
    return *ret_joined ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value");
}

static void key_put(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len,
                    struct mu_kv_change *c)
{
    struct mu_coord_head head;
    enum muster_status status;
    void *joined = NULL;
    struct mu_key k;

    if (mu_coord_refuses(coord, request))
        return;
    status = mu_coord_key(coord, key, key_len, &k, &head);
    c->key = &k;
    if (!status)
        status = join_head(c, &head, &joined);
    if (status)
        answer_change(coord, request, status);
    else
        change_anywhere(coord, request, c);
    free(joined);
    free(head.key);
}

void mu_coord_insert(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len,
                     const void *value, size_t len, bool overwrite)
{
    key_put(coord, request, key, key_len,
            &(struct mu_kv_change){.op = overwrite ? MU_OP_KV_SET : MU_OP_KV_INSERT, .value = value, .len = len});
}

void mu_coord_compare_and_set(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len,
                              uint64_t expected, const void *value, size_t len)
{
    key_put(coord, request, key, key_len,
            &(struct mu_kv_change){.op = MU_OP_KV_COMPARE_AND_SET, .value = value, .len = len, .number = expected});
}

void mu_coord_append(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len,
                     const void *value, size_t len)
{
    key_put(coord, request, key, key_len, &(struct mu_kv_change){.op = MU_OP_KV_APPEND, .value = value, .len = len});
}

void mu_coord_erase(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len)
{
    key_put(coord, request, key, key_len, &(struct mu_kv_change){.op = MU_OP_KV_DELETE, .number = 1});
}

void mu_coord_increment(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len,
                        int64_t by)
{
    key_put(coord, request, key, key_len, &(struct mu_kv_change){.op = MU_OP_KV_INCREMENT, .number = (uint64_t)by});
}

/* What lies in our table. The request is pending when it is not there, and its client waits for it, or the leader may
 * have it.
 */
static enum muster_status key_look(struct mu_coord *coord, struct mu_coord_request *request, const char *key,
                                   size_t key_len, bool waits, struct mu_blob **ret, uint64_t *ret_version)
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
    request->head = mu_coord_head_bytes(&head);
    free(head.key);
    if (!status)
        status = mu_coord_fetch(coord, ctx, &k,
                                request->is_bare       ? MU_FETCH_BARE
                                : request->is_favoured ? MU_FETCH_FAVOURED
                                                       : MU_FETCH_VALUE,
                                &found, ret);
    request->len = status == MUSTER_RESOURCE_EXHAUSTED ? found.len : 0;
    mu_exit(ctx);
    *ret_version = found.version;
    return !status && !*ret && (waits || coord->remote) ? mu_coord_key_wait_add(coord, request, &k, found.word, waits)
                                                        : status;
}

/* It was not found here. */
static void leader_ask(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len)
{
    struct mu_coord_pending *p = request->pending;
    size_t shown = key_len < SHOWN ? key_len : SHOWN;
    char *copy = calloc(1, shown + 1);

    if (copy)
        memcpy(copy, key, shown);
    p->owned[0] = copy;
    mu_coord_key_fetch_want(coord, p->at, p);
    mu_coord_deliver(coord);
}

static void answer_value(struct mu_coord_request *request, struct mu_blob *value, uint64_t version)
{
    mu_coord_point(request, value, version);
    mu_coord_answer(request, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    mu_blob_drop(value);
}

void mu_coord_get(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len)
{
    struct mu_blob *value;
    uint64_t version;
    enum muster_status status;

    if (mu_coord_refuses(coord, request))
        return;
    status = key_look(coord, request, key, key_len, true, &value, &version);
    if (status)
        mu_coord_fail(request, status, MU_PAYLOAD_NONE);
    else if (value)
        answer_value(request, value, version);
    else if (coord->remote)
        leader_ask(coord, request, key, key_len);
}

void mu_coord_try_get(struct mu_coord *coord, struct mu_coord_request *request, const char *key, size_t key_len)
{
    struct mu_blob *value;
    uint64_t version;
    enum muster_status status;

    if (mu_coord_refuses(coord, request))
        return;
    status = key_look(coord, request, key, key_len, false, &value, &version);
    if (!status && !value && coord->remote) {
        leader_ask(coord, request, key, key_len);
        return;
    }
    if (!status && !value)
        status = mu_fail(MUSTER_NOT_FOUND, "Config key %.*s not found.", (int)(key_len < SHOWN ? key_len : SHOWN), key);
    if (status)
        mu_coord_fail(request, status, mu_coord_key_payload(status));
    else
        answer_value(request, value, version);
}
