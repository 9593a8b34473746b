/* rpc/tsl_jobs.h: the tasks' names of tensorflow.CoordinationService, job and index, and the segment's numbers. */
#ifndef MU_RPC_TSL_JOBS_H
#define MU_RPC_TSL_JOBS_H

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mu_job {
    char *name;
    int32_t first, count; /* the segment's tasks */
};
struct mu_jobs {
    struct mu_job *list;
    size_t count;
    bool is_any;       /* nobody has said their names: there is one, and what clients call it is its name */
    int32_t num_tasks; /* of all */
};

/* words: "worker:2,ps:1", or NULL: one job of any name. INVALID_ARGUMENT: they are no such words, or another number. */
enum muster_status mu_jobs_init(struct mu_jobs *jobs, const char *words, int32_t num_tasks);
void mu_jobs_done(struct mu_jobs *jobs);

/*
 * The number of a task that a client names. What is no task of a job of any name keeps its index as number: the engine
 * refuses it. INVALID_ARGUMENT, with a sentence: no such job, or not so many tasks in it.
 */
enum muster_status mu_jobs_find(struct mu_jobs *jobs, const void *name, size_t name_len, int32_t index,
                                int32_t *ret_task);
/* The job that a client names; NULL, with a sentence: there is none. */
const struct mu_job *mu_jobs_named(struct mu_jobs *jobs, const void *name, size_t name_len);
/* The job of a task; NULL: it is none of theirs. */
const struct mu_job *mu_jobs_of(const struct mu_jobs *jobs, int32_t task);

#endif
