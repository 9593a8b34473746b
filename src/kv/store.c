/*
 * kv/store.c: the calls that change keys: set, insert, count up, compare, append.
 *
 * What is changed how is change.c's. Where the agent listens a change is made as ever and the agent is told; where the
 * job has several hosts, the keys are the leader's, and elsewhere the leader is asked for it (bridge/kv/kv_ops.c).
 */
#include <stdio.h>
#include <string.h>

#include "kv/change.h"
#include "kv/remote.h"
#include "segment/stats.h"

static enum muster_status check_value(const void *value, size_t *len)
{
    if (*len == MUSTER_NTS)
        *len = value ? strlen(value) : 0;
    if (!value && *len)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the value is NULL but %zu bytes long", *len);
    if (*len > MUSTER_VALUE_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the value is %zu bytes long; %u is the most", *len, MUSTER_VALUE_MAX);
    return MUSTER_OK;
}

static enum muster_status change_remote(struct muster *m, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    struct mu_kv_remote_change remote = {0};
    enum muster_status status;
    char what[192];

    mu_kv_change_begin(&remote, c->op, c->key, c->number, c->value, c->len);
    snprintf(what, sizeof what, "the leader's word on %s", remote.steps.about);
    remote.steps.what = what;
    status = mu_steps_run(m, ctx, &remote.steps, MUSTER_FOREVER);
    c->result = remote.result;
    return status;
}

/* In a job with an agent that is to hear of it. */
static enum muster_status change_listened(struct muster *m, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    enum muster_status status;

    if (mu_is_follower(m->seg))
        return change_remote(m, ctx, c);
    status = mu_kv_change(m->seg, ctx, c);
    mu_bell_ring_always(m->seg); /* also after a failure: a delete may have come half way */
    return status;
}

enum muster_status mu_kv_change_anywhere(struct muster *m, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    return m->seg->listened ? change_listened(m, ctx, c) : mu_kv_change(m->seg, ctx, c);
}

/* What all of them share: the handle, the key, the change. The caller looks at c->result. */
static enum muster_status key_mutate(struct muster *m, const char *key, size_t key_len, struct mu_kv_change *c)
{
    struct mu_ctx *ctx;
    struct mu_key k;
    enum muster_status status = mu_enter(m, &ctx);

    if (status)
        return status;
    status = mu_kv_key(m->seg, key, key_len, &k);
    if (!status) {
        c->key = &k;
        status = mu_kv_change_anywhere(m, ctx, c);
        if (!status)
            mu_count(&ctx->own->kv_writes, 1);
    }
    mu_exit(ctx);
    return status;
}

/* Not by key_mutate(): of all that a program does here this is what it does most. */
enum muster_status muster_kv_set(struct muster *muster, const char *key, size_t key_len, const void *value,
                                 size_t value_len, uint64_t *ret_version)
{
    struct mu_ctx *ctx;
    struct mu_table t;
    struct mu_key k;
    enum muster_status status = check_value(value, &value_len);

    if (!status)
        status = mu_enter(muster, &ctx);
    if (status)
        return status;
    status = mu_kv_key(muster->seg, key, key_len, &k);
    t = mu_table_kv(muster->seg);
    if (!status && (muster->seg->listened || !mu_table_overwrite(&t, ctx, &k, value, value_len, ret_version))) {
        struct mu_kv_change c = {.op = MU_OP_KV_SET, .key = &k, .value = value, .len = value_len};

        status = mu_kv_change_anywhere(muster, ctx, &c);
        if (!status && ret_version)
            *ret_version = c.result;
    }
    if (!status)
        mu_count(&ctx->own->kv_writes, 1);
    mu_exit(ctx);
    return status;
}

enum muster_status muster_kv_insert(struct muster *muster, const char *key, size_t key_len, const void *value,
                                    size_t value_len)
{
    struct mu_kv_change c = {.op = MU_OP_KV_INSERT, .value = value};
    enum muster_status status = check_value(value, &value_len);

    c.len = value_len;
    return status ? status : key_mutate(muster, key, key_len, &c);
}

enum muster_status muster_kv_compare_and_set(struct muster *muster, const char *key, size_t key_len, uint64_t expected,
                                             const void *value, size_t value_len, uint64_t *ret_version)
{
    struct mu_kv_change c = {.op = MU_OP_KV_COMPARE_AND_SET, .value = value, .number = expected};
    enum muster_status status = check_value(value, &value_len);

    if (status)
        return status;
    c.len = value_len;
    status = key_mutate(muster, key, key_len, &c);
    if (ret_version && (!status || status == MUSTER_ABORTED))
        *ret_version = c.result;
    return status;
}

enum muster_status muster_kv_increment(struct muster *muster, const char *key, size_t key_len, int64_t by,
                                       int64_t *ret_value)
{
    struct mu_kv_change c = {.op = MU_OP_KV_INCREMENT, .number = (uint64_t)by};
    enum muster_status status = key_mutate(muster, key, key_len, &c);

    if (!status && ret_value)
        *ret_value = (int64_t)c.result;
    return status;
}

enum muster_status muster_kv_append(struct muster *muster, const char *key, size_t key_len, const void *value,
                                    size_t value_len, size_t *ret_len)
{
    struct mu_kv_change c = {.op = MU_OP_KV_APPEND, .value = value};
    enum muster_status status = check_value(value, &value_len);

    if (status)
        return status;
    c.len = value_len;
    status = key_mutate(muster, key, key_len, &c);
    if (!status && ret_len)
        *ret_len = c.result;
    return status;
}

enum muster_status muster_kv_sync(struct muster *muster, muster_deadline deadline)
{
    struct mu_remote_call call = {.op = MU_OP_SYNC, .deadline = deadline, .what = "the leader's word on what is new"};
    struct mu_answer answer;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter_wait(muster, &ctx);

    if (status)
        return status;
    if (mu_is_follower(muster->seg)) {
        status = mu_remote_call(muster, ctx, &call, &answer);
        mu_answer_done(&answer);
    }
    mu_exit(ctx);
    return status;
}
