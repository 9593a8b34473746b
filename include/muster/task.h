/*
 * muster/task.h: taking part in a job: join, leave, heartbeats, states, errors.
 *
 * Semantics: tensorflow.CoordinationService RegisterTask, Heartbeat, ReportErrorToService, PollForError, ResetTask,
 * WatchJobState, GetAliveTasks. A task is one process of the job, numbered 0 to num_tasks - 1.
 *
 * Threads: every call may be made from any thread of the process that joined; the first writing call of a thread
 * takes a slot of the segment, given back when the thread ends. Fork: a child is detached; every call in it returns
 * MUSTER_FAILED_PRECONDITION until it joins anew. Signal handlers: a call from a handler that interrupted a muster
 * call is refused with MUSTER_FAILED_PRECONDITION; a thread's first writing call takes memory with malloc(), so it must
 * not be made in a handler. Cancellation: do not cancel a thread inside a call.
 * exec: the task is dead for the others, as if it had been killed; from another thread than the process's first they
 * may learn of it a little later: within an eighth of the heartbeat timeout.
 */
#ifndef MUSTER_TASK_H
#define MUSTER_TASK_H

#include <muster/segment.h>
#include <muster/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A process's part in one job. */
struct muster;

enum muster_task_state {
    MUSTER_TASK_DISCONNECTED = 0, /* never registered, or left */
    MUSTER_TASK_CONNECTED = 1,
    MUSTER_TASK_ERROR = 2,
};

/* Why a task is in error: what the state machine was told. */
enum muster_cause {
    MUSTER_CAUSE_NONE = 0,
    MUSTER_CAUSE_REPORTED = 1,  /* muster_error_report() */
    MUSTER_CAUSE_DIED = 2,      /* the kernel said so */
    MUSTER_CAUSE_HEARTBEAT = 3, /* silent for longer than the timeout: stopped or hung */
    MUSTER_CAUSE_RESTARTED = 4, /* another incarnation registered while it was connected */
    MUSTER_CAUSE_EXITED = 5,    /* its process ended without leaving, with an exit status */
    MUSTER_CAUSE_SERVICE = 6,   /* a client over gRPC: the coordination service, for a failure of more than this task */
};

#define MUSTER_JOIN_RECOVERABLE                                                                                        \
    0x1u /* this task's errors end only waits that need it; MUSTER_RECOVERABLE=1 in the environment says so for all */
/* no heartbeat thread: call muster_heartbeat() yourself; and the thread that joins must live as long as the task does
 */
#define MUSTER_JOIN_NO_HEARTBEAT 0x2u
#define MUSTER_JOIN_OBSERVER     0x4u /* write access without being a task (agents, tools) */
#define MUSTER_JOIN_READ_ONLY                                                                                          \
    0x8u /* look only: no slot, no write access; mutations are PERMISSION_DENIED.                                      \
            Works when all others are stopped or dead. Never creates. */
#define MUSTER_JOIN_TRANSIENT                                                                                          \
    0x20u /* joins for a while, several times (a shell's commands): that it leaves fails                               \
             no barrier, it only takes its arrival back */
/*
 * A worker: an observer that holds objects and runs calls (muster/schedule.h). It has no number, no barrier counts it,
 * and its death ends its calls alone. The thread that joins must live as long as it works.
 */
#define MUSTER_JOIN_WORKER    0x40u
#define MUSTER_JOIN_NO_CREATE 0x10u /* MUSTER_NOT_FOUND rather than create the segment */

/* Zero or NULL in a field: take it from the environment variable named, else the default. */
struct muster_options {
    const char *job;                            /* MUSTER_JOB; required there or here */
    int32_t task_id;                            /* MUSTER_TASK_ID when -1; set -1 by muster_options_init() */
    uint32_t num_tasks;                         /* MUSTER_NUM_TASKS; only used by the creator of the segment */
    uint32_t flags;                             /* MUSTER_JOIN_* */
    uint64_t incarnation;                       /* random when 0 */
    uint64_t heartbeat_period_ns;               /* of the thread; a quarter of the job's timeout */
    const struct muster_segment_config *config; /* for the creator of the segment; defaults when NULL */
    muster_deadline deadline;                   /* for a predecessor's death to be settled; 0: 10 s */
};

MUSTER_API void muster_options_init(struct muster_options *options);

/*
 * Join the job: open its segment (MUSTER_SEGMENT names a path or "fd:N"), or create it; take a slot; register the
 * task. `options` NULL: all from the environment. Errors: MUSTER_ALREADY_EXISTS (the id belongs to a live task: its
 * pid and host are named), MUSTER_ABORTED (the task is in error and not recoverable: reset it first),
 * MUSTER_RESOURCE_EXHAUSTED (no slot or no memory), MUSTER_INVALID_ARGUMENT (also: the task is another host's, which is
 * named), MUSTER_NOT_FOUND,
 * and those of muster_segment_open(). Waits only for a dead predecessor to be scavenged, until the deadline.
 */
MUSTER_API enum muster_status muster_join(const struct muster_options *options, struct muster **ret_muster);

/*
 * Leave: unregister the task (DISCONNECTED), give back the slots, unmap. The last to leave a segment that no launcher
 * keeps unlinks it. Other threads of the process must not be inside a call; their slots are given back, too. `muster`
 * is freed whatever is returned, but in a signal handler that interrupted another call: there nothing is done. NULL is
 * allowed. In a forked child it frees the child's copy only.
 */
MUSTER_API enum muster_status muster_leave(struct muster *muster);

/* The segment behind the handle; owned by the handle. */
MUSTER_API struct muster_segment *muster_segment_of(struct muster *muster);
MUSTER_API const char *muster_job(const struct muster *muster);
MUSTER_API int32_t muster_task_id(const struct muster *muster); /* -1: observer, worker */
MUSTER_API uint32_t muster_num_tasks(const struct muster *muster);
MUSTER_API uint64_t muster_incarnation(const struct muster *muster);

/*
 * Give the calling thread's slot back now instead of at its end. A thread that only reads never takes one. Joined
 * threads that end do this by themselves. The thread that joined without a heartbeat thread keeps its slot: it is the
 * task's life.
 */
MUSTER_API void muster_thread_detach(struct muster *muster);

/* End every wait of this process, now, with MUSTER_CANCELLED. Async-signal-safe. Stays until muster_resume(). */
MUSTER_API void muster_interrupt(struct muster *muster);
MUSTER_API void muster_resume(struct muster *muster);

/* One heartbeat: one store to the task's own line, no system call, no clock. (RPC: Heartbeat.) */
MUSTER_API enum muster_status muster_heartbeat(struct muster *muster);

/*
 * A heartbeat on behalf of `task_id`, as the Heartbeat RPC: MUSTER_INVALID_ARGUMENT (unknown or not registered),
 * MUSTER_ABORTED (in error already; or the incarnation is not the registered one: the task is then set in error).
 */
MUSTER_API enum muster_status muster_task_heartbeat(struct muster *muster, int32_t task_id, uint64_t incarnation);

struct muster_task_info {
    int32_t task_id;
    enum muster_task_state state;
    enum muster_cause cause;
    enum muster_status error; /* MUSTER_OK unless in error */
    int recoverable;
    int alive; /* its process holds a slot now, by the kernel's word; on another host: it is connected */
    uint32_t pid;
    uint32_t attempt; /* registrations so far */
    uint64_t incarnation;
    uint64_t since_ns;   /* CLOCK_MONOTONIC of the last change */
    uint64_t heartbeats; /* counter; 0 for a task on another host, which watches them itself */
    char host[64];       /* "" when it never registered */
    char message[256];   /* of the error */
    char waiting[96];    /* what the thread that has waited longest in muster waits for, or "": "barrier epoch-7::0" */
    uint64_t waiting_since_ns;
    int guest;       /* it speaks through the agent of its host */
    int ended;       /* its launcher has reaped its process, starts none in its place, and nobody speaks for the task */
    int wait_status; /* with `ended`, as waitpid() gives it; -1: not known */
};

/* One task, or all (in id order, `capacity` rows at most; *ret_count gets the number of tasks). */
MUSTER_API enum muster_status muster_task_get(struct muster *muster, int32_t task_id,
                                              struct muster_task_info *ret_info);
MUSTER_API enum muster_status muster_task_list(struct muster *muster, struct muster_task_info *ret_infos,
                                               size_t capacity, size_t *ret_count, uint64_t *ret_version);

/*
 * Wait until the job's state (every registration, departure and error counts one) is newer than `version`, then as
 * muster_task_list(). Version 0 answers at once. A version from the future is MUSTER_INVALID_ARGUMENT. (RPC:
 * WatchJobState.) Errors do not end this wait: they are what it waits for.
 */
MUSTER_API enum muster_status muster_task_watch(struct muster *muster, uint64_t version, muster_deadline deadline,
                                                struct muster_task_info *ret_infos, size_t capacity, size_t *ret_count,
                                                uint64_t *ret_version);

/* Put a task (usually oneself) in error; every task learns of it unless it is recoverable. Keeps the first error. */
MUSTER_API enum muster_status muster_error_report(struct muster *muster, int32_t task_id, enum muster_status code,
                                                  const char *message);

/* The error that was propagated to all: which task, what, when. */
struct muster_error {
    int32_t task_id;
    enum muster_status code;
    enum muster_cause cause;
    uint32_t pid;
    uint64_t incarnation;
    uint64_t since_ns;
    char host[64];
    char message[256];
};

/*
 * Wait until some non-recoverable task is in error; MUSTER_OK fills *ret_error with the first such error (the root
 * cause). (RPC: PollForError.) A past deadline asks without waiting: MUSTER_DEADLINE_EXCEEDED when there is none.
 */
MUSTER_API enum muster_status muster_error_wait(struct muster *muster, muster_deadline deadline,
                                                struct muster_error *ret_error);

/*
 * Disconnect a task, clearing its error, so that it may register anew. MUSTER_FAILED_PRECONDITION when it is
 * disconnected already, or when its process is still alive and is not the caller. (RPC: ResetTask.)
 */
MUSTER_API enum muster_status muster_task_reset(struct muster *muster, int32_t task_id);

/*
 * Which of `task_ids` are alive, as agreed by all of them: returns when every CONNECTED member of the set has called,
 * with the same answer for each. Sorted. (RPC: GetAliveTasks.) The caller must be in the set.
 */
MUSTER_API enum muster_status muster_task_alive(struct muster *muster, const int32_t *task_ids, size_t count,
                                                muster_deadline deadline, int32_t *ret_task_ids,
                                                uint64_t *ret_incarnations, size_t *ret_count);

/*
 * Look for dead processes and clean up after them: their task is set in error, their waiters wake, what they held is
 * freed. Agents call it when the kernel reports a death; waiters and heartbeat threads do so by themselves.
 * *ret_deaths (may be NULL) gets the number of slots scavenged.
 */
MUSTER_API enum muster_status muster_scavenge(struct muster *muster, size_t *ret_deaths);

/*
 * Sleep until the kernel reports the death of a thread that holds a slot (then scavenge it), or the deadline: for
 * agents' watcher threads. A death that somebody else has scavenged first does not end it. About 0.15 ms after SIGKILL
 * whatever the size of the process.
 */
MUSTER_API enum muster_status muster_death_wait(struct muster *muster, muster_deadline deadline, size_t *ret_deaths);

#ifdef __cplusplus
}
#endif
#endif
