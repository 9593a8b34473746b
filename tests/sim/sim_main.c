/*
 * tests/sim/sim_main.c: the program: which workloads, which seeds, for how long, broken in which way.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

static const struct sim_workload *const workloads[] = {
    &sim_kv,    &sim_counter, &sim_parts, &sim_wait, &sim_tasks,   &sim_barrier, &sim_group, &sim_event,
    &sim_alive, &sim_full,    &sim_slots, &sim_last, &sim_recover, &sim_regroup, &sim_brim,  &sim_guests};
enum { WORKLOADS = sizeof workloads / sizeof workloads[0], BATCH = 64, SCHEDULE_SECONDS = 100 };

static const char *const mutations[SIM_MUTATIONS] = {"none",          "lose-wakes", "lose-epoch",
                                                     "blind-recheck", "no-intent",  "stopped-is-dead"};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A crash or a loop without points, in the library or here: name the seed. */
static void on_signal(int sig)
{
    sim_fail(sig == SIGALRM ? "it goes on and on, and touches nothing" : "signal %d", sig);
}

static void catch_signals(void)
{
    static char stack[65536];
    stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};

    sigaltstack(&alt, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
}

struct plan {
    uint64_t seed, count;
    double seconds; /* 0: by count */
    const char *only;
};

/* One workload's share. Returns how many schedules ran. */
static uint64_t run_workload(const struct sim_workload *w, const struct plan *p, uint64_t first, uint64_t count,
                             double until)
{
    uint64_t n = 0;

    sim_world_make(w);
    while (n < count && (!until || n % BATCH || now() < until)) {
        if (n % BATCH == 0)
            alarm(SCHEDULE_SECONDS);
        sim_run(w, first + n);
        n++;
    }
    (void)p;
    return n;
}

static void report(const char *name, uint64_t schedules, double seconds)
{
    printf("%-8s %9llu schedules  %8.0f/s\n", name, (unsigned long long)schedules, (double)schedules / seconds);
    fflush(stdout);
}

static void sum_up(double seconds)
{
    const struct sim_totals *t = &sim_totals;

    printf(
        "%llu schedules in %.1f s (%.0f/s): %llu operations, %llu accesses to shared memory, %llu switches, "
        "%llu kills (%llu of scavengers), %llu stops, %llu slots scavenged, %llu sleeps, %llu wakes, %llu deadlines, "
        "%llu probes for lost wake-ups, %llu deaths noticed late, %llu histories linearized\n",
        (unsigned long long)t->schedules, seconds, (double)t->schedules / seconds, (unsigned long long)t->operations,
        (unsigned long long)t->points, (unsigned long long)t->switches, (unsigned long long)t->kills,
        (unsigned long long)t->kills_of_scavengers, (unsigned long long)t->stops, (unsigned long long)t->scavenged,
        (unsigned long long)t->sleeps, (unsigned long long)t->wakes, (unsigned long long)t->timeouts,
        (unsigned long long)t->probes, (unsigned long long)t->late, (unsigned long long)t->histories);
}

static void run(const struct plan *p)
{
    double began = now();
    uint64_t done[WORKLOADS] = {0};
    double spent[WORKLOADS] = {0};

    /* by time: turns of a second or so, so that every workload gets its share however long it goes on */
    do {
        for (int i = 0; i < WORKLOADS; i++) {
            double t = now(), turn = p->seconds / WORKLOADS / 4;
            uint64_t n;

            if (p->only && strcmp(p->only, workloads[i]->name))
                continue;
            if (p->only)
                turn *= WORKLOADS;
            n = run_workload(workloads[i], p, p->seed + done[i], p->seconds ? UINT64_MAX : p->count,
                             p->seconds ? t + turn : 0);
            done[i] += n;
            spent[i] += now() - t;
        }
    } while (p->seconds && now() < began + p->seconds);
    for (int i = 0; i < WORKLOADS; i++)
        if (done[i])
            report(workloads[i]->name, done[i], spent[i]);
    sum_up(now() - began);
}

static int usage(void)
{
    fprintf(stderr, "usage: sim [--workload NAME] [--seed N] [--count N | --seconds N] [--mutation NAME] [--trace]\n"
                    "  --trace with --seed runs that one schedule and prints each step\nworkloads:");
    for (int i = 0; i < WORKLOADS; i++)
        fprintf(stderr, " %s", workloads[i]->name);
    fprintf(stderr, "\nmutations:");
    for (int i = 0; i < SIM_MUTATIONS; i++)
        fprintf(stderr, " %s", mutations[i]);
    fprintf(stderr, "\n");
    return 2;
}

static bool choose_mutation(const char *name)
{
    for (int i = 0; i < SIM_MUTATIONS; i++)
        if (!strcmp(name, mutations[i])) {
            sim_mutation = (enum sim_mutation)i;
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"workload", 1, NULL, 'w'}, {"seed", 1, NULL, 's'},  {"count", 1, NULL, 'n'}, {"seconds", 1, NULL, 't'},
        {"mutation", 1, NULL, 'm'}, {"trace", 0, NULL, 'T'}, {NULL, 0, NULL, 0}};
    struct plan p = {.seed = 1, .count = 1000};
    bool known = false;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'w': p.only = optarg; break;
        case 's': p.seed = strtoull(optarg, NULL, 10); break;
        case 'n': p.count = strtoull(optarg, NULL, 10); break;
        case 't': p.seconds = strtod(optarg, NULL); break;
        case 'm':
            if (!choose_mutation(optarg))
                return usage();
            break;
        case 'T': sim_trace = true; break;
        default: return usage();
        }
    for (int i = 0; i < WORKLOADS; i++)
        known |= !p.only || !strcmp(p.only, workloads[i]->name);
    if (!known || optind != argc)
        return usage();
    if (sim_trace)
        p.count = 1;
    snprintf(sim_replay, sizeof sim_replay, "%s%s%s", argv[0], sim_mutation ? " --mutation " : "",
             sim_mutation ? mutations[sim_mutation] : "");
    catch_signals();
    run(&p);
    return 0;
}
