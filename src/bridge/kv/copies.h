/*
 * bridge/kv/copies.h: what the two ends of the copies share: bridge/kv/copies.c and bridge/kv/copies_batch.c, the
 * leader, and bridge/kv/replica.c, a follower.
 */
#ifndef MU_BRIDGE_KV_COPIES_H
#define MU_BRIDGE_KV_COPIES_H

#include "bridge/kv/subscription.h"
#include "bridge/core/modules.h"

/* COPIES: flags 1, items 4; then the items: kind 1, version 8, key (length 4), value (length 4). */
enum { MU_COPIES_ANEW = 1 };                  /* the waiters there ask again: something was forgotten here */
enum { MU_COPY_GONE = 0, MU_COPY_VALUE = 1 }; /* an item's kind */
#define MU_COPY_MAX   (4u << 20)              /* larger values are not copied: every read fetches them */
#define MU_COPIES_CUT (1u << 20) /* a batch that is longer goes in several frames, each cut behind this many bytes */
/* Bytes of copies on their way to one host, most. It says how much it has taken every so often. */
#define MU_COPIES_ROOM   (32u << 20)
#define MU_COPIES_REPORT (1u << 20)

/* How many copies a follower holds, and bytes of them; of its heap at most a quarter. */
#define MU_REPLICA_MAX       65536u
#define MU_REPLICA_BYTES_MAX (256u << 20)

struct mu_replica;
struct mu_replica *mu_replica_new(struct mu_core *core);
void mu_replica_free(struct mu_replica *replica);
/* A new connection: no copy of an older one stays. */
void mu_replica_up(struct mu_core *core, struct mu_replica *replica);
/* A narrower bound, for tests. */
void mu_copies_bound(struct mu_core *core, uint32_t most, size_t most_bytes);
/* Bytes of COPIES that the leader has sent to the host over this connection, for tests. */
uint64_t mu_copies_sent(struct mu_core *core, uint32_t host);

/* ---- copies_batch.c: what is said to one host ---- */

/* A long value (mu_slice_min) among the items: it belongs behind so many bytes of them. */
struct mu_batch_slice {
    size_t behind;
    struct mu_slice slice;
};

struct mu_outgoing {
    struct mu_pack items;  /* of the batch that is being made, but for long values */
    struct mu_pack slices; /* these: struct mu_batch_slice each */
    size_t slice_bytes;
    struct mu_pack names; /* GONE for each key in it of which the host has a copy */
    uint32_t num_items, num_names, num_values;
    bool anew;
    uint64_t sent, taken; /* bytes of COPIES on this connection */
};

struct mu_copies;
/* The host's copy, if it has one, is not to be read any more. */
void mu_batch_gone(struct mu_outgoing *o, const struct mu_wanted *k, struct mu_want *want);
void mu_batch_value(struct mu_copies *c, struct mu_outgoing *o, const struct mu_wanted *k, struct mu_want *want);
bool mu_batch_has_room(const struct mu_outgoing *o, const struct mu_wanted *k); /* for its value */
void mu_batch_send(struct mu_core *core, uint32_t host);
/* What was not sent is forgotten. */
void mu_batch_done(struct mu_outgoing *o);

struct mu_copies {
    struct mu_replica *replica; /* the follower's; NULL: the leader */
    /* the leader's */
    struct mu_subscription in;
    struct mu_outgoing *out; /* by host */
    struct mu_pack taken;    /* the values of this collection, but for long ones */
    size_t taken_bytes;      /* of all */
    uint64_t collections;    /* in which anything had changed; and other changes of what any host is told */
    bool collected;          /* in this turn */
    bool room;               /* a host has said that it took some: what did not fit may fit now */
};
static inline struct mu_copies *mu_copies_of(struct mu_core *core)
{
    return (struct mu_copies *)mu_core_state(core, MU_M_COPIES);
}

#endif
