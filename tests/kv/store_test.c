/*
 * tests/kv/store_test.c: single keys: every call, every error, every rule of versions.
 * Numbers like (34) are items of the coordination service's acceptance list.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "seed.h"

static struct test_job job;
static struct muster *m;

static int setup(void)
{
    if (test_job_create(&job, NULL)) {
        printf("%s\n", muster_last_error());
        return -1;
    }
    m = test_join(job.name, 0, 0);
    return m ? 0 : -1;
}

static int teardown(void)
{
    muster_leave(m);
    return test_job_end(&job) ? -1 : 0;
}

static void assert_value(const char *key, const void *value, size_t len)
{
    void *got;
    size_t got_len;

    assert_ok(muster_kv_get_alloc(m, key, MUSTER_NTS, 0, &got, &got_len, NULL));
    assert_int_equal(got_len, len);
    assert_memory_equal(got, value, len);
    assert_int_equal(((char *)got)[len], 0);
    free(got);
}

static uint64_t version_of(const char *key)
{
    uint64_t version = 0;
    size_t len;

    muster_kv_try_get(m, key, MUSTER_NTS, NULL, 0, &len, &version);
    return version;
}

TEST_WITH(a_second_insert_is_refused_and_the_first_value_kept, setup, teardown) /* (32) */
{
    assert_ok(muster_kv_insert(m, "key", MUSTER_NTS, "first", 5));
    assert_status(MUSTER_ALREADY_EXISTS, muster_kv_insert(m, "/key/", MUSTER_NTS, "second", 6));
    assert_string_equal(muster_last_error(), "key key already exists");
    assert_value("key", "first", 5);
}

TEST_WITH(set_replaces, setup, teardown) /* (33) */
{
    uint64_t v1, v2;

    assert_ok(muster_kv_set(m, "key", MUSTER_NTS, "first", 5, &v1));
    assert_ok(muster_kv_set(m, "key", MUSTER_NTS, "second", 6, &v2));
    assert_true(v1 > 0 && v2 > v1);
    assert_int_equal(version_of("key"), v2);
    assert_value("key", "second", 6);
}

TEST_WITH(spellings_of_a_path_are_one_key, setup, teardown) /* (34) */
{
    static const char *const spellings[] = {"path/to/key2",       "/path/to/key2",   "path/to/key2/",
                                            "//path//to//key2//", "path///to/key2/", "/path/to//key2",
                                            "path/to/////key2"};
    size_t count;

    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        assert_ok(muster_kv_set(m, spellings[i], MUSTER_NTS, spellings[i], MUSTER_NTS, NULL));
        for (size_t k = 0; k < sizeof spellings / sizeof spellings[0]; k++)
            assert_value(spellings[k], spellings[i], strlen(spellings[i]));
    }
    assert_ok(muster_kv_count(m, "", 0, &count));
    assert_int_equal(count, 1);
}

TEST_WITH(keys_alike_but_different_are_different_keys, setup, teardown)
{
    static const char *const keys[] = {
        "a",     "b",        "ab",        "a/b", "a.",       ".a",        "..a",       "a..",       "a.b",     "...",
        "a/...", "12345678", "123456789", "A",   "1234567.", "1234567./", "x1234567.", "a/.b/..c/", "\xff\xfe"};
    size_t n = sizeof keys / sizeof keys[0], count;

    for (size_t i = 0; i < n; i++)
        muster_kv_insert(m, keys[i], MUSTER_NTS, &i, sizeof i);
    assert_ok(muster_kv_count(m, "/", 1, &count));
    assert_int_equal(count, n - 1); /* one of them is spelt twice */
    for (size_t i = 0; i < n; i++)
        if (i != 15)
            assert_value(keys[i], &i, sizeof i);
}

TEST_WITH(unusable_keys_are_refused_with_a_reason, setup, teardown)
{
    static const struct {
        const char *key;
        size_t len;
        const char *reason;
    } vectors[] = {{"", 0, "empty"},         {"/", 1, "empty"},         {"///", 3, "empty"},
                   {"a\0b", 3, "NUL"},       {"\0", 1, "NUL"},          {"a/.", 3, "'.'"},
                   {"./a", 3, "'.'"},        {"..", 2, "'..'"},         {"a/../b", 6, "'..'"},
                   {"a/./b", 5, "'.'"},      {"../a", 4, "'..'"},       {"a//..//", 7, "'..'"},
                   {"1234567/./8", 11, "."}, {"1234567/../8", 12, "."}, {"12345678/..", 11, "."},
                   {"/.", 2, "'.'"},         {"1234567\0", 8, "NUL"},   {"12345678\0x", 10, "NUL"}};
    uint64_t version;
    int64_t number;
    size_t len;

    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const char *key = vectors[i].key;
        size_t n = vectors[i].len;

        assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_set(m, key, n, "v", 1, NULL));
        assert_says(vectors[i].reason);
        assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_insert(m, key, n, "v", 1));
        assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_try_get(m, key, n, NULL, 0, &len, NULL));
        assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_get(m, key, n, 0, NULL, 0, &len, NULL));
        assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_watch(m, key, n, 0, 0, NULL, 0, &len, NULL));
        assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_increment(m, key, n, 1, &number));
        assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_append(m, key, n, "v", 1, &len));
        assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_compare_and_set(m, key, n, 0, "v", 1, &version));
    }
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_set(m, NULL, 3, "v", 1, NULL));
    assert_ok(muster_kv_count(m, "", 0, &len));
    assert_int_equal(len, 0);
}

TEST_WITH(a_key_of_4096_bytes_fits_and_one_more_does_not, setup, teardown)
{
    static char key[4200], other[4200];
    size_t len;

    memset(key, 'k', sizeof key);
    memset(other, 'k', sizeof other);
    other[4095] = 'K';
    assert_ok(muster_kv_set(m, key, 4096, "value", 5, NULL));
    assert_status(MUSTER_NOT_FOUND, muster_kv_try_get(m, other, 4096, NULL, 0, &len, NULL));
    assert_status(MUSTER_NOT_FOUND, muster_kv_try_get(m, key, 4095, NULL, 0, &len, NULL));
    assert_status(MUSTER_OUT_OF_RANGE, muster_kv_try_get(m, key, 4096, NULL, 0, &len, NULL));
    assert_int_equal(len, 5);
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_set(m, key, 4097, "value", 5, NULL));
    assert_says("4097");
    key[0] = key[4097] = '/'; /* slashes at the ends do not count */
    assert_ok(muster_kv_set(m, key, 4098, "longer", 6, NULL));
}

TEST_WITH(a_key_of_ten_megabytes_and_a_value_of_a_hundred_are_refused, setup, teardown)
{
    char *big = malloc(100u << 20);
    size_t len;

    assert_non_null(big);
    memset(big, 'x', 100u << 20);
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_set(m, big, 10u << 20, "v", 1, NULL));
    assert_says("10485760");
    memset(big, '/', 10u << 20); /* as many slashes are an empty key */
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_set(m, big, 10u << 20, "v", 1, NULL));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_set(m, "key", 3, big, 100u << 20, NULL));
    assert_says("104857600");
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_insert(m, "key", 3, big, MUSTER_VALUE_MAX + 1));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_append(m, "key", 3, big, MUSTER_VALUE_MAX + 1, &len));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_set(m, "key", 3, NULL, 7, NULL));
    assert_status(MUSTER_NOT_FOUND, muster_kv_try_get(m, "key", 3, NULL, 0, &len, NULL));
    free(big);
}

TEST_WITH(every_length_comes_back_as_it_went_in, setup, teardown)
{
    static const size_t edges[] = {0,     1,     7,     8,     9,     63,     64,     65,     127,
                                   400,   447,   448,   449,   500,   511,    512,    513,    1000,
                                   4096,  16383, 16384, 16385, 32768, 65000,  65503,  65504,  65519,
                                   65520, 65521, 65535, 65536, 65537, 131040, 131041, 200000, 1000003};
    size_t n = sizeof edges / sizeof edges[0];
    uint8_t *bytes = malloc(1000003);
    struct test_random r = {test_seed()};

    for (size_t i = 0; i < 1000003; i++)
        bytes[i] = (uint8_t)test_random(&r);
    for (size_t i = 0; i < n; i++) { /* fresh, then over each other, growing and shrinking */
        char key[32];

        snprintf(key, sizeof key, "own/%zu", i);
        assert_ok(muster_kv_set(m, key, MUSTER_NTS, bytes, edges[i], NULL));
        assert_value(key, bytes, edges[i]);
        assert_ok(muster_kv_set(m, "shared", 6, bytes, edges[i], NULL));
        assert_value("shared", bytes, edges[i]);
    }
    for (size_t i = n; i-- > 0;) {
        char key[32];

        assert_ok(muster_kv_set(m, "shared", 6, bytes, edges[i], NULL));
        assert_value("shared", bytes, edges[i]);
        snprintf(key, sizeof key, "own/%zu", i);
        assert_value(key, bytes, edges[i]);
    }
    free(bytes);
}

TEST_WITH(a_buffer_too_small_is_told_the_length_and_left_alone, setup, teardown)
{
    char buffer[8] = "xxxxxxx";
    uint64_t version = 0;
    size_t len = 0;

    assert_ok(muster_kv_set(m, "key", 3, "0123456789", 10, NULL));
    assert_status(MUSTER_OUT_OF_RANGE, muster_kv_try_get(m, "key", 3, buffer, sizeof buffer, &len, &version));
    assert_int_equal(len, 10);
    assert_true(version > 0);
    assert_string_equal(buffer, "xxxxxxx");
    assert_status(MUSTER_OUT_OF_RANGE, muster_kv_get(m, "key", 3, 0, buffer, 9, &len, NULL));
    assert_status(MUSTER_OUT_OF_RANGE, muster_kv_watch(m, "key", 3, 0, 0, NULL, 0, &len, NULL));
    assert_ok(muster_kv_set(m, "empty", 5, NULL, 0, NULL));
    assert_ok(muster_kv_try_get(m, "empty", 5, NULL, 0, &len, NULL));
    assert_int_equal(len, 0);
}

TEST_WITH(try_get_misses_finds_and_misses_again, setup, teardown) /* (35) */
{
    size_t len, count;

    assert_status(MUSTER_NOT_FOUND, muster_kv_try_get(m, "/key", MUSTER_NTS, NULL, 0, &len, NULL));
    assert_says("key not found");
    assert_ok(muster_kv_set(m, "key", 3, "", 0, NULL));
    assert_ok(muster_kv_try_get(m, "/key", MUSTER_NTS, NULL, 0, &len, NULL));
    assert_ok(muster_kv_delete(m, "key", 3, &count));
    assert_int_equal(count, 1);
    assert_status(MUSTER_NOT_FOUND, muster_kv_try_get(m, "/key", MUSTER_NTS, NULL, 0, &len, NULL));
}

TEST_WITH(versions_grow_through_delete_and_insert, setup, teardown)
{
    uint64_t before = 0, after;
    char buffer[8];
    size_t len;

    for (int round = 0; round < 5; round++) {
        assert_ok(muster_kv_insert(m, "key", 3, "v", 1));
        after = version_of("key");
        assert_true(after > before);
        before = after;
        assert_ok(muster_kv_delete(m, "key", 3, NULL));
        assert_int_equal(version_of("key"), 0);
    }
    assert_status(MUSTER_NOT_FOUND, muster_kv_watch(m, "key", 3, before, 0, buffer, sizeof buffer, &len, NULL));
}

TEST_WITH(increment_counts_from_nothing_and_refuses_what_is_no_number, setup, teardown) /* (36) */
{
    static const struct {
        const char *old;
        int64_t by, sum; /* sum 0: refused */
        const char *text;
    } vectors[] = {{"1", 3, 4, "4"},
                   {"10", 1, 11, "11"},
                   {"-5", 3, -2, "-2"},
                   {"+7", 1, 8, "8"},
                   {"007", 1, 8, "8"},
                   {"4294967296", 1, 4294967297, "4294967297"},
                   {"9223372036854775806", 1, INT64_MAX, "9223372036854775807"},
                   {"-9223372036854775807", -1, INT64_MIN, "-9223372036854775808"},
                   {"9223372036854775807", 1, 0, "leaves 64 bits"},
                   {"-9223372036854775808", -1, 0, "leaves 64 bits"},
                   {"9223372036854775808", 1, 0, "Failed to parse"},
                   {"99999999999999999999", 1, 0, "Failed to parse"},
                   {"bad_value", 1, 0, "Failed to parse value \"bad_value\""},
                   {"", 1, 0, "Failed to parse"},
                   {" 1", 1, 0, "Failed to parse"},
                   {"1 ", 1, 0, "Failed to parse"},
                   {"-", 1, 0, "Failed to parse"},
                   {"1.5", 1, 0, "Failed to parse"},
                   {"0x10", 1, 0, "Failed to parse"}};
    int64_t sum;

    assert_ok(muster_kv_increment(m, "absent", MUSTER_NTS, 10, &sum));
    assert_int_equal(sum, 10);
    assert_value("absent", "10", 2);
    assert_ok(muster_kv_increment(m, "absent", MUSTER_NTS, -10, NULL));
    assert_value("absent", "0", 1);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint64_t version;

        assert_ok(muster_kv_set(m, "n", 1, vectors[i].old, MUSTER_NTS, &version));
        sum = 77;
        if (vectors[i].sum) {
            assert_ok(muster_kv_increment(m, "n", 1, vectors[i].by, &sum));
            assert_true(sum == vectors[i].sum);
            assert_value("n", vectors[i].text, strlen(vectors[i].text));
        } else {
            assert_status(MUSTER_FAILED_PRECONDITION, muster_kv_increment(m, "n", 1, vectors[i].by, &sum));
            assert_says(vectors[i].text);
            assert_int_equal(sum, 77);
            assert_value("n", vectors[i].old, strlen(vectors[i].old));
            assert_int_equal(version_of("n"), version);
        }
    }
}

TEST_WITH(a_number_too_long_to_print_is_refused_whatever_its_length, setup, teardown)
{
    static char digits[100000];
    int64_t sum;

    memset(digits, '0', sizeof digits);
    assert_ok(muster_kv_set(m, "n", 1, digits, sizeof digits, NULL));
    assert_ok(muster_kv_increment(m, "n", 1, 5, &sum));
    assert_value("n", "5", 1);
    memset(digits, '9', sizeof digits);
    assert_ok(muster_kv_set(m, "n", 1, digits, sizeof digits, NULL));
    assert_status(MUSTER_FAILED_PRECONDITION, muster_kv_increment(m, "n", 1, 5, &sum));
}

TEST_WITH(compare_and_set_takes_the_right_version_only, setup, teardown)
{
    uint64_t v = 0, first, again;

    assert_status(MUSTER_ABORTED, muster_kv_compare_and_set(m, "key", 3, 5, "x", 1, &v));
    assert_says("absent");
    assert_int_equal(v, 0);
    assert_ok(muster_kv_compare_and_set(m, "key", 3, 0, "one", 3, &first));
    assert_status(MUSTER_ABORTED, muster_kv_compare_and_set(m, "key", 3, 0, "x", 1, &v));
    assert_int_equal(v, first);
    assert_ok(muster_kv_compare_and_set(m, "key", 3, first, "two", 3, &again));
    assert_true(again > first);
    assert_status(MUSTER_ABORTED, muster_kv_compare_and_set(m, "key", 3, first, "x", 1, NULL));
    assert_value("key", "two", 3);
    assert_ok(muster_kv_delete(m, "key", 3, NULL));
    assert_status(MUSTER_ABORTED, muster_kv_compare_and_set(m, "key", 3, again, "x", 1, &v));
    assert_int_equal(v, 0);
}

TEST_WITH(append_joins_and_stops_at_the_limit, setup, teardown)
{
    static char joined[450000]; /* the last append makes up to 405,000 of it */
    char *block = calloc(1, MUSTER_VALUE_MAX);
    size_t len;

    assert_ok(muster_kv_append(m, "text", 4, "abc", 3, &len));
    assert_int_equal(len, 3);
    assert_ok(muster_kv_append(m, "text", 4, NULL, 0, &len));
    assert_ok(muster_kv_append(m, "text", 4, "defg", MUSTER_NTS, &len));
    assert_int_equal(len, 7);
    assert_value("text", "abcdefg", 7);
    for (size_t n = 7; n < 270000; n = len) /* in the page, in a block, in parts */
        assert_ok(muster_kv_append(m, "text", 4, block, n / 2, &len));
    memcpy(joined, "abcdefg", 7);
    assert_value("text", joined, len);
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_append(m, "text", 4, block, MUSTER_VALUE_MAX - len + 1, NULL));
    assert_says("67108864");
    assert_value("text", joined, len);
    free(block);
}

TEST_WITH(a_past_deadline_looks_once, setup, teardown)
{
    char buffer[8];
    size_t len;
    void *copy = &len;

    for (int i = 0; i < 2; i++) {
        muster_deadline deadline = i ? 1 : muster_after_ns(0);

        assert_status(MUSTER_DEADLINE_EXCEEDED,
                      muster_kv_get(m, "key", 3, deadline, buffer, sizeof buffer, &len, NULL));
        assert_says("key key");
        assert_status(MUSTER_DEADLINE_EXCEEDED, muster_kv_get_alloc(m, "key", 3, deadline, &copy, &len, NULL));
        assert_ptr_equal(copy, &len);
        assert_status(MUSTER_DEADLINE_EXCEEDED,
                      muster_kv_watch(m, "key", 3, 0, deadline, buffer, sizeof buffer, &len, NULL));
    }
    assert_ok(muster_kv_set(m, "key", 3, "v", 1, NULL));
    assert_ok(muster_kv_get(m, "key", 3, 1, buffer, sizeof buffer, &len, NULL));
    assert_status(MUSTER_DEADLINE_EXCEEDED,
                  muster_kv_watch(m, "key", 3, version_of("key"), 1, buffer, sizeof buffer, &len, NULL));
    assert_ok(muster_kv_watch(m, "key", 3, version_of("key") - 1, 1, buffer, sizeof buffer, &len, NULL));
}

TEST_WITH(a_deadline_to_come_is_kept, setup, teardown)
{
    muster_deadline deadline = muster_after_ms(20);
    size_t len;

    assert_status(MUSTER_DEADLINE_EXCEEDED, muster_kv_get(m, "never", 5, deadline, NULL, 0, &len, NULL));
    assert_says("key never");
    assert_true(muster_now_ns() >= deadline);
}

TEST_WITH(an_interrupted_process_does_not_wait_until_resumed, setup, teardown)
{
    size_t len;

    muster_interrupt(m);
    assert_status(MUSTER_CANCELLED, muster_kv_get(m, "never", 5, MUSTER_FOREVER, NULL, 0, &len, NULL));
    assert_says("interrupted");
    assert_ok(muster_kv_set(m, "key", 3, "v", 1, NULL)); /* what does not wait is not concerned */
    muster_resume(m);
    assert_status(MUSTER_DEADLINE_EXCEEDED, muster_kv_get(m, "never", 5, 1, NULL, 0, &len, NULL));
}

TEST_WITH(a_wait_ends_when_a_task_is_in_error_and_names_it, setup, teardown)
{
    char buffer[4];
    size_t len;

    assert_ok(muster_error_report(m, 0, MUSTER_INTERNAL, "the fan fell off"));
    assert_status(MUSTER_UNAVAILABLE, muster_kv_get(m, "never", 5, MUSTER_FOREVER, NULL, 0, &len, NULL));
    assert_says("task 0");
    assert_says("the fan fell off");
    assert_ok(muster_kv_set(m, "key", 3, "v", 1, NULL)); /* the store itself is not concerned */
    assert_ok(muster_kv_get(m, "key", 3, MUSTER_FOREVER, buffer, sizeof buffer, &len, NULL));
}

static int teardown_removed(void)
{
    struct muster_audit sum;
    int rc;

    rc = muster_segment_check(job.segment, NULL, NULL, &sum) || sum.problems;
    muster_leave(m);
    muster_segment_close(job.segment);
    return rc;
}

TEST_WITH(a_closed_job_ends_waits, setup, teardown_removed)
{
    size_t len;

    assert_ok(muster_segment_remove(job.name));
    assert_status(MUSTER_CANCELLED, muster_kv_get(m, "never", 5, MUSTER_FOREVER, NULL, 0, &len, NULL));
    assert_says("was removed by 'muster segment rm --force'");
}

TEST_WITH(random_calls_agree_with_a_plain_array, setup, teardown)
{
    enum { KEYS = 40, STEPS = 6000 };
    static struct {
        uint8_t *bytes;
        size_t len;
        uint64_t version;
        int there;
    } model[KEYS];
    struct test_random r = {test_seed()};
    static uint8_t noise[150000];

    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)test_random(&r);
    for (int step = 0; step < STEPS; step++) {
        size_t k = test_below(&r, KEYS), got;
        size_t len = test_below(&r, test_below(&r, 20) ? 300 : test_below(&r, 20) ? 9000 : 140000);
        const uint8_t *from = noise + test_below(&r, 5000);
        enum muster_status status;
        char key[32];
        uint64_t v = 0;

        snprintf(key, sizeof key, "r/%zu", k);
        switch (test_below(&r, 5)) {
        case 0:
            assert_ok(muster_kv_delete(m, key, MUSTER_NTS, &got));
            assert_int_equal(got, model[k].there);
            model[k].there = 0;
            continue;
        case 1:
            status = muster_kv_insert(m, key, MUSTER_NTS, from, len);
            assert_status(model[k].there ? MUSTER_ALREADY_EXISTS : MUSTER_OK, status);
            break;
        case 2:
            status =
                muster_kv_compare_and_set(m, key, MUSTER_NTS, model[k].there ? model[k].version : 0, from, len, &v);
            assert_ok(status);
            break;
        default: status = muster_kv_set(m, key, MUSTER_NTS, from, len, &v); assert_ok(status);
        }
        if (!status) {
            if (!v)
                v = version_of(key);
            assert_true(v > model[k].version);
            free(model[k].bytes);
            model[k].bytes = malloc(len + 1);
            memcpy(model[k].bytes, from, len);
            model[k].len = len;
            model[k].version = v;
            model[k].there = 1;
        }
        assert_value(key, model[k].bytes, model[k].len);
        assert_int_equal(version_of(key), model[k].version);
    }
    for (size_t k = 0; k < KEYS; k++)
        free(model[k].bytes);
}

TEST(a_value_of_64_mib_is_stored_read_and_replaced)
{
    struct muster_segment_config config = {.heap_bytes = 160u << 20};
    struct test_job big_job;
    uint64_t *value = malloc(MUSTER_VALUE_MAX), *copy = malloc(MUSTER_VALUE_MAX);
    struct test_random r = {test_seed()};
    struct muster *big;
    size_t len;

    assert_ok(test_job_create(&big_job, &config));
    big = test_join(big_job.name, -1, 0);
    assert_non_null(big);
    for (size_t i = 0; i < MUSTER_VALUE_MAX / 8; i++)
        value[i] = test_random(&r);
    for (int round = 0; round < 3; round++) {
        assert_ok(muster_kv_set(big, "big", 3, value, MUSTER_VALUE_MAX, NULL));
        assert_ok(muster_kv_try_get(big, "big", 3, copy, MUSTER_VALUE_MAX, &len, NULL));
        assert_int_equal(len, MUSTER_VALUE_MAX);
        assert_true(!memcmp(value, copy, MUSTER_VALUE_MAX));
        value[round * 1000]++;
    }
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_append(big, "big", 3, "x", 1, NULL));
    /* a third does not fit beside two: nothing changed, nothing leaked */
    assert_ok(muster_kv_set(big, "second", 6, value, MUSTER_VALUE_MAX, NULL));
    assert_status(MUSTER_RESOURCE_EXHAUSTED, muster_kv_set(big, "third", 5, value, MUSTER_VALUE_MAX, NULL));
    assert_status(MUSTER_NOT_FOUND, muster_kv_try_get(big, "third", 5, NULL, 0, &len, NULL));
    assert_ok(muster_kv_delete(big, "second", 6, NULL));
    assert_ok(muster_kv_set(big, "third", 5, value, MUSTER_VALUE_MAX, NULL));
    muster_leave(big);
    assert_int_equal(test_job_end(&big_job), 0);
    free(value);
    free(copy);
}
