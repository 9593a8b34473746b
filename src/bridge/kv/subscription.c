/*
 * bridge/kv/subscription.c: which host wants which key.
 *
 * The watched buckets lie one behind the other, because all their words are compared in every turn; each has a list of
 * its wanted keys, and each key its hosts. A bucket that nobody watches any more gives its place to the last one.
 */
#include "bridge/kv/subscription.h"

#include <stdlib.h>
#include <string.h>

bool mu_subscription_init(struct mu_subscription *in, uint32_t num_buckets, uint32_t num_hosts)
{
    memset(in, 0, sizeof *in);
    in->num_buckets = num_buckets;
    in->num_hosts = num_hosts;
    in->at = calloc(num_buckets, sizeof *in->at);
    in->shares = calloc(num_hosts, sizeof *in->shares);
    return in->at && in->shares;
}

static void free_key(struct mu_wanted *k)
{
    mu_blob_drop(k->blob);
    free(k->wants);
    free(k);
}

void mu_subscription_done(struct mu_subscription *in)
{
    for (uint32_t i = 0; i < in->count; i++)
        while (in->watched[i].keys) {
            struct mu_wanted *k = in->watched[i].keys;

            in->watched[i].keys = k->next;
            free_key(k);
        }
    free(in->watched);
    free(in->shares);
    free(in->at);
    memset(in, 0, sizeof *in);
}

static struct mu_watched *bucket_of(const struct mu_subscription *in, uint32_t bucket)
{
    return bucket < in->num_buckets && in->at[bucket] ? &in->watched[in->at[bucket] - 1] : NULL;
}

static struct mu_wanted *key_of(const struct mu_watched *w, const void *key, size_t len)
{
    struct mu_wanted *k = w ? w->keys : NULL;

    while (k && (k->key_len != len || memcmp(k->key, key, len)))
        k = k->next;
    return k;
}

struct mu_want *mu_subscription_find(const struct mu_subscription *in, uint32_t host, uint32_t bucket, const void *key,
                                     size_t len)
{
    struct mu_wanted *k = key_of(bucket_of(in, bucket), key, len);

    for (uint32_t i = 0; k && i < k->count; i++)
        if (k->wants[i].host == host)
            return &k->wants[i];
    return NULL;
}

static struct mu_watched *make_bucket(struct mu_subscription *in, uint32_t bucket)
{
    struct mu_watched *w = bucket_of(in, bucket);

    if (w)
        return w;
    if (in->count == in->capacity) {
        uint32_t n = in->capacity ? in->capacity * 2 : 64;
        struct mu_watched *more = realloc(in->watched, n * sizeof *more);

        if (!more)
            return NULL;
        in->watched = more;
        in->capacity = n;
    }
    w = &in->watched[in->count++];
    *w = (struct mu_watched){.bucket = bucket, .again = true};
    in->at[bucket] = in->count;
    return w;
}

/* A bucket without keys is watched no more. */
static void drop_bucket(struct mu_subscription *in, uint32_t bucket)
{
    uint32_t i = in->at[bucket] - 1, last = in->count - 1;

    in->watched[i] = in->watched[last];
    in->at[in->watched[i].bucket] = i + 1;
    in->at[bucket] = 0;
    in->count--;
}

static struct mu_wanted *make_key(struct mu_watched *w, const void *key, size_t len)
{
    struct mu_wanted *k = calloc(1, sizeof *k + len);

    if (!k)
        return NULL;
    k->key_len = (uint32_t)len;
    memcpy(k->key, key, len);
    k->next = w->keys;
    w->keys = k;
    return k;
}

static struct mu_want *make_want(struct mu_wanted *k, uint32_t host)
{
    if (k->count == k->capacity) {
        uint32_t n = k->capacity ? k->capacity * 2 : 1;
        struct mu_want *more = realloc(k->wants, n * sizeof *more);

        if (!more)
            return NULL;
        k->wants = more;
        k->capacity = n;
    }
    k->wants[k->count] = (struct mu_want){.host = host};
    return &k->wants[k->count++];
}

static bool wanted_by_nobody(void *arg, const struct mu_wanted *key, const struct mu_want *want)
{
    (void)arg;
    (void)key;
    (void)want;
    return false;
}

struct mu_want *mu_subscription_add(struct mu_subscription *in, uint32_t host, uint32_t bucket, const void *key,
                                    size_t len)
{
    struct mu_want *want = mu_subscription_find(in, host, bucket, key, len);
    struct mu_share *share = &in->shares[host];
    struct mu_watched *w;
    struct mu_wanted *k;

    if (want)
        return want;
    if (share->keys >= MU_WANTS_MAX || share->bytes + len > MU_WANTS_BYTES_MAX)
        return NULL;
    w = make_bucket(in, bucket);
    if (!w)
        return NULL;
    k = key_of(w, key, len);
    if (!k)
        k = make_key(w, key, len);
    want = k ? make_want(k, host) : NULL;
    if (!want) {
        mu_subscription_drop_in(in, bucket, wanted_by_nobody, NULL); /* what was made in vain */
        return NULL;
    }
    share->keys++;
    share->bytes += len;
    return want;
}

void mu_subscription_look_again(struct mu_subscription *in, uint32_t bucket)
{
    struct mu_watched *w = bucket_of(in, bucket);

    if (w)
        w->again = true;
}

static void drop_wants(struct mu_subscription *in, struct mu_wanted *k, uint32_t host, mu_drops_fn drops, void *arg)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < k->count; i++) {
        struct mu_want *want = &k->wants[i];

        if ((host == UINT32_MAX || want->host == host) && drops(arg, k, want)) {
            in->shares[want->host].keys--;
            in->shares[want->host].bytes -= k->key_len;
        } else {
            k->wants[kept++] = *want;
        }
    }
    k->count = kept;
}

/* True: the bucket went, and another took its place. */
static bool drop_at(struct mu_subscription *in, uint32_t i, uint32_t host, mu_drops_fn drops, void *arg)
{
    struct mu_wanted **at = &in->watched[i].keys;

    while (*at) {
        struct mu_wanted *k = *at;

        drop_wants(in, k, host, drops, arg);
        if (k->count) {
            at = &k->next;
        } else {
            *at = k->next;
            free_key(k);
        }
    }
    if (in->watched[i].keys)
        return false;
    drop_bucket(in, in->watched[i].bucket);
    return true;
}

void mu_subscription_drop(struct mu_subscription *in, uint32_t host, mu_drops_fn drops, void *arg)
{
    for (uint32_t i = 0; i < in->count;)
        if (!drop_at(in, i, host, drops, arg))
            i++;
}

void mu_subscription_drop_in(struct mu_subscription *in, uint32_t bucket, mu_drops_fn drops, void *arg)
{
    if (bucket < in->num_buckets && in->at[bucket])
        drop_at(in, in->at[bucket] - 1, UINT32_MAX, drops, arg);
}
