/*
 * tests/ray/objects_test.c: references, aliases, what contains what, and where objects go; in every order in which
 * workers and stores may speak.
 */
#include "stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FREED UINT64_MAX

static void assert_counts(const uint64_t *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (count_of(i) != expected[i])
            fail_msg("object %zu has %lld references, not %lld", i, (long long)count_of(i), (long long)expected[i]);
}
#define COUNTS(...)                                                                                                    \
    assert_counts((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static enum muster_status decrement(const uint64_t *ids, size_t count)
{
    return mu_ray_decrement(sched, MU_RAY_NIL, ids, count);
}

SCHED_TEST(the_last_reference_frees_an_object_where_it_is)
{
    uint32_t driver;
    uint64_t object;

    stores_begin(1);
    driver = driver_new(0);
    object = put(driver);
    COUNTS(1); /* its producer's */
    increment(object);
    ready(object, 0);
    COUNTS(1);
    assert_said("");
    drop(object);
    COUNTS(FREED);
    assert_said("free a 0");
    assert_status(MUSTER_FAILED_PRECONDITION, decrement(&object, 1));
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_increment(sched, MU_RAY_NIL, &object, 1));
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_request(sched, driver, object));
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_object_ready(sched, object, 0));
}

SCHED_TEST(a_bad_request_changes_no_count)
{
    const uint64_t twice[] = {0, 0}, beyond[] = {0, 7};
    uint32_t driver;

    stores_begin(1);
    driver = driver_new(0);
    put(driver);
    assert_status(MUSTER_FAILED_PRECONDITION, decrement(twice, 2));
    assert_status(MUSTER_NOT_FOUND, decrement(beyond, 2));
    assert_status(MUSTER_NOT_FOUND, mu_ray_increment(sched, MU_RAY_NIL, beyond, 2));
    assert_status(MUSTER_INVALID_ARGUMENT, decrement(NULL, 0));
    assert_status(MUSTER_INVALID_ARGUMENT, mu_ray_increment(sched, MU_RAY_NIL, NULL, 0));
    assert_status(MUSTER_INVALID_ARGUMENT, mu_ray_alias(sched, 0, 0));
    assert_status(MUSTER_NOT_FOUND, mu_ray_alias(sched, 0, 1));
    assert_status(MUSTER_NOT_FOUND, mu_ray_alias(sched, 1, 0));
    assert_status(MUSTER_NOT_FOUND, mu_ray_object_ready(sched, 0, 1));
    assert_status(MUSTER_NOT_FOUND, mu_ray_contain(sched, MU_RAY_NIL, 0, &beyond[1], 1));
    assert_status(MUSTER_NOT_FOUND, mu_ray_request(sched, driver, 1));
    assert_status(MUSTER_NOT_FOUND, mu_ray_request(sched, 1, 0));
    COUNTS(1);
    assert_ok(mu_ray_increment(sched, MU_RAY_NIL, twice, 2));
    COUNTS(3);
    assert_said("");
}

SCHED_TEST(an_object_is_at_a_store_once)
{
    uint32_t driver;

    stores_begin(1);
    driver = driver_new(0);
    put(driver);
    increment(0);
    ready(0, 0);
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_object_ready(sched, 0, 0));
    COUNTS(1);
}

SCHED_TEST(what_another_contains_lives_as_long_as_that)
{
    const uint64_t inside[] = {0, 1};
    uint32_t driver;

    stores_begin(1);
    driver = driver_new(0);
    for (int i = 0; i < 3; i++) {
        increment(put(driver));
        ready((uint64_t)i, 0);
    }
    assert_ok(mu_ray_increment(sched, MU_RAY_NIL, inside, 2));
    assert_ok(mu_ray_contain(sched, MU_RAY_NIL, 2, inside, 2));
    assert_ok(mu_ray_contain(sched, MU_RAY_NIL, 2, NULL, 0)); /* an empty list is always fine */
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_contain(sched, MU_RAY_NIL, 2, inside, 1));
    drop(0);
    drop(1);
    COUNTS(1, 1, 1);
    drop(2);
    COUNTS(FREED, FREED, FREED);
    assert_said("free a 2; free a 1; free a 0");
}

/* Each contains an alias of the one before: freeing follows both, without recursion. */
SCHED_TEST(a_chain_of_a_hundred_thousand_is_freed)
{
    enum { LINKS = 50000 };
    struct mu_ray_stats stats;
    uint64_t last = 0;
    uint32_t driver;

    stores_begin(1);
    driver = driver_new(0);
    for (uint64_t i = 0; i < LINKS; i++) {
        uint64_t inner = put(driver), outer = put(driver);

        increment(inner);
        increment(outer);
        ready(inner, 0);
        assert_ok(mu_ray_alias(sched, outer, inner));
        if (i > 0) /* with the reference that the driver had to it */
            assert_ok(mu_ray_contain(sched, MU_RAY_NIL, inner, &last, 1));
        drop(inner);
        last = outer;
    }
    mu_ray_stats(sched, &stats);
    assert_int_equal(stats.objects, 2 * LINKS);
    drop(last);
    mu_ray_stats(sched, &stats);
    assert_int_equal(stats.objects, 0);
}

SCHED_TEST(a_deep_chain_of_aliases_is_freed_as_a_whole)
{
    enum { LINKS = 50000 };
    struct mu_ray_stats stats;
    size_t before;
    uint32_t driver;
    uint64_t first;

    stores_begin(1);
    driver = driver_new(0);
    mu_ray_stats(sched, &stats);
    before = stats.held;
    first = put(driver);
    for (uint64_t i = 1; i < LINKS; i++)
        assert_ok(mu_ray_alias(sched, i - 1, put(driver)));
    increment(first);
    ready(LINKS - 1, 0);
    assert_int_equal(count_of(first), 1);
    assert_int_equal(count_of(LINKS / 2), 0);
    assert_ok(mu_ray_request(sched, driver, first));
    assert_said("alias a 0=49999");
    drop(first);
    assert_int_equal(count_of(LINKS - 1), FREED);
    assert_said("free a 49999");
    mu_ray_stats(sched, &stats);
    assert_int_equal(stats.objects, 0);
    assert_true(stats.held - before < 200000); /* the last page; the others are gone */
}

/* h -> g -> f, and f ready: the three in all orders, while somebody waits for h at another store. */
SCHED_TEST(aliases_and_their_target_come_in_any_order)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    char expected[128];

    stores_begin(2);
    for (uint64_t n = 0; n < 6; n++) {
        uint32_t maker = driver_new(0), getter = driver_new(1);
        uint64_t f = put(maker), g = put(maker), h = put(maker);

        for (uint64_t i = f; i <= h; i++)
            increment(i);
        assert_ok(mu_ray_request(sched, getter, h));
        for (int i = 0; i < 3; i++) {
            assert_said("");
            if (orders[n][i] == 0)
                assert_ok(mu_ray_alias(sched, h, g));
            else if (orders[n][i] == 1)
                assert_ok(mu_ray_alias(sched, g, f));
            else
                ready(f, 0);
        }
        snprintf(expected, sizeof expected, "deliver b %" PRIu64 " from a", f);
        assert_said(expected);
        drop(f);
        drop(g);
        assert_int_equal(count_of(f), 1); /* the delivery's */
        ready(f, 1);
        snprintf(expected, sizeof expected, "alias b %" PRIu64 "=%" PRIu64, h, f);
        assert_said(expected);
        assert_int_equal(count_of(f), 0);
        assert_int_equal(count_of(g), 0);
        assert_int_equal(count_of(h), 1);
        drop(h);
        assert_int_equal(count_of(f), FREED);
        snprintf(expected, sizeof expected, "free a %" PRIu64 "; free b %" PRIu64, f, f);
        assert_said(expected);
    }
}

SCHED_TEST(an_alias_is_one_thing_for_good)
{
    uint32_t driver;

    stores_begin(1);
    driver = driver_new(0);
    for (uint64_t i = 0; i < 4; i++)
        increment(put(driver));
    assert_ok(mu_ray_alias(sched, 0, 1));
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_alias(sched, 0, 2));
    assert_ok(mu_ray_alias(sched, 1, 2));
    assert_status(MUSTER_INVALID_ARGUMENT, mu_ray_alias(sched, 2, 0)); /* a ring */
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_object_ready(sched, 0, 0));
    ready(2, 0);
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_alias(sched, 2, 3)); /* it is there */
    COUNTS(1, 1, 1, 2);
    drop(0);
    drop(2);
    assert_said("");
    drop(1);
    COUNTS(FREED, FREED, FREED, 2);
    assert_said("free a 2");
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_alias(sched, 3, 2)); /* of a freed one */
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_alias(sched, 1, 3));
}

SCHED_TEST(a_store_fetches_an_object_once_and_has_it_until_then)
{
    uint32_t maker, one, two;

    stores_begin(2);
    maker = driver_new(0);
    one = driver_new(1);
    two = driver_new(1);
    increment(put(maker));
    assert_ok(mu_ray_request(sched, one, 0)); /* before it is there, and after */
    ready(0, 0);
    assert_ok(mu_ray_request(sched, two, 0));
    assert_ok(mu_ray_request(sched, maker, 0));
    assert_said("deliver b 0 from a");
    COUNTS(2);
    drop(0);
    COUNTS(1);
    assert_said("");
    ready(0, 1);
    COUNTS(FREED);
    assert_said("free a 0; free b 0");
}

SCHED_TEST(a_store_that_ends_takes_what_only_it_had)
{
    uint32_t maker, getter, third;

    stores_begin(3);
    maker = driver_new(0);
    getter = driver_new(1);
    third = driver_new(2);
    for (uint64_t i = 0; i < 3; i++) {
        increment(put(maker));
        ready(i, 0);
    }
    assert_ok(mu_ray_request(sched, getter, 0));
    ready(0, 1);
    assert_ok(mu_ray_request(sched, third, 0)); /* on its way from a */
    assert_ok(mu_ray_request(sched, third, 1));
    assert_said("deliver b 0 from a; deliver c 0 from a; deliver c 1 from a");
    mu_ray_store_lost(sched, 0, "it fell over");
    assert_said("deliver c 0 from b");
    assert_status(MUSTER_DATA_LOSS, mu_ray_request(sched, getter, 2));
    assert_says("it fell over");
    assert_ok(mu_ray_request(sched, getter, 0));
    ready(0, 2);
    COUNTS(1, 2, 1);
    drop(0);
    assert_said("free c 0; free b 0");
    drop(2);
    assert_said(""); /* there is nobody to be told */
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_object_ready(sched, 1, 0));
    ready(1, 2); /* what was on its way has come all the same */
    COUNTS(FREED, 1, FREED);
}

SCHED_TEST(an_alias_of_a_lost_id_harms_no_target)
{
    uint32_t driver, worker;
    uint64_t target, alias, lost, other;

    stores_begin(1);
    driver = driver_new(0);
    worker = worker_new(0);
    target = put(driver);
    alias = put(worker);
    lost = put(worker);
    other = put(driver);
    for (uint64_t id = target; id <= other; id++)
        increment(id);
    ready(target, 0);
    mu_ray_worker_lost(sched, worker, true, "it was killed");
    assert_status(MUSTER_DATA_LOSS, mu_ray_request(sched, driver, alias));
    assert_ok(mu_ray_alias(sched, alias, target)); /* said after all */
    assert_ok(mu_ray_request(sched, driver, target));
    assert_ok(mu_ray_request(sched, driver, alias));
    assert_said("alias a 1=0");
    assert_ok(mu_ray_alias(sched, other, lost));
    assert_status(MUSTER_DATA_LOSS, mu_ray_request(sched, driver, other));
    assert_says("it was killed");
}

SCHED_TEST(without_its_store_a_worker_is_lost_and_a_driver_is_refused)
{
    uint32_t driver, worker, beside;
    uint64_t object, own;

    stores_begin(2);
    driver = driver_new(0);
    beside = driver_new(1);
    worker = worker_new(1);
    function_new(worker, "f", 1);
    increment(object = put(driver));
    ready(object, 0);
    mu_ray_store_lost(sched, 1, "it fell over");
    increment(object);
    submit(driver, "f", "0");
    assert_said("");
    assert_status(MUSTER_FAILED_PRECONDITION, mu_ray_ready_for_task(sched, worker, NULL));
    assert_status(MUSTER_UNAVAILABLE, mu_ray_request(sched, beside, object));
    assert_status(MUSTER_UNAVAILABLE, mu_ray_put(sched, beside, &own));
    assert_ok(mu_ray_request(sched, driver, object));
    worker = worker_new(0);
    function_new(worker, "f", 1);
    assert_said("execute 3 f");
}

SCHED_TEST(what_is_freed_takes_no_memory)
{
    struct mu_ray_stats stats;
    uint32_t driver;

    stores_begin(1);
    driver = driver_new(0);
    for (uint64_t i = 0; i < 100000; i++) {
        increment(put(driver));
        ready(i, 0);
        drop(i);
    }
    mu_ray_stats(sched, &stats);
    assert_int_equal(stats.objects, 0);
    assert_true(stats.held < 1000000);
}
