/*
 * tests/queue/queue_test.c: queues of messages, their writers and readers in several processes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "test.h"

static struct test_job job;
static struct muster *me;
static struct test_gate gate;

#define OK(call) assert_status((call), MUSTER_OK, #call)

static void assert_status(enum muster_status got, enum muster_status wanted, const char *what)
{
    if (got != wanted)
        fail_msg("%s: %s, not %s: %s", what, muster_status_name(got), muster_status_name(wanted), muster_last_error());
}

static void assert_says(const char *part)
{
    if (!strstr(muster_last_error(), part))
        fail_msg("\"%s\" does not say \"%s\"", muster_last_error(), part);
}

static muster_deadline soon(void)
{
    return muster_after_ms(60000);
}

/* ---- the stage ---- */

static int stage_begin(void)
{
    struct muster_segment_config config = {
        .num_tasks = 8, .num_slots = 200, .heap_bytes = 64 << 20, .object_bytes = 64 << 20};

    if (test_job_create(&job, &config) || test_gate_open(&gate))
        return 1;
    me = test_join(job.name, 0, MUSTER_JOIN_RECOVERABLE | TEST_WITH_HEARTBEAT);
    return !me;
}

static int count_one(void *arg, const struct muster_object_info *info)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static int objects_left(void)
{
    int count = 0;

    muster_scavenge(me, NULL);
    OK(muster_object_list(me, count_one, &count));
    return count;
}

/* Nothing is left of any queue. */
static int stage_end(void)
{
    await(objects_left() == 0, "%d objects are left", objects_left());
    OK(muster_leave(me));
    assert_int_equal(test_job_end(&job), 0);
    test_gate_close(&gate);
    return 0;
}

#define QUEUE_TEST(name) TEST_WITH(name, stage_begin, stage_end)

static const size_t lengths[] = {20, 0, 1, 4096, 4097, 65536, 7, 3 << 20, 100000, 4095};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static uint8_t byte_of(uint64_t number, size_t i)
{
    return (uint8_t)(number * 31 + i * 7 + (i >> 8));
}

static int is_message(const struct muster_queue_message *m)
{
    if (m->len != lengths[m->number % LENGTHS] || !m->object != (m->len <= MUSTER_QUEUE_INLINE_MAX))
        return 0;
    for (size_t i = 0; i < m->len; i++)
        if (((const uint8_t *)m->data)[i] != byte_of(m->number, i))
            return 0;
    return 1;
}

static enum muster_status message_write(struct muster_queue *q, uint64_t number, muster_deadline deadline)
{
    size_t len = lengths[number % LENGTHS];
    uint8_t *bytes = malloc(len + 1);
    enum muster_status status;

    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_of(number, i);
    status = muster_queue_write(q, bytes, len, deadline);
    memset(bytes, 0xee, len);
    free(bytes);
    return status;
}

static struct muster_queue *queue_create(uint32_t depth, uint64_t max_bytes, muster_object *ret)
{
    struct muster_queue_options options = {.depth = depth, .max_bytes = max_bytes, .readers = 4};
    struct muster_queue *q = NULL;

    OK(muster_queue_create(me, &options, &q, ret));
    return q;
}

/* What a child is to do, as which task. */
struct part {
    int task;
    muster_object queue;
    uint64_t count; /* messages, then it stops */
};

static struct muster *part_join(const struct part *p)
{
    struct muster *m = test_join(job.name, p->task, MUSTER_JOIN_RECOVERABLE | TEST_WITH_HEARTBEAT);

    CHECK(m != NULL);
    return m;
}

/* Reads to the end: each message once, in order. */
static int reader_of_all(void *arg)
{
    const struct part *p = arg;
    struct muster *m = part_join(p);
    struct muster_queue_message message;
    struct muster_queue *q;
    enum muster_status status;
    uint64_t last = 0;

    CHECK(muster_queue_open(m, p->queue, &q) == MUSTER_OK);
    while ((status = muster_queue_read(q, soon(), &message)) == MUSTER_OK) {
        CHECK(message.number == last + 1 && is_message(&message));
        last = message.number;
    }
    CHECK(status == MUSTER_OUT_OF_RANGE && last == p->count);
    CHECK(muster_queue_read(q, 0, &message) == MUSTER_OUT_OF_RANGE);
    CHECK(muster_queue_close(q) == MUSTER_OK);
    CHECK(muster_leave(m) == MUSTER_OK);
    return 0;
}

QUEUE_TEST(each_reader_gets_each_message_of_any_length_in_order)
{
    struct part parts[3] = {{1, 0, 200}, {2, 0, 200}, {3, 0, 200}};
    muster_object ref;
    struct muster_queue *q = queue_create(8, 0, &ref);
    struct muster_queue_info info;
    pid_t children[3];

    for (int i = 0; i < 3; i++) {
        parts[i].queue = ref;
        children[i] = test_fork(reader_of_all, &parts[i]);
    }
    OK(muster_queue_wait(q, 3, soon()));
    for (uint64_t n = 1; n <= 200; n++)
        OK(message_write(q, n, soon()));
    OK(muster_queue_info(q, &info));
    assert_int_equal(info.written, 200);
    assert_true(info.slowest >= 192 && info.readers <= 3 && info.writer_task == 0);
    OK(muster_queue_close(q));
    for (int i = 0; i < 3; i++)
        assert_int_equal(test_reap(children[i]), 0);
}

/* Reads `count` messages, tells, waits to be told, and does so again until there are no more. */
static int reader_by_gate(void *arg)
{
    const struct part *p = arg;
    struct muster *m = part_join(p);
    struct muster_queue_message message;
    struct muster_queue *q;
    enum muster_status status;

    CHECK(muster_queue_open(m, p->queue, &q) == MUSTER_OK);
    for (;;) {
        test_gate_arrive(&gate);
        test_gate_pass(&gate);
        for (uint64_t i = 0; i < p->count; i++) {
            status = muster_queue_read(q, soon(), &message);
            if (status)
                break;
            CHECK(is_message(&message));
        }
        if (status)
            break;
    }
    CHECK(status == MUSTER_OUT_OF_RANGE);
    muster_queue_close(q);
    muster_leave(m);
    return 0;
}

QUEUE_TEST(a_slow_reader_is_named_and_the_writer_goes_on_once_it_has_read)
{
    struct part part = {1, 0, 2};
    struct muster_queue_info info;
    struct muster_queue *q = queue_create(4, 0, &part.queue);
    pid_t child = test_fork(reader_by_gate, &part);
    char name[64];

    test_gate_await(&gate);
    for (uint64_t n = 1; n <= 4; n++)
        OK(message_write(q, n, 0));
    assert_status(message_write(q, 5, muster_after_ms(20)), MUSTER_DEADLINE_EXCEEDED, "a full queue");
    snprintf(name, sizeof name, "task 1 (pid %d", (int)child);
    assert_says(name);
    assert_says("has read 0 of 4 messages");
    test_gate_release(&gate);
    test_gate_await(&gate); /* two are read; the second may be looked at still */
    OK(message_write(q, 5, 0));
    assert_status(message_write(q, 6, 0), MUSTER_DEADLINE_EXCEEDED, "a full queue");
    assert_says("has read 1 of 5 messages");
    OK(muster_queue_info(q, &info));
    assert_true(info.slowest == 1 && info.slowest_task == 1 && info.readers == 1 && info.written == 5);
    test_gate_release(&gate);
    OK(message_write(q, 6, soon())); /* asleep until it has read */
    test_gate_await(&gate);
    OK(muster_queue_close(q));
    test_gate_release(&gate);
    test_gate_await(&gate);
    test_gate_release(&gate);
    assert_int_equal(test_reap(child), 0);
}

QUEUE_TEST(a_dead_reader_is_not_waited_for_and_its_place_is_anothers)
{
    struct part part = {1, 0, 1};
    struct muster_queue *q = queue_create(2, 0, &part.queue), *other[4];
    struct muster_queue_message message;
    pid_t child = test_fork(reader_by_gate, &part);

    test_gate_await(&gate);
    OK(message_write(q, 1, 0));
    OK(message_write(q, 2, 0));
    assert_status(message_write(q, 3, 0), MUSTER_DEADLINE_EXCEEDED, "a full queue");
    kill(child, SIGKILL);
    OK(message_write(q, 3, soon()));
    assert_int_equal(test_reap(child), 1000 + SIGKILL);
    for (int i = 0; i < 4; i++)
        OK(muster_queue_open(me, part.queue, &other[i]));
    OK(message_write(q, 4, 0));
    for (int i = 0; i < 4; i++) { /* what is written from then on */
        OK(muster_queue_read(other[i], 0, &message));
        assert_true(message.number == 4 && is_message(&message));
        OK(muster_queue_close(other[i]));
    }
    OK(muster_queue_close(q));
}

/* Writes `count` messages, tells, and lives on. */
static int writer(void *arg)
{
    const struct part *p = arg;
    struct muster *m = part_join(p);
    muster_object ref;
    struct muster_queue *q;
    char text[32];

    CHECK(muster_queue_create(m, NULL, &q, &ref) == MUSTER_OK);
    snprintf(text, sizeof text, "%llu", (unsigned long long)ref);
    CHECK(muster_kv_set(m, "q", MUSTER_NTS, text, strlen(text), NULL) == MUSTER_OK);
    test_gate_arrive(&gate);
    test_gate_pass(&gate);
    for (uint64_t n = 1; n <= p->count; n++)
        CHECK(message_write(q, n, soon()) == MUSTER_OK);
    test_gate_arrive(&gate);
    pause();
    return 1;
}

static pid_t writer_begin(struct part *p)
{
    pid_t child = test_fork(writer, p);
    char text[32] = "";
    size_t len;

    test_gate_await(&gate);
    OK(muster_kv_get(me, "q", MUSTER_NTS, 0, text, sizeof text - 1, &len, NULL));
    p->queue = strtoull(text, NULL, 10);
    return child;
}

QUEUE_TEST(a_dead_writer_loses_no_message_and_ends_the_waits_by_name)
{
    struct part part = {1, 0, 40};
    pid_t child = writer_begin(&part);
    struct muster_queue_message message;
    struct muster_queue *q, *late;
    char name[64];

    OK(muster_queue_open(me, part.queue, &q));
    assert_status(muster_queue_read(q, 0, &message), MUSTER_DEADLINE_EXCEEDED, "an empty queue");
    assert_says("message 1 of queue");
    test_gate_release(&gate);
    test_gate_await(&gate);
    kill(child, SIGKILL);
    assert_int_equal(test_reap(child), 1000 + SIGKILL);
    for (uint64_t n = 1; n <= 40; n++) {
        OK(muster_queue_read(q, soon(), &message));
        assert_true(message.number == n && is_message(&message));
    }
    assert_status(muster_queue_read(q, soon(), &message), MUSTER_UNAVAILABLE, "a queue without writer");
    snprintf(name, sizeof name, "task 1 (pid %d", (int)child);
    assert_says(name);
    assert_says("40 messages were read");
    muster_scavenge(me, NULL);
    assert_status(muster_queue_open(me, part.queue, &late), MUSTER_OUT_OF_RANGE, "open it then");
    OK(muster_queue_close(q));
}

/* Opens the queue, and sleeps in it: its end is what the test looks at. */
static int sleeper(void *arg)
{
    const struct part *p = arg;
    struct muster *m = part_join(p);
    struct muster_queue_message message;
    struct muster_queue *q;

    CHECK(muster_queue_open(m, p->queue, &q) == MUSTER_OK);
    test_gate_arrive(&gate);
    CHECK(muster_queue_read(q, MUSTER_FOREVER, &message) == MUSTER_UNAVAILABLE);
    CHECK(strstr(muster_last_error(), "task 1 (pid ") != NULL);
    muster_queue_close(q);
    muster_leave(m);
    return 0;
}

QUEUE_TEST(a_reader_that_sleeps_learns_of_its_writers_death)
{
    struct part part = {1, 0, 0}, other = {2, 0, 0};
    pid_t child = writer_begin(&part), waits;

    other.queue = part.queue;
    waits = test_fork(sleeper, &other);
    test_gate_await(&gate);
    test_until_asleep(waits);
    kill(child, SIGKILL);
    assert_int_equal(test_reap(child), 1000 + SIGKILL);
    assert_int_equal(test_reap(waits), 0);
}

static struct muster_queue *parents[2]; /* the writer's end, and a reader's */

static int ends_misuse(void *none)
{
    struct muster_queue_message message;

    (void)none;
    CHECK(muster_queue_read(parents[1], 0, &message) != MUSTER_OK);
    CHECK(muster_queue_close(parents[1]) == MUSTER_OK);
    CHECK(muster_queue_close(parents[0]) == MUSTER_OK);
    return 0;
}

QUEUE_TEST(a_child_changes_nothing_of_its_parents_ends)
{
    struct muster_queue_message message;
    struct muster_queue_info info;
    muster_object ref;

    parents[0] = queue_create(2, 0, &ref);
    OK(muster_queue_open(me, ref, &parents[1]));
    OK(message_write(parents[0], 1, 0));
    OK(message_write(parents[0], 2, 0));
    OK(muster_queue_read(parents[1], 0, &message));
    assert_int_equal(test_reap(test_fork(ends_misuse, NULL)), 0);
    OK(muster_queue_info(parents[0], &info));
    assert_true(info.readers == 1 && info.slowest == 0); /* the first message may be looked at still */
    assert_true(message.number == 1 && is_message(&message));
    assert_status(message_write(parents[0], 3, 0), MUSTER_DEADLINE_EXCEEDED, "a full queue");
    OK(muster_queue_read(parents[1], 0, &message));
    assert_true(message.number == 2 && is_message(&message));
    OK(message_write(parents[0], 3, 0));
    OK(muster_queue_close(parents[1]));
    OK(muster_queue_close(parents[0]));
}

QUEUE_TEST(the_writer_is_within_its_bytes_but_for_one_message)
{
    muster_object ref;
    struct muster_queue *q = queue_create(64, 10000, &ref), *r;
    struct muster_queue_message message;
    static uint8_t bytes[20000];

    OK(muster_queue_open(me, ref, &r));
    OK(muster_queue_write(q, bytes, 6000, 0));
    OK(muster_queue_write(q, bytes, 4000, 0));
    assert_status(muster_queue_write(q, bytes, 1, 0), MUSTER_DEADLINE_EXCEEDED, "10000 bytes are not read");
    OK(muster_queue_write(q, bytes, 0, 0));
    OK(muster_queue_read(r, 0, &message));
    OK(muster_queue_read(r, 0, &message)); /* the first is given back */
    OK(muster_queue_write(q, bytes, 6000, 0));
    assert_status(muster_queue_write(q, bytes, 20000, 0), MUSTER_DEADLINE_EXCEEDED, "others are not read");
    OK(muster_queue_read(r, 0, &message));
    OK(muster_queue_read(r, 0, &message));
    assert_status(muster_queue_read(r, 0, &message), MUSTER_DEADLINE_EXCEEDED, "no message");
    OK(muster_queue_write(q, bytes, 20000, 0));
    OK(muster_queue_close(q));
    OK(muster_queue_read(r, 0, &message));
    assert_int_equal(message.len, 20000);
    OK(muster_queue_close(r));
}

QUEUE_TEST(room_is_written_in_place_and_a_view_outlasts_the_next_read)
{
    muster_object ref;
    struct muster_queue *q = queue_create(0, 0, &ref), *r;
    struct muster_object_view view;
    struct muster_queue_message message;
    void *data;

    OK(muster_queue_open(me, ref, &r));
    assert_status(muster_queue_publish(q), MUSTER_FAILED_PRECONDITION, "nothing is reserved");
    assert_status(muster_queue_write(r, "", 0, 0), MUSTER_FAILED_PRECONDITION, "a reader writes");
    assert_status(muster_queue_read(q, 0, &message), MUSTER_FAILED_PRECONDITION, "the writer reads");
    OK(muster_queue_reserve(q, 100000, 0, &data)); /* not published */
    OK(muster_queue_reserve(q, 100000, 0, &data));
    memset(data, 5, 100000);
    OK(muster_queue_publish(q));
    assert_status(muster_queue_publish(q), MUSTER_FAILED_PRECONDITION, "it is published");
    OK(muster_queue_reserve(q, 10, 0, &data));
    memset(data, 6, 10);
    OK(muster_queue_publish(q));
    OK(muster_queue_read(r, 0, &message));
    assert_true(message.number == 1 && message.object);
    OK(muster_object_get(me, &message.object, 1, 0, &view, NULL));
    OK(muster_queue_read(r, 0, &message));
    assert_true(message.number == 2 && message.len == 10 && !message.object && ((const uint8_t *)message.data)[9] == 6);
    OK(muster_queue_close(r));
    OK(muster_queue_reserve(q, 100000, 0, &data));
    OK(muster_queue_close(q));
    assert_true(view.len == 100000 && ((const uint8_t *)view.data)[99999] == 5);
    muster_object_unview(me, &view, 1);
}

/* Writes through the view that it reads. */
static int scribbler(void *arg)
{
    const struct part *p = arg;
    struct muster *m = part_join(p);
    struct muster_queue_message message;
    struct muster_queue *q;

    CHECK(muster_queue_open(m, p->queue, &q) == MUSTER_OK);
    CHECK(muster_queue_read(q, MUSTER_FOREVER, &message) == MUSTER_OK);
    signal(SIGSEGV, SIG_DFL);
    *(volatile uint8_t *)(uintptr_t)message.data = 1;
    return 0;
}

QUEUE_TEST(a_message_is_read_only)
{
    struct part part = {1, 0, 0};
    struct muster_queue *q = queue_create(0, 0, &part.queue);
    pid_t child = test_fork(scribbler, &part);

    OK(muster_queue_wait(q, 1, soon()));
    OK(muster_queue_write(q, "short", 5, 0));
    assert_int_equal(test_reap(child), 1000 + SIGSEGV);
    OK(muster_queue_close(q));
}

QUEUE_TEST(what_is_no_queue_or_has_no_room_for_readers_is_said)
{
    struct muster_queue_options bad = {.depth = MUSTER_QUEUE_DEPTH_MAX + 1};
    struct muster_queue *q, *r[5];
    muster_object ref, object;

    assert_status(muster_queue_create(me, &bad, &q, &ref), MUSTER_INVALID_ARGUMENT, "too deep");
    bad = (struct muster_queue_options){.readers = MUSTER_QUEUE_READERS_MAX + 1};
    assert_status(muster_queue_create(me, &bad, &q, &ref), MUSTER_INVALID_ARGUMENT, "too many readers");
    OK(muster_object_put(me, "an object", 9, NULL, 0, 0, &object));
    assert_status(muster_queue_open(me, object, &r[0]), MUSTER_INVALID_ARGUMENT, "no queue");
    OK(muster_object_drop(me, &object, 1));
    assert_status(muster_queue_open(me, object, &r[0]), MUSTER_NOT_FOUND, "nothing");
    q = queue_create(0, 0, &ref);
    assert_status(muster_queue_wait(q, 5, 0), MUSTER_INVALID_ARGUMENT, "more than there may be");
    for (int i = 0; i < 4; i++)
        OK(muster_queue_open(me, ref, &r[i]));
    assert_status(muster_queue_open(me, ref, &r[4]), MUSTER_RESOURCE_EXHAUSTED, "a fifth");
    OK(muster_queue_close(r[3]));
    assert_status(muster_queue_wait(q, 4, 0), MUSTER_DEADLINE_EXCEEDED, "three");
    assert_says("4 readers of queue");
    assert_says("there are 3");
    OK(muster_queue_close(q));
    assert_status(muster_queue_open(me, ref, &r[3]), MUSTER_OUT_OF_RANGE, "it has ended");
    OK(muster_queue_close(r[0]));
    OK(muster_queue_close(r[1]));
    assert_status(muster_queue_open(me, ref, &r[3]), MUSTER_OUT_OF_RANGE, "likewise");
    OK(muster_queue_close(r[2]));
    assert_status(muster_queue_open(me, ref, &r[0]), MUSTER_NOT_FOUND, "it is gone");
}
