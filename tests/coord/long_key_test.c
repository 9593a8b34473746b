/*
 * tests/coord/long_key_test.c: keys and directories with names too long for the store: all that clients do to a
 * short one is done to a long one.
 */
#include "counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its answer says a number. */
static void counter_is(struct asked *a, int64_t number)
{
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->ask.counter, number);
}

static struct asked *listed(const char *directory)
{
    struct asked *a = do_list(0, directory);

    assert_answer(a, MUSTER_OK);
    return a;
}

/* A name of `len` bytes, the same up to its end. */
static char *long_name(size_t len, const char *end)
{
    char *name = malloc(len + 1);

    assert_non_null(name);
    memset(name, 'k', len);
    memcpy(name, "long/", 5);
    snprintf(name + len - strlen(end), strlen(end) + 1, "%s", end);
    return name;
}

COORD_TEST(long_keys_are_counted_up_and_appended_to)
{
    static const size_t lengths[] = {4096, 4097, 5303, 1 << 20};

    counter_open(1, NULL);
    for (size_t i = 0; i < 4; i++) {
        char *number = long_name(lengths[i], "number"), *text = long_name(lengths[i], "text");

        assert_value(do_increment(0, number, 40), "40");
        assert_value(do_increment(0, number, 2), "42");
        assert_value(do_get(0, number), "42");
        assert_answer(do_insert(0, number, "-7", true), MUSTER_OK);
        assert_value(do_increment(0, number, -1), "-8");
        counter_is(do_append(0, text, "forty"), 5);
        counter_is(do_append(0, text, "-two"), 9);
        assert_value(do_try_get(0, text), "forty-two");
        assert_says_so(do_increment(0, text, 1), MUSTER_FAILED_PRECONDITION, "Failed to parse value \"forty-two\"");
        assert_value(do_get(0, text), "forty-two");
        free(number);
        free(text);
    }
    counter_close();
}

/* Below a directory with a name of `len` bytes: names in the store have its beginning alone, or not its '/'. */
static void long_directory(size_t len)
{
    char *dir = long_name(len, ""), *twin = long_name(len, "w"), *keys[5], *both;
    static const char *const ends[] = {"", "/a", "/b/c", "/d", "b"}; /* itself, three below it, one beside it */

    both = malloc(3 * len + 5100);
    assert_non_null(both);
    assert_answer(do_insert(0, twin, "twin", false), MUSTER_OK);
    for (size_t i = 0; i < 5; i++) {
        keys[i] = malloc(len + 5010);
        assert_non_null(keys[i]);
        snprintf(keys[i], len + 5010, "%s%s", dir, ends[i]);
        if (i == 3)
            snprintf(keys[i] + len + 2, 5008, "%05000d", 0);
        assert_answer(do_insert(0, keys[i], ends[i], false), MUSTER_OK);
    }
    for (int round = 0; round < 2; round++) {
        struct asked *a = listed(dir);

        assert_int_equal(a->ask.num_entries, 3);
        for (size_t i = 1; i < 4; i++) {
            snprintf(both, 3 * len + 5100, "%s\n", keys[i]);
            assert_non_null(strstr(a->keys, both));
        }
        a = do_delete(0, round ? dir : keys[2]);
        counter_is(a, round ? 4 : 1);
        if (!round)
            assert_answer(do_insert(0, keys[2], ends[2], false), MUSTER_OK);
    }
    assert_string_equal(listed(dir)->keys, "");
    for (size_t i = 0; i < 4; i++)
        assert_answer(do_try_get(0, keys[i]), MUSTER_NOT_FOUND);
    assert_value(do_get(0, keys[4]), "b");
    assert_value(do_get(0, twin), "twin");
    counter_is(do_delete(0, keys[4]), 1);
    counter_is(do_delete(0, twin), 1);
    for (size_t i = 0; i < 5; i++)
        free(keys[i]);
    free(both);
    free(dir);
    free(twin);
}

COORD_TEST(what_is_below_a_long_name_is_listed_and_deleted_and_nothing_else)
{
    static const size_t lengths[] = {3966, 3967, 3968, 4000, 4094, 4096, 4097, 5303, 100000};

    counter_open(1, NULL);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        long_directory(lengths[i]);
    assert_string_equal(listed("long")->keys, "");
    counter_close();
}
