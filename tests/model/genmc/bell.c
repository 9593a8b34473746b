/*
 * bell.c: tasks that call their agent, and an agent that sleeps on the bell.
 *
 * Stands for: mu_asks_set(), mu_asks_take(), mu_bell_ring_always(), mu_bell_arm(), mu_bell_wait(), mu_bell_disarm() in
 * src/segment/hosts.c.
 *
 * Each task makes its call (a plain word), then says so. The agent arms the bell, collects, and sleeps when it found
 * nothing, until it has seen every call. There is no recheck timer and no spurious wake: who is not woken sleeps for
 * ever. The kernel compares the word and queues the sleeper under one lock, which a wake takes too.
 *
 * RUN short ok    -                        : every call is seen, by an agent that sleeps in between
 * RUN short reach -DREACH                  : the agent does sleep
 * RUN short hang  -DBREAK_NO_FENCE         : neither fences between its write and its look
 * RUN short hang  -DBREAK_LOOK_FIRST       : the agent collects, then arms
 * RUN short hang  -DBREAK_BIT_FIRST        : a task rings before its call has its bit
 * RUN short lost  -DBREAK_PLAIN_BIT        : bits are collected by a load and a store
 * RUN short lost  -DBREAK_RELAXED_BIT      : a bit is set by a CAS that releases nothing
 */
#include <assert.h>
#include <genmc.h>
#include <pthread.h>
#include <stdint.h>

#define MUST(what, condition) assert((condition) || !#what)

#include "sync/shm.h"
#ifdef BREAK_NO_FENCE
#define mu_fence_seq_cst() ((void)0)
#endif
#ifdef BREAK_PLAIN_BIT
#define mu_cas_seen(p, seen, next) ((next) ? (mu_cas_seen)(p, seen, next) : (mu_store_release(p, 0), true))
#endif
#ifdef BREAK_RELAXED_BIT
static bool model_relaxed(mu_a64 *p, uint64_t *seen, uint64_t next)
{
    return atomic_compare_exchange_strong_explicit(p, seen, next, memory_order_relaxed, memory_order_relaxed);
}
#define mu_cas_seen model_relaxed
#endif
#include "segment/hosts.c"
#undef mu_fence_seq_cst
#undef mu_cas_seen

void mu_point(const volatile void *address)
{
    (void)address;
}

void mu_epoch_move(struct muster_segment *seg)
{
    (void)seg;
}

bool mu_slot_is_dead(const struct muster_segment *seg, uint32_t slot, uint64_t word)
{
    (void)seg, (void)slot, (void)word;
    return false;
}

#include "queue.h"

void mu_futex_wait_any(mu_a32 *const *words, const uint32_t *values, size_t count, muster_deadline deadline)
{
    (void)count, (void)deadline;
    pthread_mutex_lock(&queue);
    queue_or_go(atomic_load_explicit(words[0], memory_order_relaxed) == values[0]);
}

void mu_futex_wake32(mu_a32 *word)
{
    (void)word;
    queue_wake();
}

#define TASKS 2

static uint64_t header_words[MU_HEADER_SIZE / 8];
static mu_a64 asks[1];
static struct muster_segment segment;
static _Atomic(uint64_t) called[TASKS]; /* what a call says; relaxed: its bit must bring it along */

static void *task(void *arg)
{
    uint32_t slot = (uint32_t)(uintptr_t)arg;

#ifdef BREAK_BIT_FIRST
    mu_bell_ring_always(&segment);
    atomic_store_explicit(&called[slot], 1, memory_order_relaxed);
    mu_cas_seen(&asks[0], &(uint64_t){mu_load_relaxed(&asks[0])}, mu_load_relaxed(&asks[0]) | 1ull << slot);
#else
    atomic_store_explicit(&called[slot], 1, memory_order_relaxed);
    mu_asks_set(&segment, slot);
#endif
    return NULL;
}

static void *agent(void *arg)
{
    uint64_t seen = 0;

    (void)arg;
    while (seen != (1u << TASKS) - 1) {
        uint64_t bits;

#ifdef BREAK_LOOK_FIRST
        bits = mu_asks_take(&segment, 0);
        mu_bell_arm(&segment);
#else
        mu_bell_arm(&segment);
        bits = mu_asks_take(&segment, 0);
#endif
        for (uint32_t i = 0; i < TASKS; i++)
            if (bits >> i & 1)
                MUST(lost, atomic_load_explicit(&called[i], memory_order_relaxed) == 1 && !(seen >> i & 1));
        seen |= bits;
        if (bits)
            mu_bell_disarm(&segment);
        else
            mu_bell_wait(&segment, MUSTER_FOREVER);
    }
    return NULL;
}

int main(void)
{
    pthread_t a, t[TASKS];

    segment.header = (struct mu_header *)header_words;
    segment.asks = asks;
    segment.num_hosts = 2;
    pthread_create(&a, NULL, agent, NULL);
    for (uintptr_t i = 0; i < TASKS; i++)
        pthread_create(&t[i], NULL, task, (void *)i);
    for (uint32_t i = 0; i < TASKS; i++)
        pthread_join(t[i], NULL);
    pthread_join(a, NULL);
    return 0;
}
