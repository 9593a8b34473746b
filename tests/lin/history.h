/*
 * tests/lin/history.h: recorded operations on one key, the sequential model, and the question whether the one could
 * have come from the other.
 *
 * The model is a register with a version: bytes or nothing. A version is known (exact) or only bounded below: some
 * calls change the key without saying to which version. Every change takes a version above all before it, through
 * delete and re-insert too.
 */
#ifndef MUSTER_TEST_HISTORY_H
#define MUSTER_TEST_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <muster/status.h>

enum { BYTES_MAX = 96, OPS_MAX = 256 };

enum kind { OP_SET, OP_GET, OP_INSERT, OP_DELETE, OP_CAS, OP_INCREMENT, OP_APPEND, OP_KINDS };

struct op {
    uint64_t called;   /* CLOCK_MONOTONIC ns */
    uint64_t returned; /* UINT64_MAX: never: killed; it may have happened or not */
    enum kind kind;
    uint32_t len;       /* given: set, insert, compare_and_set, append */
    uint64_t expected;  /* given: version for compare_and_set; increment: by, as int64_t */
    uint32_t status;    /* answered: enum muster_status */
    uint32_t found_len; /* answered: get; append: the new length */
    uint64_t version;   /* answered: set, get, compare_and_set (ABORTED: the present one); increment: the sum; delete:
                           the count */
    char bytes[BYTES_MAX];
    char found[BYTES_MAX];
};

struct reg {
    bool present, exact;
    uint32_t len;
    uint64_t version; /* exact, or every later one is above it */
    char bytes[BYTES_MAX];
};

/* The operation, done to *r, could have answered as it did: *r is its state then. False: *r is spoiled. */
bool reg_apply(struct reg *r, const struct op *op);

enum verdict { LINEARIZABLE, NOT_LINEARIZABLE, UNDECIDED };

/* Wing and Gong's search with Lowe's memory. UNDECIDED: more than `most` configurations. *ret_steps may be NULL. */
enum verdict history_check(const struct reg *start, const struct op *ops, size_t count, uint64_t most,
                           uint64_t *ret_steps);

/* *start moves behind the operations: the last of them is a read that nothing else was at the same time as. */
void history_go_on(struct reg *start, const struct op *ops, size_t count);

/* For people. */
void history_print(const struct op *ops, size_t count);

#endif
