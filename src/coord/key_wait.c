/*
 * coord/key_wait.c: gets that wait for their key: a key wait is a key, and all its waiters, in the order in which they
 * came.
 *
 * Key waits are found by their key's bucket. What a wire client writes is looked up at once. What others write shows in
 * the words of the buckets: one pass over those where something is waited for, and a look only where the word has
 * changed. So ten thousand gets cost little until their keys come.
 */
#include <stdlib.h>
#include <string.h>

#include "coord/remote.h"
#include "base/list.h"
#include "segment/object.h"

enum { SMALL = 256 /* bytes of a value that is read at once */ };

static uint32_t bucket_of(const struct mu_coord *coord, const struct mu_key *k)
{
    return (uint32_t)(k->hash >> 20) & mu_table_kv(coord->seg).mask;
}

/* ---- what is waited for ---- */

static struct mu_key_wait_spot *spot_at(struct mu_coord *coord, uint32_t bucket, uint64_t word)
{
    struct mu_key_wait_spot *s;

    if (!coord->spots)
        coord->spots = calloc(coord->seg->num_buckets, sizeof(struct mu_key_wait_spot *));
    if (!coord->spots || coord->spots[bucket])
        return coord->spots ? coord->spots[bucket] : NULL;
    s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->bucket = bucket;
    s->word = word;
    MU_LIST_PUSH(coord->first_spot, s);
    return coord->spots[bucket] = s;
}

static void drop_spot(struct mu_coord *coord, struct mu_key_wait_spot *s)
{
    MU_LIST_DROP(coord->first_spot, s);
    coord->spots[s->bucket] = NULL;
    free(s);
}

static struct mu_key_wait *key_wait_find(const struct mu_key_wait_spot *s, const struct mu_key *k)
{
    struct mu_key_wait *w = s ? s->waits : NULL;

    while (w && (w->hash != k->hash || w->len != k->len || memcmp(w->key, k->words, k->len) != 0))
        w = w->next;
    return w;
}

/* With the last one its spot goes. */
void mu_coord_key_wait_drop(struct mu_coord *coord, struct mu_key_wait *w)
{
    struct mu_key_wait_spot *s = w->spot;

    MU_LIST_DROP(s->waits, w);
    if (w->fetch)
        mu_coord_key_fetch_drop(coord, w->fetch);
    free(w);
    if (!s->waits)
        drop_spot(coord, s);
}

static bool is_wanted(const struct mu_key_wait *w)
{
    return w->requests.count || w->tries.count;
}

static struct mu_key_wait *key_wait_of(struct mu_coord *coord, const struct mu_key *k, uint64_t word)
{
    struct mu_key_wait_spot *s = spot_at(coord, bucket_of(coord, k), word);
    struct mu_key_wait *w = key_wait_find(s, k);

    if (!s || w)
        return w;
    w = calloc(1, sizeof *w + k->len);
    if (w) {
        w->spot = s;
        w->hash = k->hash;
        w->len = k->len;
        memcpy(w->key, k->words, k->len);
        MU_LIST_PUSH(s->waits, w);
    } else if (!s->waits) {
        drop_spot(coord, s);
    }
    return w;
}

static void get_dropped(struct mu_coord *coord, struct mu_coord_pending *p)
{
    struct mu_key_wait *w = p->at;

    if (!is_wanted(w))
        mu_coord_key_wait_drop(coord, w);
}

enum muster_status mu_coord_key_wait_add(struct mu_coord *coord, struct mu_coord_request *request,
                                         const struct mu_key *k, uint64_t word, bool waits)
{
    struct mu_key_wait *w = key_wait_of(coord, k, word);
    struct mu_coord_pending *p;

    if (!w)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a get that waits");
    p = mu_coord_pending_new(coord, request, waits ? &w->requests : &w->tries,
                             k->len + (coord->remote ? mu_key_fetch_bytes : 0));
    if (p) {
        p->at = w;
        p->dropped = get_dropped;
        return MUSTER_OK;
    }
    if (!is_wanted(w))
        mu_coord_key_wait_drop(coord, w);
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

enum muster_status mu_coord_fetch(struct mu_coord *coord, struct mu_ctx *ctx, const struct mu_key *k,
                                  enum mu_coord_fetch_kind how, struct mu_found *ret_found, struct mu_blob **ret)
{
    struct mu_table t = mu_table_kv(coord->seg);
    struct mu_value *kept = &coord->values[k->hash % MU_VALUES];
    uint8_t small[SMALL];
    size_t room = 0;

    *ret = NULL;
    for (;;) {
        struct mu_blob *s = room ? mu_blob_new_in(coord->o.account, how == MU_FETCH_FAVOURED, room) : NULL;
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

void mu_coord_point(struct mu_coord_request *request, struct mu_blob *value, uint64_t version)
{
    size_t head = request->head < value->len ? request->head : value->len;

    request->blob = head ? NULL : value; /* a long key lies in front: the rest is copied */
    request->value = (const uint8_t *)value->bytes + head;
    request->len = value->len - head;
    request->version = (int64_t)version;
}

void mu_coord_key_wait_grant(struct mu_coord *coord, struct mu_coord_pending *p, struct mu_blob *value,
                             uint64_t version)
{
    mu_coord_pending_answer(coord, p, MUSTER_OK, MU_PAYLOAD_NONE, NULL);
    p->shared = mu_blob_hold(value);
    mu_coord_point(p->request, value, version);
}

static void waiting_list_answer(struct mu_coord *coord, struct mu_coord_pending_list *l, enum muster_status status,
                                struct mu_blob *value, uint64_t version)
{
    while (l->first)
        if (status)
            mu_coord_pending_answer(coord, l->first, status, MU_PAYLOAD_NONE, muster_last_error());
        else
            mu_coord_key_wait_grant(coord, l->first, value, version);
}

static bool is_bare(const struct mu_coord_pending_list *l)
{
    const struct mu_coord_pending *p = l->first;

    while (p && p->request->is_bare)
        p = p->next;
    return !p;
}

/* All its waiters are answered, if the key is there: true, and the wait is gone. */
static bool key_wait_satisfy(struct mu_coord *coord, struct mu_ctx *ctx, struct mu_key_wait *w)
{
    struct mu_blob *value;
    struct mu_found found = {0};
    struct mu_key k;
    enum muster_status status;

    mu_key_make(&k, coord->seg, w->key, w->len);
    status = mu_coord_fetch(
        coord, ctx, &k, is_bare(&w->requests) && is_bare(&w->tries) ? MU_FETCH_BARE : MU_FETCH_VALUE, &found, &value);
    if (status == MUSTER_OK && !value)
        return false;
    waiting_list_answer(coord, &w->requests, status, value, found.version);
    waiting_list_answer(coord, &w->tries, status, value, found.version);
    mu_blob_drop(value);
    mu_coord_key_wait_drop(coord, w);
    return true;
}

bool mu_coord_key_wait_look(struct mu_coord *coord, struct mu_key_wait *w)
{
    struct mu_ctx *ctx;
    bool gone;

    if (mu_enter(coord->m, &ctx))
        return false;
    gone = key_wait_satisfy(coord, ctx, w);
    mu_exit(ctx);
    return gone;
}

void mu_coord_key_waits_written(struct mu_coord *coord, struct mu_ctx *ctx, const struct mu_key *k)
{
    struct mu_key_wait *w = coord->first_spot ? key_wait_find(coord->spots[bucket_of(coord, k)], k) : NULL;

    if (w)
        key_wait_satisfy(coord, ctx, w);
}

/* The spot may be gone afterwards. */
static void look_at(struct mu_coord *coord, struct mu_ctx *ctx, struct mu_key_wait_spot *s, uint64_t word)
{
    s->word = word; /* older than every look that follows */
    for (struct mu_key_wait *w = s->waits, *next; w; w = next) {
        next = w->next;
        key_wait_satisfy(coord, ctx, w);
    }
}

static void key_waits_look(struct mu_coord *coord)
{
    struct mu_table t = mu_table_kv(coord->seg);
    struct mu_ctx *ctx;

    if (!coord->first_spot || mu_enter(coord->m, &ctx))
        return;
    for (struct mu_key_wait_spot *s = coord->first_spot, *next; s; s = next) {
        /* acquire: pairs with the commits there; what the word names is read after it */
        uint64_t word = mu_load_acquire(&t.buckets[s->bucket]);

        next = s->next;
        if (!mu_word_same(word, s->word))
            look_at(coord, ctx, s, word);
    }
    mu_exit(ctx);
}

static void fail_heeding(struct mu_coord *coord, struct mu_key_wait *w, const char *text)
{
    for (struct mu_coord_pending *p = w->requests.first, *next; p; p = next) {
        next = p->next;
        if (p->request->heeds_errors)
            mu_coord_pending_answer(coord, p, MUSTER_ABORTED, MU_PAYLOAD_NONE, text);
    }
    if (!is_wanted(w))
        mu_coord_key_wait_drop(coord, w);
}

void mu_coord_key_waits_fail(struct mu_coord *coord, const char *text)
{
    for (struct mu_key_wait_spot *s = coord->first_spot, *next; s; s = next) {
        next = s->next;
        for (struct mu_key_wait *w = s->waits, *after; w; w = after) {
            after = w->next;
            fail_heeding(coord, w, text);
        }
    }
}

static void key_waits_stop(struct mu_coord *coord)
{
    for (struct mu_key_wait_spot *s = coord->first_spot; s; s = coord->first_spot) {
        struct mu_key_wait *w = s->waits;

        mu_fail(MUSTER_CANCELLED, "KeyValueStore destructed");
        waiting_list_answer(coord, &w->requests, MUSTER_CANCELLED, NULL, 0);
        waiting_list_answer(coord, &w->tries, MUSTER_CANCELLED, NULL, 0);
        mu_coord_key_wait_drop(coord, w);
    }
    free(coord->spots);
    coord->spots = NULL;
}

const struct mu_coord_feature mu_key_waits_feature = {.look = key_waits_look, .stop = key_waits_stop};
