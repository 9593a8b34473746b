/* schedule/count.h: how many objects and calls a job has, for metrics. */
#ifndef MU_SCHEDULE_COUNT_H
#define MU_SCHEDULE_COUNT_H

#include <stdbool.h>

#include <muster/schedule.h>

/* A look at so many takes about 20 ms; a job that has had more at once is not counted. */
#define MU_SCHEDULE_COUNT_MOST 262144u

struct mu_schedule_counts {
    uint64_t objects, bytes; /* those that hold bytes; with metadata */
    uint64_t calls[MUSTER_CALL_FAILED + 1];
};
/* False: there are too many, or there is no memory. */
bool mu_schedule_count(struct muster *muster, struct mu_schedule_counts *ret_counts);

#endif
