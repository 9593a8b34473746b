/*
 * bench/line.h: one cache line handed to and fro between two processes: the limit under every barrier.
 *
 * Two processes on two processors store alternately into one word and spin (with PAUSE) for the other's store. Half
 * the round trip is the one-way latency: no message between two processors can be faster.
 */
#ifndef BENCH_LINE_H
#define BENCH_LINE_H

#include "measure.h"

#include <stdatomic.h>

struct bench_table {
    _Alignas(BENCH_LINE) _Atomic uint64_t word;    /* odd: the first process's move is made; even: the second's */
    _Alignas(BENCH_LINE) volatile uint64_t shared; /* for bench_share_through() */
};

/* The first process's part of a round trip: our store (release, pairs with the loop of bench_answer()), then theirs. */
static inline void bench_trip(struct bench_table *table, uint64_t round)
{
    atomic_store_explicit(&table->word, 2 * round + 1, memory_order_release);
    while (atomic_load_explicit(&table->word, memory_order_acquire) != 2 * round + 2)
        bench_pause();
}

static inline void bench_answer(struct bench_table *table, uint64_t round)
{
    while (atomic_load_explicit(&table->word, memory_order_acquire) != 2 * round + 1)
        bench_pause();
    atomic_store_explicit(&table->word, 2 * round + 2, memory_order_release);
}

#endif
