/*
 * rpc/tsl_jobs.c: which task of the segment "/job:worker/replica:0/task:1" is.
 *
 * TensorFlow numbers the tasks of each job from 0, and knows its jobs and their sizes; muster must be told of them. JAX
 * has one job: "jax_worker", or in some versions "". Unless told, there is one job here, too, with whatever name the
 * first client to have one uses; "" and "jax_worker" are always it. A second name then means that somebody should have
 * told: refused, instead of taking worker 0 and ps 0 for the same task.
 */
#include "rpc/tsl_jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

enum {
    NAME_MAX_LEN = 128,
    SHOWN = 64 /* bytes of a stranger's name in a sentence */
};
static const char any_name[] = "jax_worker";

static char *name_copy(const void *name, size_t len)
{
    char *own = malloc(len + 1);

    if (own) {
        memcpy(own, name, len);
        own[len] = 0;
    }
    return own;
}

static enum muster_status job_add(struct mu_jobs *jobs, const char *name, size_t len, int32_t count)
{
    struct mu_job *list = reallocarray(jobs->list, jobs->count + 1, sizeof *list);
    struct mu_job *job;

    if (!list)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu jobs", jobs->count + 1);
    jobs->list = list;
    job = &list[jobs->count];
    job->name = name_copy(name, len);
    if (!job->name)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a job's name");
    job->first = jobs->count ? job[-1].first + job[-1].count : 0;
    job->count = count;
    jobs->count++;
    return MUSTER_OK;
}

/* "worker:2" */
static enum muster_status add_word(struct mu_jobs *jobs, const char *word, size_t len)
{
    const char *colon = memchr(word, ':', len);
    char *end;
    long count;

    if (!colon || colon == word || colon - word > NAME_MAX_LEN || colon + 1 == word + len || colon[1] < '0' ||
        colon[1] > '9')
        return mu_fail(MUSTER_INVALID_ARGUMENT, "'%.*s' is no job: write NAME:TASKS,NAME:TASKS", (int)len, word);
    count = strtol(colon + 1, &end, 10);
    if (end != word + len || count < 1 || count > jobs->num_tasks)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "job '%.*s': give it 1 to %d tasks", (int)len, word, jobs->num_tasks);
    for (size_t i = 0; i < jobs->count; i++)
        if (strlen(jobs->list[i].name) == (size_t)(colon - word) &&
            memcmp(jobs->list[i].name, word, (size_t)(colon - word)) == 0)
            return mu_fail(MUSTER_INVALID_ARGUMENT, "job %s is named twice", jobs->list[i].name);
    return job_add(jobs, word, (size_t)(colon - word), (int32_t)count);
}

enum muster_status mu_jobs_init(struct mu_jobs *jobs, const char *words, int32_t num_tasks)
{
    enum muster_status status = MUSTER_OK;
    int64_t total = 0;

    *jobs = (struct mu_jobs){.is_any = !words, .num_tasks = num_tasks};
    if (!words)
        return job_add(jobs, any_name, strlen(any_name), num_tasks);
    for (const char *at = words; !status;) {
        size_t len = strcspn(at, ",");

        status = add_word(jobs, at, len);
        if (!at[len])
            break;
        at += len + 1;
    }
    for (size_t i = 0; i < jobs->count; i++)
        total += jobs->list[i].count;
    if (!status && total != num_tasks)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "the jobs %s have %lld tasks, and this job has %d", words,
                         (long long)total, num_tasks);
    if (status)
        mu_jobs_done(jobs);
    return status;
}

void mu_jobs_done(struct mu_jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++)
        free(jobs->list[i].name);
    free(jobs->list);
    *jobs = (struct mu_jobs){0};
}

static bool is_called(const struct mu_job *job, const void *name, size_t len)
{
    return strlen(job->name) == len && memcmp(job->name, name, len) == 0;
}

/* What clients of one job without a name, or with JAX's, mean. */
static bool is_nameless(const void *name, size_t len)
{
    return len == 0 || (len == strlen(any_name) && memcmp(name, any_name, len) == 0);
}

const struct mu_job *mu_jobs_named(struct mu_jobs *jobs, const void *name, size_t len)
{
    int shown = (int)mu_utf8_cut(name, len, SHOWN);

    for (size_t i = 0; i < jobs->count; i++)
        if (is_called(&jobs->list[i], name, len))
            return &jobs->list[i];
    if (jobs->count == 1 && is_nameless(name, len))
        return &jobs->list[0];
    if (jobs->is_any && is_nameless(jobs->list[0].name, strlen(jobs->list[0].name)) && len <= NAME_MAX_LEN &&
        !memchr(name, 0, len)) {
        char *own = name_copy(name, len);

        if (!own) {
            mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a job's name");
            return NULL;
        }
        free(jobs->list[0].name);
        jobs->list[0].name = own;
        return &jobs->list[0];
    }
    if (jobs->is_any)
        mu_fail(MUSTER_INVALID_ARGUMENT,
                "job '%.*s' is not in the cluster: its job is called '%s'; of several jobs this service must be told "
                "(--jobs NAME:TASKS,NAME:TASKS)",
                shown, (const char *)name, jobs->list[0].name);
    else
        mu_fail(MUSTER_INVALID_ARGUMENT, "job '%.*s' is not in the cluster: the first of its %zu jobs is '%s'", shown,
                (const char *)name, jobs->count, jobs->list[0].name);
    return NULL;
}

enum muster_status mu_jobs_find(struct mu_jobs *jobs, const void *name, size_t name_len, int32_t index,
                                int32_t *ret_task)
{
    const struct mu_job *job = mu_jobs_named(jobs, name, name_len);

    if (!job)
        return MUSTER_INVALID_ARGUMENT;
    if (!jobs->is_any && (index < 0 || index >= job->count))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "Unexpected task (/job:%s/replica:0/task:%d) that is not in the cluster: "
                       "the job has %d tasks",
                       job->name, index, job->count);
    *ret_task = job->first + index;
    return MUSTER_OK;
}

const struct mu_job *mu_jobs_of(const struct mu_jobs *jobs, int32_t task)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (task >= jobs->list[i].first && task - jobs->list[i].first < jobs->list[i].count)
            return &jobs->list[i];
    return NULL;
}
