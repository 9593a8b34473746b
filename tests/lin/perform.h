/* tests/lin/perform.h: an operation of a history, done by the library; how a read is made is the test's affair. */
#ifndef TEST_LIN_PERFORM_H
#define TEST_LIN_PERFORM_H

#include <muster/muster.h>

#include "history.h"

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
