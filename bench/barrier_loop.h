/*
 * bench/barrier_loop.h: the one loop that measures every barrier, whoever implements it.
 *
 * All ranks call bench_barrier_run(). Rank 0 finds out how long a barrier takes, fixes the number of iterations for
 * the time given, and shares it; then it records the period of back-to-back barriers (as osu_barrier does): each one
 * alone, then, for two ranks on one host, sixteen at a time, which the coarse steps of a virtual machine's TSC need
 * below 100 ns.
 */
#ifndef BENCH_BARRIER_LOOP_H
#define BENCH_BARRIER_LOOP_H

#include "measure.h"

#define BENCH_BATCH 16

struct bench_barrier {
    void (*barrier)(void *context);
    uint64_t (*share)(void *context, uint64_t value); /* rank 0's value, to all */
    void *context;
    int rank;
    int size;
    const char *metric; /* NULL: "barrier.n" and the size */
};

/* share() for ranks that have shared memory and nothing else: store, barrier, load, barrier. */
static inline uint64_t bench_share_through(volatile uint64_t *word, uint64_t value, const struct bench_barrier *b)
{
    if (b->rank == 0)
        *word = value;
    b->barrier(b->context);
    value = *word;
    b->barrier(b->context);
    return value;
}

/* Iterations that fill `seconds`, at least `least`; the doubling run is the warm-up. */
static inline uint64_t bench_barrier_plan(const struct bench_barrier *b, double seconds, uint64_t least)
{
    uint64_t iterations = 1, elapsed = 0, total = 0;

    for (;;) {
        uint64_t start = bench_now_ns();
        for (uint64_t i = 0; i < iterations; i++)
            b->barrier(b->context);
        elapsed = bench_now_ns() - start;
        if (b->share(b->context, elapsed > seconds * 1e8 || iterations > 1u << 22))
            break;
        iterations *= 2;
    }
    total = (uint64_t)(seconds * 1e9 / ((double)elapsed / (double)iterations));
    if (total < least)
        total = least;
    return b->share(b->context, total / BENCH_BATCH * BENCH_BATCH);
}

static inline void bench_barrier_run(const struct bench_barrier *b, const char *who, double seconds, uint64_t least,
                                     uint64_t most)
{
    struct bench_samples single = {0}, batch = {0};
    double tick_ns = b->rank == 0 ? bench_tick_ns() : 0;
    uint64_t total = bench_barrier_plan(b, seconds, least), previous, now;
    int in_batches = b->size == 2 && !b->metric;
    char metric[64];

    if (total > most)
        total = most / BENCH_BATCH * BENCH_BATCH;
    if (b->rank) {
        for (uint64_t i = 0; i < (in_batches ? 2 : 1) * total; i++)
            b->barrier(b->context);
        return;
    }
    bench_samples_init(&single, total);
    previous = bench_ticks();
    for (uint64_t i = 0; i < total; i++) {
        b->barrier(b->context);
        now = bench_ticks();
        bench_add(&single, now - previous);
        previous = now;
    }
    snprintf(metric, sizeof(metric), "barrier.n%d", b->size);
    if (in_batches) {
        bench_samples_init(&batch, total / BENCH_BATCH);
        for (uint64_t i = 0; i < total / BENCH_BATCH; i++) {
            previous = bench_ticks();
            for (int k = 0; k < BENCH_BATCH; k++)
                b->barrier(b->context);
            bench_add(&batch, bench_ticks() - previous);
        }
        bench_emit("barrier.n2.avg16", who, &batch, tick_ns, BENCH_BATCH, BENCH_BATCH);
    }
    bench_emit(b->metric ? b->metric : metric, who, &single, tick_ns, 1, 1);
}

#endif
