/*
 * bench/keys.h: the keys and values of the key-value rows, the same for every store.
 *
 * Key number i is "bench/" and four characters of six bits each: made in a few instructions, without reading memory,
 * and written by one store, so that what is measured is the store of keys and neither a table of strings nor a
 * processor that has to piece a key together from several stores it has just made. Values are 64 bytes of fixed
 * pseudo-random text.
 */
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H

#include "measure.h"

#define BENCH_KEY_LEN   10
#define BENCH_KEY_ROOM  16 /* what bench_key() writes */
#define BENCH_VALUE_LEN 64

static inline void bench_key(char key[BENCH_KEY_ROOM], uint32_t number)
{
    typedef uint64_t two __attribute__((vector_size(16), aligned(1), may_alias));
    const uint64_t head = 0x2f68636e6562; /* "bench/" */

    uint32_t digits = (number & 63) | (number >> 6 & 63) << 8 | (number >> 12 & 63) << 16 | (number >> 18 & 63) << 24;

    digits += UINT32_C(0x30303030); /* '0' to 'o': neither '/' nor '.' */
    *(two *)key = (two){head | (uint64_t)digits << 48, digits >> 16};
}

static inline void bench_value(char value[BENCH_VALUE_LEN], uint64_t seed)
{
    uint64_t state = seed * 2 + 1;

    for (int i = 0; i < BENCH_VALUE_LEN; i++)
        value[i] = (char)('0' + bench_random(&state) % 64);
}

#endif
