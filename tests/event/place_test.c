/*
 * tests/event/place_test.c: a follower's ring, filled under the numbers that the leader gave, in order, again, and
 * after an absence that was longer than the ring is.
 */
#include "cm.h"

#include <stdio.h>
#include <string.h>

#include "event/ring.h"
#include "job.h"
#include "segment/file.h"
#include "segment/handle.h"
#include "segment/hosts.h"
#include "task/task.h"

enum { RING = 16 };
static const uint32_t tasks[] = {1, 1};
static struct test_job job;
static struct muster *m;
static struct mu_ctx *ctx;

static int setup(void)
{
    const struct mu_hosts_config hosts = {.num_hosts = 2, .host = 1, .num_tasks = tasks, .run_id = {7, 8}};
    const struct muster_segment_config config = {
        .num_tasks = 2, .num_slots = 8, .num_buckets = 64, .num_events = RING, .heap_bytes = 1 << 20};

    test_name(job.name, "h1");
    if (mu_segment_create_hosts(job.name, &config, &hosts, true, &job.segment))
        return -1;
    return mu_task_join_open(job.segment, &m) ? -1 : 0;
}

static int teardown(void)
{
    muster_leave(m);
    return test_job_end(&job) ? -1 : 0;
}

static void place(uint64_t from, uint64_t to)
{
    assert_ok(mu_enter(m, &ctx));
    for (uint64_t i = from; i < to; i++) {
        struct mu_event_record r = {.sequence = i, .time_ns = i + 1, .task = 1, .type = (uint32_t)i, .number = i};
        char text[32];

        snprintf(text, sizeof text, "event %u", (unsigned)i);
        assert_ok(mu_event_place(ctx, &r, text, strlen(text) + 1));
    }
    mu_exit(ctx);
}

static uint64_t tail(void)
{
    uint64_t n;

    assert_ok(muster_event_next(m, &n));
    return n;
}

static void read_all(uint64_t from, uint64_t to)
{
    uint64_t position = from;

    while (position < to) {
        struct muster_event e;
        char text[32], expected[32];
        uint64_t number = position;

        assert_ok(muster_event_read(m, &position, 0, &e, text, sizeof text, NULL));
        snprintf(expected, sizeof expected, "event %u", (unsigned)number);
        assert_string_equal(text, expected);
        assert_int_equal(e.sequence, number);
        assert_int_equal(e.task_id, 0);
    }
}

TEST_WITH(events_come_under_their_numbers, setup, teardown)
{
    struct mu_event_record r;
    char buffer[MUSTER_EVENT_MAX];
    size_t len;

    place(0, 5);
    assert_int_equal(tail(), 5);
    read_all(0, 5);
    place(3, 5 * RING + 3); /* those that are there are left alone */
    assert_int_equal(tail(), 5 * RING + 3);
    read_all(4 * RING + 3, 5 * RING + 3);
    place(0, 5 * RING); /* and those that were overwritten */
    read_all(4 * RING + 3, 5 * RING + 3);
    assert_ok(mu_event_copy(m->seg, 5 * RING, &r, buffer, &len));
    assert_int_equal(r.number, 5 * RING);
    assert_string_equal(buffer, "event 80");
    assert_int_equal(len, 9);
    assert_status(MUSTER_NOT_FOUND, mu_event_copy(m->seg, 5 * RING + 3, &r, buffer, &len));
    assert_status(MUSTER_OUT_OF_RANGE, mu_event_copy(m->seg, 2, &r, buffer, &len));
}

/* Events left out are lost for the readers, who are told how many, whatever rounds of the ring lie between. */
TEST_WITH(after_a_long_absence_readers_are_told_what_is_lost, setup, teardown)
{
    static const uint64_t rounds[] = {1, 2, 1000, 1u << 30};
    uint64_t at = 0;

    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        uint64_t last = at + 5, from = last + (rounds[i] - 1) * RING + 7, position = last, lost = 0;
        struct muster_event e;
        char text[32];

        place(at, last);
        assert_status(MUSTER_DEADLINE_EXCEEDED, muster_event_read(m, &position, 0, &e, text, sizeof text, &lost));
        place(from, from + RING / 2); /* an agent that dies here */
        assert_true(tail() == last || tail() == from + RING / 2);
        place(from, from + RING);
        assert_int_equal(tail(), from + RING);
        assert_status(MUSTER_OUT_OF_RANGE, muster_event_read(m, &position, 0, &e, text, sizeof text, &lost));
        assert_int_equal(lost, from - last);
        assert_int_equal(position, from);
        read_all(from, from + RING);
        at = from + RING;
    }
}
