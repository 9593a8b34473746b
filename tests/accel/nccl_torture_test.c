/*
 * tests/accel/nccl_torture_test.c: four ranks take ids of one name again and again, and are killed at any instruction
 * and started anew. Nobody hangs, no generation is handed out with two ids, and the segment is sound in the end. The
 * library and its roots are real.
 */
#include "cm.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "checkin.h"
#include "child.h"
#include "job.h"
#include "seed.h"

enum { RANKS = 4, KILLS = 150, GENERATIONS = 1 << 20, ID = MUSTER_NCCL_ID_BYTES };

static struct test_job job;
static struct shared {
    _Atomic int stop;
    _Atomic uint64_t taken, complete;
    _Atomic uint64_t sums[GENERATIONS]; /* of the generation's id; 0: not seen yet */
} * shared;

static void note(uint64_t generation, const char *id)
{
    uint64_t sum = 0xcbf29ce484222325u, none = 0;

    for (int i = 0; i < ID; i++)
        sum = (sum ^ (unsigned char)id[i]) * 0x100000001b3u;
    CHECK(generation < GENERATIONS);
    if (!atomic_compare_exchange_strong(&shared->sums[generation], &none, sum))
        CHECK(none == sum);
    shared->taken++;
}

/* Until the generation is dead or everybody has it. */
static void see_it_through(struct muster *m, uint64_t generation)
{
    uint64_t until = muster_after_ms(60000);
    struct muster_nccl_info info;

    for (;;) {
        enum muster_status status = muster_nccl_check(m, "world", generation);

        CHECK(status == MUSTER_OK || status == MUSTER_ABORTED);
        CHECK(!muster_nccl_get(m, "world", &info));
        if (status || info.generation > generation)
            return;
        if (info.taken == RANKS) {
            shared->complete++;
            return;
        }
        CHECK(shared->stop || muster_now_ns() < until);
        if (shared->stop)
            return;
    }
}

static int be_a_rank(void *arg)
{
    uint32_t rank = *(uint32_t *)arg;
    struct test_random random = {muster_now_ns()};
    struct muster *m = test_join(job.name, (int32_t)rank, MUSTER_JOIN_RECOVERABLE);
    char id[ID];

    CHECK(m);
    while (!shared->stop) {
        uint64_t generation;
        enum muster_status status =
            muster_nccl_unique_id(m, "world", RANKS, rank, NULL, muster_after_ms(60000), id, &generation);

        CHECK(status == MUSTER_OK || status == MUSTER_UNAVAILABLE || status == MUSTER_ABORTED);
        if (status)
            continue;
        note(generation, id);
        see_it_through(m, generation);
        if (test_below(&random, 2))
            CHECK(!muster_nccl_abandon(m, "world", generation, "chance"));
    }
    CHECK(!muster_leave(m));
    return 0;
}

static pid_t start(uint32_t rank)
{
    return test_fork(be_a_rank, &rank);
}

static int setup(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED || test_job_create(&job, NULL) ? -1 : 0;
}

static int teardown(void)
{
    munmap(shared, sizeof *shared);
    return test_job_end(&job) ? -1 : 0;
}

TEST_WITH(ranks_die_anywhere_and_ids_stay_right, setup, teardown)
{
    struct test_random random = {test_seed()};
    pid_t pids[RANKS];
    struct muster *m = test_join(job.name, -1, 0);

    for (uint32_t i = 0; i < RANKS; i++)
        pids[i] = start(i);
    for (int i = 0; i < KILLS; i++) {
        struct timespec pause = {.tv_nsec = (long)test_below(&random, 8000000)};
        uint32_t victim = (uint32_t)test_below(&random, RANKS);

        nanosleep(&pause, NULL); /* sleep: the victim's work */
        kill(pids[victim], SIGKILL);
        assert_int_equal(test_reap(pids[victim]), 1000 + SIGKILL);
        pids[victim] = start(victim);
    }
    shared->stop = 1;
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(test_reap(pids[i]), 0);
    printf("%d kills; %llu ids taken, %llu times seen by all\n", KILLS, (unsigned long long)shared->taken,
           (unsigned long long)shared->complete);
    assert_true(shared->taken > 0);
    muster_leave(m);
}

int main(void)
{
    printf("NCCL %d\n", test_nccl_required());
    return test_run(NULL, NULL);
}
