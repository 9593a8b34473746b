/*
 * muster/segment.h: the shared-memory segment of a job on this node, seen from outside.
 *
 * A program that takes part in a job wants muster/task.h. The calls here create, inspect, audit and remove segments:
 * launchers, tools and tests use them. A segment is the file /dev/shm/muster-<uid>-<job> (mode 0600), or a sealed
 * memfd without a name, handed on by inheritance. It appears whole or not at all: it is built unnamed, then linked.
 *
 * Limits: job names 1 to 200 bytes of [A-Za-z0-9._-], not starting with a dot; 1 to 16000 slots (one per thread that
 * writes); heap 1 MiB to 8 GiB, committed in pieces as it is used.
 */
#ifndef MUSTER_SEGMENT_H
#define MUSTER_SEGMENT_H

#include <muster/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Zero in a field means the default named beside it. That of slots is room for 16 threads of each task, for the
 * heartbeat of each, and for 64 of others: at most 8192, or 2 * num_tasks + 64 where that is more, never above 16000.
 * In a segment of several hosts only its own host's tasks count for the 16.
 */
struct muster_segment_config {
    uint32_t num_tasks;            /* tasks of the job: 1 to 8192; required */
    uint32_t num_slots;            /* threads that may write at once; 17 * num_tasks + 64 */
    uint32_t num_buckets;          /* of the key-value index, rounded up to a power of two; 32768 */
    uint32_t num_events;           /* events kept for late readers, rounded up to a power of two; 1024 */
    uint64_t heap_bytes;           /* address space for blocks, committed as used; 1 GiB */
    uint64_t heartbeat_timeout_ns; /* a task silent for longer is in error; 10 s */
    int memfd;                     /* 1: no name, a sealed memfd; see muster_segment_fd() */
    uint32_t trace_events;         /* kept of each thread's trace, rounded up to a power of two of at least 64; none */
    int listened;          /* 1: its creator listens for changes (muster run --grpc), each of which costs a fence */
    uint64_t object_bytes; /* address space for objects above 64 KiB, committed as used; the machine's memory */
};

struct muster_segment_info {
    char job[208];
    char path[272];     /* "" for a memfd */
    uint64_t run_id[2]; /* random, one per creation */
    uint32_t creator_pid;
    uint32_t uid;
    uint64_t created_unix_ns;
    uint64_t size_bytes;      /* address space, but for object_bytes */
    uint64_t committed_bytes; /* really allocated */
    uint32_t num_tasks, num_slots, num_buckets, num_events;
    uint32_t slots_live; /* slots held now */
    int closed;
    uint32_t trace_events; /* kept of each thread; 0: nothing is traced */
    uint64_t object_bytes; /* address space for objects above 64 KiB; 0: there can be none */
};

/* An open segment. Read-only unless created or opened for writing. Thread-safe; not usable in a forked child. */
struct muster_segment;

/*
 * Create the job's segment. MUSTER_ALREADY_EXISTS when a live one has the name (a left-over of an earlier boot or of
 * a run with dead processes alone is replaced); MUSTER_PERMISSION_DENIED when the name belongs to another user;
 * MUSTER_RESOURCE_EXHAUSTED when /dev/shm cannot hold even an empty segment (use config.memfd). Does not block.
 */
MUSTER_API enum muster_status muster_segment_create(const char *job, const struct muster_segment_config *config,
                                                    struct muster_segment **ret_segment);

/*
 * Open the segment of `job` read-only: works when every process of the job is stopped or dead. `job` may also be a
 * path (it contains '/') or "fd:N". Errors: MUSTER_NOT_FOUND; MUSTER_FAILED_PRECONDITION (another layout version:
 * both are named); MUSTER_DATA_LOSS (truncated, half-written or corrupt: what is wrong is named);
 * MUSTER_PERMISSION_DENIED.
 */
MUSTER_API enum muster_status muster_segment_open(const char *job, struct muster_segment **ret_segment);

/* Unmap. NULL is allowed. The segment itself stays. */
MUSTER_API void muster_segment_close(struct muster_segment *segment);

/* Fill *ret_info. Never blocks. */
MUSTER_API enum muster_status muster_segment_info(struct muster_segment *segment, struct muster_segment_info *ret_info);

/* The descriptor of the mapping, to be inherited by tasks (it is close-on-exec); owned by the segment. */
MUSTER_API int muster_segment_fd(struct muster_segment *segment);

/*
 * Mark the job removed (joiners are refused; waits, and all calls but muster_leave() that come after it, return
 * MUSTER_CANCELLED, except through read-only handles; its launcher ends it) and unlink its name. The memory goes when
 * the last process unmaps it. Needs a segment from muster_segment_create(), or the right to write.
 */
MUSTER_API enum muster_status muster_segment_remove(const char *job);

/* One row per segment of this user in /dev/shm, sound or not; stops when `visit` returns non-zero. */
struct muster_segment_row {
    const char *job;
    const char *path;
    uint64_t size_bytes, committed_bytes;
    uint32_t creator_pid;
    uint32_t slots_live;
    const char *problem; /* NULL: sound; else why it cannot be opened */
};
MUSTER_API enum muster_status muster_segment_list(int (*visit)(void *arg, const struct muster_segment_row *row),
                                                  void *arg);

/*
 * The auditor: walk everything and verify every structural rule (references in range and alive, each block either
 * free, owned by a live slot, or reachable exactly once; pages well formed; counters consistent). `report` is called
 * once for each violation. Returns MUSTER_OK with the number of violations in ret_audit->problems (0: sound). On a busy
 * segment a suspected leak is looked at again before it is reported. 1 M objects take about 15 ms.
 */
struct muster_audit {
    uint64_t blocks_free, blocks_owned, blocks_live;
    uint64_t bytes_live; /* payload bytes of live blocks */
    uint64_t keys;
    uint64_t problems;
};
MUSTER_API enum muster_status muster_segment_check(struct muster_segment *segment,
                                                   void (*report)(void *arg, const char *sentence), void *arg,
                                                   struct muster_audit *ret_audit);

#ifdef __cplusplus
}
#endif
#endif
