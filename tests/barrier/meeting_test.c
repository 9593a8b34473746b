/*
 * tests/barrier/meeting_test.c: what readers see of barriers and groups: every one, in every state, to the last of the
 * missing, through a read-only handle. The tasks are handles of this process; arrivals stand after a deadline of now.
 */
#include "cm.h"
#include "job.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "barrier/view.h"

enum { TASKS = 40 };

static struct test_job job;
static struct muster *tasks[TASKS], *reader;
static struct mu_barrier_view *meetings; /* as seen last */
static size_t count;

static void open_job(uint32_t num_tasks)
{
    assert_ok(test_job_create(&job, &(struct muster_segment_config){.num_tasks = num_tasks}));
    for (uint32_t i = 0; i < num_tasks; i++)
        tasks[i] = test_join(job.name, (int32_t)i, 0);
    reader = test_join(job.name, -1, MUSTER_JOIN_READ_ONLY);
}

static void close_job(uint32_t num_tasks)
{
    mu_barrier_view_free(meetings, count);
    meetings = NULL;
    count = 0;
    for (uint32_t i = 0; i < num_tasks; i++)
        assert_ok(muster_leave(tasks[i]));
    assert_ok(muster_leave(reader));
    assert_int_equal(test_job_end(&job), 0);
}

/* The meeting of this kind and name, copied; its lists stay until the next call. */
static struct mu_barrier_view look(bool is_group, const char *id)
{
    mu_barrier_view_free(meetings, count);
    assert_ok(mu_barrier_view_list(reader, &meetings, &count));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(meetings[i].participants, meetings[i].arrived + meetings[i].missing_count);
        if (meetings[i].is_group == is_group && strcmp(meetings[i].id, id) == 0)
            return meetings[i];
    }
    return (struct mu_barrier_view){.participants = 0};
}

static enum muster_status come(uint32_t task, const char *id, const int32_t *ids, size_t num_ids)
{
    return muster_barrier_wait(tasks[task], id, MUSTER_BARRIER_NEXT, ids, num_ids, 0, muster_after_ns(0));
}

TEST(all_of_the_missing_are_told)
{
    struct mu_barrier_view m;

    open_job(TASKS);
    assert_status(MUSTER_DEADLINE_EXCEEDED, come(7, "all", NULL, 0));
    assert_status(MUSTER_DEADLINE_EXCEEDED, come(0, "all", NULL, 0));
    m = look(false, "all");
    assert_int_equal(m.state, MU_VIEW_WAITING);
    assert_int_equal(m.participants, TASKS);
    assert_int_equal(m.arrived, 2);
    assert_int_equal(m.present[0], 0);
    assert_int_equal(m.present[1], 7);
    assert_int_equal(m.missing[0], 1);
    assert_int_equal(m.missing[5], 6);
    assert_int_equal(m.missing[6], 8);
    assert_int_equal(m.missing[TASKS - 3], TASKS - 1);
    assert_true(m.since_ns > 0 && m.since_ns <= muster_now_ns());
    close_job(TASKS);
}

TEST(a_barrier_of_some_passes_and_fails)
{
    static const int32_t some[] = {1, 3};
    struct mu_barrier_view m;

    open_job(4);
    assert_status(MUSTER_DEADLINE_EXCEEDED, come(3, "some", some, 2));
    m = look(false, "some");
    assert_int_equal(m.participants, 2);
    assert_int_equal(m.missing[0], 1);
    assert_int_equal(m.present[0], 3);
    assert_ok(come(1, "some", some, 2));
    m = look(false, "some");
    assert_int_equal(m.state, MU_VIEW_PASSED);
    assert_int_equal(m.code, MUSTER_OK);
    assert_ok(muster_barrier_cancel(tasks[0], "never", 0));
    m = look(false, "never");
    assert_int_equal(m.state, MU_VIEW_FAILED);
    assert_int_equal(m.code, MUSTER_CANCELLED);
    close_job(4);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static const int32_t pair[] = {0, 1};

struct first {
    struct muster_group *group;
    enum muster_status created, passed, failed;
};

/* Task 0: builds the group, meets twice. */
static void *be_first(void *arg)
{
    struct first *f = arg;

    f->created = muster_group_create(tasks[0], "g", pair, 2, 0, MUSTER_FOREVER, &f->group);
    if (f->created == MUSTER_OK)
        f->passed = muster_group_barrier(f->group, MUSTER_FOREVER);
    if (f->created == MUSTER_OK && f->passed == MUSTER_OK)
        f->failed = muster_group_barrier(f->group, MUSTER_FOREVER);
    return NULL;
}

/* Until task 0 is alone at this instance. */
static void until_alone(enum mu_barrier_view_state state, uint64_t instance)
{
    muster_deadline end = muster_after_ns(30000000000u);
    struct mu_barrier_view m = look(true, "g");

    while ((!m.participants || m.state != state || m.instance != instance) && muster_now_ns() < end) {
        sched_yield();
        m = look(true, "g");
    }
    assert_int_equal(m.participants, 2);
    assert_int_equal(m.state, state);
    assert_int_equal(m.instance, instance);
    assert_int_equal(m.arrived, 1);
    assert_int_equal(m.present[0], 0);
    assert_int_equal(m.missing[0], 1);
}

TEST(a_group_is_built_waits_passes_and_fails)
{
    struct muster_group *group;
    struct first first = {.group = NULL};
    struct mu_barrier_view m;
    pthread_t thread;

    open_job(3);
    assert_int_equal(pthread_create(&thread, NULL, be_first, &first), 0);
    until_alone(MU_VIEW_BUILDING, 0);
    assert_ok(muster_group_create(tasks[1], "g", pair, 2, 0, MUSTER_FOREVER, &group));
    until_alone(MU_VIEW_WAITING, 1);
    assert_ok(muster_group_barrier(group, MUSTER_FOREVER));
    until_alone(MU_VIEW_WAITING, 2);
    muster_group_free(group);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(first.created, MUSTER_OK);
    assert_int_equal(first.passed, MUSTER_OK);
    assert_int_equal(first.failed, MUSTER_UNAVAILABLE);
    m = look(true, "g");
    assert_int_equal(m.state, MU_VIEW_FAILED);
    muster_group_free(first.group);
    assert_int_equal(look(true, "g").participants, 0);
    close_job(3);
}
