/*
 * tests/accel/nccl_death_test.c: the maker of an id, or who took it, is killed or given up in every state; nobody
 * hangs, and what is handed out afterwards was made by somebody alive. The library is real; only when it is asked for
 * an id is its entry point wrapped, to stop the maker there.
 */
#include "cm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/nccl_id.h"
#include "accel/nccl_roots.h"
#include "checkin.h"
#include "child.h"
#include "job.h"

enum { ID = MUSTER_NCCL_ID_BYTES, MANY = 60000 /* ranks: their list is a megabyte */ };

static struct test_job job;
static struct test_gate gate;
static char (*made)[ID]; /* shared with the maker */

static int setup(void)
{
    made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return made == MAP_FAILED || test_gate_open(&gate) || test_job_create(&job, NULL) ? -1 : 0;
}

static int teardown(void)
{
    munmap(made, sizeof *made);
    test_gate_close(&gate);
    return test_job_end(&job) ? -1 : 0;
}

static enum muster_status take(struct muster *m, uint32_t nranks, void *id, uint64_t *generation)
{
    return muster_nccl_unique_id(m, "world", nranks, (uint32_t)muster_task_id(m), NULL, muster_after_ms(60000), id,
                                 generation);
}

/* ---- the maker, task 0 ------------------------------------------------------------------------------------------- */

enum stop { BEFORE_THE_CALL, AFTER_THE_CALL, READY };

struct maker {
    enum stop stop;
    uint32_t flags;
    bool comes_late; /* goes on when released, instead of waiting to be killed */
};
static struct maker *how;
static int (*real_get_unique_id)(struct mu_nccl_id *id);

static void stop_here(void)
{
    test_gate_arrive(&gate);
    if (how->comes_late) {
        test_gate_pass(&gate);
        return;
    }
    for (;;)
        pause();
}

static int stopping_get_unique_id(struct mu_nccl_id *id)
{
    int result;

    if (how->stop == BEFORE_THE_CALL)
        stop_here();
    result = real_get_unique_id(id);
    memcpy(made, id, ID);
    if (how->stop == AFTER_THE_CALL)
        stop_here();
    return result;
}

static int make(void *arg)
{
    struct muster *m;
    struct mu_nccl_call call;
    const struct mu_nccl *real;
    struct mu_nccl wrapped;
    struct mu_nccl_id id;
    enum muster_status status;

    how = arg;
    m = test_join(job.name, 0, how->flags);
    CHECK(m != NULL);
    CHECK(!mu_nccl_open(&real));
    wrapped = *real;
    real_get_unique_id = real->get_unique_id;
    wrapped.get_unique_id = stopping_get_unique_id;
    CHECK(!mu_nccl_call_begin(&call, m, "world"));
    CHECK(!mu_nccl_introduce(&call, &wrapped, 3, 0, 1, NULL));
    status = mu_nccl_take(&call, muster_after_ms(60000), &id);
    if (how->comes_late) {
        CHECK(status == MUSTER_ABORTED && strstr(muster_last_error(), "given up while this task made it"));
        CHECK(!mu_nccl_roots_count());
        mu_nccl_call_done(&call);
        CHECK(!muster_leave(m));
        return 0;
    }
    CHECK(!status);
    stop_here();
    return 1;
}

static void kill_now(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
}

/* ---- who waits --------------------------------------------------------------------------------------------------- */

static int wait_for_id(void *arg)
{
    struct muster *m = test_join(job.name, 1, 0);
    char id[ID];

    (void)arg;
    CHECK(m);
    CHECK(take(m, 3, id, NULL) == MUSTER_UNAVAILABLE);
    CHECK(strstr(muster_last_error(), "task 0 (pid"));
    CHECK(!muster_leave(m));
    return 0;
}

TEST_WITH(a_killed_maker_ends_its_waiters_by_name, setup, teardown)
{
    for (enum stop stop = BEFORE_THE_CALL; stop <= AFTER_THE_CALL; stop++) {
        struct maker maker = {.stop = stop};
        pid_t pid = test_fork(make, &maker), waiter;
        struct muster *m;

        test_gate_await(&gate);
        waiter = test_fork(wait_for_id, NULL);
        test_until_asleep(waiter);
        kill_now(pid);
        assert_int_equal(test_reap(waiter), 0);
        m = test_join(job.name, -1, 0);
        assert_ok(muster_task_reset(m, 0));
        muster_leave(m);
        if (stop == AFTER_THE_CALL)
            assert_int_equal(test_connect_root(made), ECONNREFUSED);
    }
}

static int wait_and_take_over(void *arg)
{
    struct muster *m = test_join(job.name, 1, 0);
    uint64_t generation;
    char id[ID];

    (void)arg;
    CHECK(m);
    CHECK(!take(m, 3, id, &generation));
    CHECK(generation == 2 && mu_nccl_roots_count() == 1 && !test_connect_root(id));
    CHECK(!muster_leave(m));
    return 0;
}

TEST_WITH(a_waiter_takes_over_from_a_maker_that_may_die, setup, teardown)
{
    for (enum stop stop = BEFORE_THE_CALL; stop <= AFTER_THE_CALL; stop++) {
        struct maker maker = {.stop = stop, .flags = MUSTER_JOIN_RECOVERABLE};
        pid_t pid, waiter;

        if (stop == AFTER_THE_CALL) {
            teardown();
            assert_int_equal(setup(), 0);
        }
        pid = test_fork(make, &maker);
        test_gate_await(&gate);
        waiter = test_fork(wait_and_take_over, NULL);
        test_until_asleep(waiter);
        kill_now(pid);
        assert_int_equal(test_reap(waiter), 0);
    }
}

TEST_WITH(a_maker_that_comes_too_late_is_told_and_its_root_ends, setup, teardown)
{
    struct muster *m = test_join(job.name, 1, 0);
    struct maker maker = {.stop = AFTER_THE_CALL, .flags = MUSTER_JOIN_RECOVERABLE, .comes_late = true};
    pid_t pid = test_fork(make, &maker);
    uint64_t generation;
    char id[ID];

    test_gate_await(&gate);
    assert_ok(muster_error_report(m, 0, MUSTER_INTERNAL, "it is too slow"));
    assert_ok(take(m, 3, id, &generation));
    assert_int_equal(generation, 2);
    assert_memory_not_equal(id, made, ID);
    test_gate_release(&gate);
    assert_int_equal(test_reap(pid), 0);
    assert_ok(muster_nccl_check(m, "world", 2));
    muster_leave(m);
}

TEST_WITH(the_deadline_names_the_maker, setup, teardown)
{
    struct muster *m = test_join(job.name, 1, 0);
    struct maker maker = {.stop = BEFORE_THE_CALL};
    pid_t pid = test_fork(make, &maker);
    char id[ID], words[80];

    test_gate_await(&gate);
    assert_status(MUSTER_DEADLINE_EXCEEDED,
                  muster_nccl_unique_id(m, "world", 3, 1, NULL, muster_after_ms(20), id, NULL));
    snprintf(words, sizeof words, "s now: task 0 (pid %d on host ", (int)pid);
    assert_says("the deadline passed while waiting for NCCL id world; who makes it, for ");
    assert_says(words);
    assert_says("): running");
    kill_now(pid);
    muster_leave(m);
}

/* ---- READY ------------------------------------------------------------------------------------------------------- */

TEST_WITH(an_id_whose_maker_died_is_handed_to_nobody, setup, teardown)
{
    struct muster *m = test_join(job.name, 1, 0);
    struct maker maker = {.stop = READY, .flags = MUSTER_JOIN_RECOVERABLE};
    pid_t pid = test_fork(make, &maker);
    uint64_t generation;
    char id[ID];

    test_gate_await(&gate);
    kill_now(pid);
    assert_ok(take(m, 3, id, &generation)); /* at once: the kernel's word, before anybody has cleaned up */
    assert_int_equal(generation, 2);
    assert_memory_not_equal(id, made, ID);
    muster_leave(m);
}

TEST_WITH(who_has_the_id_of_a_dead_maker_is_told, setup, teardown)
{
    struct muster *m = test_join(job.name, 1, 0), *other = test_join(job.name, 2, 0);
    struct maker maker = {.stop = READY, .flags = MUSTER_JOIN_RECOVERABLE};
    pid_t pid = test_fork(make, &maker);
    uint64_t generation;
    char id[ID];

    test_gate_await(&gate);
    assert_ok(take(m, 3, id, &generation));
    assert_memory_equal(id, made, ID);
    assert_ok(muster_nccl_check(m, "world", generation));
    kill_now(pid);
    assert_status(MUSTER_ABORTED, muster_nccl_check(m, "world", generation));
    assert_says("task 0, which made the id, is dead");
    assert_ok(take(m, 3, id, &generation)); /* no double use: that generation is dead */
    assert_int_equal(generation, 2);
    assert_ok(take(other, 3, id, &generation));
    assert_int_equal(generation, 2);
    assert_memory_not_equal(id, made, ID);
    muster_leave(other);
    muster_leave(m);
}

TEST_WITH(where_no_death_is_allowed_the_job_says_who_died, setup, teardown)
{
    struct muster *m = test_join(job.name, 1, 0);
    struct maker maker = {.stop = READY};
    pid_t pid = test_fork(make, &maker);
    char id[ID];

    test_gate_await(&gate);
    kill_now(pid);
    assert_ok(muster_scavenge(m, NULL));
    assert_status(MUSTER_UNAVAILABLE, take(m, 3, id, NULL));
    assert_says("task 0 (pid");
    assert_status(MUSTER_UNAVAILABLE, muster_nccl_check(m, "world", 1));
    assert_says("task 0 (pid");
    muster_leave(m);
}

static int take_and_be_killed(void *arg)
{
    struct muster *m = test_join(job.name, 2, MUSTER_JOIN_RECOVERABLE);
    char id[ID];

    (void)arg;
    CHECK(m && !take(m, 3, id, NULL));
    raise(SIGKILL);
    return 1;
}

TEST_WITH(a_taker_that_dies_ends_the_generation_and_its_root, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0);
    char first[ID], second[ID];
    uint64_t generation;

    assert_ok(take(m, 3, first, &generation));
    assert_int_equal(test_in_child(take_and_be_killed, NULL), 1000 + SIGKILL);
    assert_status(MUSTER_ABORTED, muster_nccl_check(m, "world", generation));
    assert_says("task 2, which is rank 2, is dead");
    assert_int_equal(mu_nccl_roots_count(), 0);
    assert_ok(take(m, 3, second, &generation));
    assert_int_equal(generation, 2);
    assert_memory_not_equal(first, second, ID);
    assert_ok(muster_nccl_abandon(m, "world", generation, "the test has what it wanted"));
    assert_int_equal(mu_nccl_roots_count(), 0);
    muster_leave(m);
}

static struct muster *filler;

/* While the id is made, the segment gets full. */
static int filling_get_unique_id(struct mu_nccl_id *id)
{
    static char value[60000];
    char key[32];

    for (int i = 0;; i++) {
        snprintf(key, sizeof key, "/fill/%d", i);
        if (muster_kv_set(filler, key, MUSTER_NTS, value, sizeof value, NULL))
            break;
    }
    return real_get_unique_id(id);
}

TEST_WITH(an_id_that_a_full_segment_cannot_hold_leaves_nobody_waiting, setup, teardown)
{
    struct muster_segment_config config = {.heap_bytes = 4u << 20};
    struct muster *m, *other;
    const struct mu_nccl *real;
    struct mu_nccl wrapped;
    struct mu_nccl_call call;
    struct mu_nccl_id id;
    struct muster_nccl_info info;

    test_job_end(&job);
    assert_ok(test_job_create(&job, &config));
    m = test_join(job.name, 0, 0);
    other = test_join(job.name, 1, 0);
    filler = test_join(job.name, -1, 0);
    assert_ok(mu_nccl_open(&real));
    wrapped = *real;
    real_get_unique_id = real->get_unique_id;
    wrapped.get_unique_id = filling_get_unique_id;
    assert_ok(mu_nccl_call_begin(&call, m, "world"));
    assert_ok(mu_nccl_introduce(&call, &wrapped, MANY, 0, 1, NULL));
    assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_nccl_take(&call, muster_after_ms(60000), &id));
    mu_nccl_call_done(&call);
    assert_int_equal(mu_nccl_roots_count(), 0);
    assert_ok(muster_nccl_get(m, "world", &info));
    assert_int_equal(info.state, MUSTER_NCCL_NONE);
    assert_ok(muster_kv_delete(m, "/fill", MUSTER_NTS, NULL));
    assert_ok(take(other, MANY, &id, NULL));
    assert_ok(take(m, MANY, &id, NULL));
    assert_ok(muster_nccl_abandon(other, "world", 0, "the test has what it wanted"));
    muster_leave(filler);
    muster_leave(other);
    muster_leave(m);
}

TEST_WITH(who_is_in_error_itself_spoils_nothing, setup, teardown)
{
    struct muster *m = test_join(job.name, 0, 0), *bad = test_join(job.name, 1, MUSTER_JOIN_RECOVERABLE);
    char id[ID];

    assert_ok(take(m, 2, id, NULL));
    assert_ok(muster_error_report(bad, 1, MUSTER_INTERNAL, "it is confused"));
    assert_status(MUSTER_FAILED_PRECONDITION, take(bad, 2, id, NULL));
    assert_says("task 1, the caller, is in error itself");
    assert_ok(muster_nccl_check(m, "world", 1));
    muster_leave(bad);
    muster_leave(m);
}

int main(void)
{
    printf("NCCL %d\n", test_nccl_required());
    return test_run(NULL, NULL);
}
