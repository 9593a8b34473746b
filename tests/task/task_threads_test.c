/*
 * tests/task/task_threads_test.c: the task room by threads of one process, for ThreadSanitizer, which cannot see across
 * processes: each thread is a task with a handle of its own. They join, beat, report, reset, ask who is alive, leave
 * and join again, while others watch, list and scavenge.
 */
#include "share.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { TASKS = 4, ROUNDS = 25 };

static pthread_barrier_t all_joined, all_done;

static struct muster *join(int32_t task)
{
    struct muster_options o;
    struct muster *m = NULL;

    muster_options_init(&o);
    o.job = stage_job;
    o.task_id = task;
    o.flags = task & 1 ? MUSTER_JOIN_RECOVERABLE : 0;
    if (muster_join(&o, &m) != MUSTER_OK) {
        fprintf(stderr, "task %d: %s\n", (int)task, muster_last_error());
        return NULL;
    }
    return m;
}

static int one_round(struct muster *m, int32_t task, int round)
{
    int32_t set[TASKS] = {0, 1, 2, 3}, alive[TASKS];
    uint64_t incarnations[TASKS];
    struct muster_task_info infos[TASKS];
    size_t count = 0;
    enum muster_status s;

    muster_heartbeat(m);
    s = muster_task_alive(m, set, TASKS, MUSTER_FOREVER, alive, incarnations, &count);
    if (s || count != TASKS)
        return 1;
    pthread_barrier_wait(&all_done);
    if (task == 1 && muster_error_report(m, 1, MUSTER_INTERNAL, round & 1 ? "odd" : "even") != MUSTER_OK)
        return 2;
    if (muster_task_list(m, infos, TASKS, &count, NULL) != MUSTER_OK || count != TASKS)
        return 3;
    for (int i = 0; i < TASKS; i++)
        if (infos[i].task_id != i || (infos[i].message[0] && infos[i].state != MUSTER_TASK_ERROR))
            return 4;
    if (muster_scavenge(m, &count) != MUSTER_OK || count)
        return 5;
    return 0;
}

/* Every third round through muster_join(), the others on one mapping, where TSan sees everything. */
static void *be_a_task(void *arg)
{
    int32_t task = (int32_t)(intptr_t)arg;

    for (int round = 0; round < ROUNDS; round++) {
        struct muster *m = round % 3 ? share_join(task, task & 1 ? MUSTER_JOIN_RECOVERABLE : 0) : join(task);
        int rc = m ? 0 : 10;

        pthread_barrier_wait(&all_joined);
        if (!rc)
            rc = one_round(m, task, round);
        pthread_barrier_wait(&all_joined);
        if (m && muster_leave(m) != MUSTER_OK)
            rc = 11;
        pthread_barrier_wait(&all_done);
        if (rc)
            return (void *)(intptr_t)rc;
    }
    return NULL;
}

static void *watch(void *arg)
{
    struct muster_task_info infos[TASKS];
    uint64_t version = 0;
    enum muster_status s;

    (void)arg;
    do {
        uint64_t before = version;

        s = muster_task_watch(stage_observer, version, MUSTER_FOREVER, infos, TASKS, NULL, &version);
        if (!s && before && version <= before)
            return "went back";
    } while (!s);
    return s == MUSTER_CANCELLED ? NULL : "failed";
}

STAGE_TEST(threads_as_tasks_join_err_agree_and_leave)
{
    pthread_t tasks[TASKS], watcher;
    void *result;

    stage_open(TASKS, NULL);
    pthread_barrier_init(&all_joined, NULL, TASKS);
    pthread_barrier_init(&all_done, NULL, TASKS);
    pthread_create(&watcher, NULL, watch, NULL);
    for (intptr_t i = 0; i < TASKS; i++)
        pthread_create(&tasks[i], NULL, be_a_task, (void *)i);
    for (int i = 0; i < TASKS; i++) {
        pthread_join(tasks[i], &result);
        assert_int_equal((intptr_t)result, 0);
    }
    muster_interrupt(stage_observer);
    pthread_join(watcher, &result);
    assert_null(result);
    muster_resume(stage_observer);
    assert_int_equal(stage_task(0).attempt, ROUNDS);
    stage_close();
}
