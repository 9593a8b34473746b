/*
 * tests/task/alive_test.c: which tasks of a set are alive, as agreed by them. Acceptance items 75 to 81.
 */
#include "stage.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "segment/segment.h"
#include "task/alive.h"

static const struct alive_act all = {{0, 1, 2}, 3};

static struct alive_answer answer_of(struct reply r)
{
    struct alive_answer a;

    assert_status(r, MUSTER_OK);
    memcpy(&a, r.data, sizeof a);
    return a;
}

/* The answer is exactly these tasks, with their present incarnations. */
static void assert_alive(struct reply r, const int32_t *tasks, size_t count)
{
    struct alive_answer a = answer_of(r);

    assert_int_equal(a.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(a.tasks[i], tasks[i]);
        assert_int_equal(a.incarnations[i], stage_task(tasks[i]).incarnation);
    }
}

static void tell_alive(int player, const struct alive_act *set)
{
    stage_tell(player, act_alive, set, sizeof *set);
}

STAGE_TEST(all_three_call_and_get_three)
{
    stage_open(3, NULL);
    stage_enter_all();
    tell_alive(0, &all);
    tell_alive(1, &all);
    stage_until_waiting(0, "the tasks alive");
    stage_until_waiting(1, "the tasks alive");
    assert_false(stage_has_answered(0));
    tell_alive(2, &all);
    for (int i = 0; i < 3; i++)
        assert_alive(stage_hear(i), all.tasks, 3);
    stage_close();
}

STAGE_TEST(a_task_that_failed_before_is_not_waited_for)
{
    stage_open(3, NULL);
    stage_enter_all();
    assert_status(do_report(2, 2, MUSTER_INTERNAL, "x"), MUSTER_OK);
    tell_alive(0, &all);
    tell_alive(1, &all);
    for (int i = 0; i < 2; i++)
        assert_alive(stage_hear(i), all.tasks, 2);
    stage_close();
}

STAGE_TEST(a_task_that_fails_while_the_others_wait_is_not_in_the_answer)
{
    stage_open(3, NULL);
    stage_enter_all();
    tell_alive(0, &all);
    tell_alive(1, &all);
    stage_until_waiting(0, "the tasks alive");
    stage_until_waiting(1, "the tasks alive");
    assert_status(do_report(2, 2, MUSTER_INTERNAL, "x"), MUSTER_OK);
    for (int i = 0; i < 2; i++)
        assert_alive(stage_hear(i), all.tasks, 2);
    stage_close();
}

static int act_alive_for_a_moment(void *arg, struct reply *reply)
{
    const struct alive_act *a = arg;
    int32_t tasks[3];
    size_t count;

    (void)reply;
    return muster_task_alive(me, a->tasks, a->count, muster_after_ms(300), tasks, NULL, &count);
}

STAGE_TEST(a_callers_own_deadline_names_who_has_not_asked)
{
    struct reply r;
    char name[40];

    stage_open(3, NULL);
    stage_enter_all();
    tell_alive(1, &all);
    stage_until_waiting(1, "the tasks alive");
    r = stage_do(0, act_alive_for_a_moment, &all, sizeof all);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    snprintf(name, sizeof name, "; not asking: task 2 (pid %u on host ", stage_task(2).pid);
    assert_says(r.text, name);
    assert_says(r.text, "): running");
    assert_null(strstr(r.text, "task 1 "));
    tell_alive(0, &all);
    stage_until_waiting(
        0, "the tasks alive"); /* else its first call may count for it, and the second for the next round */
    tell_alive(2, &all);
    for (int i = 0; i < 3; i++)
        assert_alive(stage_hear(i), all.tasks, 3);
    stage_close();
}

STAGE_TEST(a_task_that_is_killed_while_the_others_wait_is_not_in_the_answer)
{
    stage_open(3, NULL);
    stage_enter_all();
    tell_alive(0, &all);
    tell_alive(1, &all);
    stage_until_waiting(0, "the tasks alive");
    stage_kill(2);
    for (int i = 0; i < 2; i++)
        assert_alive(stage_hear(i), all.tasks, 2);
    stage_close();
}

STAGE_TEST(a_task_that_leaves_while_the_others_wait_is_not_in_the_answer)
{
    stage_open(3, NULL);
    stage_enter_all();
    tell_alive(0, &all);
    tell_alive(1, &all);
    stage_until_waiting(1, "the tasks alive");
    assert_status(do_plain(2, act_leave), MUSTER_OK);
    for (int i = 0; i < 2; i++)
        assert_alive(stage_hear(i), all.tasks, 2);
    stage_close();
}

STAGE_TEST(overlapping_sets_get_each_its_own_answer)
{
    const struct alive_act low = {{0, 1}, 2}, high = {{1, 2}, 2};

    stage_open(3, NULL);
    stage_enter_all();
    tell_alive(0, &low);
    tell_alive(2, &high);
    stage_until_waiting(0, "the tasks alive");
    stage_until_waiting(2, "the tasks alive");
    assert_alive(stage_do(1, act_alive, &high, sizeof high), high.tasks, 2);
    assert_alive(stage_hear(2), high.tasks, 2);
    assert_false(stage_has_answered(0));
    assert_alive(stage_do(1, act_alive, &low, sizeof low), low.tasks, 2);
    assert_alive(stage_hear(0), low.tasks, 2);
    stage_close();
}

STAGE_TEST(who_is_not_in_the_set_may_not_ask)
{
    const struct alive_act low = {{0, 1}, 2}, bad = {{0, 3}, 2}, none = {{0}, 0};
    struct reply r;

    stage_open(3, NULL);
    stage_enter_all();
    r = stage_do(2, act_alive, &low, sizeof low);
    assert_status(r, MUSTER_INVALID_ARGUMENT);
    assert_says(r.text, "task 2");
    assert_status(stage_do(0, act_alive, &bad, sizeof bad), MUSTER_INVALID_ARGUMENT);
    assert_status(stage_do(0, act_alive, &none, sizeof none), MUSTER_INVALID_ARGUMENT);
    stage_close();
}

STAGE_TEST(a_set_is_a_set_whatever_its_order_and_repetitions)
{
    const struct alive_act a = {{2, 0, 1, 0}, 4}, b = {{0, 1, 2}, 3}, c = {{1, 2, 2, 0, 1}, 5};

    stage_open(3, NULL);
    stage_enter_all();
    tell_alive(0, &a);
    tell_alive(1, &b);
    tell_alive(2, &c);
    for (int i = 0; i < 3; i++)
        assert_alive(stage_hear(i), all.tasks, 3);
    stage_close();
}

STAGE_TEST(alone_one_is_answered_at_once)
{
    const struct alive_act own = {{1}, 1};

    stage_open(3, NULL);
    stage_enter_all();
    assert_alive(stage_do(1, act_alive, &own, sizeof own), own.tasks, 1);
    stage_close();
}

static int act_alive_twice(void *arg, struct reply *reply)
{
    int status = act_alive(arg, reply);

    return status ? status : act_alive(arg, reply);
}

STAGE_TEST(six_calls_by_three_tasks_are_all_answered)
{
    stage_open(3, NULL);
    stage_enter_all();
    for (int i = 0; i < 3; i++)
        stage_tell(i, act_alive_twice, &all, sizeof all);
    for (int i = 0; i < 3; i++)
        assert_alive(stage_hear(i), all.tasks, 3);
    stage_close();
}

/* Two threads of one task. */
struct helper {
    pthread_t thread;
    struct alive_answer answer;
    enum muster_status status;
};

static void *ask(void *arg)
{
    struct helper *h = arg;
    size_t count = 0;

    h->status = muster_task_alive(me, all.tasks, 3, MUSTER_FOREVER, h->answer.tasks, h->answer.incarnations, &count);
    h->answer.count = count;
    return NULL;
}

static int act_alive_by_two_threads(void *arg, struct reply *reply)
{
    struct helper h[2] = {0};

    (void)arg;
    for (int i = 0; i < 2; i++)
        pthread_create(&h[i].thread, NULL, ask, &h[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(h[i].thread, NULL);
    if (h[0].status || h[1].status || memcmp(&h[0].answer, &h[1].answer, sizeof h[0].answer) != 0)
        return MUSTER_UNKNOWN;
    memcpy(reply->data, &h[0].answer, sizeof h[0].answer);
    return MUSTER_OK;
}

/* Tasks 0 and 1 have two threads asleep each. */
static bool four_threads_sleep(void)
{
    const struct muster_segment *seg = muster_segment_of(stage_observer);
    uint32_t asleep[3] = {0};

    for (uint32_t i = 0; i < seg->num_slots; i++) {
        uint64_t task = mu_load_relaxed(&seg->slots[i].task);

        if (task >= 1 && task <= 2 && mu_load_acquire(&seg->slots[i].wait_since))
            asleep[task]++;
    }
    return asleep[1] == 2 && asleep[2] == 2;
}

STAGE_TEST(repeated_calls_of_a_task_get_the_same_answer)
{
    stage_open(3, NULL);
    stage_enter_all();
    tell_plain(0, act_alive_by_two_threads);
    tell_plain(1, act_alive_by_two_threads);
    await(four_threads_sleep(), "two threads of tasks 0 and 1 wait");
    assert_alive(stage_do(2, act_alive, &all, sizeof all), all.tasks, 3);
    for (int i = 0; i < 2; i++)
        assert_alive(stage_hear(i), all.tasks, 3);
    stage_close();
}

/* The set is found again in its key, and a set of other tasks has another key. */
static void assert_key(const int32_t *ids, uint32_t count)
{
    static char key[MU_ALIVE_KEY_MAX], other[MU_ALIVE_KEY_MAX];
    static int32_t again[MU_ALIVE_MAX];
    uint32_t len = mu_alive_key(ids, count, key), other_len;

    assert_true(len <= sizeof key);
    assert_int_equal(mu_alive_set(key, len, again), count);
    assert_memory_equal(again, ids, count * sizeof *ids);
    for (int without = 0; without < 2 && count > 1; without++) { /* the first, the last */
        other_len = mu_alive_key(ids + without, count - 1, other);
        assert_true(other_len != len || memcmp(other, key, len) != 0);
    }
}

STAGE_TEST(a_set_of_any_size_is_a_key)
{
    static const uint32_t sizes[] = {1, 2, 8, 999, 1000, 1001, 1024, 4096, 8191, 8192};
    static int32_t ids[MU_ALIVE_MAX];

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint32_t step = 1; step * sizes[s] <= MU_ALIVE_MAX && step < 9; step++)
            for (uint32_t first = 0; first < 2 && first + step * (sizes[s] - 1) < MU_ALIVE_MAX; first++) {
                for (uint32_t i = 0; i < sizes[s]; i++)
                    ids[i] = (int32_t)(first + i * step);
                assert_key(ids, sizes[s]);
            }
}

STAGE_TEST(many_rounds_in_a_row_agree)
{
    stage_open(3, NULL);
    stage_enter_all();
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 3; i++)
            tell_alive(i, &all);
        for (int i = 0; i < 3; i++)
            assert_int_equal(answer_of(stage_hear(i)).count, 3);
    }
    stage_close();
}
