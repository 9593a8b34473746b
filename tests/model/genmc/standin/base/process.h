/* Stands in for src/base/process.h: the scheduler's and the model's threads have no /proc. */
#ifndef MU_BASE_PROCESS_H
#define MU_BASE_PROCESS_H

static inline unsigned mu_processors(void)
{
    return 1;
}

#endif
