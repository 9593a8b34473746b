/*
 * tests/lin/across.h: what the tasks of a job of several hosts and their director (across_main.c) share: a file that
 * all of them have mapped, so that it outlives whoever is killed.
 */
#ifndef TEST_LIN_ACROSS_H
#define TEST_LIN_ACROSS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "causal.h"
#include "perform.h"

enum { HOSTS_MOST = 3, WORKERS_MOST = 6, KEYS = 3, PER_WINDOW = 32 };

/*
 * A worker is a process that a task of the job has started, and starts again when it was killed. It does a window's
 * operations when the director has opened it, unless it had been killed in that one: `done` is the last window that it
 * has done with.
 */
struct worker {
    _Atomic int32_t pid;    /* 0: none */
    _Atomic uint32_t lives; /* so many processes it may have been so far */
    _Atomic uint32_t done;
    char fault[400];
    _Atomic uint32_t faulty;
    struct entry log[PER_WINDOW];
};

struct board {
    _Atomic uint32_t window; /* moves: go */
    _Atomic uint32_t stop;
    _Atomic uint32_t directed;                       /* the director holds the lock of the file as long as it lives */
    _Atomic uint32_t lies;                           /* reads answer what they had answered before */
    _Atomic uint64_t caught;                         /* reads that were not causal meanwhile */
    _Atomic uint64_t reads, learned, writes, events; /* of the causal kind; learned: a read that taught something */
    struct known known[HOSTS_MOST];
    struct worker workers[WORKERS_MOST];
};

struct board *board_open(const char *path);
/* The director's: before it, nobody asks whether it lives. */
bool board_direct(struct board *board);
extern const char *const across_keys[KEYS];

/* A task of the job: its exit status. */
int across_work(struct board *board);

#endif
