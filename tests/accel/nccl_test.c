/*
 * tests/accel/nccl_test.c: ids of a real libnccl, between real processes; every root that was made is gone in the end.
 * Real here: libnccl and its root threads. Emulated: the ranks' check-in (checkin.h). No GPU takes part.
 */
#include "cm.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/nccl_roots.h"
#include "checkin.h"
#include "child.h"
#include "job.h"

enum { MOST = 16, ID = MUSTER_NCCL_ID_BYTES };

static int version;
static struct test_job job;
static struct shared {
    char ids[MOST][4][ID];
    uint64_t generations[MOST][4];
} * shared;

static int setup(void)
{
    struct muster_segment_config config = {.num_tasks = MOST, .num_slots = 48};

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED || test_job_create(&job, &config) ? -1 : 0;
}

static int teardown(void)
{
    munmap(shared, sizeof *shared);
    return test_job_end(&job) ? -1 : 0;
}

struct part {
    uint32_t rank, nranks;
};

static void in_processes(uint32_t n, int (*fn)(void *part))
{
    pid_t pids[MOST];

    for (uint32_t i = 0; i < n; i++) {
        struct part part = {i, n};

        pids[i] = test_fork(fn, &part);
    }
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(test_reap(pids[i]), 0);
}

static enum muster_status take(struct muster *m, const char *name, uint32_t nranks, uint32_t rank, void *id)
{
    return muster_nccl_unique_id(m, name, nranks, rank, NULL, muster_after_ms(60000), id, NULL);
}

/* ---- handing over ------------------------------------------------------------------------------------------------ */

/* As a task of the part's rank, with a group of all ranks. */
static struct muster *enter(const struct part *p, const char *name, struct muster_group **ret_all)
{
    int32_t tasks[MOST];
    struct muster *m = test_join(job.name, (int32_t)p->rank, 0);

    CHECK(m);
    for (uint32_t i = 0; i < p->nranks; i++)
        tasks[i] = (int32_t)i;
    CHECK(!muster_group_create(m, name, tasks, p->nranks, 0, muster_after_ms(60000), ret_all));
    return m;
}

static int leave(struct muster *m, struct muster_group *all)
{
    CHECK(!muster_group_barrier(all, muster_after_ms(60000)));
    muster_group_free(all);
    CHECK(!muster_leave(m));
    return 0;
}

static void nothing_grew(struct test_use before)
{
    struct test_use now = test_use_settles(before);

    if (now.threads > before.threads || now.fds > before.fds)
        printf("%u threads, %u descriptors; there were %u, %u\n", now.threads, now.fds, before.threads, before.fds);
    CHECK(now.threads <= before.threads && now.fds <= before.fds && !mu_nccl_roots_count());
}

static int use_three_generations(void *arg)
{
    struct part *p = arg;
    struct muster_group *all;
    char name[16];
    struct muster *m;
    struct test_use before;

    snprintf(name, sizeof name, "world-%u", p->nranks);
    m = enter(p, name, &all);
    before = test_use();
    for (int i = 0; i < 3; i++) {
        char *id = shared->ids[p->rank][i];

        CHECK(!muster_nccl_unique_id(m, name, p->nranks, p->rank, NULL, muster_after_ms(60000), id,
                                     &shared->generations[p->rank][i]));
        CHECK(!muster_nccl_check(m, name, shared->generations[p->rank][i]));
        if (test_checkin_known(version))
            CHECK(!test_check_in(id, version, p->rank, p->nranks));
        CHECK(!muster_group_barrier(all, muster_after_ms(60000))); /* as the ring of a real one would */
    }
    if (test_checkin_known(version))
        nothing_grew(before);
    return leave(m, all);
}

static int interface_that_is_not(void *arg)
{
    struct muster *m = test_join(job.name, 0, 0);
    char id[ID];

    (void)arg;
    setenv("NCCL_SOCKET_IFNAME", "=no-such-interface", 1);
    CHECK(take(m, "nowhere", 2, 0, id) == MUSTER_UNAVAILABLE);
    CHECK(strstr(muster_last_error(), "makes no unique id"));
    CHECK(muster_nccl_check(m, "nowhere", 1) == MUSTER_ABORTED);
    CHECK(!muster_leave(m));
    return 0;
}

/* The first: libnccl looks at interfaces once, and children inherit what it found. */
TEST_WITH(a_maker_whose_libnccl_fails_says_its_words, setup, teardown)
{
    assert_int_equal(test_in_child(interface_that_is_not, NULL), 0);
}

TEST_WITH(every_process_gets_the_same_bytes_and_each_generation_has_others, setup, teardown)
{
    for (uint32_t n = 2; n <= MOST; n *= 2) {
        in_processes(n, use_three_generations);
        for (uint32_t r = 0; r < n; r++)
            for (int i = 0; i < 3; i++) {
                assert_memory_equal(shared->ids[r][i], shared->ids[0][i], ID);
                assert_int_equal(shared->generations[r][i], i + 1);
                assert_memory_not_equal(shared->ids[r][i], shared->ids[r][(i + 1) % 3], ID);
            }
    }
    if (!test_checkin_known(version))
        printf("the check-in of NCCL %d is not known: whether the ids are of use was not tried\n", version);
}

static int use_several_roots(void *arg)
{
    struct part *p = arg;
    struct muster_group *all;
    struct muster *m = enter(p, "roots", &all);
    struct test_use before = test_use();
    uint64_t generation;

    CHECK(!muster_nccl_unique_ids(m, "roots", p->nranks, p->rank, 4, NULL, muster_after_ms(60000), shared->ids[p->rank],
                                  &generation));
    CHECK(!muster_group_barrier(all, muster_after_ms(60000)));
    CHECK(!muster_nccl_abandon(m, "roots", generation, "the test has what it wanted"));
    nothing_grew(before);
    return leave(m, all);
}

TEST_WITH(several_roots_come_in_one_order, setup, teardown)
{
    in_processes(4, use_several_roots);
    for (uint32_t r = 0; r < 4; r++)
        assert_memory_equal(shared->ids[r], shared->ids[0], 4 * ID);
    for (uint32_t i = 0; i < 4; i++)
        assert_memory_not_equal(shared->ids[0][i], shared->ids[0][(i + 1) % 4], ID);
}

/* ---- nothing left ------------------------------------------------------------------------------------------------ */

static int use_a_thousand_names(void *arg)
{
    struct part *p = arg;
    struct muster_group *all;
    struct muster *m = enter(p, "thousand", &all);
    struct test_use before = test_use();
    char name[32], id[ID];

    for (int i = 0; i < 1000; i++) {
        uint64_t generation;

        snprintf(name, sizeof name, "comm-%d", i);
        CHECK(!muster_nccl_unique_id(m, name, p->nranks, p->rank, NULL, muster_after_ms(60000), id, &generation));
        /* not more, for each leaves two connections behind, whose ports are free again after a minute only */
        if (i % 10 == 1 && test_checkin_known(version)) {
            CHECK(!test_check_in(id, version, p->rank, p->nranks));
            continue; /* nobody uses this name again */
        }
        CHECK(!muster_group_barrier(all, muster_after_ms(60000)));
        CHECK(!muster_nccl_abandon(m, name, generation, "nine of ten"));
        CHECK(muster_nccl_check(m, name, generation) == MUSTER_ABORTED);
    }
    nothing_grew(before);
    return leave(m, all);
}

TEST_WITH(a_thousand_names_leave_no_thread_and_no_descriptor, setup, teardown)
{
    in_processes(4, use_a_thousand_names);
}

/*
 * The maker of an id, and a child of it that outlives it: forked, or spawned, which no handler of fork() sees. The
 * child says that it is there: until it runs, or has come through exec, it has closed nothing.
 */
struct leak {
    struct test_gate *gate;
    bool spawn;
};

static void have_a_child(struct leak *l)
{
    int in = l->gate->to_child[0], out = l->gate->to_child[1];
    char *command[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"printf x >&9; exec head -c1 >/dev/null"}, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;

    if (l->spawn) {
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in, 0);
        posix_spawn_file_actions_addclose(&actions, out); /* so that it ends with the test, whatever happens */
        posix_spawn_file_actions_adddup2(&actions, l->gate->to_parent[1], 9);
        CHECK(!posix_spawnp(&pid, "sh", &actions, NULL, command, environ));
        posix_spawn_file_actions_destroy(&actions);
        return;
    }
    pid = fork(); /* not test_fork(): it must not die with us */
    CHECK(pid >= 0);
    if (pid)
        return;
    close(out);
    test_gate_arrive(l->gate);
    test_gate_pass(l->gate);
    _exit(0);
}

static int make_and_leave_a_child(void *arg)
{
    struct leak *l = arg;
    struct muster *m = test_join(job.name, 0, 0);

    CHECK(m && !take(m, l->spawn ? "spawn" : "fork", 2, 0, shared->ids[0][0]));
    CHECK(!test_connect_root(shared->ids[0][0])); /* refused below, so it must be good here */
    have_a_child(l);
    for (;;)
        pause();
    return 0;
}

TEST_WITH(a_child_of_the_maker_does_not_hold_its_socket, setup, teardown)
{
    for (int spawn = 0; spawn < 2; spawn++) {
        struct test_gate gate;
        struct leak leak = {&gate, spawn};
        struct muster *m = test_join(job.name, -1, 0);
        pid_t maker;

        assert_int_equal(test_gate_open(&gate), 0);
        maker = test_fork(make_and_leave_a_child, &leak);
        test_gate_await(&gate);
        kill(maker, SIGKILL);
        assert_int_equal(test_reap(maker), 1000 + SIGKILL);
        assert_int_equal(test_connect_root(shared->ids[0][0]), ECONNREFUSED);
        test_gate_release(&gate); /* the child goes */
        test_gate_close(&gate);
        assert_ok(muster_scavenge(m, NULL));
        assert_ok(muster_task_reset(m, 0));
        muster_leave(m);
    }
}

TEST_WITH(leaving_ends_the_root_of_what_not_all_have_taken, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0);
    struct muster_options options;
    char id[ID];

    assert_ok(take(m, "left", 2, 0, id));
    assert_int_equal(mu_nccl_roots_count(), 1);
    assert_ok(muster_leave(m));
    assert_int_equal(mu_nccl_roots_count(), 0);
    muster_options_init(&options);
    m = test_join(job.name, 1, 0);
    assert_ok(take(m, "left", 2, 1, id)); /* another generation, for its maker is gone */
    assert_ok(muster_leave(m));
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

TEST_WITH(an_id_that_nobody_comes_for_expires_and_is_made_anew, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0), *other = test_join(job.name, 1, 0);
    struct muster_nccl_options options = {.expiry_ns = 1};
    struct muster_nccl_info info;
    char first[ID], second[ID];
    uint64_t generation;

    assert_int_equal(mu_nccl_roots_count(), 0);
    assert_ok(muster_nccl_unique_id(m, "slow", 2, 0, &options, MUSTER_FOREVER, first, &generation));
    assert_int_equal(generation, 1);
    assert_status(MUSTER_ABORTED, muster_nccl_check(m, "slow", 1));
    assert_says("only 1 of 2 ranks");
    assert_int_equal(mu_nccl_roots_count(), 0); /* the check ended it */
    assert_ok(muster_nccl_unique_id(other, "slow", 2, 1, NULL, MUSTER_FOREVER, second, &generation));
    assert_int_equal(generation, 2);
    assert_memory_not_equal(first, second, ID);
    assert_status(MUSTER_ABORTED, muster_nccl_check(m, "slow", 1));
    assert_says("generation 2 has begun");
    assert_ok(take(m, "slow", 2, 0, first));
    assert_memory_equal(first, second, ID);
    assert_ok(muster_nccl_get(m, "slow", &info));
    assert_int_equal(info.state, MUSTER_NCCL_READY);
    assert_int_equal(info.taken, 2);
    assert_int_equal(info.owner_task, 1);
    assert_int_equal(info.version, version);
    assert_int_equal(mu_nccl_roots_count(), 1); /* all have the id, and may check in yet */
    assert_ok(muster_nccl_abandon(other, "slow", 2, "the test has what it wanted"));
    assert_int_equal(mu_nccl_roots_count(), 0);
    muster_leave(other);
    muster_leave(m);
}

TEST_WITH(a_rank_takes_a_generation_once, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0), *other = test_join(job.name, 1, 0);
    char id[ID];

    assert_ok(take(m, "once", 3, 0, id));
    assert_status(MUSTER_ALREADY_EXISTS, take(m, "once", 3, 0, id));
    assert_says("rank 0 has taken generation 1 already, and 2 of 3 ranks have not");
    assert_status(MUSTER_ALREADY_EXISTS, take(other, "once", 3, 0, id));
    assert_says("task 0 has taken generation 1 as rank 0; task 1 says it is that rank, too");
    assert_ok(take(m, "once", 3, 2, id)); /* a process with two ranks */
    assert_status(MUSTER_INVALID_ARGUMENT, take(other, "once", 4, 1, id));
    assert_says("4 ranks and 1 ids here; task 0, rank 0, said 3 and 1");
    assert_ok(muster_nccl_abandon(m, "once", 0, "it is enough"));
    assert_status(MUSTER_ABORTED, muster_nccl_check(other, "once", 1));
    assert_says("task 0 gave it up: it is enough");
    assert_ok(take(other, "once", 4, 1, id));
    assert_ok(muster_nccl_check(other, "once", 2));
    muster_leave(other);
    muster_leave(m);
}

TEST_WITH(what_cannot_be_is_refused, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0), *observer = test_join(job.name, -1, 0);
    struct muster_nccl_options flags = {.flags = 4};
    struct muster_nccl_info info;
    char id[ID], name[MUSTER_NCCL_NAME_MAX + 2];

    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    assert_status(MUSTER_INVALID_ARGUMENT, take(m, name, 2, 0, id));
    assert_status(MUSTER_INVALID_ARGUMENT, take(m, "", 2, 0, id));
    assert_status(MUSTER_INVALID_ARGUMENT, take(m, NULL, 2, 0, id));
    assert_status(MUSTER_INVALID_ARGUMENT, take(m, "n", 2, 2, id));
    assert_status(MUSTER_INVALID_ARGUMENT, take(m, "n", 0, 0, id));
    assert_status(MUSTER_INVALID_ARGUMENT, take(m, "n", MUSTER_NCCL_RANKS_MAX + 1, 0, id));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_nccl_unique_ids(m, "n", 2, 0, 3, NULL, MUSTER_FOREVER, id, NULL));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_nccl_unique_id(m, "n", 2, 0, &flags, MUSTER_FOREVER, id, NULL));
    assert_status(MUSTER_FAILED_PRECONDITION, take(observer, "n", 2, 0, id));
    assert_says("observer");
    assert_ok(muster_nccl_get(observer, "n", &info));
    assert_int_equal(info.state, MUSTER_NCCL_NONE);
    assert_ok(muster_nccl_check(observer, "n", 1));
    assert_ok(muster_nccl_abandon(m, "n", 0, NULL));
    assert_int_equal(mu_nccl_roots_count(), 0);
    muster_leave(observer);
    muster_leave(m);
}

static int a_library_that_is_not(void *arg)
{
    int found;

    (void)arg;
    setenv("MUSTER_NCCL_LIBRARY", "/no/such/libnccl.so.2", 1);
    CHECK(muster_nccl_version(&found) == MUSTER_NOT_FOUND && strstr(muster_last_error(), "/no/such/libnccl.so.2"));
    setenv("MUSTER_NCCL_LIBRARY", "libm.so.6", 1);
    CHECK(muster_nccl_version(&found) == MUSTER_FAILED_PRECONDITION && strstr(muster_last_error(), "ncclGetVersion"));
    unsetenv("MUSTER_NCCL_LIBRARY");
    return 0;
}

int main(void)
{
    if (test_in_child(a_library_that_is_not, NULL))
        return 1;
    version = test_nccl_required();
    printf("NCCL %d\n", version);
    return test_run(NULL, NULL);
}
