/*
 * tests/ray/nested_test.c: ids in the values of a task's arguments: whose their references are.
 */
#include "stage.h"

#include <string.h>

#define TEXT(s) ((struct mu_ray_text){s, strlen(s)})

static void increment_by(uint32_t worker, uint64_t object)
{
    assert_ok(mu_ray_increment(sched, worker, &object, 1));
}

static void drop_by(uint32_t worker, uint64_t object)
{
    assert_ok(mu_ray_decrement(sched, worker, &object, 1));
}

/* Obj {list: {elem: {objectid: outer}, elem: {array: {objectid_data: [inner]}}}}, with small ids */
static void submit_nested(uint32_t by, uint64_t outer, uint64_t inner)
{
    const uint8_t bytes[] = {4 << 3 | 2, 15, 10,         4, 11 << 3 | 2,    2,      8, (uint8_t)outer, 10, 7,
                             5 << 3 | 2, 5,  7 << 3 | 2, 1, (uint8_t)inner, 8 << 3, 1};
    const struct mu_ray_value value = {.obj = bytes, .len = sizeof bytes};
    bool is_registered;
    uint64_t first, count;

    assert_ok(mu_ray_submit(sched, by, TEXT("g"), &value, 1, &is_registered, &first, &count));
}

/* A worker sends ids in a value, is lost, and what it sent stays; then the task's worker is lost, or it cannot run. */
SCHED_TEST(references_to_ids_in_a_value_go_with_it)
{
    stores_begin(1);
    for (int last = 0; last < 4; last++) {
        uint32_t driver = driver_new(0), worker = worker_new(0), other = worker_new(0);
        uint64_t outer = put(driver), inner = put(driver);

        function_new(other, "g", 0);
        for (uint64_t id = outer; id <= inner; id++) {
            increment(id);
            ready(id, 0);
            increment_by(worker, id);
        }
        submit_nested(worker, outer, inner);
        mu_ray_worker_lost(sched, worker, true, "it was killed");
        assert_int_equal(count_of(outer), 2);
        assert_int_equal(count_of(inner), 2);
        if (last == 1)
            drop_by(other, outer);
        if (last == 2) {
            mu_ray_worker_lost(sched, other, false, "connection refused");
            assert_int_equal(count_of(inner), 2);
            other = worker_new(0);
            function_new(other, "g", 0);
        }
        if (last == 3) { /* it has taken them over */
            drop_by(other, outer);
            drop_by(other, inner);
            ended(other);
        }
        mu_ray_worker_lost(sched, other, true, "it was killed");
        assert_int_equal(count_of(outer), 1);
        assert_int_equal(count_of(inner), 1);
        drop(outer);
        drop(inner);
    }
}

/* Of a value that nobody can read, nobody knows what the worker gave away with it. */
SCHED_TEST(a_value_that_cannot_be_read_ends_the_ledger)
{
    const struct mu_ray_value bad[] = {{.obj = "\x22\x7f", .len = 2},
                                       {.obj = "\x5a\x02\x08", .len = 3},
                                       {.obj = "\x22\x01\x0a", .len = 3},
                                       {.obj = "\x0b", .len = 1}};
    uint8_t deep[200];
    uint32_t driver;
    uint64_t first, count;
    bool is_registered;

    stores_begin(1);
    driver = driver_new(0);
    function_new(driver, "g", 0);
    for (size_t i = 0; i < sizeof deep; i += 4) { /* lists in lists */
        deep[i] = 4 << 3 | 2;
        deep[i + 2] = 10;
        deep[i + 1] = (uint8_t)(sizeof deep - i - 2) & 0x7f;
        deep[i + 3] = deep[i + 1] - 2;
    }
    for (size_t i = 0; i < 6; i++) { /* the last two: 30 lists in each other, and 32 */
        uint32_t worker = worker_new(0);
        uint64_t object = put(driver);
        size_t from = i == 4 ? 80 : 72;
        const struct mu_ray_value value =
            i < 4 ? bad[i] : (struct mu_ray_value){.obj = deep + from, .len = sizeof deep - from};

        increment_by(worker, object);
        assert_ok(mu_ray_submit(sched, worker, TEXT("g"), &value, 1, &is_registered, &first, &count));
        mu_ray_worker_lost(sched, worker, true, "it was killed");
        assert_int_equal(count_of(object), i == 4 ? 1 : 2);
    }
}
