/* tests/crash/step.h: running a function in a fork, one instruction at a time. */
#ifndef CRASH_STEP_H
#define CRASH_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stepper {
    pid_t pid;
    uint64_t steps;
    bool ended;
};

/* A fork stands before its first instruction of fn. False: not allowed here (the reason is printed). */
bool step_start(struct stepper *s, void (*fn)(void *arg), void *arg);
/* One instruction; false when it has ended (a complaint when it did not exit with 0). */
bool step_one(struct stepper *s);
/*
 * Faster, for long stretches without a write: on to just after the next instruction that writes to the memory at
 * [where, where + size), which faults, for it is kept read-only; *at gets the address. Begin with step_guard(). Where
 * step_clone_refused(), one instruction.
 */
bool step_guard(struct stepper *s, void *where, size_t size);
bool step_write(struct stepper *s, void *where, size_t size, void **at);
/* SIGKILL, reaped. */
void step_kill(struct stepper *s);

/*
 * A copy of the stopped process, in the same place, that sees `fd` mapped (shared) at [where, where + size). Only on
 * x86-64. 0: failed (complained).
 */
pid_t step_clone(struct stepper *s, void *where, size_t size, int fd);
/* Let a copy run to its end; a complaint when it does not exit with 0 within a minute. */
void step_finish(pid_t copy);
/* NULL: step_clone() works here; else why not. */
const char *step_clone_refused(void);

#endif
