/*
 * tests/lin/causal.h: whether reads without a call to the leader are causal: who has seen a write never sees, of any
 * key, what is older than that write's author knew when it was made.
 *
 * A host knows of each key a version below which nothing may be read there any more: what any of its processes has read
 * or written, what a deletion or an absence has ended, and all that the authors of what it has read knew. Each value,
 * and each event, carries its author's knowledge. It is the host's rather than the process's: that is more than the
 * contract says of processes that tell each other nothing, but a host has one copy of each key, and what a killed
 * process knew is not lost.
 */
#ifndef MUSTER_TEST_CAUSAL_H
#define MUSTER_TEST_CAUSAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CAUSAL_KEYS = 4, CAUSAL_KEPT = 2 /* of them are never deleted */ };

struct knowledge {               /* of one moment */
    uint64_t least[CAUSAL_KEYS]; /* 2 * v: v, or what came later; 2 * v + 1: v is gone, so only what came later */
};
struct known { /* in memory that the host's processes share */
    _Atomic uint64_t least[CAUSAL_KEYS];
};

struct knowledge causal_now(const struct known *k);
void causal_learn(struct known *k, const struct knowledge *more);
void causal_learn_version(struct known *k, uint32_t key, uint64_t version);
/* It was deleted, or found absent, after `before` was the knowledge: what comes is newer. */
void causal_learn_absence(struct known *k, uint32_t key, const struct knowledge *before);

/* What a read answered, that began when `before` was known: version 0: absent. False: it is not causal. */
bool causal_allows(const struct knowledge *before, uint32_t key, uint64_t version);

/* A value that carries knowledge: some bytes more than that, all of them decided by it. Its length. */
enum { CAUSAL_MOST = 3000 };
size_t causal_pack(const struct knowledge *k, size_t len, uint8_t to[CAUSAL_MOST]);
/* False: it is torn. */
bool causal_unpack(const uint8_t *from, size_t len, struct knowledge *ret);

#endif
