/* tests/checkpoint/stage.h: a job whose tasks have checkpoints, all of them in this process. */
#ifndef CHECKPOINT_STAGE_H
#define CHECKPOINT_STAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "job.h"
#include "test.h"

enum { STAGE_RANKS_MAX = 4 };

static struct test_job job;
static struct muster *tasks[STAGE_RANKS_MAX];
static struct muster_checkpoint *cps[STAGE_RANKS_MAX];
static uint32_t ranks;
static char run_id[64];

#define OK(call) assert_status((call), MUSTER_OK, #call)

static void assert_status(enum muster_status got, enum muster_status wanted, const char *what)
{
    if (got != wanted)
        fail_msg("%s: %s, not %s: %s", what, muster_status_name(got), muster_status_name(wanted), muster_last_error());
}

static inline void assert_says(const char *part)
{
    if (!strstr(muster_last_error(), part))
        fail_msg("\"%s\" does not say \"%s\"", muster_last_error(), part);
}

/* An attempt of the job, with so many tasks. */
static void attempt_begin(uint32_t count)
{
    struct muster_segment_config config = {.num_tasks = count, .num_slots = 32};

    ranks = count;
    OK(test_job_create(&job, &config));
    for (uint32_t i = 0; i < count; i++) {
        tasks[i] = test_join(job.name, (int32_t)i, MUSTER_JOIN_RECOVERABLE);
        assert_non_null(tasks[i]);
        OK(muster_checkpoint_open(tasks[i], "model", &cps[i]));
    }
}

static void attempt_end(void)
{
    for (uint32_t i = 0; i < ranks; i++) {
        muster_checkpoint_close(cps[i]);
        OK(muster_leave(tasks[i]));
    }
    assert_int_equal(test_job_end(&job), 0);
}

/* Another process takes the rank's place. */
static inline void rank_succeed(uint32_t rank)
{
    muster_checkpoint_close(cps[rank]);
    OK(muster_leave(tasks[rank]));
    assert_non_null(tasks[rank] = test_join(job.name, (int32_t)rank, MUSTER_JOIN_RECOVERABLE));
    OK(muster_checkpoint_open(tasks[rank], "model", &cps[rank]));
}

/* As the launcher starts a job again. */
static inline void attempt_again(uint32_t count)
{
    attempt_end();
    mu_checkpoint_rewind(run_id, MU_CHECKPOINT_ALL);
    attempt_begin(count);
}

static inline int stage_begin(void)
{
    static unsigned count;

    snprintf(run_id, sizeof run_id, "test-%d-%u", (int)getpid(), count++);
    setenv("MUSTER_RUN_ID", run_id, 1);
    attempt_begin(2);
    return 0;
}

static inline int stage_end(void)
{
    char folder[512];

    attempt_end();
    mu_checkpoint_remove(run_id);
    mu_checkpoint_folder(run_id, folder, sizeof folder);
    return access(folder, F_OK) == 0;
}

#define CHECKPOINT_TEST(name) TEST_WITH(name, stage_begin, stage_end)

/* ---- parts that say whose they are ---- */

enum { STAGE_LONG = 100000 };

static inline void values_fill(uint32_t *values, size_t count, uint32_t rank, uint64_t step)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (uint32_t)(rank * 1000003u + step * 7919u + i);
}

/* Two tensors; the first is bytes of an odd length. */
static inline enum muster_status rank_save_until(uint32_t rank, uint64_t step, muster_deadline deadline)
{
    static uint32_t values[STAGE_LONG];
    char text[32];
    struct muster_checkpoint_tensor t[2] = {
        {.name = "text", .dtype = "bytes", .data = text},
        {.name = "layer.weight", .dtype = "uint32", .num_dims = 2, .shape = {STAGE_LONG / 10, 10}, .data = values}};

    t[0].len = (size_t)snprintf(text, sizeof text, "rank %u step %llu", rank, (unsigned long long)step);
    t[1].len = sizeof values;
    values_fill(values, STAGE_LONG, rank, step);
    return muster_checkpoint_save(cps[rank], step, t, 2, deadline, NULL);
}

static inline void rank_save(uint32_t rank, uint64_t step)
{
    assert_status(rank_save_until(rank, step, 0), MUSTER_OK, "save");
}

static inline void all_save(uint64_t step)
{
    for (uint32_t i = 0; i < ranks; i++)
        rank_save(i, step);
}

/* The view is what the rank has saved at that step. */
static inline void view_check(const struct muster_checkpoint_view *view, uint32_t rank, uint64_t step)
{
    static uint32_t wanted[STAGE_LONG];
    const struct muster_checkpoint_tensor *t;
    char text[32];

    assert_int_equal(view->step, step);
    assert_int_equal(view->rank, rank);
    assert_int_equal(view->count, 2);
    OK(muster_checkpoint_find(view, "text", NULL, 0, NULL, &t));
    assert_int_equal(t->len, snprintf(text, sizeof text, "rank %u step %llu", rank, (unsigned long long)step));
    assert_memory_equal(t->data, text, t->len);
    OK(muster_checkpoint_find(view, "layer.weight", "uint32", 2, (uint64_t[]){STAGE_LONG / 10, 10}, &t));
    assert_int_equal((uintptr_t)t->data % 64, 0);
    values_fill(wanted, STAGE_LONG, rank, step);
    assert_int_equal(t->len, sizeof wanted);
    assert_memory_equal(t->data, wanted, sizeof wanted);
}

static inline void rank_check(uint32_t by, int32_t rank, uint64_t generation, uint64_t step)
{
    struct muster_checkpoint_view view;

    OK(muster_checkpoint_load(cps[by], rank, &view));
    assert_int_equal(view.generation, generation);
    view_check(&view, rank < 0 ? by : (uint32_t)rank, step);
    muster_checkpoint_unload(&view);
    muster_checkpoint_unload(&view);
}

static inline uint64_t newest(uint32_t by)
{
    struct muster_checkpoint_info info;

    OK(muster_checkpoint_info(cps[by], &info));
    return info.generation;
}

#endif
