/*
 * tests/stream/band.h: acts on stream barriers, for real processes whose streams are threads (executor.h).
 */
#ifndef MUSTER_TEST_BAND_H
#define MUSTER_TEST_BAND_H

#include "executor.h"
#include "stage.h"

#define BAND_MAX 8

/* Shared by director and players: the round whose work each member's stream has done last. */
struct coord {
    _Atomic uint64_t at[BAND_MAX];
};
extern struct coord *coord;

/* stage_open() and all players joined, with a fresh engine. */
void band_open(uint32_t tasks);
/* Everybody who lives frees what it has, then stage_close(). */
void band_close(void);

struct create_act {
    char name[32];
    int32_t tasks[BAND_MAX];
    uint32_t count;
    uint64_t first;       /* 0: 1 */
    uint64_t patience_ns; /* 0: for ever */
    bool absent;          /* the player has no accelerator */
};
int act_stream_create(void *create_act, struct reply *reply);
int act_stream_free(void *none, struct reply *reply); /* synchronizes first */
int act_stream_free_hastily(void *none, struct reply *reply);

struct play_act {
    uint64_t rounds; /* 0: until it fails */
    bool wait;       /* for the stream to run empty; without: answers at once */
};
struct play_answer {
    uint64_t good, enqueued;
    uint64_t early; /* the first round that the stream passed before all had done their work; 0: none */
};
int act_stream_play(void *play_act, struct reply *reply); /* answers play_answer */
int act_stream_result(void *none, struct reply *reply);   /* synchronizes, then the same */
int act_stream_hold(void *bool_hold, struct reply *reply);
int act_stream_missing(void *none, struct reply *reply); /* answers int32_t task ids */
int act_stream_abort(void *text, struct reply *reply);
/* The first `steps` steps of failing the barrier because member 0 were lost; then SIGKILL to itself. */
int act_stream_die_failing(void *uint32_steps, struct reply *reply);

void tell_create(int player, const struct create_act *a);
/* On the players 0 to count - 1 as tasks of the same numbers, and wait for all. */
void band_create(uint32_t count, uint64_t first);
struct play_answer answer_of(const struct reply *r);

#endif
