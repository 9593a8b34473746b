/*
 * tests/torture/torture.h: what the director and its victims share.
 *
 * The board is anonymous shared memory: what a worker writes there survives its SIGKILL. Before an operation that must
 * not be lost or done twice it counts it as begun, after it as done.
 */
#ifndef MUSTER_TORTURE_H
#define MUSTER_TORTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <muster/muster.h>

enum { WORKERS = 8, COUNTERS = 8, DIRS = 8, KEYS = 16, OUTCOMES = 4096, LOG_MAX = 32768 };

enum load {
    LOAD_SET,
    LOAD_GET,
    LOAD_DIR,
    LOAD_INSERT,
    LOAD_DELETE,
    LOAD_CAS,
    LOAD_WATCH,
    LOAD_COUNT,
    LOAD_APPEND,
    LOAD_SEND,
    LOAD_READ,
    LOAD_BARRIER,
    LOAD_GROUP,
    LOAD_ALIVE,
    LOAD_TASKS,
    LOAD_THREAD,
    LOAD_REJOIN,
    LOAD_DIE,
    LOADS,
};
extern const char *const load_names[LOADS];

/* The outcome of one group: all who return must agree. */
struct outcome {
    _Atomic uint64_t group;  /* 0: nobody has noted anything */
    _Atomic uint64_t passed; /* the highest instance that anybody saw pass */
    _Atomic uint64_t failed; /* instance << 8 | status */
};

struct worker {
    _Atomic uint64_t ops[LOADS];
    _Atomic uint64_t begun[COUNTERS], done[COUNTERS]; /* increments */
    _Atomic uint64_t logged;                          /* appends acknowledged */
    _Atomic uint64_t next_record;                     /* number of the next append: begun when it is above */
    _Atomic uint64_t next_event;
    _Atomic uint64_t busy_since; /* when its present operation began */
    _Atomic uint32_t busy_with;  /* enum load */
    _Atomic uint64_t full;       /* operations refused for lack of memory */
};

struct board {
    _Atomic uint32_t stop;
    _Atomic uint32_t group_call;   /* moves: everybody to the group */
    _Atomic uint32_t barrier_call; /* moves: everybody to the barrier */
    _Atomic uint64_t log;          /* number of the log that is written */
    _Atomic uint64_t deaths;       /* scavenged by agents */
    _Atomic uint32_t violated;
    char violation[1024];
    struct worker workers[WORKERS];
    struct outcome outcomes[OUTCOMES];
};
extern struct board *board;
extern char job[64];

/* A rule is broken: say so once, end the process with status 9. */
_Noreturn void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- random numbers: one stream a process ---- */
void random_seed(uint64_t seed);
uint64_t draw(uint64_t below);

/* ---- values that know what they must be ---- */
void value_make(uint8_t *to, size_t len, uint64_t seed);
bool value_is_whole(const uint8_t *value, size_t len);
#define VALUE_MAX (2u << 20)

/* ---- the victims ---- */
_Noreturn void worker_run(int32_t id, uint64_t seed);
_Noreturn void agent_run(void);

/* One operation each, on behalf of worker `id`. */
extern struct muster *m;
extern int32_t self;
void load_kv(enum load load);
void load_events(enum load load);
void load_meet(enum load load);

/* Fails unless the status is MUSTER_OK or in `allowed` (a bit set by 1 << code). Counts refusals for lack of memory. */
void expect(enum muster_status status, uint32_t allowed, const char *what);
#define OR(code) (1u << MUSTER_##code)

/* After all: every counter, value and record in the store is one that must or may be there. */
void verify(struct muster *observer, uint64_t kills);

#endif
