/*
 * muster/barrier.h: named barriers, with every rule of the coordination service.
 *
 * A barrier is known by its id (1 to 512 bytes). Its participants are fixed by the first call that names it, for all
 * its instances; instance 0 is the first, a passed instance k may be followed by k + 1. One result per instance, the
 * same for all, kept until the next one begins: a late caller gets it at once. A call for any other instance than
 * the present or the next one is taken for confusion and fails the present one for all. For a barrier in a hot
 * loop see muster/group.h.
 */
#ifndef MUSTER_BARRIER_H
#define MUSTER_BARRIER_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_BARRIER_ID_MAX 512u
#define MUSTER_BARRIER_NEXT   UINT64_MAX

/*
 * In a job of several hosts a barrier is the job's, and the leader's host decides: a call from another host is a round
 * trip. An id that begins with this is the calling host's own: every host has one of that name, for tasks of that host
 * (without a list: all of them), and no call leaves the host.
 */
#define MUSTER_BARRIER_HOST "muster/host/"

/*
 * Arrive and wait. `task_ids` (count > 0) names the participants; NULL, 0 means all tasks of the job, registered or
 * not. `counter` is the instance; MUSTER_BARRIER_NEXT means "the one after the last that I passed" (0 at first). From a
 * recoverable task 0 means the current instance, or the next one when that has passed: it may have started again.
 * `timeout_ns` (0: none) counts from the first arrival and is the first arriver's: later ones are ignored. `deadline`
 * is the caller's own patience: when it passes, the call returns MUSTER_DEADLINE_EXCEEDED but the arrival stands. (On
 * another host than the leader's it then waits a second at most for the leader's word whether the instance has ended.)
 *
 * MUSTER_DEADLINE_EXCEEDED: names up to two of the missing, what each is doing, and the first at the barrier.
 * MUSTER_INTERNAL: a participant is in error, disconnected (of one that joined RECOVERABLE or TRANSIENT that only
 * takes its arrival back), or is at another instance.
 * MUSTER_INVALID_ARGUMENT: participants conflict, or the caller takes no part: this fails the instance for all; or a
 * task is not in the cluster: only this call is refused.
 * MUSTER_CANCELLED: cancelled by a task. (RPC: Barrier)
 */
MUSTER_API enum muster_status muster_barrier_wait(struct muster *muster, const char *id, uint64_t counter,
                                                  const int32_t *task_ids, size_t count, uint64_t timeout_ns,
                                                  muster_deadline deadline);

/*
 * Cancel the instance `counter` (MUSTER_BARRIER_NEXT: the current one): all waiters return MUSTER_CANCELLED.
 * MUSTER_FAILED_PRECONDITION when it has passed or is not the current one. Cancelling an id nobody used makes its
 * instance 0 cancelled. (RPC: CancelBarrier)
 */
MUSTER_API enum muster_status muster_barrier_cancel(struct muster *muster, const char *id, uint64_t counter);

struct muster_barrier_info {
    char id[MUSTER_BARRIER_ID_MAX + 1];
    uint64_t counter;
    int passed; /* the instance has ended */
    enum muster_status result;
    uint32_t participants;
    uint32_t arrived;
    int32_t missing[16]; /* the first 16 that have not arrived */
    uint32_t missing_count;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; UINT64_MAX: none */
    uint64_t since_ns;    /* first arrival */
};

/* Every barrier, in id order; stops when `visit` returns non-zero. */
MUSTER_API enum muster_status
muster_barrier_list(struct muster *muster, int (*visit)(void *arg, const struct muster_barrier_info *info), void *arg);

#ifdef __cplusplus
}
#endif
#endif
