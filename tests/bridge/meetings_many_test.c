/*
 * tests/bridge/meetings_many_test.c: 64 hosts of 8 tasks, each a process, at one barrier.
 * variants: release
 */
#include "cm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <muster/muster.h>

#include "child.h"
#include "hosts.h"

enum { HOSTS = 64, PER_HOST = 8, TASKS = HOSTS * PER_HOST, ROUNDS = 4 };

static struct board {
    _Atomic uint32_t come[ROUNDS]; /* to each instance */
} * board;

static int work(struct muster *m, void *arg)
{
    (void)arg;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        atomic_fetch_add_explicit(&board->come[round], 1, memory_order_seq_cst);
        CHECK(muster_barrier_wait(m, "b", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) == MUSTER_OK);
        CHECK(atomic_load_explicit(&board->come[round], memory_order_seq_cst) == TASKS);
    }
    return 0;
}

TEST(five_hundred_tasks_pass_and_calls_are_few)
{
    struct hosts_config config = {.segment = {.num_buckets = 1024}};
    static pid_t pids[TASKS];
    struct hosts *h;
    uint64_t calls = 0;

    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(board, MAP_FAILED);
    for (uint32_t i = 0; i < HOSTS; i++)
        config.tasks[i] = PER_HOST;
    h = hosts_open(&config);
    for (uint32_t i = 0; i < TASKS; i++)
        pids[i] = hosts_task(h, i, work, NULL);
    for (uint32_t i = 0; i < TASKS; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    for (uint32_t i = 1; i < HOSTS; i++)
        calls += hosts_frames(h, i, MU_FRAME_CALL);
    assert_in_range(calls, (TASKS - PER_HOST) * ROUNDS, (TASKS - PER_HOST) * (ROUNDS + 1));
    assert_int_equal(hosts_close(h), 0);
    munmap(board, sizeof *board);
}
