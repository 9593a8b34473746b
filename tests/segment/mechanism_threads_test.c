/*
 * tests/segment/mechanism_threads_test.c: slots, heap, pins and the scavenger by threads, for ThreadSanitizer. Threads
 * claim slots, write, read large values in place, and end, while another scavenges all the time.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "job.h"

enum { WRITERS = 3, LIVES = 12, STEPS = 25 };

static struct muster *m;
static volatile int writers_left = WRITERS; /* under the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int left(int change)
{
    int n;

    pthread_mutex_lock(&lock);
    n = writers_left += change;
    pthread_mutex_unlock(&lock);
    return n;
}

static void *one_life(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    unsigned char *value = malloc(140000);

    for (int i = 0; i < STEPS; i++) {
        size_t len = 1 + (size_t)(i * 37 % 100) * (i % 5 ? 1 : 1399);

        memset(value, (int)(me * 64 + (uintptr_t)i), len);
        CHECK(muster_kv_set(m, i % 2 ? "a" : "b", 1, value, len, NULL) == MUSTER_OK);
        CHECK(muster_kv_get(m, i % 2 ? "b" : "a", 1, 1, value, 140000, &len, NULL) != MUSTER_DATA_LOSS);
        for (size_t k = 1; k < len; k++)
            CHECK(value[k] == value[0]);
    }
    free(value);
    return NULL;
}

static void *many_lives(void *arg)
{
    for (int i = 0; i < LIVES; i++) {
        pthread_t thread;

        CHECK(pthread_create(&thread, NULL, one_life, arg) == 0);
        pthread_join(thread, NULL);
    }
    left(-1);
    return NULL;
}

static void *scavenges(void *arg)
{
    (void)arg;
    while (left(0))
        CHECK(muster_scavenge(m, NULL) == MUSTER_OK);
    return NULL;
}

static void *audits(void *arg)
{
    struct muster_audit sum;

    while (left(0))
        CHECK(muster_segment_check(arg, NULL, NULL, &sum) == MUSTER_OK && sum.problems == 0);
    return NULL;
}

int main(void)
{
    struct muster_segment_config config = {.num_buckets = 1, .heap_bytes = 8 << 20};
    pthread_t threads[WRITERS + 2];
    struct test_job job;

    CHECK(test_job_create(&job, &config) == MUSTER_OK);
    m = test_join(job.name, 0, TEST_WITH_HEARTBEAT);
    CHECK(m != NULL);
    CHECK(muster_kv_set(m, "a", 1, "x", 1, NULL) == MUSTER_OK);
    CHECK(muster_kv_set(m, "b", 1, "x", 1, NULL) == MUSTER_OK);
    for (uintptr_t i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&threads[i], NULL, many_lives, (void *)i) == 0);
    CHECK(pthread_create(&threads[WRITERS], NULL, scavenges, NULL) == 0);
    CHECK(pthread_create(&threads[WRITERS + 1], NULL, audits, job.segment) == 0);
    for (int i = 0; i < WRITERS + 2; i++)
        pthread_join(threads[i], NULL);
    CHECK(muster_leave(m) == MUSTER_OK);
    CHECK(test_job_end(&job) == 0);
    return 0;
}
