/*
 * segment/members.h: the membership's block: reading it, and changing it by one commit.
 *
 * Every change is mu_membership_edit(): a function changes a private copy, then what follows from the tasks' records
 * and the clock is decided on the same copy (members_settle.c), and one CAS publishes both. So nobody is needed to
 * drive a change: whichever process looks when the last condition holds commits what follows from it.
 */
#ifndef MU_SEGMENT_MEMBERS_H
#define MU_SEGMENT_MEMBERS_H

#include <muster/membership.h>

#include "segment/cluster.h"
#include "segment/handle.h"
#include "shm_layout/members.h"

/* A private copy. */
struct mu_membership_copy {
    uint64_t word; /* of the object, as read */
    struct mu_members head;
    struct mu_member_row *rows; /* head.count; malloc()ed */
};
void mu_membership_done(struct mu_membership_copy *c);
/* FAILED_PRECONDITION: the job has none. To be ended with mu_membership_done(), also when it failed. */
enum muster_status mu_membership_read(const struct muster_segment *seg, struct mu_membership_copy *ret_copy);
/* The head alone, for waiters; and whether there is a membership. */
enum muster_status mu_membership_look(const struct muster_segment *seg, struct mu_members *ret_head,
                                      uint64_t *ret_word);
bool mu_membership_exist(const struct muster_segment *seg);

struct mu_membership_edit {
    struct mu_ctx *ctx;
    struct mu_membership_copy *copy;
    const struct mu_task_record *records; /* of all tasks, read after the copy was */
    uint64_t now;
    bool moves;                /* sleepers anywhere are to look: the epoch of the segment moves */
    bool quiet;                /* nobody waits for this */
    enum muster_status status; /* where fn declines */
    void *arg;
};
/* True: put it. May be called several times. */
typedef bool (*mu_membership_fn)(struct mu_membership_edit *e);
/* `fn` NULL: only what follows from the records and the clock. */
enum muster_status mu_membership_edit(struct mu_ctx *ctx, mu_membership_fn fn, void *arg);

/* A task's record has changed: what follows from that for the membership, where there is one. */
void mu_membership_follow(struct mu_ctx *ctx);

/* members_settle.c: on the copy. True: it has changed it. */
bool mu_membership_settle(struct mu_membership_edit *e);
/* Members of the epoch; of the pending change. */
uint32_t mu_membership_count(const struct mu_membership_copy *c, uint32_t flag);
/* The pending change is not any more: why, in MUSTER_ABORTED's sentence. */
bool mu_membership_is_over(struct mu_membership_edit *e, uint64_t change);
/* Give every row with that flag its rank in its role: members of the epoch in their order, then the others by number.
 */
void mu_membership_rank(struct mu_membership_copy *c);
void mu_membership_roll_back(struct mu_membership_edit *e, const char *why);
/* Nothing is pending: the members are those that there are. */
void mu_membership_forget_change(struct mu_membership_copy *c);
/* The process that the record is of has gone for good: in error, ended without joining, or another by now. */
bool mu_membership_is_lost(const struct mu_member_row *row, const struct mu_task_record *r);
bool mu_membership_has_left(const struct mu_task_record *r);

/* ---- for launchers ---- */

/* The first members of a segment. As muster_membership_begin(). */
struct mu_membership_set {
    uint64_t epoch; /* 0: 1 */
    uint32_t size;  /* tasks 0 to size - 1 */
    uint32_t least, most;
    bool shrinks;
    bool anew;    /* no epoch follows in this segment: the launcher ends the tasks, and makes another */
    bool mirrors; /* a host that does not lead: so all begin, and what the leader tells takes its place */
    const char *text;
};
enum muster_status mu_membership_begin(struct mu_ctx *ctx, const struct mu_membership_set *set);
/* For agents of hosts that do not lead: what there is now is the leader's, as it was told. INVALID_ARGUMENT: it cannot
 * be. */
enum muster_status mu_membership_mirror(struct mu_ctx *ctx, const struct mu_membership_copy *c);

/* A job that is begun anew is asked for so many members, without these tasks: a change is pending until the launcher
 * has taken it, or the time is over. FAILED_PRECONDITION, INVALID_ARGUMENT: as muster_membership_propose(). */
struct mu_membership_wish {
    uint32_t wanted;
    const int32_t *go;
    size_t num_go;
    uint64_t timeout_ns;
    uint64_t ret_change;
};
enum muster_status mu_membership_wish(struct mu_ctx *ctx, struct mu_membership_wish *wish);
/* The launcher does what the change asks for: no deadline ends it any more. ABORTED: it is not pending. */
enum muster_status mu_membership_take(struct mu_ctx *ctx, uint64_t change, uint32_t *ret_wanted);
static inline bool mu_membership_is_anew(const struct mu_members *h)
{
    return (h->flags & MU_MEMBERS_ANEW) != 0;
}
/* Members of the next epoch, of a change that is pending there; 0: the rows say it. */
static inline uint32_t mu_membership_wanted(const struct mu_members *h)
{
    return h->flags >> MU_MEMBERS_WANTED;
}
/* What a phase, an outcome is called. */
const char *mu_membership_phase_name(uint32_t phase);

#endif
