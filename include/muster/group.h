/*
 * muster/group.h: a fixed, ordered set of tasks with a reusable low-latency barrier and small collectives.
 *
 * All members return the same result from one instance. A group that failed once (a member died, left, was put in
 * error, or a deadline passed) stays failed: make a new one, under the same name if wanted. The missing members can be
 * read at any moment. One thread per member may be in a call on a group at a time.
 *
 * Members may be on several hosts of the job. Then the leader's agent decides how an instance ends, and a member that
 * gives up elsewhere hears it from there: a round trip after its deadline; if the leader cannot be reached, it returns
 * MUSTER_UNAVAILABLE and does not know the outcome. Data goes to every host that has members: keep it small.
 *
 * Waiting: first spins, then yields, then sleeps; the first stage is skipped when the tasks of the group outnumber the
 * processors that the caller may use.
 */
#ifndef MUSTER_GROUP_H
#define MUSTER_GROUP_H

#include <muster/membership.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_GROUP_DATA_MAX 16384u
#define MUSTER_GROUP_NAME_MAX 255u
#define MUSTER_GROUP_SIZE_MAX 2048u /* members */

struct muster_group;

/*
 * Meet the others and build the group. Every member calls with the same name, the same tasks in the same order (NULL,
 * 0: all tasks of the job) and the same data_bytes: the most that a member gives to one collective (0: 256), up to
 * MUSTER_GROUP_DATA_MAX. Waits until all are there. The member's rank is its position. At most MUSTER_GROUP_SIZE_MAX.
 * Once all are there all get the group, also when one of them has left it again by then.
 */
MUSTER_API enum muster_status muster_group_create(struct muster *muster, const char *name, const int32_t *task_ids,
                                                  size_t count, size_t data_bytes, muster_deadline deadline,
                                                  struct muster_group **ret_group);

/*
 * The group of the members of an epoch, in the order of their roles and ranks; its name is "NAME@EPOCH", of
 * MUSTER_GROUP_NAME_MAX bytes at most. The errors and the deadline are those of muster_group_create(), and the caller
 * frees *ret_group likewise. It fails at once, with MUSTER_UNAVAILABLE and the reason, when the epoch is over, and when
 * a member has said that it is ready for a change; its successor is this call with the next epoch.
 */
MUSTER_API enum muster_status muster_group_of_epoch(struct muster *muster, const struct muster_membership *now,
                                                    const char *name, size_t data_bytes, muster_deadline deadline,
                                                    struct muster_group **ret_group);

/* Leave the group; its memory goes with the last member. The other members' next wait fails. NULL is allowed. */
MUSTER_API void muster_group_free(struct muster_group *group);

MUSTER_API uint32_t muster_group_rank(const struct muster_group *group);
MUSTER_API uint32_t muster_group_size(const struct muster_group *group);

/* The barrier. MUSTER_UNAVAILABLE names the dead or missing; MUSTER_DEADLINE_EXCEEDED those that had not arrived. */
MUSTER_API enum muster_status muster_group_barrier(struct muster_group *group, muster_deadline deadline);

/* `len` bytes from the member `root` to all. Every member passes the same root and len. */
MUSTER_API enum muster_status muster_group_broadcast(struct muster_group *group, uint32_t root, void *data, size_t len,
                                                     muster_deadline deadline);

/* Each gives `len` bytes; ret_all gets size * len bytes in rank order. */
MUSTER_API enum muster_status muster_group_allgather(struct muster_group *group, const void *mine, size_t len,
                                                     void *ret_all, muster_deadline deadline);

enum muster_type {
    MUSTER_TYPE_INT64 = 0,
    MUSTER_TYPE_UINT64 = 1,
    MUSTER_TYPE_DOUBLE = 2,
};
enum muster_op {
    MUSTER_OP_SUM = 0,
    MUSTER_OP_MIN = 1,
    MUSTER_OP_MAX = 2,
    MUSTER_OP_BAND = 3, /* integers only, like BOR */
    MUSTER_OP_BOR = 4,
    MUSTER_OP_PROD = 5,
};

/*
 * Element-wise over `count` scalars of 8 bytes; in place. Every member computes in rank order: the same bits for all.
 * Integer sums and products wrap.
 */
MUSTER_API enum muster_status muster_group_allreduce(struct muster_group *group, void *values, size_t count,
                                                     enum muster_type type, enum muster_op op,
                                                     muster_deadline deadline);

/*
 * The members missing at the instance that the caller waits in or is about to enter: up to `capacity` task ids;
 * *ret_count gets the number of missing. Never blocks; may be called from another thread.
 */
MUSTER_API enum muster_status muster_group_missing(struct muster_group *group, int32_t *ret_task_ids, size_t capacity,
                                                   size_t *ret_count);

#ifdef __cplusplus
}
#endif
#endif
