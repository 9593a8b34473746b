/*
 * bench/keys.h: the keys and values of the key-value rows, the same for every store.
 *
 * Key number i is "bench/" and four characters of six bits each: made in a few instructions, without reading memory,
 * so that what is measured is the store and not a table of strings. Values are 64 bytes of fixed pseudo-random text.
 */
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H

#include "measure.h"

#define BENCH_KEY_LEN   10
#define BENCH_VALUE_LEN 64

static inline void bench_key(char key[BENCH_KEY_LEN + 1], uint32_t number)
{
    uint32_t digits = (number & 63) | (number >> 6 & 63) << 8 | (number >> 12 & 63) << 16 | (number >> 18 & 63) << 24;

    digits += UINT32_C(0x30303030); /* '0' to 'o': neither '/' nor '.' */
    memcpy(key, "bench/", 6);
    memcpy(key + 6, &digits, 4);
    key[BENCH_KEY_LEN] = '\0';
}

static inline void bench_value(char value[BENCH_VALUE_LEN], uint64_t seed)
{
    uint64_t state = seed * 2 + 1;

    for (int i = 0; i < BENCH_VALUE_LEN; i++)
        value[i] = (char)('0' + bench_random(&state) % 64);
}

#endif
