/*
 * rpc/desk_wishes.c: gets that wait for their key: a wish is a key, and all who wait for it, in the order in which they
 * came.
 *
 * Wishes are found by their key's bucket. What a guest writes is looked up at once. What others write shows in the
 * words of the buckets: one pass over those where something is wished for, and a look only where the word has changed.
 * So ten thousand gets cost little until their keys come.
 */
#include <stdlib.h>
#include <string.h>

#include "rpc/desk_private.h"
#include "segment/object.h"

struct mu_wish {
    struct mu_wish *next; /* of its spot */
    struct mu_wish_spot *spot;
    struct mu_parked_list asks;
    uint64_t hash;
    uint32_t len;
    char key[];
};

/* A bucket where something is wished for. */
struct mu_wish_spot {
    struct mu_wish_spot *prev, *next;
    struct mu_wish *wishes;
    uint32_t bucket;
    uint64_t word; /* in which none of the wishes' keys was there */
};

static uint32_t bucket_of(const struct mu_desk *desk, const struct mu_key *k)
{
    return (uint32_t)(k->hash >> 20) & mu_table_kv(desk->seg).mask;
}

/* ---- what is wished for ---- */

static struct mu_wish_spot *spot_at(struct mu_desk *desk, uint32_t bucket, uint64_t word)
{
    struct mu_wish_spot *s;

    if (!desk->spots)
        desk->spots = calloc(desk->seg->num_buckets, sizeof(struct mu_wish_spot *));
    if (!desk->spots || desk->spots[bucket])
        return desk->spots ? desk->spots[bucket] : NULL;
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->bucket = bucket;
    s->word = word;
    s->next = desk->first_spot;
    if (s->next)
        s->next->prev = s;
    desk->first_spot = desk->spots[bucket] = s;
    return s;
}

static void drop_spot(struct mu_desk *desk, struct mu_wish_spot *s)
{
    *(s->prev ? &s->prev->next : &desk->first_spot) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    desk->spots[s->bucket] = NULL;
    free(s);
}

static struct mu_wish *find(const struct mu_wish_spot *s, const struct mu_key *k)
{
    struct mu_wish *w = s ? s->wishes : NULL;

    while (w && (w->hash != k->hash || w->len != k->len || memcmp(w->key, k->words, k->len) != 0))
        w = w->next;
    return w;
}

/* Nobody has it any more: it goes, and its spot with the last one. */
static void drop_wish(struct mu_desk *desk, struct mu_wish *w)
{
    struct mu_wish_spot *s = w->spot;
    struct mu_wish **at = &s->wishes;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    free(w);
    if (!s->wishes)
        drop_spot(desk, s);
}

static struct mu_wish *wish_for(struct mu_desk *desk, const struct mu_key *k, uint64_t word)
{
    struct mu_wish_spot *s = spot_at(desk, bucket_of(desk, k), word);
    struct mu_wish *w = find(s, k);

    if (!s || w)
        return w;
    w = calloc(1, sizeof *w + k->len);
    if (w) {
        w->spot = s;
        w->hash = k->hash;
        w->len = k->len;
        memcpy(w->key, k->words, k->len);
        w->next = s->wishes;
        s->wishes = w;
    } else if (!s->wishes) {
        drop_spot(desk, s);
    }
    return w;
}

static void get_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    struct mu_wish *w = p->at;

    if (!w->asks.count)
        drop_wish(desk, w);
}

enum muster_status mu_wish_park(struct mu_desk *desk, struct mu_ask *ask, const struct mu_key *k, uint64_t word)
{
    struct mu_wish *w = wish_for(desk, k, word);
    struct mu_parked *p;

    if (!w)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a get that waits");
    p = mu_desk_park(desk, ask, &w->asks, k->len);
    if (p) {
        p->at = w;
        p->dropped = get_dropped;
        return MUSTER_OK;
    }
    if (!w->asks.count)
        drop_wish(desk, w);
    return MUSTER_RESOURCE_EXHAUSTED;
}

/* ---- what comes ---- */

enum muster_status mu_desk_fetch(struct mu_desk *desk, struct mu_ctx *ctx, const struct mu_key *k,
                                 struct mu_found *ret_found, struct mu_shared **ret)
{
    struct mu_table t = mu_table_kv(desk->seg);
    size_t capacity = 256;

    *ret = NULL;
    for (;;) {
        struct mu_shared *s = mu_shared_new(capacity);
        enum muster_status status;

        if (!s)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value of %zu bytes", capacity);
        status = mu_table_get(&t, ctx, k, s->bytes, capacity, ret_found);
        if (!status && ret_found->version && ret_found->len <= capacity) {
            s->len = ret_found->len;
            *ret = s;
            return MUSTER_OK;
        }
        mu_shared_unref(s);
        if (status || !ret_found->version)
            return status;
        capacity = ret_found->len;
    }
}

/* Everybody who waits for it is answered, if it is there. */
static void satisfy(struct mu_desk *desk, struct mu_ctx *ctx, struct mu_wish *w)
{
    struct mu_shared *value;
    struct mu_found found = {0};
    struct mu_key k;
    enum muster_status status;

    mu_key_make(&k, desk->seg, w->key, w->len);
    status = mu_desk_fetch(desk, ctx, &k, &found, &value);
    if (status == MUSTER_OK && !value)
        return;
    while (w->asks.first) {
        struct mu_parked *p = w->asks.first;

        mu_parked_answer(desk, p, status, MU_PAYLOAD_NONE, status ? muster_last_error() : NULL);
        if (value) {
            p->shared = mu_shared_ref(value);
            p->ask->value = value->bytes;
            p->ask->len = value->len;
        }
    }
    mu_shared_unref(value);
    drop_wish(desk, w);
}

void mu_wishes_written(struct mu_desk *desk, struct mu_ctx *ctx, const struct mu_key *k)
{
    struct mu_wish *w = desk->first_spot ? find(desk->spots[bucket_of(desk, k)], k) : NULL;

    if (w)
        satisfy(desk, ctx, w);
}

/* The spot may be gone afterwards. */
static void look_at(struct mu_desk *desk, struct mu_ctx *ctx, struct mu_wish_spot *s, uint64_t word)
{
    s->word = word; /* older than every look that follows */
    for (struct mu_wish *w = s->wishes, *next; w; w = next) {
        next = w->next;
        satisfy(desk, ctx, w);
    }
}

void mu_wishes_look(struct mu_desk *desk)
{
    struct mu_table t = mu_table_kv(desk->seg);
    struct mu_ctx *ctx;

    if (!desk->first_spot || mu_enter(desk->m, &ctx))
        return;
    for (struct mu_wish_spot *s = desk->first_spot, *next; s; s = next) {
        /* acquire: pairs with the commits there; what the word names is read after it */
        uint64_t word = mu_load_acquire(&t.buckets[s->bucket]);

        next = s->next;
        if (!mu_word_same(word, s->word))
            look_at(desk, ctx, s, word);
    }
    mu_exit(ctx);
}

void mu_wishes_stop(struct mu_desk *desk)
{
    for (struct mu_wish_spot *s = desk->first_spot; s; s = desk->first_spot) {
        struct mu_wish *w = s->wishes;

        while (w->asks.first)
            mu_parked_answer(desk, w->asks.first, MUSTER_CANCELLED, MU_PAYLOAD_NONE, "KeyValueStore destructed");
        drop_wish(desk, w);
    }
    free(desk->spots);
    desk->spots = NULL;
}
