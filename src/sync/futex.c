/*
 * sync/futex.c: sleeping on words of the segment.
 *
 * A sleeper waits on two words at once with futex_waitv: its object's word and the segment's epoch. So one wake on the
 * epoch ends every wait of the job, and a death that is noticed between a sleeper's checks and its sleep changes the
 * epoch and makes the kernel refuse to sleep: there is no window. Kernels before 5.16 lack futex_waitv: there the sleep
 * is on the object's word alone and never longer than FALLBACK_NS.
 */
#include "sync/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#ifdef MU_SIM
void mu_sim_futex_wait(const mu_a64 *word, uint32_t value, const mu_a32 *epoch, uint32_t seen, uint64_t deadline);
void mu_sim_futex_wait_any(mu_a32 *const *words, const uint32_t *values, size_t count);
void mu_sim_futex_wake(const void *word);

void mu_futex_wait(const mu_a64 *word, uint32_t value, const mu_a32 *epoch, uint32_t seen, muster_deadline deadline)
{
    mu_sim_futex_wait(word, value, epoch, seen, deadline);
}

void mu_futex_wake(mu_a64 *word)
{
    mu_point(word);
    mu_sim_futex_wake(word);
}

void mu_futex_wake32(mu_a32 *word)
{
    mu_point(word);
    mu_sim_futex_wake(word);
}

void mu_futex_wait_any(mu_a32 *const *words, const uint32_t *values, size_t count, muster_deadline deadline)
{
    (void)deadline; /* a watcher for deaths sleeps until there is one */
    mu_sim_futex_wait_any(words, values, count);
}
#else

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define FALLBACK_NS 1000000u
enum { WAITV_MAX = 128, WAITV_32 = 2 /* FUTEX_32 */ };

/* The kernel's struct futex_waitv, which older headers lack. */
struct futex_waiter {
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

static bool words_waitv(struct futex_waiter *waiters, unsigned count, muster_deadline deadline)
{
    struct timespec t = to_timespec(deadline);
    long rc = syscall(SYS_futex_waitv, waiters, count, 0u, deadline == MUSTER_FOREVER ? NULL : &t, CLOCK_MONOTONIC);

    return rc >= 0 || (errno != ENOSYS && errno != EPERM);
}

static void wait_one(const void *word, uint32_t value, muster_deadline deadline)
{
    uint64_t now = mu_now();
    struct timespec t = to_timespec(deadline < now + FALLBACK_NS ? deadline : now + FALLBACK_NS);

    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, &t, NULL, FUTEX_BITSET_MATCH_ANY);
}

void mu_futex_wait(const mu_a64 *word, uint32_t value, const mu_a32 *epoch, uint32_t seen, muster_deadline deadline)
{
    struct futex_waiter waiters[2] = {
        {.value = value, .address = (uintptr_t)word, .flags = WAITV_32},
        {.value = seen, .address = (uintptr_t)epoch, .flags = WAITV_32},
    };

    if (!words_waitv(waiters, 2, deadline))
        wait_one(word, value, deadline);
}

void mu_futex_wake(mu_a64 *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void mu_futex_wake32(mu_a32 *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void mu_futex_wait_any(mu_a32 *const *words, const uint32_t *values, size_t count, muster_deadline deadline)
{
    struct futex_waiter waiters[WAITV_MAX];

    if (count > WAITV_MAX)
        count = WAITV_MAX;
    for (size_t i = 0; i < count; i++)
        waiters[i] = (struct futex_waiter){.value = values[i], .address = (uintptr_t)words[i], .flags = WAITV_32};
    if (count && !words_waitv(waiters, (unsigned)count, deadline))
        wait_one(words[0], values[0], deadline);
}
#endif
