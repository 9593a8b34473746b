/*
 * tests/sim/run.c: one schedule, from its beginning to its end.
 *
 * Time stands still while anybody can run, but for deadlines, which may pass early. When nobody can, the stopped go
 * on, the dead are scavenged, and then nobody may have a reason to be awake: each sleeper is woken for nothing, and
 * must fall asleep again without having changed or returned anything: else a wake-up was lost. No wait of a workload
 * has a deadline beyond the library's recheck period, so that never saves one. Sleepers left without a deadline hang.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schedule.h"

enum { ROUNDS_LIMIT = 10000 };

struct sim_totals sim_totals;
struct sim_fate sim_fate;
bool sim_trace;
enum sim_mutation sim_mutation;
char sim_replay[160];

static const char *state_name(enum sim_state s)
{
    static const char *const names[] = {"ready", "sleeping", "stopped", "idle", "ended", "killed"};

    return names[s];
}

void sim_fail(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    sim.probed = NULL;
    fprintf(stderr, "\n%s, seed %llu", sim.workload->name, (unsigned long long)sim.seed);
    if (sim.current)
        fprintf(stderr, ", task %u (%s)", sim.current->number, sim.current->op);
    fprintf(stderr, ": ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    for (uint32_t i = 0; i < sim.count; i++)
        fprintf(stderr, "  task %u: %s%s, step %llu, %s%s\n", i, sim.tasks[i].scavenger ? "scavenger, " : "",
                state_name(sim.tasks[i].state), (unsigned long long)sim.tasks[i].steps,
                sim.tasks[i].in_op ? "in " : "after ", sim.tasks[i].op);
    fprintf(stderr, "replay: %s --workload %s --seed %llu --trace\n", sim_replay, sim.workload->name,
            (unsigned long long)sim.seed);
    fflush(stderr);
    _exit(1);
}

static void entry(void)
{
    struct sim_task *t = sim.current;

    t->body(t);
    if (sim.probed == t)
        sim_fail("a wake-up was lost: woken for nothing, the task ended");
    sim_begin("detach");
    mu_handle_detach_thread(&t->handle);
    sim_end(MUSTER_OK);
    sim_settle(t);
    t->state = SIM_ENDED;
    sim_give_way(t);
    abort();
}

struct sim_task *sim_add(void (*body)(struct sim_task *t), int id, void *arg)
{
    struct sim_task *t;

    if (sim.count == SIM_TASKS)
        sim_fail("more than %u tasks", SIM_TASKS);
    t = &sim.tasks[sim.count];
    memset(t, 0, sizeof *t);
    memset(sim.seen[sim.count], 0, sizeof sim.seen[0]);
    t->number = sim.count++;
    t->tid = t->pid = 1000 + t->number;
    t->body = body;
    t->id = id;
    t->arg = arg;
    t->scavenger = body == sim_scavenger;
    t->priority = 1000 + (int64_t)sim_random(1u << 20);
    t->sp = sim_stack(t->number, entry);
    return t;
}

static void run_task(struct sim_task *t)
{
    sim.chosen = NULL;
    sim.current = t;
    mu_inside = t->inside;
    sim_arm(t);
    sim_switch(&sim.main_sp, t->sp);
    mu_inside = 0;
    sim.current = NULL;
}

/* What a waiter may decide by: all objects, but for the sleepers bits, and the epoch. */
static uint64_t fingerprint(void)
{
    const mu_a64 *const rows[] = {sim_segment.buckets, sim_segment.cells, sim_segment.events,
                                  &sim_segment.header->cluster};
    const uint32_t counts[] = {sim_segment.num_buckets, sim_segment.num_cells, sim_segment.num_events, 1};
    uint64_t h = sim_segment.header->epoch;

    for (int k = 0; k < 4; k++)
        for (uint32_t i = 0; i < counts[k]; i++)
            h = (h ^ (rows[k][i] & ~MU_WORD_S)) * 0x9e3779b97f4a7c15ull;
    return h;
}

static void probe(struct sim_task *t)
{
    uint64_t before = fingerprint();

    sim_totals.probes++;
    if (sim_trace)
        printf("%8llu task %u is woken for nothing\n", (unsigned long long)sim.points, t->number);
    sim_wake_task(t);
    sim.probed = t;
    run_task(t);
    sim.probed = NULL;
    if (t->state != SIM_SLEEPING || fingerprint() != before)
        sim_fail("a wake-up was lost: woken for nothing, task %u changed something in %s", t->number, t->op);
}

/* Nobody can run. False: it is over. */
static bool move_on(void)
{
    struct sim_task *first = NULL;
    bool sleepers = false;

    for (uint32_t i = 0; i < sim.count; i++) {
        struct sim_task *t = &sim.tasks[i];

        if (t->state == SIM_STOPPED && (!first || t->resume_at < first->resume_at))
            first = t;
        sleepers |= t->state == SIM_SLEEPING;
    }
    if (first) {
        first->state = SIM_READY;
        return true;
    }
    if (sim_anything_dead()) {
        uint32_t n = 0;

        sim_wake_scavengers(true);
        for (uint32_t i = 0; i < sim.count; i++)
            n += sim.tasks[i].state == SIM_READY && sim.tasks[i].scavenger;
        if (!n)
            sim_add(sim_scavenger, -1, NULL);
        return true;
    }
    for (uint32_t i = 0; i < sim.count; i++)
        if (sim.tasks[i].state == SIM_SLEEPING)
            probe(&sim.tasks[i]);
    if (sleepers && !sim_pass_deadline())
        sim_fail("they sleep for ever");
    return sleepers;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void draw_strategy(void)
{
    static const uint8_t means[] = {1, 2, 4, 8, 16, 32, 64, 128};
    uint32_t length = 7 + (uint32_t)sim_random(7);

    sim.strategy = (enum strategy)sim_random(STRATEGIES);
    sim.mean = means[sim_random(sizeof means)];
    sim.num_changes = (uint32_t)sim_random(CHANGES + 1);
    for (uint32_t i = 0; i < sim.num_changes; i++)
        sim.changes[i] = 1 + sim_random(1ull << length);
    qsort(sim.changes, sim.num_changes, sizeof sim.changes[0], by_size);
    sim.spurious = sim_chance(4);
    mu_sim_tries = (uint32_t)sim_random(3);
    sim.timer_odds = sim_chance(2) ? 0 : (uint32_t)(1 + sim_random(64));
}

/* Who is to be killed or stopped, and when. Scavengers are victims like others. */
static void draw_fates(void)
{
    uint32_t kills = (uint32_t)sim_random(sim_fate.kills + 1), stops = (uint32_t)sim_random(sim_fate.stops + 1);

    for (; kills; kills--) {
        struct sim_task *t = &sim.tasks[sim_random(sim.count)];

        if (!t->never_kill)
            t->kill_at = sim_some_time(1, 10);
    }
    for (; stops; stops--)
        sim.tasks[sim_random(sim.count)].stop_at = sim_some_time(1, 10);
}

static void clear(const struct sim_workload *w, uint64_t seed)
{
    sim.workload = w;
    sim.seed = sim.random = seed;
    for (const char *p = w->name; *p; p++)
        sim.random = (sim.random ^ (uint8_t)*p) * 0x100000001b3ull;
    sim.points_before = sim.points = 0;
    sim.count = 0;
    sim.steps = sim.stamp = 0;
    sim.clock = 1000000000u;
    sim.next_change = 0;
    sim.lowest = 0;
    sim.died = false;
    sim.current = sim.probed = sim.chosen = NULL;
    sim_fate = (struct sim_fate){.kills = 2, .stops = 1};
    mu_sim_recheck = sim_mutation == SIM_BLIND_RECHECK ? sim_blind : NULL;
}

void sim_run(const struct sim_workload *w, uint64_t seed)
{
    uint32_t rounds = 0;

    sim_world_restore();
    clear(w, seed);
    sim_arena_on = true;
    draw_strategy();
    if (sim_chance(4))
        sim_world_age();
    sim_fate.keepers = sim_chance(2);
    sim_fate.scavengers = sim_fate.keepers ? (uint32_t)sim_random(3) : 2;
    w->start();
    for (uint32_t i = 0; i < sim_fate.scavengers; i++)
        sim_add(sim_scavenger, -1, NULL);
    draw_fates();
    do {
        struct sim_task *t;

        sim_draw_switch();
        while ((t = sim.chosen ? sim.chosen : sim_pick()))
            run_task(t);
        if (++rounds > ROUNDS_LIMIT)
            sim_fail("no end after %u rounds", rounds);
    } while (move_on());
    if (sim_trace)
        printf("%8llu all have ended\n", (unsigned long long)sim.points);
    w->finish();
    sim_world_audit();
    sim_arena_on = false;
    sim_totals.schedules++;
    sim_totals.points += sim.points;
    sim_totals.steps += sim.steps;
}
