/*
 * tests/bridgesim/world.c: the state of a run, its random numbers, and how it fails.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

struct sim sim;
struct sim_totals sim_totals;
enum sim_mutation sim_mutation;
bool sim_trace, sim_clocks;
const char *sim_program;

const char *const sim_mutations[SIM_MUTATIONS] = {"none",   "late-copies", "forget-done",
                                                  "strays", "lose-frames", "silent-break"};

uint64_t sim_random(uint64_t n)
{
    uint64_t z = sim.random += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (z ^ z >> 31) % n;
}

bool sim_chance(uint32_t one_in)
{
    return sim_random(one_in) == 0;
}

void sim_say(const char *format, ...)
{
    va_list args;

    if (!sim_trace)
        return;
    printf("%7llu %10.6f  ", (unsigned long long)sim.steps, (double)sim.now / 1e9);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void sim_fail(const char *format, ...)
{
    static const char *const states[] = {"ready", "asleep", "over", "dead"};
    va_list args;

    fflush(stdout);
    fprintf(stderr, "\nseed %llu, step %llu: ", (unsigned long long)sim.seed, (unsigned long long)sim.steps);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    for (uint32_t i = 0; i < sim.num_tasks; i++)
        fprintf(stderr, "  task %u on host %u: %s, %s\n", i, sim.tasks[i].host, states[sim.tasks[i].state],
                sim.tasks[i].doing);
    for (uint32_t i = 0; i < sim.num_hosts; i++)
        fprintf(stderr, "  host %u: agent %s; link %s, %u frames up, %u down\n", i,
                sim.hosts[i].agent ? "lives" : "is dead", sim.hosts[i].link.broken ? "broken" : "whole",
                sim.hosts[i].link.up.count, sim.hosts[i].link.down.count);
    fprintf(stderr, "replay: %s%s%s%s%s --seed %llu --trace\n", sim_program, sim_relays ? " --relays" : "",
            sim_clocks ? " --clocks" : "", sim_mutation ? " --mutation " : "",
            sim_mutation ? sim_mutations[sim_mutation] : "", (unsigned long long)sim.seed);
    fflush(stderr);
    for (uint32_t i = 0; i < sim.num_hosts; i++)
        if (sim.hosts[i].name[0])
            muster_segment_remove(sim.hosts[i].name);
    _exit(1);
}

void sim_make(uint64_t seed, uint32_t num_hosts, uint32_t num_tasks)
{
    sim.seed = sim.random = seed;
    sim.now = 1000000000000u;
    sim.num_hosts = num_hosts;
    sim.num_tasks = num_tasks;
    sim.hosts = calloc(num_hosts, sizeof *sim.hosts);
    sim.tasks = calloc(num_tasks, sizeof *sim.tasks);
    if (!sim.hosts || !sim.tasks)
        abort();
    for (uint32_t i = 0; i < num_tasks; i++) {
        sim.tasks[i].id = i;
        sim.tasks[i].host = (uint32_t)((uint64_t)i * num_hosts / num_tasks);
    }
}

void sim_unmake(void)
{
    free(sim.hosts);
    free(sim.tasks);
    memset(&sim, 0, sizeof sim);
}
