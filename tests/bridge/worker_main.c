/*
 * tests/bridge/worker_main.c: a task of a job of several hosts: worker ROUNDS [FILE].
 *
 * Each round it counts the job's counter up, meets all others, and reads the counter afresh on the leader: all of the
 * round must be in it. When FILE exists, task 0 says by a key that this round is the last, before it meets the
 * others: all of them must see that behind the barrier, and end after the same round. What goes wrong is said with the
 * library's sentence; exit status 7.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

static int fail(const char *what)
{
    printf("failed: %s: %s\n", what, muster_last_error());
    return 7;
}

int main(int argc, char **argv)
{
    long rounds = argc >= 2 ? strtol(argv[1], NULL, 10) : 0;
    struct muster *m;
    int64_t count;
    long last;
    size_t len;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (muster_join(NULL, &m) != MUSTER_OK)
        return fail("join");
    for (long i = 0; i < rounds; i++) {
        int64_t least = (i + 1) * (int64_t)muster_num_tasks(m);

        if (muster_kv_increment(m, "count", MUSTER_NTS, 1, NULL) != MUSTER_OK)
            return fail("increment");
        if (argc == 3 && muster_task_id(m) == 0 && access(argv[2], F_OK) == 0 &&
            muster_kv_insert(m, "over", MUSTER_NTS, &i, sizeof i) != MUSTER_OK)
            return fail("insert");
        if (muster_barrier_wait(m, "round", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) != MUSTER_OK)
            return fail("barrier");
        if (muster_kv_increment(m, "count", MUSTER_NTS, 0, &count) != MUSTER_OK)
            return fail("read");
        if (count < least) {
            printf("failed: the counter is %" PRId64 " after round %ld, and %" PRId64 " is the least\n", count, i,
                   least);
            return 8;
        }
        printf("round %ld\n", i);
        if (argc == 3 && muster_kv_try_get(m, "over", MUSTER_NTS, &last, sizeof last, &len, NULL) == MUSTER_OK &&
            last <= i) /* else it is already of the round that comes */
            break;
    }
    if (muster_barrier_wait(m, "end", 0, NULL, 0, 0, MUSTER_FOREVER) != MUSTER_OK)
        return fail("the last barrier");
    if (muster_kv_increment(m, "count", MUSTER_NTS, 0, &count) != MUSTER_OK)
        return fail("the last read");
    printf("count %" PRId64 "\n", count);
    return muster_leave(m) == MUSTER_OK ? 0 : fail("leave");
}
