/*
 * tests/lin/checker.c: is there an order of the operations that keeps real time and that the model accepts?
 *
 * Depth first: any operation that was called before every unplaced one that returned had returned may come next. A
 * configuration (the set of placed operations, and the model's state) that was left without success is remembered by
 * a 128-bit hash and not entered again. Done when all that returned are placed: those that were killed may be left out.
 */
#include <stdlib.h>
#include <string.h>

#include "history.h"

enum { SET_WORDS = OPS_MAX / 64 };

struct search {
    const struct op *ops;
    size_t count, required;
    uint64_t placed[SET_WORDS];
    uint64_t (*memory)[2];
    uint64_t capacity, used, most;
    bool gave_up;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x7fb5d329728ea185u;
    x ^= x >> 27;
    x *= 0x81dadef4bc2dd44du;
    return x ^ (x >> 33);
}

static void hash(const struct search *s, const struct reg *r, uint64_t h[2])
{
    uint64_t words[4 + BYTES_MAX / 8] = {r->present, r->exact, r->len, r->version};

    memcpy(words + 4, r->bytes, BYTES_MAX);
    h[0] = 0x243f6a8885a308d3u;
    h[1] = 0x13198a2e03707344u;
    for (size_t i = 0; i < SET_WORDS; i++) {
        h[0] = mix(h[0] ^ s->placed[i]);
        h[1] = mix(h[1] + s->placed[i] * 0x9e3779b97f4a7c15u);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        h[0] = mix(h[0] ^ words[i]);
        h[1] = mix(h[1] + words[i] * 0x9e3779b97f4a7c15u);
    }
    h[0] |= 1; /* 0 is an empty place */
}

static bool grow(struct search *s)
{
    uint64_t capacity = s->capacity ? 2 * s->capacity : 4096;
    uint64_t(*memory)[2] = calloc(capacity, sizeof *memory);

    if (!memory)
        return false;
    for (uint64_t i = 0; i < s->capacity; i++) {
        uint64_t at = s->memory[i][1] & (capacity - 1);

        if (!s->memory[i][0])
            continue;
        while (memory[at][0])
            at = (at + 1) & (capacity - 1);
        memcpy(memory[at], s->memory[i], sizeof memory[at]);
    }
    free(s->memory);
    s->memory = memory;
    s->capacity = capacity;
    return true;
}

/* False: been there. */
static bool enter(struct search *s, const struct reg *r)
{
    uint64_t h[2], at;

    hash(s, r, h);
    if (2 * s->used >= s->capacity && !grow(s)) {
        s->gave_up = true;
        return false;
    }
    for (at = h[1] & (s->capacity - 1); s->memory[at][0]; at = (at + 1) & (s->capacity - 1))
        if (s->memory[at][0] == h[0] && s->memory[at][1] == h[1])
            return false;
    memcpy(s->memory[at], h, sizeof h);
    s->gave_up |= ++s->used > s->most;
    return !s->gave_up;
}

static bool is_placed(const struct search *s, size_t i)
{
    return s->placed[i / 64] >> (i % 64) & 1;
}

static bool place(struct search *s, const struct reg *r, size_t left)
{
    uint64_t first_return = UINT64_MAX;

    if (!left)
        return true;
    if (!enter(s, r))
        return false;
    for (size_t i = 0; i < s->count; i++)
        if (!is_placed(s, i) && s->ops[i].returned < first_return)
            first_return = s->ops[i].returned;
    for (size_t i = 0; i < s->count && !s->gave_up; i++) {
        struct reg next = *r;

        if (is_placed(s, i) || s->ops[i].called > first_return || !reg_apply(&next, &s->ops[i]))
            continue;
        s->placed[i / 64] |= 1ull << (i % 64);
        if (place(s, &next, left - (s->ops[i].returned != UINT64_MAX)))
            return true;
        s->placed[i / 64] &= ~(1ull << (i % 64));
    }
    return false;
}

enum verdict history_check(const struct reg *start, const struct op *ops, size_t count, uint64_t most,
                           uint64_t *ret_steps)
{
    struct search s = {.ops = ops, .count = count, .most = most};
    bool found;

    if (count > OPS_MAX)
        return UNDECIDED;
    for (size_t i = 0; i < count; i++)
        s.required += ops[i].returned != UINT64_MAX;
    found = place(&s, start, s.required);
    if (ret_steps)
        *ret_steps = s.used;
    free(s.memory);
    return found ? LINEARIZABLE : s.gave_up ? UNDECIDED : NOT_LINEARIZABLE;
}

void history_go_on(struct reg *start, const struct op *ops, size_t count)
{
    const struct op *last = &ops[count - 1];
    uint64_t highest = start->version;

    for (size_t i = 0; i < count; i++)
        if (ops[i].returned != UINT64_MAX && (ops[i].kind == OP_SET || ops[i].kind == OP_GET) &&
            ops[i].version > highest)
            highest = ops[i].version;
    *start = (struct reg){.version = highest};
    if (last->status == MUSTER_OK) {
        *start = (struct reg){.present = true, .exact = true, .version = last->version, .len = last->found_len};
        memcpy(start->bytes, last->found, last->found_len);
    }
}
