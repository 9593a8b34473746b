/*
 * bench/line.c: the limit under every barrier and wake-up: one cache line handed to and fro between two processes.
 *
 * Two processes on two processors store alternately into one word and spin (with PAUSE) for the other's store. Half
 * the round trip is the one-way latency: no message between two processors can be faster. Reported for each round
 * trip alone and for the mean of sixteen.
 *
 * Usage: line SECONDS
 */
#include "measure.h"

#include <stdatomic.h>

#define BATCH 16

struct table {
    _Alignas(BENCH_LINE) _Atomic uint64_t word; /* odd: the first process's move is made; even: the second's */
    _Alignas(BENCH_LINE) _Atomic uint64_t total;
};

/* One round trip: our store (release, read by the acquire loop of answer()), their store. */
static void trip(struct table *table, uint64_t round)
{
    atomic_store_explicit(&table->word, 2 * round + 1, memory_order_release);
    while (atomic_load_explicit(&table->word, memory_order_acquire) != 2 * round + 2)
        bench_pause();
}

static void answer(struct table *table, uint64_t total)
{
    for (uint64_t round = 0; round < total; round++) {
        while (atomic_load_explicit(&table->word, memory_order_acquire) != 2 * round + 1)
            bench_pause();
        atomic_store_explicit(&table->word, 2 * round + 2, memory_order_release);
    }
}

int main(int argc, char **argv)
{
    struct bench_samples single, batch;
    struct bench_cpus cpus;
    struct table *table = bench_shared(sizeof(*table));
    uint64_t round = 0, warm, total, previous, now;
    double tick_ns, seconds;
    pid_t child;

    if (argc != 2)
        bench_die("usage: line SECONDS");
    seconds = bench_number(argv[1], 0.001, 60);
    bench_cpus_read(&cpus);
    if (cpus.count < 2)
        bench_die("needs two processors, may use %d", cpus.count);
    alarm((unsigned)seconds * 10 + 30);
    tick_ns = bench_tick_ns();
    warm = 20000;
    total = (uint64_t)(seconds / 2 / 60e-9) / BATCH * BATCH;
    child = bench_fork((unsigned)seconds * 10 + 30);
    if (child == 0) {
        bench_pin(&cpus, 1);
        answer(table, warm + 2 * total);
        _exit(0);
    }
    bench_pin(&cpus, 0);
    bench_samples_init(&single, total);
    bench_samples_init(&batch, total / BATCH);
    for (; round < warm; round++)
        trip(table, round);
    previous = bench_ticks();
    for (uint64_t i = 0; i < total; i++) {
        trip(table, round++);
        now = bench_ticks();
        bench_add(&single, now - previous);
        previous = now;
    }
    for (uint64_t i = 0; i < total / BATCH; i++) {
        previous = bench_ticks();
        for (int k = 0; k < BATCH; k++)
            trip(table, round++);
        bench_add(&batch, bench_ticks() - previous);
    }
    bench_reap(child, "the second process");
    bench_emit("line", "one-way", &single, tick_ns, 2, 1);
    bench_emit("line.avg16", "one-way", &batch, tick_ns, 2 * BATCH, BATCH);
    return 0;
}
