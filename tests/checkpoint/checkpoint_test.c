/*
 * tests/checkpoint/checkpoint_test.c: checkpoints in memory: generations, what a restart sees, views, sizes, errors.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <muster/membership.h>

#include "child.h"
#include "shm.h"
#include "stage.h"

/* ---- generations ---- */

CHECKPOINT_TEST(a_generation_is_whole_when_every_rank_has_saved_it)
{
    struct muster_checkpoint_info info;
    struct muster_checkpoint_view view;

    assert_status(muster_checkpoint_load(cps[0], MUSTER_CHECKPOINT_OWN, &view), MUSTER_NOT_FOUND, "load");
    assert_says("no generation of checkpoint model is whole yet");
    rank_save(0, 10);
    OK(muster_checkpoint_info(cps[0], &info));
    assert_int_equal(info.generation, 0);
    assert_int_equal(info.saved, 1);
    rank_save(1, 10);
    OK(muster_checkpoint_wait(cps[0], 0, 0));
    OK(muster_checkpoint_info(cps[0], &info));
    assert_int_equal(info.generation, 1);
    assert_int_equal(info.step, 10);
    assert_int_equal(info.ranks, 2);
    for (int32_t by = 0; by < 2; by++) {
        rank_check((uint32_t)by, MUSTER_CHECKPOINT_OWN, 1, 10);
        rank_check((uint32_t)by, 1 - by, 1, 10);
    }
}

CHECKPOINT_TEST(a_rank_that_is_ahead_waits_and_names_the_missing)
{
    all_save(1);
    rank_save(0, 2);
    assert_status(rank_save_until(0, 3, 0), MUSTER_DEADLINE_EXCEEDED, "save");
    assert_says("generation 2 of checkpoint model is not whole: not saved by task 1 (pid ");
    assert_status(muster_checkpoint_wait(cps[0], 2, 0), MUSTER_DEADLINE_EXCEEDED, "wait");
    rank_check(1, MUSTER_CHECKPOINT_OWN, 1, 1);
    rank_save(1, 2);
    rank_save(0, 3);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 2, 2);
}

CHECKPOINT_TEST(both_parts_of_a_rank_serve_again_and_again)
{
    for (uint64_t step = 1; step <= 9; step++) {
        all_save(step);
        rank_check(0, 1, step, step);
        rank_check(1, 0, step, step);
    }
}

static int rank_1_saves(void *arg)
{
    struct muster *m = test_join(job.name, 1, MUSTER_JOIN_RECOVERABLE);

    (void)arg;
    CHECK(m && !muster_checkpoint_open(m, "model", &cps[1]));
    CHECK(!rank_save_until(1, 1, 0));
    return 0; /* without leaving, as a process that is killed */
}

CHECKPOINT_TEST(a_waiter_is_woken_by_another_process_that_saves)
{
    pid_t pid;

    muster_checkpoint_close(cps[1]);
    OK(muster_leave(tasks[1]));
    rank_save(0, 1);
    pid = test_fork(rank_1_saves, NULL);
    OK(muster_checkpoint_wait(cps[0], 1, MUSTER_FOREVER));
    assert_int_equal(test_reap(pid), 0);
    rank_check(0, 1, 1, 1); /* its part outlives it */
    tasks[1] = test_join(job.name, 1, MUSTER_JOIN_RECOVERABLE);
    OK(muster_checkpoint_open(tasks[1], "model", &cps[1]));
    rank_check(1, MUSTER_CHECKPOINT_OWN, 1, 1);
}

CHECKPOINT_TEST(names_are_checkpoints_of_their_own)
{
    struct muster_checkpoint *other[2];
    struct muster_checkpoint_info info;

    all_save(1);
    for (int i = 0; i < 2; i++) {
        OK(muster_checkpoint_open(tasks[i], "data-loader_2.0", &other[i]));
        OK(muster_checkpoint_info(other[i], &info));
        assert_int_equal(info.generation, 0);
        OK(muster_checkpoint_save(other[i], 7, NULL, 0, 0, NULL));
    }
    OK(muster_checkpoint_info(other[0], &info));
    assert_int_equal(info.step, 7);
    assert_int_equal(newest(0), 1);
    for (int i = 0; i < 2; i++)
        muster_checkpoint_close(other[i]);
}

/* ---- pieces ---- */

CHECKPOINT_TEST(a_save_in_pieces_is_nothing_until_it_is_committed)
{
    char bytes[1000], tail[3] = "end";
    struct muster_checkpoint_tensor t[3] = {{.name = "a", .dtype = "bytes", .data = bytes, .len = sizeof bytes},
                                            {.name = "none", .dtype = "bytes"},
                                            {.name = "z", .dtype = "bytes", .data = tail, .len = sizeof tail}};
    const struct muster_checkpoint_tensor *found;
    struct muster_checkpoint_view view;
    size_t left = 1, calls = 0;

    memset(bytes, 'x', sizeof bytes);
    assert_status(muster_checkpoint_commit(cps[0], NULL), MUSTER_FAILED_PRECONDITION, "commit");
    rank_save(1, 5);
    OK(muster_checkpoint_begin(cps[0], 5, t, 3, 0));
    assert_status(muster_checkpoint_commit(cps[0], NULL), MUSTER_FAILED_PRECONDITION, "commit");
    assert_says("1003 bytes of generation 1");
    for (; left; calls++)
        OK(muster_checkpoint_copy(cps[0], 100, &left));
    assert_int_equal(calls, 11);
    assert_int_equal(newest(0), 0);
    OK(muster_checkpoint_begin(cps[0], 5, t, 3, 0)); /* gives the first one up */
    OK(muster_checkpoint_copy(cps[0], SIZE_MAX, &left));
    OK(muster_checkpoint_commit(cps[0], NULL));
    assert_int_equal(newest(0), 1);
    OK(muster_checkpoint_load(cps[0], 0, &view));
    OK(muster_checkpoint_find(&view, "z", "bytes", 0, NULL, &found));
    assert_memory_equal(found->data, "end", 3);
    OK(muster_checkpoint_find(&view, "a", "bytes", 0, NULL, &found));
    assert_memory_equal(found->data, bytes, sizeof bytes);
    muster_checkpoint_unload(&view);
}

/* ---- restarts ---- */

CHECKPOINT_TEST(an_attempt_that_begins_again_sees_the_newest_whole_generation)
{
    all_save(1);
    all_save(2);
    rank_save(0, 3);
    attempt_again(2);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 2, 2);
    rank_check(1, MUSTER_CHECKPOINT_OWN, 2, 2);
    rank_save(1, 33); /* rank 0's part of the attempt before is no part of this one's */
    assert_int_equal(newest(1), 2);
    rank_save(0, 33);
    rank_check(1, 0, 3, 33);
}

CHECKPOINT_TEST(what_a_dead_task_saved_beyond_the_newest_is_withdrawn)
{
    all_save(1);
    rank_save(0, 2);
    rank_succeed(0);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 1, 1);
    rank_save(1, 22);
    assert_int_equal(newest(0), 1);
    rank_save(0, 22);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 2, 22);
}

CHECKPOINT_TEST(a_generation_that_became_whole_is_not_withdrawn)
{
    all_save(1);
    all_save(2);
    rank_succeed(0);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 2, 2);
    all_save(3);
    rank_check(1, 0, 3, 3);
}

/* ---- views ---- */

CHECKPOINT_TEST(a_view_stays_as_it_is_whatever_is_saved)
{
    struct muster_checkpoint_view old, newer;

    all_save(1);
    OK(muster_checkpoint_load(cps[1], 0, &old));
    for (uint64_t step = 2; step < 6; step++) {
        all_save(step);
        view_check(&old, 0, 1);
    }
    OK(muster_checkpoint_load(cps[1], 0, &newer));
    view_check(&newer, 0, 5);
    all_save(6);
    all_save(7);
    view_check(&newer, 0, 5);
    muster_checkpoint_unload(&old);
    muster_checkpoint_unload(&newer);
    rank_check(1, 0, 7, 7);
}

/* A process that was forked while a view was open has its lock, and may live on: what is saved goes elsewhere. */
CHECKPOINT_TEST(a_forked_child_keeps_no_save_waiting)
{
    struct muster_checkpoint_view view;
    pid_t pid;

    all_save(1);
    OK(muster_checkpoint_load(cps[0], 0, &view));
    pid = fork();
    if (!pid)
        for (;;)
            pause();
    muster_checkpoint_unload(&view);
    for (uint64_t step = 2; step < 5; step++)
        all_save(step);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 4, 4);
    kill(pid, SIGKILL);
    test_reap(pid);
}

CHECKPOINT_TEST(a_forked_child_that_unloads_leaves_its_parents_view_alone)
{
    struct muster_checkpoint_view view;
    pid_t pid;

    all_save(1);
    OK(muster_checkpoint_load(cps[0], 0, &view));
    pid = fork();
    if (!pid) {
        muster_checkpoint_unload(&view);
        _exit(view.own != NULL);
    }
    assert_int_equal(test_reap(pid), 0);
    for (uint64_t step = 2; step < 5; step++)
        all_save(step);
    view_check(&view, 0, 1);
    muster_checkpoint_unload(&view);
}

/* ---- another number of ranks ---- */

CHECKPOINT_TEST(another_number_of_ranks_is_named_and_its_parts_are_there)
{
    struct muster_checkpoint_view view;
    struct muster_checkpoint_info info;

    for (uint64_t step = 1; step < 4; step++)
        all_save(step);
    attempt_again(3);
    OK(muster_checkpoint_info(cps[2], &info));
    assert_int_equal(info.generation, 3);
    assert_int_equal(info.step, 3);
    assert_int_equal(info.ranks, 2);
    assert_int_equal(info.job_ranks, 3);
    assert_status(muster_checkpoint_load(cps[0], MUSTER_CHECKPOINT_OWN, &view), MUSTER_FAILED_PRECONDITION, "load");
    assert_says("generation 3 of checkpoint model was saved by 2 ranks, and the job has 3");
    rank_check(2, 0, 3, 3);
    rank_check(2, 1, 3, 3);
    assert_status(muster_checkpoint_load(cps[0], 2, &view), MUSTER_NOT_FOUND, "load");
    assert_says("has 2 ranks, and no rank 2");
    rank_save(0, 4);
    rank_check(1, 1, 3, 3); /* until all three have saved */
    rank_save(1, 4);
    rank_save(2, 4);
    rank_check(2, MUSTER_CHECKPOINT_OWN, 4, 4);
    attempt_again(2); /* and back: what two ranks had saved is older */
    OK(muster_checkpoint_info(cps[0], &info));
    assert_int_equal(info.generation, 4);
    assert_int_equal(info.ranks, 3);
    all_save(5);
    rank_check(1, MUSTER_CHECKPOINT_OWN, 5, 5);
}

/* ---- errors ---- */

CHECKPOINT_TEST(a_wrong_type_shape_or_name_is_named)
{
    const struct muster_checkpoint_tensor *t;
    struct muster_checkpoint_view view;

    all_save(1);
    OK(muster_checkpoint_load(cps[0], 0, &view));
    assert_status(muster_checkpoint_find(&view, "layer.weight", "float32", 2, (uint64_t[]){10000, 10}, &t),
                  MUSTER_INVALID_ARGUMENT, "find");
    assert_says("tensor layer.weight is uint32[10000,10] in generation 1, not float32[10000,10]");
    assert_status(muster_checkpoint_find(&view, "layer.weight", "uint32", 1, (uint64_t[]){100000}, &t),
                  MUSTER_INVALID_ARGUMENT, "find");
    assert_says("not uint32[100000]");
    assert_status(muster_checkpoint_find(&view, "layer.bias", NULL, 0, NULL, &t), MUSTER_NOT_FOUND, "find");
    assert_says("generation 1 has no tensor layer.bias in the part of rank 0");
    muster_checkpoint_unload(&view);
}

CHECKPOINT_TEST(ranks_that_save_different_steps_are_named)
{
    all_save(10);
    rank_save(0, 20);
    rank_save(1, 30);
    assert_status(muster_checkpoint_wait(cps[0], 2, 0), MUSTER_ABORTED, "wait");
    assert_says("task 0 has saved step 20 as generation 2 of checkpoint model, task 1 step 30");
    assert_status(rank_save_until(1, 40, 0), MUSTER_ABORTED, "save");
    rank_check(1, MUSTER_CHECKPOINT_OWN, 1, 10); /* the good one before is not lost */
    attempt_again(2);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 1, 10);
    all_save(20);
    rank_check(1, 0, 2, 20);
}

CHECKPOINT_TEST(a_job_that_only_saves_removes_the_parts_of_other_sizes)
{
    char folder[560], path[600];

    all_save(1);
    attempt_again(3);
    mu_checkpoint_folder(run_id, folder, sizeof folder);
    snprintf(path, sizeof path, "%s/model@2.0.1", folder);
    assert_int_equal(access(path, F_OK), 0);
    all_save(2);
    assert_int_equal(access(path, F_OK), 0); /* until one that looks knows that three have a generation */
    all_save(3);
    assert_int_equal(access(path, F_OK), -1);
}

CHECKPOINT_TEST(a_job_that_starts_again_counts_no_part_of_the_attempt_before)
{
    struct muster_segment_config config = {.num_tasks = 2, .num_slots = 32};

    all_save(1);
    rank_save(1, 2);
    attempt_end();
    assert_int_equal(mu_checkpoint_rewind(run_id, MU_CHECKPOINT_ALL), MUSTER_OK);
    OK(test_job_create(&job, &config));
    for (int i = 0; i < 2; i++)
        assert_non_null(tasks[i] = test_join(job.name, i, MUSTER_JOIN_RECOVERABLE));
    OK(muster_checkpoint_open(tasks[0], "model", &cps[0])); /* the other comes later */
    rank_save(0, 2);
    assert_int_equal(newest(0), 1);
    OK(muster_checkpoint_open(tasks[1], "model", &cps[1]));
    rank_save(1, 2);
    assert_int_equal(newest(0), 2);
}

CHECKPOINT_TEST(a_handle_that_is_closed_and_opened_again_keeps_its_part)
{
    all_save(1);
    rank_save(0, 2);
    muster_checkpoint_close(cps[0]);
    OK(muster_checkpoint_open(tasks[0], "model", &cps[0]));
    assert_status(rank_save_until(0, 3, 0), MUSTER_DEADLINE_EXCEEDED, "save");
    rank_save(1, 2);
    rank_check(1, 0, 2, 2);
    all_save(3);
    rank_check(0, 1, 3, 3);
}

CHECKPOINT_TEST(a_task_that_starts_again_alone_counts_no_part_of_its_dead_process)
{
    all_save(1);
    rank_save(0, 2);
    assert_int_equal(mu_checkpoint_rewind(run_id, 0), MUSTER_OK); /* as the launcher, before it starts it again */
    rank_save(1, 2);
    assert_int_equal(newest(1), 1);
    rank_succeed(0);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 1, 1);
    rank_save(0, 2);
    rank_check(1, 0, 2, 2);
}

CHECKPOINT_TEST(a_job_whose_members_change_has_none)
{
    struct muster_checkpoint *cp;

    OK(muster_membership_begin(tasks[0], 2, 1, 0, 1));
    assert_status(muster_checkpoint_open(tasks[0], "other", &cp), MUSTER_FAILED_PRECONDITION, "open");
    assert_says("the members of this job change while it runs");
}

CHECKPOINT_TEST(what_cannot_be_saved_is_refused)
{
    struct muster_checkpoint_tensor t[2] = {{.name = "a", .dtype = "bytes"}, {.name = "a", .dtype = "bytes"}};
    struct muster_checkpoint *cp;
    struct muster *observer;

    assert_status(muster_checkpoint_save(cps[0], 1, t, 2, 0, NULL), MUSTER_INVALID_ARGUMENT, "save");
    assert_says("two tensors have the name a");
    t[0].num_dims = 9;
    assert_status(muster_checkpoint_save(cps[0], 1, t, 1, 0, NULL), MUSTER_INVALID_ARGUMENT, "save");
    assert_says("9 dimensions; 8 are the most");
    t[1].dtype = "a type of many words";
    assert_status(muster_checkpoint_save(cps[0], 1, t + 1, 1, 0, NULL), MUSTER_INVALID_ARGUMENT, "save");
    t[1] = (struct muster_checkpoint_tensor){.name = "b", .dtype = "bytes", .len = 1};
    assert_status(muster_checkpoint_save(cps[0], 1, t + 1, 1, 0, NULL), MUSTER_INVALID_ARGUMENT, "save");
    assert_status(muster_checkpoint_open(tasks[0], "../model", &cp), MUSTER_INVALID_ARGUMENT, "open");
    assert_status(muster_checkpoint_open(tasks[0], "", &cp), MUSTER_INVALID_ARGUMENT, "open");
    observer = test_join(job.name, -1, MUSTER_JOIN_OBSERVER);
    OK(muster_checkpoint_open(observer, "model", &cp));
    assert_status(muster_checkpoint_save(cp, 1, NULL, 0, 0, NULL), MUSTER_FAILED_PRECONDITION, "save");
    assert_says("this process has no rank");
    muster_checkpoint_close(cp);
    OK(muster_leave(observer));
    unsetenv("MUSTER_RUN_ID");
    assert_status(muster_checkpoint_open(tasks[0], "model", &cp), MUSTER_FAILED_PRECONDITION, "open");
    assert_says("start the job by 'muster run'");
    setenv("MUSTER_RUN_ID", run_id, 1);
}

static void part_path(char path[600], uint32_t rank, unsigned which)
{
    char folder[512];

    mu_checkpoint_folder(run_id, folder, sizeof folder);
    snprintf(path, 600, "%s/model@%u.%u.%u", folder, ranks, rank, which);
}

CHECKPOINT_TEST(a_part_that_is_missing_or_damaged_is_named)
{
    struct muster_checkpoint_view view;
    uint64_t wrong = UINT64_MAX / 2;
    char path[600];
    int fd;

    all_save(1);
    part_path(path, 1, 1);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, &wrong, 8, 32), 8); /* how many bytes it has */
    close(fd);
    assert_status(muster_checkpoint_load(cps[0], 1, &view), MUSTER_DATA_LOSS, "load");
    assert_says("the part of rank 1 of generation 1 of checkpoint model is damaged");
    assert_int_equal(unlink(path), 0);
    assert_status(muster_checkpoint_load(cps[0], 1, &view), MUSTER_DATA_LOSS, "load");
    assert_says("the part of rank 1 of generation 1 of checkpoint model is not in");
    rank_check(0, 0, 1, 1);
}

static int full(void *arg)
{
    char directory[64], taken[128];
    struct muster_checkpoint_view view;

    (void)arg;
    if (!test_small_shm(16 << 20, directory))
        return TEST_NOT_ALLOWED;
    CHECK(!stage_begin());
    all_save(1);
    test_fill_shm(directory, taken);
    CHECK(rank_save_until(0, 2, 0) == MUSTER_RESOURCE_EXHAUSTED);
    assert_says("bytes of checkpoint model of task 0");
    CHECK(!muster_checkpoint_load(cps[0], MUSTER_CHECKPOINT_OWN, &view) && view.generation == 1);
    view_check(&view, 0, 1);
    muster_checkpoint_unload(&view);
    unlink(taken);
    all_save(2);
    rank_check(1, 0, 2, 2);
    CHECK(!stage_end());
    test_small_shm_end(directory);
    return 0;
}

TEST(without_room_the_newest_generation_stays)
{
    test_with_small_shm(full);
}

CHECKPOINT_TEST(reserved_pages_serve_and_hurt_nothing)
{
    OK(muster_checkpoint_reserve(cps[0], sizeof(uint32_t) * STAGE_LONG));
    all_save(1);
    OK(muster_checkpoint_reserve(cps[0], sizeof(uint32_t) * STAGE_LONG));
    rank_check(0, MUSTER_CHECKPOINT_OWN, 1, 1);
    all_save(2);
    rank_check(0, MUSTER_CHECKPOINT_OWN, 2, 2);
    rank_save(0, 3); /* its part is counted already, and the generation is not whole */
    OK(muster_checkpoint_reserve(cps[0], sizeof(uint32_t) * STAGE_LONG));
    for (uint32_t i = 1; i < ranks; i++)
        rank_save(i, 3);
    rank_check(ranks - 1, 0, 3, 3);
}
