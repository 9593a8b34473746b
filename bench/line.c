/*
 * bench/line.c: the one-way latency of a cache line (see bench/line.h), for each round trip alone and for the mean of
 * sixteen. On a machine that is wanted by others the two rarely run at the same time; so time ends it, too.
 *
 * Usage: line SECONDS
 */
#include "line.h"

#define BATCH 16
#define OVER  UINT64_MAX /* in place of a move */

/* Every 256 trips: whether there is time for more. */
static int goes_on(uint64_t i, uint64_t total, uint64_t end)
{
    return i < total && (i == 0 || i % 256 || bench_now_ns() < end);
}

/* Until it is over. */
static void answer_all(struct bench_table *table)
{
    for (uint64_t round = 0;; round++) {
        uint64_t word;

        /* acquire: pairs with bench_trip() */
        while ((word = atomic_load_explicit(&table->word, memory_order_acquire)) != 2 * round + 1 && word != OVER)
            bench_pause();
        if (word == OVER)
            return;
        atomic_store_explicit(&table->word, 2 * round + 2, memory_order_release); /* release: pairs with bench_trip() */
    }
}

int main(int argc, char **argv)
{
    struct bench_samples single, batch;
    struct bench_cpus cpus;
    struct bench_table *table = bench_shared(sizeof(*table));
    uint64_t round = 0, warm, total, previous, now, start, period;
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
        answer_all(table);
        _exit(0);
    }
    bench_pin(&cpus, 0);
    bench_samples_init(&single, total);
    bench_samples_init(&batch, total / BATCH);
    start = bench_now_ns();
    period = 2000000000 + (uint64_t)(seconds * 1e9); /* of each of the three loops, at most */
    for (; goes_on(round, warm, start + period); round++)
        bench_trip(table, round);
    previous = bench_ticks();
    for (uint64_t i = 0; goes_on(i, total, start + 2 * period); i++) {
        bench_trip(table, round++);
        now = bench_ticks();
        bench_add(&single, now - previous);
        previous = now;
    }
    for (uint64_t i = 0; goes_on(i, total / BATCH, start + 3 * period); i++) {
        previous = bench_ticks();
        for (int k = 0; k < BATCH; k++)
            bench_trip(table, round++);
        bench_add(&batch, bench_ticks() - previous);
    }
    atomic_store_explicit(&table->word, OVER, memory_order_release); /* release: pairs with answer_all() */
    bench_reap(child, "the second process");
    bench_emit("line", "one-way", &single, tick_ns, 2, 1);
    bench_emit("line.avg16", "one-way", &batch, tick_ns, 2 * BATCH, BATCH);
    return 0;
}
