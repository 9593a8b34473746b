/*
 * tests/accel/nccl_threads_test.c: the ranks of one process are threads of it; others of its threads fork meanwhile,
 * and no child inherits a root.
 *
 * Not under the thread sanitizer: we look whether a descriptor is still the root's, and libnccl's own thread closes it
 * when it likes; of two that touch one descriptor's number without an order between them it says that they race.
 *
 * variants: release asan
 */
#include "cm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accel/nccl_roots.h"
#include "checkin.h"
#include "child.h"
#include "job.h"

enum { RANKS = 4, NAMES = 60, ID = MUSTER_NCCL_ID_BYTES };

static struct test_job job;
static struct muster *m;
static char ids[RANKS][ID];
static pthread_barrier_t meet;
static _Atomic int stop, failures;
static int sockets_before;

static void expect(int ok, const char *what)
{
    if (ok)
        return;
    printf("not so: %s (last error: %s)\n", what, muster_last_error());
    failures++;
}

static void *be_a_rank(void *arg)
{
    uint32_t rank = *(uint32_t *)arg;
    char name[32];

    for (int i = 0; i < NAMES; i++) {
        uint64_t generation = 0;

        snprintf(name, sizeof name, "comm-%d", i / 2); /* each twice */
        expect(!muster_nccl_unique_id(m, name, RANKS, rank, NULL, muster_after_ms(60000), ids[rank], &generation),
               "an id");
        pthread_barrier_wait(&meet);
        expect(!memcmp(ids[rank], ids[0], ID), "the same id for all");
        pthread_barrier_wait(&meet);
        if (rank == (uint32_t)i % RANKS)
            expect(!muster_nccl_abandon(m, name, generation, "no use for it"), "giving up");
        expect(muster_nccl_check(m, name, generation) != MUSTER_INTERNAL, "a look");
        pthread_barrier_wait(&meet);
    }
    return NULL;
}

static int count_sockets(void)
{
    struct stat st;
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += !fstat(fd, &st) && S_ISSOCK(st.st_mode);
    return n;
}

/* A child has no socket that was not there before the first root. */
static void *fork_again_and_again(void *arg)
{
    (void)arg;
    while (!stop) {
        pid_t pid = fork();
        int status = 0;

        if (!pid)
            _exit(count_sockets() > sockets_before);
        expect(waitpid(pid, &status, 0) == pid && status == 0, "a child without roots");
    }
    return NULL;
}

static int setup(void)
{
    pthread_barrier_init(&meet, NULL, RANKS);
    if (test_job_create(&job, NULL))
        return -1;
    m = test_join(job.name, 0, 0);
    return m ? 0 : -1;
}

static int teardown(void)
{
    pthread_barrier_destroy(&meet);
    muster_leave(m);
    return test_job_end(&job) ? -1 : 0;
}

TEST_WITH(threads_are_ranks_and_children_inherit_nothing, setup, teardown)
{
    pthread_t ranks[RANKS], forker;
    uint32_t numbers[RANKS];

    sockets_before = count_sockets();
    assert_int_equal(pthread_create(&forker, NULL, fork_again_and_again, NULL), 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&ranks[i], NULL, be_a_rank, &numbers[i]), 0);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        pthread_join(ranks[i], NULL);
    stop = 1;
    pthread_join(forker, NULL);
    assert_int_equal(failures, 0);
    assert_int_equal(mu_nccl_roots_count(), 0);
}

int main(void)
{
    printf("NCCL %d\n", test_nccl_required());
    return test_run(NULL, NULL);
}
