/*
 * tests/common/job.c: a job of the test's own. Names hold the process id and its start, so that tests may run side by
 * side; every job is audited before it goes.
 */
#include "job.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool test_exists(const char *job)
{
    struct muster_segment *seg;

    if (muster_segment_open(job, &seg) != MUSTER_OK)
        return false;
    muster_segment_close(seg);
    return true;
}

void test_name(char name[128], const char *part)
{
    static unsigned count;

    snprintf(name, 128, "test-%d-%u-%s", (int)getpid(), count++, part);
}

enum muster_status test_job_create(struct test_job *job, const struct muster_segment_config *config)
{
    struct muster_segment_config c = {0};

    if (config)
        c = *config;
    if (!c.num_tasks)
        c.num_tasks = 8;
    if (!c.num_slots)
        c.num_slots = 32;
    if (!c.num_buckets)
        c.num_buckets = 256;
    if (!c.num_events)
        c.num_events = 16;
    if (!c.heap_bytes)
        c.heap_bytes = 32u << 20;
    if (!c.heartbeat_timeout_ns)
        c.heartbeat_timeout_ns = 600000000000u;
    test_name(job->name, "job");
    return muster_segment_create(job->name, &c, &job->segment);
}

static void say(void *arg, const char *sentence)
{
    printf("audit of %s: %s\n", (const char *)arg, sentence);
}

static unsigned long audit(struct muster_segment *segment, const char *name)
{
    struct muster_audit sum;

    if (muster_segment_check(segment, say, (void *)(uintptr_t)name, &sum)) {
        printf("audit of %s: %s\n", name, muster_last_error());
        return 1;
    }
    return sum.problems;
}

unsigned long test_audit(const char *job)
{
    struct muster_segment *segment;
    unsigned long problems;

    if (muster_segment_open(job, &segment)) {
        printf("audit of %s: %s\n", job, muster_last_error());
        return 1;
    }
    problems = audit(segment, job);
    muster_segment_close(segment);
    return problems;
}

unsigned long test_job_end(struct test_job *job)
{
    unsigned long problems = audit(job->segment, job->name);
    struct muster_segment_info info;

    muster_segment_info(job->segment, &info);
    if (info.path[0] && muster_segment_remove(job->name)) {
        printf("%s cannot be removed: %s\n", job->name, muster_last_error());
        problems++;
    }
    muster_segment_close(job->segment);
    return problems;
}

struct muster *test_join(const char *job, int32_t task_id, uint32_t flags)
{
    struct muster_options options;
    struct muster *m;

    muster_options_init(&options);
    options.job = job;
    options.task_id = task_id;
    options.flags = flags & ~TEST_WITH_HEARTBEAT;
    if (!(flags & TEST_WITH_HEARTBEAT))
        options.flags |= MUSTER_JOIN_NO_HEARTBEAT;
    if (task_id < 0)
        options.flags |= MUSTER_JOIN_OBSERVER;
    if (muster_join(&options, &m) == MUSTER_OK)
        return m;
    printf("cannot join %s: %s\n", job, muster_last_error());
    return NULL;
}
