/*
 * barrier/entry.h: a group's entry in the cells: its members, which of them have joined or left, and their areas.
 *
 * A group with members on several hosts has an entry on each of these, and in it one more area, the proxy: "the other
 * hosts". The leader's entry is the truth about which have joined; a follower's agent makes its own, once all have. The
 * areas of members on other hosts, and the proxy, are the agent's: a process that takes the entry apart waits until the
 * agent has said of each such member that it left.
 */
#ifndef MU_BARRIER_ENTRY_H
#define MU_BARRIER_ENTRY_H

#include <muster/group.h>

#include "segment/cluster.h"
#include "segment/hosts.h"
#include "segment/table.h"

/* The entry's key. On followers the generation of a group that spans hosts is the leader's with MU_GROUP_ENTRY_SPANS.
 */
#define MU_GROUP_ENTRY_SPANS (1ull << 63)
void mu_group_entry_key(struct mu_key *k, const struct muster_segment *seg, const char *name, uint64_t generation);
/* What an entry's key says: its name and generation. False: it is not one. */
bool mu_group_entry_name(const char *key, uint32_t key_len, char name[MUSTER_GROUP_NAME_MAX + 1],
                         uint64_t *ret_generation);

/* A member that comes. Its own area is made with its coming. */
struct mu_group_join {
    const char *name;
    const struct mu_group_member *members; /* their tasks are wanted */
    uint32_t size, data_bytes, rank;
    bool spans;
    uint64_t incarnation;
    uint32_t call;       /* MU_MEMBER_CALL() of a member on another host; 0: it is of this one */
    bool again;          /* the same call may have come before */
    uint64_t generation; /* out: that will have it */
    struct mu_key key;   /* out: of the entry */
    /* within */
    uint8_t *value;
    size_t value_len;
    int outcome;
};
/* INVALID_ARGUMENT: another member came with other tasks or sizes. */
enum muster_status mu_group_entry_join(struct mu_ctx *ctx, struct mu_group_join *c);

/* What an entry says. The arrays are the caller's, of `size` each. */
struct mu_group_entry {
    uint32_t size, data_bytes; /* as the caller knows them */
    struct mu_group_member *members;
    struct mu_area **areas;
    struct mu_area *proxy; /* NULL: there is none, or not yet */
    uint32_t there;
    int32_t left;    /* a member that has left, or -1 */
    int32_t missing; /* the first that is not there, or -1 */
    bool found, corrupt;
    uint64_t word; /* of the bucket, to sleep on */
};
enum muster_status mu_group_entry_read(struct muster_segment *seg, struct mu_ctx *ctx, const struct mu_key *k,
                                       const char *name, struct mu_group_entry *r);

/*
 * Why a group of these members, some of which have not come, cannot be built: one of them is in error or was replaced,
 * or `left` has left. MUSTER_OK: nothing is known against it. The entry is to be older than the look at the records.
 */
enum muster_status mu_group_entry_lost(struct muster_segment *seg, const char *name, const struct mu_group_entry *r);

/* Say that members have left: those for which `who` says so. The entry may have gone. */
enum muster_status mu_group_entry_leave(struct mu_ctx *ctx, const struct mu_key *k,
                                        bool (*who)(void *arg, uint32_t rank, const struct mu_group_member *m),
                                        void *arg);
/* Take the entry apart, if all its members are gone. */
void mu_group_entry_reap(struct mu_ctx *ctx, const struct mu_key *k);
/* Whatever groups are over: a few of them. */
void mu_group_entry_reap_some(struct mu_ctx *ctx);
/* Gone for good, so that it touches no area any more. `served`: the agent writes the areas of other hosts' members. */
bool mu_group_entry_is_gone(const struct muster_segment *seg, const struct mu_group_member *m, bool served);

/* For agents. On the leader: all have come, and none has left: the proxy's area makes the group complete. False in
 * *ret_complete: somebody has left, or has not come. */
enum muster_status mu_group_entry_complete(struct mu_ctx *ctx, const struct mu_key *k, uint32_t data_bytes,
                                           bool *ret_complete);
/* On a follower: make the entry of a group once all its members have come, or the missing part of it. */
enum muster_status mu_group_entry_make(struct mu_ctx *ctx, const struct mu_key *k, const struct mu_group_head *head,
                                       const struct mu_group_member *members);

/* The members of an entry's value. */
static inline struct mu_group_member *mu_group_entry_members(void *value)
{
    return (struct mu_group_member *)((uint8_t *)value + sizeof(struct mu_group_head));
}

/* Bytes of a member's area. */
static inline size_t mu_area_bytes(uint32_t data_bytes)
{
    return sizeof(struct mu_area) + 2 * (((size_t)data_bytes + 7) / 8) * 8;
}
bool mu_group_entry_well_formed(const void *value, size_t len);

#endif
