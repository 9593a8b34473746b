/*
 * tests/kv/store_threads_test.c: the store by threads, for ThreadSanitizer: everything conflicts with everything.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "job.h"
#include "seed.h"

enum { THREADS = 4, STEPS = 400, KEYS = 6 };

static struct muster *m;
static struct test_job job;
static uint64_t seed;

/* A value is its length's worth of one byte. */
static size_t make(unsigned char *value, struct test_random *r)
{
    static const size_t sizes[] = {1, 8, 60, 61, 700, 5000, 66000, 140000};
    size_t len = sizes[test_below(r, test_below(r, 8) ? 5 : 8)];

    memset(value, (int)test_below(r, 256), len);
    return len;
}

static void is_whole(const unsigned char *value, size_t len)
{
    for (size_t i = 1; i < len; i++)
        CHECK(value[i] == value[0]);
}

static void one_step(struct test_random *r, unsigned char *value, uint64_t *versions)
{
    char key[32];
    size_t k = test_below(r, KEYS), len, n;
    uint64_t version = 0;
    enum muster_status status;
    struct muster_kv_list *list;

    snprintf(key, sizeof key, "k/%zu", k);
    switch (test_below(r, 12)) {
    case 0: CHECK(muster_kv_delete(m, key, MUSTER_NTS, NULL) == MUSTER_OK); return;
    case 1:
        status = muster_kv_insert(m, key, MUSTER_NTS, value, make(value, r));
        CHECK(status == MUSTER_OK || status == MUSTER_ALREADY_EXISTS);
        return;
    case 2: CHECK(muster_kv_increment(m, "sum", 3, 1, NULL) == MUSTER_OK); return;
    case 3:
        status = muster_kv_compare_and_set(m, key, MUSTER_NTS, versions[k], value, make(value, r), &versions[k]);
        CHECK(status == MUSTER_OK || status == MUSTER_ABORTED);
        return;
    case 4:
        status = muster_kv_get_dir(m, "k", 1, &list);
        CHECK(status == MUSTER_OK || status == MUSTER_ABORTED);
        for (size_t i = 0; !status && i < list->count; i++)
            is_whole(list->entries[i].value, list->entries[i].value_len);
        if (!status)
            muster_kv_list_free(list);
        return;
    case 5:
        status =
            muster_kv_watch(m, key, MUSTER_NTS, 0, muster_after_ns(test_below(r, 100000)), value, 150000, &n, NULL);
        CHECK(status == MUSTER_OK || status == MUSTER_DEADLINE_EXCEEDED);
        return;
    case 6:
    case 7:
    case 8:
        len = make(value, r);
        CHECK(muster_kv_set(m, key, MUSTER_NTS, value, len, &version) == MUSTER_OK);
        CHECK(version > versions[k]); /* what this thread saw before was older */
        versions[k] = version;
        return;
    default:
        status = muster_kv_try_get(m, key, MUSTER_NTS, value, 150000, &len, &version);
        CHECK(status == MUSTER_OK || status == MUSTER_NOT_FOUND);
        if (status)
            return;
        is_whole(value, len);
        CHECK(version >= versions[k]);
        versions[k] = version;
    }
}

static void *works(void *arg)
{
    struct test_random r = {seed + (uintptr_t)arg};
    unsigned char *value = malloc(150000);
    uint64_t versions[KEYS] = {0};

    for (int i = 0; i < STEPS; i++)
        one_step(&r, value, versions);
    free(value);
    return NULL;
}

/* Two by two: each waits for the other's key. */
static void *plays_ping_pong(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    char mine[32], others[32];
    size_t len;
    int value;

    snprintf(mine, sizeof mine, "ball/%d", (int)me);
    snprintf(others, sizeof others, "ball/%d", (int)(me ^ 1));
    for (int i = 0; i < 60; i++) {
        uint64_t version = 0;

        CHECK(muster_kv_set(m, mine, MUSTER_NTS, &i, sizeof i, NULL) == MUSTER_OK);
        do
            CHECK(muster_kv_watch(m, others, MUSTER_NTS, version, MUSTER_FOREVER, &value, sizeof value, &len,
                                  &version) == MUSTER_OK);
        while (value < i);
    }
    return NULL;
}

static void run(void *(*fn)(void *))
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, fn, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    struct muster_segment_config config = {.num_buckets = 2}; /* everybody meets in the same two words */

    seed = test_seed();
    CHECK(test_job_create(&job, &config) == MUSTER_OK);
    m = test_join(job.name, 0, TEST_WITH_HEARTBEAT);
    CHECK(m != NULL);
    run(works);
    run(plays_ping_pong);
    CHECK(muster_leave(m) == MUSTER_OK);
    CHECK(test_job_end(&job) == 0);
    return 0;
}
