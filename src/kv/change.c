/*
 * kv/change.c: what becomes of a key: set, insert, compare, count up, append.
 *
 * Every change is one edit of the key's entry (segment/table.h); what differs is the callback that decides the new
 * value from the old. The caller's own process makes it, or the agent of the leader for a task of another host: the
 * same code, the same sentences. A change that was made for another host before is found by its record; the result is
 * what the callback left in it, or the version of the commit.
 */
#include "kv/change.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * One edit, on behalf of the caller that the change names. *ret_version: of the commit, also when it was made before.
 * Only what an edit looks at is filled in: zeros for the whole of its struct would be felt.
 */
static enum muster_status change_edit(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c,
                                      uint32_t flags, mu_edit_fn fn, void *arg, uint64_t *ret_version)
{
    const struct mu_kv_behalf *b = c->behalf;
    struct mu_table t = mu_table_kv(seg);
    enum muster_status status;
    struct mu_edit e;

    e.value = c->value;
    e.len = c->len;
    e.more_len = 0;
    e.num_refs = 0;
    e.new_ref = 0;
    e.version_as = 0;
    e.client = c->client;
    e.done = b ? b->done : NULL;
    e.forget = b ? b->forget : NULL;
    e.forget_arg = b ? b->arg : NULL;
    e.arg = arg;
    e.status = MUSTER_OK;
    status = mu_table_edit(&t, ctx, c->key, flags, fn, &e, ret_version);
    if (status || !b)
        return status;
    c->was_done = e.was_done;
    if (e.was_done && ret_version)
        *ret_version = b->done->version;
    b->left_record(b->arg, (uint32_t)(c->key->hash >> 20) & t.mask);
    return MUSTER_OK;
}

/* For the record. */
static void result_leave(struct mu_edit *e, uint64_t result)
{
    if (e->done)
        e->done->result[0] = result;
}

static enum mu_verdict put_always(struct mu_edit *e)
{
    (void)e;
    return MU_PUT;
}

static enum muster_status change_set(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    struct mu_table t = mu_table_kv(seg);

    if (seg->listened && !c->behalf && !c->client && mu_table_overwrite(&t, ctx, c->key, c->value, c->len, &c->result))
        return MUSTER_OK;
    return change_edit(seg, ctx, c, 0, put_always, NULL, &c->result);
}

static enum mu_verdict put_if_absent(struct mu_edit *e)
{
    if (!e->version)
        return MU_PUT;
    e->status = MUSTER_ALREADY_EXISTS;
    return MU_KEEP;
}

static enum muster_status change_insert(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    enum muster_status status = change_edit(seg, ctx, c, 0, put_if_absent, NULL, NULL);

    if (status == MUSTER_ALREADY_EXISTS)
        return mu_fail(status, "key %.*s already exists", MU_KEY_SHOWN(c->key));
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

static enum muster_status compare_and_set(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    struct expectation x = {c->number, 0};
    enum muster_status status = change_edit(seg, ctx, c, 0, put_if_version, &x, &c->result);

    if (status != MUSTER_ABORTED)
        return status;
    c->result = x.found;
    if (!x.found)
        return mu_fail(status, "key %.*s is absent, not at version %" PRIu64, MU_KEY_SHOWN(c->key), c->number);
    return mu_fail(status, "key %.*s is at version %" PRIu64 ", not %" PRIu64, MU_KEY_SHOWN(c->key), x.found,
                   c->number);
}

struct addition {
    const void *front;
    size_t front_len;
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
    size_t front = e->old_len < a->front_len ? e->old_len : a->front_len, len = e->old_len - front;
    const char *text = e->version ? (const char *)e->old + front : "";
    int64_t old = 0;

    if (e->version && !parse_number(text, len, &old)) {
        a->overflow = false;
        snprintf(a->bad, sizeof a->bad, "%.*s", (int)(len < 40 ? len : 40), text);
        e->status = MUSTER_FAILED_PRECONDITION;
        return MU_KEEP;
    }
    if (__builtin_add_overflow(old, a->by, &a->sum)) {
        a->overflow = true;
        e->status = MUSTER_FAILED_PRECONDITION;
        return MU_KEEP;
    }
    result_leave(e, (uint64_t)a->sum);
    len = print_number(a->sum, a->text);
    e->value = a->front_len ? a->front : a->text;
    e->len = a->front_len + len;
    e->more = a->text;
    e->more_len = a->front_len ? len : 0;
    return MU_PUT;
}

static enum muster_status change_increment(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    struct addition a; /* the rest is the callback's */
    enum muster_status status;

    if (c->len > MUSTER_VALUE_MAX - sizeof a.text)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu bytes in front of a number are too many", c->len);
    a.front = c->value;
    a.front_len = c->len;
    a.by = (int64_t)c->number;
    a.sum = 0;
    a.overflow = false;
    status = change_edit(seg, ctx, c, MU_EDIT_WANTS_OLD, put_sum, &a, NULL);
    c->result = c->was_done ? c->behalf->done->result[0] : (uint64_t)a.sum;
    if (status != MUSTER_FAILED_PRECONDITION)
        return status;
    return a.overflow
               ? mu_fail(status, "adding %" PRId64 " to key %.*s leaves 64 bits", a.by, MU_KEY_SHOWN(c->key))
               : mu_fail(status, "Failed to parse value \"%s\" of key %.*s as an integer", a.bad, MU_KEY_SHOWN(c->key));
}

struct appendix {
    const uint8_t *value;
    size_t len, front;
    uint8_t *joined;
    size_t total;
};

static enum mu_verdict put_joined(struct mu_edit *e)
{
    struct appendix *a = e->arg;
    size_t skipped = e->version ? a->front : 0;
    uint8_t *more;

    a->total = e->old_len + a->len - skipped;
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
    if (a->len > skipped)
        memcpy(more + e->old_len, a->value + skipped, a->len - skipped);
    e->value = more;
    e->len = a->total;
    a->total -= a->front;
    result_leave(e, a->total);
    return MU_PUT;
}

static enum muster_status change_append(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    struct appendix a = {.value = c->value, .len = c->len, .front = c->number};
    enum muster_status status;

    if (a.front > a.len)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu of %zu bytes cannot be the beginning", a.front, a.len);
    status = change_edit(seg, ctx, c, MU_EDIT_WANTS_OLD, put_joined, &a, NULL);
    c->result = c->was_done ? c->behalf->done->result[0] : a.total;
    free(a.joined);
    return status;
}

enum muster_status mu_kv_change(struct muster_segment *seg, struct mu_ctx *ctx, struct mu_kv_change *c)
{
    c->result = 0;
    c->was_done = false;
    switch (c->op) {
    case MU_OP_KV_SET: return change_set(seg, ctx, c);
    case MU_OP_KV_INSERT: return change_insert(seg, ctx, c);
    case MU_OP_KV_COMPARE_AND_SET: return compare_and_set(seg, ctx, c);
    case MU_OP_KV_INCREMENT: return change_increment(seg, ctx, c);
    case MU_OP_KV_APPEND: return change_append(seg, ctx, c);
    case MU_OP_KV_DELETE: return mu_kv_delete_tree(seg, ctx, c);
    default: return mu_fail(MUSTER_INTERNAL, "%u changes no key", c->op);
    }
}
