/*
 * accel/stream.h: the stream barrier's private side: the shared words, the operations of a round, and their executors.
 *
 * The protocol knows two operations only, "write 32 bits" and "wait until 64 bits are at least". An executor executes
 * them, in order: CUDA's stream memory operations in the library, threads in the tests.
 */
#ifndef MU_ACCEL_STREAM_H
#define MU_ACCEL_STREAM_H

#include <assert.h>
#include <pthread.h>

#include <muster/group.h>
#include <muster/stream.h>

#include "segment/handle.h"

/*
 * Read by waiters as one 64-bit number, released in its high half: a released word is greater than any round, whatever
 * its owner writes into the low half later. Only the owner's stream writes `arrived`; a watchdog that finds the barrier
 * failed stores 1 into `released`, and nobody ever takes that back.
 */
struct mu_stream_word {
    mu_a32 arrived;
    mu_a32 released;
};
struct mu_stream_line {
    struct mu_stream_word words[2]; /* used in turn, MU_STREAM_EPOCH rounds each, so that numbers never wrap */
    uint8_t pad[MU_LINE - 16];
};
#define MU_STREAM_EPOCH (1ull << 31)
#define MU_STREAM_RESET (1ull << 30) /* at this place in an epoch the other word is set back to 0 */
#define MU_STREAM_AHEAD (1ull << 20) /* rounds enqueued and not executed */
static_assert(MU_STREAM_AHEAD < MU_STREAM_EPOCH - MU_STREAM_RESET, "see mu_stream_arrived()");

/* What a member says when it gives up; written before the word `failed`, by the member itself. */
#define MU_STREAM_NOTE 120u
struct mu_stream_note {
    mu_a64 text[MU_STREAM_NOTE / 8];
    uint8_t pad[MU_LINE - MU_STREAM_NOTE];
};

struct mu_stream_page {
    uint64_t nonce[2]; /* random: a member that opens the memory knows that it is this barrier's */
    uint32_t size;     /* members */
    uint8_t pad0[MU_LINE - 20];
    mu_a64 failed; /* 0, or how and when: one CAS, never changed again */
    uint8_t pad1[MU_LINE - 8];
    struct mu_stream_line lines[MUSTER_STREAM_SIZE_MAX];
    struct mu_stream_note notes[MUSTER_STREAM_SIZE_MAX];
};

enum mu_stream_cause {
    MU_STREAM_LOST = 1, /* died, in error, left the job, restarted */
    MU_STREAM_FREED = 2,
    MU_STREAM_GIVEN_UP = 3,
    MU_STREAM_JOB_GONE = 4,
};
#define MU_STREAM_FAILED(good, rank, cause)                                                                            \
    ((uint64_t)(good) << 16 | (uint64_t)(rank) << 8 | (uint64_t)(cause) << 1 | 1)
#define MU_STREAM_GOOD(failed)    ((failed) >> 16)
#define MU_STREAM_CULPRIT(failed) ((uint32_t)((failed) >> 8 & 0xff))
#define MU_STREAM_CAUSE(failed)   ((enum mu_stream_cause)((failed) >> 1 & 0x7f))

enum mu_stream_kind { MU_STREAM_WRITE_32, MU_STREAM_WAIT_64 };
struct mu_stream_op {
    enum mu_stream_kind kind;
    uint32_t offset; /* in the page */
    uint64_t value;
};
#define MU_STREAM_OPS_MAX (MUSTER_STREAM_SIZE_MAX + 1)

/* ---- stream_lines.c: the protocol ---- */

/* Zeroed memory becomes a page, as if all members had passed the round before `first`. */
void mu_stream_format(struct mu_stream_page *page, uint32_t size, uint64_t first);
/* The operations of one round, in order; returns how many. */
uint32_t mu_stream_plan(uint32_t rank, uint32_t size, uint64_t round, struct mu_stream_op ops[MU_STREAM_OPS_MAX]);
/* The last round that the member's stream has arrived at; `enqueued` by the caller's process, which is near it. */
uint64_t mu_stream_arrived(const struct mu_stream_page *page, uint32_t rank, uint64_t enqueued);
/* The last round that all have arrived at. */
uint64_t mu_stream_good(const struct mu_stream_page *page, uint32_t size, uint64_t enqueued);
/* The barrier has failed, if it had not before; then open every wait. A caller that is killed in it leaves the rest to
 * others. */
void mu_stream_fail(struct mu_stream_page *page, uint32_t size, uint64_t enqueued, uint32_t rank,
                    enum mu_stream_cause cause);

/* ---- executors ---- */

struct mu_stream_executor {
    /* Before the members meet: can it be done here? */
    enum muster_status (*open)(void **ret_state);
    /* The memory is there: make it reachable; *ret_base is where the executor sees it. */
    enum muster_status (*map)(void *state, struct mu_stream_page *page, size_t bytes, uint32_t rank,
                              uint64_t *ret_base);
    /* All of these in order, or none. */
    enum muster_status (*submit)(void *state, struct CUstream_st *stream, const struct mu_stream_op *ops,
                                 uint32_t count);
    /* After open(), and map() if it came to that: nothing is outstanding. False: the memory must stay mapped. */
    bool (*close)(void *state, struct mu_stream_page *page);
};
extern const struct mu_stream_executor mu_stream_cuda;

/* ---- stream_share.c: the memory ---- */

struct mu_stream_share {
    uint64_t nonce[2];
    uint64_t pid_namespace;
    int32_t pid, fd;
};
size_t mu_stream_bytes(void);
/* Memory of its own, sealed against truncation; share.fd stays open until everybody has it. */
enum muster_status mu_stream_make(uint32_t size, uint64_t first, struct mu_stream_share *ret_share,
                                  struct mu_stream_page **ret_page);
enum muster_status mu_stream_adopt(const struct mu_stream_share *share, uint32_t size,
                                   struct mu_stream_page **ret_page);

/* ---- the barrier ---- */

struct mu_stream_member {
    uint32_t task;
    uint64_t incarnation;
};

struct muster_stream_barrier {
    struct muster *muster;
    struct muster_segment *seg; /* held: the watchdog reads it even if the process leaves the job too early */
    char name[MUSTER_STREAM_NAME_MAX + 1];
    uint32_t rank, size;
    struct mu_stream_member members[MUSTER_STREAM_SIZE_MAX];
    struct mu_stream_page *page;
    const struct mu_stream_executor *executor;
    void *state;
    uint64_t base;              /* of the page, for the executor */
    pthread_mutex_t lock;       /* numbers and order of rounds; never taken by the watchdog, for submit() may block */
    struct CUstream_st *stream; /* of the last round */
    _Atomic uint64_t enqueued;  /* process-local */
    uint64_t first;             /* the number of the first round: 1, but in tests */
    bool watched;               /* the thread runs */
    pthread_t watchdog;
    mu_a32 stop;                /* process-local, a futex */
    pthread_mutex_t words_lock; /* of `words` */
    char words[560];            /* the lost member, noted when it was found; "" before */
};

/* With an executor, and the number of the first round. */
enum muster_status mu_stream_create(struct muster *muster, const char *name, const int32_t *task_ids, size_t count,
                                    uint64_t first, const struct mu_stream_executor *executor, muster_deadline deadline,
                                    struct muster_stream_barrier **ret_barrier);

/* ---- stream_watch.c: the thread that opens the waits ---- */

enum muster_status mu_stream_watch(struct muster_stream_barrier *b);
void mu_stream_unwatch(struct muster_stream_barrier *b);
/* "task 3 (pid 77) is lost: its process died": up to three of the members that are. Untouched: none is. */
void mu_stream_name_lost(const struct muster_stream_barrier *b, char *words, size_t size);
/* Note the member to blame, and why, as of now; the first note stays. */
void mu_stream_note_culprit(struct muster_stream_barrier *b, uint64_t failed);

#endif
