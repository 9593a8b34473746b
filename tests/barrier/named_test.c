/*
 * tests/barrier/named_test.c: named barriers between real processes: of the coordination service's acceptance items 50
 * to 67 those that tasks alone can show, each test one item, in its order. The rules that guests share with them are a
 * table in tests/coord/scenarios_test.c.
 */
#include "stage.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct barrier_act call(const char *id, uint64_t counter, const int32_t *tasks, uint32_t count)
{
    struct barrier_act a = {.counter = counter, .count = count};

    snprintf(a.id, sizeof a.id, "%s", id);
    if (count)
        memcpy(a.tasks, tasks, count * sizeof *tasks);
    return a;
}

static void tell(int player, struct barrier_act a)
{
    stage_tell(player, act_barrier, &a, sizeof a);
}

static struct reply ask(int player, struct barrier_act a)
{
    return stage_do(player, act_barrier, &a, sizeof a);
}

static void tell_and_wait(int player, struct barrier_act a)
{
    tell(player, a);
    stage_until_waiting(player, "barrier");
}

static const int32_t low[] = {0, 1}, high[] = {1, 2};

static int find(void *arg, const struct muster_barrier_info *info)
{
    const char **id = arg;

    if (!strcmp(info->id, *id))
        *id = NULL;
    return !*id;
}

static bool has_come(const char *id)
{
    assert_int_equal(muster_barrier_list(stage_observer, find, &id), MUSTER_OK);
    return !id;
}

/* 50; the timeout is longer where the machine is too slow for two to come before it */
STAGE_TEST(at_the_timeout_all_who_wait_get_the_same_words)
{
    struct reply r, q, late;
    uint64_t timeout = 100000000;

    stage_open(3, NULL);
    stage_enter_all();
    do {
        char id[32];
        struct barrier_act a;

        snprintf(id, sizeof id, "b%llu", (unsigned long long)timeout);
        a = call(id, 0, NULL, 0);
        a.timeout_ns = timeout;
        tell(1, a);
        await(has_come(id), "the first has come");
        tell(0, a);
        r = stage_hear(0);
        q = stage_hear(1);
        late = ask(2, a); /* the straggler's rule */
        timeout *= 4;
    } while (strstr(r.text, "1/3") && timeout < 100000000000u);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_status(q, MUSTER_DEADLINE_EXCEEDED);
    assert_status(late, MUSTER_DEADLINE_EXCEEDED);
    assert_string_equal(r.text, q.text);
    assert_string_equal(r.text, late.text);
    assert_says(r.text, "The first task at the barrier: 1");
    assert_says(r.text, "2/3");
    assert_says(r.text, "task 2 (pid");
    assert_says(r.text, "running, not at the barrier");
    stage_close();
}

/* 51 */
STAGE_TEST(a_repeated_call_of_a_failed_barrier_gets_the_same_error)
{
    struct reply r, again;

    stage_open(3, NULL);
    stage_enter_all();
    tell_and_wait(0, call("b", 0, NULL, 0));
    assert_status(do_report(2, 2, MUSTER_ABORTED, "out of luck"), MUSTER_OK);
    r = stage_hear(0);
    assert_status(r, MUSTER_INTERNAL);
    again = do_barrier(0, "b", 0);
    assert_status(again, MUSTER_INTERNAL);
    assert_string_equal(r.text, again.text);
    assert_status(do_barrier(1, "b", 0), MUSTER_INTERNAL);
    stage_close();
}

/* 52 */
STAGE_TEST(consecutive_instances_have_consecutive_counters)
{
    stage_open(3, NULL);
    stage_enter_all();
    for (uint64_t counter = 0; counter < 20; counter++) {
        for (int i = 0; i < 3; i++)
            tell_barrier(i, "b", counter);
        for (int i = 0; i < 3; i++)
            assert_status(stage_hear(i), MUSTER_OK);
    }
    stage_close();
}

/* 59 */
STAGE_TEST(a_participant_already_in_error_fails_the_call)
{
    struct reply r;

    stage_open(3, NULL);
    stage_enter_all();
    assert_status(do_report(2, 2, MUSTER_ABORTED, "out of luck"), MUSTER_OK);
    r = do_barrier(0, "b", 0);
    assert_status(r, MUSTER_INTERNAL);
    assert_says(r.text, "task 2");
    assert_says(r.text, "already in error");
    assert_says(r.text, "out of luck");
    assert_status(do_barrier(1, "b", 0), MUSTER_INTERNAL);
    stage_close();
}

/* 60 */
STAGE_TEST(a_participant_that_enters_error_while_others_wait_fails_it)
{
    struct reply r, q;

    stage_open(3, NULL);
    stage_enter_all();
    tell_and_wait(0, call("b", 0, NULL, 0));
    tell_and_wait(1, call("b", 0, NULL, 0));
    assert_status(do_report(2, 2, MUSTER_ABORTED, "out of luck"), MUSTER_OK);
    r = stage_hear(0);
    q = stage_hear(1);
    assert_status(r, MUSTER_INTERNAL);
    assert_status(q, MUSTER_INTERNAL);
    assert_string_equal(r.text, q.text);
    assert_says(r.text, "task 2");
    stage_close();
}

/* A second call of one task: needs a second thread. */
static struct {
    pthread_t thread;
    struct barrier_act act;
    struct reply reply;
} second;

static void *run_second(void *arg)
{
    (void)arg;
    second.reply.status = act_barrier(&second.act, &second.reply);
    if (second.reply.status)
        snprintf(second.reply.text, sizeof second.reply.text, "%s", muster_last_error());
    return NULL;
}

static int act_start_second(void *arg, struct reply *reply)
{
    (void)reply;
    memcpy(&second.act, arg, sizeof second.act);
    return pthread_create(&second.thread, NULL, run_second, NULL) ? MUSTER_INTERNAL : MUSTER_OK;
}

static int act_end_second(void *arg, struct reply *reply)
{
    (void)arg;
    pthread_join(second.thread, NULL);
    memcpy(reply->data, &second.reply.status, sizeof second.reply.status);
    snprintf((char *)reply->data + 8, 512, "%.500s", second.reply.text);
    return MUSTER_OK;
}

/* 61 */
STAGE_TEST(a_second_call_of_a_task_cancels_its_first_and_the_barrier_goes_on)
{
    struct barrier_act a = call("b", 0, NULL, 0);
    struct reply r;
    int status;

    stage_open(2, NULL);
    stage_enter_all();
    assert_status(stage_do(0, act_start_second, &a, sizeof a), MUSTER_OK);
    stage_until_waiting(0, "barrier b::0");
    tell(0, a);
    /* the older call ends; the newer one waits on: both are seen at once, by the answer that is not there */
    assert_false(stage_has_answered(0));
    assert_status(ask(1, a), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    r = do_plain(0, act_end_second);
    memcpy(&status, r.data, sizeof status);
    /* cancelled, unless the instance had passed before it woke: then the call has its result */
    assert_true(status == MUSTER_CANCELLED || status == MUSTER_OK);
    if (status == MUSTER_CANCELLED)
        assert_says((char *)r.data + 8, "more recent barrier call");
    stage_close();
}

/* 61, when the first has the time to wake */
STAGE_TEST(the_first_of_two_calls_of_a_task_is_cancelled)
{
    struct barrier_act a = call("b", 0, NULL, 0);
    struct reply r;
    uint64_t since;
    int status;

    stage_open(2, NULL);
    stage_enter_all();
    assert_status(stage_do(0, act_start_second, &a, sizeof a), MUSTER_OK);
    stage_until_waiting(0, "barrier b::0");
    since = stage_task(0).waiting_since_ns;
    tell(0, a);
    await(stage_task(0).waiting_since_ns > since, "the older call has ended, the newer one sleeps");
    assert_status(ask(1, a), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    r = do_plain(0, act_end_second);
    memcpy(&status, r.data, sizeof status);
    assert_int_equal(status, MUSTER_CANCELLED);
    assert_says((char *)r.data + 8, "more recent barrier call");
    stage_close();
}

/* 62 */
STAGE_TEST(reset_of_a_participant_fails_its_barrier)
{
    int32_t two = 2;
    struct reply r;

    stage_open(3, NULL);
    stage_enter_all();
    tell_and_wait(0, call("b", 0, NULL, 0));
    assert_status(stage_do(2, act_reset, &two, sizeof two), MUSTER_OK);
    r = stage_hear(0);
    assert_status(r, MUSTER_INTERNAL);
    assert_says(r.text, "task 2");
    assert_says(r.text, "disconnected");
    stage_close();
}

/* 63 */
STAGE_TEST(a_participant_that_leaves_fails_it)
{
    struct reply r;

    stage_open(3, NULL);
    stage_enter_all();
    tell_and_wait(0, call("b", 0, NULL, 0));
    tell_and_wait(1, call("b", 0, NULL, 0));
    assert_status(do_plain(2, act_leave), MUSTER_OK);
    r = stage_hear(0);
    assert_status(r, MUSTER_INTERNAL);
    assert_says(r.text, "task 2");
    assert_says(r.text, "disconnected");
    assert_status(stage_hear(1), MUSTER_INTERNAL);
    stage_close();
}

static void open_with_a_silent_task_2(void)
{
    struct muster_segment_config c = {
        .num_buckets = 64, .num_events = 64, .heap_bytes = 16u << 20, .heartbeat_timeout_ns = 300000000};

    stage_open(3, &c);
    stage_enter(0, 0);
    stage_enter(1, 0);
    stage_enter(2, MUSTER_JOIN_NO_HEARTBEAT);
}

/* 64 */
STAGE_TEST(a_task_that_falls_silent_fails_a_barrier_of_all)
{
    struct reply r;

    open_with_a_silent_task_2();
    r = do_barrier(0, "b", 0);
    assert_status(r, MUSTER_INTERNAL);
    assert_says(r.text, "task 2");
    assert_says(r.text, "heartbeat");
    stage_close();
}

/* 65 */
STAGE_TEST(a_task_that_falls_silent_fails_a_barrier_that_lists_all)
{
    const int32_t everybody[] = {2, 1, 0};

    open_with_a_silent_task_2();
    assert_status(ask(0, call("b", 0, everybody, 3)), MUSTER_INTERNAL);
    stage_close();
}

/* 66 */
STAGE_TEST(after_the_error_was_told_a_barrier_of_all_fails)
{
    open_with_a_silent_task_2();
    tell_plain(1, act_error_wait);
    assert_status(stage_hear(1), MUSTER_OK);
    assert_status(do_barrier(0, "b", 0), MUSTER_INTERNAL);
    stage_close();
}

/* 67 */
STAGE_TEST(a_task_that_fell_silent_fails_a_subset_with_it_and_no_other)
{
    open_with_a_silent_task_2();
    stage_until_state(2, MUSTER_TASK_ERROR);
    assert_status(ask(1, call("b", 0, high, 2)), MUSTER_INTERNAL);
    tell(0, call("c", 0, low, 2));
    assert_status(ask(1, call("c", 0, low, 2)), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    stage_close();
}
