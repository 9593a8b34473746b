/*
 * tests/bridgesim/sim.h: a job of several hosts on one thread, under a seeded scheduler.
 *
 * Each host has a real segment and a real core of the bridge (bridge/core/core.h); its tasks are coroutines that make
 * the public calls, so that everything below them is what users run. What is simulated is time, sleep, death and the
 * wire: frames queue on links whose two directions are delivered when the scheduler chooses; links break with frames on
 * their way, agents are killed between any two frames that they send, tasks die in their waits. Everything follows from
 * {seed, mutation}: a failing seed replays.
 */
#ifndef MU_TESTS_BRIDGESIM_H
#define MU_TESTS_BRIDGESIM_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include <muster/muster.h>

#include "bridge/core/core.h"
#include "bridge/core/frame.h"
#include "bridge/core/modules.h"
#include "bridge/link/mux.h"
#include "segment/handle.h"

enum { SIM_HOSTS = 5, SIM_TASKS = 10, SIM_KEYS = 6 }; /* of a schedule, at most */

/* What is broken on purpose, to show that it is found. */
enum sim_mutation {
    SIM_SOUND,
    SIM_LATE_COPIES,  /* copies go behind what they should be ahead of */
    SIM_FORGET_DONE,  /* the records of calls that were done are lost with the leader's agent */
    SIM_STRAYS,       /* a new connection brings frames of the old one: that must be borne */
    SIM_LOSE_FRAMES,  /* now and then a frame is lost, and nobody is told */
    SIM_SILENT_BREAK, /* the follower is not told that its connection was another for a while */
    SIM_MUTATIONS
};

struct sim_frame {
    struct sim_frame *next;
    size_t len;
    uint8_t type;
    uint8_t payload[];
};

/* Frames on their way in one direction. */
struct sim_way {
    struct sim_frame *first, **last;
    uint32_t count;
};

enum sim_end { SIM_END_DOWN, SIM_END_UP, SIM_END_TO_BREAK }; /* the last: broken, and the agent is not told yet */
struct sim_link {
    bool broken; /* nothing new comes in; what is on its way may arrive, or not */
    enum sim_end leader, follower;
    struct sim_way up, down; /* to the leader, from it */
    struct sim_frame *held;  /* for mutations */
};

struct sim_host {
    char name[64];
    struct muster_segment *seg;
    struct muster *agent; /* NULL: killed */
    struct mu_core core;
    struct sim_link link; /* of a follower */
    uint32_t relay;       /* by which it has come; 0: by none */
    struct mu_mux_route route;
    struct sim_way trunk_up, trunk_down; /* of a relay: messages for those behind it */
    struct mu_mux_batch batch;
    uint64_t ahead; /* its clock, of the run's, ns; and how far that goes while the run's goes a thousand */
    uint32_t speed;
    bool awake;     /* it may have something to do */
    bool buries;    /* a task of its has died, and it has not noticed */
    int dies_after; /* frames sent, within the turn; below 0: not now */
};

enum sim_state { SIM_READY, SIM_ASLEEP, SIM_OVER, SIM_DEAD };
struct sim_task {
    uint32_t id, host;
    enum sim_state state;
    ucontext_t context;
    void (*body)(struct sim_task *t);
    struct muster *m;
    uint32_t inside; /* the library's thread-local flag, kept over switches */
    struct mu_last_use
        last_use; /* and the handle that its thread used last: else each call would look for it among all */
    /* asleep */
    const mu_a64 *word;
    const mu_a32 *epoch;
    uint32_t value, seen;
    uint64_t until;
    char doing[96];
    uint32_t ops, ops_left;
    uint64_t known[SIM_KEYS]; /* the least version of each key that it may still see */
};

struct sim {
    uint64_t seed, random, now, steps;
    uint32_t num_hosts, num_tasks;
    struct sim_host *hosts;
    struct sim_task *tasks;
    struct sim_task *current;
    uint32_t at; /* the host whose agent acts; pairs with sim_clock() */
    uint32_t channels;
    uint32_t breaks_left, kills_left, deaths_left;
    bool quiet; /* no more faults */
    bool lanes; /* agents call for others, too */
    bool died;  /* a task has */
};
extern struct sim sim;
extern enum sim_mutation sim_mutation;
extern const char *const sim_mutations[SIM_MUTATIONS];
extern bool sim_trace, sim_relays; /* hosts come by others */
extern bool sim_clocks;            /* each has a clock of its own: hours from the others', and faster or slower */
extern const char *sim_program;

struct sim_totals {
    uint64_t schedules, steps, frames, bytes, turns, breaks, reconnects, agent_kills, task_deaths, operations, unsure,
        reads, strays, crossed, crossed_bytes; /* on the leader's own connections */
};
extern struct sim_totals sim_totals;

/* world.c */
void sim_make(uint64_t seed, uint32_t num_hosts, uint32_t num_tasks); /* tasks dealt out evenly, in runs */
void sim_unmake(void);
uint64_t sim_random(uint64_t n); /* 0 to n - 1 */
bool sim_chance(uint32_t one_in);
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2))); /* where the run is traced */
#define SIM_CHECK(condition, ...)                                                                                      \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            sim_fail(__VA_ARGS__);                                                                                     \
    } while (0)

/* tasks.c */
void sim_task_start(struct sim_task *t, void (*body)(struct sim_task *t));
bool sim_task_can_run(const struct sim_task *t);
void sim_task_run(struct sim_task *t);
void sim_task_kill(struct sim_task *t);
void sim_slot_kill(struct muster *m); /* as the kernel would: none of its threads lives */

/* hosts.c */
uint64_t sim_clock(uint32_t host);                /* what it shows; and that host acts from now on */
uint64_t sim_instant(uint32_t host, uint64_t at); /* when it will show that, by the run's; UINT64_MAX: never */
void sim_hosts_make(const struct muster_segment_config *config);
void sim_hosts_end(void);
void sim_agent_start(uint32_t host);
void sim_agent_kill(uint32_t host);
void sim_link_break(uint32_t host);
bool sim_link_step(uint32_t host); /* something that must happen to it, does; false: nothing */
bool sim_deliver(uint32_t host, bool up);
bool sim_turn(uint32_t host);

void sim_way_add(struct sim_way *w, struct sim_frame *f);
struct sim_frame *sim_way_take(struct sim_way *w);
void sim_way_clear(struct sim_way *w, uint32_t keep);

/* relays.c */
void sim_relay_connect(uint32_t host); /* it comes: by whom */
void sim_relay_break(uint32_t host);   /* what is behind it */
void sim_relay_forget(uint32_t host);
void sim_relay_send(uint32_t host, uint8_t type, const void *payload, size_t len);
void sim_relay_flush(void);
void sim_relay_take(uint32_t host, const struct sim_frame *f);
bool sim_relay_deliver(uint32_t relay, bool up);

/* lanes.c */
void sim_lanes_draw(void);
void sim_lanes_begin(uint32_t host); /* with its agent */
void sim_lanes_end(uint32_t host);
bool sim_lanes_step(uint32_t host); /* false: nothing came, and nothing is to be asked */
bool sim_lanes_over(void);
void sim_lanes_check(void);

/* work.c */
bool sim_has(enum mu_op op); /* the call is in the table */
void sim_work(struct sim_task *t);
void sim_work_start(void);
void sim_work_check(void);

#endif
