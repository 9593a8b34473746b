/*
 * tests/sim/lin.h: is a recorded history of the key-value store linearizable?
 *
 * Wing and Gong's search with Lowe's memory of states seen. The model is exact to the version: one number a bucket that
 * grows by one with every commit there. The operation of a killed task may have happened before its death, or not.
 */
#ifndef MU_TESTS_SIM_LIN_H
#define MU_TESTS_SIM_LIN_H

#include <muster/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LIN_KEYS = 3, LIN_OPS = 60 };

enum lin_kind { LIN_SET, LIN_INSERT, LIN_CAS, LIN_APPEND, LIN_ADD, LIN_DELETE, LIN_GET, LIN_LIST, LIN_COUNT };

/* A value: what its words hash to and its length, or a number. */
struct lin_value {
    uint64_t hash, version; /* version 0: absent */
    uint32_t len;
};

struct lin_op {
    enum lin_kind kind;
    uint32_t key, task;
    bool done; /* it returned; else its task was killed in it */
    uint64_t began, ended;
    struct lin_value value; /* written, appended; read */
    int64_t by;
    uint64_t expected; /* of compare-and-set */
    /* the answer */
    enum muster_status status;
    uint64_t version, number;
    struct lin_value list[LIN_KEYS];
};

struct lin_history {
    struct lin_op ops[LIN_OPS];
    uint32_t count;
    uint32_t bucket[LIN_KEYS]; /* of each key: 0 or 1 */
    uint64_t commits[2];       /* of each bucket, at the beginning */
};

/* The hash of words appended to what has `hash`; LIN_EMPTY is that of nothing. */
#define LIN_EMPTY 0xcbf29ce484222325ull
uint64_t lin_hash(uint64_t hash, const uint64_t *words, size_t count);

/* Word i of what the operation with this seed writes. An append is recorded as {seed, length}. */
static inline uint64_t lin_word(uint64_t seed, uint32_t i)
{
    return (seed ^ i) * 0xff51afd7ed558ccdull;
}

bool lin_check(const struct lin_history *h);
void lin_print(const struct lin_history *h);

#endif
