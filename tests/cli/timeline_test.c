/*
 * tests/cli/timeline_test.c: events put together, from rings that hold what we note in them: calls that are made twice,
 * calls of which the end is missing.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/timeline.h"
#include "job.h"
#include "segment/handle.h"

enum { BARRIER = 77, KEY = 78, TASKS = 2 };

static struct test_job job;
static struct muster *tasks[TASKS];
static struct mu_cli_timeline timeline;

static int setup(void)
{
    const struct muster_segment_config config = {.trace_events = 64, .num_slots = 8, .num_tasks = TASKS};

    if (test_job_create(&job, &config))
        return -1;
    for (int i = 0; i < TASKS; i++)
        tasks[i] = test_join(job.name, i, 0);
    return 0;
}

static int teardown(void)
{
    mu_cli_timeline_done(&timeline);
    for (int i = 0; i < TASKS; i++)
        if (muster_leave(tasks[i]) != MUSTER_OK)
            return -1;
    return test_job_end(&job) ? -1 : 0;
}

static void note(int task, enum mu_trace_kind kind, enum muster_status status, uint64_t object, const char *name)
{
    struct mu_ctx *ctx;

    assert_ok(mu_handle_context(tasks[task], &ctx));
    assert_true(mu_is_traced(ctx));
    mu_trace_note(ctx, mu_trace_now(ctx), kind, status, mu_trace_name(ctx, object, name, strlen(name)), object, 0);
}

/* The line of the table that begins with `what` and a space. */
static void table_has(const char *what, const char *want)
{
    char *text = NULL, *at;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    assert_ok(mu_cli_print_stragglers(&timeline, TASKS, out));
    assert_int_equal(fclose(out), 0);
    at = strstr(text, what);
    if (!at)
        fail_msg("no line \"%s\" in:\n%s", what, text);
    at++;
    at[strcspn(at, "\n")] = 0;
    if (!strstr(at, want))
        fail_msg("the line \"%s\" has no \"%s\"", at, want);
    free(text);
}

TEST_WITH(who_gives_up_and_comes_back_is_counted_once, setup, teardown)
{
    note(0, MU_TRACE_NAMED_ENTER, MUSTER_OK, BARRIER, "b");
    note(0, MU_TRACE_NAMED_LEAVE, MUSTER_DEADLINE_EXCEEDED, BARRIER, "b");
    note(0, MU_TRACE_NAMED_ENTER, MUSTER_OK, BARRIER, "b");
    note(1, MU_TRACE_NAMED_ENTER, MUSTER_OK, BARRIER, "b");
    note(1, MU_TRACE_NAMED_LEAVE, MUSTER_OK, BARRIER, "b");
    note(0, MU_TRACE_NAMED_LEAVE, MUSTER_OK, BARRIER, "b");
    assert_ok(mu_cli_timeline_read(job.segment, 0, &timeline));
    assert_int_equal(timeline.num_spans, 3);
    assert_int_equal(timeline.num_barriers, 1);
    assert_int_equal(timeline.barriers[0].count, 2);
    assert_int_equal(timeline.barriers[0].last_task, 1);
    table_has("\nb ", " OK");
    table_has("\n0 ", "0      1         0 ");
    table_has("\n1 ", "1      1         1 ");
}

/* A thread is in one call at a time, so the next one says that this one is over. */
TEST_WITH(a_call_whose_end_is_missing_does_not_go_on_for_ever, setup, teardown)
{
    note(0, MU_TRACE_KEY_ENTER, MUSTER_OK, KEY, "k");
    note(0, MU_TRACE_NAMED_ENTER, MUSTER_OK, BARRIER, "b");
    note(1, MU_TRACE_NAMED_ENTER, MUSTER_OK, BARRIER, "b");
    note(0, MU_TRACE_KEY_ENTER, MUSTER_OK, KEY, "k");
    note(1, MU_TRACE_KEY_ENTER, MUSTER_OK, KEY, "k");
    assert_ok(mu_cli_timeline_read(job.segment, 0, &timeline));
    assert_int_equal(timeline.num_spans, 5);
    for (int i = 0; i < 5; i++) {
        const struct mu_cli_span *span = &timeline.spans[i];

        assert_int_equal(span->open, i >= 3);
        assert_int_equal(span->unknown, i < 3);
    }
    assert_true(timeline.spans[0].end_ns == timeline.spans[1].enter->time_ns);
    assert_true(timeline.spans[1].end_ns == timeline.spans[3].enter->time_ns);
    assert_int_equal(timeline.num_barriers, 1);
    assert_int_equal(timeline.barriers[0].open, 0);
    assert_int_equal(timeline.barriers[0].passed, 0);
    table_has("\nb ", " not known");
}
