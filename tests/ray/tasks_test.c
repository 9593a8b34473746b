/*
 * tests/ray/tasks_test.c: which task goes where and when, exports, and what becomes of the tasks of a worker that ends.
 */
#include "stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/pack.h"

#define FREED   UINT64_MAX
#define TEXT(s) ((struct mu_ray_text){s, strlen(s)})

static struct mu_ray_stats stats_now(void)
{
    struct mu_ray_stats stats;

    mu_ray_stats(sched, &stats);
    return stats;
}

SCHED_TEST(results_exist_from_submission_and_count_three)
{
    uint32_t driver, worker;
    uint64_t first;

    stores_begin(1);
    driver = driver_new(0);
    worker = worker_new(0);
    function_new(worker, "f", 2);
    first = submit(driver, "f", "=");
    assert_said("execute 1 f");
    assert_int_equal(count_of(first), 3);
    assert_int_equal(count_of(first + 1), 3);
    ended(worker); /* handled before its results are at a store */
    ready(first, 0);
    assert_int_equal(count_of(first), 2);
    assert_int_equal(stats_now().succeeded, 1);
    assert_status(MUSTER_FAILED_PRECONDITION,
                  mu_ray_ready_for_task(sched, worker, &(struct mu_ray_outcome){true, {"", 0}}));
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_ready_for_task(sched, driver, NULL));
}

SCHED_TEST(an_unknown_function_changes_nothing)
{
    bool is_registered = true;
    uint64_t first, count;
    uint32_t driver;

    stores_begin(1);
    driver = driver_new(0);
    assert_ok(mu_ray_submit(sched, driver, TEXT("f"), NULL, 0, &is_registered, &first, &count));
    assert_false(is_registered);
    assert_int_equal(stats_now().queued, 0);
    assert_status(MUSTER_INVALID_ARGUMENT,
                  mu_ray_submit(sched, driver, TEXT(""), NULL, 0, &is_registered, &first, &count));
    assert_status(MUSTER_NOT_FOUND, mu_ray_submit(sched, 9, TEXT("f"), NULL, 0, &is_registered, &first, &count));
    assert_status(MUSTER_NOT_FOUND, mu_ray_register_function(sched, 9, TEXT("f"), 1));
    assert_status(MUSTER_INVALID_ARGUMENT, mu_ray_register_function(sched, driver, TEXT(""), 1));
    function_new(driver, "f", 1);
    assert_status(MUSTER_NOT_FOUND, submit_status(driver, "f", "5"));
    assert_int_equal(stats_now().objects, 0);
}

SCHED_TEST(a_task_waits_for_its_arguments_and_others_do_not_wait_for_it)
{
    uint32_t driver, worker;
    uint64_t x, y, alias;

    stores_begin(1);
    driver = driver_new(0);
    worker = worker_new(0);
    function_new(worker, "f", 1);
    function_new(worker, "g", 0);
    x = put(driver);
    y = put(driver);
    alias = put(driver);
    for (uint64_t i = 0; i < 3; i++)
        increment(i);
    submit(driver, "f", "0 2 0");
    submit(driver, "g", "=");
    assert_said("execute 1 g");
    ready(x, 0);
    ended(worker);
    assert_said("");
    assert_ok(mu_ray_alias(sched, alias, y));
    assert_said("");
    ready(y, 0);
    assert_said("alias a 2=1; execute 1 f");
    ended(worker);
    assert_int_equal(stats_now().succeeded, 2);
}

SCHED_TEST(the_oldest_ready_task_is_first_whatever_became_ready_first)
{
    uint32_t driver, worker;

    stores_begin(1);
    driver = driver_new(0);
    worker = worker_new(0);
    function_new(worker, "busy", 0);
    function_new(worker, "old", 0);
    function_new(worker, "new", 0);
    for (uint64_t i = 0; i < 2; i++)
        increment(put(driver));
    submit(driver, "busy", "");
    submit(driver, "old", "0");
    submit(driver, "new", "1");
    ready(1, 0);
    ready(0, 0);
    assert_said("execute 1 busy");
    ended(worker);
    assert_said("execute 1 old");
    ended(worker);
    assert_said("execute 1 new");
}

SCHED_TEST(a_worker_takes_the_task_with_the_fewest_arguments_elsewhere)
{
    uint32_t driver, busy;

    stores_begin(2);
    driver = driver_new(0);
    busy = worker_new(1);
    function_new(busy, "f", 0);
    function_new(busy, "far", 0);
    function_new(busy, "near", 0);
    for (uint64_t i = 0; i < 2; i++) {
        increment(put(driver));
        ready(i, i);
    }
    submit(driver, "f", "");
    submit(driver, "far", "0");
    submit(driver, "near", "1");
    assert_said("execute 1 f");
    ended(busy);
    assert_said("execute 1 near");
    ended(busy);
    assert_said("deliver b 0 from a; execute 1 far"); /* which does not wait for the delivery */
}

SCHED_TEST(a_task_takes_the_worker_beside_its_arguments)
{
    uint32_t driver, far, near;

    stores_begin(2);
    driver = driver_new(0);
    far = worker_new(0);
    near = worker_new(1);
    function_new(far, "f", 0);
    function_new(near, "f", 0);
    increment(put(driver));
    ready(0, 1);
    submit(driver, "f", "0");
    assert_said("execute 2 f");
    submit(driver, "f", "=");
    assert_said("execute 1 f");
    ended(near);
    ended(far);
    submit(driver, "f", "="); /* of equal ones the one that has been idle for longest */
    assert_said("execute 2 f");
}

SCHED_TEST(a_worker_runs_only_what_it_has_registered)
{
    uint32_t driver, one, two;

    stores_begin(1);
    driver = driver_new(0);
    one = worker_new(0);
    function_new(one, "f", 0);
    function_new(driver, "g", 0);
    submit(driver, "g", "");
    assert_said("");
    two = worker_new(0);
    assert_said("");
    function_new(two, "g", 0);
    assert_said("execute 2 g");
}

SCHED_TEST(each_worker_has_each_export_once_in_one_order)
{
    uint32_t driver, early, late, busy;
    struct mu_ray_worker_ids ids;

    stores_begin(1);
    driver = driver_new(0);
    early = worker_new(0);
    assert_ok(mu_ray_register_worker(sched, TEXT("10.0.0.1"), TEXT(""), false, &ids));
    late = ids.worker;
    assert_ok(mu_ray_export(sched, false, "f", 1));
    assert_ok(mu_ray_export(sched, true, "v", 1));
    assert_said("import 1 f; variable 1 v"); /* the other one does not listen yet */
    assert_ok(mu_ray_ready_for_task(sched, late, NULL));
    assert_said("import 2 f; variable 2 v");
    assert_ok(mu_ray_ready_for_task(sched, late, NULL));
    assert_said("");
    busy = worker_new(0);
    function_new(busy, "f", 0);
    submit(driver, "f", "");
    assert_ok(mu_ray_export(sched, false, "g", 1));
    assert_said("import 3 f; variable 3 v; import 1 g; import 2 g; import 3 g");
    imported(busy, 2);
    assert_said(""); /* it has the last one before the task */
    imported(busy, 1);
    assert_said("execute 3 f");
    mu_ray_worker_lost(sched, early, true, "it fell over");
    assert_ok(mu_ray_export(sched, false, "h", 1));
    assert_said("import 2 h; import 3 h");
}

SCHED_TEST(a_worker_that_does_not_answer_its_imports_gets_no_task)
{
    uint32_t driver, silent, other;

    stores_begin(1);
    driver = driver_new(0);
    silent = worker_new(0);
    other = worker_new(0);
    function_new(silent, "f", 0);
    function_new(other, "f", 0);
    assert_ok(mu_ray_export(sched, false, "g", 1));
    imported(other, 1);
    submit(driver, "f", "");
    submit(driver, "f", "");
    assert_said("import 1 g; import 2 g; execute 2 f");
    ended(other);
    assert_said("execute 2 f");
    submit(driver, "f", "");
    imported(silent, 1);
    assert_said("execute 1 f");
}

SCHED_TEST(workers_are_killed_only_when_nothing_is_to_do)
{
    uint32_t driver, worker;
    bool success, is_registered;
    uint64_t first, count;

    stores_begin(1);
    driver = driver_new(0);
    assert_ok(mu_ray_export(sched, false, "f", 1));
    worker = worker_new(0);
    imported(worker, 1);
    function_new(worker, "f", 0);
    submit(driver, "f", "");
    assert_said("import 1 f; execute 1 f");
    mu_ray_kill_workers(sched, &success);
    assert_false(success);
    ended(worker);
    mu_ray_kill_workers(sched, &success);
    assert_true(success);
    assert_said("die 1");
    assert_ok(mu_ray_submit(sched, driver, TEXT("f"), NULL, 0, &is_registered, &first, &count));
    assert_false(is_registered);
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_ready_for_task(sched, worker, NULL));
    assert_ok(mu_ray_export(sched, false, "g", 1));
    assert_said("");
    worker = worker_new(0);
    assert_said("import 2 f; import 2 g");
    mu_ray_worker_lost(sched, 1, true, "of course");
    assert_int_equal(stats_now().workers, 1);
}

SCHED_TEST(a_task_fails_with_its_worker_and_what_needs_it_with_it)
{
    uint32_t driver, worker, other;
    uint64_t result, second, third;
    char why[256];

    stores_begin(1);
    driver = driver_new(0);
    worker = worker_new(0);
    function_new(worker, "f", 1);
    result = submit(driver, "f", "");
    increment(result);
    assert_ok(mu_ray_request(sched, driver, result));
    increment(result); /* for the worker of the next one */
    second = submit(driver, "f", "0");
    increment(second);
    third = submit(driver, "f", "1");
    mu_ray_worker_lost(sched, worker, true, "it was killed");
    assert_said("execute 1 f");
    assert_int_equal(stats_now().failed, 3);
    assert_int_equal(stats_now().queued + stats_now().running, 0);
    assert_status(MUSTER_DATA_LOSS, mu_ray_request(sched, driver, result));
    assert_says("it was killed");
    assert_status(MUSTER_DATA_LOSS, mu_ray_request(sched, driver, third));
    snprintf(why, sizeof why, "%s", muster_last_error());
    assert_non_null(strstr(why, "it was killed"));
    assert_int_equal(count_of(second), 1); /* what its submission gave the caller */
    assert_int_equal(count_of(third), 1);
    drop(second);
    drop(third);
    assert_int_equal(count_of(third), FREED);
    other = worker_new(0);
    function_new(other, "f", 1);
    submit(driver, "f", "0"); /* a lost argument */
    assert_said("");
    assert_int_equal(stats_now().failed, 4);
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_ready_for_task(sched, worker, NULL));
}

static void increment_by(uint32_t worker, uint64_t object)
{
    assert_ok(mu_ray_increment(sched, worker, &object, 1));
}

static void drop_by(uint32_t worker, uint64_t object)
{
    assert_ok(mu_ray_decrement(sched, worker, &object, 1));
}

/* A driver holds an argument and a result of the task; the worker is lost at each of its steps. */
SCHED_TEST(the_references_of_a_worker_end_with_it_whatever_it_was_doing)
{
    enum { STEPS = 9 };
    uint32_t driver;

    stores_begin(1);
    driver = driver_new(0);
    for (int last = 0; last <= STEPS; last++) {
        uint32_t worker = worker_new(0);
        uint64_t argument = put(driver), result, inner = UINT64_MAX, own = UINT64_MAX;
        char by_id[32];

        increment(argument);
        ready(argument, 0);
        function_new(worker, "f", 1);
        increment(argument); /* for the task */
        snprintf(by_id, sizeof by_id, "%" PRIu64 " =", argument);
        result = submit(driver, "f", last % 2 ? by_id : "=");
        if (last % 2 == 0)
            drop(argument); /* it is not an argument after all */
        increment(result);
        drop(result);
        for (int step = 0; step < last; step++)
            switch (step) {
            case 0: increment_by(worker, result); break;
            case 1: drop_by(worker, result); break;
            case 2: assert_ok(mu_ray_put(sched, worker, &own)); break;
            case 3: increment_by(worker, own); break;
            case 4: ready(own, 0); break;
            case 5: inner = submit(worker, "f", "="); break;
            case 6: increment_by(worker, inner); break;
            case 7: drop_by(worker, inner); break;
            case 8: ready(result, 0); break;
            }
        mu_ray_worker_lost(sched, worker, true, "it was killed");
        assert_int_equal(count_of(argument), 1);
        assert_int_equal(count_of(result), 1);
        assert_int_equal(own == UINT64_MAX ? FREED : count_of(own), FREED);
        assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_decrement(sched, worker, &result, 1));
        drop(argument);
        drop(result);
        if (inner != UINT64_MAX) { /* it runs elsewhere, and nobody holds its result */
            worker = worker_new(0);
            function_new(worker, "f", 1);
            assert_int_equal(count_of(inner), 2);
            drop_by(worker, inner);
            ready(inner, 0);
            ended(worker);
            mu_ray_worker_lost(sched, worker, true, "it was killed");
        }
        assert_int_equal(stats_now().objects, 0);
    }
}

SCHED_TEST(references_are_left_alone_where_it_is_not_known_whose_they_are)
{
    uint32_t driver, worker;
    uint64_t object;
    bool success;

    stores_begin(1);
    driver = driver_new(0);
    worker = worker_new(0);
    object = put(driver);
    increment_by(worker, object);
    mu_ray_distrust(sched, worker);
    mu_ray_worker_lost(sched, worker, true, "it was killed");
    assert_int_equal(count_of(object), 2);
    worker = worker_new(0); /* one that is told to end may drop its references until it hangs up */
    increment_by(worker, object);
    increment_by(worker, object);
    mu_ray_kill_workers(sched, &success);
    assert_true(success);
    drop_by(worker, object);
    assert_int_equal(count_of(object), 3);
    mu_ray_worker_left(sched, worker);
    assert_int_equal(count_of(object), 2);
    mu_ray_worker_left(sched, driver);
    assert_int_equal(count_of(object), 2);
}

SCHED_TEST(a_task_that_its_worker_never_heard_of_goes_to_another)
{
    uint32_t driver, one, two;

    stores_begin(1);
    driver = driver_new(0);
    one = worker_new(0);
    function_new(one, "f", 1);
    function_new(one, "g", 1);
    submit(driver, "f", "");
    submit(driver, "g", "");
    assert_said("execute 1 f");
    two = worker_new(0);
    function_new(two, "f", 1);
    assert_said("");
    mu_ray_worker_lost(sched, one, false, "connection refused");
    assert_said("execute 2 f");
    assert_int_equal(stats_now().failed, 0);
    ended(two);
    function_new(two, "g", 1);
    assert_said("execute 2 g");
}

SCHED_TEST(tasks_that_come_back_find_room_among_new_ones)
{
    enum { WORKERS = 40, TASKS = 48 };
    uint32_t driver, workers[WORKERS], last;

    stores_begin(1);
    driver = driver_new(0);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = worker_new(0);
        function_new(workers[i], "f", 0);
    }
    for (int i = 0; i < TASKS; i++)
        submit(driver, "f", "");
    assert_int_equal(stats_now().running, WORKERS);
    for (int i = 0; i < WORKERS; i++)
        mu_ray_worker_lost(sched, workers[i], false, "connection refused");
    assert_int_equal(stats_now().queued, TASKS);
    last = worker_new(0);
    function_new(last, "f", 0);
    for (int i = 0; i < TASKS; i++)
        ended(last);
    assert_int_equal(stats_now().succeeded, TASKS);
}

/* A client drops what is not its own: the argument of a task that is ready, and then the results of one that waits. */
SCHED_TEST(a_task_whose_objects_were_freed_is_given_up)
{
    enum { PAGE = 1024 };
    uint32_t driver, worker;
    uint64_t first, second;

    stores_begin(1);
    driver = driver_new(0);
    function_new(driver, "f", 1);
    function_new(driver, "g", 2 * PAGE);
    for (int i = 0; i < PAGE; i++)
        increment(put(driver));
    ready(0, 0);
    first = submit(driver, "f", "0");
    for (uint64_t i = 0; i < PAGE; i++) /* the whole page is dropped */
        for (int left = i == 0 ? 1 : 2; left > 0; left--)
            drop(i);
    assert_int_equal(count_of(0), FREED);
    worker = worker_new(0);
    function_new(worker, "f", 1);
    assert_said("free a 0");
    assert_int_equal(stats_now().failed, 1);
    assert_status(MUSTER_DATA_LOSS, mu_ray_request(sched, driver, first));
    for (int i = 0; i < PAGE; i++)
        second = put(driver);
    submit(driver, "g", "2047");
    for (uint64_t i = second + 1; i <= second + 2 * PAGE; i++)
        for (int left = 3; left > 0; left--)
            drop(i);
    increment(put(driver));
    drop(2047);
    assert_int_equal(stats_now().failed, 2);
    increment(PAGE * 4 + 1);
    ready(PAGE * 4 + 1, 0);
    submit(driver, "f", "4097"); /* and a store that is lost looks at all of them */
    submit(driver, "f", "4097");
    for (int left = 2; left > 0; left--)
        drop(PAGE * 4 + 1);
    mu_ray_store_lost(sched, 0, "it fell over");
    assert_int_equal(stats_now().queued, 0);
}

SCHED_TEST(a_result_that_came_after_all_is_not_lost)
{
    uint32_t driver, worker;
    uint64_t result;

    stores_begin(2);
    driver = driver_new(1);
    worker = worker_new(0);
    function_new(worker, "f", 1);
    result = submit(driver, "f", "");
    assert_ok(mu_ray_request(sched, driver, result));
    mu_ray_worker_lost(sched, worker, true, "it was killed");
    ready(result, 0);
    assert_said("execute 1 f; deliver b 0 from a");
    assert_ok(mu_ray_request(sched, driver, result));
}

SCHED_TEST(a_store_registers_before_its_workers_and_by_its_whole_host)
{
    struct mu_ray_worker_ids ids;
    uint32_t store;

    assert_status(MUSTER_UNAVAILABLE, mu_ray_register_worker(sched, TEXT("10.0.0.1"), TEXT(""), false, &ids));
    assert_ok(mu_ray_register_store(sched, TEXT("10.0.0.10:20001"), &store));
    assert_status(MUSTER_UNAVAILABLE, mu_ray_register_worker(sched, TEXT("10.0.0.1"), TEXT(""), false, &ids));
    assert_ok(mu_ray_register_store(sched, TEXT("10.0.0.1:20001"), &store));
    assert_ok(mu_ray_register_store(sched, TEXT("10.0.0.1:20002"), &store));
    assert_ok(mu_ray_register_worker(sched, TEXT("10.0.0.1"), TEXT("10.0.0.1:20001"), false, &ids));
    assert_int_equal(ids.store, 1);
    assert_string_equal(ids.address, "10.0.0.1:40000");
    assert_string_equal(ids.store_address, "10.0.0.1:20001");
    assert_ok(mu_ray_register_worker(sched, TEXT("10.0.0.1"), TEXT(""), false, &ids));
    assert_int_equal(ids.store, 2); /* the last, as in 2016 */
    assert_int_equal(ids.worker, 1);
    assert_ok(mu_ray_register_worker(sched, TEXT("::1"), TEXT("10.0.0.1:20001"), true, &ids));
    assert_string_equal(ids.address, "[::1]:40002");
    assert_status(MUSTER_UNAVAILABLE, mu_ray_register_worker(sched, TEXT("10.0.0.1"), TEXT("10.0.0.1:2"), false, &ids));
    assert_status(MUSTER_INVALID_ARGUMENT, mu_ray_register_worker(sched, TEXT(""), TEXT(""), false, &ids));
    assert_status(MUSTER_INVALID_ARGUMENT, mu_ray_register_store(sched, TEXT("10.0.0.1"), &store));
    assert_status(MUSTER_INVALID_ARGUMENT, mu_ray_register_store(sched, TEXT(":1"), &store));
    assert_ok(mu_ray_register_store(sched, TEXT("10.0.0.1:20002"), &store)); /* it was begun again */
    assert_int_equal(store, 3);
    assert_int_equal(stats_now().stores, 3);
}

SCHED_TEST(a_hundred_thousand_tasks_that_wait_are_pushed)
{
    enum { TASKS = 100000 };
    uint32_t driver, worker;

    stores_begin(1);
    driver = driver_new(0);
    worker = worker_new(0);
    function_new(worker, "f", 0);
    put(driver);
    for (int i = 0; i < TASKS; i++) {
        increment(0);
        submit(driver, "f", "0");
    }
    ready(0, 0);
    for (int i = 0; i < TASKS; i++)
        ended(worker);
    assert_int_equal(stats_now().succeeded, TASKS);
    assert_int_equal(stats_now().queued, 0);
}

/* Long histories are cut, and the replies stay replies. */
SCHED_TEST(replies_tell_of_what_is_remembered)
{
    enum { TASKS = 70000 };
    struct mu_pack reply = {.bytes = NULL};
    uint32_t driver, worker;

    stores_begin(1);
    driver = driver_new(0);
    worker = worker_new(0);
    function_new(worker, "f", 0);
    for (int i = 0; i < TASKS; i++) {
        submit(driver, "f", "=");
        if (i % 2)
            ended(worker);
        else
            ended_badly(worker, "words that are \xff no text");
    }
    submit(driver, "f", "=");
    assert_ok(mu_ray_scheduler_info(sched, &reply));
    assert_true(reply.len > TASKS);
    mu_pack_reset(&reply);
    assert_ok(mu_ray_task_info(sched, &reply));
    assert_true(reply.len > 4096 * 20);
    assert_non_null(memmem(reply.bytes, reply.len, "are ? no text", 13));
    mu_pack_done(&reply);
    assert_int_equal(stats_now().failed, TASKS / 2);
}
