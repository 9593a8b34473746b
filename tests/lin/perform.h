/*
 * tests/lin/perform.h: operations of a history: which they are, how the library does them, and how they are written
 * down; how a read is made is the test's affair.
 */
#ifndef TEST_LIN_PERFORM_H
#define TEST_LIN_PERFORM_H

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <muster/muster.h>

#include "history.h"
#include "seed.h"

/* An operation as it is written down where it outlives its process. */
struct entry {
    _Atomic uint32_t state; /* 0 not begun, 1 called, 2 returned */
    uint32_t key;
    struct op op;
};

static inline void entry_call(struct entry *e, struct op *o)
{
    o->returned = UINT64_MAX;
    o->called = muster_now_ns();
    e->op = *o;
    atomic_store(&e->state, 1);
}

static inline void entry_return(struct entry *e, const struct op *o)
{
    e->op = *o;
    atomic_store(&e->state, 2);
}

/* Those of a log that are of this key: how many. What was cut off may have happened at any time since. */
static inline size_t entries_of(struct entry *log, int len, uint32_t key, struct op *ops, uint64_t *cut_off)
{
    size_t count = 0;

    for (struct entry *e = log; e < log + len; e++) {
        uint32_t state = atomic_load(&e->state);

        if (!state || e->key != key)
            continue;
        ops[count] = e->op;
        if (state != 2)
            ops[count].returned = UINT64_MAX;
        *cut_off += state != 2;
        count++;
    }
    return count;
}

/* Operations that another one was at the same time as: only they leave the checker a choice. */
static inline uint64_t count_overlapped(const struct op *ops, size_t count)
{
    uint64_t n = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++)
            if (k != i && ops[k].called < ops[i].returned && ops[i].called < ops[k].returned) {
                n++;
                break;
            }
    return n;
}

/* The n-th of this worker's: numbers and texts, so that increments find both. last_*: what it knows of the key. */
static inline void choose(struct test_random *r, struct op *o, int self, int n, uint64_t last_version,
                          uint32_t last_len)
{
    static const enum kind kinds[] = {OP_SET, OP_GET, OP_GET,       OP_GET,    OP_INSERT,    OP_DELETE,
                                      OP_CAS, OP_CAS, OP_INCREMENT, OP_APPEND, OP_INCREMENT, OP_APPEND};

    memset(o, 0, sizeof *o);
    o->kind = kinds[test_below(r, sizeof kinds / sizeof kinds[0])];
    if (o->kind == OP_APPEND && last_len > 30)
        o->kind = OP_SET;
    if (o->kind == OP_APPEND)
        snprintf(o->bytes, sizeof o->bytes, "%d", self);
    else if (test_below(r, 2))
        snprintf(o->bytes, sizeof o->bytes, "%d%03d", self + 1, n);
    else
        snprintf(o->bytes, sizeof o->bytes, "w%d.%d.%u", self, n, (unsigned)test_below(r, 100));
    o->len = (uint32_t)strlen(o->bytes);
    if (o->kind == OP_CAS)
        o->expected = test_below(r, 8) ? last_version : 0;
    if (o->kind == OP_INCREMENT)
        o->expected = 1 + test_below(r, 9);
    if (o->kind == OP_GET || o->kind == OP_DELETE || o->kind == OP_INCREMENT)
        o->len = 0;
}

/* What its answer tells of the key. */
static inline void remember(const struct op *o, uint64_t *last_version, uint32_t *last_len)
{
    if (o->kind == OP_SET || o->kind == OP_GET || o->kind == OP_CAS)
        *last_version = o->version;
    if (o->kind == OP_GET || o->kind == OP_APPEND)
        *last_len = o->found_len;
    else
        *last_len += 2;
}

static inline uint32_t get_here(struct muster *m, const char *key, struct op *o)
{
    size_t len = 0;
    enum muster_status s = muster_kv_try_get(m, key, MUSTER_NTS, o->found, sizeof o->found, &len, &o->version);

    o->found_len = (uint32_t)len;
    return s;
}

/* What was committed on any host before the call is seen. */
static inline uint32_t get_fresh(struct muster *m, const char *key, struct op *o)
{
    uint32_t s = muster_kv_sync(m, MUSTER_FOREVER);

    return s ? s : get_here(m, key, o);
}

static inline uint32_t perform(struct muster *m, const char *key, struct op *o,
                               uint32_t (*get)(struct muster *m, const char *key, struct op *o))
{
    int64_t sum = 0;
    size_t n = 0;
    uint32_t s;

    switch (o->kind) {
    case OP_SET: return muster_kv_set(m, key, MUSTER_NTS, o->bytes, o->len, &o->version);
    case OP_GET: return get(m, key, o);
    case OP_INSERT: return muster_kv_insert(m, key, MUSTER_NTS, o->bytes, o->len);
    case OP_DELETE:
        s = muster_kv_delete(m, key, MUSTER_NTS, &n);
        o->version = n;
        return s;
    case OP_CAS: return muster_kv_compare_and_set(m, key, MUSTER_NTS, o->expected, o->bytes, o->len, &o->version);
    case OP_INCREMENT:
        s = muster_kv_increment(m, key, MUSTER_NTS, (int64_t)o->expected, &sum);
        o->version = (uint64_t)sum;
        return s;
    default:
        s = muster_kv_append(m, key, MUSTER_NTS, o->bytes, o->len, &n);
        o->found_len = (uint32_t)n;
        return s;
    }
}

#endif
