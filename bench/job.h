/*
 * bench/job.h: a muster job of the benchmark's own, for the programs that measure muster.
 *
 * The job's name carries the pid of the program that named it, so that programs never meet and bench/run can remove
 * what a killed one left. Processes join after the fork; whoever is first creates the segment with the configuration
 * given. The naming process removes it at its exit.
 */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "measure.h"

#include <muster/muster.h>

struct bench_job {
    char name[64];
    struct muster_segment_config config;
};

static struct {
    char name[64];
    pid_t owner;
} bench_job_named;

/* Remove the job named last, if the last to leave has not done so already. */
static inline void bench_job_remove(void)
{
    if (bench_job_named.owner == getpid())
        muster_segment_remove(bench_job_named.name);
}

/* Name a job; `tag` tells the jobs of one program apart. */
static inline void bench_job_init(struct bench_job *job, const char *tag, uint32_t num_tasks)
{
    memset(job, 0, sizeof(*job));
    snprintf(job->name, sizeof(job->name), "bench-%d-%s", (int)getpid(), tag);
    job->config.num_tasks = num_tasks;
    if (!bench_job_named.owner)
        atexit(bench_job_remove);
    memcpy(bench_job_named.name, job->name, sizeof(job->name));
    bench_job_named.owner = getpid();
}

static inline void bench_ok(enum muster_status status, const char *what)
{
    if (status != MUSTER_OK)
        bench_die("%s: %s: %s", what, muster_status_name(status), muster_last_error());
}

static inline struct muster *bench_job_join(const struct bench_job *job, int32_t task_id, uint32_t flags)
{
    struct muster_options options;
    struct muster *muster;

    muster_options_init(&options);
    options.job = job->name;
    options.task_id = task_id;
    options.num_tasks = job->config.num_tasks;
    options.flags = flags;
    options.config = &job->config;
    bench_ok(muster_join(&options, &muster), "muster_join");
    return muster;
}

#endif
