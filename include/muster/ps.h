/*
 * muster/ps.h: a parameter server without a server: tensors in the job's segment, which the tasks push to and pull
 * from.
 *
 * A dense tensor is an array of numbers, in one or several shards; a sparse one is a table of rows by 64-bit keys. The
 * calling thread does the work in shared memory, and no other process takes part. A push to a shard above 32 KiB that
 * finds another one under way waits for its end, but at most 20 ms and 20 us for each KiB of the shard, and not at all
 * when the other's process is dead.
 *
 * A push of a dense shard is one commit: a reader sees all of it or none, and so does a SIGKILL in its midst. A shard
 * has a version, which each commit that changes its values raises. A push of rows is one commit a row.
 *
 * Rounds: with `pushers` > 0, a push is kept until that many tasks have pushed in this round; the last one of them adds
 * (or averages) them, applies the optimizer once, and raises the version by 1: in the same commit as its own push. A
 * task may push ahead of the round that is open by `staleness` rounds; then its push waits. Rows have no rounds. A
 * process without a task's number, a worker (MUSTER_JOIN_WORKER), pushes to tensors without rounds only.
 *
 * A tensor lives as long as a task has it open. All calls are thread-safe. None blocks but those with a deadline, and
 * muster_ps_set() and muster_ps_load() of a shard above 32 KiB, which wait for a push as above.
 * MUSTER_UNAVAILABLE: a task is in error; MUSTER_CANCELLED: interrupted, or the job was closed, while it waited.
 * Tensors belong to tasks of one host: in a job of several hosts MUSTER_UNIMPLEMENTED. (Semantics: ps-lite's KVWorker,
 * and MindSpore's Push and Pull.)
 */
#ifndef MUSTER_PS_H
#define MUSTER_PS_H

#include <muster/object.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_PS_NAME_MAX   255u
#define MUSTER_PS_DIMS_MAX   8u
#define MUSTER_PS_SHARDS_MAX 256u
#define MUSTER_PS_KEPT_MAX   1024u        /* pushes that a shard keeps: pushers * (staleness + 1) */
#define MUSTER_PS_ROW_MAX    16384u       /* bytes of a row's values */
#define MUSTER_PS_ROWS_MAX   (1ull << 28) /* of a table */

struct muster_ps;

enum muster_ps_type {
    MUSTER_PS_FLOAT = 0,
    MUSTER_PS_DOUBLE = 1,
    MUSTER_PS_INT32 = 2,
    MUSTER_PS_INT64 = 3,
};

/* What a push does to the values p, with g the push, or what the pushes of a round are together. */
enum muster_ps_optimizer {
    MUSTER_PS_ADD = 0,      /* p + g; integers wrap */
    MUSTER_PS_SGD = 1,      /* p - rate * g */
    MUSTER_PS_MOMENTUM = 2, /* m = momentum * m + g; p - rate * m */
    MUSTER_PS_ADAM = 3,     /* with beta1, beta2, epsilon, and the steps counted */
};
#define MUSTER_PS_AVERAGE 1u /* g is the mean of a round's pushes, not the sum */

struct muster_ps_config {
    enum muster_ps_type type;
    uint32_t num_dims;                 /* 0: one number */
    uint64_t dims[MUSTER_PS_DIMS_MAX]; /* of the tensor, or of a row */
    uint64_t rows;      /* 0: dense; else the rows of a table; threads that push at once may add one more each */
    uint32_t shards;    /* of a dense tensor, each with commits of its own; 0: 1 */
    uint32_t pushers;   /* 0: each push is applied at once */
    uint32_t staleness; /* rounds that a task may be ahead before its push waits */
    uint32_t flags;     /* MUSTER_PS_AVERAGE */
    enum muster_ps_optimizer optimizer; /* of float and double; integers: MUSTER_PS_ADD */
    double rate;
    double momentum; /* and beta1 */
    double beta2;
    double epsilon;
};

/*
 * Make the tensor, or open it where there is one of this name and configuration (its rate may have changed):
 * so all tasks may call it. `initial` (NULL: zeros) is what a new dense tensor holds; NULL for tables.
 * MUSTER_FAILED_PRECONDITION: one with another configuration is there. MUSTER_RESOURCE_EXHAUSTED, MUSTER_OUT_OF_RANGE:
 * no room (muster_segment_config.object_bytes).
 */
MUSTER_API enum muster_status muster_ps_create(struct muster *muster, const char *name,
                                               const struct muster_ps_config *config, const void *initial,
                                               struct muster_ps **ret_ps);

/* Open it, waiting until it is there. */
MUSTER_API enum muster_status muster_ps_open(struct muster *muster, const char *name, muster_deadline deadline,
                                             struct muster_ps **ret_ps);

/* The handle goes; with the last one of the job the tensor. No thread may be in a call on it. NULL is allowed. */
MUSTER_API void muster_ps_close(struct muster_ps *ps);

struct muster_ps_info {
    struct muster_ps_config config;
    uint64_t count;   /* numbers: of the tensor, or of a row */
    uint64_t bytes;   /* of these */
    uint64_t version; /* dense: of the shard that is furthest behind */
    uint64_t steps;   /* of its optimizer */
    uint64_t rows;    /* sparse: that are there */
    uint32_t kept;    /* pushes that its open rounds have */
};
MUSTER_API enum muster_status muster_ps_info(struct muster_ps *ps, struct muster_ps_info *ret_info);

/* The rate of the pushes from now on. */
MUSTER_API enum muster_status muster_ps_set_rate(struct muster_ps *ps, double rate);

/* ---- dense ---- */

/*
 * Push as many numbers as the tensor has. The deadline is for the turn of a round that has ended (and of a large push
 * behind another): MUSTER_DEADLINE_EXCEEDED names the pushes that the round has. *ret_version (may be NULL): the
 * version that has this push, of the last shard: where it is kept, the one that its round will make unless it is
 * set before. Where a call fails, and the tensor has several shards, the first of them may have the push.
 * MUSTER_FAILED_PRECONDITION: the tensor has rounds, and the caller is no task.
 */
MUSTER_API enum muster_status muster_ps_push(struct muster_ps *ps, const void *data, muster_deadline deadline,
                                             uint64_t *ret_version);

/* Set the values, whatever the round; the optimizer's state and the pushes that are kept stay. */
MUSTER_API enum muster_status muster_ps_set(struct muster_ps *ps, const void *data, uint64_t *ret_version);

/* Copy the values out; *ret_version (may be NULL) is the lowest version of a shard. Each shard is of one instant. */
MUSTER_API enum muster_status muster_ps_pull(struct muster_ps *ps, void *buffer, uint64_t *ret_version);

/*
 * A read-only view of a shard's values as they are now; later pushes do not change it. It is given back by
 * muster_object_unview(), and holds its memory until then. *ret_first (may be NULL): the number of its first value.
 */
MUSTER_API enum muster_status muster_ps_view(struct muster_ps *ps, uint32_t shard, struct muster_object_view *ret_view,
                                             uint64_t *ret_first, uint64_t *ret_version);

/* Wait until every shard has at least this version. */
MUSTER_API enum muster_status muster_ps_wait(struct muster_ps *ps, uint64_t version, muster_deadline deadline,
                                             uint64_t *ret_version);

/* ---- sparse ---- */

/*
 * Push a row of numbers for each key, by the table's optimizer; a row that is not there begins as zeros. Keys may come
 * several times. MUSTER_RESOURCE_EXHAUSTED: the table is full; *ret_done (may be NULL): how many rows were pushed.
 */
MUSTER_API enum muster_status muster_ps_rows_push(struct muster_ps *ps, const uint64_t *keys, size_t count,
                                                  const void *rows, size_t *ret_done);
/* The same, but rows get these values; the optimizer's state of a row stays. */
MUSTER_API enum muster_status muster_ps_rows_set(struct muster_ps *ps, const uint64_t *keys, size_t count,
                                                 const void *rows, size_t *ret_done);
/* Copy the rows out; zeros where there is none, and ret_there[i] (NULL: not asked for) says whether there is. */
MUSTER_API enum muster_status muster_ps_rows_pull(struct muster_ps *ps, const uint64_t *keys, size_t count,
                                                  void *ret_rows, unsigned char *ret_there);

/* ---- files ---- */

/* Write values and the optimizer's state to a new file of mode 0600, which replaces `path` when it is whole. */
MUSTER_API enum muster_status muster_ps_save(struct muster_ps *ps, const char *path);
/* Read them into a tensor of the same type, number of values, shards, and arrays of optimizer state: its shape is not
 * compared, nor is ADD with SGD. MUSTER_INVALID_ARGUMENT: another one; MUSTER_DATA_LOSS: the file is not whole. A dense
 * one gets a new version a shard; the pushes that are kept stay. A table keeps its rows of other keys. */
MUSTER_API enum muster_status muster_ps_load(struct muster_ps *ps, const char *path);

#ifdef __cplusplus
}
#endif
#endif
