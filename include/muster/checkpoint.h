/*
 * muster/checkpoint.h: checkpoints in memory, which outlive the task that saved them and the attempt of its job.
 *
 * Each task of the job saves its part, named tensors, as one generation after the other: 1, 2, 3, ... A generation is
 * whole when every task of the job has saved its part of it; the newest whole one is what any load sees, never a mix of
 * two. A task begins generation g + 1 only when g is whole, and keeps the parts of two: so whichever processes are
 * killed at whatever instant, the newest whole generation stays readable.
 *
 * The parts are files in shared memory, not in the job's segment: a task that is started again finds them, and so does
 * the whole job after `muster run --restarts`. They go with the job: its launcher removes them at the end of the last
 * attempt, its guard where the launcher was killed. With `--survive` they stay for as long as the tasks go on. What is
 * to outlive the machine is written by `muster run --checkpoint-dir`, which also reads it back: docs/CHECKPOINT.md.
 *
 * A save copies at the speed of memory: the pages of both generations are kept by the handle, and are warm from the
 * third save on, or after muster_checkpoint_reserve(). A load is a view of the very bytes, without a copy.
 *
 * A job has checkpoints where MUSTER_RUN_ID is set, as by muster's launcher; else muster_checkpoint_open() is
 * MUSTER_FAILED_PRECONDITION. Of a job of several hosts each keeps its own tasks' parts, which can be loaded there
 * alone; its tasks are started again together, or not at all (no `--restart-policy task`). A task that has left the job
 * counts as a rank all the same: a generation that it has not saved never becomes whole, and a wait for it ends by its
 * deadline. A handle is used by one thread at a time; a process has one for each name, and closes it before it leaves
 * the job. A forked child has none. Observers and workers may load, and not save. None blocks but those with a
 * deadline.
 */
#ifndef MUSTER_CHECKPOINT_H
#define MUSTER_CHECKPOINT_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

struct muster_checkpoint; /* this task's part in the checkpoints of one name */

#define MUSTER_CHECKPOINT_NAME_MAX    64u    /* bytes of a checkpoint's name: letters, digits, '_', '-' and '.' */
#define MUSTER_CHECKPOINT_TENSORS_MAX 65536u /* of one part */
#define MUSTER_CHECKPOINT_DIMS_MAX    8u     /* of a tensor */
#define MUSTER_CHECKPOINT_DTYPE_MAX   15u    /* bytes of a type's name */
#define MUSTER_CHECKPOINT_TENSOR_MAX  1023u  /* bytes of a tensor's name */
#define MUSTER_CHECKPOINT_OWN         (-1)   /* the caller's rank */

/* A tensor, or plain bytes. What the type's name means, and that shape and length agree, is the caller's to know. */
struct muster_checkpoint_tensor {
    const char *name;  /* unlike all others' of the part; NUL-terminated */
    const char *dtype; /* "float32", "bytes", ... */
    uint32_t num_dims;
    uint64_t shape[MUSTER_CHECKPOINT_DIMS_MAX];
    const void *data; /* in a view: at a multiple of 64 */
    size_t len;
};

/*
 * The checkpoints of this name; the first task makes them. What this task's predecessor had saved of a generation that
 * is not whole is withdrawn; what the caller itself had, by a handle that it has closed, counts on.
 * MUSTER_INVALID_ARGUMENT: the name; MUSTER_FAILED_PRECONDITION: the job is none that has checkpoints, or its members
 * change while it runs (`--elastic --live`); MUSTER_PERMISSION_DENIED: somebody else has the folder;
 * MUSTER_RESOURCE_EXHAUSTED: no memory; MUSTER_UNAVAILABLE: the folder cannot be made or opened; MUSTER_DATA_LOSS: what
 * is there is no checkpoint of this version.
 */
MUSTER_API enum muster_status muster_checkpoint_open(struct muster *muster, const char *name,
                                                     struct muster_checkpoint **ret_checkpoint);
/* Give the handle back; what was saved stays, a save that was not committed does not. NULL is allowed. */
MUSTER_API void muster_checkpoint_close(struct muster_checkpoint *checkpoint);

/* Have warm pages for two generations of `bytes` of tensors each. MUSTER_RESOURCE_EXHAUSTED: there is no room. */
MUSTER_API enum muster_status muster_checkpoint_reserve(struct muster_checkpoint *checkpoint, size_t bytes);

/*
 * Save this task's part of the next generation: a copy of all these tensors. `step` is the caller's own number for it,
 * the same in all tasks. It waits, up to the deadline, until the generation before is whole; 0 asks without waiting.
 * It does not wait until this one is. *ret_generation (it may be NULL) gets its number.
 * MUSTER_DEADLINE_EXCEEDED: the generation before is not whole: the tasks that have not saved it are named;
 * MUSTER_RESOURCE_EXHAUSTED: no room for the part: the newest whole generation is as it was; MUSTER_UNAVAILABLE: a task
 * is in error; MUSTER_CANCELLED: interrupted, or the job was closed; MUSTER_INVALID_ARGUMENT: two tensors of one name,
 * too many dimensions and the like; MUSTER_FAILED_PRECONDITION: the caller has no rank.
 */
MUSTER_API enum muster_status muster_checkpoint_save(struct muster_checkpoint *checkpoint, uint64_t step,
                                                     const struct muster_checkpoint_tensor *tensors, size_t count,
                                                     muster_deadline deadline, uint64_t *ret_generation);

/*
 * The same in pieces, for a loop that does other work between: begin, copy until *ret_left (bytes) is 0, commit. The
 * tensors' data, not the array, stays as it is until then. The next begin, or the end of the process, gives up what was
 * not committed: that is no part of any generation. MUSTER_FAILED_PRECONDITION: nothing was begun, or bytes are left.
 */
MUSTER_API enum muster_status muster_checkpoint_begin(struct muster_checkpoint *checkpoint, uint64_t step,
                                                      const struct muster_checkpoint_tensor *tensors, size_t count,
                                                      muster_deadline deadline);
MUSTER_API enum muster_status muster_checkpoint_copy(struct muster_checkpoint *checkpoint, size_t bytes,
                                                     size_t *ret_left);
MUSTER_API enum muster_status muster_checkpoint_commit(struct muster_checkpoint *checkpoint, uint64_t *ret_generation);

/*
 * Wait until the generation, or a newer one, is whole; 0: the last that this handle has committed. The errors of
 * muster_checkpoint_save(); MUSTER_ABORTED: all tasks have saved this generation, and different steps of it: two are
 * named. It never becomes whole, and the one before stays the newest; a task that is started again withdraws its part.
 */
MUSTER_API enum muster_status muster_checkpoint_wait(struct muster_checkpoint *checkpoint, uint64_t generation,
                                                     muster_deadline deadline);

/* The newest whole generation. */
struct muster_checkpoint_info {
    uint64_t generation; /* 0: none is whole */
    uint64_t step;
    uint32_t ranks; /* that saved it */
    uint32_t job_ranks;
    int32_t rank;   /* of the caller; -1: none */
    uint64_t saved; /* the newest generation of which the caller's part is saved, whole or not */
};
/* Never blocks. */
MUSTER_API enum muster_status muster_checkpoint_info(struct muster_checkpoint *checkpoint,
                                                     struct muster_checkpoint_info *ret_info);

/* A part of a whole generation, read-only. It stays as it is until muster_checkpoint_unload(), whatever is saved. */
struct muster_checkpoint_view {
    uint64_t generation, step;
    uint32_t rank, ranks;
    const struct muster_checkpoint_tensor *tensors; /* in the order of their saving */
    size_t count;
    void *own; /* the library's */
};

/*
 * View the part that `rank` saved of the newest whole generation; MUSTER_CHECKPOINT_OWN: the caller's own. Never waits.
 * MUSTER_NOT_FOUND: no generation is whole, or it has no such rank; MUSTER_FAILED_PRECONDITION: it was saved by another
 * number of ranks than the job has, so no part of it is the caller's own: each can be had by its rank, below
 * muster_checkpoint_info.ranks; or the part is on another host, which is named; MUSTER_DATA_LOSS: the part is missing
 * or damaged.
 */
MUSTER_API enum muster_status muster_checkpoint_load(struct muster_checkpoint *checkpoint, int32_t rank,
                                                     struct muster_checkpoint_view *ret_view);
/* Give it back; its tensors are no longer valid. A view of zeros is left alone. Any thread; before the process ends.
 * In a forked child it gives back the child's copy alone. */
MUSTER_API void muster_checkpoint_unload(struct muster_checkpoint_view *view);

/*
 * The tensor of this name, which must have that type and shape; `dtype` NULL: any of both. MUSTER_NOT_FOUND: there is
 * none; MUSTER_INVALID_ARGUMENT: it has another type or shape: both are named. Never blocks.
 */
MUSTER_API enum muster_status muster_checkpoint_find(const struct muster_checkpoint_view *view, const char *name,
                                                     const char *dtype, uint32_t num_dims, const uint64_t *shape,
                                                     const struct muster_checkpoint_tensor **ret_tensor);

#ifdef __cplusplus
}
#endif
#endif
