/*
 * tests/stream/stream_barrier_test.c: stream barriers of real processes whose streams are threads of the CPU: making
 * them, using them for long, whom they refuse, and that nothing of them stays behind.
 * variants: release asan tsan
 */
#include "band.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void play_all(uint32_t count, uint64_t first, uint64_t rounds)
{
    struct play_act a = {.rounds = rounds, .wait = true};

    band_open(count);
    band_create(count, first);
    for (uint32_t i = 0; i < count; i++)
        stage_tell((int)i, act_stream_play, &a, sizeof a);
    for (uint32_t i = 0; i < count; i++) {
        struct reply r = stage_hear((int)i);

        assert_status(r, MUSTER_OK);
        assert_int_equal(answer_of(&r).early, 0);
        assert_int_equal(answer_of(&r).good, first - 1 + rounds);
    }
    band_close();
}

STAGE_TEST(two_streams_meet_a_hundred_thousand_times_across_the_wrap)
{
    play_all(2, MU_STREAM_EPOCH - 50000, 100000);
}

STAGE_TEST(four_streams_meet_across_the_reset_of_a_later_epoch)
{
    play_all(4, 2 * MU_STREAM_EPOCH + MU_STREAM_RESET - 2000, 4000);
}

STAGE_TEST(eight_streams_meet)
{
    play_all(8, 1, 2000);
}

STAGE_TEST(a_single_member_waits_for_nobody)
{
    play_all(1, 1, 1000);
}

STAGE_TEST(a_member_that_is_late_is_named_and_waited_for)
{
    struct play_act a = {.rounds = 3};
    bool hold = true;
    struct reply r;

    band_open(3);
    band_create(3, 0);
    assert_status(stage_do(1, act_stream_hold, &hold, sizeof hold), MUSTER_OK);
    for (int i = 0; i < 3; i++)
        assert_status(stage_do(i, act_stream_play, &a, sizeof a), MUSTER_OK);
    do
        r = do_plain(0, act_stream_missing);
    while (r.len != sizeof(int32_t) || ((int32_t *)(void *)r.data)[0] != 1);
    r = do_plain(2, act_stream_free_hastily); /* its rounds are outstanding */
    assert_status(r, MUSTER_FAILED_PRECONDITION);
    assert_says(r.text, "synchronize");
    hold = false;
    assert_status(stage_do(1, act_stream_hold, &hold, sizeof hold), MUSTER_OK);
    for (int i = 0; i < 3; i++) {
        r = do_plain(i, act_stream_result);
        assert_status(r, MUSTER_OK);
        assert_int_equal(answer_of(&r).good, 3);
    }
    assert_int_equal(do_plain(0, act_stream_missing).len, 0);
    band_close();
}

STAGE_TEST(a_member_without_an_accelerator_is_the_answer_for_all)
{
    struct create_act a = {.name = "b"};

    band_open(3);
    for (int i = 0; i < 3; i++) {
        a.absent = i == 1;
        tell_create(i, &a);
    }
    for (int i = 0; i < 3; i++) {
        struct reply r = stage_hear(i);

        assert_status(r, MUSTER_UNAVAILABLE);
        assert_says(r.text, "task 1 cannot take part");
        assert_says(r.text, "no accelerator, says the test");
    }
    band_create(3, 0); /* and the name is free */
    band_close();
}

STAGE_TEST(who_does_not_come_before_the_deadline_is_named)
{
    struct create_act a = {.name = "b", .patience_ns = 50000000};
    struct reply r;

    band_open(2);
    tell_create(0, &a);
    r = stage_hear(0);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_says(r.text, "not there: task 1 (pid ");
    band_create(2, 0);
    band_close();
}

static int act_bad_create(void *arg, struct reply *reply)
{
    struct muster_stream_barrier *b;
    char name[300];
    int wrong = 0;

    (void)arg;
    (void)reply;
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    wrong += muster_stream_barrier_create(me, NULL, NULL, 0, 0, &b) != MUSTER_INVALID_ARGUMENT;
    wrong += muster_stream_barrier_create(me, "", NULL, 0, 0, &b) != MUSTER_INVALID_ARGUMENT;
    wrong += muster_stream_barrier_create(me, name, NULL, 0, 0, &b) != MUSTER_INVALID_ARGUMENT;
    wrong += muster_stream_barrier_create(NULL, "b", NULL, 0, 0, &b) != MUSTER_INVALID_ARGUMENT;
    wrong += muster_stream_barrier_create(me, "b", (int32_t[]){9}, 1, 0, &b) != MUSTER_INVALID_ARGUMENT;
    wrong += muster_stream_barrier_create(me, "b", (int32_t[65]){0}, 65, 0, &b) != MUSTER_INVALID_ARGUMENT;
    wrong += muster_stream_barrier_enqueue(NULL, NULL) != MUSTER_INVALID_ARGUMENT;
    wrong += muster_stream_barrier_status(NULL, NULL) != MUSTER_INVALID_ARGUMENT;
    wrong += muster_stream_barrier_free(NULL) != MUSTER_OK;
    return wrong;
}

STAGE_TEST(bad_arguments_are_refused)
{
    band_open(1);
    assert_int_equal(do_plain(0, act_bad_create).status, 0);
    band_close();
}

static struct muster *second_handle;
static enum muster_status second_status;

static void *second_member(void *arg)
{
    struct muster_stream_barrier *b;

    second_status = mu_stream_create(second_handle, "b", NULL, 0, 1, &cpu_executor, muster_after_ms(60000), &b);
    return arg;
}

static int act_two_in_one(void *arg, struct reply *reply)
{
    struct muster_stream_barrier *b;
    struct muster_options o;
    pthread_t thread;
    int status;

    (void)arg;
    (void)reply;
    muster_options_init(&o);
    o.job = stage_job;
    o.task_id = 1;
    if (muster_join(&o, &second_handle) || pthread_create(&thread, NULL, second_member, NULL))
        return -1;
    status = mu_stream_create(me, "b", NULL, 0, 1, &cpu_executor, muster_after_ms(60000), &b);
    pthread_join(thread, NULL);
    if (second_status != (enum muster_status)status)
        return -2;
    muster_leave(second_handle);
    return status;
}

STAGE_TEST(two_members_in_one_process_are_refused)
{
    struct reply r;

    stage_open(2, NULL);
    stage_enter(0, 0);
    r = do_plain(0, act_two_in_one);
    assert_status(r, MUSTER_FAILED_PRECONDITION);
    assert_says(r.text, "one process");
    stage_close();
}

static int act_other_stream(void *arg, struct reply *reply)
{
    struct CUstream_st *a = cpu_stream_open(), *b = cpu_stream_open();
    struct muster_stream_barrier *alone;
    int wrong = mu_stream_create(me, "alone", &(int32_t){0}, 1, 1, &cpu_executor, MUSTER_FOREVER, &alone) != MUSTER_OK;

    (void)arg;
    (void)reply;
    cpu_stream_hold(a, true);
    wrong += muster_stream_barrier_enqueue(alone, a) != MUSTER_OK;
    wrong += muster_stream_barrier_enqueue(alone, b) != MUSTER_FAILED_PRECONDITION;
    wrong += muster_stream_barrier_enqueue(alone, a) != MUSTER_OK;
    cpu_stream_hold(a, false);
    cpu_stream_synchronize(a);
    wrong += muster_stream_barrier_enqueue(alone, b) != MUSTER_OK;
    cpu_stream_synchronize(b);
    wrong += muster_stream_barrier_free(alone) != MUSTER_OK;
    cpu_stream_close(a);
    cpu_stream_close(b);
    return wrong;
}

STAGE_TEST(rounds_go_to_another_stream_only_after_the_last_are_done)
{
    band_open(1);
    assert_int_equal(do_plain(0, act_other_stream).status, 0);
    band_close();
}

static int act_fork(void *arg, struct reply *reply)
{
    struct muster_stream_barrier *b;
    int status = mu_stream_create(me, "alone", &(int32_t){0}, 1, 1, &cpu_executor, MUSTER_FOREVER, &b);
    pid_t pid;

    (void)arg;
    (void)reply;
    if (status)
        return status;
    pid = fork();
    if (!pid)
        _exit(muster_stream_barrier_enqueue(b, NULL) != MUSTER_FAILED_PRECONDITION ||
              muster_stream_barrier_status(b, NULL) != MUSTER_FAILED_PRECONDITION ||
              muster_stream_barrier_free(b) != MUSTER_OK);
    if (waitpid(pid, &status, 0) != pid || status)
        return -1;
    return muster_stream_barrier_free(b);
}

STAGE_TEST(a_forked_child_is_refused_and_frees_its_copy)
{
    band_open(1);
    assert_int_equal(do_plain(0, act_fork).status, 0);
    band_close();
}

static int entries(const char *path)
{
    DIR *folder = opendir(path);
    int n = 0;

    while (folder && readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static int act_count(void *arg, struct reply *reply)
{
    char line[512];
    FILE *f = fopen("/proc/self/maps", "r");
    int maps = 0;

    (void)arg;
    (void)reply;
    while (f && fgets(line, sizeof line, f))
        maps += strstr(line, "muster-stream") != NULL;
    fclose(f);
    return entries("/proc/self/fd") * 100000 + entries("/proc/self/task") * 1000 + maps;
}

STAGE_TEST(nothing_of_a_barrier_stays_behind)
{
    int before[3], with[3];

    band_open(3);
    for (int round = 0; round < 30; round++) {
        struct play_act a = {.rounds = 20, .wait = true};

        band_create(3, 0);
        for (int i = 0; i < 3; i++)
            stage_tell(i, act_stream_play, &a, sizeof a);
        for (int i = 0; i < 3; i++)
            assert_status(stage_hear(i), MUSTER_OK);
        for (int i = 0; i < 3; i++) {
            int now = do_plain(i, act_count).status;

            with[i] = round ? with[i] : now;
            assert_int_equal(now, with[i]);
            assert_int_equal(now % 1000, 1);
        }
        for (int i = 0; i < 3; i++)
            assert_status(do_plain(i, act_stream_free), MUSTER_OK);
        for (int i = 0; i < 3; i++) {
            int now = do_plain(i, act_count).status;

            before[i] = round ? before[i] : now;
            assert_int_equal(now, before[i]);
            assert_int_equal(now % 1000, 0);
        }
        stage_audit();
    }
    band_close();
}
