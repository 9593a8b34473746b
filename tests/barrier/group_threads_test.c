/*
 * tests/barrier/group_threads_test.c: groups by threads of one process, for ThreadSanitizer: each thread is a task with
 * a handle of its own. The barrier must order plain memory: each thread writes its own cell before an instance and
 * reads all cells after it, without any other synchronisation.
 */
#include "share.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { TASKS = 4, ROUNDS = 300 };

/* Two rows in turn, like the group's own buffers: who writes the row of n + 2 has passed n + 1, at which all arrived
 * only after they had read the row of n. */
static uint64_t cells[2][TASKS];

static int run(struct muster *m, struct muster_group *g)
{
    int32_t id = muster_task_id(m);

    for (uint64_t n = 1; n <= ROUNDS; n++) {
        int64_t sum = id;
        uint64_t all[TASKS], root = n;

        cells[n & 1][id] = n * 10 + (uint64_t)id;
        if (muster_group_barrier(g, MUSTER_FOREVER))
            return 1;
        for (int i = 0; i < TASKS; i++)
            if (cells[n & 1][i] != n * 10 + (uint64_t)i)
                return 2;
        if (muster_group_allreduce(g, &sum, 1, MUSTER_TYPE_INT64, MUSTER_OP_SUM, MUSTER_FOREVER) ||
            sum != TASKS * (TASKS - 1) / 2)
            return 3;
        if (muster_group_allgather(g, &cells[n & 1][id], 8, all, MUSTER_FOREVER) ||
            memcmp(all, cells[n & 1], sizeof all) != 0)
            return 4;
        if (muster_group_broadcast(g, (uint32_t)(n % TASKS), &root, 8, MUSTER_FOREVER) || root != n)
            return 5;
    }
    return 0;
}

static void *be_a_member(void *arg)
{
    struct muster *m = share_join((int32_t)(intptr_t)arg, 0);
    int rc = m ? 0 : 10;

    for (int again = 0; again < 3 && !rc; again++) {
        struct muster_group *g;

        if (muster_group_create(m, "g", NULL, 0, 64, MUSTER_FOREVER, &g) != MUSTER_OK) {
            fprintf(stderr, "%s\n", muster_last_error());
            rc = 11;
            break;
        }
        rc = run(m, g);
        /* named barriers in between: none may take the other's wake-up */
        if (!rc && muster_barrier_wait(m, "b", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) != MUSTER_OK)
            rc = 12;
        muster_group_free(g);
    }
    if (!rc && muster_barrier_wait(m, "end", 0, NULL, 0, 0, MUSTER_FOREVER) != MUSTER_OK)
        rc = 13;
    if (m && muster_leave(m) != MUSTER_OK)
        rc = 14;
    return (void *)(intptr_t)rc;
}

STAGE_TEST(threads_as_members_meet_exchange_and_build_again)
{
    pthread_t members[TASKS];
    int bad = 0;

    stage_open(TASKS, NULL);
    for (intptr_t i = 0; i < TASKS; i++)
        pthread_create(&members[i], NULL, be_a_member, (void *)i);
    for (int i = 0; i < TASKS; i++) {
        void *result;

        pthread_join(members[i], &result);
        if (result) {
            print_message("member %d: %d\n", i, (int)(intptr_t)result);
            bad++;
        }
    }
    assert_int_equal(bad, 0);
    stage_close();
}

/* One gives up at about the time when the last arrives: all get the same result, and TSan looks on. */
static struct muster_group *groups[TASKS];
static int results[TASKS];

static void *give_up_or_not(void *arg)
{
    intptr_t i = (intptr_t)arg;

    results[i] = (int)muster_group_barrier(groups[i], i ? MUSTER_FOREVER : muster_after_ns(50000));
    return NULL;
}

static struct muster *handles[TASKS];

static void *create(void *arg)
{
    intptr_t i = (intptr_t)arg;

    results[i] = (int)muster_group_create(handles[i], "g", NULL, 0, 0, MUSTER_FOREVER, &groups[i]);
    return NULL;
}

static void run_threads(void *(*fn)(void *arg))
{
    pthread_t threads[TASKS];

    for (intptr_t i = 0; i < TASKS; i++)
        pthread_create(&threads[i], NULL, fn, (void *)i);
    for (int i = 0; i < TASKS; i++)
        pthread_join(threads[i], NULL);
}

STAGE_TEST(threads_that_give_up_and_arrive_at_once_agree)
{
    int passed = 0, failed = 0;

    stage_open(TASKS, NULL);
    for (int i = 0; i < TASKS; i++) {
        handles[i] = share_join(i, 0);
        assert_non_null(handles[i]);
    }
    for (int round = 0; round < 40; round++) {
        run_threads(create);
        for (int i = 0; i < TASKS; i++)
            assert_int_equal(results[i], MUSTER_OK);
        run_threads(give_up_or_not);
        for (int i = 1; i < TASKS; i++)
            assert_int_equal(results[i], results[0]);
        passed += results[0] == MUSTER_OK;
        failed += results[0] == MUSTER_DEADLINE_EXCEEDED;
        for (int i = 0; i < TASKS; i++)
            muster_group_free(groups[i]);
    }
    print_message("%d passed, %d failed\n", passed, failed);
    assert_int_equal(passed + failed, 40);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(muster_leave(handles[i]), MUSTER_OK);
    stage_close();
}
