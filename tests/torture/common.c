/*
 * tests/torture/common.c: random numbers, self-checking values, violations.
 *
 * A value is {seed, length} and then words that follow from the seed; so a reader needs no other knowledge to see
 * whether it is whole. Shorter ones repeat their length.
 */
#include "torture.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct board *board;
char job[64];

const char *const load_names[LOADS] = {
    "set",  "get",     "get_dir", "insert", "delete",      "compare_and_set", "watch",  "increment", "append",
    "send", "receive", "barrier", "group",  "alive tasks", "look at tasks",   "thread", "rejoin",    "die",
};

static uint64_t state;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void random_seed(uint64_t seed)
{
    state = mix(seed);
}

uint64_t draw(uint64_t below)
{
    state += 0x9e3779b97f4a7c15u;
    return mix(state) % below;
}

_Noreturn void violation(const char *format, ...)
{
    va_list args;

    if (!atomic_exchange(&board->violated, 1)) {
        va_start(args, format);
        vsnprintf(board->violation, sizeof board->violation, format, args);
        va_end(args);
        fprintf(stderr, "torture: VIOLATION: %s\n", board->violation);
    }
    _exit(9);
}

void value_make(uint8_t *to, size_t len, uint64_t seed)
{
    uint64_t header[2] = {seed, len};

    if (len < sizeof header) {
        memset(to, (int)(len * 17), len);
        return;
    }
    memcpy(to, header, sizeof header);
    for (size_t i = sizeof header; i < len; i += 8) {
        uint64_t w = seed + i * 0x9e3779b97f4a7c15u;

        memcpy(to + i, &w, len - i < 8 ? len - i : 8);
    }
}

bool value_is_whole(const uint8_t *value, size_t len)
{
    uint64_t header[2];

    if (len < sizeof header) {
        for (size_t i = 0; i < len; i++)
            if (value[i] != (uint8_t)(len * 17))
                return false;
        return true;
    }
    memcpy(header, value, sizeof header);
    if (header[1] != len)
        return false;
    for (size_t i = sizeof header; i < len; i += 8) {
        uint64_t w = header[0] + i * 0x9e3779b97f4a7c15u;

        if (memcmp(value + i, &w, len - i < 8 ? len - i : 8) != 0)
            return false;
    }
    return true;
}
