/*
 * ps/rows.c: tables: rows of numbers by 64-bit key, in one object that all tasks change in place.
 *
 *   counts │ entries: key, word │ buffers' claims: claim, entry │ buffers
 *
 * An entry's word names the buffer that has the key's row: buffer + 1, 32 | version 31 | S; 0: there is no row. A
 * buffer that an entry names never changes. A push claims a buffer that nobody has, writes the new row there, and puts
 * it into the entry's word by one CAS, the commit; the buffer that was there before is the one for its next row. So
 * nobody waits for anybody, and a row is never seen half.
 *
 * A claim: number of its changes 32 | incarnation 16 | slot + 1, 16 (0: nobody's). Its entry: the last one that the
 * buffer was written for. A buffer is somebody's where its claim names a thread that lives, or where its entry's word
 * names it. All others are free, and a claim is one CAS from the value that was looked at: its number tells whether
 * the buffer has changed hands since. What a SIGKILL leaves:
 *   with a claim, before the commit    a claim of a dead thread: free
 *   behind the commit                  the entry names the new buffer, its claim does not count; the old one has no
 *                                      claim and no entry: free
 *   with a key, and no row             an entry without a row, which the key's next push fills
 * There are as many more buffers than rows as threads can push, and some for rows that were not counted: a death
 * between a new row's commit and its count.
 */
#include "ps/private.h"

#include <string.h>

#include "base/error.h"
#include "segment/slot.h"

struct row_entry {
    mu_a64 key, word;
};
struct buffer_claim {
    mu_a64 claim, entry; /* entry: + 1 */
};
struct counts {
    mu_a64 rows;
    mu_a64 apart[15];
    mu_a64 next; /* a hint: a buffer that may never have been used */
    mu_a64 apart2[15];
};
enum { UNCOUNTED = 64, AHEAD = 4 /* keys */ };
#define TABLE_MAX (1ull << 44)

#define ROW_BUFFER(w)       ((uint32_t)((w) >> 32) - 1)
#define ROW_WORD(buffer, w) ((uint64_t)((buffer) + 1) << 32 | ((uint32_t)(w)&0xfffffffeu))
#define CLAIM(seen, owner)  (((((seen) >> 32) + 1) << 32) | (owner))
#define CLAIM_OWNER(c)      ((uint32_t)(c))
#define OWNER(ctx)          ((uint32_t)(ctx)->incarnation << 16 | ((ctx)->slot + 1))

/* ---- places ---- */

/* Entries: a power of two, twice the rows at least; and there is one more, for the key that is stored as 0. Words of a
 * row: values, state, steps. */
void mu_ps_table_plan(struct muster_ps *ps)
{
    ps->entries = 16;
    while (ps->entries < 2 * ps->config.rows)
        ps->entries *= 2;
    ps->buffers = ps->config.rows + ps->seg->num_slots + UNCOUNTED;
    ps->row_words = (ps->count * ps->width + 7) / 8 * (1 + ps->states) + 1;
}

static struct counts *counts_of(uint8_t *table)
{
    return (struct counts *)table;
}
static struct row_entry *entries_at(const struct muster_ps *ps)
{
    return (struct row_entry *)(ps->table + sizeof(struct counts));
}
static struct buffer_claim *claims_at(const struct muster_ps *ps)
{
    return (struct buffer_claim *)(entries_at(ps) + ps->entries + 1);
}
static mu_a64 *buffer_at(const struct muster_ps *ps, uint32_t buffer)
{
    return (mu_a64 *)(claims_at(ps) + ps->buffers) + buffer * ps->row_words;
}

uint64_t mu_ps_table_bytes(const struct muster_ps *ps)
{
    unsigned __int128 bytes = sizeof(struct counts) + (ps->entries + 1) * sizeof(struct row_entry) +
                              ps->buffers * sizeof(struct buffer_claim) +
                              (unsigned __int128)ps->buffers * ps->row_words * 8;

    return bytes > TABLE_MAX ? 0 : (uint64_t)bytes;
}

void mu_ps_table_clear(const struct muster_ps *ps, uint8_t *table)
{
    memset(table, 0,
           sizeof(struct counts) + (ps->entries + 1) * sizeof(struct row_entry) +
               ps->buffers * sizeof(struct buffer_claim));
}

uint64_t mu_ps_table_rows(const struct muster_ps *ps)
{
    return mu_load_relaxed(&counts_of(ps->table)->rows); /* relaxed: a number for people */
}

/* The key as it is stored: mixed, so that near keys lie apart, and none but one is 0. */
static uint64_t key_mix(uint64_t key)
{
    key = (key ^ 0x9e3779b97f4a7c15ull) * 0xd6e8feb86659fd93ull;
    return key ^ key >> 32;
}
static uint64_t key_unmix(uint64_t mixed)
{
    return ((mixed ^ mixed >> 32) * 0xcfee444d8b59a89bull) ^ 0x9e3779b97f4a7c15ull;
}

/* The key's entry; NULL: it has none, and, where it is to be made, all are taken. */
static struct row_entry *entry_find(const struct muster_ps *ps, uint64_t key, bool makes)
{
    uint64_t count = ps->entries, mixed = key_mix(key), at = mixed & (count - 1);
    struct row_entry *entries = entries_at(ps);

    if (!mixed)
        return &entries[count];
    for (uint64_t i = 0; i < count; i++, at = (at + 1) & (count - 1)) {
        /* relaxed: a key never changes; what it names is loaded with acquire */
        uint64_t there = mu_load_relaxed(&entries[at].key);

        if (!there && !makes)
            return NULL;
        /* acq_rel: one key has the place; pairs with the other CAS that finds it taken */
        if (!there && mu_cas_seen(&entries[at].key, &there, mixed))
            return &entries[at];
        if (there == mixed)
            return &entries[at];
    }
    return NULL;
}

/* The lines that later keys need: of some keys ahead the entry, of those before it the row that the entry names. */
static void rows_prefetch(const struct muster_ps *ps, const uint64_t *keys, size_t at, size_t count)
{
    if (at + 2 * AHEAD < count)
        __builtin_prefetch(&entries_at(ps)[key_mix(keys[at + 2 * AHEAD]) & (ps->entries - 1)]);
    if (at + AHEAD < count) {
        /* relaxed: a wrong guess costs a miss */
        uint64_t w = mu_load_relaxed(&entries_at(ps)[key_mix(keys[at + AHEAD]) & (ps->entries - 1)].word);
        const char *row = (const char *)buffer_at(ps, w ? ROW_BUFFER(w) : 0);

        __builtin_prefetch(&claims_at(ps)[w ? ROW_BUFFER(w) : 0]);
        for (uint64_t i = 0; i < ps->row_words * 8 && i < 512; i += 64)
            __builtin_prefetch(row + i);
    }
}

/* ---- buffers ---- */

static bool claimant_lives(const struct muster_segment *seg, uint64_t claim)
{
    uint32_t owner = CLAIM_OWNER(claim), slot = (owner & 0xffffu) - 1;
    uint64_t w;

    if (!owner || slot >= seg->num_slots)
        return false;
    w = mu_load_acquire(&seg->slots[slot].word); /* acquire: pairs with the claim and the burial */
    return MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_SLOT_INCARNATION(w) == owner >> 16 && !mu_slot_is_dead(seg, slot, w);
}

static bool buffer_try(const struct muster_ps *ps, struct mu_ctx *ctx, uint32_t buffer)
{
    struct buffer_claim *c = &claims_at(ps)[buffer];
    uint64_t seen = mu_load_acquire(&c->claim);  /* acquire: pairs with buffer_leave(); the entry comes before it */
    uint64_t entry = mu_load_acquire(&c->entry); /* acquire: the word is looked at behind it */

    if (claimant_lives(ps->seg, seen))
        return false;
    if (entry - 1 <= ps->entries) {
        uint64_t w = mu_load_acquire(&entries_at(ps)[entry - 1].word); /* acquire: pairs with the commit */

        if (w && ROW_BUFFER(w) == buffer)
            return false;
    }
    /* acq_rel: nobody has had it since, or the number would be another; pairs with buffer_leave() */
    return mu_cas(&c->claim, seen, CLAIM(seen, OWNER(ctx)));
}

static void buffer_leave(const struct muster_ps *ps, struct mu_ctx *ctx, uint32_t buffer)
{
    struct buffer_claim *c = &claims_at(ps)[buffer];
    uint64_t seen = mu_load_relaxed(&c->claim); /* relaxed: the CAS decides */

    /* acq_rel: pairs with buffer_try(). Not ours: the thread that replaced the row has taken it. */
    if (CLAIM_OWNER(seen) == OWNER(ctx))
        mu_cas(&c->claim, seen, CLAIM(seen, 0));
}

/* A buffer that nobody has. */
static enum muster_status buffer_find(struct muster_ps *ps, struct mu_ctx *ctx, uint32_t *ret_buffer)
{
    struct counts *counts = counts_of(ps->table);
    uint64_t count = ps->buffers;
    /* relaxed, process-local: a hint; its partner is push_end() */
    uint64_t at = atomic_load_explicit(&ps->spare, memory_order_relaxed);

    if (at < count && buffer_try(ps, ctx, (uint32_t)at)) {
        *ret_buffer = (uint32_t)at;
        return MUSTER_OK;
    }
    at = mu_load_relaxed(&counts->next); /* relaxed: a hint */
    for (uint64_t i = 0; i < count; i++, at++) {
        at = at < count ? at : 0;
        if (!buffer_try(ps, ctx, (uint32_t)at))
            continue;
        mu_store_relaxed(&counts->next, at + 1); /* relaxed: a hint */
        *ret_buffer = (uint32_t)at;
        return MUSTER_OK;
    }
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "table %s has no buffer free for a row", ps->name);
}

/* ---- rows ---- */

struct rows_push {
    struct muster_ps *ps;
    struct mu_ctx *ctx;
    bool sets, whole; /* whole: the rows are words as a file has them */
    double rate;
    uint32_t buffer; /* claimed */
    bool has;
};

/* The row as the push makes it, in the scratch; from the one that lies in `from`, or zeros. */
static void row_step(const struct rows_push *r, const mu_a64 *from, const void *data)
{
    uint64_t *row = r->ctx->scratch, words = r->ps->row_words, part = (words - 1) / (1 + r->ps->states);
    struct ps_step s = {.ps = r->ps, .rate = r->rate, .pushes = &data, .num_pushes = 1, .sets = r->sets};

    if (r->whole) {
        memcpy(row, data, words * 8);
        return;
    }
    if (from)
        mu_copy_out(row, from, words);
    else
        memset(row, 0, words * 8);
    if (!r->sets)
        row[words - 1]++;
    s.steps = row[words - 1];
    for (uint32_t i = 0; i <= r->ps->states; i++)
        s.from[i] = s.to[i] = row + i * part;
    mu_ps_step(&s, r->ps->count);
}

/* The buffer that the entry had is the next one's, unless somebody was quicker. */
static void buffer_next(struct rows_push *r, uint32_t old, uint64_t claim)
{
    buffer_leave(r->ps, r->ctx, r->buffer);
    r->buffer = old;
    /* acq_rel: the claim as it was before the commit took the buffer from its entry; pairs with buffer_try() */
    r->has = mu_cas(&claims_at(r->ps)[old].claim, claim, CLAIM(claim, OWNER(r->ctx)));
}

static enum muster_status row_is_new(const struct rows_push *r)
{
    if (mu_ps_table_rows(r->ps) < r->ps->config.rows)
        return MUSTER_OK;
    return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "table %s is full: it has %llu rows", r->ps->name,
                   (unsigned long long)r->ps->config.rows);
}

static enum muster_status row_push(struct rows_push *r, uint64_t key, const void *data)
{
    struct counts *counts = counts_of(r->ps->table);
    uint64_t words = r->ps->row_words, seen, claim = 0;
    enum muster_status status = r->has ? MUSTER_OK : buffer_find(r->ps, r->ctx, &r->buffer);
    struct row_entry *e;

    r->has = !status;
    e = !status ? entry_find(r->ps, key, false) : NULL;
    if (!status && (!e || !mu_load_relaxed(&e->word))) /* relaxed: the CAS decides */
        status = row_is_new(r);
    if (status)
        return status;
    e = e ? e : entry_find(r->ps, key, true);
    if (!e)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "table %s is full", r->ps->name);
    seen = mu_load_acquire(&e->word); /* acquire: pairs with the commit; the row comes before it */
    do {
        if (seen && ROW_BUFFER(seen) >= r->ps->buffers)
            return mu_fail(MUSTER_DATA_LOSS, "table %s is corrupt at key %llu", r->ps->name, (unsigned long long)key);
        if (seen) /* acquire: before the row, and the commit; pairs with buffer_leave() */
            claim = mu_load_acquire(&claims_at(r->ps)[ROW_BUFFER(seen)].claim);
        row_step(r, seen ? buffer_at(r->ps, ROW_BUFFER(seen)) : NULL, data);
        mu_copy_in(buffer_at(r->ps, r->buffer), r->ctx->scratch, words);
        /* release: before the commit names it; pairs with buffer_try() */
        mu_store_release(&claims_at(r->ps)[r->buffer].entry, (uint64_t)(e - entries_at(r->ps)) + 1);
        /* The commit. acq_rel: releases the row; and acquires the one that came first. */
    } while (!mu_cas_seen(&e->word, &seen, ROW_WORD(r->buffer, (uint32_t)seen + 2)));
    if (seen) {
        buffer_next(r, ROW_BUFFER(seen), claim);
        return MUSTER_OK;
    }
    for (uint64_t n = mu_load_relaxed(&counts->rows); !mu_cas_seen(&counts->rows, &n, n + 1);) /* relaxed: a number */
        ;
    buffer_leave(r->ps, r->ctx, r->buffer);
    r->has = false;
    return MUSTER_OK;
}

static void push_end(struct rows_push *r)
{
    if (!r->has)
        return;
    buffer_leave(r->ps, r->ctx, r->buffer);
    /* relaxed, process-local: a hint; its partner is buffer_find() */
    atomic_store_explicit(&r->ps->spare, r->buffer, memory_order_relaxed);
}

static enum muster_status rows_push(struct muster_ps *ps, const uint64_t *keys, size_t count, const void *rows,
                                    bool sets, size_t *ret_done)
{
    struct rows_push r = {.ps = ps, .sets = sets};
    enum muster_status status = mu_ps_refuse_kind(ps, true);
    uint64_t bits;
    size_t i = 0;

    if (!status)
        status = mu_enter(ps->m, &r.ctx);
    if (!status) {
        bits = mu_load_relaxed(ps->rate); /* relaxed: a number of its own */
        memcpy(&r.rate, &bits, sizeof bits);
        for (; !status && i < count; i += !status) {
            rows_prefetch(ps, keys, i, count);
            status = row_push(&r, keys[i], (const uint8_t *)rows + i * ps->count * ps->width);
        }
        push_end(&r);
        mu_exit(r.ctx);
    }
    if (ret_done)
        *ret_done = i;
    return status;
}

enum muster_status muster_ps_rows_push(struct muster_ps *ps, const uint64_t *keys, size_t count, const void *rows,
                                       size_t *ret_done)
{
    return rows_push(ps, keys, count, rows, false, ret_done);
}

enum muster_status muster_ps_rows_set(struct muster_ps *ps, const uint64_t *keys, size_t count, const void *rows,
                                      size_t *ret_done)
{
    return rows_push(ps, keys, count, rows, true, ret_done);
}

/* Copy the row out that the entry has: so many words. False: there is none. */
static bool row_copy(const struct muster_ps *ps, const struct row_entry *e, uint64_t *to, uint64_t words)
{
    for (;;) {
        uint64_t w = mu_load_acquire(&e->word); /* acquire: pairs with the commit */

        if (!w || ROW_BUFFER(w) >= ps->buffers)
            return false;
        mu_copy_out(to, buffer_at(ps, ROW_BUFFER(w)), words);
        if (mu_word_same(mu_recheck(&e->word), w))
            return true;
    }
}

enum muster_status muster_ps_rows_pull(struct muster_ps *ps, const uint64_t *keys, size_t count, void *ret_rows,
                                       unsigned char *ret_there)
{
    enum muster_status status = mu_ps_refuse_kind(ps, true);
    uint64_t bytes, words;
    struct mu_ctx *ctx;

    if (!status)
        status = mu_enter(ps->m, &ctx);
    if (status)
        return status;
    bytes = ps->count * ps->width;
    words = (bytes + 7) / 8;
    for (size_t i = 0; i < count; i++) {
        uint8_t *to = (uint8_t *)ret_rows + i * bytes;
        bool whole = bytes % 8 == 0 && (uintptr_t)to % 8 == 0; /* words can be copied there */
        struct row_entry *e;
        bool there;

        rows_prefetch(ps, keys, i, count);
        e = entry_find(ps, keys[i], false);
        there = e && row_copy(ps, e, whole ? (uint64_t *)to : ctx->scratch, words);
        if (!there)
            memset(to, 0, bytes);
        else if (!whole)
            memcpy(to, ctx->scratch, bytes);
        if (ret_there)
            ret_there[i] = there;
    }
    mu_exit(ctx);
    return MUSTER_OK;
}

/* ---- for files ---- */

uint64_t mu_ps_row_bytes(const struct muster_ps *ps)
{
    return ps->row_words * 8;
}

uint64_t mu_ps_table_entries(const struct muster_ps *ps)
{
    return ps->entries + 1;
}

bool mu_ps_row_read(const struct muster_ps *ps, uint64_t entry, uint64_t *ret_key, uint64_t *ret_words)
{
    const struct row_entry *e = &entries_at(ps)[entry];

    *ret_key = key_unmix(mu_load_relaxed(&e->key)); /* relaxed: as in entry_find() */
    return row_copy(ps, e, ret_words, ps->row_words);
}

enum muster_status mu_ps_row_write(struct muster_ps *ps, uint64_t key, const uint64_t *words)
{
    struct rows_push r = {.ps = ps, .whole = true};
    enum muster_status status = mu_enter(ps->m, &r.ctx);

    if (status)
        return status;
    status = row_push(&r, key, words);
    push_end(&r);
    mu_exit(r.ctx);
    return status;
}
