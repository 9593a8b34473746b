/*
 * checkpoint/private.h: what the files of this room share.
 *
 * folder.c   where a run's checkpoints lie; removing them; what a restart withdraws
 * head.c     the head of a checkpoint: its words, and the commit
 * part.c     a rank's part: its file, table and lock
 * save.c     saving; load.c: views; checkpoint.c: opening, waiting, looking
 * hosts.c    what the agents of several hosts tell each other of their ranks' rows
 * whole.c    whole generations, for processes that are no tasks
 */
#ifndef MU_CHECKPOINT_PRIVATE_H
#define MU_CHECKPOINT_PRIVATE_H

#include <muster/checkpoint.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "segment/handle.h"

/* ---- the head: NAME@RANKS.head ---- */

#define MU_CHECKPOINT_HEAD_MAGIC 0x32646165686b636dull /* "mckhead2" */
#define MU_CHECKPOINT_PART_MAGIC 0x31747261706b636dull /* "mckpart1" */

/* Of one rank; written by its process alone, and, while it has none that lives, by the launcher. */
struct mu_checkpoint_row {
    mu_a64 done;    /* the newest generation that it has saved */
    mu_a64 step[2]; /* of generation g: step[g % 2] */
    mu_a64 life;    /* the member of the job (struct muster.member) that opened it last; 0: none */
    uint64_t pad[12];
};

struct mu_checkpoint_head {
    uint64_t magic;
    uint32_t ranks, unused;
    uint64_t pad0[14];
    mu_a64 first; /* generations up to here are of another number of ranks, and lie elsewhere */
    uint64_t pad1[15];
    mu_a64 whole; /* {a count of withdrawals, the newest whole generation, S}: the one word that commits */
    uint64_t pad2[15];
    struct mu_checkpoint_row rows[];
};
_Static_assert(sizeof(struct mu_checkpoint_row) == 128, "a line a rank");
_Static_assert(offsetof(struct mu_checkpoint_head, whole) == 256, "a line of its own");
_Static_assert(sizeof(struct mu_checkpoint_head) == 384, "the rows follow");

/* 16 bits, 47 bits, 1 bit. */
#define MU_CHECKPOINT_ONE               2ull
#define MU_CHECKPOINT_WITHDRAWAL        (1ull << 48) /* the count goes round */
#define MU_CHECKPOINT_GENERATION(whole) (((whole) & (MU_CHECKPOINT_WITHDRAWAL - 1)) >> 1)

static inline size_t mu_checkpoint_head_bytes(uint32_t ranks)
{
    return sizeof(struct mu_checkpoint_head) + ranks * sizeof(struct mu_checkpoint_row);
}

/* ---- a part: NAME@RANKS.RANK.0 or .1, by its generation ---- */

struct mu_checkpoint_part {
    uint64_t magic;
    mu_a64 generation; /* 0 while it is being written */
    uint64_t step;
    uint32_t rank, ranks;
    uint64_t bytes;        /* of the file that are in use */
    uint32_t count, names; /* tensors; bytes of their names, behind the rows, each with its NUL */
    uint64_t data;         /* where the tensors' bytes begin */
};
struct mu_checkpoint_tensor_row {
    char dtype[MUSTER_CHECKPOINT_DTYPE_MAX + 1];
    uint64_t shape[MUSTER_CHECKPOINT_DIMS_MAX];
    uint64_t at, len;        /* from the file's beginning */
    uint32_t name, num_dims; /* name: within the names */
};

enum { MU_CHECKPOINT_PATH_MAX = 512, MU_CHECKPOINT_ALIGN = 64, MU_CHECKPOINT_PAGE = 4096 };

/* A part's file, mapped: for writing, or as a view. */
struct mu_checkpoint_file {
    int fd; /* -1: none */
    uint8_t *base;
    size_t bytes;     /* mapped */
    size_t committed; /* bytes that have pages, as far as we know */
};

struct mu_checkpoint_piece {
    const uint8_t *data;
    uint64_t at, len;
};

struct muster_checkpoint {
    struct muster *m;
    char name[MUSTER_CHECKPOINT_NAME_MAX + 1];
    char folder[MU_CHECKPOINT_PATH_MAX / 2];
    uint32_t ranks;
    int32_t rank;
    struct mu_checkpoint_head *head;
    int bell;              /* wakes this host's agent, which tells the other hosts; -1: there are none */
    uint64_t before;       /* the newest whole generation of another number of ranks; 0: none */
    uint32_t before_ranks; /* that number */
    struct mu_checkpoint_file files[2];
    /* the save under way; pieces NULL: none */
    struct mu_checkpoint_piece *pieces;
    size_t num_pieces, next_piece;
    uint64_t next_byte, left, generation, step;
    uint64_t committed; /* the last */
};

/* ---- folder.c ---- */
/* Make or find the folder at this path. */
enum muster_status mu_checkpoint_folder_own(const char *path);
void mu_checkpoint_head_path(const char *folder, const char *name, uint32_t ranks, char *path, size_t size);
void mu_checkpoint_part_path(const char *folder, const char *name, uint32_t ranks, uint32_t rank, uint64_t generation,
                             char *path, size_t size);
/* The name and number of ranks of a head's file. */
bool mu_checkpoint_is_head(const char *file, char name[MUSTER_CHECKPOINT_NAME_MAX + 1], uint32_t *ret_ranks);
/* Each head in the folder. */
typedef void (*mu_checkpoint_visit)(void *arg, const char *name, uint32_t ranks);
void mu_checkpoint_each(const char *folder, mu_checkpoint_visit visit, void *arg);
/* Remove what the checkpoint has of other numbers of ranks. */
void mu_checkpoint_prune(const char *folder, const char *name, uint32_t ranks);

/* ---- head.c ---- */
/* Map it; `make`: where there is none, make one. NOT_FOUND: there is none. */
enum muster_status mu_checkpoint_head_open(const char *folder, const char *name, uint32_t ranks, bool make,
                                           struct mu_checkpoint_head **ret_head);
void mu_checkpoint_head_close(struct mu_checkpoint_head *head, uint32_t ranks);
/* Count the rows, and commit what is whole: all rows are done, with one step. The newest whole generation. */
uint64_t mu_checkpoint_settle(struct mu_checkpoint_head *head, uint32_t ranks);
/* The first rank with another step than rank 0, if all have saved the generation that would be the next; 0: none. */
uint32_t mu_checkpoint_stray(struct mu_checkpoint_head *head, uint32_t ranks, uint64_t steps[2]);
/* This rank's part is saved; others see what was written before. */
void mu_checkpoint_done(struct mu_checkpoint_head *head, uint32_t rank, uint64_t generation, uint64_t step);
/* What a rank has saved of a generation that is not whole counts no more. The newest whole generation. */
uint64_t mu_checkpoint_withdraw(struct mu_checkpoint_head *head, uint32_t rank);
/* Generations go on behind `before`, which was saved by another number of ranks. */
void mu_checkpoint_go_on_behind(struct mu_checkpoint_head *head, uint64_t before);

/* Before any task lives: this generation, saved at this step, is the newest whole one, and nothing is beyond it. */
void mu_checkpoint_agree(struct mu_checkpoint_head *head, uint32_t ranks, uint64_t generation, uint64_t step);

/* ---- hosts.c ---- */
/* A descriptor by which a task wakes its host's agent. FAILED_PRECONDITION: no agent listens. */
enum muster_status mu_checkpoint_bell_open(const char *folder, int *ret_bell);
/* A head may be new, or a row has changed: MU_CHECKPOINT_OPENED, MU_CHECKPOINT_SAVED. Never blocks. */
enum { MU_CHECKPOINT_OPENED = 'o', MU_CHECKPOINT_SAVED = 's' };
void mu_checkpoint_bell_ring(int bell, char what);

/* ---- part.c ---- */
/* Make the file ready for a generation of so many bytes: locked, marked as torn, its pages there and mapped. */
enum muster_status mu_checkpoint_part_write(struct muster_checkpoint *cp, uint64_t generation, size_t bytes);
void mu_checkpoint_file_close(struct mu_checkpoint_file *file);
/* A copy of the head of a part, which has its table within the file; false: it is damaged. */
bool mu_checkpoint_part_is_sound(const uint8_t *base, size_t bytes, struct mu_checkpoint_part *ret_part);

/* ---- checkpoint.c ---- */
/* Whether a checkpoint may be called so. */
bool mu_checkpoint_is_name(const char *name);
/* Until the generation is whole. */
enum muster_status mu_checkpoint_await(struct muster_checkpoint *cp, struct mu_ctx *ctx, uint64_t generation,
                                       muster_deadline deadline);
/* The newest whole generation, 0: none, and the number of ranks that saved it. */
uint64_t mu_checkpoint_newest(struct muster_checkpoint *cp, uint32_t *ret_ranks);

#endif
