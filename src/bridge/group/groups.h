/*
 * bridge/group/groups.h: groups that span hosts: what the files of the module share. groups.c: what agents know of
 * them, and what both ends say; groups_build.c, groups_lead.c: the leader's part; groups_follow.c: the others';
 * groups_shortcut.c: of those on two hosts, the datagrams between tasks.
 */
#ifndef MU_BRIDGE_GROUP_GROUPS_H
#define MU_BRIDGE_GROUP_GROUPS_H

#include "barrier/group.h"
#include "bridge/core/modules.h"

/* A GROUP frame begins with one of these, a GROUP_END frame with one of the others; name and generation follow. */
enum mu_group_say {
    MU_SAY_MADE = 1,     /* leader: its members have all come; they are these */
    MU_SAY_ARRIVED = 2,  /* follower: all members of this host have arrived, and gave this */
    MU_SAY_RELEASED = 3, /* leader: all have arrived; the other hosts' gave this */
    MU_SAY_SO_FAR = 4,   /* the members that have arrived until now: follower: of its own; leader: of all */
    MU_SAY_GONE = 5,     /* leader: a member of the other host has given up before it knew the group */
    MU_SAY_TRUSTED = 6,  /* leader: all others have arrived, and gave this: the receiver has the last word */
    MU_SAY_SHORTCUT = 7, /* either: where datagrams of the receiver's go, and under which key */
    MU_SAY_FAILED = 1,   /* follower: is asked for; leader: is so */
    MU_SAY_OVER = 2,     /* follower: none of its members is left; leader: heard */
    MU_SAY_ASKED = 3,    /* leader: of a host that is trusted the end is asked for */
};

/* A host's part, on the leader. */
struct side {
    uint64_t there; /* the last instance at which all of its members had arrived */
    bool in;        /* it has members */
    bool over;      /* which are gone, or the host is lost */
};

/* A call that waits until the group is complete. */
struct group_waiter {
    uint64_t number;
    uint32_t host, slot, rank;
    bool gone; /* the caller has given up */
};

struct span {
    struct span *next;
    uint64_t generation; /* the leader's */
    struct mu_key key;
    uint32_t size, data_bytes, num_own;
    struct mu_group_member *members;
    struct mu_area **areas, *proxy; /* no proxy: it is being built */
    uint32_t *own;                  /* ranks of this host's members */
    uint64_t word;                  /* of the entry's bucket, and */
    uint32_t epoch;                 /* of the job, when the entry was last looked at */
    /* the members that have arrived so far, as last said */
    uint8_t *shown, *bits;
    uint64_t shown_instance, show_at;
    /* a follower's: the last instance that it said ARRIVED, FAILED of on this connection, and of which it has the last
     * word; and whether it has said what it had passed before */
    uint64_t said, wished, trusted;
    bool is_anew;
    bool gone; /* no member of this host can touch an area any more */
    bool over; /* said so, on this connection */
    /* the leader's */
    struct side *sides;
    uint64_t end_said; /* the last instance that all were told the end of */
    /* the last instance with which a host was trusted on its connection; of which it was asked for the end; of which
     * another host wants it, for this reason */
    uint64_t trusting, asked, wanted, want_reason;
    struct group_waiter *waiters;
    uint32_t num_waiters;
    /* of the shortcut (groups_shortcut.c) */
    struct mu_shortcut *way; /* NULL: the members are not on two hosts, with the leader's one of them */
    uint32_t way_host;       /* the other */
    uint16_t way_port;       /* its speaker's */
    bool way_is_wanted, way_said, way_heard, way_is_live; /* in this order, on this connection */
    bool way_is_stale;                                    /* what is written down of it is no more true */
    uint64_t way_number, way_cluster, way_collections, way_watched, way_key[2], way_key_out[2];
    uint64_t released; /* the leader's: the last instance that the host was told to have passed, on its connection */
    char name[MUSTER_GROUP_NAME_MAX + 1];
};

struct groups {
    struct span *first;
    bool started, busy;
    uint64_t next;
    uint8_t *room; /* a member's data on its way */
};

static inline struct groups *mu_groups_of(struct mu_core *core)
{
    return mu_core_state(core, MU_M_GROUPS);
}

/* The last instance that a proxy's word has reached; and whether the next one has failed. */
static inline uint64_t mu_passed(uint64_t w)
{
    return MU_ARRIVED_INSTANCE(w) - ((w & MU_ARRIVED_CLOSED) != 0);
}

struct span *mu_bridge_span_find(struct mu_core *core, const char *name, uint64_t generation);
/* Known from now on; what the entry says is read by mu_bridge_span_load(). NULL: no memory. */
struct span *mu_bridge_span_new(struct mu_core *core, const char *name, uint64_t generation, uint32_t size,
                                uint32_t data_bytes);
void mu_bridge_span_drop(struct mu_core *core, struct span *s);
/* Read the entry: members, areas, the proxy. *r gets the rest. */
enum muster_status mu_bridge_span_load(struct mu_core *core, struct span *s, struct mu_group_entry *r);
/* Whether entry or job have changed since it was loaded. */
bool mu_bridge_span_changed(struct mu_core *core, const struct span *s);
/* Find the groups that an agent before this one looked after. */
void mu_groups_start(struct mu_core *core);

/* The head of a frame about a span. */
void mu_bridge_span_pack(struct mu_pack *p, uint8_t say, const struct span *s);
void mu_bridge_span_send(struct mu_core *core, uint32_t host, uint8_t type, struct mu_pack *p);
/* The members that have arrived at the instance, of this host or of all, into s->bits. Returns how many. */
uint32_t mu_bridge_span_bits(struct mu_core *core, struct span *s, uint64_t instance);
void mu_bridge_span_pack_bits(struct mu_pack *p, const struct span *s);
/* Members of other hosts arrived, or (closed) did not, as a frame says. False: not well formed. */
bool mu_bridge_span_take_bits(struct mu_core *core, struct span *s, uint64_t instance, struct mu_unpack *u,
                              uint64_t closed);
/* What members gave to the instance: of those that `wanted` says. */
void mu_bridge_span_pack_data(struct mu_core *core, struct mu_pack *p, const struct span *s, uint64_t instance,
                              bool (*wanted)(const struct mu_core *core, uint32_t task, uint32_t host), uint32_t host);
/* Into the areas of members on other hosts; of one host, unless it is UINT32_MAX. False: not well formed. */
bool mu_bridge_span_take_data(struct mu_core *core, struct span *s, uint64_t instance, struct mu_unpack *u,
                              uint32_t host);
/* True: the arrivals so far have changed, and are to be said now. */
bool mu_bridge_span_shows(struct mu_core *core, struct span *s, uint64_t instance);
/* Say in the entry that members have left: those of a host, or UINT32_MAX: of all other hosts; then reap. */
void mu_bridge_span_leave(struct mu_core *core, struct span *s, uint32_t host);
/* The same of one member; UINT32_MAX: of all, those of this host, too. */
void mu_bridge_span_leave_one(struct mu_core *core, struct span *s, uint32_t rank);

/* groups_lead.c */
void mu_lead_look(struct mu_core *core, struct span *s);
void mu_lead_up(struct mu_core *core, struct span *s, uint32_t host);
void mu_lead_lost(struct mu_core *core, struct span *s, uint32_t host);
bool mu_lead_take(struct mu_core *core, uint32_t host, uint8_t type, uint8_t say, const char *name, uint64_t generation,
                  struct mu_unpack *u);
/* Whether it is said to the host what becomes of the group: it has members left, and is up. */
bool mu_lead_hears(const struct mu_core *core, const struct span *s, uint32_t host);
bool mu_lead_any_host_is_left(const struct mu_core *core, const struct span *s);
void mu_lead_say_made(struct mu_core *core, struct span *s, uint32_t host);

/* groups_build.c */
/* It is not complete, or some wait for the answer that it is. The span may be gone afterwards. */
void mu_build_look(struct mu_core *core, struct span *s);
/* Whether an entry that was found is of use. */
bool mu_lead_loaded(struct mu_core *core, struct span *s);

/* groups_shortcut.c */
/* The span's proxy and members are known: may it have a shortcut? One that a dead agent left is off. */
void mu_way_attach(struct mu_core *core, struct span *s);
void mu_way_look(struct mu_core *core, struct span *s);
void mu_way_off(struct span *s);
bool mu_way_take(struct mu_core *core, struct span *s, struct mu_unpack *u);
/* Nobody has asked for the instance: nothing is said of it. */
bool mu_way_covers(const struct span *s, uint64_t instance);
/* Somebody has. */
bool mu_way_is_asked(const struct span *s, uint64_t instance);
/* It goes by the agents: the other one has begun to. */
void mu_way_raise(struct span *s, uint64_t instance);
void mu_way_says(struct mu_core *core, struct span *s, uint32_t host);
void mu_way_took(struct mu_core *core, struct span *s, uint32_t host);
void mu_way_rest(struct mu_core *core, struct span *s);

/* groups_follow.c */
void mu_follow_look(struct mu_core *core, struct span *s);
bool mu_follow_take(struct mu_core *core, uint8_t type, uint8_t say, const char *name, uint64_t generation,
                    struct mu_unpack *u);

#endif
