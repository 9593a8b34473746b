/*
 * bench/gate.h: a word on which processes sleep until it has a value: what holds them back between two measurements
 * must cost no processor time.
 */
#ifndef BENCH_GATE_H
#define BENCH_GATE_H

#include "measure.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static inline void bench_gate_wait(_Atomic uint32_t *word, uint32_t wanted)
{
    /* seq_cst: pairs with the store in bench_gate_open(); the kernel looks again under its lock */
    for (uint32_t now; (now = atomic_load(word)) != wanted;)
        syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0);
}

static inline void bench_gate_open(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value); /* seq_cst: pairs with the load in bench_gate_wait() */
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

#endif
