/*
 * tests/sim/schedule.h: the scheduler's own state, shared by sched.c (who runs, who dies), calls.c (what the library
 * and the workloads ask of it) and run.c (a schedule from its beginning to its end).
 */
#ifndef MU_TESTS_SIM_SCHEDULE_H
#define MU_TESTS_SIM_SCHEDULE_H

#include "sim.h"

#define SIM_FOREVER (INT64_MAX / 4)
enum { CHANGES = 8, RECALL = 256 };
enum strategy { EVEN, BURSTS, PRIORITIES, STRATEGIES };

struct sim_scheduler {
    struct sim_task tasks[SIM_TASKS];
    uint32_t count;
    struct sim_task *current, *probed, *chosen;
    void *main_sp;
    const struct sim_workload *workload;
    uint64_t seed, random, clock, stamp, steps, points, points_before;
    int64_t countdown, quantum;
    uint64_t next_switch;
    enum strategy strategy;
    uint64_t mean;
    uint64_t changes[CHANGES];
    uint32_t num_changes, next_change;
    int64_t lowest;
    uint32_t timer_odds;
    bool spurious, died;
    /* for the mutation that blinds the second look */
    struct {
        const volatile void *address;
        uint64_t value;
    } seen[SIM_TASKS][RECALL];
};
extern struct sim_scheduler sim;

uint64_t sim_some_time(uint32_t low, uint32_t high); /* a number of steps, up to a power of two drawn between these */
void sim_settle(struct sim_task *t);                 /* account for the steps since it was armed */
void sim_arm(const struct sim_task *t);              /* count down to its next event */
void sim_draw_switch(void);
struct sim_task *sim_pick(void); /* who runs next; NULL: nobody can */
void sim_give_way(struct sim_task *t);
void sim_wake_task(struct sim_task *t);
bool sim_pass_deadline(void);
void sim_wake_scavengers(bool all);
void sim_end_life(struct sim_task *t); /* of its process; does not return when it is the running one */
uint64_t sim_blind(const mu_a64 *p);

extern uint64_t (*mu_sim_recheck)(const mu_a64 *p);
extern uint32_t mu_sim_tries;

#endif
