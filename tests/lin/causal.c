/* tests/lin/causal.c: see causal.h. */
#include "causal.h"

#include <string.h>

struct knowledge causal_now(const struct known *k)
{
    struct knowledge now;

    for (uint32_t i = 0; i < CAUSAL_KEYS; i++)
        now.least[i] = atomic_load(&k->least[i]);
    return now;
}

static void learn(struct known *k, uint32_t key, uint64_t least)
{
    uint64_t old = atomic_load(&k->least[key]);

    while (old < least && !atomic_compare_exchange_weak(&k->least[key], &old, least))
        ;
}

void causal_learn_version(struct known *k, uint32_t key, uint64_t version)
{
    learn(k, key, 2 * version);
}

void causal_learn(struct known *k, const struct knowledge *more)
{
    for (uint32_t i = 0; i < CAUSAL_KEYS; i++)
        learn(k, i, more->least[i]);
}

void causal_learn_absence(struct known *k, uint32_t key, const struct knowledge *before)
{
    if (before->least[key]) /* else it may not have been there yet */
        learn(k, key, before->least[key] | 1);
}

bool causal_allows(const struct knowledge *before, uint32_t key, uint64_t version)
{
    if (!version)
        return key >= CAUSAL_KEPT || !before->least[key];
    return 2 * version >= before->least[key];
}

static uint8_t filler(const struct knowledge *k)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < CAUSAL_KEYS; i++)
        sum = sum * 31 + k->least[i];
    return (uint8_t)(sum ^ sum >> 8 ^ sum >> 16);
}

size_t causal_pack(const struct knowledge *k, size_t len, uint8_t to[CAUSAL_MOST])
{
    len = len < sizeof *k ? sizeof *k : len > CAUSAL_MOST ? CAUSAL_MOST : len;
    memset(to, filler(k), len);
    memcpy(to, k, sizeof *k);
    return len;
}

bool causal_unpack(const uint8_t *from, size_t len, struct knowledge *ret)
{
    if (len < sizeof *ret || len > CAUSAL_MOST)
        return false;
    memcpy(ret, from, sizeof *ret);
    for (size_t i = sizeof *ret; i < len; i++)
        if (from[i] != filler(ret))
            return false;
    return true;
}
