/* tests/crash/step.h: running a function in a fork, one instruction at a time. */
#ifndef CRASH_STEP_H
#define CRASH_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { STEP_OPEN_MAX = 64 };

struct stepper {
    pid_t pid;
    uint64_t steps;   /* instructions that it was stopped after */
    uint64_t touches; /* times that it came to another page: step_touch() */
    bool ended;
    uint8_t *where; /* guarded memory, NULL: none */
    size_t size;
    uint32_t open[STEP_OPEN_MAX]; /* its pages that can be written now */
    unsigned num_open, quiet;     /* steps since the last one that wrote */
};

/* A fork stands before its first instruction of fn. False: not allowed here (the reason is printed). */
bool step_start(struct stepper *s, void (*fn)(void *arg), void *arg);
/* One instruction; false when it has ended (a complaint when it did not exit with 0). */
bool step_one(struct stepper *s);
/*
 * Without a stop where it does not write to [where, where + size), which is kept read-only: step_on() goes on to just
 * after the next instruction that may have written there. Only pages in `open` can differ from what they were; the
 * caller says with step_wrote() when they do: while writes follow one another closely it goes instruction by
 * instruction. The process must not map that memory elsewhere. Only where not step_clone_refused().
 */
bool step_guard(struct stepper *s, void *where, size_t size);
bool step_on(struct stepper *s);
void step_wrote(struct stepper *s);
/*
 * Likewise without a stop while it stays in a few pages of the guarded memory, or out of it: on to just before an
 * access to another one, or, with `one`, an instruction if that comes first. Begin with step_veil(), which lets it
 * neither read nor write there. (The kernel cannot either: a futex call fails meanwhile.)
 */
bool step_veil(struct stepper *s, void *where, size_t size);
bool step_touch(struct stepper *s, bool one);
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
