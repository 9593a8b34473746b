/*
 * tests/kv/directory_test.c: many keys: listing, counting, deleting.
 * Numbers like (37) are items of the coordination service's acceptance list.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

static struct test_job job;
static struct muster *m;

static int setup(void)
{
    if (test_job_create(&job, NULL))
        return -1;
    m = test_join(job.name, 0, 0);
    return m ? 0 : -1;
}

static int teardown(void)
{
    muster_leave(m);
    return test_job_end(&job) ? -1 : 0;
}

static void put(const char *key, const char *value)
{
    assert_ok(muster_kv_set(m, key, MUSTER_NTS, value, MUSTER_NTS, NULL));
}

/* The directory holds exactly these: key, value, key, value, ..., NULL. */
static void assert_directory(const char *directory, ...)
{
    struct muster_kv_list *list;
    size_t n = 0, count;
    const char *key;
    va_list args;

    assert_ok(muster_kv_get_dir(m, directory, MUSTER_NTS, &list));
    va_start(args, directory);
    while ((key = va_arg(args, const char *))) {
        const char *value = va_arg(args, const char *);

        assert_true(n < list->count);
        assert_string_equal(list->entries[n].key, key);
        assert_int_equal(list->entries[n].key_len, strlen(key));
        assert_string_equal(list->entries[n].value, value);
        assert_int_equal(list->entries[n].value_len, strlen(value));
        assert_true(list->entries[n].version > 0);
        n++;
    }
    va_end(args);
    assert_int_equal(list->count, n);
    muster_kv_list_free(list);
    assert_ok(muster_kv_count(m, directory, MUSTER_NTS, &count));
    assert_int_equal(count, n);
}

TEST_WITH(a_directory_lists_its_one_value, setup, teardown) /* (37) */
{
    put("dir/path", "value0");
    assert_directory("dir", "dir/path", "value0", NULL);
    assert_directory("/dir/", "dir/path", "value0", NULL);
}

TEST_WITH(a_directory_lists_what_is_nested_in_order_of_bytes, setup, teardown) /* (38) */
{
    put("dir/path2", "value2");
    put("dir/sub_dir/path", "value_sub");
    put("dir/path", "value");
    put("dir/path-x", "x");
    put("dir/path/below", "b");
    put("dir/P", "upper");
    put("other", "no");
    assert_directory("dir", "dir/P", "upper", "dir/path", "value", "dir/path-x", "x", "dir/path/below", "b",
                     "dir/path2", "value2", "dir/sub_dir/path", "value_sub", NULL);
    assert_directory("dir/sub_dir", "dir/sub_dir/path", "value_sub", NULL);
}

TEST_WITH(an_empty_store_lists_nothing, setup, teardown) /* (39) */
{
    assert_directory("dir", NULL);
    assert_directory("", NULL);
    assert_directory("/", NULL);
}

TEST_WITH(other_directories_do_not_count, setup, teardown) /* (40) to (43) */
{
    put("other_dir/path", "value");
    put("wrong_dir/dir", "value");
    put("dir_key", "value");
    put("dir", "value");
    put("dirt/path", "value");
    put("di/r/path", "value");
    assert_directory("dir", NULL);
    assert_directory("wrong", NULL);
}

TEST_WITH(the_root_lists_every_key, setup, teardown)
{
    put("b", "2");
    put("a/x", "1");
    put("c/y/z", "3");
    assert_directory("", "a/x", "1", "b", "2", "c/y/z", "3", NULL);
    assert_directory("///", "a/x", "1", "b", "2", "c/y/z", "3", NULL);
}

TEST_WITH(a_listing_carries_bytes_lengths_and_versions, setup, teardown)
{
    static char big[150000];
    struct muster_kv_list *list;
    uint64_t version;

    memset(big, 'b', sizeof big);
    assert_ok(muster_kv_set(m, "d/empty", MUSTER_NTS, NULL, 0, NULL));
    assert_ok(muster_kv_set(m, "d/nul", MUSTER_NTS, "a\0b", 3, NULL));
    assert_ok(muster_kv_set(m, "d/big", MUSTER_NTS, big, sizeof big, &version));
    assert_ok(muster_kv_set(m, "d/outside", MUSTER_NTS, big, 3000, NULL));
    assert_ok(muster_kv_get_dir(m, "d", 1, &list));
    assert_int_equal(list->count, 4);
    assert_string_equal(list->entries[0].key, "d/big");
    assert_int_equal(list->entries[0].version, version);
    assert_int_equal(list->entries[0].value_len, sizeof big);
    assert_memory_equal(list->entries[0].value, big, sizeof big);
    assert_int_equal(((const char *)list->entries[0].value)[sizeof big], 0);
    assert_int_equal(list->entries[1].value_len, 0);
    assert_memory_equal(list->entries[2].value, "a\0b", 4);
    assert_int_equal(list->entries[3].value_len, 3000);
    muster_kv_list_free(list);
    muster_kv_list_free(NULL);
}

TEST_WITH(delete_takes_the_key_and_all_below_it_and_nothing_else, setup, teardown) /* (34), 118, 119 */
{
    size_t count;

    put("path", "0");
    put("path/to/key1", "1");
    put("path/to//key2/", "2");
    put("pathos", "stays");
    put("pat", "stays");
    put("other/path/x", "stays");
    assert_ok(muster_kv_delete(m, "/path/", MUSTER_NTS, &count));
    assert_int_equal(count, 3);
    assert_directory("", "other/path/x", "stays", "pat", "stays", "pathos", "stays", NULL);
    assert_ok(muster_kv_delete(m, "nothing/there", MUSTER_NTS, &count));
    assert_int_equal(count, 0);
    assert_ok(muster_kv_delete(m, "path", MUSTER_NTS, NULL));
    assert_ok(muster_kv_delete(m, "", MUSTER_NTS, &count));
    assert_int_equal(count, 3);
    assert_directory("", NULL);
}

TEST_WITH(unusable_directories_are_refused, setup, teardown)
{
    static char long_name[5000];
    struct muster_kv_list *list = NULL;
    size_t count;

    memset(long_name, 'd', sizeof long_name);
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_get_dir(m, "a/..", 4, &list));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_get_dir(m, "a\0b", 3, &list));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_get_dir(m, NULL, 0, &list));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_count(m, long_name, sizeof long_name, &count));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_delete(m, long_name, 4097, &count));
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_delete(m, "..", 2, &count));
    assert_null(list);
    assert_ok(muster_kv_count(m, long_name, 4096, &count));
    assert_int_equal(count, 0);
}

TEST_WITH(ten_thousand_keys_are_listed_counted_and_deleted, setup, teardown)
{
    struct muster_kv_list *list;
    size_t count;
    char key[64];

    for (int i = 0; i < 10000; i++) { /* forty a bucket: pages grow large, and values move out of them */
        snprintf(key, sizeof key, "many/%d/%04d", i % 10, i);
        assert_ok(muster_kv_insert(m, key, MUSTER_NTS, &i, sizeof i));
    }
    assert_ok(muster_kv_get_dir(m, "many/3", MUSTER_NTS, &list));
    assert_int_equal(list->count, 1000);
    for (size_t i = 0; i < list->count; i++) {
        int value;

        snprintf(key, sizeof key, "many/3/%04zu", i * 10 + 3);
        assert_string_equal(list->entries[i].key, key);
        memcpy(&value, list->entries[i].value, sizeof value);
        assert_int_equal(value, i * 10 + 3);
    }
    muster_kv_list_free(list);
    assert_ok(muster_kv_delete(m, "many/3", MUSTER_NTS, &count));
    assert_int_equal(count, 1000);
    assert_ok(muster_kv_count(m, "many", MUSTER_NTS, &count));
    assert_int_equal(count, 9000);
    assert_ok(muster_kv_delete(m, "many", MUSTER_NTS, &count));
    assert_int_equal(count, 9000);
}
