/* base/activity.h: what a process does now, and has done so far, from /proc. */
#ifndef MU_BASE_ACTIVITY_H
#define MU_BASE_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

struct mu_activity {
    char letter;       /* of its first thread, as in its stat file: 'R', 'S', 'T', ... */
    uint64_t start;    /* of the process, in ticks since boot */
    uint64_t cpu_ns;   /* user and system, so far */
    uint64_t last_ran; /* when its first thread last ran (CLOCK_MONOTONIC); 0: it runs, or that is hidden */
    uint64_t run;      /* the scheduler's stamp of that: while it is the same, the thread has not run; 0: as above */
    int processor;     /* the one that it last ran on */
};

/*
 * The scheduler's clock, at which threads last ran, drifts against CLOCK_MONOTONIC, so only differences count: the
 * process's first thread, which takes this, last ran a moment ago. Each processor has its own clock, from which the
 * kernel takes what a hypervisor (or interrupts) took of it: they are seconds apart after days. So of a thread that
 * last ran on another processor the time may be wrong by that, unless `asks_processors`: then a thread of ours looks at
 * that clock there, for 50 ms at most, once in 10 s; where it may not go there, or gets no turn, when the other last
 * ran is not known. For one thread of a process at a time.
 */
struct mu_activity_clock {
    uint64_t scheduler, now;
    int processor;
    bool asks_processors;
};
void mu_activity_clock(struct mu_activity_clock *ret_clock);

/*
 * A pid may have been given to another process since, or mean another one in our pid namespace: believed only where the
 * process has this start time. False, and nothing is written: it cannot be read, or is another. `clock`: NULL: when it
 * last ran is not asked.
 */
bool mu_activity_look(uint32_t pid, uint64_t start, const struct mu_activity_clock *clock, struct mu_activity *ret);

#endif
