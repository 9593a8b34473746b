/*
 * tests/segment/cluster_test.c: many task records by few commits, and what is counted of them.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "segment/cluster.h"
#include "segment/handle.h"

enum { TASKS = 8192 };

static struct test_job job;
static struct muster *m;
static struct mu_ctx *ctx;

static int setup(void)
{
    const struct muster_segment_config config = {.num_tasks = TASKS};

    if (test_job_create(&job, &config))
        return -1;
    m = test_join(job.name, -1, 0);
    return !m || mu_enter(m, &ctx) ? -1 : 0;
}

static int teardown(void)
{
    mu_exit(ctx);
    muster_leave(m);
    return test_job_end(&job) ? -1 : 0;
}

static uint64_t commits(void)
{
    /* acquire: as mu_cluster_look() */
    return MU_WORD_TAG(mu_load_acquire(&m->seg->header->cluster));
}

/* What the records are to become. */
struct wish {
    uint32_t state, flags, from;
    const char *text; /* NULL: the record alone; else "text 12" */
};

static bool change(struct mu_task_change *c)
{
    const struct wish *w = c->arg;

    if (c->task < w->from) {
        c->status = MUSTER_OUT_OF_RANGE;
        return false;
    }
    c->record.state = w->state;
    c->record.flags = w->flags;
    c->record.attempt = c->index + 1;
    if (w->text)
        snprintf(c->text, sizeof c->text, *w->text ? "%s %u" : "%s", w->text, c->task);
    return true;
}

static uint64_t edit(uint32_t first, uint32_t count, uint32_t step, struct wish w)
{
    uint32_t tasks[TASKS];
    uint64_t before = commits();

    for (uint32_t i = 0; i < count; i++)
        tasks[i] = first + i * step;
    assert_ok(mu_cluster_edit_many(ctx, tasks, count, change, &w));
    return commits() - before;
}

static struct mu_cluster_root root(void)
{
    struct mu_cluster c;

    assert_ok(mu_cluster_look(m->seg, &c));
    return c.root;
}

TEST_WITH(a_commit_takes_all_records_of_a_block, setup, teardown)
{
    struct wish w = {.state = MUSTER_TASK_CONNECTED};
    struct mu_task_record *records = calloc(TASKS, sizeof *records);
    struct mu_cluster c;

    assert_non_null(records);
    assert_int_equal(edit(0, TASKS, 1, w), TASKS / MU_TASKS_PER_BLOCK);
    assert_int_equal(root().version, TASKS); /* each change counts one, and is found by its number */
    assert_ok(mu_cluster_all(m->seg, records, NULL, &c));
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(records[i].state, MUSTER_TASK_CONNECTED);
        assert_int_equal(records[i].attempt, i + 1);
        assert_int_equal(records[i].version, i + 1);
    }
    free(records);
    assert_int_equal(edit(5, 3, 16, w), 3); /* of three blocks */
    assert_int_equal(edit(5, 0, 1, w), 0);
}

TEST_WITH(messages_go_two_by_two, setup, teardown)
{
    struct wish w = {.state = MUSTER_TASK_ERROR, .text = "text"}, again = {.state = MUSTER_TASK_ERROR};
    struct mu_task_record r;
    struct mu_cluster c;
    char text[MU_TEXT_MAX], expected[32];

    assert_int_equal(edit(100, 24, 1, w), 6 + 6); /* 12 in each of two blocks */
    assert_int_equal(root().errors, 24);
    assert_int_equal(root().first_error, 101);
    assert_int_equal(edit(100, 24, 1, again), 2);
    for (uint32_t i = 100; i < 124; i++) {
        snprintf(expected, sizeof expected, "text %u", i);
        assert_ok(mu_cluster_task(m->seg, i, &r, text, &c));
        assert_string_equal(text, expected);
    }
    w.text = "another";
    assert_int_equal(edit(100, 24, 1, w), 12); /* old ones go, as many */
    w.text = "";
    w.state = MUSTER_TASK_DISCONNECTED;
    assert_int_equal(edit(100, 24, 1, w), 12);
    assert_int_equal(root().errors, 0);
    assert_int_equal(root().first_error, 0);
}

TEST_WITH(what_is_declined_stays_and_the_others_change, setup, teardown)
{
    struct wish w = {.state = MUSTER_TASK_CONNECTED, .from = 8};
    struct mu_task_record r;
    struct mu_cluster c;

    assert_int_equal(edit(0, 16, 1, w), 1);
    assert_ok(mu_cluster_task(m->seg, 7, &r, NULL, &c));
    assert_int_equal(r.state, MUSTER_TASK_DISCONNECTED);
    assert_ok(mu_cluster_task(m->seg, 8, &r, NULL, &c));
    assert_int_equal(r.attempt, 9);
    w.from = TASKS;
    assert_int_equal(edit(0, 64, 1, w), 0);
    assert_int_equal(root().version, 8);
    assert_status(MUSTER_OUT_OF_RANGE, mu_cluster_edit(ctx, 3, change, &w)); /* alone, one is told */
}

TEST_WITH(the_first_error_is_the_first_until_it_is_cleared, setup, teardown)
{
    struct wish error = {.state = MUSTER_TASK_ERROR}, clear = {.state = MUSTER_TASK_DISCONNECTED};
    struct wish recoverable = {.state = MUSTER_TASK_ERROR, .flags = MU_TASK_RECOVERABLE};

    edit(50, 1, 1, error);
    edit(20, 10, 1, error);
    assert_int_equal(root().first_error, 51);
    assert_int_equal(root().errors, 11);
    edit(48, 8, 1, clear); /* in the same block, and others are left elsewhere */
    assert_int_equal(root().first_error, 21);
    edit(16, 5, 1, clear);
    assert_int_equal(root().first_error, 22);
    edit(16, 16, 1, recoverable); /* these end no wait that does not need them */
    assert_int_equal(root().first_error, 0);
    assert_int_equal(root().errors, 0);
}

TEST_WITH(every_task_may_be_in_error_with_a_message, setup, teardown)
{
    struct wish w = {.state = MUSTER_TASK_ERROR, .text = "lost with its host, as was task"};

    assert_int_equal(edit(0, TASKS, 1, w), TASKS / 2);
    assert_int_equal(root().errors, TASKS);
    w.text = "and again";
    edit(0, TASKS, 1, w);
}
