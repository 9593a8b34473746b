/*
 * tests/trace/late_main.c: late FOLDER: a task of a job of several hosts, to be traced. All meet in the barrier "epoch"
 * and in the group "ring". To the first of each the last task of the job comes when the file "last" is there, to the
 * second task 0 when "first" is there; all others come before. Then they stay until they are ended.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <muster/muster.h>

#include "child.h"

static const char *folder;

static void await_file(const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    while (access(path, F_OK) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* sleep: between two looks */
}

int main(int argc, char **argv)
{
    struct muster_group *ring;
    struct muster *m;
    uint32_t self;

    CHECK(argc == 2);
    folder = argv[1];
    CHECK(muster_join(NULL, &m) == MUSTER_OK);
    self = (uint32_t)muster_task_id(m);
    CHECK(muster_group_create(m, "ring", NULL, 0, 0, MUSTER_FOREVER, &ring) == MUSTER_OK);
    for (int round = 0; round < 2; round++) {
        uint32_t late = round ? 0 : muster_num_tasks(m) - 1;

        if (self == late)
            await_file(round ? "first" : "last");
        CHECK(muster_barrier_wait(m, "epoch", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) == MUSTER_OK);
        if (self == late)
            await_file(round ? "first-again" : "last-again");
        CHECK(muster_group_barrier(ring, MUSTER_FOREVER) == MUSTER_OK);
    }
    if (self == 0)
        CHECK(muster_kv_insert(m, "done", MUSTER_NTS, "", 0) == MUSTER_OK);
    for (;;)
        pause();
}
