/*
 * tests/accel/nccl_comm_test.c: muster_nccl_comm_init() ends, whatever happens to a peer.
 *
 * Without a GPU a real ncclCommInitRank fails before it waits for anybody. So here are two parts: the real library,
 * which must fail clearly on all ranks; and muster's own waiting, with FAKE communicators of this file that never come
 * up, or do, when they are told to: these prove nothing of NCCL. Ids are real in both.
 */
#include "cm.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel/nccl_id.h"
#include "accel/nccl_roots.h"
#include "checkin.h"
#include "child.h"
#include "job.h"

static struct test_job job;

static int setup(void)
{
    return test_job_create(&job, NULL);
}

static int teardown(void)
{
    return test_job_end(&job) ? -1 : 0;
}

/* ---- fake communicators ------------------------------------------------------------------------------------------ */

static struct {
    int looks_left; /* until the answer; -1: never */
    int answer;     /* then */
    int begun, aborted, roots;
    int blocking; /* as the config said */
    size_t size;  /* of the config */
    char config[80];
} fake;

static int fake_begin(struct ncclComm **comm, void *config)
{
    memcpy(&fake.size, config, sizeof fake.size);
    memcpy(&fake.blocking, (char *)config + 16, sizeof fake.blocking);
    memcpy(fake.config, config, fake.size < sizeof fake.config ? fake.size : sizeof fake.config);
    fake.begun++;
    *comm = (struct ncclComm *)&fake;
    return MU_NCCL_IN_PROGRESS;
}

static int fake_init(struct ncclComm **comm, int nranks, struct mu_nccl_id id, int rank, void *config)
{
    (void)nranks;
    (void)id;
    (void)rank;
    fake.roots = 1;
    return fake_begin(comm, config);
}

static int fake_init_scalable(struct ncclComm **comm, int nranks, int rank, int nids, struct mu_nccl_id *ids,
                              void *config)
{
    (void)nranks;
    (void)rank;
    (void)ids;
    fake.roots = nids;
    return fake_begin(comm, config);
}

static int fake_get_async_error(struct ncclComm *comm, int *result)
{
    (void)comm;
    *result = fake.looks_left == 0 ? fake.answer : MU_NCCL_IN_PROGRESS;
    fake.looks_left -= fake.looks_left > 0;
    return MU_NCCL_SUCCESS;
}

static int fake_abort(struct ncclComm *comm)
{
    (void)comm;
    fake.aborted++;
    return MU_NCCL_SUCCESS;
}

static struct mu_nccl fake_nccl(int looks, int answer)
{
    const struct mu_nccl *real;
    struct mu_nccl n;

    if (mu_nccl_open(&real))
        exit(1);
    n = *real;
    n.comm_init_rank_config = fake_init;
    n.comm_init_rank_scalable = fake_init_scalable;
    n.comm_get_async_error = fake_get_async_error;
    n.comm_abort = fake_abort;
    memset(&fake, 0, sizeof fake);
    fake.looks_left = looks;
    fake.answer = answer;
    return n;
}

static enum muster_status init(const struct mu_nccl *n, struct muster *m, uint32_t nranks,
                               const struct muster_nccl_options *options, muster_deadline deadline)
{
    struct ncclComm *comm = NULL;
    enum muster_status status =
        mu_nccl_comm_init(n, m, "world", nranks, (uint32_t)muster_task_id(m), options, deadline, &comm);

    if (status ? comm != NULL : comm != (struct ncclComm *)&fake)
        return MUSTER_UNKNOWN;
    return status;
}

TEST_WITH(fakes_that_come_up_are_handed_over_and_the_name_is_forgotten, setup, teardown)
{
    struct muster *m[2] = {test_join(job.name, 0, 0), test_join(job.name, 1, 0)};
    struct mu_nccl n = fake_nccl(3, MU_NCCL_SUCCESS);
    struct muster_nccl_info info;

    assert_ok(init(&n, m[0], 2, NULL, MUSTER_FOREVER));
    assert_int_equal(fake.blocking, 0);
    assert_int_equal(fake.roots, 1);
    assert_ok(muster_nccl_get(m[0], "world", &info));
    assert_int_equal(info.taken, 1);
    assert_int_equal(info.done, 1);
    assert_ok(init(&n, m[1], 2, NULL, MUSTER_FOREVER));
    assert_int_equal(fake.begun, 2);
    assert_int_equal(fake.aborted, 0);
    assert_ok(muster_nccl_get(m[0], "world", &info));
    assert_int_equal(info.state, MUSTER_NCCL_NONE);
    assert_ok(muster_nccl_abandon(m[0], "world", 1, NULL)); /* the fakes have not checked in */
    muster_leave(m[1]);
    muster_leave(m[0]);
}

TEST_WITH(the_deadline_names_the_ranks_that_have_not_come, setup, teardown)
{
    struct muster *m = test_join(job.name, 1, 0);
    struct mu_nccl n = fake_nccl(-1, 0);

    assert_status(MUSTER_DEADLINE_EXCEEDED, init(&n, m, 4, NULL, muster_after_ms(30)));
    assert_says("without rank 0, 2, 3");
    assert_int_equal(fake.aborted, 1);
    assert_int_equal(mu_nccl_roots_count(), 0);
    assert_status(MUSTER_ABORTED, muster_nccl_check(m, "world", 1));
    assert_says("task 1: communicator world: the deadline passed");
    muster_leave(m);
}

TEST_WITH(the_deadline_names_the_ranks_that_have_the_id_and_are_not_through, setup, teardown)
{
    struct muster *m[2] = {test_join(job.name, 0, 0), test_join(job.name, 1, 0)};
    struct mu_nccl n = fake_nccl(0, MU_NCCL_SUCCESS);

    assert_ok(init(&n, m[0], 2, NULL, MUSTER_FOREVER));
    n = fake_nccl(-1, 0);
    assert_status(MUSTER_DEADLINE_EXCEEDED, init(&n, m[1], 2, NULL, muster_after_ms(1)));
    assert_says("when all ranks had the id, but had not all initialised, without rank 1 (");
    assert_ok(muster_nccl_abandon(m[0], "world", 1, NULL)); /* the fakes have not checked in */
    muster_leave(m[1]);
    muster_leave(m[0]);
}

TEST_WITH(who_holds_a_generation_that_failed_is_told_when_the_next_is_through, setup, teardown)
{
    struct muster *m[2] = {test_join(job.name, 0, 0), test_join(job.name, 1, 0)};
    struct mu_nccl n = fake_nccl(-1, 0);

    assert_status(MUSTER_DEADLINE_EXCEEDED, init(&n, m[0], 2, NULL, muster_after_ms(1)));
    for (int i = 0; i < 2; i++) {
        n = fake_nccl(0, MU_NCCL_SUCCESS);
        assert_ok(init(&n, m[0], 2, NULL, MUSTER_FOREVER));
        assert_ok(init(&n, m[1], 2, NULL, MUSTER_FOREVER));
        assert_status(MUSTER_ABORTED, muster_nccl_check(m[1], "world", 1));
    }
    for (uint64_t generation = 2; generation < 4; generation++)
        assert_ok(muster_nccl_abandon(m[0], "world", generation, NULL)); /* the fakes have not checked in */
    assert_int_equal(mu_nccl_roots_count(), 0);
    muster_leave(m[1]);
    muster_leave(m[0]);
}

TEST_WITH(an_error_of_a_fake_is_told_to_all, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0);
    struct mu_nccl n = fake_nccl(2, 6);

    assert_status(MUSTER_INTERNAL, init(&n, m, 2, NULL, MUSTER_FOREVER));
    assert_says("rank 0 of 2: NCCL: remote process exited or there was a network error");
    assert_says("; until then without rank 1");
    assert_int_equal(fake.aborted, 1);
    assert_status(MUSTER_ABORTED, muster_nccl_check(m, "world", 1));
    assert_int_equal(mu_nccl_roots_count(), 0);
    muster_leave(m);
}

TEST_WITH(configs_are_copied_but_never_block, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0);
    struct {
        size_t size;
        unsigned magic, version;
        int blocking, cga, min_ctas, max_ctas;
        const char *net_name;
    } config = {sizeof config, 0xcafebeef, 21700, 1, INT_MIN, 4, 8, "Socket"};
    struct muster_nccl_options options = {.config = &config, .ranks_per_root = 2};
    struct mu_nccl n = fake_nccl(0, MU_NCCL_SUCCESS);
    int blocking = 0;

    assert_ok(init(&n, m, 5, &options, MUSTER_FOREVER));
    assert_int_equal(fake.roots, 3);
    assert_int_equal(config.blocking, 1);
    assert_int_equal(fake.size, sizeof config);
    memcpy(&config.blocking, &blocking, sizeof blocking);
    assert_memory_equal(fake.config, &config, sizeof config);
    assert_ok(muster_nccl_abandon(m, "world", 0, NULL));
    n.comm_init_rank_scalable = NULL; /* before 2.23 */
    assert_ok(init(&n, m, 5, &options, MUSTER_FOREVER));
    assert_int_equal(fake.roots, 1);
    assert_ok(muster_nccl_abandon(m, "world", 0, NULL));
    config.magic++;
    assert_status(MUSTER_INVALID_ARGUMENT, init(&n, m, 5, &options, MUSTER_FOREVER));
    assert_says("no ncclConfig_t");
    n.comm_init_rank_config = NULL; /* before 2.14 */
    assert_status(MUSTER_UNIMPLEMENTED, init(&n, m, 2, NULL, MUSTER_FOREVER));
    assert_says("2.14");
    assert_int_equal(mu_nccl_roots_count(), 0);
    muster_leave(m);
}

/* ---- what ends the wait ------------------------------------------------------------------------------------------ */

struct ending {
    enum muster_status status;
    const char *says, *without;
};

static int wait_for_fake(void *arg)
{
    const struct ending *e = arg;
    struct muster *m = test_join(job.name, 1, 0);
    struct mu_nccl n = fake_nccl(-1, 0);

    CHECK(m && init(&n, m, 3, NULL, muster_after_ms(100000)) == e->status);
    CHECK(strstr(muster_last_error(), e->says) && fake.aborted == 1);
    CHECK(strstr(muster_last_error(), e->without));
    CHECK(!mu_nccl_roots_count());
    CHECK(!muster_leave(m));
    return 0;
}

static void until_taken(struct muster *m, uint32_t taken)
{
    struct muster_nccl_info info;

    do
        assert_ok(muster_nccl_get(m, "world", &info));
    while (info.taken < taken);
}

TEST_WITH(a_peer_that_gives_up_ends_the_wait, setup, teardown)
{
    struct muster *m = test_join(job.name, 2, 0);
    struct ending ending = {MUSTER_ABORTED, "task 2 gave it up: out of memory", "; until then without rank 0, 2"};
    pid_t pid = test_fork(wait_for_fake, &ending);

    until_taken(m, 1);
    assert_ok(muster_nccl_abandon(m, "world", 0, "out of memory"));
    assert_int_equal(test_reap(pid), 0);
    muster_leave(m);
}

TEST_WITH(an_error_of_any_task_ends_the_wait, setup, teardown)
{
    struct muster *m = test_join(job.name, 2, 0);
    struct ending ending = {MUSTER_UNAVAILABLE, "is in error: no disk left", "; until then without rank 0, 2"};
    pid_t pid = test_fork(wait_for_fake, &ending);

    until_taken(m, 1);
    assert_ok(muster_error_report(m, 2, MUSTER_INTERNAL, "no disk left"));
    assert_int_equal(test_reap(pid), 0);
    muster_leave(m);
}

static int take_and_wait_for_death(void *arg)
{
    struct muster *m = test_join(job.name, 0, MUSTER_JOIN_RECOVERABLE);
    char id[MUSTER_NCCL_ID_BYTES];

    (void)arg;
    CHECK(m && !muster_nccl_unique_id(m, "world", 3, 0, NULL, muster_after_ms(60000), id, NULL));
    for (;;)
        pause();
    return 0;
}

TEST_WITH(a_dead_rank_ends_the_wait_also_where_it_may_come_back, setup, teardown)
{
    struct muster *m = test_join(job.name, 2, 0);
    struct ending ending = {MUSTER_ABORTED,
                            "task 0, which ", /* made the id, or is rank 0: looked for one after the other */
                            "; until then without rank 2"};
    pid_t pid, peer = test_fork(take_and_wait_for_death, NULL);

    until_taken(m, 1);
    pid = test_fork(wait_for_fake, &ending);
    until_taken(m, 2);
    kill(peer, SIGKILL);
    assert_int_equal(test_reap(peer), 1000 + SIGKILL);
    assert_int_equal(test_reap(pid), 0);
    muster_leave(m);
}

/* ---- the real library -------------------------------------------------------------------------------------------- */

static int init_really(void *arg)
{
    uint32_t rank = *(uint32_t *)arg;
    struct muster_nccl_options options = {.ranks_per_root = rank < 4 ? 0 : 2};
    struct muster *m = test_join(job.name, (int32_t)rank, 0);
    struct ncclComm *comm = NULL;
    enum muster_status status;

    CHECK(m);
    status =
        muster_nccl_comm_init(m, rank < 4 ? "real" : "scalable", 4, rank % 4, &options, muster_after_ms(60000), &comm);
    /* its own failure, or that of the peer that was first to fail */
    CHECK((status == MUSTER_INTERNAL && strstr(muster_last_error(), "NCCL: unhandled cuda error")) ||
          (status == MUSTER_UNAVAILABLE || status == MUSTER_ABORTED));
    CHECK(!comm);
    CHECK(test_use_settles((struct test_use){1, UINT_MAX}).threads == 1);
    CHECK(!muster_leave(m));
    return 0;
}

TEST_WITH(without_a_gpu_every_rank_fails_with_words_and_none_hangs, setup, teardown)
{
    pid_t pids[8];

    if (!access("/dev/nvidiactl", F_OK) || !access("/dev/dxg", F_OK)) {
        printf("not tried: there is a GPU here\n");
        return;
    }
    for (uint32_t i = 0; i < 8; i++)
        pids[i] = test_fork(init_really, &i);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(test_reap(pids[i]), 0);
}

int main(void)
{
    printf("NCCL %d\n", test_nccl_required());
    return test_run(NULL, NULL);
}
