/*
 * base/clock.c: the one clock. Under the seeded scheduler time is the scheduler's, so that runs replay.
 */
#include "base/clock.h"

#include <time.h>

#ifdef MU_SIM
uint64_t mu_sim_now(void);

uint64_t mu_now(void)
{
    return mu_sim_now();
}
#else
uint64_t mu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
#endif

uint64_t mu_unix_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
