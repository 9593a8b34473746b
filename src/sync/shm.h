/*
 * sync/shm.h: the only operations that touch shared memory, each with its order in its name.
 *
 * The lock-free code is written over these alone, so that one source builds three ways: production (C11 atomics);
 * MU_SIM, where mu_point() hands control to a seeded scheduler that may preempt or kill before every access; and
 * MU_GENMC, for a model checker of weak memory, where mu_point() lets a victim die. MU_TSAN replaces fences, which
 * ThreadSanitizer does not see, by read-modify-writes at the re-checks.
 */
#ifndef MU_SYNC_SHM_H
#define MU_SYNC_SHM_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef _Atomic uint64_t mu_a64;
typedef _Atomic uint32_t mu_a32;

#if defined(MU_SIM) || defined(MU_GENMC)
void mu_point(const volatile void *address); /* before each access: may switch, may not return */
#ifdef MU_SIM
extern uint64_t (*mu_sim_recheck)(const mu_a64 *p); /* not NULL: mu_recheck() is to be seen missed */
#endif
#else
#define mu_point(address) ((void)(address))
#endif

/*
 * What each access pairs with is said where it is made, for there alone it has a partner; the order of each suffices
 * for what its comment here says, and for no more.
 */

static inline uint64_t mu_load_relaxed(const mu_a64 *p)
{
    mu_point(p);
    /* relaxed: whole, and no more: a hint, the caller's own word, or what a later re-check or CAS decides */
    return atomic_load_explicit(p, memory_order_relaxed);
}

static inline uint64_t mu_load_acquire(const mu_a64 *p)
{
    mu_point(p);
    /* acquire: what came before the release store or CAS that wrote this value is seen */
    return atomic_load_explicit(p, memory_order_acquire);
}

static inline uint64_t mu_load_seq_cst(const mu_a64 *p)
{
    mu_point(p);
    /* seq_cst: in one order with mu_cas_seq_cst() and the fences: of two threads that write, then look, one sees */
    return atomic_load_explicit(p, memory_order_seq_cst);
}

static inline void mu_store_relaxed(mu_a64 *p, uint64_t v)
{
    mu_point(p);
    /* relaxed: a later release store, CAS or fence of this thread publishes it */
    atomic_store_explicit(p, v, memory_order_relaxed);
}

static inline void mu_store_release(mu_a64 *p, uint64_t v)
{
    mu_point(p);
    /* release: a thread that acquires this value sees all before it */
    atomic_store_explicit(p, v, memory_order_release);
}

/* Strong; acquire and release on success, acquire on failure. True when *p was `expected` and is now `desired`. */
static inline bool mu_cas(mu_a64 *p, uint64_t expected, uint64_t desired)
{
    mu_point(p);
    return atomic_compare_exchange_strong_explicit(p, &expected, desired, memory_order_acq_rel, memory_order_acquire);
}

/* The same, sequentially consistent: with a later mu_load_seq_cst(), or after another's fence, one sees the other. */
static inline bool mu_cas_seq_cst(mu_a64 *p, uint64_t expected, uint64_t desired)
{
    mu_point(p);
    return atomic_compare_exchange_strong_explicit(p, &expected, desired, memory_order_seq_cst, memory_order_acquire);
}

/* The same as mu_cas(); on failure *expected gets what was there. */
static inline bool mu_cas_seen(mu_a64 *p, uint64_t *expected, uint64_t desired)
{
    mu_point(p);
    return atomic_compare_exchange_strong_explicit(p, expected, desired, memory_order_acq_rel, memory_order_acquire);
}

static inline uint32_t mu_load32_relaxed(const mu_a32 *p)
{
    mu_point(p);
    /* relaxed: as mu_load_relaxed() */
    return atomic_load_explicit(p, memory_order_relaxed);
}

static inline uint32_t mu_load32_acquire(const mu_a32 *p)
{
    mu_point(p);
    /* acquire: as mu_load_acquire() */
    return atomic_load_explicit(p, memory_order_acquire);
}

static inline void mu_store32_relaxed(mu_a32 *p, uint32_t v)
{
    mu_point(p);
    /* relaxed: as mu_store_relaxed() */
    atomic_store_explicit(p, v, memory_order_relaxed);
}

static inline void mu_store32_release(mu_a32 *p, uint32_t v)
{
    mu_point(p);
    /* release: as mu_store_release() */
    atomic_store_explicit(p, v, memory_order_release);
}

static inline bool mu_cas32(mu_a32 *p, uint32_t expected, uint32_t desired)
{
    mu_point(p);
    /* as mu_cas(): pairs with the CAS or release store of the value it finds, and the acquire of the value it writes */
    return atomic_compare_exchange_strong_explicit(p, &expected, desired, memory_order_acq_rel, memory_order_acquire);
}

static inline uint32_t mu_fetch_add32(mu_a32 *p, uint32_t v)
{
    mu_point(p);
    /* seq_cst: with a sleeper's mu_load_seq_cst() or fence after its own write, one of the two sees the other */
    return atomic_fetch_add_explicit(p, v, memory_order_seq_cst);
}

#ifdef MU_TSAN
#define mu_fence_acquire() ((void)0)
#define mu_fence_release() ((void)0)
#define mu_fence_seq_cst() ((void)0)
#else
static inline void mu_fence_acquire(void)
{
    /* acquire: with the relaxed loads before it, pairs with mu_fence_release() before the stores that they read */
    atomic_thread_fence(memory_order_acquire);
}

static inline void mu_fence_release(void)
{
    /* release: with the relaxed stores behind it, pairs with mu_fence_acquire() behind the loads that read them */
    atomic_thread_fence(memory_order_release);
}

static inline void mu_fence_seq_cst(void)
{
    /* seq_cst: pairs with another such fence, or mu_cas_seq_cst(), between the peer's write and its look at ours */
    atomic_thread_fence(memory_order_seq_cst);
}
#endif

/*
 * The optimistic reader's re-check: was what I copied still current? An acquire fence orders the relaxed copies before
 * this load; it pairs with the writer's release fence before its first store into a recycled block.
 */
static inline uint64_t mu_recheck(const mu_a64 *p)
{
#ifdef MU_TSAN
    /* acq_rel: a write of what is there stands for the fence, which the sanitizer does not know; pairs as said above */
    return atomic_fetch_add_explicit((mu_a64 *)(uintptr_t)p, 0, memory_order_acq_rel);
#else
    mu_fence_acquire();
#ifdef MU_SIM
    if (mu_sim_recheck)
        return mu_sim_recheck(p);
#endif
    return mu_load_relaxed(p);
#endif
}

/* Copy words out of, or into, shared memory. Relaxed: the caller's re-check or commit orders them. */
static inline void mu_copy_out(uint64_t *to, const mu_a64 *from, size_t words)
{
    for (size_t i = 0; i < words; i++)
        to[i] = mu_load_relaxed(&from[i]);
}

static inline void mu_copy_in(mu_a64 *to, const uint64_t *from, size_t words)
{
    for (size_t i = 0; i < words; i++)
        mu_store_relaxed(&to[i], from[i]);
}

/* Let another task have the processor. */
static inline void mu_yield(void)
{
#if defined(MU_SIM) || defined(MU_GENMC)
    mu_point(NULL);
#else
    sched_yield();
#endif
}

/* The processor that we are on, + 1: of no worth a moment later, when we may be moved. 0: not to be had. */
static inline uint64_t mu_place(void)
{
#if defined(MU_SIM) || defined(MU_GENMC)
    return 0;
#else
    int cpu = sched_getcpu();

    return cpu < 0 ? 0 : (uint64_t)cpu + 1;
#endif
}

static inline void mu_pause(void)
{
#if defined(MU_SIM) || defined(MU_GENMC)
    mu_point(NULL);
#elif defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif
