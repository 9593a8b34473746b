/*
 * bench/line.c: the one-way latency of a cache line (see bench/line.h), for each round trip alone and for the mean of
 * sixteen.
 *
 * Usage: line SECONDS
 */
#include "line.h"

#define BATCH 16

int main(int argc, char **argv)
{
    struct bench_samples single, batch;
    struct bench_cpus cpus;
    struct bench_table *table = bench_shared(sizeof(*table));
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
        for (; round < warm + 2 * total; round++)
            bench_answer(table, round);
        _exit(0);
    }
    bench_pin(&cpus, 0);
    bench_samples_init(&single, total);
    bench_samples_init(&batch, total / BATCH);
    for (; round < warm; round++)
        bench_trip(table, round);
    previous = bench_ticks();
    for (uint64_t i = 0; i < total; i++) {
        bench_trip(table, round++);
        now = bench_ticks();
        bench_add(&single, now - previous);
        previous = now;
    }
    for (uint64_t i = 0; i < total / BATCH; i++) {
        previous = bench_ticks();
        for (int k = 0; k < BATCH; k++)
            bench_trip(table, round++);
        bench_add(&batch, bench_ticks() - previous);
    }
    bench_reap(child, "the second process");
    bench_emit("line", "one-way", &single, tick_ns, 2, 1);
    bench_emit("line.avg16", "one-way", &batch, tick_ns, 2 * BATCH, BATCH);
    return 0;
}
