/*
 * barrier/group.h: a group's private side, shared by group.c (meeting, leaving), collective.c (the fast path),
 * group_fault.c (missing and lost members) and span.c (groups with members on several hosts).
 *
 * The members of this host are waited for by their areas. Those of the others have areas here, too, for their data; but
 * for them all stands the proxy: the agent, and the speaker of a shortcut, write its words. On the leader's host the
 * proxy's word is the verdict on an instance, so a member that gives up may close it. Elsewhere only the agent may,
 * when the leader has said so.
 */
#ifndef MU_BARRIER_GROUP_H
#define MU_BARRIER_GROUP_H

#include <muster/group.h>

#include "barrier/entry.h"
#include "barrier/shortcut.h"
#include "segment/handle.h"

struct muster_group {
    struct muster *muster;
    struct mu_area *mine;
    uint32_t rank, size;
    uint32_t data_bytes;
    uint32_t spins, turn; /* pauses before it yields and sleeps; pauses that a yield stands for, if it spans hosts */
    uint32_t patience;    /* where members take turns on a processor: pauses of the one that comes last there; else 0 */
    _Atomic uint64_t instance; /* the last one passed; process-local */
    bool failed;
    bool traced;    /* each barrier is noted */
    bool spans;     /* some members are on other hosts */
    bool follows;   /* and the verdict is the leader's, on another host */
    bool is_plain;  /* neither traced nor spanning */
    bool looked;    /* at epoch `epoch` no member was lost */
    uint32_t there; /* members, then; while it is built */
    uint32_t epoch;
    uint64_t members_epoch, members_word; /* of an epoch of the job's membership: which; and that as last looked at */
    uint64_t generation;
    struct mu_key key; /* of the entry */
    char name[MUSTER_GROUP_NAME_MAX + 1];
    char what[MUSTER_GROUP_NAME_MAX + 16]; /* for status: "group NAME" */
    struct mu_group_member *members;
    struct mu_area **areas; /* in rank order */
    /* waited for: all areas, or those of this host and, last, the proxy; our own at `place` */
    struct mu_area **waits;
    uint32_t num_waits, place;
    struct mu_area *proxy; /* NULL: all members are on this host */
    struct mu_shortcut_end end;
};

/* When traced: that we come to the instance, or go from it. */
void mu_group_note(struct muster_group *g, enum mu_trace_kind kind, uint64_t instance, enum muster_status status);

/*
 * Close what has not arrived at the instance, but no proxy that is not ours to close; true when anybody is closed: the
 * instance failed.
 */
bool mu_group_close(struct muster_group *g, uint64_t instance, uint64_t reason);

/* group_fault.c */
enum muster_status mu_group_report(struct muster_group *g, uint64_t instance);
bool mu_group_has_lost(struct muster_group *g, uint32_t epoch);
/* It is of an epoch, and that is over, or a member has left its steps for a change of it. */
bool mu_group_is_past(struct muster_group *g);
/* "it is of epoch 3, and the job in epoch 4: task 2 (...) is lost"; "" where it is not past. Returns `text`. */
const char *mu_group_say_past(const struct muster_group *g, char text[MU_LIST_MAX]);

/* What an arrival word says of an instance. */
static inline bool mu_has_arrived(uint64_t w, uint64_t instance)
{
    return MU_ARRIVED_INSTANCE(w) >= instance + ((w & MU_ARRIVED_CLOSED) != 0);
}
static inline bool mu_is_closed_at(uint64_t w, uint64_t instance)
{
    return (w & MU_ARRIVED_CLOSED) && MU_ARRIVED_INSTANCE(w) <= instance;
}
/* Another host has the last word on the next instance. */
static inline bool mu_is_trusted(uint64_t w)
{
    return (w & (MU_ARRIVED_TRUSTED | MU_ARRIVED_CLOSED)) == MU_ARRIVED_TRUSTED;
}
/* Close one word, unless it has arrived, is closed or is trusted; as it is then. */
uint64_t mu_area_close(mu_a64 *word, uint64_t instance, uint64_t reason);
/* The same though it is trusted. For the agent alone, which has heard from the trusted host, or that it is lost. */
uint64_t mu_area_end(mu_a64 *word, uint64_t instance, uint64_t reason);
/* The other host is lost, or knows it no more. If that is trusted, how the instance ended is not known. */
uint64_t mu_area_abandon(mu_a64 *word, uint64_t instance);
/* Of a follower's proxy, which is not TRUSTED: it will not become so at this instance. False: it is. The agent alone.
 */
bool mu_area_bar(struct mu_area *a, uint64_t instance);
/* Trust another host with the instance. False: it was closed or barred, or is not at the one before. The agent, and the
 * speaker of a shortcut, which trusts the same host. */
bool mu_area_trust(struct mu_area *a, uint64_t instance, uint32_t host);
/* Let a word arrive at the instance, with its sign; false: it was closed, or is not at the one before. The word's owner
 * alone; of a proxy the agent, or the speaker of a shortcut. */
bool mu_area_arrive(struct mu_area *a, uint64_t instance);

/* ---- span.c ---- */

/* Which of the members are on other hosts; sets g->spans and g->follows. */
void mu_span_look(struct muster_group *g);
/* On a follower: come to the group, by a call to the leader, and find the entry that the agent has made of it. */
enum muster_status mu_span_open(struct muster_group *g, struct mu_ctx *ctx, muster_deadline deadline);
/* Fills `waits`, once all areas are known. False: no memory. */
bool mu_span_waits(struct muster_group *g);
/* We have arrived: the first of this host says so, and the last. */
void mu_span_arrived(struct muster_group *g, uint64_t instance);
/* The agent shall look: something ended. */
void mu_span_wish(struct muster_group *g, uint64_t instance, uint64_t reason);
/*
 * Given up, with the missing members of this host closed, where another host has the last word: what it says. That is
 * the leader on a follower, and on the leader's host the one that was entrusted. MUSTER_OK: all had arrived; else
 * *ret_known: the instance failed, for all. Not known: that host is lost, or out of reach past the deadline.
 */
enum muster_status mu_span_verdict(struct muster_group *g, uint64_t instance, uint64_t reason, muster_deadline deadline,
                                   bool *ret_known);
/* The member's word, or, of other hosts' members, what is known here: they have arrived where the proxy has. */
uint64_t mu_span_word(const struct muster_group *g, uint32_t rank);

#endif
