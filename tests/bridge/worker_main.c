/*
 * tests/bridge/worker_main.c: a task of a job of several hosts: worker ROUNDS [FILE].
 *
 * Each round it counts the job's counter up, meets all others, and reads the counter afresh on the leader: all of the
 * round must be in it. When FILE exists, task 0 says by a key that this round is the last, before it meets the
 * others: all of them must see that behind the barrier, and end after the same round. What goes wrong is said with the
 * library's sentence; exit status 7. With WORKER_DOES=all in the environment each also adds numbers up in a group of
 * all, passes its barrier, sets a key of its own, which all others read behind the named barrier, and sends an event,
 * of which none may be missing. With WORKER_DOES=late one of them, each in its turn, comes late to the group's barrier;
 * with WORKER_DOES=swift all pass that of another group a hundred times, before they come to it. With WORKER_DOES=pair
 * all but the last task do nothing but pass the barrier of a group of theirs, ROUNDS times.
 */
#include <inttypes.h>
#include <stdbool.h>
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

static struct {
    bool does, late, swift;
    struct muster_group *g, *bare; /* bare: nobody gives anything there */
    uint64_t position;             /* of events */
    uint32_t seen, seen_next;      /* events of this round, and of the one that comes */
} all;

static int begin_all(struct muster *m)
{
    const char *does = getenv("WORKER_DOES");

    all.late = does && strcmp(does, "late") == 0;
    all.swift = does && strcmp(does, "swift") == 0;
    all.does = all.late || all.swift || (does && strcmp(does, "all") == 0);
    if (!all.does)
        return 0;
    if (muster_event_next(m, &all.position) != MUSTER_OK) /* nobody sends one before all are in the group */
        return fail("events");
    if (all.swift && muster_group_create(m, "bare", NULL, 0, 0, MUSTER_FOREVER, &all.bare) != MUSTER_OK)
        return fail("bare group");
    return muster_group_create(m, "all", NULL, 0, 0, MUSTER_FOREVER, &all.g) == MUSTER_OK ? 0 : fail("group");
}

/* All have counted this round before they came here, and nobody counts the next one before the named barrier. */
static int meet_group(struct muster *m, long i)
{
    int64_t tasks = muster_num_tasks(m), count;

    if (all.late && i % tasks == muster_task_id(m))
        usleep(20000); /* sleep: so long the others wait for it */
    for (int k = 0; all.swift && k < 100; k++)
        if (muster_group_barrier(all.bare, MUSTER_FOREVER) != MUSTER_OK)
            return fail("bare group's barrier");
    if (muster_group_barrier(all.g, MUSTER_FOREVER) != MUSTER_OK)
        return fail("group barrier");
    if (muster_kv_increment(m, "count", MUSTER_NTS, 0, &count) != MUSTER_OK)
        return fail("read");
    if (count == (i + 1) * tasks)
        return 0;
    printf("failed: behind the group's barrier of round %ld the counter is %" PRId64 "\n", i, count);
    return 8;
}

static int before_barrier(struct muster *m, long i)
{
    int64_t tasks = muster_num_tasks(m), sum = i * tasks + muster_task_id(m);
    char key[32];

    if (muster_group_allreduce(all.g, &sum, 1, MUSTER_TYPE_INT64, MUSTER_OP_SUM, MUSTER_FOREVER) != MUSTER_OK)
        return fail("allreduce");
    if (sum != i * tasks * tasks + tasks * (tasks - 1) / 2) {
        printf("failed: the sum of round %ld is %" PRId64 "\n", i, sum);
        return 8;
    }
    if (meet_group(m, i))
        return 7;
    snprintf(key, sizeof key, "of/%d", (int)muster_task_id(m));
    if (muster_kv_set(m, key, MUSTER_NTS, &i, sizeof i, NULL) != MUSTER_OK)
        return fail("set");
    return muster_event_send(m, (uint32_t)i, NULL, 0, NULL) == MUSTER_OK ? 0 : fail("event");
}

static int read_events(struct muster *m, long i)
{
    while (all.seen < (uint32_t)muster_num_tasks(m)) {
        struct muster_event e;
        uint64_t lost = 0;

        if (muster_event_read(m, &all.position, MUSTER_FOREVER, &e, NULL, 0, &lost) != MUSTER_OK || lost)
            return fail("event read");
        all.seen += e.type == (uint32_t)i;
        all.seen_next += e.type == (uint32_t)i + 1;
    }
    all.seen = all.seen_next;
    all.seen_next = 0;
    return 0;
}

static int behind_barrier(struct muster *m, long i)
{
    for (int32_t task = 0; task < (int32_t)muster_num_tasks(m); task++) {
        char key[32];
        long value;

        snprintf(key, sizeof key, "of/%d", (int)task);
        if (muster_kv_get(m, key, MUSTER_NTS, MUSTER_FOREVER, &value, sizeof value, NULL, NULL) != MUSTER_OK)
            return fail("get");
        if (value < i) {
            printf("failed: behind round %ld the key of task %d is of round %ld\n", i, (int)task, value);
            return 8;
        }
    }
    return read_events(m, i);
}

static int pass_pair(struct muster *m, long rounds)
{
    int32_t tasks[64], count = (int32_t)muster_num_tasks(m) - 1;
    struct muster_group *g;

    for (int32_t i = 0; i < count; i++)
        tasks[i] = i;
    if (muster_task_id(m) == count)
        return muster_leave(m) != MUSTER_OK;
    if (muster_group_create(m, "pair", tasks, (size_t)count, 0, MUSTER_FOREVER, &g) != MUSTER_OK)
        return fail("group");
    for (long i = 0; i < rounds; i++) {
        if (muster_group_barrier(g, MUSTER_FOREVER) != MUSTER_OK)
            return fail("barrier");
        if (i % 10 == 0 && muster_kv_increment(m, "count", MUSTER_NTS, 1, NULL) != MUSTER_OK)
            return fail("increment");
        usleep(1000); /* sleep: its agent is to see it come, now and then */
    }
    muster_group_free(g);
    return muster_leave(m) != MUSTER_OK;
}

int main(int argc, char **argv)
{
    const char *does = getenv("WORKER_DOES");
    long rounds = argc >= 2 ? strtol(argv[1], NULL, 10) : 0;
    struct muster *m;
    int64_t count;
    long last;
    size_t len;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (muster_join(NULL, &m) != MUSTER_OK)
        return fail("join");
    if (does && strcmp(does, "pair") == 0)
        return pass_pair(m, rounds);
    if (begin_all(m))
        return 7;
    for (long i = 0; i < rounds; i++) {
        int64_t least = (i + 1) * (int64_t)muster_num_tasks(m);

        if (muster_kv_increment(m, "count", MUSTER_NTS, 1, NULL) != MUSTER_OK)
            return fail("increment");
        if (all.does && before_barrier(m, i))
            return 7;
        if (argc == 3 && muster_task_id(m) == 0 && access(argv[2], F_OK) == 0 &&
            muster_kv_insert(m, "over", MUSTER_NTS, &i, sizeof i) != MUSTER_OK)
            return fail("insert");
        if (muster_barrier_wait(m, "round", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER) != MUSTER_OK)
            return fail("barrier");
        if (all.does && behind_barrier(m, i))
            return 7;
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
