/*
 * tests/sim/sched.c: who runs, who dies, who sleeps.
 *
 * Every access of the library to shared memory begins with mu_point(). Most points only count down to the next event:
 * a preemption, the running task's death, its being stopped. Three strategies draw those preemptions: evenly, in long
 * runs, and by priorities with a few points at which the running task falls to the lowest (PCT). Points that cannot
 * matter are not counted, so that events do not drown in them: all but the first and a few of a long copy, chunk words
 * that are set for ever, and most of the free blocks that a sweep passes.
 *
 * Time stands still while anybody can run, but for deadlines, which may pass early. When nobody can, the stopped go
 * on, the dead are scavenged, and then nobody may have a reason to be awake: each sleeper is woken for nothing, and
 * must fall asleep again without having changed or returned anything: else a wake-up was lost. No wait of a workload
 * has a deadline beyond the library's recheck period, so that never saves one. Sleepers left without a deadline hang.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"
#include "sync/futex.h"

#define FOREVER      (INT64_MAX / 4)
#define RECHECK_NS   100000000u
#define POINTS_LIMIT 40000000u
enum { CHANGES = 8, RECALL = 256, ROUNDS_LIMIT = 10000 };
enum strategy { EVEN, BURSTS, PRIORITIES, STRATEGIES };

static struct {
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
} sim;

struct sim_totals sim_totals;
struct sim_fate sim_fate;
bool sim_trace;
enum sim_mutation sim_mutation;
char sim_replay[160];

void mu_sim_futex_wait(const mu_a64 *word, uint32_t value, const mu_a32 *epoch, uint32_t seen, uint64_t deadline);
void mu_sim_futex_wake(const void *word);
uint64_t mu_sim_now(void);
uint32_t mu_sim_tid(void);
uint32_t mu_sim_pid(void);
uint64_t (*mu_sim_recheck)(const mu_a64 *p);
extern uint32_t mu_sim_tries;
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

/* ---- events in the running task's future ---- */

static uint64_t some_time(uint32_t low, uint32_t high)
{
    return 1 + sim_random(1ull << (low + sim_random(high - low + 1)));
}

static void settle(struct sim_task *t)
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

static void arm(const struct sim_task *t)
{
    uint64_t left = sim.next_switch > sim.steps ? sim.next_switch - sim.steps : 1;

    if (t->kill_at)
        left = least(left, t->kill_at > t->steps ? t->kill_at - t->steps : 1);
    if (t->stop_at)
        left = least(left, t->stop_at > t->steps ? t->stop_at - t->steps : 1);
    sim.quantum = sim.countdown = sim.probed ? FOREVER : (int64_t)least(left, FOREVER);
}

static void draw_switch(void)
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

static struct sim_task *pick(void)
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
static void give_way(struct sim_task *t)
{
    sim_totals.switches++;
    t->inside = mu_inside;
    sim.current = NULL;
    sim_switch(&t->sp, sim.main_sp);
}

static void wake_task(struct sim_task *t)
{
    t->state = SIM_READY;
    t->words[0] = t->words[1] = NULL;
}

/* The next deadline of a sleeper's own passes; false when there is none. */
static bool pass_deadline(void)
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
            wake_task(&sim.tasks[i]);
    return true;
}

static void wake_scavengers(bool all)
{
    for (uint32_t i = 0; i < sim.count; i++)
        if (sim.tasks[i].state == SIM_IDLE && (all || !sim.tasks[i].scavenger || !sim_chance(4)))
            sim.tasks[i].state = SIM_READY;
}

void sim_wake_idle(void)
{
    wake_scavengers(true);
}

static void disturb(void)
{
    if (sim.timer_odds && sim_chance(sim.timer_odds))
        pass_deadline();
    if (sim.spurious && sim_chance(32)) {
        struct sim_task *t = &sim.tasks[sim_random(sim.count)];

        if (t->state == SIM_SLEEPING)
            wake_task(t);
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
static void end_life(struct sim_task *t)
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
        wake_task(u);
        u->stop_at = 0;
        u->shielded = false;
        u->doomed = true;
        u->kill_at = u->steps + 1 + sim_random(16);
    }
    wake_scavengers(false);
    give_way(t);
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
        wake_scavengers(true);
    }
    if (sim_trace)
        printf("%8llu task %u is stopped\n", (unsigned long long)sim.steps, t->number);
    give_way(t);
}

/* Something is due, or a preemption. */
static void decide(struct sim_task *t)
{
    settle(t);
    if (!sim.probed) {
        if (t->kill_at && t->steps >= t->kill_at && t->shielded)
            t->kill_at = t->steps + some_time(2, 8);
        if (t->kill_at && t->steps >= t->kill_at)
            end_life(t);
        if (t->stop_at && t->steps >= t->stop_at)
            stop(t);
        if (sim.next_switch <= sim.steps) {
            struct sim_task *next;

            if (sim.strategy == PRIORITIES && sim.next_change < sim.num_changes &&
                sim.changes[sim.next_change] <= sim.steps)
                t->priority = --sim.lowest;
            disturb();
            draw_switch();
            next = pick();
            if (next != t) {
                sim.chosen = next;
                give_way(t);
            }
        }
    }
    arm(t);
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

static uint64_t blind(const mu_a64 *p)
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
    settle(t);
    if (t->doomed)
        end_life(t);
    t->words[0] = word;
    t->words[1] = epoch;
    t->until = deadline - sim.clock >= RECHECK_NS ? UINT64_MAX : deadline;
    t->state = SIM_SLEEPING;
    give_way(t);
}

void mu_sim_futex_wake(const void *word)
{
    bool epoch = word == &sim_segment.header->epoch, any = false;

    if ((sim_mutation == SIM_LOSE_WAKES && !epoch) || (sim_mutation == SIM_LOSE_EPOCH && epoch))
        return;
    for (uint32_t i = 0; i < sim.count; i++) {
        struct sim_task *t = &sim.tasks[i];

        if (t->state != SIM_SLEEPING || (t->words[0] != word && t->words[1] != word))
            continue;
        if (sim_trace)
            printf("%8llu task %u is woken\n", (unsigned long long)sim.points, t->number);
        if (sim.probed)
            sim_fail("a wake-up was lost: woken for nothing, it found a reason to wake task %u", i);
        sim_totals.wakes++;
        wake_task(t);
        any = true;
    }
    if (any && sim.strategy == PRIORITIES && sim.current) { /* the woken may be more urgent */
        settle(sim.current);
        sim.next_switch = sim.steps + 1;
        sim.quantum = sim.countdown = 1;
    }
}

void sim_yield(void)
{
    struct sim_task *t = sim.current;

    settle(t);
    if (t->doomed)
        end_life(t);
    t->priority = --sim.lowest;
    give_way(t);
}

void sim_wait_for(const uint32_t *flag)
{
    struct sim_task *t = sim.current;

    while (!*flag) {
        settle(t);
        if (t->doomed)
            end_life(t);
        t->words[0] = flag;
        t->until = UINT64_MAX;
        t->state = SIM_SLEEPING;
        give_way(t);
    }
}

void sim_set(uint32_t *flag)
{
    *flag = 1;
    for (uint32_t i = 0; i < sim.count; i++)
        if (sim.tasks[i].state == SIM_SLEEPING && sim.tasks[i].words[0] == flag)
            wake_task(&sim.tasks[i]);
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
    settle(t);
    if (t->doomed)
        end_life(t);
    t->state = SIM_IDLE;
    t->in_op = false;
    give_way(t);
}

/* ---- operations ---- */

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

static void entry(void)
{
    struct sim_task *t = sim.current;

    t->body(t);
    if (sim.probed == t)
        sim_fail("a wake-up was lost: woken for nothing, the task ended");
    sim_begin("detach");
    mu_handle_detach_thread(&t->handle);
    sim_end(MUSTER_OK);
    settle(t);
    t->state = SIM_ENDED;
    give_way(t);
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

/* ---- a schedule ---- */

static void run_task(struct sim_task *t)
{
    sim.chosen = NULL;
    sim.current = t;
    mu_inside = t->inside;
    arm(t);
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
    wake_task(t);
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

        wake_scavengers(true);
        for (uint32_t i = 0; i < sim.count; i++)
            n += sim.tasks[i].state == SIM_READY && sim.tasks[i].scavenger;
        if (!n)
            sim_add(sim_scavenger, -1, NULL);
        return true;
    }
    for (uint32_t i = 0; i < sim.count; i++)
        if (sim.tasks[i].state == SIM_SLEEPING)
            probe(&sim.tasks[i]);
    if (sleepers && !pass_deadline())
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
            t->kill_at = some_time(1, 10);
    }
    for (; stops; stops--)
        sim.tasks[sim_random(sim.count)].stop_at = some_time(1, 10);
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
    mu_sim_recheck = sim_mutation == SIM_BLIND_RECHECK ? blind : NULL;
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

        draw_switch();
        while ((t = sim.chosen ? sim.chosen : pick()))
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
