/*
 * tests/barrier/crew.h: acts on groups, for the tests of groups; and a board that director and players share, where
 * each member writes what it has seen.
 */
#ifndef MUSTER_TEST_CREW_H
#define MUSTER_TEST_CREW_H

#include "stage.h"

#define CREW_MAX 64

struct place {
    _Atomic uint64_t at;      /* the instance that it is about to enter */
    _Atomic uint64_t last_ok; /* the last instance that returned MUSTER_OK */
    _Atomic uint64_t failed;  /* the instance that failed; 0: none */
    _Atomic uint32_t status;  /* how */
    uint8_t pad[64 - 28];
};
struct board {
    struct place places[CREW_MAX];
};
extern struct board *board; /* made by crew_open() */

/* stage_open() with a fresh board. */
void crew_open(uint32_t tasks, const struct muster_segment_config *config);
/* Wipe the board. */
void crew_wipe(void);
/* Everybody of `count` players gives its group back, then stage_close(). */
void crew_close(void);

struct group_act {
    char name[32];
    int32_t tasks[CREW_MAX];
    uint32_t count;
    uint64_t data_bytes;
    uint64_t patience_ns; /* 0: for ever */
};
int act_group_create(void *group_act, struct reply *reply); /* into `group`; answers {uint32_t rank, size} */
int act_group_free(void *none, struct reply *reply);
extern struct muster_group *group;

/* Create on all `count` players (tasks may be 0 to count - 1), and wait until all have it. */
void crew_create(const char *name, uint32_t count, uint64_t data_bytes);
struct reply create_on(int player, const char *name, const int32_t *tasks, uint32_t count, uint64_t patience_ns);
void tell_create(int player, const char *name, const int32_t *tasks, uint32_t count);

struct run_act {
    uint64_t first;       /* number of the first instance: as many as were passed before, + 1 */
    uint64_t rounds;      /* 0: until one fails */
    uint64_t patience_ns; /* of each; 0: for ever */
    uint64_t halving;     /* instances after which the patience halves; 0: it stays */
    uint64_t seed;
    uint32_t kind; /* RUN_* */
    uint32_t max_len;
};
enum { RUN_BARRIER, RUN_BROADCAST, RUN_ALLGATHER, RUN_ALLREDUCE, RUN_ANY };
/* One call after the other, each checked against the answer computed here. MUSTER_DATA_LOSS: a wrong answer. */
int act_run(void *run_act, struct reply *reply);

/* Blocks of group members' areas in the segment now. */
uint32_t crew_areas(void);

#endif
