/* task/task.h: the task room, for the rooms above. */
#ifndef MU_TASK_TASK_H
#define MU_TASK_TASK_H

#include <muster/task.h>

#include "segment/cluster.h"
#include "segment/handle.h"
#include "task/state.h"

/* As muster_join() of an observer without heartbeats, in a segment that is open already. The handle is one more user.
 */
enum muster_status mu_task_join_open(struct muster_segment *seg, struct muster **ret_muster);
/*
 * The same, without the segment's first pages (segment/reserve.h): only its slot is the caller's, before threads of the
 * tasks' have taken all. The handle is not to be used before mu_segment_commit(), but may leave.
 */
enum muster_status mu_task_join_seat(struct muster_segment *seg, struct muster **ret_muster);

/*
 * The kernel reported that the process `pid` of `task_id` ended, with this wait status (as from waitpid). Its slots are
 * scavenged; unless it had left properly, its task is put in error with words for the status. The authority path:
 * call it only with what wait or a pidfd said. `is_last`: no process is to be started in its place, so the record says
 * that the task has ended, whether it had ever joined or not, and how: that wakes its waiters.
 */
enum muster_status mu_task_process_ended(struct muster *m, int32_t task_id, uint32_t pid, int wait_status,
                                         bool is_last);
#define MU_TASK_HOW_IS_UNKNOWN (-1) /* as wait_status: it was another's child */

/* Clean up after all that are dead now; their tasks are put in error. Returns how many slots. */
uint32_t mu_task_scavenge(struct mu_ctx *ctx);

/*
 * As muster_task_list(), of a run of tasks alone, which are the job's; and when the process of each began, as it
 * registered (clock ticks; means nothing of another host's).
 */
enum muster_status mu_task_run(struct muster *muster, uint32_t first, uint32_t count,
                               struct muster_task_info *ret_infos, uint64_t *ret_starts);

/* As muster_death_wait(), without a sentence at the deadline: for a caller that waits again at once. */
enum muster_status mu_death_wait(struct muster *muster, muster_deadline deadline, size_t *ret_deaths);

/* Put a task in error (keeps an earlier one); with `incarnation`, only if it is that one still. */
enum muster_status mu_task_fail(struct mu_ctx *ctx, uint32_t task, uint64_t incarnation, enum mu_task_event event,
                                enum muster_status code, enum muster_cause cause, const char *text);

/* Register the task for the process of this context. */
struct mu_registration {
    uint32_t task;
    uint32_t flags; /* MUSTER_JOIN_* */
    uint64_t incarnation;
    uint32_t slot; /* main slot + 1, or 0 */
    uint32_t slot_incarnation;
    uint32_t pid;
    uint64_t start;
};
/* UNAVAILABLE: the predecessor is dead but not yet cleaned up: scavenge and try again. */
enum muster_status mu_task_register(struct mu_ctx *ctx, const struct mu_registration *r);
/*
 * The task's record may be this very process's from before an exec: then that one is dead, though slots of the process
 * live. Puts it in error; false when it is nothing of the kind.
 */
bool mu_task_bury_past(struct mu_ctx *ctx, uint32_t task);
/* The task is connected, and nobody of it lives: say so in its record, in these words; NULL: the usual ones. False: it
 * is not so. */
bool mu_task_bury_dead(struct mu_ctx *ctx, uint32_t task, const char *text);
enum muster_status mu_task_unregister(struct mu_ctx *ctx, uint32_t task, uint64_t incarnation);

/* muster_task_reset(), of a task of this host. `caller`: the task that asks, -1: another. */
enum muster_status mu_task_reset(struct mu_ctx *ctx, uint32_t task, int32_t caller);
/* muster_task_heartbeat(), likewise. */
enum muster_status mu_task_beat(struct mu_ctx *ctx, uint32_t task, uint64_t incarnation);

/* Of tasks on other hosts (task/remote.c): the leader decides, or asks their host's agent. */
enum muster_status mu_task_remote_report(struct muster *m, struct mu_ctx *ctx, uint32_t task, enum muster_status code,
                                         const char *message);
enum muster_status mu_task_remote_reset(struct muster *m, struct mu_ctx *ctx, uint32_t task);
enum muster_status mu_task_remote_beat(struct muster *m, struct mu_ctx *ctx, uint32_t task, uint64_t incarnation);

/* Heartbeat thread. Starts, claims the main slot, and is joined by stop. */
enum muster_status mu_heartbeat_start(struct muster *m, uint64_t period_ns, uint32_t *ret_slot,
                                      uint32_t *ret_slot_incarnation);
/* With `leaving` the thread unregisters the task first, with its own slot: leaving needs no other. */
enum muster_status mu_heartbeat_stop(struct muster *m, bool leaving);

/* One more of those that are brought for it. */
void mu_task_count_beat(struct muster_segment *seg, uint32_t task);
/* The task's heartbeats so far, its own and those brought for it: a counter; only its changes count. */
uint64_t mu_task_beats(const struct muster_segment *seg, uint32_t task, const struct mu_task_record *record);

/* A watcher of heartbeats: an observer's memory of counters. */
struct mu_beat {
    uint64_t counter, incarnation, changed_ns;
};
/*
 * Compare every connected task's counter, of this host, with what was seen before; those silent for longer than the
 * timeout are put in error. A checker that was itself late (stopped, starved) grants everybody a new period.
 */
void mu_beats_check(struct mu_ctx *ctx, struct mu_beat *beats, uint64_t *last_check_ns);

#endif
