/*
 * kv/store.c: changes of single keys: set, insert, count up, compare, append.
 *
 * Every mutation is one edit of the key's entry (segment/table.h); what differs is the callback that decides the new
 * value from the old.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/key.h"
#include "segment/handle.h"
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

/* What all mutations share: checks, context, edit. */
static enum muster_status mutate(struct muster *m, const char *key, size_t key_len, uint32_t flags, mu_edit_fn fn,
                                 struct mu_edit *e, struct mu_key *k, uint64_t *ret_version)
{
    struct mu_ctx *ctx;
    struct mu_table t;
    enum muster_status status = mu_enter(m, &ctx);

    if (status)
        return status;
    status = mu_kv_key(m->seg, key, key_len, k);
    if (!status) {
        t = mu_table_kv(m->seg);
        status = mu_table_edit(&t, ctx, k, flags, fn, e, ret_version);
        if (!status)
            mu_count(&ctx->own->kv_writes, 1);
    }
    mu_exit(ctx);
    return status;
}

static enum mu_verdict put_always(struct mu_edit *e)
{
    (void)e;
    return MU_PUT;
}

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
    if (!status && !mu_table_overwrite(&t, ctx, &k, value, value_len, ret_version)) {
        struct mu_edit e = {.value = value, .len = value_len};

        status = mu_table_edit(&t, ctx, &k, 0, put_always, &e, ret_version);
    }
    if (!status)
        mu_count(&ctx->own->kv_writes, 1);
    mu_exit(ctx);
    return status;
}

static enum mu_verdict put_if_absent(struct mu_edit *e)
{
    if (!e->version)
        return MU_PUT;
    e->status = MUSTER_ALREADY_EXISTS;
    return MU_KEEP;
}

enum muster_status muster_kv_insert(struct muster *muster, const char *key, size_t key_len, const void *value,
                                    size_t value_len)
{
    struct mu_key k;
    struct mu_edit e = {.value = value};
    enum muster_status status = check_value(value, &value_len);

    if (status)
        return status;
    e.len = value_len;
    status = mutate(muster, key, key_len, 0, put_if_absent, &e, &k, NULL);
    if (status == MUSTER_ALREADY_EXISTS)
        return mu_fail(status, "key %.*s already exists", MU_KEY_SHOWN(&k));
    return status;
}

struct expectation {
    uint64_t version, found;
};

static enum mu_verdict put_if_version(struct mu_edit *e)
{
    struct expectation *x = e->arg;

    x->found = e->version;
    if (e->version == x->version)
        return MU_PUT;
    e->status = MUSTER_ABORTED;
    return MU_KEEP;
}

enum muster_status muster_kv_compare_and_set(struct muster *muster, const char *key, size_t key_len, uint64_t expected,
                                             const void *value, size_t value_len, uint64_t *ret_version)
{
    struct expectation x = {expected, 0};
    struct mu_key k;
    struct mu_edit e = {.value = value, .arg = &x};
    enum muster_status status = check_value(value, &value_len);

    if (status)
        return status;
    e.len = value_len;
    status = mutate(muster, key, key_len, 0, put_if_version, &e, &k, ret_version);
    if (status != MUSTER_ABORTED)
        return status;
    if (ret_version)
        *ret_version = x.found;
    if (!x.found)
        return mu_fail(status, "key %.*s is absent, not at version %" PRIu64, MU_KEY_SHOWN(&k), expected);
    return mu_fail(status, "key %.*s is at version %" PRIu64 ", not %" PRIu64, MU_KEY_SHOWN(&k), x.found, expected);
}

struct addition {
    int64_t by, sum;
    bool overflow;
    char text[24];
    char bad[48];
};

/* Decimal text with an optional sign, nothing else; false when it is not, or leaves 64 bits. */
static bool parse_number(const char *p, size_t len, int64_t *ret)
{
    bool negative = len && *p == '-';
    size_t i = len && (*p == '-' || *p == '+') ? 1 : 0;
    uint64_t v = 0, most = (uint64_t)INT64_MAX + negative;

    if (i == len)
        return false;
    for (; i < len; i++) {
        unsigned d = (unsigned char)p[i] - '0';

        if (d > 9 || v > (most - d) / 10)
            return false;
        v = v * 10 + d;
    }
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

static size_t print_number(int64_t v, char text[24])
{
    char digits[24];
    size_t n = 0, len = 0;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    do
        digits[n++] = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        text[len++] = '-';
    while (n)
        text[len++] = digits[--n];
    return len;
}

static enum mu_verdict put_sum(struct mu_edit *e)
{
    struct addition *a = e->arg;
    int64_t old = 0;

    if (e->version && !parse_number(e->old, e->old_len, &old)) {
        a->overflow = false;
        snprintf(a->bad, sizeof a->bad, "%.*s", (int)(e->old_len < 40 ? e->old_len : 40), (const char *)e->old);
        e->status = MUSTER_FAILED_PRECONDITION;
        return MU_KEEP;
    }
    if (__builtin_add_overflow(old, a->by, &a->sum)) {
        a->overflow = true;
        e->status = MUSTER_FAILED_PRECONDITION;
        return MU_KEEP;
    }
    e->value = a->text;
    e->len = print_number(a->sum, a->text);
    return MU_PUT;
}

enum muster_status muster_kv_increment(struct muster *muster, const char *key, size_t key_len, int64_t by,
                                       int64_t *ret_value)
{
    struct addition a = {.by = by};
    struct mu_edit e = {.arg = &a};
    struct mu_key k;
    enum muster_status status = mutate(muster, key, key_len, MU_EDIT_WANTS_OLD, put_sum, &e, &k, NULL);

    if (!status && ret_value)
        *ret_value = a.sum;
    if (status == MUSTER_FAILED_PRECONDITION && e.arg == &a && e.status == status)
        return a.overflow
                   ? mu_fail(status, "adding %" PRId64 " to key %.*s leaves 64 bits", by, MU_KEY_SHOWN(&k))
                   : mu_fail(status, "Failed to parse value \"%s\" of key %.*s as an integer", a.bad, MU_KEY_SHOWN(&k));
    return status;
}

struct appendix {
    const void *value;
    size_t len;
    uint8_t *joined;
    size_t total;
};

static enum mu_verdict put_joined(struct mu_edit *e)
{
    struct appendix *a = e->arg;
    uint8_t *more;

    a->total = e->old_len + a->len;
    if (a->total > MUSTER_VALUE_MAX) {
        e->status = mu_fail(MUSTER_INVALID_ARGUMENT, "the value would be %zu bytes long; %u is the most", a->total,
                            MUSTER_VALUE_MAX);
        return MU_KEEP;
    }
    more = realloc(a->joined, a->total + 1);
    if (!more) {
        e->status = mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value of %zu bytes", a->total);
        return MU_KEEP;
    }
    a->joined = more;
    if (e->old_len)
        memcpy(more, e->old, e->old_len);
    if (a->len)
        memcpy(more + e->old_len, a->value, a->len);
    e->value = more;
    e->len = a->total;
    return MU_PUT;
}

enum muster_status muster_kv_append(struct muster *muster, const char *key, size_t key_len, const void *value,
                                    size_t value_len, size_t *ret_len)
{
    struct appendix a = {.value = value};
    struct mu_edit e = {.arg = &a};
    struct mu_key k;
    enum muster_status status = check_value(value, &value_len);

    if (status)
        return status;
    a.len = value_len;
    status = mutate(muster, key, key_len, MU_EDIT_WANTS_OLD, put_joined, &e, &k, NULL);
    if (!status && ret_len)
        *ret_len = a.total;
    free(a.joined);
    return status;
}
