/*
 * tests/trace/ring_test.c: the rings: wrap-around, reading while they are written, a writer killed anywhere, the next
 * owner, and where there is no room for one.
 *
 * Every event that the writers here note is self-consistent: its value and its name follow from its object. So a torn
 * or mixed-up one is seen.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "child.h"
#include "job.h"
#include "segment/file.h"
#include "segment/handle.h"
#include "segment/trace.h"

enum { EVENTS = 64, NAMES = 32 };

static struct test_job job;

static int setup(void)
{
    const struct muster_segment_config config = {.trace_events = 1, .num_slots = 8};

    return test_job_create(&job, &config) ? -1 : 0;
}

static int teardown(void)
{
    return test_job_end(&job) ? -1 : 0;
}

static uint64_t value_of(uint64_t object)
{
    return object * 0x9e3779b97f4a7c15u;
}

static void name_of(uint64_t object, char text[57])
{
    snprintf(text, 57, "object %llx, named as long as may be", (unsigned long long)object);
}

static void note_object(struct mu_ctx *ctx, uint64_t object)
{
    char text[57];

    name_of(object, text);
    mu_trace_note(ctx, mu_trace_now(ctx), MU_TRACE_KEY_ENTER, MUSTER_OK, mu_trace_name(ctx, object, text, strlen(text)),
                  object, value_of(object));
}

/* Number i of a writer; every seventh has another name, so that the names wrap, too. */
static void note(struct mu_ctx *ctx, uint64_t i)
{
    note_object(ctx, (i / 7) << 32 | 5);
}

/* Checks what was read of the one slot; returns the number of the last event + 1. */
static uint64_t check(const struct mu_traced *events, size_t count, uint64_t *ret_named)
{
    uint64_t next = 0;

    *ret_named = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mu_traced *e = &events[i];
        char text[57];

        if (e->kind != MU_TRACE_KEY_ENTER) /* joins and deaths */
            continue;
        assert_true(e->value == value_of(e->object));
        name_of(e->object, text);
        if (*e->name) {
            assert_string_equal(e->name, text);
            ++*ret_named;
        }
        assert_true(e->number >= next); /* one writer's times do not fall */
        next = e->number + 1;
    }
    return next;
}

static struct mu_traced *events;
static size_t count;
static uint64_t lost;

static uint64_t read_all(const struct muster_segment *seg, uint64_t *ret_named)
{
    free(events);
    events = NULL;
    assert_ok(mu_trace_read(seg, &events, &count, &lost));
    return check(events, count, ret_named);
}

TEST_WITH(the_last_events_are_kept_and_the_others_counted, setup, teardown)
{
    struct muster *m = test_join(job.name, -1, 0);
    struct mu_ctx *ctx;
    uint64_t named;

    assert_ok(mu_handle_context(m, &ctx));
    assert_true(mu_is_traced(ctx));
    for (uint64_t i = 0; i < EVENTS - 1; i++)
        note(ctx, i);
    assert_int_equal(read_all(m->seg, &named), EVENTS - 1);
    assert_int_equal(count, EVENTS - 1);
    assert_int_equal(named, EVENTS - 1);
    assert_int_equal(lost, 0);
    for (uint64_t i = EVENTS - 1; i < 1000; i++)
        note(ctx, i);
    assert_int_equal(read_all(m->seg, &named), 1000);
    assert_int_equal(count, EVENTS - 1);
    assert_int_equal(lost, 1000 - (EVENTS - 1));
    assert_int_equal(events[0].number, lost);
    assert_int_equal(named, count); /* ten names in sixty-four events: none is overwritten */
    assert_true(events[0].time_ns <= events[count - 1].time_ns && events[count - 1].time_ns <= muster_now_ns());
    assert_int_equal(events[0].task, -1);
    for (uint64_t i = 0; i < EVENTS - 1; i++)
        note(ctx, 7 * i); /* a new name for each */
    read_all(m->seg, &named);
    assert_true(named >= NAMES - 1 && named <= NAMES); /* the others have none, and nobody else's */
    assert_ok(muster_leave(m));
}

TEST_WITH(objects_that_share_a_place_in_the_cache_keep_their_names_apart, setup, teardown)
{
    struct muster *m = test_join(job.name, -1, 0);
    struct mu_ctx *ctx;
    uint64_t named;

    assert_ok(mu_handle_context(m, &ctx));
    for (uint64_t i = 0; i < 20; i++)
        note_object(ctx, (i % 3 * MU_TRACE_CACHE) << 32 | 9);
    assert_int_equal(read_all(m->seg, &named), 20);
    assert_int_equal(named, 20);
    assert_ok(muster_leave(m));
}

static int writes_for_ever(void *arg)
{
    struct muster *m = test_join(job.name, 1, 0);
    struct mu_ctx *ctx;

    CHECK(m && !mu_handle_context(m, &ctx));
    for (uint64_t i = 0;; i++) {
        note_object(ctx, i << 32); /* a name for each: they are overwritten while they are read, too */
        if (i == 200)
            test_gate_arrive(arg);
    }
    return 0;
}

TEST_WITH(what_is_read_while_it_is_written_is_whole, setup, teardown)
{
    struct test_gate gate;
    struct muster_segment *seg;
    uint64_t named, last = 0, seen = 0;
    pid_t pid;

    assert_int_equal(test_gate_open(&gate), 0);
    assert_ok(muster_segment_open(job.name, &seg)); /* mapped for reading only */
    pid = test_fork(writes_for_ever, &gate);
    test_gate_await(&gate);
    for (int i = 0; i < 3000; i++) {
        uint64_t next = read_all(seg, &named);

        assert_true(count <= EVENTS - 1);
        assert_true(!next || next >= last); /* 0: all that was copied had been overwritten */
        last = next ? next : last;
        seen += count;
    }
    assert_true(seen > 0);
    kill(pid, SIGKILL);
    assert_int_equal(test_reap(pid), 1000 + SIGKILL);
    muster_segment_close(seg);
    test_gate_close(&gate);
}

TEST_WITH(a_killed_writer_loses_no_more_than_one_event_and_the_next_owner_goes_on, setup, teardown)
{
    struct muster *m = test_join(job.name, -1, 0);
    struct test_gate gate;
    uint64_t named, before = 0;
    size_t deaths;

    assert_int_equal(test_gate_open(&gate), 0);
    for (int round = 0; round < 40; round++) {
        struct timespec pause = {.tv_nsec = 1000 * (round * 37 % 200)};
        uint64_t next;
        pid_t pid = test_fork(writes_for_ever, &gate);

        test_gate_await(&gate);
        nanosleep(&pause, NULL); /* sleep: so that the kill comes anywhere */
        kill(pid, SIGKILL);
        assert_int_equal(test_reap(pid), 1000 + SIGKILL);
        next = read_all(m->seg, &named); /* dead, not buried */
        assert_true(next > before + 200);
        before = next;
        assert_ok(muster_scavenge(m, &deaths));
        assert_int_equal(deaths, 1);
        assert_ok(muster_task_reset(m, 1));
        assert_int_equal(read_all(m->seg, &named), next); /* nothing of it has gone */
    }
    assert_ok(muster_leave(m));
    test_gate_close(&gate);
}

static uint64_t ring_bytes(const struct muster_segment *seg)
{
    return mu_trace_ring_bytes(seg->trace_events, seg->trace_names);
}

TEST_WITH(an_untraced_job_has_no_ring_and_says_so, setup, teardown)
{
    struct test_job plain;
    struct muster_segment_info with, without;
    struct muster *m;
    struct mu_ctx *ctx;

    assert_ok(test_job_create(&plain, &(struct muster_segment_config){.num_slots = 8}));
    m = test_join(plain.name, -1, 0);
    assert_ok(mu_handle_context(m, &ctx));
    assert_false(mu_is_traced(ctx));
    assert_status(MUSTER_FAILED_PRECONDITION, mu_trace_read(m->seg, &events, &count, &lost));
    assert_says("without a trace");
    assert_ok(muster_leave(m));
    assert_ok(muster_segment_info(plain.segment, &without));
    assert_ok(muster_segment_info(job.segment, &with));
    assert_int_equal(with.trace_events, EVENTS);
    assert_int_equal(without.trace_events, 0);
    assert_true(with.committed_bytes < without.committed_bytes + job.segment->num_slots * ring_bytes(job.segment));
    assert_int_equal(test_job_end(&plain), 0);
    assert_status(MUSTER_INVALID_ARGUMENT,
                  test_job_create(&plain, &(struct muster_segment_config){.trace_events = (1u << 20) + 1}));
    assert_says("1048576 is the most");
}

TEST_WITH(times_are_those_of_the_clock, setup, teardown)
{
    struct muster *m = test_join(job.name, -1, 0);
    struct mu_ctx *ctx;
    uint64_t named, before, between, after;

    assert_ok(mu_handle_context(m, &ctx));
    before = muster_now_ns();
    note(ctx, 0);
    between = muster_now_ns();
    note(ctx, 1);
    after = muster_now_ns();
    assert_int_equal(read_all(m->seg, &named), 2);
    /* the two clocks are compared to some hundred nanoseconds; a lost processor in between makes it more */
    assert_true(events[0].time_ns + 1000000 >= before && events[0].time_ns <= between + 1000000);
    assert_true(events[1].time_ns + 1000000 >= between && events[1].time_ns <= after + 1000000);
    assert_ok(muster_leave(m));
}

/* A slot says that its ring is there, and it is not: no look may take memory, or end in SIGBUS on a full file system.
 */
TEST_WITH(a_ring_that_is_not_there_is_not_touched, setup, teardown)
{
    struct muster_segment *seg;
    struct muster_segment_info before, after;
    struct mu_traced *read;
    uint64_t gone;
    size_t n;

    assert_ok(mu_segment_open(job.name, true, &seg));
    assert_ok(muster_segment_info(seg, &before));
    mu_store_release(&seg->slots[5].ring, 1);
    assert_int_equal(mu_cas32(&seg->header->slots_high, mu_load32_acquire(&seg->header->slots_high), 6), 1);
    assert_status(MUSTER_DATA_LOSS, mu_trace_read(seg, &read, &n, &gone));
    assert_says("damaged");
    assert_ok(muster_segment_info(seg, &after));
    assert_int_equal(after.committed_bytes, before.committed_bytes);
    mu_store_release(&seg->slots[5].ring, 0);
    assert_ok(mu_trace_read(seg, &read, &n, &gone));
    assert_int_equal(n, 0);
    free(read);
    muster_segment_close(seg);
}

int main(void)
{
    int failed = test_run(NULL, NULL);

    free(events);
    return failed;
}
