/*
 * tests/event/ring_test.c: events are numbered without holes, whoever sends; readers are told exactly what they lost.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "job.h"
#include "segment/heap.h"
#include "segment/handle.h"

static struct test_job job;
static struct muster *m;
enum { RING = 16 };

static int setup(void)
{
    if (test_job_create(&job, NULL))
        return -1;
    m = test_join(job.name, 2, 0);
    return m ? 0 : -1;
}

static int teardown(void)
{
    muster_leave(m);
    return test_job_end(&job) ? -1 : 0;
}

static void send_numbers(uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        uint64_t sequence;

        assert_ok(muster_event_send(m, (uint32_t)i, &i, sizeof i, &sequence));
        assert_int_equal(sequence, i);
    }
}

TEST_WITH(an_event_carries_its_number_sender_type_time_and_payload, setup, teardown)
{
    struct muster *observer = test_join(job.name, -1, 0);
    uint64_t sequence = 77, position = 0, before = muster_now_ns();
    struct muster_event event;
    char buffer[16] = "";

    assert_ok(muster_event_next(m, &sequence));
    assert_int_equal(sequence, 0);
    assert_ok(muster_event_send(m, 7, "hello", 5, &sequence));
    assert_int_equal(sequence, 0);
    assert_ok(muster_event_send(observer, UINT32_MAX, NULL, 0, NULL));
    assert_ok(muster_event_next(m, &sequence));
    assert_int_equal(sequence, 2);
    assert_ok(muster_event_read(m, &position, 1, &event, buffer, sizeof buffer, NULL));
    assert_int_equal(position, 1);
    assert_int_equal(event.sequence, 0);
    assert_int_equal(event.task_id, 2);
    assert_int_equal(event.type, 7);
    assert_int_equal(event.len, 5);
    assert_string_equal(buffer, "hello");
    assert_true(event.time_ns >= before && event.time_ns <= muster_now_ns());
    assert_ok(muster_event_read(m, &position, 1, &event, NULL, 0, NULL));
    assert_int_equal(event.task_id, -1);
    assert_int_equal(event.type, UINT32_MAX);
    assert_int_equal(event.len, 0);
    assert_status(MUSTER_DEADLINE_EXCEEDED, muster_event_read(m, &position, 1, &event, NULL, 0, NULL));
    assert_says("event 2");
    assert_null(strstr(muster_last_error(), "who could")); /* nobody has been waited for */
    assert_status(MUSTER_DEADLINE_EXCEEDED, muster_event_read(m, &position, muster_after_ms(5), &event, NULL, 0, NULL));
    assert_says("the deadline passed while waiting for event 2; who could send it: task 0 (on host ");
    assert_says("): never joined; task 1 (on host ");
    assert_null(strstr(muster_last_error(), "task 2 ")); /* that is who waits */
    assert_int_equal(position, 2);
    muster_leave(observer);
}

TEST_WITH(payloads_of_every_length_come_back_and_longer_ones_are_cut, setup, teardown)
{
    static char payload[MUSTER_EVENT_MAX + 1], buffer[MUSTER_EVENT_MAX + 8];
    static const size_t sizes[] = {1, 7, 8, 9, 63, 64, 1000, 8191, MUSTER_EVENT_MAX - 1, MUSTER_EVENT_MAX};
    uint64_t position = 0, sequence;
    struct muster_event event;

    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (char)(i * 7);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_ok(muster_event_send(m, 0, payload, sizes[i], &sequence));
        for (size_t cut = 0; cut <= sizes[i] + 1; cut += 1 + cut * 3 / 4) {
            position = sequence;
            memset(buffer, '~', sizeof buffer);
            assert_ok(muster_event_read(m, &position, 1, &event, buffer, cut, NULL));
            assert_int_equal(event.len, sizes[i]);
            assert_memory_equal(buffer, payload, cut < sizes[i] ? cut : sizes[i]);
            assert_int_equal(buffer[cut < sizes[i] ? cut : sizes[i]], '~');
        }
    }
    assert_status(MUSTER_INVALID_ARGUMENT, muster_event_send(m, 0, payload, MUSTER_EVENT_MAX + 1, NULL));
    assert_says("16385");
    assert_status(MUSTER_INVALID_ARGUMENT, muster_event_send(m, 0, NULL, 3, NULL));
    assert_ok(muster_event_send(m, 0, "text", MUSTER_NTS, &sequence));
    position = sequence;
    assert_ok(muster_event_read(m, &position, 1, &event, buffer, sizeof buffer, NULL));
    assert_int_equal(event.len, 4);
}

TEST_WITH(a_reader_that_falls_behind_is_told_how_many_it_lost, setup, teardown)
{
    struct muster_event event;
    uint64_t lost = 99, position, value;

    for (uint64_t behind = 0; behind < 60; behind++) {
        uint64_t from;

        assert_ok(muster_event_next(m, &from));
        send_numbers(from, from + RING + behind);
        position = from;
        if (behind) {
            assert_status(MUSTER_OUT_OF_RANGE,
                          muster_event_read(m, &position, MUSTER_FOREVER, &event, &value, sizeof value, &lost));
            assert_int_equal(lost, behind);
            assert_int_equal(position, from + behind);
        }
        for (uint64_t i = from + behind; i < from + behind + RING; i++) {
            assert_ok(muster_event_read(m, &position, 1, &event, &value, sizeof value, &lost));
            assert_int_equal(lost, 0);
            assert_int_equal(event.sequence, i);
            assert_int_equal(value, i);
        }
    }
}

TEST_WITH(a_position_from_the_future_waits, setup, teardown)
{
    struct muster_event event;
    uint64_t position = 1000000, huge = UINT64_MAX - 5;

    send_numbers(0, 5);
    assert_status(MUSTER_DEADLINE_EXCEEDED, muster_event_read(m, &position, 1, &event, NULL, 0, NULL));
    assert_int_equal(position, 1000000);
    assert_true(muster_event_read(m, &huge, 1, &event, NULL, 0, NULL) != MUSTER_OK);
}

enum { SENDERS = 4, EACH = 1500 };

struct mark {
    uint32_t sender, number;
};

static int sends(void *arg)
{
    struct muster *mine = test_join(job.name, -1, 0);
    uint64_t last = 0, sequence;

    CHECK(mine != NULL);
    for (uint32_t i = 0; i < EACH; i++) {
        struct mark mark = {*(uint32_t *)arg, i};

        CHECK(muster_event_send(mine, mark.sender, &mark, sizeof mark, &sequence) == MUSTER_OK);
        CHECK(i == 0 || sequence > last);
        last = sequence;
    }
    CHECK(muster_leave(mine) == MUSTER_OK);
    return 0;
}

/* Reads all that comes until everybody has sent everything; every number once, lost ones counted. */
static int reads_everything(void *arg)
{
    struct muster *mine = test_join(job.name, -1, *(int *)arg ? MUSTER_JOIN_READ_ONLY : 0);
    uint64_t position = 0, lost = 0, total = 0, next[SENDERS] = {0};

    CHECK(mine != NULL);
    while (position < SENDERS * EACH) {
        struct muster_event event;
        struct mark mark;
        uint64_t before = position;
        enum muster_status status =
            muster_event_read(mine, &position, MUSTER_FOREVER, &event, &mark, sizeof mark, &lost);

        if (status == MUSTER_OUT_OF_RANGE) {
            CHECK(lost > 0 && position == before + lost);
            total += lost;
            continue;
        }
        CHECK(status == MUSTER_OK && event.sequence == before && position == before + 1);
        CHECK(event.len == sizeof mark && mark.sender < SENDERS && mark.sender == event.type);
        CHECK(mark.number >= next[mark.sender]); /* each sender's own order is kept */
        next[mark.sender] = mark.number + 1;
        total++;
    }
    CHECK(total == SENDERS * EACH);
    CHECK(muster_leave(mine) == MUSTER_OK);
    return 0;
}

TEST_WITH(numbers_of_four_sending_processes_have_no_holes_and_readers_account_for_all, setup, teardown)
{
    uint32_t numbers[SENDERS] = {0, 1, 2, 3};
    int read_only[2] = {0, 1};
    pid_t senders[SENDERS], readers[2];
    uint64_t next;

    for (int i = 0; i < 2; i++)
        readers[i] = test_fork(reads_everything, &read_only[i]);
    for (int i = 0; i < SENDERS; i++)
        senders[i] = test_fork(sends, &numbers[i]);
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(test_reap(senders[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(test_reap(readers[i]), 0);
    assert_ok(muster_event_next(m, &next));
    assert_int_equal(next, SENDERS * EACH);
}

static int waits_for_an_event(void *arg)
{
    struct muster *mine = test_join(job.name, -1, 0);
    struct muster_event event;
    uint64_t position = 0;
    char buffer[8];

    (void)arg;
    for (int i = 0; i < 20; i++) {
        CHECK(muster_event_read(mine, &position, MUSTER_FOREVER, &event, buffer, sizeof buffer, NULL) == MUSTER_OK);
        CHECK(event.sequence == (uint64_t)i * 2);
        CHECK(muster_event_send(mine, 1, "pong", 4, NULL) == MUSTER_OK);
        position++;
    }
    CHECK(muster_leave(mine) == MUSTER_OK);
    return 0;
}

TEST_WITH(a_sleeping_reader_is_woken_by_the_sending, setup, teardown)
{
    pid_t pid = test_fork(waits_for_an_event, NULL);
    struct muster_event event;
    uint64_t position = 1;

    for (int i = 0; i < 20; i++) {
        if (i % 5 == 0)
            test_until_asleep(pid);
        assert_ok(muster_event_send(m, 0, "ping", 4, NULL));
        assert_ok(muster_event_read(m, &position, MUSTER_FOREVER, &event, NULL, 0, NULL));
        position++;
    }
    assert_int_equal(test_reap(pid), 0);
}

static int sends_until_killed(void *arg)
{
    struct muster *mine = test_join(job.name, -1, 0);

    (void)arg;
    while (muster_event_send(mine, 1, "x", 1, NULL) == MUSTER_OK)
        ;
    return 1;
}

TEST_WITH(a_killed_sender_leaves_no_hole, setup, teardown)
{
    struct muster_event event;
    uint64_t sequence;

    for (int i = 0; i < 20; i++) {
        pid_t pid = test_fork(sends_until_killed, NULL);
        uint64_t from, position;

        assert_ok(muster_event_next(m, &from));
        do
            assert_ok(muster_event_next(m, &position));
        while (position < from + 100);
        kill(pid, SIGKILL);
        assert_int_equal(test_reap(pid), 1000 + SIGKILL);
        assert_ok(muster_scavenge(m, NULL));
        assert_ok(muster_event_next(m, &from));
        assert_ok(muster_event_send(m, 2, "mine", 4, &sequence));
        assert_int_equal(sequence, from);
        position = from;
        assert_ok(muster_event_read(m, &position, 1, &event, NULL, 0, NULL));
        assert_int_equal(event.type, 2);
        assert_int_equal(test_audit(job.name), 0);
    }
}

/* Of a task that the job cannot have, INT32_MIN - 1 among them. */
TEST_WITH(an_event_of_no_task_is_damaged, setup, teardown)
{
    static const uint32_t nobody[] = {UINT32_MAX, 1u << 31, (1u << 31) - 1};
    uint64_t sequence, position, lost;
    struct muster_event event;
    mu_a64 *third; /* of the record: its task below, its type above */
    uint32_t limit;

    assert_ok(muster_event_send(m, 7, "x", 1, &sequence));
    third =
        &mu_heap_block(m->seg, MU_WORD_INDEX(mu_load_relaxed(&m->seg->events[sequence % m->seg->num_events])), &limit)
             ->body[2]; /* relaxed, here and below: nobody else is in this job */
    assert_int_equal(mu_load_relaxed(third), 7ull << 32 | 3);
    for (size_t i = 0; i < sizeof nobody / sizeof *nobody; i++) {
        mu_store_relaxed(third, 7ull << 32 | nobody[i]); /* relaxed: see above */
        position = sequence;
        assert_status(MUSTER_DATA_LOSS, muster_event_read(m, &position, 0, &event, NULL, 0, &lost));
    }
    mu_store_relaxed(third, 7ull << 32 | 3); /* relaxed: see above */
    position = sequence;
    assert_ok(muster_event_read(m, &position, 0, &event, NULL, 0, &lost));
    assert_int_equal(event.task_id, 2);
}
