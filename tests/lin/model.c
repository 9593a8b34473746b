/*
 * tests/lin/model.c: what one operation does to the register, and which answers fit. Written from the contract in
 * muster/kv.h, without a look at the store. An operation that never returned fits any answer.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"

/* The register's version turns out to be this. */
static bool is_at(struct reg *r, uint64_t version)
{
    if (r->exact ? version != r->version : version <= r->version)
        return false;
    r->exact = true;
    r->version = version;
    return true;
}

/* New content, at a version that is told or not. */
static bool put(struct reg *r, const char *bytes, uint32_t len, bool told, uint64_t version)
{
    if (told && version <= r->version)
        return false;
    if (len > BYTES_MAX)
        return false;
    r->present = true;
    r->exact = told;
    if (told)
        r->version = version;
    r->len = len;
    memmove(r->bytes, bytes, len);
    memset(r->bytes + len, 0, BYTES_MAX - len);
    return true;
}

static bool apply_cas(struct reg *r, const struct op *op, bool answered)
{
    bool matches;

    if (!answered) /* it happened, so it matched */
        return (op->expected ? r->present && is_at(r, op->expected) : !r->present) &&
               put(r, op->bytes, op->len, false, 0);
    if (op->status == MUSTER_OK) {
        matches = op->expected ? r->present && is_at(r, op->expected) : !r->present;
        return matches && put(r, op->bytes, op->len, true, op->version);
    }
    if (op->status != MUSTER_ABORTED || op->version == op->expected)
        return false;
    return op->version ? r->present && is_at(r, op->version) : !r->present;
}

static bool parse(const struct reg *r, int64_t *value)
{
    char text[BYTES_MAX + 1], *end;

    *value = 0;
    if (!r->present)
        return true;
    memcpy(text, r->bytes, r->len);
    text[r->len] = 0;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return !errno && r->len && !*end && strlen(text) == r->len;
}

static bool apply_increment(struct reg *r, const struct op *op, bool answered)
{
    int64_t value, sum;
    char text[32];
    bool number = parse(r, &value) && !__builtin_add_overflow(value, (int64_t)op->expected, &sum);

    if (!number)
        return !answered || op->status == MUSTER_FAILED_PRECONDITION;
    if (answered && (op->status != MUSTER_OK || (int64_t)op->version != sum))
        return false;
    snprintf(text, sizeof text, "%" PRId64, sum);
    return put(r, text, (uint32_t)strlen(text), false, 0);
}

static bool apply_append(struct reg *r, const struct op *op, bool answered)
{
    char joined[2 * BYTES_MAX];
    uint32_t old = r->present ? r->len : 0, len = old + op->len;

    if (answered && (op->status != MUSTER_OK || op->found_len != len))
        return false;
    memcpy(joined, r->bytes, old);
    memcpy(joined + old, op->bytes, op->len);
    return put(r, joined, len, false, 0);
}

static bool apply_delete(struct reg *r, const struct op *op, bool answered)
{
    if (answered && (op->status != MUSTER_OK || op->version != (r->present ? 1 : 0)))
        return false;
    if (r->present) {
        r->present = r->exact = false; /* whatever comes is above the version that was */
        r->len = 0;
        memset(r->bytes, 0, sizeof r->bytes);
    }
    return true;
}

bool reg_apply(struct reg *r, const struct op *op)
{
    bool answered = op->returned != UINT64_MAX;

    switch (op->kind) {
    case OP_SET: return (!answered || op->status == MUSTER_OK) && put(r, op->bytes, op->len, answered, op->version);
    case OP_GET:
        if (!answered)
            return true;
        if (op->status == MUSTER_NOT_FOUND)
            return !r->present;
        return op->status == MUSTER_OK && r->present && r->len == op->found_len &&
               !memcmp(r->bytes, op->found, r->len) && is_at(r, op->version);
    case OP_INSERT:
        if (r->present)
            return !answered || op->status == MUSTER_ALREADY_EXISTS;
        return (!answered || op->status == MUSTER_OK) && put(r, op->bytes, op->len, false, 0);
    case OP_DELETE: return apply_delete(r, op, answered);
    case OP_CAS: return apply_cas(r, op, answered);
    case OP_INCREMENT: return apply_increment(r, op, answered);
    case OP_APPEND: return apply_append(r, op, answered);
    default: return false;
    }
}

void history_print(const struct op *ops, size_t count)
{
    static const char *const names[OP_KINDS] = {"set", "get", "insert", "delete", "cas", "increment", "append"};
    uint64_t first = count ? ops[0].called : 0;

    for (size_t i = 0; i < count; i++)
        first = ops[i].called < first ? ops[i].called : first;
    for (size_t i = 0; i < count; i++) {
        const struct op *o = &ops[i];

        printf("  %8" PRIu64 " .. ", o->called - first);
        if (o->returned == UINT64_MAX)
            printf("  killed  %s '%.*s' (%" PRId64 ")\n", names[o->kind], (int)o->len, o->bytes, (int64_t)o->expected);
        else
            printf("%8" PRIu64 "  %s '%.*s' (%" PRId64 ") -> %s '%.*s' length %u version %" PRIu64 "\n",
                   o->returned - first, names[o->kind], (int)o->len, o->bytes, (int64_t)o->expected,
                   muster_status_name((enum muster_status)o->status), o->kind == OP_GET ? (int)o->found_len : 0,
                   o->found, o->found_len, o->version);
    }
}
