/*
 * tests/barrier/group_test.c: groups of real processes: the barrier, the collectives against computed answers, order,
 * mismatches, subsets, several groups at once, who is missing.
 */
#include "crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static void run(uint32_t tasks, struct run_act a)
{
    for (uint32_t i = 0; i < tasks; i++)
        stage_tell((int)i, act_run, &a, sizeof a);
    for (uint32_t i = 0; i < tasks; i++)
        assert_status(stage_hear((int)i), MUSTER_OK);
}

static void free_all(uint32_t tasks)
{
    for (uint32_t i = 0; i < tasks; i++)
        assert_status(do_plain((int)i, act_group_free), MUSTER_OK);
    assert_int_equal(crew_areas(), 0);
}

/* Everything, with this many tasks: 33 of them are far more than the processors. */
static void with_tasks(uint32_t tasks, uint64_t rounds)
{
    struct run_act a = {.first = 1, .rounds = rounds, .seed = tasks, .max_len = 512};

    crew_open(tasks, NULL);
    stage_enter_all();
    crew_create("g", tasks, 512);
    for (uint32_t kind = RUN_BARRIER; kind <= RUN_ANY; kind++) {
        a.kind = kind;
        run(tasks, a);
        a.first += rounds;
    }
    for (uint32_t i = 0; i < tasks; i++)
        assert_int_equal(board->places[i].last_ok, 5 * rounds);
    free_all(tasks);
    crew_close();
}

STAGE_TEST(two_tasks_meet_and_exchange)
{
    with_tasks(2, 3000);
}

STAGE_TEST(three_tasks_meet_and_exchange)
{
    with_tasks(3, 1000);
}

STAGE_TEST(eight_tasks_meet_and_exchange)
{
    with_tasks(8, 200);
}

STAGE_TEST(thirty_three_tasks_meet_and_exchange)
{
    with_tasks(33, 20);
}

STAGE_TEST(a_group_of_one_passes_at_once)
{
    with_tasks(1, 1000);
}

STAGE_TEST(every_size_of_data_arrives_whole)
{
    static const uint64_t sizes[] = {1, 7, 8, 9, 255, 256, 4097, MUSTER_GROUP_DATA_MAX};

    crew_open(3, NULL);
    stage_enter_all();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct run_act a = {.first = 1, .rounds = 40, .seed = sizes[i], .kind = RUN_ANY, .max_len = (uint32_t)sizes[i]};

        crew_wipe();
        crew_create("g", 3, sizes[i]);
        run(3, a);
        free_all(3);
    }
    crew_close();
}

STAGE_TEST(ranks_are_positions_in_the_list)
{
    static const int32_t order[] = {3, 0, 2, 1};
    struct run_act a = {.first = 1, .rounds = 50, .kind = RUN_ALLGATHER, .max_len = 100};

    crew_open(4, NULL);
    stage_enter_all();
    for (int i = 0; i < 4; i++)
        tell_create(i, "g", order, 4);
    for (int i = 0; i < 4; i++) {
        struct reply r = stage_hear(i);
        uint32_t answer[2];

        assert_status(r, MUSTER_OK);
        memcpy(answer, r.data, sizeof answer);
        assert_int_equal(order[answer[0]], i);
        assert_int_equal(answer[1], 4);
    }
    run(4, a);
    free_all(4);
    crew_close();
}

STAGE_TEST(no_list_means_all_tasks_in_order)
{
    crew_open(3, NULL);
    stage_enter_all();
    for (int i = 0; i < 3; i++)
        tell_create(i, "g", NULL, 0);
    for (int i = 0; i < 3; i++) {
        struct reply r = stage_hear(i);
        uint32_t answer[2];

        assert_status(r, MUSTER_OK);
        memcpy(answer, r.data, sizeof answer);
        assert_int_equal(answer[0], i);
        assert_int_equal(answer[1], 3);
    }
    free_all(3);
    crew_close();
}

STAGE_TEST(a_subset_is_a_group_of_its_own)
{
    static const int32_t some[] = {1, 3};
    struct run_act a = {.first = 1, .rounds = 500, .kind = RUN_ANY, .max_len = 256};

    crew_open(4, NULL);
    stage_enter_all();
    tell_create(1, "g", some, 2);
    tell_create(3, "g", some, 2);
    assert_status(stage_hear(1), MUSTER_OK);
    assert_status(stage_hear(3), MUSTER_OK);
    stage_tell(1, act_run, &a, sizeof a);
    stage_tell(3, act_run, &a, sizeof a);
    assert_status(do_report(2, 2, MUSTER_INTERNAL, "not one of them"), MUSTER_OK); /* no matter for the group */
    assert_status(stage_hear(1), MUSTER_OK);
    assert_status(stage_hear(3), MUSTER_OK);
    crew_close();
}

STAGE_TEST(members_that_disagree_are_told_so)
{
    static const int32_t forth[] = {0, 1}, back[] = {1, 0}, more[] = {0, 1, 2};
    struct group_act larger = {.name = "g", .tasks = {0, 1}, .count = 2, .data_bytes = 8};
    struct reply r;

    crew_open(3, NULL);
    stage_enter_all();
    tell_create(0, "g", forth, 2);
    stage_until_waiting(0, "the members of group g");
    r = create_on(1, "g", back, 2, 0);
    assert_status(r, MUSTER_INVALID_ARGUMENT);
    assert_says(r.text, "another order");
    assert_status(create_on(1, "g", more, 3, 0), MUSTER_INVALID_ARGUMENT);
    assert_status(stage_do(1, act_group_create, &larger, sizeof larger), MUSTER_INVALID_ARGUMENT);
    assert_status(create_on(1, "g", forth, 2, 0), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    free_all(2);
    crew_close();
}

STAGE_TEST(what_makes_no_group_is_refused)
{
    static const int32_t others[] = {1, 2}, twice[] = {0, 1, 0}, unknown[] = {0, 3};
    struct group_act big = {.name = "g", .data_bytes = MUSTER_GROUP_DATA_MAX + 1}, nameless = {.name = ""};
    char longest[MUSTER_GROUP_NAME_MAX + 2];
    struct muster_group *g;

    crew_open(3, NULL);
    stage_enter_all();
    assert_status(create_on(0, "g", others, 2, 0), MUSTER_INVALID_ARGUMENT);
    assert_status(create_on(0, "g", twice, 3, 0), MUSTER_INVALID_ARGUMENT);
    assert_status(create_on(0, "g", unknown, 2, 0), MUSTER_INVALID_ARGUMENT);
    assert_status(stage_do(0, act_group_create, &big, sizeof big), MUSTER_INVALID_ARGUMENT);
    assert_status(stage_do(0, act_group_create, &nameless, sizeof nameless), MUSTER_INVALID_ARGUMENT);
    memset(longest, 'g', sizeof longest);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(muster_group_create(stage_observer, longest, NULL, 0, 0, 0, &g), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(muster_group_create(stage_observer, "g", NULL, 0, 0, 0, &g), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(crew_areas(), 0);
    crew_close();
}

static int act_bad_calls(void *arg, struct reply *reply)
{
    uint64_t v[64] = {0};
    muster_deadline d = MUSTER_FOREVER;
    int32_t ids[4];
    size_t count;

    (void)arg;
    (void)reply;
    if (muster_group_barrier(NULL, d) != MUSTER_INVALID_ARGUMENT ||
        muster_group_missing(NULL, ids, 4, &count) != MUSTER_INVALID_ARGUMENT)
        return 100;
    if (muster_group_broadcast(group, 2, v, 8, d) != MUSTER_INVALID_ARGUMENT ||
        muster_group_broadcast(group, 0, NULL, 8, d) != MUSTER_INVALID_ARGUMENT ||
        muster_group_broadcast(group, 0, v, 257, d) != MUSTER_INVALID_ARGUMENT)
        return 101;
    if (muster_group_allgather(group, NULL, 8, v, d) != MUSTER_INVALID_ARGUMENT ||
        muster_group_allgather(group, v, 257, v, d) != MUSTER_INVALID_ARGUMENT)
        return 102;
    if (muster_group_allreduce(group, v, 33, MUSTER_TYPE_INT64, MUSTER_OP_SUM, d) != MUSTER_INVALID_ARGUMENT ||
        muster_group_allreduce(group, NULL, 1, MUSTER_TYPE_INT64, MUSTER_OP_SUM, d) != MUSTER_INVALID_ARGUMENT ||
        muster_group_allreduce(group, v, SIZE_MAX / 8, MUSTER_TYPE_INT64, MUSTER_OP_SUM, d) !=
            MUSTER_INVALID_ARGUMENT ||
        muster_group_allreduce(group, v, 1, MUSTER_TYPE_DOUBLE, MUSTER_OP_BAND, d) != MUSTER_INVALID_ARGUMENT ||
        muster_group_allreduce(group, v, 1, (enum muster_type)3, MUSTER_OP_SUM, d) != MUSTER_INVALID_ARGUMENT ||
        muster_group_allreduce(group, v, 1, MUSTER_TYPE_INT64, (enum muster_op)6, d) != MUSTER_INVALID_ARGUMENT)
        return 103;
    muster_group_free(NULL);
    return MUSTER_OK;
}

STAGE_TEST(a_call_that_makes_no_sense_is_refused_and_costs_no_instance)
{
    struct run_act a = {.first = 1, .rounds = 10, .kind = RUN_ANY, .max_len = 256};

    crew_open(2, NULL);
    stage_enter_all();
    crew_create("g", 2, 0);
    assert_status(do_plain(0, act_bad_calls), MUSTER_OK);
    run(2, a);
    free_all(2);
    crew_close();
}

/* Two threads a task, each with a group of its own. */
struct side {
    pthread_t thread;
    struct muster_group *g;
    uint64_t seed;
    int status;
};

static void *run_side(void *arg)
{
    struct side *s = arg;

    for (uint64_t n = 1; n <= 500 && !s->status; n++) {
        int64_t v = (int64_t)(n * s->seed) + muster_task_id(me);

        s->status = muster_group_allreduce(s->g, &v, 1, MUSTER_TYPE_INT64, MUSTER_OP_SUM, MUSTER_FOREVER);
        if (!s->status && v != 3 * (int64_t)(n * s->seed) + 3)
            s->status = MUSTER_DATA_LOSS;
    }
    return NULL;
}

static int act_two_groups(void *arg, struct reply *reply)
{
    struct side sides[2] = {{.seed = 7}, {.seed = 1000003}};

    (void)arg;
    (void)reply;
    for (int i = 0; i < 2; i++) {
        sides[i].status = muster_group_create(me, i ? "left" : "right", NULL, 0, 64, MUSTER_FOREVER, &sides[i].g);
        if (sides[i].status)
            return sides[i].status;
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&sides[i].thread, NULL, run_side, &sides[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(sides[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        muster_group_free(sides[i].g);
    return sides[0].status ? sides[0].status : sides[1].status;
}

STAGE_TEST(two_groups_run_side_by_side_in_two_threads)
{
    crew_open(3, NULL);
    stage_enter_all();
    for (int i = 0; i < 3; i++)
        tell_plain(i, act_two_groups);
    for (int i = 0; i < 3; i++)
        assert_status(stage_hear(i), MUSTER_OK);
    assert_int_equal(crew_areas(), 0);
    crew_close();
}

/* One thread waits in the barrier, another asks who is missing. */
static pthread_t waiter;

static void *wait_in_barrier(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)muster_group_barrier(group, MUSTER_FOREVER);
}

static int act_start_waiter(void *arg, struct reply *reply)
{
    (void)arg;
    (void)reply;
    return pthread_create(&waiter, NULL, wait_in_barrier, NULL) ? MUSTER_INTERNAL : MUSTER_OK;
}

static int act_end_waiter(void *arg, struct reply *reply)
{
    void *result;

    (void)arg;
    (void)reply;
    pthread_join(waiter, &result);
    return (int)(intptr_t)result;
}

static int act_missing(void *arg, struct reply *reply)
{
    int32_t ids[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    size_t count = 99;
    int status = muster_group_missing(group, ids, 2, &count);

    (void)arg;
    memcpy(reply->data, ids, sizeof ids);
    reply->len = count;
    return status;
}

/* A count, then the first two. */
static bool is_missing(const int32_t wanted[3])
{
    struct reply r = do_plain(0, act_missing);
    int32_t ids[3];

    assert_status(r, MUSTER_OK);
    memcpy(ids, r.data, sizeof ids);
    assert_int_equal(ids[2], -1); /* never more than asked for */
    return (int32_t)r.len == wanted[0] && ids[0] == wanted[1] && ids[1] == wanted[2];
}

STAGE_TEST(who_is_missing_can_be_read_from_another_thread)
{
    int32_t all_but_0[] = {3, 1, 2}, two[] = {2, 1, 3}, one[] = {1, 3, -1}, none[] = {4, 0, 1};
    struct run_act once = {.first = 1, .rounds = 1};

    crew_open(4, NULL);
    stage_enter_all();
    crew_create("g", 4, 0);
    for (int i = 0; i < 4; i++)
        board->places[i].at = 1;
    assert_status(do_plain(0, act_start_waiter), MUSTER_OK);
    await(is_missing(all_but_0), "1, 2 and 3 are missing");
    stage_tell(2, act_run, &once, sizeof once);
    await(is_missing(two), "1 and 3 are missing");
    stage_tell(1, act_run, &once, sizeof once);
    await(is_missing(one), "3 is missing");
    stage_tell(3, act_run, &once, sizeof once);
    assert_status(do_plain(0, act_end_waiter), MUSTER_OK);
    for (int i = 1; i < 4; i++)
        assert_status(stage_hear(i), MUSTER_OK);
    await(is_missing(none), "nobody has come to the next instance");
    free_all(4);
    crew_close();
}
