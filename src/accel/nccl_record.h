/*
 * accel/nccl_record.h: what the segment holds of a communicator's name, and how it may change. Pure: no memory is
 * shared here, so that every transition is tested without processes.
 *
 *     (none)  --ask--> MAKING
 *     MAKING  --made--> READY
 *             --not made, given up--> FAILED
 *             --its maker is lost; ask--> MAKING of the next generation
 *     READY   --ask--> READY, until all ranks have it
 *             --all ranks are through--> (none)
 *             --given up, another version asks--> FAILED
 *             --all have it; or dead: its maker or a taker lost, expired; ask--> MAKING of the next generation
 *     FAILED  --ask--> MAKING of the next generation
 *
 * A task of another host asks in two steps: it is told the ids, then says that it has them (claims). Each step that is
 * asked for from there may be carried out twice, because the agent that did it the first time died with the answer. So
 * each leaves in the record which rank did what to which generation; a second time finds that and changes nothing.
 */
#ifndef MU_ACCEL_NCCL_RECORD_H
#define MU_ACCEL_NCCL_RECORD_H

#include <stdbool.h>

#include <muster/nccl.h>

struct mu_nccl_head {
    uint64_t generation; /* from 1 */
    uint64_t history;    /* of those before it, the last one in bit 0: 1 if all had taken it and nobody was lost */
    uint64_t since;
    uint64_t expires; /* once READY */
    uint64_t owner_incarnation;
    int32_t owner_task;
    uint32_t owner_rank;
    uint32_t owner_attempt; /* of its registration, as in the takers' flags */
    uint32_t reserved;
    uint32_t state; /* enum muster_nccl_state */
    int32_t version;
    uint32_t nranks, nids;
    uint32_t taken, done; /* how many takers have the flag */
    char reason[120];     /* of the last generation that failed */
};

/* One for each rank, behind the head; then the ids. */
struct mu_nccl_taker {
    uint64_t incarnation;
    int32_t task;
    uint32_t flags;
};
#define MU_NCCL_TAKEN          1u
#define MU_NCCL_DONE           2u
#define MU_NCCL_ATTEMPT(flags) ((flags) >> 8) /* the low bits of the attempt at which its task had registered */
#define MU_NCCL_ATTEMPT_MASK   0xffffffu

struct mu_nccl_record {
    struct mu_nccl_head *head;
    struct mu_nccl_taker *takers;
    char *ids;
};

size_t mu_nccl_record_size(uint32_t nranks, uint32_t nids);

/* A view of a private, aligned copy of `len` bytes. False: not well formed. */
bool mu_nccl_record_view(struct mu_nccl_record *r, void *copy, size_t len);

enum mu_nccl_presence { MU_NCCL_HERE, MU_NCCL_LEFT, MU_NCCL_LOST };

#define MU_NCCL_TASK_NAME 72u

/* The asking rank, and what of the world the answer depends on. */
struct mu_nccl_asker {
    uint32_t nranks, nids, rank;
    int32_t version, task;
    uint32_t attempt; /* MU_NCCL_ATTEMPT_MASK of it */
    bool claims;      /* of another host: takes in two steps */
    bool resent;      /* and this one may have been carried out before */
    uint64_t incarnation, now, expiry;
    enum mu_nccl_presence (*presence)(void *arg, int32_t task, uint64_t incarnation, uint32_t attempt);
    void (*name)(void *arg, int32_t task, char name[MU_NCCL_TASK_NAME]); /* NULL: "task 3" */
    void *arg;
};

enum mu_nccl_answer {
    MU_NCCL_MAKE,  /* changed: the asker owns a new generation */
    MU_NCCL_TAKE,  /* changed: the asker has the ids */
    MU_NCCL_WAIT,  /* for the owner */
    MU_NCCL_THERE, /* the ids may be claimed */
    MU_NCCL_AGAIN, /* what was to be claimed is no more: ask again */
    /* refused */
    MU_NCCL_TWICE,         /* the asker took this generation before */
    MU_NCCL_CLAIMED,       /* another task is this rank */
    MU_NCCL_OTHER_COUNT,   /* of ranks or ids */
    MU_NCCL_OTHER_VERSION, /* changed: the generation is FAILED */
};

/* One rank asks. The copy must have room for a record of the asker's size as well as its own. */
enum mu_nccl_answer mu_nccl_request(struct mu_nccl_record *r, const struct mu_nccl_asker *a);

/* Whether the asker would begin the next generation because the maker of this one is lost. */
bool mu_nccl_is_maker_lost(const struct mu_nccl_record *r, const struct mu_nccl_asker *a);

/* Take the ids of a generation that the asker was told of. MU_NCCL_TAKE (changed, or by an earlier sending), _CLAIMED,
 * or _AGAIN. */
enum mu_nccl_answer mu_nccl_claim(struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation);

/* The first generation of a name, in zeroed room of the asker's size. */
void mu_nccl_first(struct mu_nccl_record *r, void *room, const struct mu_nccl_asker *a);

/* The owner has made the ids and has its own. False: it is the owner no longer; nothing is changed. Nor is anything
 * where an earlier sending did it. */
bool mu_nccl_made(struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation, const char *ids);

/* Whether the asker is making this generation. */
bool mu_nccl_is_maker(const struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation);

/* FAILED, if it is this generation and not past already (false: nothing is changed). */
bool mu_nccl_fail(struct mu_nccl_record *r, uint64_t generation, uint64_t now, const char *reason);

/* Whether a generation before the present one is known to have died: somebody may hold it still, and ask. */
bool mu_nccl_has_died(const struct mu_nccl_record *r);

/* FAILED, if not all ranks had come in time. False: nothing is changed. */
bool mu_nccl_expire(struct mu_nccl_record *r, uint64_t now);

/* The initialisation of the asker, which has taken this generation as its rank, is through. False: nothing is changed.
 */
bool mu_nccl_done(struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation);

/* Whether the generation is dead: true with the reason. The asker's shape and rank do not matter. */
bool mu_nccl_is_dead(const struct mu_nccl_record *r, const struct mu_nccl_asker *a, uint64_t generation,
                     char reason[120]);

#endif
