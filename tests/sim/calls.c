/*
 * tests/sim/calls.c: what the library asks of the scheduler: time, names, sleep; and what the workloads ask.
 */
#include <stdarg.h>
#include <stdio.h>

#include "schedule.h"
#include "sync/futex.h"

#define RECHECK_NS 100000000u

void mu_sim_futex_wait(const mu_a64 *word, uint32_t value, const mu_a32 *epoch, uint32_t seen, uint64_t deadline);
void mu_sim_futex_wait_any(mu_a32 *const *words, const uint32_t *values, size_t count);
void mu_sim_futex_wake(const void *word);
uint64_t mu_sim_now(void);
uint32_t mu_sim_tid(void);
uint32_t mu_sim_pid(void);

uint64_t sim_clock(void)
{
    return sim.clock;
}

uint64_t sim_stamp(void)
{
    return ++sim.stamp;
}

struct sim_task *sim_self(void)
{
    return sim.current;
}

struct sim_task *sim_task(uint32_t number)
{
    return number < sim.count ? &sim.tasks[number] : NULL;
}

bool sim_anybody_died(void)
{
    return sim.died;
}

uint32_t mu_sim_pid(void)
{
    return sim.current ? sim.current->pid : mu_sim_tid();
}

uint64_t mu_sim_now(void)
{
    return sim.clock;
}

uint32_t mu_sim_tid(void)
{
    return sim.current ? sim.current->tid : 1;
}

void mu_sim_futex_wait(const mu_a64 *word, uint32_t value, const mu_a32 *epoch, uint32_t seen, uint64_t deadline)
{
    struct sim_task *t = sim.current;

    if (!t)
        sim_fail("the oracle sleeps");
    if ((uint32_t)*word != value || *epoch != seen || deadline <= sim.clock)
        return;
    if (sim_trace)
        printf("%8llu task %u sleeps\n", (unsigned long long)sim.points, t->number);
    sim_totals.sleeps++;
    sim_settle(t);
    if (t->doomed)
        sim_end_life(t);
    t->words[0] = word;
    t->words[1] = epoch;
    t->until = deadline - sim.clock >= RECHECK_NS ? UINT64_MAX : deadline;
    t->state = SIM_SLEEPING;
    sim_give_way(t);
}

void mu_sim_futex_wait_any(mu_a32 *const *words, const uint32_t *values, size_t count)
{
    struct sim_task *t = sim.current;

    for (size_t i = 0; i < count; i++)
        if (*words[i] != values[i])
            return;
    for (size_t i = 0; i < count; i++)
        if (sim_is_dead_word(words[i]))
            sim_fail("a watcher of deaths goes to sleep on one: nothing will wake it");
    t->any = words;
    t->any_count = count;
    sim_idle(t);
    t->any = NULL;
}

static bool watches(const struct sim_task *t, const void *word)
{
    for (size_t i = 0; t->state == SIM_IDLE && t->any && i < t->any_count; i++)
        if (t->any[i] == word)
            return true;
    return false;
}

void sim_wake_watcher(const mu_a32 *word)
{
    struct sim_task *chosen = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < sim.count; i++)
        if (watches(&sim.tasks[i], word) && sim_random(++n) == 0)
            chosen = &sim.tasks[i];
    if (chosen)
        chosen->state = SIM_READY;
}

void mu_sim_futex_wake(const void *word)
{
    bool epoch = word == &sim_segment.header->epoch, any = false;

    if ((sim_mutation == SIM_LOSE_WAKES && !epoch) || (sim_mutation == SIM_LOSE_EPOCH && epoch))
        return;
    for (uint32_t i = 0; i < sim.count; i++) {
        struct sim_task *t = &sim.tasks[i];

        if (watches(t, word))
            t->state = SIM_READY;
        if (t->state != SIM_SLEEPING || (t->words[0] != word && t->words[1] != word))
            continue;
        if (sim_trace)
            printf("%8llu task %u is woken\n", (unsigned long long)sim.points, t->number);
        if (sim.probed)
            sim_fail("a wake-up was lost: woken for nothing, it found a reason to wake task %u", i);
        sim_totals.wakes++;
        sim_wake_task(t);
        any = true;
    }
    if (any && sim.strategy == PRIORITIES && sim.current) { /* the woken may be more urgent */
        sim_settle(sim.current);
        sim.next_switch = sim.steps + 1;
        sim.quantum = sim.countdown = 1;
    }
}

void sim_yield(void)
{
    struct sim_task *t = sim.current;

    sim_settle(t);
    if (t->doomed)
        sim_end_life(t);
    t->priority = --sim.lowest;
    sim_give_way(t);
}

void sim_wait_for(const uint32_t *flag)
{
    struct sim_task *t = sim.current;

    while (!*flag) {
        sim_settle(t);
        if (t->doomed)
            sim_end_life(t);
        t->words[0] = flag;
        t->until = UINT64_MAX;
        t->state = SIM_SLEEPING;
        sim_give_way(t);
    }
}

void sim_set(uint32_t *flag)
{
    *flag = 1;
    for (uint32_t i = 0; i < sim.count; i++)
        if (sim.tasks[i].state == SIM_SLEEPING && sim.tasks[i].words[0] == flag)
            sim_wake_task(&sim.tasks[i]);
}

bool sim_is_over(const struct sim_task *t)
{
    for (uint32_t i = 0; i < sim.count; i++)
        if (sim.tasks[i].pid == t->pid && sim.tasks[i].state != SIM_KILLED && sim.tasks[i].state != SIM_ENDED)
            return false;
    return true;
}

void sim_idle(struct sim_task *t)
{
    sim_settle(t);
    if (t->doomed)
        sim_end_life(t);
    t->state = SIM_IDLE;
    t->in_op = false;
    sim_give_way(t);
}

void sim_wake_idle(void)
{
    for (uint32_t i = 0; i < sim.count; i++)
        if (sim.tasks[i].state == SIM_IDLE && !sim.tasks[i].any)
            sim.tasks[i].state = SIM_READY;
}

void sim_begin(const char *format, ...)
{
    struct sim_task *t = sim.current;
    va_list args;

    va_start(args, format);
    vsnprintf(t->op, sizeof t->op, format, args);
    va_end(args);
    t->in_op = true;
    sim_totals.operations++;
    if (sim_trace)
        printf("%8llu task %u begins %s\n", (unsigned long long)sim.points, t->number, t->op);
}

void sim_end(enum muster_status status)
{
    struct sim_task *t = sim.current;

    if (sim.probed == t)
        sim_fail("a wake-up was lost: woken for nothing, it returned %s", muster_status_name(status));
    t->in_op = false;
    if (sim_trace)
        printf("%8llu task %u ends %s: %s%s%s\n", (unsigned long long)sim.points, t->number, t->op,
               muster_status_name(status), status ? ": " : "", status ? muster_last_error() : "");
}
