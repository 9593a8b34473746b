/*
 * muster/stats.h: what a job's threads have done and waited for, counted in its segment. Always on.
 *
 * Every thread that writes counts in lines of its own, by plain stores: nothing is lost by a SIGKILL but the one event
 * that it cut off. A reader adds them up, so the fields of one answer are not of one instant; each alone falls only
 * where a thread's 2^32 waits of one length have gone round, or another task had to take the slot over.
 * The counts of a thread that has ended stay, and the next thread of the same task goes on from them. They are lost
 * only when a job has so many threads of different tasks come and go that all slots have been used and one of another
 * task has to be taken over.
 *
 * Only waits that slept are timed, from going to sleep until the call returned: a spin or a yield reads no clock. Calls
 * by a read-only handle are not counted. Nor are the group barriers of a thread that has not yet slept, created
 * a group or written, for such a thread holds no slot.
 */
#ifndef MUSTER_STATS_H
#define MUSTER_STATS_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_STATS_BUCKETS 28
/* Bucket i counts waits shorter than this many nanoseconds, and not in a bucket below; the last one all others. */
#define MUSTER_STATS_BOUND_NS(i) ((uint64_t)2048 << (i))

struct muster_stats {
    uint64_t kv_writes;       /* calls that changed keys: set, insert, compare-and-set, increment, append, delete */
    uint64_t kv_waits;        /* gets and watches that slept until there was an answer */
    uint64_t kv_wait_ns;      /* their time asleep */
    uint64_t named_barriers;  /* muster_barrier_wait() calls that returned MUSTER_OK */
    uint64_t group_barriers;  /* group barriers, broadcasts, allgathers and allreduces that returned MUSTER_OK */
    uint64_t barrier_waits;   /* waits at barriers of either kind, and for a group's members, that slept */
    uint64_t barrier_wait_ns; /* their time asleep */
    /* They by their length; modulo 2^32 a thread. Their sum is barrier_waits. */
    uint64_t barrier_wait_buckets[MUSTER_STATS_BUCKETS];
    uint64_t other_waits; /* waits for events, for changes or errors of tasks, liveness queries, that slept */
    uint64_t deaths;      /* tasks that were put in error because they died or fell silent, by the recording task */
    uint64_t burials;     /* dead threads with cleaned-up slots, by the cleaning task */
    uint32_t slots;       /* slots that were added up: threads of now, and of the past */
};

/*
 * Add up what the threads of `task_id` have counted; -1: those of all tasks, and of observers. Works with any handle,
 * read-only and post mortem too. INVALID_ARGUMENT: no such task. Never blocks, takes no slot.
 */
MUSTER_API enum muster_status muster_stats_get(struct muster *muster, int32_t task_id, struct muster_stats *ret_stats);

#ifdef __cplusplus
}
#endif
#endif
