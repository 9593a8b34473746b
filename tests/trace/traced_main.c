/*
 * tests/trace/traced_main.c: a traced job of three tasks in which it is known who waits for whom.
 *
 * usage: traced JOB EVENTS ROUNDS     plays all acts and leaves the segment behind, every process dead or gone
 *        traced JOB EVENTS ROUNDS stop   stops in the last act: task 2 is not at barrier "never", where the others are;
 * until a line comes on stdin
 *
 * Whoever comes last looks until the others wait; so the order is known, and no clock decides it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <muster/muster.h>

#include "child.h"

enum { TASKS = 3 };

static const char *job;
static struct muster *m;
static int self, rounds;

static void until_waiting(int task, const char *what)
{
    struct muster_task_info info;
    struct timespec pause = {.tv_nsec = 200000};

    for (int looks = 0; looks < 100000; looks++) {
        CHECK(muster_task_get(m, task, &info) == MUSTER_OK);
        if (!strncmp(info.waiting, what, strlen(what)))
            return;
        nanosleep(&pause, NULL); /* sleep: between two looks at the condition */
    }
    CHECK(!"it never waited");
}

static void come_last(int last, const char *what)
{
    for (int i = 0; i < TASKS; i++)
        if (self == last && i != last)
            until_waiting(i, what);
}

static void acts(void)
{
    struct muster_group *g;
    char what[64], value[8];

    for (int i = 0; i < rounds; i++) {
        snprintf(what, sizeof what, "barrier epoch::%d", i);
        come_last(i % TASKS, what);
        CHECK(muster_barrier_wait(m, "epoch", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) == MUSTER_OK);
    }
    CHECK(muster_group_create(m, "ring", NULL, 0, 0, MUSTER_FOREVER, &g) == MUSTER_OK);
    for (int i = 0; i < rounds; i++) {
        come_last(1, "group ring");
        CHECK(muster_group_barrier(g, MUSTER_FOREVER) == MUSTER_OK);
        /* so that nobody is still seen waiting for the last instance */
        CHECK(muster_barrier_wait(m, "between", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) == MUSTER_OK);
    }
    muster_group_free(g);
    if (self == 0)
        CHECK(muster_kv_get(m, "go/\"now\"", MUSTER_NTS, MUSTER_FOREVER, value, sizeof value, NULL, NULL) == MUSTER_OK);
    if (self == 1) {
        until_waiting(0, "key go");
        CHECK(muster_kv_set(m, "go/\"now\"", MUSTER_NTS, "1", 1, NULL) == MUSTER_OK);
    }
    CHECK(muster_barrier_wait(m, "end", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) == MUSTER_OK);
}

static void join_and_act(const void *arg)
{
    struct muster_options o;

    self = *(const int *)arg;
    muster_options_init(&o);
    o.job = job;
    o.task_id = self;
    CHECK(muster_join(&o, &m) == MUSTER_OK);
    acts();
}

static int play(void *arg)
{
    join_and_act(arg);
    if (self == 2) { /* the others wait for it in vain */
        for (int i = 0; i < 2; i++)
            until_waiting(i, "barrier never");
        raise(SIGKILL);
    }
    CHECK(muster_barrier_wait(m, "never", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) == MUSTER_INTERNAL);
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

static int play_and_stop(void *arg)
{
    join_and_act(arg);
    if (self == 2) {
        for (int i = 0; i < 2; i++)
            until_waiting(i, "barrier never");
        printf("waiting\n");
        fflush(stdout);
        while (pause() < 0)
            ;
    }
    muster_barrier_wait(m, "never", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER);
    return 0;
}

int main(int argc, char **argv)
{
    struct muster_segment_config config = {.num_tasks = TASKS, .num_slots = 16, .heap_bytes = 4 << 20};
    struct muster_segment *segment;
    int numbers[TASKS], stops = argc == 5, ok = 1;
    pid_t pids[TASKS];

    CHECK(argc >= 4);
    job = argv[1];
    config.trace_events = (uint32_t)strtoul(argv[2], NULL, 10);
    rounds = (int)strtol(argv[3], NULL, 10);
    CHECK(muster_segment_create(job, &config, &segment) == MUSTER_OK);
    for (int i = 0; i < TASKS; i++) {
        numbers[i] = i;
        pids[i] = test_fork(stops ? play_and_stop : play, &numbers[i]);
    }
    if (stops) {
        getchar();
        for (int i = 0; i < TASKS; i++)
            kill(pids[i], SIGKILL);
    }
    for (int i = 0; i < TASKS; i++)
        ok &= test_reap(pids[i]) == (stops || i == 2 ? 1000 + SIGKILL : 0);
    muster_segment_close(segment);
    return ok ? 0 : 1;
}
