/*
 * tests/sim/sim.h: the seeded scheduler.
 *
 * The library is built with MU_SIM: it calls mu_point() before every access to shared memory. Tasks are coroutines of
 * one kernel thread; at a point the scheduler may switch to another, kill the running one for good, or stop it for a
 * while. Everything follows from {workload, seed, mutation}: a failing seed replays.
 *
 * A schedule: the segment is put back to its first image; the workload adds tasks; they run until all have ended, were
 * killed, or hang; scavengers clean up; the workload's oracle and the auditor speak.
 */
#ifndef MU_TESTS_SIM_H
#define MU_TESTS_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include <muster/muster.h>

#include "segment/handle.h"

#define SIM_TASKS 40u /* a schedule's, successors and scavengers included */

enum sim_state { SIM_READY, SIM_SLEEPING, SIM_STOPPED, SIM_IDLE /* a scavenger without work */, SIM_ENDED, SIM_KILLED };

struct sim_task {
    struct muster handle; /* every task is a process of its own */
    void *sp;
    void (*body)(struct sim_task *t);
    uint32_t number, tid, pid; /* threads of one process have one pid, and die together */
    struct sim_task *keeper;   /* the process's heartbeat thread */
    enum sim_state state;
    bool scavenger, never_kill, joined, told;
    bool doomed;     /* its process is dead: it must not sleep any more */
    bool shielded;   /* it lives a little longer: until it has joined, say */
    uint32_t inside; /* the library's thread-local flag, kept over switches */
    /* what is to happen to it, in its own steps; 0: nothing */
    uint64_t steps, kill_at, stop_at;
    uint64_t died;      /* the stamp of its death */
    uint64_t resume_at; /* in steps of all, while stopped */
    int64_t priority;
    /* sleeping */
    const void *words[2];
    uint64_t until;
    mu_a32 *const *any; /* or on these: it watches for deaths */
    size_t any_count;
    bool woken;
    /* consecutive words of one copy are not told apart */
    uintptr_t last;
    uint32_t run;
    /* for people */
    char op[80];
    bool in_op;
    int id; /* of the muster task, or the workload's own */
    void *arg;
};

/* What broke, or was broken on purpose. */
enum sim_mutation {
    SIM_SOUND,
    SIM_LOSE_WAKES,      /* commits wake nobody */
    SIM_LOSE_EPOCH,      /* deaths wake nobody */
    SIM_BLIND_RECHECK,   /* every second look finds what the first found */
    SIM_NO_INTENT,       /* the dead leave no intent */
    SIM_STOPPED_IS_DEAD, /* who is stopped is taken for dead, and goes on later */
    SIM_MUTATIONS
};

struct sim_totals {
    uint64_t schedules, points, steps, switches, kills, kills_of_scavengers, stops, sleeps, wakes, timeouts, probes,
        operations, late, histories, scavenged;
};
extern struct sim_totals sim_totals;

struct sim_workload {
    const char *name;
    struct muster_segment_config config; /* zeros: a small one */
    void (*start)(void);                 /* add tasks */
    void (*finish)(void);                /* after the last scavenging: the oracle */
    bool restarts;                       /* a dead task has a successor: its launcher never says that it was the last */
};
extern const struct sim_workload sim_kv, sim_counter, sim_parts, sim_wait, sim_tasks, sim_barrier, sim_group, sim_event,
    sim_alive, sim_full, sim_slots, sim_last, sim_recover, sim_regroup, sim_brim, sim_guests;

/* sched.c */
struct sim_task *sim_add(void (*body)(struct sim_task *t), int id, void *arg);
struct sim_task *sim_self(void);
struct sim_task *sim_task(uint32_t number); /* NULL beyond the last */
uint64_t sim_random(uint64_t n);            /* 0 to n - 1, of the schedule's seed */
bool sim_chance(uint32_t one_in);
uint64_t sim_clock(void);
uint64_t sim_stamp(void); /* a number that grows with every call: orders what tasks did */
/* Around each operation: names it for traces, counts it, and ends a probe for lost wake-ups. */
void sim_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_end(enum muster_status status);
/* The schedule has failed: says why, how to replay it, and exits. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define SIM_CHECK(condition, ...)                                                                                      \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            sim_fail(__VA_ARGS__);                                                                                     \
    } while (0)
/* How deadly this schedule is; set by the workload in start() before it adds tasks. */
struct sim_fate {
    uint32_t kills, stops; /* at most */
    uint32_t scavengers;
    bool keepers; /* who joins has a heartbeat thread, which scavenges too */
};
extern struct sim_fate sim_fate;
bool sim_anybody_died(void);
void sim_idle(struct sim_task *t); /* until somebody has died */
void sim_wake_idle(void);
void sim_wake_watcher(const mu_a32 *word); /* one of those who watch it, as the kernel at a death */
void sim_yield(void);                      /* let the others run first */
/* Threads of one process among themselves, beside the library: wait until the flag is set; set it. */
void sim_wait_for(const uint32_t *flag);
void sim_set(uint32_t *flag);
/* Neither that task nor another of its process lives. */
bool sim_is_over(const struct sim_task *t);
void sim_run(const struct sim_workload *w, uint64_t seed);
extern bool sim_trace;
extern enum sim_mutation sim_mutation;
extern char sim_replay[160];

/* world.c */
extern struct muster_segment sim_segment;
void sim_world_make(const struct sim_workload *w);
void sim_world_restore(void);
void sim_world_age(void); /* counters are about to wrap */
void sim_world_audit(void);
void sim_handle(struct sim_task *t, int task_id);
/* As muster_join() on a segment that is open: slot, registration. */
enum muster_status sim_join(struct sim_task *t, uint32_t flags);
enum muster_status sim_leave(struct sim_task *t);
void sim_scavenger(struct sim_task *t);
bool sim_is_dead_word(const mu_a32 *word); /* the liveness word of a slot that is LIVE without an owner */
bool sim_anything_dead(void);
/* "slot 3 act", for traces */
void sim_name_address(const volatile void *address, char *name, size_t size);
void sim_die(struct sim_task *t);

/* arena.c: memory of the schedule */
void sim_arena_reset(void);
extern bool sim_arena_on;

/* switch.c */
void sim_switch(void **save, void *load);
void *sim_stack(uint32_t number, void (*entry)(void)); /* a fresh stack that starts in entry() */

#endif
