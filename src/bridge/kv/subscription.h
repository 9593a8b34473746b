/*
 * bridge/kv/subscription.h: which host wants to know about which key, and what it was told last. The leader's memory of
 * its connections: whatever is lost here, a host that connects anew asks for again.
 */
#ifndef MU_BRIDGE_KV_SUBSCRIPTION_H
#define MU_BRIDGE_KV_SUBSCRIPTION_H

#include "bridge/core/core.h"

/* A host keeps at most HELD_MAX copies (bridge/kv/copies.h); the others are keys that it waits for. */
#define MU_WANTS_MAX       131072u
#define MU_WANTS_BYTES_MAX (32u << 20) /* of their keys */

struct mu_want {
    uint32_t host;
    bool waits;    /* somebody there may sleep until the key comes, or changes */
    bool bare;     /* it was told the version `sent`, but has no copy */
    uint64_t sent; /* version; 0: it was told that there is none, or nothing */
    uint64_t at;   /* bytes of COPIES that went to the host before the batch with that version's value */
};

struct mu_wanted {
    struct mu_wanted *next; /* of the same bucket */
    uint32_t key_len;
    uint32_t count, capacity;
    struct mu_want *wants;
    /* while it is collected */
    uint64_t version;     /* 0: absent */
    size_t at, len;       /* its value, among those taken */
    struct mu_blob *blob; /* or there, when it is long */
    bool taken;
    char key[];
};

/* A bucket with keys that somebody wants. */
struct mu_watched {
    uint32_t bucket;
    bool again;    /* to be looked at though its word has not changed */
    bool touched;  /* while it is collected: something may have to be said */
    bool late;     /* and: it changed meanwhile */
    uint64_t seen; /* its word at the last look */
    struct mu_wanted *keys;
};

struct mu_subscription {
    uint32_t num_buckets;
    uint32_t *at; /* by bucket: its place among those watched, + 1 */
    struct mu_watched *watched;
    uint32_t count, capacity;
    struct mu_share { /* of each host */
        uint32_t keys;
        size_t bytes;
    } * shares;
    uint32_t num_hosts;
};

bool mu_subscription_init(struct mu_subscription *in, uint32_t num_buckets, uint32_t num_hosts);
void mu_subscription_done(struct mu_subscription *in);

/* Set *ret_want to the host's want of the key; made, with nothing sent, when there was none. NULL: full, or no memory.
 */
struct mu_want *mu_subscription_add(struct mu_subscription *in, uint32_t host, uint32_t bucket, const void *key,
                                    size_t len);
/* NULL: there is none. */
struct mu_want *mu_subscription_find(const struct mu_subscription *in, uint32_t host, uint32_t bucket, const void *key,
                                     size_t len);
/* Look at this bucket in the next collection, whatever its word. */
void mu_subscription_look_again(struct mu_subscription *in, uint32_t bucket);

/* Drop the wants for which `drops` is true. Wants and buckets that nobody has any more go with them; nothing else
 * moves. `want` is the host's, or with host UINT32_MAX anybody's. */
typedef bool (*mu_drops_fn)(void *arg, const struct mu_wanted *key, const struct mu_want *want);
void mu_subscription_drop(struct mu_subscription *in, uint32_t host, mu_drops_fn drops, void *arg);
/* The same within one bucket. */
void mu_subscription_drop_in(struct mu_subscription *in, uint32_t bucket, mu_drops_fn drops, void *arg);

#endif
