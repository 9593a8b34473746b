/*
 * tests/sim/sched.c: who runs, and who dies.
 *
 * Every access of the library to shared memory begins with mu_point(). Most points only count down to the next event:
 * a preemption, the running task's death, its being stopped. Three strategies draw those preemptions: evenly, in long
 * runs, and by priorities with a few points at which the running task falls to the lowest (PCT). Points that cannot
 * matter are not counted, so that events do not drown in them: all but the first and a few of a long copy, chunk words
 * that are set for ever, and most of the free blocks that a sweep passes.
 */
#include "schedule.h"

#include <stdio.h>
#include <stdlib.h>

#define POINTS_LIMIT 40000000u

struct sim_scheduler sim;
uint64_t (*mu_sim_recheck)(const mu_a64 *p);
uint32_t mu_sim_tries;

static uint64_t next_random(void)
{
    uint64_t z = sim.random += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint64_t sim_random(uint64_t n)
{
    return (uint64_t)(((unsigned __int128)next_random() * n) >> 64);
}

bool sim_chance(uint32_t one_in)
{
    return sim_random(one_in) == 0;
}

uint64_t sim_some_time(uint32_t low, uint32_t high)
{
    return 1 + sim_random(1ull << (low + sim_random(high - low + 1)));
}

void sim_settle(struct sim_task *t)
{
    uint64_t done = (uint64_t)(sim.quantum - (sim.countdown > 0 ? sim.countdown : 0));

    t->steps += done;
    sim.steps += done;
    sim.quantum = sim.countdown = 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void sim_arm(const struct sim_task *t)
{
    uint64_t left = sim.next_switch > sim.steps ? sim.next_switch - sim.steps : 1;

    if (t->kill_at)
        left = least(left, t->kill_at > t->steps ? t->kill_at - t->steps : 1);
    if (t->stop_at)
        left = least(left, t->stop_at > t->steps ? t->stop_at - t->steps : 1);
    sim.quantum = sim.countdown = sim.probed ? SIM_FOREVER : (int64_t)least(left, SIM_FOREVER);
}

void sim_draw_switch(void)
{
    switch (sim.strategy) {
    case EVEN: sim.next_switch = sim.steps + 1 + sim_random(2 * sim.mean - 1); break;
    case BURSTS: sim.next_switch = sim.steps + (1ull << sim_random(12)) + sim_random(4); break;
    default:
        while (sim.next_change < sim.num_changes && sim.changes[sim.next_change] <= sim.steps)
            sim.next_change++;
        sim.next_switch = sim.next_change < sim.num_changes ? sim.changes[sim.next_change] : UINT64_MAX;
        break;
    }
}

struct sim_task *sim_pick(void)
{
    struct sim_task *best = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < sim.count; i++) {
        struct sim_task *t = &sim.tasks[i];

        if (t->state == SIM_STOPPED && t->resume_at <= sim.steps)
            t->state = SIM_READY;
        if (t->state != SIM_READY)
            continue;
        n++;
        if (sim.strategy == PRIORITIES ? !best || t->priority > best->priority : sim_random(n) == 0)
            best = t;
    }
    return best;
}

/* Back to the scheduler, which comes back here when the task is picked again. */
void sim_give_way(struct sim_task *t)
{
    sim_totals.switches++;
    t->inside = mu_inside;
    sim.current = NULL;
    sim_switch(&t->sp, sim.main_sp);
}

void sim_wake_task(struct sim_task *t)
{
    t->state = SIM_READY;
    t->words[0] = t->words[1] = NULL;
}

/* The next deadline of a sleeper's own passes; false when there is none. */
bool sim_pass_deadline(void)
{
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < sim.count; i++)
        if (sim.tasks[i].state == SIM_SLEEPING)
            next = least(next, sim.tasks[i].until);
    if (next == UINT64_MAX)
        return false;
    sim.clock = next;
    sim_totals.timeouts++;
    for (uint32_t i = 0; i < sim.count; i++)
        if (sim.tasks[i].state == SIM_SLEEPING && sim.tasks[i].until <= sim.clock)
            sim_wake_task(&sim.tasks[i]);
    return true;
}

/* At a death, most of those who wait for one beside the library; or all, for nobody else can run. Who sleeps in
 * muster_death_wait() is then late: it looks again by itself after 100 ms. */
void sim_wake_scavengers(bool all)
{
    for (uint32_t i = 0; i < sim.count; i++) {
        struct sim_task *t = &sim.tasks[i];

        if (t->state != SIM_IDLE || (t->any ? !all : !all && t->scavenger && sim_chance(4)))
            continue;
        sim_totals.late += t->any != NULL;
        t->state = SIM_READY;
    }
}

static void disturb(void)
{
    if (sim.timer_odds && sim_chance(sim.timer_odds))
        sim_pass_deadline();
    if (sim.spurious && sim_chance(32)) {
        struct sim_task *t = &sim.tasks[sim_random(sim.count)];

        if (t->state == SIM_SLEEPING)
            sim_wake_task(t);
    }
}

static void bury(struct sim_task *t)
{
    t->state = SIM_KILLED;
    t->kill_at = 0;
    t->died = sim_stamp();
    sim.died = true;
    sim_totals.kills++;
    sim_totals.kills_of_scavengers += t->scavenger;
    sim_die(t);
    if (sim_trace)
        printf("%8llu task %u is killed\n", (unsigned long long)sim.points, t->number);
}

/* The process ends: its other threads now, or in a moment. */
void sim_end_life(struct sim_task *t)
{
    bury(t);
    for (uint32_t i = 0; i < sim.count; i++) {
        struct sim_task *u = &sim.tasks[i];

        if (u->pid != t->pid || u->state == SIM_ENDED || u->state == SIM_KILLED)
            continue;
        if (u->state == SIM_IDLE || sim_chance(2)) {
            bury(u);
            continue;
        }
        sim_wake_task(u);
        u->stop_at = 0;
        u->shielded = false;
        u->doomed = true;
        u->kill_at = u->steps + 1 + sim_random(16);
    }
    sim_wake_scavengers(false);
    sim_give_way(t);
    abort();
}

static void stop(struct sim_task *t)
{
    t->stop_at = 0;
    t->state = SIM_STOPPED;
    t->resume_at = sim_chance(3) ? UINT64_MAX : sim.steps + (1ull << (4 + sim_random(10)));
    sim_totals.stops++;
    if (sim_mutation == SIM_STOPPED_IS_DEAD) {
        sim_die(t);
        sim_wake_scavengers(true);
    }
    if (sim_trace)
        printf("%8llu task %u is stopped\n", (unsigned long long)sim.steps, t->number);
    sim_give_way(t);
}

/* Something is due, or a preemption. */
static void decide(struct sim_task *t)
{
    sim_settle(t);
    if (!sim.probed) {
        if (t->kill_at && t->steps >= t->kill_at && t->shielded)
            t->kill_at = t->steps + sim_some_time(2, 8);
        if (t->kill_at && t->steps >= t->kill_at)
            sim_end_life(t);
        if (t->stop_at && t->steps >= t->stop_at)
            stop(t);
        if (sim.next_switch <= sim.steps) {
            struct sim_task *next;

            if (sim.strategy == PRIORITIES && sim.next_change < sim.num_changes &&
                sim.changes[sim.next_change] <= sim.steps)
                t->priority = --sim.lowest;
            disturb();
            sim_draw_switch();
            next = sim_pick();
            if (next != t) {
                sim.chosen = next;
                sim_give_way(t);
            }
        }
    }
    sim_arm(t);
}

/* ---- points ---- */

static bool is_minor(struct sim_task *t, uintptr_t a)
{
    bool next = a - t->last == 8;

    t->last = a;
    t->run = next ? t->run + 1 : 0;
    if (next && t->run > 6 && a % 512)
        return true;
    if (a - (uintptr_t)sim_segment.chunks < sim_segment.num_chunks * 4ull && *(const uint32_t *)a)
        return true;
    /* a scavenger's sweep: free blocks; now and then one counts */
    return t->scavenger && a % MU_GRANULE == 0 && a - (uintptr_t)sim_segment.heap < sim_segment.num_chunks * 65536ull &&
           MU_BLOCK_STATE(*(const uint64_t *)a) == MU_FREE && sim.points % 32;
}

static void remember(const struct sim_task *t, const volatile void *address)
{
    uint32_t slot = ((uint32_t)(uintptr_t)address / 8) % RECALL;

    sim.seen[t->number][slot].address = address;
    sim.seen[t->number][slot].value = *(const volatile uint64_t *)address;
}

uint64_t sim_blind(const mu_a64 *p)
{
    uint32_t slot = ((uint32_t)(uintptr_t)p / 8) % RECALL;
    uint64_t before = sim.current ? sim.seen[sim.current->number][slot].value : 0;
    bool known = sim.current && sim.seen[sim.current->number][slot].address == p;
    uint64_t now = mu_load_relaxed(p);

    return known ? before : now;
}

static void show(const struct sim_task *t, const volatile void *address)
{
    char name[96];

    sim_name_address(address, name, sizeof name);
    printf("%8llu task %u %-28s %s\n", (unsigned long long)sim.points, t->number, t->op, name);
}

void mu_point(const volatile void *address)
{
    struct sim_task *t = sim.current;
    bool minor;

    if (!t)
        return;
    sim.points++;
    minor = is_minor(t, (uintptr_t)address);
    if (!minor && --sim.countdown <= 0)
        decide(t);
    if (sim.points > sim.points_before + POINTS_LIMIT)
        sim_fail("it goes on and on: %u points", POINTS_LIMIT);
    if (sim_trace && !minor)
        show(t, address);
    if (mu_sim_recheck && address)
        remember(t, address);
}
