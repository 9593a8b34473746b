/*
 * ray/sched.c: the scheduler as a whole: its making and its end.
 */
#include "ray/private.h"

#include <stdlib.h>

struct mu_ray_sched *mu_ray_open(const struct mu_ray_options *options)
{
    struct mu_ray_sched *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->o = *options;
    s->doomed = MU_RAY_NIL;
    s->operations = calloc(MU_RAY_HISTORY, sizeof *s->operations);
    s->failures = calloc(MU_RAY_FAILURES, sizeof *s->failures);
    if (s->operations && s->failures)
        return s;
    mu_ray_close(s);
    return NULL;
}

void mu_ray_close(struct mu_ray_sched *s)
{
    if (!s)
        return;
    mu_ray_tasks_close(s);
    mu_ray_functions_clear(s);
    mu_ray_objects_close(s);
    mu_ray_workers_close(s);
    free(s->operations);
    free(s->failures);
    free(s);
}
