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

#include "rpc/desk_remote.h"
#include "segment/object.h"

enum { SMALL = 256 /* bytes of a value that is read at once */ };

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

/* With the last one its spot goes. */
void mu_wish_drop(struct mu_desk *desk, struct mu_wish *w)
{
    struct mu_wish_spot *s = w->spot;

    *(w->before ? &w->before->next : &s->wishes) = w->next;
    if (w->next)
        w->next->before = w->before;
    if (w->fetch)
        mu_key_fetch_drop(desk, w->fetch);
    free(w);
    if (!s->wishes)
        drop_spot(desk, s);
}

static bool is_wanted(const struct mu_wish *w)
{
    return w->asks.count || w->tries.count;
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
        if (w->next)
            w->next->before = w;
        s->wishes = w;
    } else if (!s->wishes) {
        drop_spot(desk, s);
    }
    return w;
}

static void get_dropped(struct mu_desk *desk, struct mu_parked *p)
{
    struct mu_wish *w = p->at;

    if (!is_wanted(w))
        mu_wish_drop(desk, w);
}

enum muster_status mu_wish_park(struct mu_desk *desk, struct mu_ask *ask, const struct mu_key *k, uint64_t word,
                                bool waits)
{
    struct mu_wish *w = wish_for(desk, k, word);
    struct mu_parked *p;

    if (!w)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a get that waits");
    p = mu_desk_park(desk, ask, waits ? &w->asks : &w->tries, k->len + (desk->remote ? mu_key_fetch_bytes : 0));
    if (p) {
        p->at = w;
        p->dropped = get_dropped;
        return MUSTER_OK;
    }
    if (!is_wanted(w))
        mu_wish_drop(desk, w);
    return MUSTER_RESOURCE_EXHAUSTED;
}

/* ---- what comes ---- */

/* The value that has been read is the answer; a long one has a seat. */
static enum muster_status value_found(const struct mu_found *found, struct mu_value *kept, uint64_t hash,
                                      const uint8_t *small, struct mu_blob *s, struct mu_blob **ret)
{
    if (!s) {
        s = mu_blob_new(found->len);
        if (!s)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a value of %zu bytes", found->len);
        memcpy(s->bytes, small, found->len);
    }
    mu_blob_cut(s, found->len);
    if (found->len >= MU_VALUE_LEAST) {
        mu_blob_sit(s, &kept->blob);
        kept->hash = hash;
        kept->version = found->version;
    }
    *ret = s;
    return MUSTER_OK;
}

enum muster_status mu_desk_fetch(struct mu_desk *desk, struct mu_ctx *ctx, const struct mu_key *k, enum mu_fetch how,
                                 struct mu_found *ret_found, struct mu_blob **ret)
{
    struct mu_table t = mu_table_kv(desk->seg);
    struct mu_value *kept = &desk->values[k->hash % MU_VALUES];
    uint8_t small[SMALL];
    size_t room = 0;

    *ret = NULL;
    for (;;) {
        struct mu_blob *s = room ? mu_blob_new_in(desk->o.account, how == MU_FETCH_FAVOURED, room) : NULL;
        enum muster_status status;

        if (room && !s)
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                           "no room for a value of %zu bytes: too much is held already for clients", room);
        status = mu_table_get(&t, ctx, k, s ? s->bytes : small, s ? room : sizeof small, ret_found);
        if (!status && ret_found->version && ret_found->len <= (s ? room : sizeof small))
            return value_found(ret_found, kept, k->hash, small, s, ret);
        mu_blob_drop(s);
        if (status || !ret_found->version)
            return status;
        room = ret_found->len;
        if (how == MU_FETCH_BARE) {
            *ret = mu_blob_new(0);
            return *ret ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for an answer");
        }
        if (kept->blob && kept->hash == k->hash && kept->version == ret_found->version) {
            *ret = mu_blob_hold(kept->blob);
            return MUSTER_OK;
        }
    }
}

void mu_desk_point(struct mu_ask *ask, struct mu_blob *value, uint64_t version)
{
    size_t head = ask->head < value->len ? ask->head : value->len;

    ask->blob = head ? NULL : value; /* a long key lies in front: the rest is copied */
    ask->value = (const uint8_t *)value->bytes + head;
    ask->len = value->len - head;
    ask->version = (int64_t)version;
}

void mu_wish_grant(struct mu_desk *desk, struct mu_parked *p, struct mu_blob *value, uint64_t version)
{
    mu_parked_answer(desk, p, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    p->shared = mu_blob_hold(value);
    mu_desk_point(p->ask, value, version);
}

static void answer_list(struct mu_desk *desk, struct mu_parked_list *l, enum muster_status status,
                        struct mu_blob *value, uint64_t version)
{
    while (l->first)
        if (status)
            mu_parked_answer(desk, l->first, status, MU_PAYLOAD_NONE, muster_last_error());
        else
            mu_wish_grant(desk, l->first, value, version);
}

static bool is_bare(const struct mu_parked_list *l)
{
    const struct mu_parked *p = l->first;

    while (p && p->ask->is_bare)
        p = p->next;
    return !p;
}

/* Everybody who wants it is answered, if it is there: true, and the wish is gone. */
static bool satisfy(struct mu_desk *desk, struct mu_ctx *ctx, struct mu_wish *w)
{
    struct mu_blob *value;
    struct mu_found found = {0};
    struct mu_key k;
    enum muster_status status;

    mu_key_make(&k, desk->seg, w->key, w->len);
    status = mu_desk_fetch(desk, ctx, &k, is_bare(&w->asks) && is_bare(&w->tries) ? MU_FETCH_BARE : MU_FETCH_VALUE,
                           &found, &value);
    if (status == MUSTER_OK && !value)
        return false;
    answer_list(desk, &w->asks, status, value, found.version);
    answer_list(desk, &w->tries, status, value, found.version);
    mu_blob_drop(value);
    mu_wish_drop(desk, w);
    return true;
}

bool mu_wish_look(struct mu_desk *desk, struct mu_wish *w)
{
    struct mu_ctx *ctx;
    bool gone;

    if (mu_enter(desk->m, &ctx))
        return false;
    gone = satisfy(desk, ctx, w);
    mu_exit(ctx);
    return gone;
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

static void fail_heeding(struct mu_desk *desk, struct mu_wish *w, const char *text)
{
    for (struct mu_parked *p = w->asks.first, *next; p; p = next) {
        next = p->next;
        if (p->ask->heeds_errors)
            mu_parked_answer(desk, p, MUSTER_ABORTED, MU_PAYLOAD_NONE, text);
    }
    if (!is_wanted(w))
        mu_wish_drop(desk, w);
}

void mu_wishes_fail(struct mu_desk *desk, const char *text)
{
    for (struct mu_wish_spot *s = desk->first_spot, *next; s; s = next) {
        next = s->next;
        for (struct mu_wish *w = s->wishes, *after; w; w = after) {
            after = w->next;
            fail_heeding(desk, w, text);
        }
    }
}

void mu_wishes_stop(struct mu_desk *desk)
{
    for (struct mu_wish_spot *s = desk->first_spot; s; s = desk->first_spot) {
        struct mu_wish *w = s->wishes;

        mu_fail(MUSTER_CANCELLED, "KeyValueStore destructed");
        answer_list(desk, &w->asks, MUSTER_CANCELLED, NULL, 0);
        answer_list(desk, &w->tries, MUSTER_CANCELLED, NULL, 0);
        mu_wish_drop(desk, w);
    }
    free(desk->spots);
    desk->spots = NULL;
}
