/*
 * tests/sim/lin.c: see lin.h.
 */
#include "lin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SEEN = 1 << 14 };

struct state {
    struct lin_value keys[LIN_KEYS];
    uint64_t commits[2];
};

struct search {
    const struct lin_history *h;
    uint64_t seen[SEEN];
    uint32_t seen_count;
};

uint64_t lin_hash(uint64_t hash, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ull;
    return hash;
}

static void put(struct state *s, const struct lin_history *h, uint32_t key, struct lin_value v)
{
    v.version = ++s->commits[h->bucket[key]];
    s->keys[key] = v;
}

static bool same(const struct lin_value *a, const struct lin_value *b)
{
    return a->version == b->version && (!a->version || (a->hash == b->hash && a->len == b->len));
}

/* What is there, and behind it the words that `more` was made of: see lin_word(). */
static struct lin_value joined(const struct lin_value *there, const struct lin_value *more)
{
    struct lin_value v = {.hash = there ? there->hash : LIN_EMPTY, .len = (there ? there->len : 0) + more->len};

    for (uint32_t i = 0; i < more->len / 8; i++) {
        uint64_t word = lin_word(more->hash, i);

        v.hash = lin_hash(v.hash, &word, 1);
    }
    return v;
}

/* What the operation does when it comes next; false: it could not have answered what it did. */
static bool apply(const struct lin_history *h, const struct lin_op *o, struct state *s)
{
    struct lin_value *k = &s->keys[o->key];
    bool there = k->version != 0, write = true;
    struct lin_value v = o->value;
    enum muster_status status = MUSTER_OK;

    switch (o->kind) {
    case LIN_SET: break;
    case LIN_INSERT:
        write = !there;
        status = there ? MUSTER_ALREADY_EXISTS : MUSTER_OK;
        break;
    case LIN_CAS:
        write = k->version == o->expected;
        status = write ? MUSTER_OK : MUSTER_ABORTED;
        if (o->done && !write && o->version != k->version)
            return false;
        break;
    case LIN_APPEND:
        v = joined(there ? k : NULL, &o->value);
        if (o->done && o->number != v.len)
            return false;
        break;
    case LIN_ADD:
        v = (struct lin_value){.hash = (there ? k->hash : 0) + (uint64_t)o->by};
        if (o->done && o->number != v.hash)
            return false;
        break;
    case LIN_DELETE:
        write = false;
        if (o->done && o->number != there)
            return false;
        if (there) {
            s->commits[h->bucket[o->key]]++;
            k->version = 0;
        }
        break;
    case LIN_GET: return !o->done || same(k, &o->value);
    case LIN_LIST:
        for (uint32_t i = 0; o->done && i < LIN_KEYS; i++)
            if (!same(&s->keys[i], &o->list[i]))
                return false;
        return true;
    case LIN_COUNT:
        return !o->done || o->number == (uint64_t)(!!s->keys[0].version + !!s->keys[1].version + !!s->keys[2].version);
    }
    if (write)
        put(s, h, o->key, v);
    if (!o->done)
        return true;
    return o->status == status && (!write || !o->version || o->version == k->version);
}

/* True: this set of operations with this state was tried before. */
static bool met(struct search *x, uint64_t mask, const struct state *s)
{
    uint64_t h = lin_hash(mask + 1, (const uint64_t *)s, sizeof *s / 8) | 1;

    for (uint32_t i = (uint32_t)(h >> 40) % SEEN;; i = (i + 1) % SEEN) {
        if (x->seen[i] == h)
            return true;
        if (!x->seen[i]) {
            if (x->seen_count < SEEN / 2) {
                x->seen[i] = h;
                x->seen_count++;
            }
            return false;
        }
    }
}

/* `latest`: the latest beginning among those already in order; who had ended before it cannot come now. */
static bool search(struct search *x, uint64_t mask, const struct state *s, uint64_t latest)
{
    const struct lin_history *h = x->h;
    uint64_t first_end = UINT64_MAX;
    bool left = false;

    for (uint32_t i = 0; i < h->count; i++)
        if (!(mask & 1ull << i) && h->ops[i].done) {
            left = true;
            first_end = h->ops[i].ended < first_end ? h->ops[i].ended : first_end;
        }
    if (!left)
        return true;
    if (met(x, mask, s))
        return false;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct lin_op *o = &h->ops[i];
        struct state next = *s;

        if ((mask & 1ull << i) || o->began > first_end || o->ended < latest || !apply(h, o, &next))
            continue;
        if (search(x, mask | 1ull << i, &next, o->began > latest ? o->began : latest))
            return true;
    }
    return false;
}

bool lin_check(const struct lin_history *h)
{
    static struct search x;
    struct state s;

    memset(&s, 0, sizeof s);
    memcpy(s.commits, h->commits, sizeof s.commits);
    if (x.seen_count)
        memset(&x, 0, sizeof x);
    x.h = h;
    return search(&x, 0, &s, 0);
}

void lin_print(const struct lin_history *h)
{
    static const char *const kinds[] = {"set", "insert", "cas", "append", "add", "delete", "get", "list", "count"};

    for (uint32_t i = 0; i < h->count; i++) {
        const struct lin_op *o = &h->ops[i];

        fprintf(stderr, "  %4" PRIu64 " to %4" PRIu64 " task %u: %s key %u, value %016" PRIx64 "/%u", o->began,
                o->ended, o->task, kinds[o->kind], o->key, o->value.hash, o->value.len);
        if (o->kind == LIN_CAS)
            fprintf(stderr, ", expected %" PRIu64, o->expected);
        if (!o->done)
            fprintf(stderr, ": killed\n");
        else
            fprintf(stderr, ": %s, version %" PRIu64 ", number %" PRIu64 "\n", muster_status_name(o->status),
                    o->kind == LIN_GET ? o->value.version : o->version, o->number);
        for (uint32_t k = 0; o->kind == LIN_LIST && k < LIN_KEYS; k++)
            fprintf(stderr, "      key %u: %016" PRIx64 "/%u, version %" PRIu64 "\n", k, o->list[k].hash,
                    o->list[k].len, o->list[k].version);
    }
}
