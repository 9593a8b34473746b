/*
 * tests/schedule/schedule_test.c: functions, calls, workers and places of one host, in several processes.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "job.h"
#include "test.h"

static struct test_job job;
static struct muster *me;
static pid_t workers[8];

#define OK(call) assert_status((call), MUSTER_OK, #call)

static void assert_status(enum muster_status got, enum muster_status wanted, const char *what)
{
    if (got != wanted)
        fail_msg("%s: %s, not %s: %s", what, muster_status_name(got), muster_status_name(wanted), muster_last_error());
}

/* ---- what workers run ---- */

MUSTER_API enum muster_status schedule_sum(struct muster *m, struct muster_call *call);
MUSTER_API enum muster_status schedule_depth(struct muster *m, struct muster_call *call);

static enum muster_status number_set(struct muster_call *call, uint32_t i, int64_t number)
{
    struct muster_object_room room;
    enum muster_status status = muster_call_result(call, i, sizeof number, 0, &room);

    if (!status)
        memcpy(room.data, &number, sizeof number);
    return status;
}

static int64_t number_of(const struct muster_call *call, uint32_t i)
{
    struct muster_object_view view;
    int64_t number = -1;

    CHECK(muster_call_argument(call, i, &view) == MUSTER_OK);
    if (view.len == sizeof number)
        memcpy(&number, view.data, sizeof number);
    return number;
}

enum muster_status schedule_sum(struct muster *m, struct muster_call *call)
{
    struct muster_call_info info;
    int64_t sum = 0;

    (void)m;
    muster_call_get(call, &info);
    for (uint32_t i = 0; i < info.num_arguments; i++)
        sum += number_of(call, i);
    return number_set(call, 0, sum);
}

static enum muster_status call_nested(struct muster *m, muster_function f, int64_t number, int64_t *ret_number)
{
    struct muster_argument a = {.data = &number, .len = sizeof number};
    struct muster_object_view view;
    muster_object o;
    enum muster_status status = muster_submit(m, f, &a, 1, NULL, &o);

    if (!status)
        status = muster_object_get(m, &o, 1, MUSTER_FOREVER, &view, NULL);
    if (status)
        return status;
    memcpy(ret_number, view.data, sizeof *ret_number);
    muster_object_unview(m, &view, 1);
    return muster_object_drop(m, &o, 1);
}

/* Calls itself, and waits: its depth. */
enum muster_status schedule_depth(struct muster *m, struct muster_call *call)
{
    int64_t depth = number_of(call, 0), below = 0;
    struct muster_call_info info;
    enum muster_status status = MUSTER_OK;

    muster_call_get(call, &info);
    if (depth > 1)
        status = call_nested(m, info.function, depth - 1, &below);
    return status ? status : number_set(call, 0, below + 1);
}

static enum muster_status run_by_name(struct muster *m, struct muster_call *call)
{
    struct muster_function_info f;
    struct muster_call_info info;
    char text[64] = "a detail";
    muster_object detail;

    muster_call_get(call, &info);
    CHECK(muster_function_info(m, info.function, &f) == MUSTER_OK);
    if (!strcmp(f.name, "sum"))
        return schedule_sum(m, call);
    if (!strcmp(f.name, "both"))
        return number_set(call, 1, number_of(call, 0)) ? MUSTER_INTERNAL : number_set(call, 0, number_of(call, 1));
    if (!strcmp(f.name, "same")) {
        CHECK(muster_object_put(m, text, 8, NULL, 0, 0, &detail) == MUSTER_OK);
        CHECK(muster_call_forward(call, 0, detail) == MUSTER_OK);
        return muster_object_drop(m, &detail, 1);
    }
    if (!strcmp(f.name, "die"))
        raise(SIGKILL);
    if (!strcmp(f.name, "die once") && info.retries_left)
        raise(SIGKILL);
    if (!strcmp(f.name, "die once"))
        return number_set(call, 0, 7);
    CHECK(muster_object_put(m, text, 8, NULL, 0, 0, &detail) == MUSTER_OK); /* "fail" */
    muster_call_fail(call, MUSTER_ABORTED, "it failed", detail);
    CHECK(muster_object_drop(m, &detail, 1) == MUSTER_OK);
    return MUSTER_CANCELLED;
}

static int worker_by_name(void *arg)
{
    struct muster *m = test_join(job.name, (int)(intptr_t)arg, MUSTER_JOIN_RECOVERABLE | TEST_WITH_HEARTBEAT);
    struct muster_call *call;

    CHECK(m != NULL);
    while (muster_worker_next(m, 0, MUSTER_FOREVER, &call) == MUSTER_OK)
        if (run_by_name(m, call) == MUSTER_OK)
            CHECK(muster_call_done(call) == MUSTER_OK);
    muster_leave(m);
    return 0;
}

static int worker_of_symbols(void *arg)
{
    struct muster *m = test_join(job.name, (int)(intptr_t)arg, MUSTER_JOIN_RECOVERABLE | TEST_WITH_HEARTBEAT);

    CHECK(m != NULL);
    CHECK(muster_worker_run(m, NULL) == MUSTER_CANCELLED);
    muster_leave(m);
    return 0;
}

/* ---- the stage ---- */

static void stage_begin(int count, int (*worker)(void *arg))
{
    struct muster_segment_config config = {.num_tasks = 8, .num_slots = 200, .heap_bytes = 64 << 20};

    OK(test_job_create(&job, &config));
    for (int i = 0; i < count; i++)
        workers[i] = test_fork(worker, (void *)(intptr_t)(i + 1));
    me = test_join(job.name, 0, TEST_WITH_HEARTBEAT);
    assert_non_null(me);
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

/* Functions, their code and their log stay; nothing else does. */
static void stage_end(int count, int functions)
{
    await(objects_left() == (functions ? functions + 1 : 0), "%d objects are left", objects_left());
    for (int i = 0; i < count; i++)
        kill(workers[i], SIGKILL);
    for (int i = 0; i < count; i++)
        test_reap(workers[i]);
    muster_scavenge(me, NULL);
    OK(muster_leave(me));
    assert_int_equal(test_job_end(&job), 0);
}

static muster_function function(const char *name, const char *symbol, uint32_t results, uint32_t retries)
{
    struct muster_function_text text = {.name = name,
                                        .kind = symbol ? MUSTER_FUNCTION_LIBRARY : MUSTER_FUNCTION_OWN,
                                        .symbol = symbol,
                                        .num_results = results,
                                        .max_retries = retries};
    muster_function f = 0;

    OK(muster_function_export(me, &text, &f));
    return f;
}

static muster_object call_with(muster_function f, muster_object a, muster_object b, muster_object place)
{
    struct muster_argument arguments[2] = {{.object = a}, {.object = b}};
    struct muster_submit_options options = {.max_retries = -1, .place = place};
    muster_object o[2] = {0};

    OK(muster_submit(me, f, arguments, b ? 2 : a ? 1 : 0, &options, o));
    return o[0];
}

static muster_object number(int64_t n)
{
    muster_object o = 0;

    OK(muster_object_put(me, &n, sizeof n, NULL, 0, 0, &o));
    return o;
}

static enum muster_status value_of(muster_object o, int64_t *ret)
{
    struct muster_object_view view;
    enum muster_status status = muster_object_get(me, &o, 1, muster_after_ms(60000), &view, NULL);

    if (status)
        return status;
    *ret = -1;
    if (view.len == sizeof *ret)
        memcpy(ret, view.data, sizeof *ret);
    muster_object_unview(me, &view, 1);
    return MUSTER_OK;
}

static void drop(muster_object o)
{
    OK(muster_object_drop(me, &o, 1));
}

/* ---- tests ---- */

TEST(calls_use_results_of_calls_that_have_not_run)
{
    muster_function sum;
    muster_object last, next, one;
    int64_t got = 0;

    stage_begin(2, worker_by_name);
    sum = function("sum", NULL, 1, 0);
    one = number(1);
    last = call_with(sum, one, 0, 0);
    for (int i = 0; i < 200; i++, last = next) {
        next = call_with(sum, last, one, 0);
        drop(last);
    }
    OK(value_of(last, &got));
    assert_int_equal(got, 201);
    drop(last);
    drop(one);
    stage_end(2, 1);
}

TEST(several_results_and_forwarded_ones_come_back)
{
    muster_function both, same;
    muster_object two[2], a, b, o;
    struct muster_object_view view;
    struct muster_argument arguments[2];
    int64_t got = 0;

    stage_begin(2, worker_by_name);
    both = function("both", NULL, 2, 0);
    same = function("same", NULL, 1, 0);
    a = number(1);
    b = number(2);
    arguments[0] = (struct muster_argument){.object = a};
    arguments[1] = (struct muster_argument){.object = b};
    OK(muster_submit(me, both, arguments, 2, NULL, two));
    drop(a);
    drop(b);
    OK(value_of(two[1], &got));
    assert_int_equal(got, 1);
    drop(two[1]);
    OK(value_of(two[0], &got));
    assert_int_equal(got, 2);
    drop(two[0]);
    o = call_with(same, 0, 0, 0);
    OK(muster_object_get(me, &o, 1, muster_after_ms(60000), &view, NULL));
    assert_int_equal(view.len, 8);
    assert_memory_equal(view.data, "a detail", 8);
    muster_object_unview(me, &view, 1);
    drop(o);
    stage_end(2, 2);
}

TEST(an_error_goes_through_calls_that_need_it)
{
    muster_function fail, sum;
    muster_object bad, next, detail;
    struct muster_object_view view;
    int64_t got;

    stage_begin(2, worker_by_name);
    fail = function("fail", NULL, 1, 0);
    sum = function("sum", NULL, 1, 0);
    bad = call_with(fail, 0, 0, 0);
    next = call_with(sum, bad, 0, 0);
    assert_status(value_of(next, &got), MUSTER_ABORTED, "a call with an error among its arguments");
    assert_non_null(strstr(muster_last_error(), "argument 0, object "));
    assert_non_null(strstr(muster_last_error(), "it failed"));
    OK(muster_object_detail(me, next, &detail));
    OK(muster_object_get(me, &detail, 1, 0, &view, NULL));
    assert_memory_equal(view.data, "a detail", 8);
    muster_object_unview(me, &view, 1);
    drop(detail);
    drop(next);
    drop(bad);
    stage_end(2, 2);
}

TEST(a_death_fails_its_call_alone_and_may_be_tried_again)
{
    muster_function die, once, sum;
    muster_object dead, again, one, fine;
    int64_t got;

    stage_begin(4, worker_by_name);
    die = function("die", NULL, 1, 0);
    once = function("die once", NULL, 1, 1);
    sum = function("sum", NULL, 1, 0);
    one = number(5);
    dead = call_with(die, 0, 0, 0);
    again = call_with(once, 0, 0, 0);
    fine = call_with(sum, one, one, 0);
    assert_status(value_of(dead, &got), MUSTER_UNAVAILABLE, "the call of a dead worker");
    assert_non_null(strstr(muster_last_error(), "its worker, ended in the midst of the call"));
    OK(value_of(again, &got));
    assert_int_equal(got, 7);
    OK(value_of(fine, &got));
    assert_int_equal(got, 10);
    drop(dead);
    drop(again);
    drop(fine);
    drop(one);
    stage_end(4, 3);
}

TEST(calls_that_wait_for_calls_do_not_block_each_other)
{
    muster_function depth;
    muster_object twelve, o;
    int64_t got;

    stage_begin(2, worker_of_symbols);
    depth = function("depth", "schedule_depth", 1, 0);
    twelve = number(12);
    o = call_with(depth, twelve, 0, 0);
    OK(value_of(o, &got));
    assert_int_equal(got, 12);
    drop(o);
    drop(twelve);
    stage_end(2, 1);
}

TEST(a_queued_call_can_be_cancelled_and_may_be_too_late)
{
    struct muster_submit_options options = {.max_retries = -1, .deadline = 1};
    muster_function sum;
    muster_object o, late, open, next;
    struct muster_object_room room;
    struct muster_call_look look;
    struct muster_call *call;
    int64_t got;

    stage_begin(0, NULL);
    sum = function("sum", NULL, 1, 0);
    o = call_with(sum, 0, 0, 0);
    OK(muster_object_create(me, 8, 0, 0, &open, &room));
    next = call_with(sum, open, 0, 0);
    OK(muster_submit(me, sum, NULL, 0, &options, &late));
    OK(muster_call_look_at(me, next, &look));
    CHECK(look.state == MUSTER_CALL_WAITING && look.waits_for == open && look.function == sum);
    OK(muster_call_cancel(me, o));
    OK(muster_call_cancel(me, next));
    OK(muster_call_look_at(me, o, &look));
    CHECK(look.state == MUSTER_CALL_FAILED && look.code == MUSTER_CANCELLED);
    assert_status(muster_call_look_at(me, open, &look), MUSTER_NOT_FOUND, "no call");
    assert_status(muster_call_cancel(me, o), MUSTER_FAILED_PRECONDITION, "cancelled again");
    assert_status(value_of(o, &got), MUSTER_CANCELLED, "a cancelled call");
    assert_status(value_of(next, &got), MUSTER_CANCELLED, "a cancelled call that waits");
    OK(muster_object_seal(me, open));
    assert_status(muster_worker_next(me, 0, 0, &call), MUSTER_DEADLINE_EXCEEDED, "a call that is too late");
    assert_status(value_of(late, &got), MUSTER_DEADLINE_EXCEEDED, "a call that is too late");
    drop(o);
    drop(late);
    drop(next);
    drop(open);
    stage_end(0, 1);
}

/* Serves a place, whose object it hands on by a key; ends after some calls, or is killed. */
static int worker_of_place(void *arg)
{
    struct muster *m = test_join(job.name, 1, MUSTER_JOIN_RECOVERABLE | TEST_WITH_HEARTBEAT);
    struct muster_call *call;
    muster_object place;
    int64_t last = -1;

    CHECK(m && muster_place_open(m, &place) == MUSTER_OK);
    CHECK(muster_kv_set(m, "place", MUSTER_NTS, &place, sizeof place, NULL) == MUSTER_OK);
    for (int i = 0; i < (int)(intptr_t)arg; i++) {
        int64_t n;

        CHECK(muster_worker_next(m, place, MUSTER_FOREVER, &call) == MUSTER_OK);
        n = number_of(call, 0);
        CHECK(n == last + 1); /* in order */
        last = n;
        CHECK(number_set(call, 0, n) == MUSTER_OK && muster_call_done(call) == MUSTER_OK);
    }
    raise(SIGKILL);
    return 0;
}

TEST(a_place_is_served_in_order_until_its_worker_dies)
{
    enum { CALLS = 50, SERVED = 30 };
    muster_function sum;
    muster_object place = 0, results[CALLS];
    size_t len;
    pid_t worker;

    stage_begin(0, NULL);
    sum = function("sum", NULL, 1, 0);
    worker = test_fork(worker_of_place, (void *)(intptr_t)SERVED);
    OK(muster_kv_get(me, "place", MUSTER_NTS, MUSTER_FOREVER, &place, sizeof place, &len, NULL));
    OK(muster_object_retain(me, &place, 1, NULL));
    for (int64_t i = 0; i < CALLS; i++) {
        struct muster_argument a = {.data = &i, .len = sizeof i};
        struct muster_submit_options options = {.max_retries = -1, .place = place};

        OK(muster_submit(me, sum, &a, 1, &options, &results[i]));
    }
    for (int64_t i = 0; i < CALLS; i++) {
        int64_t got = -1;
        enum muster_status status = value_of(results[i], &got);

        assert_status(status, i < SERVED ? MUSTER_OK : MUSTER_UNAVAILABLE, "a call of a place");
        if (!status)
            assert_int_equal(got, i);
        else
            assert_non_null(strstr(muster_last_error(), "its place's worker, ended"));
        drop(results[i]);
    }
    test_reap(worker);
    drop(place);
    stage_end(0, 1);
}

static int count_functions(void *arg, const struct muster_function_info *info)
{
    uint64_t *last = arg;

    assert_int_equal(info->number, *last + 1);
    *last = info->number;
    return 0;
}

TEST(a_call_runs_the_version_with_which_it_was_submitted)
{
    struct muster_function_info info;
    muster_function old, new, found;
    struct muster_call_info what;
    struct muster_call *call;
    muster_object a, b;
    uint64_t last = 0;

    stage_begin(0, NULL);
    old = function("f", NULL, 1, 0);
    a = call_with(old, 0, 0, 0);
    new = function("f", NULL, 1, 3);
    b = call_with(new, 0, 0, 0);
    OK(muster_function_find(me, "f", &found));
    assert_int_equal(found, new);
    assert_status(muster_function_find(me, "g", &found), MUSTER_NOT_FOUND, "no function");
    OK(muster_function_list(me, 0, count_functions, &last));
    assert_int_equal(last, 2);
    for (int i = 0; i < 2; i++) {
        OK(muster_worker_next(me, 0, 0, &call));
        muster_call_get(call, &what);
        OK(muster_function_info(me, what.function, &info));
        assert_int_equal(info.function, i ? new : old);
        assert_int_equal(info.max_retries, i ? 3 : 0);
        OK(muster_call_done(call));
    }
    drop(a);
    drop(b);
    stage_end(0, 2);
}

TEST(what_is_asked_wrongly_is_refused_and_changes_nothing)
{
    static uint8_t large[70000];
    struct muster_argument a = {.data = large, .len = sizeof large};
    struct muster_function_text text = {.name = "f", .kind = 3};
    struct muster_submit_options options = {.max_retries = -1};
    struct muster_object_room room;
    muster_function f;
    muster_object o, gone;
    struct muster_call *call;

    stage_begin(0, NULL);
    f = function("f", NULL, 1, 0);
    assert_status(muster_submit(me, f, &a, 300, NULL, &o), MUSTER_INVALID_ARGUMENT, "too many arguments");
    gone = number(1);
    drop(gone);
    a = (struct muster_argument){.object = gone};
    assert_status(muster_submit(me, f, &a, 1, NULL, &o), MUSTER_NOT_FOUND, "an argument that is gone");
    for (size_t len = SIZE_MAX; len > SIZE_MAX - 16; len--) {
        a = (struct muster_argument){.data = large, .len = len};
        assert_status(muster_submit(me, f, &a, 1, NULL, &o), MUSTER_OUT_OF_RANGE, "an argument of all memory");
    }
    o = number(1);
    assert_status(muster_submit(me, o, NULL, 0, NULL, &gone), MUSTER_INVALID_ARGUMENT, "no function");
    assert_status(muster_call_cancel(me, o), MUSTER_FAILED_PRECONDITION, "no call");
    options.place = o;
    assert_status(muster_submit(me, f, NULL, 0, &options, &gone), MUSTER_INVALID_ARGUMENT, "a value as a place");
    drop(o);
    OK(muster_object_create(me, 8, 0, 0, &o, &room));
    options.place = o;
    assert_status(muster_submit(me, f, NULL, 0, &options, &gone), MUSTER_INVALID_ARGUMENT, "no place");
    drop(o);
    memset(large, 'n', MUSTER_FUNCTION_NAME_MAX + 1);
    assert_status(muster_function_wait(me, (char *)large, muster_after_ms(60000), &gone), MUSTER_INVALID_ARGUMENT,
                  "a name that no function can have");
    assert_status(muster_function_find(me, "", &gone), MUSTER_INVALID_ARGUMENT, "no name");
    assert_status(muster_function_export(me, &text, &f), MUSTER_INVALID_ARGUMENT, "no such kind");
    a = (struct muster_argument){.data = large, .len = 5000}; /* put by the library */
    OK(muster_submit(me, f, &a, 1, NULL, &o));
    OK(muster_worker_next(me, 0, 0, &call));
    assert_status(muster_worker_next(me, 0, 0, &call), MUSTER_FAILED_PRECONDITION, "two calls at once");
    OK(muster_call_fail(call, MUSTER_ABORTED, "done with", 0));
    drop(o);
    stage_end(0, 1);
}

TEST(a_result_that_is_refused_leaves_the_call_as_it_was)
{
    muster_function f;
    muster_object o, mine;
    struct muster_object_room room;
    struct muster_call *call;
    int64_t got = 0;

    stage_begin(0, NULL);
    f = function("f", NULL, 1, 0);
    mine = number(5);
    for (int made = 0; made < 2; made++) {
        o = call_with(f, 0, 0, 0);
        OK(muster_worker_next(me, 0, 0, &call));
        assert_status(muster_call_result(call, 0, SIZE_MAX, 0, &room), MUSTER_OUT_OF_RANGE, "a result of all memory");
        assert_status(muster_call_result(call, 0, SIZE_MAX - 100, 200, &room), MUSTER_OUT_OF_RANGE, "and more");
        assert_status(muster_call_result(call, 1, 8, 0, &room), MUSTER_OUT_OF_RANGE, "a second result");
        assert_status(muster_call_forward(call, 0, 77), MUSTER_NOT_FOUND, "a result that is gone");
        if (made)
            OK(number_set(call, 0, 9));
        else
            OK(muster_call_forward(call, 0, mine));
        assert_status(muster_call_forward(call, 0, mine), MUSTER_FAILED_PRECONDITION, "a result that is made");
        assert_status(muster_call_result(call, 0, 8, 0, &room), MUSTER_FAILED_PRECONDITION, "a result that is made");
        OK(muster_call_done(call));
        OK(value_of(o, &got));
        assert_int_equal(got, made ? 9 : 5);
        drop(o);
    }
    drop(mine);
    stage_end(0, 1);
}
