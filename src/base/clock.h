/* base/clock.h: the one clock, CLOCK_MONOTONIC in nanoseconds. */
#ifndef MU_BASE_CLOCK_H
#define MU_BASE_CLOCK_H

#include <stdint.h>

uint64_t mu_now(void);
/* CLOCK_REALTIME: for people only, never compared. */
uint64_t mu_unix_now(void);

#endif
