/*
 * tests/bridge/meetings_faults_test.c: named barriers over hosts whose connections break and whose agents die, the
 * leader's too: nobody is released early, nobody counts twice, all who return from an instance return the same.
 */
#include "cast.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <muster/muster.h>

#include "child.h"

enum { TASKS = 5, ROUNDS = 60, FAULTS = 60 };

/* What the tasks tell the test, and each other. */
static struct board {
    _Atomic uint32_t at[TASKS];                 /* the instance that it is about to enter, or is in, + 1 */
    _Atomic uint32_t arrivals[TASKS];           /* calls that it made */
    _Atomic uint32_t result[ROUNDS + 1][TASKS]; /* status + 1 */
    _Atomic uint32_t ended;
} * board;

static bool all_have_come(uint32_t round)
{
    for (uint32_t i = 0; i < TASKS; i++)
        if (atomic_load_explicit(&board->at[i], memory_order_seq_cst) < round + 1)
            return false;
    return true;
}

/*
 * One instance, with as many calls as it takes: whoever has given up hears of it by the next call, before anybody goes
 * on to the next instance: for that there is the other barrier.
 */
static enum muster_status pass(struct muster *m, struct test_random *r, uint32_t round)
{
    uint32_t me = (uint32_t)muster_task_id(m);

    for (;;) {
        uint64_t counter = test_below(r, 2) ? round : MUSTER_BARRIER_NEXT;
        uint64_t kind = test_below(r, 8);
        muster_deadline deadline = kind == 0 ? 1 : kind == 1 ? muster_after_ns(test_below(r, 3000000)) : MUSTER_FOREVER;
        enum muster_status status = muster_barrier_wait(m, "b", counter, NULL, 0, 0, deadline);

        atomic_fetch_add_explicit(&board->arrivals[me], 1, memory_order_relaxed);
        if (status != MUSTER_DEADLINE_EXCEEDED)
            return status ? status : muster_barrier_wait(m, "c", round, NULL, 0, 0, MUSTER_FOREVER);
        CHECK(deadline != MUSTER_FOREVER);
    }
}

static int work(struct muster *m, void *arg)
{
    struct test_random r = {test_seed() + (uint64_t)muster_task_id(m)};
    uint32_t me = (uint32_t)muster_task_id(m), rounds = *(uint32_t *)arg;

    for (uint32_t round = 0; round < rounds; round++) {
        enum muster_status status;

        atomic_store_explicit(&board->at[me], round + 1, memory_order_seq_cst);
        status = pass(m, &r, round);
        atomic_store_explicit(&board->result[round][me], (uint32_t)status + 1, memory_order_seq_cst);
        if (status) {
            printf("task %u, round %u: %s: %s\n", me, round, muster_status_name(status), muster_last_error());
            break;
        }
        CHECK(all_have_come(round));
    }
    atomic_fetch_add_explicit(&board->ended, 1, memory_order_seq_cst);
    return 0;
}

/* A fault may come after the last mending. */
static bool have_ended(uint32_t wanted)
{
    hosts_mend(cast_hosts);
    return atomic_load_explicit(&board->ended, memory_order_seq_cst) >= wanted;
}

static void fault(struct test_random *r)
{
    uint32_t host = 1 + (uint32_t)test_below(r, 2);

    switch (test_below(r, 6)) {
    case 0: hosts_cut(cast_hosts, host); break;
    case 1: hosts_cut_after(cast_hosts, host, (uint32_t)test_below(r, 12)); break;
    case 2: hosts_kill(cast_hosts, host); break;
    case 3: hosts_kill(cast_hosts, 0); break;
    case 4: hosts_kill_after(cast_hosts, host, (uint32_t)test_below(r, 12)); break;
    default: hosts_kill_after(cast_hosts, 0, (uint32_t)test_below(r, 12)); break;
    }
}

static bool progress_or_end(uint32_t wanted)
{
    return have_ended(TASKS) || atomic_load_explicit(&board->at[0], memory_order_seq_cst) >= wanted;
}

static void board_open(void)
{
    if (!board)
        board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(board, MAP_FAILED);
    memset(board, 0, sizeof *board);
    cast_open(&(struct hosts_config){.tasks = {1, 2, 2}});
}

TEST(nobody_is_early_and_nobody_counts_twice)
{
    struct test_random r = {test_seed()};
    uint32_t rounds = ROUNDS, calls = 0;
    pid_t pids[TASKS];

    board_open();
    for (uint32_t i = 0; i < TASKS; i++)
        pids[i] = hosts_task(cast_hosts, i, work, &rounds);
    for (uint32_t i = 0; i < TASKS; i++)
        cast_until_known(i, true);
    for (uint32_t i = 0; i < FAULTS && !have_ended(TASKS); i++) {
        uint32_t wanted = atomic_load_explicit(&board->at[0], memory_order_seq_cst) + 1;

        fault(&r);
        hosts_mend(cast_hosts);
        if (test_below(&r, 2))
            hosts_await(cast_hosts, progress_or_end(wanted), "progress, or the end");
    }
    hosts_await(cast_hosts, have_ended(TASKS), "all have ended");
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(hosts_reap(cast_hosts, pids[i]), 0);
        calls += atomic_load_explicit(&board->arrivals[i], memory_order_relaxed);
        for (uint32_t round = 0; round < ROUNDS; round++)
            assert_int_equal(atomic_load_explicit(&board->result[round][i], memory_order_seq_cst), MUSTER_OK + 1);
    }
    printf("%u calls for %u arrivals\n", calls, TASKS * ROUNDS);
    cast_close();
}

TEST(a_death_among_faults_is_one_outcome_for_all)
{
    struct test_random r = {test_seed() ^ 0x5eed};
    uint32_t rounds = ROUNDS + 1, survivors = TASKS - 1;

    for (int time = 0; time < 6; time++) {
        uint32_t victim = (uint32_t)test_below(&r, TASKS), failed = 0;
        uint32_t wanted = 1 + (uint32_t)test_below(&r, 10);
        pid_t pids[TASKS];

        board_open();
        for (uint32_t i = 0; i < TASKS; i++)
            pids[i] = hosts_task(cast_hosts, i, work, &rounds);
        for (uint32_t i = 0; i < TASKS; i++)
            cast_until_known(i, true);
        hosts_await(cast_hosts, progress_or_end(wanted), "progress, or the end");
        fault(&r);
        cast_kill_pid(victim, pids[victim]);
        hosts_mend(cast_hosts);
        hosts_await(cast_hosts, have_ended(survivors), "all have ended");
        for (uint32_t i = 0; i < TASKS; i++)
            if (i != victim)
                assert_int_equal(hosts_reap(cast_hosts, pids[i]), 0);
        for (uint32_t round = 0; round < rounds; round++) {
            uint32_t result = 0;

            for (uint32_t i = 0; i < TASKS; i++) {
                uint32_t got = atomic_load_explicit(&board->result[round][i], memory_order_seq_cst);

                if (!got || i == victim)
                    continue;
                if (result)
                    assert_int_equal(got, result); /* one outcome */
                result = got;
                failed += got != MUSTER_OK + 1;
            }
        }
        assert_int_equal(failed, survivors); /* each of them, once */
        cast_close();
    }
}
