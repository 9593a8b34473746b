/*
 * bench/tenant.c: a task of `muster run` whose launcher is watched (harness/agent.py): it joins, and then
 *
 *   idle             sleeps, with its heartbeat thread
 *   group, named     comes to barriers of all tasks, one after the other
 *
 * until SECONDS have gone by at task 0. The others stop when that says so, in the barrier's own words: it leaves a key.
 *
 * Usage: tenant idle|group|named SECONDS     (under muster run)
 */
#include "job.h"

enum { MANY = 16 }; /* barriers between two looks at the key */

static void meet(struct muster *muster, struct muster_group *group)
{
    if (group)
        bench_ok(muster_group_barrier(group, muster_after_ms(60000)), "muster_group_barrier");
    else
        bench_ok(muster_barrier_wait(muster, "step", MUSTER_BARRIER_NEXT, NULL, 0, 0, muster_after_ms(60000)),
                 "muster_barrier_wait");
}

int main(int argc, char **argv)
{
    uint64_t end = bench_now_ns();
    struct muster_group *group = NULL;
    struct muster *muster;
    char over = 0;
    size_t len;

    if (argc != 3)
        bench_die("usage: tenant idle|group|named SECONDS");
    end += (uint64_t)(bench_number(argv[2], 0.001, 600) * 1e9);
    bench_ok(muster_join(NULL, &muster), "muster_join");
    bench_ok(muster_barrier_wait(muster, "all", 0, NULL, 0, 0, muster_after_ms(60000)), "the first barrier");
    if (argv[1][0] == 'i') {
        while (bench_now_ns() < end)
            usleep(1000000);
        bench_ok(muster_leave(muster), "muster_leave");
        return 0;
    }
    if (argv[1][0] == 'g')
        bench_ok(muster_group_create(muster, "bench", NULL, 0, 0, muster_after_ms(60000), &group), "group");
    for (uint64_t i = 0; !over; i++) {
        if (muster_task_id(muster) == 0 && i % MANY == 0 && bench_now_ns() >= end)
            bench_ok(muster_kv_set(muster, "over", 4, "y", 1, NULL), "muster_kv_set");
        meet(muster, group);
        if (i % MANY == 0 && muster_kv_try_get(muster, "over", 4, &over, 1, &len, NULL) != MUSTER_OK)
            over = 0;
        if (i % MANY == 0)
            meet(muster, group); /* nobody sets it while another looks */
    }
    muster_group_free(group);
    bench_ok(muster_leave(muster), "muster_leave");
    return 0;
}
