/*
 * tests/accel/hosts_main.c: a task of a job of several hosts whose ranks check in at one root of a real libnccl.
 *
 * hosts MODE. `ring`: three generations, each with the check-in of all ranks, which is emulated (checkin.h); afterwards
 * no root is left. `world`: muster_nccl_comm_init(), which comes up with GPUs and fails in words without. `die`: the
 * rank of the last task is the maker, and is killed when all have its id; the others must hear who that was. Each
 * prints a line. Exit status 77: no libnccl makes ids here.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

#include "checkin.h"

static struct muster *m;
static uint32_t rank, ranks;

static void need(enum muster_status status, const char *what)
{
    if (!status)
        return;
    fprintf(stderr, "rank %u, %s: %s\n", rank, what, muster_last_error());
    exit(1);
}

static void meet(void)
{
    need(muster_barrier_wait(m, "all", MUSTER_BARRIER_NEXT, NULL, 0, 0, muster_after_ms(60000)), "the barrier");
}

static uint64_t take(void *id)
{
    uint64_t generation;

    need(muster_nccl_unique_id(m, "world", ranks, rank, NULL, muster_after_ms(60000), id, &generation), "the id");
    return generation;
}

static void ring(int version)
{
    char id[MUSTER_NCCL_ID_BYTES];

    for (uint64_t n = 1; n <= 3; n++) {
        uint64_t generation = take(id);
        int step = test_checkin_known(version) ? test_check_in(id, version, rank, ranks) : 0;

        if (generation != n || step) {
            fprintf(stderr, "rank %u: generation %d, check-in failed at step %d\n", rank, (int)generation, step);
            exit(1);
        }
        meet();
    }
    printf("rank %u of %u has checked in three times\n", rank, ranks);
}

static void world(void)
{
    struct ncclComm *comm = NULL;
    enum muster_status status = muster_nccl_comm_init(m, "world", ranks, rank, NULL, muster_after_ms(60000), &comm);

    printf("rank %u: %s: %s\n", rank, muster_status_name(status), status ? muster_last_error() : "it is up");
}

/* Nobody leaves before all others have heard, or they might hear of that. */
static void survive(void)
{
    char key[32];
    size_t heard;

    snprintf(key, sizeof key, "heard/%u", rank);
    need(muster_kv_set(m, key, MUSTER_NTS, "", 0, NULL), "saying so");
    do {
        usleep(1000); /* sleep: a wait for a key would end by the death */
        need(muster_kv_count(m, "heard", MUSTER_NTS, &heard), "the others");
    } while (heard + 1 < ranks);
}

static void die(void)
{
    char id[MUSTER_NCCL_ID_BYTES];
    enum muster_status status;
    uint64_t generation = 0;

    if (rank + 1 == ranks)
        generation = take(id);
    meet();
    if (rank + 1 < ranks)
        generation = take(id);
    meet();
    if (rank + 1 == ranks)
        raise(SIGKILL);
    do
        status = muster_nccl_check(m, "world", generation);
    while (!status);
    printf("rank %u: %s: %s\n", rank, muster_status_name(status), muster_last_error());
    survive();
}

int main(int argc, char **argv)
{
    int version = test_nccl_required();
    const char *mode = argc > 1 ? argv[1] : "";

    need(muster_join(NULL, &m), "joining");
    rank = (uint32_t)muster_task_id(m);
    ranks = (uint32_t)strtoul(getenv("WORLD_SIZE") ? getenv("WORLD_SIZE") : "0", NULL, 10);
    if (!strcmp(mode, "ring"))
        ring(version);
    else if (!strcmp(mode, "world"))
        world();
    else if (!strcmp(mode, "die"))
        die();
    need(muster_leave(m), "leaving");
    return 0;
}
