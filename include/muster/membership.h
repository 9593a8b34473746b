/*
 * muster/membership.h: which tasks a job has now: their roles, their ranks, and how both change while it runs.
 *
 * A membership is of an epoch: a number that grows by one with each change, and with it every process sees all of the
 * new one at once. A change that tasks agree on goes so:
 *
 *     propose     a change is pending: MUSTER_PHASE_PREPARING. Each task that stays, comes or goes finishes its step
 *                 and calls muster_membership_ready()
 *     all ready   MUSTER_PHASE_SETTLING: the new ranks count from the next epoch on. Each task does what the change
 *                 needs (hands over what it has, reads what it gets) and calls muster_membership_done()
 *     all done    the next epoch begins
 *
 * A task that dies, leaves or is in error meanwhile, or is not there at the deadline, rolls the change back: the epoch
 * goes on as it was, and the sentence names the task. A task that was to go may leave the job instead of calling
 * either. A member that was lost before the change may be among those that go: nobody waits for it. A member that is
 * lost leaves the membership at once, with an epoch of its own, where the job says that it shrinks.
 *
 * Ranks count from 0 in each role, without gaps. Members keep their order when others go; newcomers are put behind.
 *
 * Threads, fork, handlers: as in muster/task.h. Only muster_membership_wait() and muster_membership_next() wait, up to
 * their deadlines: MUSTER_DEADLINE_EXCEEDED; MUSTER_CANCELLED: interrupted, or the job was closed. Programs that take
 * part join with MUSTER_JOIN_RECOVERABLE: else a lost member ends the waits of all. In a job of several hosts host 0's
 * launcher has the membership, and the others' mirror it: what a task there says of a change waits for that host's
 * answer, and fails with MUSTER_UNAVAILABLE when it is lost.
 */
#ifndef MUSTER_MEMBERSHIP_H
#define MUSTER_MEMBERSHIP_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_ROLES_MAX     8u
#define MUSTER_ROLE_NAME_MAX 15u
#define MUSTER_MEMBERS_MAX   4096u /* tasks of a job that has a membership */

enum muster_phase {
    MUSTER_PHASE_STEADY = 0,
    MUSTER_PHASE_PREPARING = 1, /* a change is pending; not all are ready */
    MUSTER_PHASE_SETTLING = 2,  /* not all are done */
};

/* How the last change has ended. */
enum muster_outcome {
    MUSTER_OUTCOME_NONE = 0, /* there was none */
    MUSTER_OUTCOME_COMMITTED = 1,
    MUSTER_OUTCOME_ROLLED_BACK = 2,
    MUSTER_OUTCOME_LOST = 3, /* no change that was proposed: members were lost */
    MUSTER_OUTCOME_SET = 4,  /* nor here: the launcher said so */
};

struct muster_membership {
    uint64_t epoch;  /* from 1 on */
    uint64_t change; /* number of the change that is pending, or was the last; 0: none yet */
    enum muster_phase phase;
    enum muster_outcome outcome;
    uint32_t size;        /* members */
    uint32_t capacity;    /* tasks that the job has numbers for */
    uint32_t least, most; /* members that the job may have */
    int32_t role, rank;   /* the caller's, the role as in muster_member.role; -1: it is no member */
    uint32_t role_size;   /* members of that role */
    uint64_t deadline;    /* of the pending change, CLOCK_MONOTONIC in ns; 0: none is pending */
    uint64_t since_ns;    /* when the phase began, CLOCK_MONOTONIC in ns */
    uint64_t version;     /* of what was read, for muster_membership_changed() */
    char text[448];       /* why the last change was rolled back, or a member was lost; "" */
};

#define MUSTER_MEMBER_IN    1u /* of this epoch */
#define MUSTER_MEMBER_NEXT  2u /* of the next, if the pending change is committed */
#define MUSTER_MEMBER_READY 4u /* it has said so, for the pending change */
#define MUSTER_MEMBER_DONE  8u

struct muster_member {
    int32_t task_id;
    uint32_t role;      /* from 0 to MUSTER_ROLES_MAX - 1, the same for all members of that name */
    uint32_t flags;     /* MUSTER_MEMBER_* */
    int32_t rank;       /* in its role; -1: it is not of this epoch */
    int32_t next_rank;  /* in the pending change; -1: it is not of that */
    char role_name[16]; /* "worker" */
};

/*
 * Give the job a membership: tasks 0 to `size` - 1, in the role "worker", are epoch 1's. `most` 0: all of the job's
 * tasks. `shrinks`: members that are lost leave by themselves, as long as `least` are left. A launcher's call;
 * MUSTER_ALREADY_EXISTS when there is one.
 */
MUSTER_API enum muster_status muster_membership_begin(struct muster *muster, uint32_t size, uint32_t least,
                                                      uint32_t most, int shrinks);

/*
 * Read it, without waiting. The members of this epoch, and of a pending change, in the order of their roles and ranks:
 * up to `capacity` of them to `ret_members` (may be NULL), which are the caller's; *ret_count (may be NULL) gets how
 * many there are. MUSTER_FAILED_PRECONDITION: the job has no membership.
 */
MUSTER_API enum muster_status muster_membership_read(struct muster *muster, struct muster_membership *ret_membership,
                                                     struct muster_member *ret_members, size_t capacity,
                                                     size_t *ret_count);

/* Whether the epoch, the phase or the change are others than in `known`, 1 or 0: a load, and a read where something
 * moved. */
MUSTER_API int muster_membership_changed(struct muster *muster, const struct muster_membership *known);

/* Wait until that is so, up to the deadline, and read it into `known`. Errors of tasks do not end this wait. Scavenges
 * dead tasks meanwhile, but not by a read-only handle. */
MUSTER_API enum muster_status muster_membership_wait(struct muster *muster, struct muster_membership *known,
                                                     muster_deadline deadline);

/*
 * Propose a change: these tasks come, in the role of that name (NULL: "worker"), those go. It is rolled back when not
 * everybody is done within `timeout_ns`. Tasks that come need not have joined yet, or may have left or died and be
 * started again, until then. MUSTER_FAILED_PRECONDITION: another
 * change is pending; MUSTER_INVALID_ARGUMENT: a task that comes is a member, one that goes is none, or fewer or more
 * would be left than the job may have.
 */
MUSTER_API enum muster_status muster_membership_propose(struct muster *muster, const int32_t *come, size_t num_come,
                                                        const char *role, const int32_t *go, size_t num_go,
                                                        uint64_t timeout_ns, uint64_t *ret_change);

/* The caller has finished its step: ready. It has done what the change needs: done, which comes after all are ready.
 * MUSTER_ABORTED: the change is not pending any more; MUSTER_FAILED_PRECONDITION: not all are ready, or the caller has
 * no part in it. */
MUSTER_API enum muster_status muster_membership_ready(struct muster *muster, uint64_t change);
MUSTER_API enum muster_status muster_membership_done(struct muster *muster, uint64_t change);

/* Roll a change back; `why` (NULL: no reason) is copied, 200 bytes at most, to the membership's text. MUSTER_ABORTED:
 * it is not pending any more. */
MUSTER_API enum muster_status muster_membership_cancel(struct muster *muster, uint64_t change, const char *why);

/*
 * The short way, for a program that has nothing to hand over:
 *
 *     struct muster_membership now = {0};
 *     while (!muster_membership_next(m, &now, MUSTER_FOREVER) && now.rank >= 0) {
 *         muster_group_of_epoch(m, &now, "steps", 0, MUSTER_FOREVER, &group);
 *         ... steps, until one fails, or all have found muster_membership_changed(m, &now) ...
 *     }
 *
 * Calls muster_membership_ready() and muster_membership_done() for a pending change; returns with an epoch that is
 * later than now->epoch (0: with one that the caller is in), or with the same one where a change that `now` does not
 * know was rolled back: then the groups of the epoch may have failed, and the caller makes them anew. A caller that is
 * no member any more has the rank -1.
 */
MUSTER_API enum muster_status muster_membership_next(struct muster *muster, struct muster_membership *now,
                                                     muster_deadline deadline);

#ifdef __cplusplus
}
#endif
#endif
