/*
 * tests/bridgesim/bridgesim_main.c: the scheduler, and the program: which seeds, for how long, broken in which way.
 *
 * Schedules run in children, some at a time: what the killed hold is no leak, and a crash names its seed.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

enum { BATCH = 32, STEPS_MAX = 400000, SCHEDULE_SECONDS = 60 };

/* ---- one schedule ------------------------------------------------------------------------------------------------ */

static void draw(uint64_t seed)
{
    uint32_t hosts, ops;

    sim.random = seed;
    hosts = 2 + (uint32_t)sim_random(SIM_HOSTS - 1);
    sim_make(sim.random, hosts, hosts + (uint32_t)sim_random(SIM_TASKS - hosts + 1));
    sim.seed = seed;
    ops = 10 + (uint32_t)sim_random(60);
    for (uint32_t i = 0; i < sim.num_tasks; i++)
        sim.tasks[i].ops_left = ops; /* the same for all: they meet after so many */
    sim.breaks_left = (uint32_t)sim_random(6);
    sim.kills_left = (uint32_t)sim_random(5);
    sim.deaths_left = sim_chance(4) ? 1 : 0;
    sim_lanes_draw();
}

static void fault(void)
{
    uint32_t host = (uint32_t)sim_random(sim.num_hosts);
    struct sim_host *h = &sim.hosts[host];

    if (sim.deaths_left && sim_chance(4)) {
        struct sim_task *t = &sim.tasks[sim_random(sim.num_tasks)];

        if (t->m && t->state == SIM_ASLEEP) {
            sim.deaths_left--;
            sim_task_kill(t);
        }
    } else if (sim.breaks_left && host && sim_chance(2)) {
        sim.breaks_left--;
        sim_link_break(host);
    } else if (sim.kills_left && h->agent) {
        sim.kills_left--;
        if (sim_chance(2))
            h->dies_after = (int)sim_random(4);
        else
            sim_agent_kill(host);
    }
}

static bool event_of(uint32_t host)
{
    struct sim_host *h = &sim.hosts[host];

    if (!h->agent) {
        sim_agent_start(host);
        return true;
    }
    return host && sim_link_step(host);
}

enum happened { NOTHING, A_LOOK /* that found nothing */, SOMETHING };

/* Something that can happen, happens. NOTHING: nothing can, but for the clock. */
static enum happened step(void)
{
    uint32_t first = (uint32_t)sim_random(64);

    if (!sim.quiet && sim_chance(60))
        fault();
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t what = (first + i * 29) % 64, host = what % sim.num_hosts;
        struct sim_task *t = &sim.tasks[what % sim.num_tasks];

        if (what < 20 && sim_task_can_run(t)) {
            sim_task_run(t);
            sim.hosts[t->host].awake = true;
            return SOMETHING;
        }
        if (what >= 20 && what < 42 && host && sim_deliver(host, what % 2))
            return SOMETHING;
        if (what >= 20 && what < 42 && host && sim_relays && sim_relay_deliver(host, what % 2))
            return SOMETHING;
        if (what >= 42 && what < 46 && sim_lanes_step(host))
            return SOMETHING;
        if (what >= 42 && what < 58 && sim.hosts[host].awake && sim.hosts[host].agent)
            return sim_turn(host) ? SOMETHING : A_LOOK;
        if (what >= 58 && (sim.quiet || sim_chance(4)) && event_of(host))
            return SOMETHING;
    }
    return NOTHING;
}

/* All that can happen at once, in order: for when the draw above has missed it. */
static enum happened any_step(void)
{
    for (uint32_t i = 0; i < sim.num_tasks; i++)
        if (sim_task_can_run(&sim.tasks[i])) {
            sim_task_run(&sim.tasks[i]);
            sim.hosts[sim.tasks[i].host].awake = true;
            return SOMETHING;
        }
    for (uint32_t h = 0; h < sim.num_hosts; h++) {
        if (sim_lanes_step(h))
            return SOMETHING;
        if ((h && (sim_deliver(h, true) || sim_deliver(h, false))) || event_of(h))
            return SOMETHING;
        if (h && (sim_relay_deliver(h, true) || sim_relay_deliver(h, false)))
            return SOMETHING;
        if (sim.hosts[h].awake && sim.hosts[h].agent)
            return sim_turn(h) ? SOMETHING : A_LOOK;
    }
    return NOTHING;
}

static void pass_time(void)
{
    uint64_t next = sim.now + 20000000u;

    for (uint32_t i = 0; i < sim.num_tasks; i++)
        if (sim.tasks[i].state == SIM_ASLEEP && sim.tasks[i].until < next)
            next = sim.tasks[i].until;
    for (uint32_t h = 0; h < sim.num_hosts; h++) {
        uint64_t at = sim.hosts[h].agent ? sim_instant(h, mu_core_next(&sim.hosts[h].core)) : next;

        next = at < next ? at : next;
        sim.hosts[h].awake = true; /* the bell, or its time */
    }
    sim.now = next > sim.now ? next : sim.now + 1000;
}

static bool all_over(void)
{
    for (uint32_t i = 0; i < sim.num_tasks; i++)
        if (sim.tasks[i].state != SIM_OVER && sim.tasks[i].state != SIM_DEAD)
            return false;
    return sim_lanes_over();
}

static void go(bool (*is_end)(void))
{
    enum happened what;
    uint32_t idle = 0;

    while (!is_end() || idle < 60) { /* more than a second after the last */
        if (++sim.steps > STEPS_MAX)
            sim_fail("no end after %d steps", STEPS_MAX);
        sim.now += sim_random(20000);
        what = step();
        what = what ? what : any_step();
        if (what == SOMETHING) {
            idle = 0;
        } else if (what == NOTHING) {
            pass_time();
            idle++;
            if (idle > 5000)
                sim_fail("they wait for ever");
        }
        if (idle && is_end())
            sim.quiet = true;
    }
}

static void schedule(uint64_t seed)
{
    struct muster_segment_config config = {.num_buckets = 16,
                                           .num_events = 64,
                                           .num_slots = 64,
                                           .heap_bytes = 4 << 20,
                                           .heartbeat_timeout_ns = UINT64_MAX / 4};

    draw(seed);
    sim_work_start();
    sim_hosts_make(&config);
    for (uint32_t i = 0; i < sim.num_tasks; i++)
        sim_task_start(&sim.tasks[i], sim_work);
    go(all_over);
    sim_work_check();
    sim_lanes_check();
    sim_hosts_end();
    sim_totals.schedules++;
    sim_totals.steps += sim.steps;
    sim_unmake();
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seeds from `first` on, in a child; its totals are added to *shared. False: one failed. */
static bool batch(uint64_t first, uint64_t count, struct sim_totals *shared)
{
    pid_t parent = getpid(), pid;
    int status;

    fflush(stdout);
    pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(2);
        sim_totals = *shared;
        for (uint64_t i = 0; i < count; i++) {
            alarm(SCHEDULE_SECONDS);
            *shared = sim_totals;
            schedule(first + i);
        }
        *shared = sim_totals;
        fflush(stdout);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0)
        ;
    if (WIFSIGNALED(status))
        fprintf(stderr, "seed %llu: signal %d\nreplay: %s%s%s%s%s --seed %llu --trace\n",
                (unsigned long long)(first + shared->schedules % BATCH), WTERMSIG(status), sim_program,
                sim_relays ? " --relays" : "", sim_clocks ? " --clocks" : "", sim_mutation ? " --mutation " : "",
                sim_mutation ? sim_mutations[sim_mutation] : "",
                (unsigned long long)(first + shared->schedules % BATCH));
    return status == 0;
}

static void report(const struct sim_totals *t, double seconds)
{
    printf("%llu schedules in %.1f s: %llu steps, %llu operations (%llu reads, %llu of unknown outcome), %llu frames "
           "(%llu "
           "over the leader's connections), %llu bytes, %llu turns, %llu breaks, %llu connections, %llu agents killed, "
           "%llu tasks died\n",
           (unsigned long long)t->schedules, seconds, (unsigned long long)t->steps, (unsigned long long)t->operations,
           (unsigned long long)t->reads, (unsigned long long)t->unsure, (unsigned long long)t->frames,
           (unsigned long long)t->crossed, (unsigned long long)t->bytes, (unsigned long long)t->turns,
           (unsigned long long)t->breaks, (unsigned long long)t->reconnects, (unsigned long long)t->agent_kills,
           (unsigned long long)t->task_deaths);
}

static int usage(void)
{
    fprintf(stderr, "usage: bridgesim [--seed N] [--count N | --seconds N] [--mutation NAME] [--relays] [--clocks] "
                    "[--trace]\nmutations:");
    for (int i = 0; i < SIM_MUTATIONS; i++)
        fprintf(stderr, " %s", sim_mutations[i]);
    fprintf(stderr, "\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", 1, NULL, 's'},  {"count", 1, NULL, 'n'},  {"seconds", 1, NULL, 't'}, {"mutation", 1, NULL, 'm'},
        {"trace", 0, NULL, 'T'}, {"relays", 0, NULL, 'r'}, {"clocks", 0, NULL, 'c'},  {NULL, 0, NULL, 0}};
    struct sim_totals *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t seed = 1, count = 100, done = 0;
    double seconds = 0, began = seconds_now();
    bool ok = true;
    int c;

    sim_program = argv[0];
    mu_slice_min = 8; /* what is long elsewhere is a key's value here */
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        bool known = c != 'm';

        switch (c) {
        case 's': seed = strtoull(optarg, NULL, 10); break;
        case 'n': count = strtoull(optarg, NULL, 10); break;
        case 't': seconds = strtod(optarg, NULL); break;
        case 'm':
            for (int i = 0; i < SIM_MUTATIONS; i++)
                if (strcmp(optarg, sim_mutations[i]) == 0) {
                    sim_mutation = (enum sim_mutation)i;
                    known = true;
                }
            break;
        case 'T': sim_trace = true; break;
        case 'r': sim_relays = true; break;
        case 'c': sim_clocks = true; break;
        default: known = false;
        }
        if (!known)
            return usage();
    }
    if (shared == MAP_FAILED || optind != argc)
        return usage();
    if (sim_trace)
        count = 1;
    while (ok && (seconds ? seconds_now() < began + seconds : done < count)) {
        uint64_t n = seconds || count - done > BATCH ? BATCH : count - done;

        ok = batch(seed + done, n, shared);
        done += n;
    }
    report(shared, seconds_now() - began);
    return ok ? 0 : 1;
}
