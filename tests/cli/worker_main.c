/*
 * tests/cli/worker_main.c: a task to look at, for the tests of status and top.
 *
 *   worker epochs          join, then meet all others in instance after instance of the barrier "epoch"
 *   worker group           the same in the group "workers"
 *   worker away K HOW      all but task K wait in the barrier "late"; K has joined and does not come. HOW: "sleep" (in
 *                          a system call), "spin", "thread" (another thread spins, the first one sleeps), "key" (waits
 *                          for the key "never"), "error" (waits for an error of any task)
 *   worker stay HOW        all tasks come so far, then do that
 *   worker damage          spoil the table of barriers, then wait in a system call
 *   worker objects         hold a sealed object of 20 bytes and 4 of metadata, one that is not sealed, and an error
 *   worker pass N          meet N times in the barrier "epoch", then leave and exit
 * Whoever learns of an error says so and exits with 7.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <muster/muster.h>

#include "segment/handle.h"
#include "segment/table.h"

static struct muster *m;

static void must(enum muster_status status)
{
    if (status == MUSTER_OK)
        return;
    fprintf(stderr, "worker: %s\n", muster_last_error());
    muster_leave(m);
    exit(7);
}

static void meet(const char *id)
{
    must(muster_barrier_wait(m, id, MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER));
}

/* The step's work. */
static void work(void)
{
    nanosleep(&(struct timespec){0, 2000000}, NULL); /* sleep: is the work: eight tasks share two processors */
}

static void *spin(void *arg)
{
    volatile int for_ever = 1;

    while (for_ever)
        ;
    return arg;
}

static void stay_away(const char *how)
{
    struct muster_error error;
    pthread_t thread;

    if (strcmp(how, "key") == 0)
        must(muster_kv_get(m, "never", MUSTER_NTS, MUSTER_FOREVER, NULL, 0, &(size_t){0}, NULL));
    if (strcmp(how, "error") == 0)
        must(muster_error_wait(m, MUSTER_FOREVER, &error));
    if (strcmp(how, "spin") == 0)
        spin(NULL);
    if (strcmp(how, "thread") == 0 && pthread_create(&thread, NULL, spin, NULL) != 0)
        exit(9);
    for (;;)
        pause();
}

/* Every bucket names a block that is none. */
static void damage(void)
{
    struct mu_table table = mu_table_cells(muster_segment_of(m));

    for (uint32_t i = 0; i <= table.mask; i++)
        mu_store_release(&table.buckets[i], UINT64_MAX); /* release: for those who acquire it; there is no payload */
}

static void hold_objects(void)
{
    struct muster_object_room room;
    muster_object object;

    must(muster_object_put(m, "twenty bytes and not", 20, "meta", 4, 0, &object));
    must(muster_object_create(m, 1000, 0, 0, &object, &room));
    must(muster_object_create(m, 10, 0, 0, &object, &room));
    must(muster_object_fail(m, object, MUSTER_ABORTED, "no such line"));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct muster_group *group;

    if (muster_join(NULL, &m) != MUSTER_OK) {
        fprintf(stderr, "worker: %s\n", muster_last_error());
        return 8;
    }
    if (strcmp(what, "epochs") == 0)
        for (;; work())
            meet("epoch");
    if (strcmp(what, "group") == 0) {
        must(muster_group_create(m, "workers", NULL, 0, 0, MUSTER_FOREVER, &group));
        for (;; work())
            must(muster_group_barrier(group, MUSTER_FOREVER));
    }
    if (strcmp(what, "away") == 0 && argc == 4) {
        meet("start");
        if (muster_task_id(m) == strtol(argv[2], NULL, 10))
            stay_away(argv[3]);
        meet("late");
    }
    if (strcmp(what, "stay") == 0 && argc == 3) {
        meet("start");
        stay_away(argv[2]);
    }
    if (strcmp(what, "damage") == 0) {
        damage();
        stay_away("sleep");
    }
    if (strcmp(what, "objects") == 0) {
        hold_objects();
        stay_away("sleep");
    }
    if (strcmp(what, "pass") == 0 && argc == 3)
        for (long n = strtol(argv[2], NULL, 10); n > 0; n--, work())
            meet("epoch");
    muster_leave(m);
    return 0;
}
