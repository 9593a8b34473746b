/*
 * tests/event/ring_threads_test.c: events by threads, for ThreadSanitizer.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "child.h"
#include "job.h"

enum { SENDERS = 3, READERS = 2, EACH = 500 };

static struct muster *m;

static void *sends(void *arg)
{
    uint64_t payload[40], last = 0, sequence;

    for (uint64_t i = 0; i < EACH; i++) {
        size_t words = 1 + i % 40;

        for (size_t k = 0; k < words; k++)
            payload[k] = i;
        CHECK(muster_event_send(m, (uint32_t)(uintptr_t)arg, payload, words * 8, &sequence) == MUSTER_OK);
        CHECK(i == 0 || sequence > last);
        last = sequence;
    }
    return NULL;
}

static void *reads(void *arg)
{
    uint64_t position = 0, lost, seen = 0;

    (void)arg;
    while (position < SENDERS * EACH) {
        struct muster_event event;
        uint64_t payload[40];
        enum muster_status status =
            muster_event_read(m, &position, MUSTER_FOREVER, &event, payload, sizeof payload, &lost);

        if (status == MUSTER_OUT_OF_RANGE) {
            seen += lost;
            continue;
        }
        CHECK(status == MUSTER_OK && event.sequence == position - 1 && event.len == (1 + payload[0] % 40) * 8);
        for (size_t k = 0; k < event.len / 8; k++)
            CHECK(payload[k] == payload[0]);
        seen++;
    }
    CHECK(seen == SENDERS * EACH);
    return NULL;
}

int main(void)
{
    struct muster_segment_config config = {.num_events = 4}; /* overrun all the time */
    pthread_t threads[SENDERS + READERS];
    struct test_job job;

    CHECK(test_job_create(&job, &config) == MUSTER_OK);
    m = test_join(job.name, 0, 0);
    CHECK(m != NULL);
    for (uintptr_t i = 0; i < SENDERS + READERS; i++)
        CHECK(pthread_create(&threads[i], NULL, i < SENDERS ? sends : reads, (void *)i) == 0);
    for (int i = 0; i < SENDERS + READERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(muster_leave(m) == MUSTER_OK);
    CHECK(test_job_end(&job) == 0);
    return 0;
}
