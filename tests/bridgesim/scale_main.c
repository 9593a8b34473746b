/*
 * tests/bridgesim/scale_main.c: how the bridge grows: scale HOSTS TASKS-A-HOST BARRIERS [exchange | relays].
 *
 * Hosts have real segments and real agents' cores, tasks make the public calls; all of it on one thread, in rounds:
 * every task that can run, every agent's turn, every frame delivered. So messages, bytes, memory and processor time of
 * the leader's agent are those of the code, without the kernel's share of a network; the seconds are processor time of
 * all hosts' work, one after the other, and no latency.
 *
 * Prints the lines of bench/measure.h.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <muster/topology.h>

#include "base/process.h"
#include "segment/file.h"
#include "sim.h"
#include "task/task.h"

enum { ROUNDS_MAX = 200000 };

static struct {
    uint32_t barriers;
    uint64_t leader_ns, followers_ns;
    void (*body)(struct sim_task *t);
    void *global; /* what the first task was given */
    size_t global_size;
    uint32_t exchanged; /* tasks that have the same */
} scale;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t used_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* ---- what tasks do ----------------------------------------------------------------------------------------------- */

/* As muster_join() of a segment that is open, which all of a host's tasks share here. */
static void join_job(struct sim_task *t)
{
    struct muster_segment *seg = sim.hosts[t->host].seg;
    struct mu_registration r = {.task = t->id, .flags = MUSTER_JOIN_NO_HEARTBEAT, .pid = 1000 + t->id % 32768};
    struct mu_ctx *ctx;

    mu_random(&r.incarnation, sizeof r.incarnation);
    mu_segment_ref(seg);
    t->m = mu_handle_new(seg, r.flags);
    if (!t->m)
        sim_fail("no memory for a handle");
    t->m->task_id = (int32_t)t->id;
    t->m->incarnation = r.incarnation;
    if (mu_enter(t->m, &ctx) != MUSTER_OK)
        sim_fail("task %u has no slot: %s", t->id, muster_last_error());
    r.slot = ctx->slot + 1;
    r.slot_incarnation = ctx->incarnation;
    t->m->pulse = ctx->own;
    if (mu_task_register(ctx, &r) != MUSTER_OK)
        sim_fail("task %u cannot join: %s", t->id, muster_last_error());
    mu_exit(ctx);
}

static void meet_once(struct sim_task *t)
{
    if (muster_barrier_wait(t->m, "join", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) != MUSTER_OK)
        sim_fail("task %u: %s", t->id, muster_last_error());
}

static void join_and_meet(struct sim_task *t)
{
    join_job(t);
    meet_once(t);
}

static void meet(struct sim_task *t)
{
    for (uint32_t i = 0; i < scale.barriers; i++)
        if (muster_barrier_wait(t->m, "step", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) != MUSTER_OK)
            sim_fail("task %u, barrier %u: %s", t->id, i, muster_last_error());
}

/* What a host of eight devices tells, a task a device: its id, the host's boot id, the device. */
static size_t make_local(const struct sim_task *t, uint8_t local[64])
{
    static const uint8_t device[] = {0x1a, 15,  0x08, 0,   0x12, 11,  'G', 'P', 'U',
                                     ' ',  'o', 'f',  ' ', 'h',  'o', 's', 't'};
    size_t len = 0;

    local[len++] = 0x08;
    if (t->id > 127)
        local[len++] = (uint8_t)(0x80 | (t->id & 127));
    local[len++] = (uint8_t)(t->id > 127 ? t->id >> 7 : t->id);
    len += (size_t)snprintf((char *)local + len, 16, "\x12\x08host%04u", t->host);
    memcpy(local + len, device, sizeof device);
    return len + sizeof device;
}

static void exchange(struct sim_task *t)
{
    uint8_t local[64];
    void *global = NULL;
    size_t size, len = make_local(t, local);

    if (muster_topology_exchange(t->m, NULL, MUSTER_FORM_XLA, local, len, MUSTER_FOREVER, &global, &size) != MUSTER_OK)
        sim_fail("task %u exchanges: %s", t->id, muster_last_error());
    if (!scale.global) {
        scale.global = global;
        scale.global_size = size;
        global = NULL;
    } else if (size != scale.global_size || memcmp(global, scale.global, size) != 0) {
        sim_fail("task %u was given another global topology than the first", t->id);
    }
    free(global);
    scale.exchanged++;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static bool run_tasks(void)
{
    bool any = false;

    for (uint32_t i = 0; i < sim.num_tasks; i++)
        if (sim_task_can_run(&sim.tasks[i])) {
            sim_task_run(&sim.tasks[i]);
            sim.hosts[sim.tasks[i].host].awake = true;
            any = true;
        }
    return any;
}

/* Neither this nor run_leader() is inlined: callgrind's --toggle-collect names them. */
static __attribute__((noinline)) bool run_followers(void)
{
    uint64_t began = used_ns();
    bool any = false;

    for (uint32_t h = 1; h < sim.num_hosts; h++) {
        while (sim_relay_deliver(h, false) || sim_deliver(h, false))
            any = true;
        any |= sim_link_step(h);
        for (uint32_t i = 0; i < 8 && sim.hosts[h].awake; i++)
            any |= sim_turn(h);
        while (sim.hosts[h].relay && sim_deliver(h, true)) /* that far: the relay's work */
            any = true;
    }
    scale.followers_ns += used_ns() - began;
    return any;
}

static __attribute__((noinline)) bool run_leader(void)
{
    uint64_t began = used_ns();
    bool any = false;

    for (uint32_t h = 1; h < sim.num_hosts; h++)
        while (sim_deliver(h, true) || sim_relay_deliver(h, true))
            any = true;
    for (uint32_t i = 0; i < 8 && sim.hosts[0].awake; i++)
        any |= sim_turn(0);
    scale.leader_ns += used_ns() - began;
    return any;
}

static bool is_over(void)
{
    for (uint32_t i = 0; i < sim.num_tasks; i++)
        if (sim.tasks[i].state != SIM_OVER)
            return false;
    return true;
}

static void pass_time(void)
{
    sim.now += 5000000;
    for (uint32_t h = 0; h < sim.num_hosts; h++)
        sim.hosts[h].awake = true;
}

static void phase(void (*body)(struct sim_task *t))
{
    uint32_t idle = 0, rounds = 0;

    memset(&sim_totals, 0, sizeof sim_totals);
    scale.leader_ns = scale.followers_ns = 0;
    for (uint32_t i = 0; i < sim.num_tasks; i++)
        sim_task_start(&sim.tasks[i], body);
    while (!is_over()) {
        bool any = run_tasks();

        any |= run_followers();
        any |= run_leader();
        sim.now += 20000;
        idle = any ? 0 : idle + 1;
        if (!any)
            pass_time();
        if (idle > 20000 || ++rounds > ROUNDS_MAX)
            sim_fail("no end after %u rounds", rounds);
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void emit(const char *name, double value, const char *unit)
{
    printf("{\"metric\": \"scale.%s.%u\", \"who\": \"muster\", \"value\": %.6f, \"unit\": \"%s\"}\n", name,
           sim.num_hosts, value, unit);
}

static void emit_phase(const char *name, uint64_t began, double times)
{
    char text[64];
    const struct {
        const char *what, *unit;
        double value;
    } rows[] = {{"seconds", "s", (double)(used_ns() - began) / 1e9 / times},
                {"messages", "messages", (double)sim_totals.frames / times},
                {"bytes", "bytes", (double)sim_totals.bytes / times},
                {"crossed", "messages", (double)sim_totals.crossed / times},
                {"crossed_bytes", "bytes", (double)sim_totals.crossed_bytes / times},
                {"leader", "us", (double)scale.leader_ns / 1e3 / times},
                {"follower", "us", (double)scale.followers_ns / 1e3 / times / (sim.num_hosts - 1)}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text, "%s.%s", name, rows[i].what);
        emit(text, rows[i].value, rows[i].unit);
    }
}

static double heap_used(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

static double committed(uint32_t host)
{
    struct muster_segment_info info;

    if (muster_segment_info(sim.hosts[host].seg, &info) != MUSTER_OK)
        sim_fail("host %u: %s", host, muster_last_error());
    return (double)info.committed_bytes;
}

/* What the agents' own memory was, by letting it go; and what the segments take. */
static void emit_memory(void)
{
    double before = heap_used(), after;

    mu_core_done(&sim.hosts[0].core);
    after = heap_used();
    emit("memory.leader", before - after, "bytes");
    for (uint32_t h = 1; h < sim.num_hosts; h++)
        mu_core_done(&sim.hosts[h].core);
    emit("memory.follower", (after - heap_used()) / (sim.num_hosts - 1), "bytes");
    emit("segment.leader", committed(0), "bytes");
    emit("segment.follower", committed(sim.num_hosts - 1), "bytes");
}

int main(int argc, char **argv)
{
    uint32_t hosts = argc > 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    uint32_t tasks = argc > 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    struct muster_segment_config config = {.num_buckets = 4096,
                                           .num_events = 64,
                                           .num_slots = 64,
                                           .heap_bytes = 256 << 20,
                                           .heartbeat_timeout_ns = UINT64_MAX / 4};
    uint64_t began = used_ns();
    bool exchanges = argc == 5 && strcmp(argv[4], "exchange") == 0;

    sim_relays = argc == 5 && strcmp(argv[4], "relays") == 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4 || argc > 5 || (argc == 5 && !exchanges && !sim_relays) || hosts < 2 || hosts > MU_HOSTS_MAX ||
        !tasks || hosts * tasks > 8192) {
        fprintf(stderr, "usage: scale HOSTS TASKS-A-HOST BARRIERS [exchange | relays]\n");
        return 2;
    }
    if (!sim_has(MU_OP_BARRIER_WAIT)) {
        fprintf(stderr, "scale: this muster has no barriers across hosts\n");
        return 1;
    }
    scale.barriers = (uint32_t)strtoul(argv[3], NULL, 10);
    sim_program = argv[0];
    sim_make(1, hosts, hosts * tasks);
    sim.quiet = true;
    config.num_slots = tasks + 16;
    sim_hosts_make(&config);
    phase(join_and_meet);
    emit_phase("join", began, 1);
    began = used_ns();
    phase(meet);
    emit_phase("barrier", began, scale.barriers);
    if (argc == 5) { /* with relays, too: it is a broadcast */
        began = used_ns();
        phase(exchange);
        if (scale.exchanged != sim.num_tasks)
            sim_fail("%u of %u tasks have exchanged", scale.exchanged, sim.num_tasks);
        free(scale.global);
        emit_phase("exchange", began, 1);
    }
    emit_memory();
    for (uint32_t h = 0; h < hosts; h++)
        sim.hosts[h].agent = NULL; /* its core is gone already */
    sim_hosts_end();
    return 0;
}
