/*
 * tests/coord/kv_test.c: keys as guests see them. Acceptance items 32 to 43, 203 to 212, and what muster asks besides.
 */
#include "counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

COORD_TEST(a_duplicate_insert_is_refused_and_the_old_value_kept)
{
    struct asked *a;

    counter_open(1, NULL);
    assert_answer(do_insert(0, "k", "one", false), MUSTER_OK);
    a = do_insert(0, "/k//", "two", false);
    assert_says_so(a, MUSTER_ALREADY_EXISTS, "key k already exists.");
    assert_int_equal(a->ask.payload, MU_PAYLOAD_NONE);
    assert_value(do_get(0, "k"), "one");
    counter_close();
}

COORD_TEST(a_duplicate_insert_that_may_overwrite_replaces)
{
    counter_open(1, NULL);
    assert_answer(do_insert(0, "k", "one", false), MUSTER_OK);
    assert_answer(do_insert(0, "k", "two", true), MUSTER_OK);
    assert_value(do_try_get(0, "k"), "two");
    counter_close();
}

COORD_TEST(keys_are_found_under_other_spellings)
{
    struct asked *child, *again;

    counter_open(1, NULL);
    assert_answer(do_insert(0, "/path", "p", false), MUSTER_OK);
    assert_answer(do_insert(0, "/path/to/key1", "1", false), MUSTER_OK);
    assert_answer(do_insert(0, "path/to//key2/", "2", false), MUSTER_OK);
    assert_value(do_get(0, "path/"), "p");
    assert_value(do_get(0, "//path//to/key1"), "1");
    assert_value(do_get(0, "/path/to/key2"), "2");
    assert_answer(do_delete(0, "path/to/key1/"), MUSTER_OK);
    again = do_get(0, "path/to/key1");
    assert_waits(again);
    assert_answer(do_insert(0, "/path/to/key1", "anew", false), MUSTER_OK);
    assert_value(again, "anew");
    assert_answer(do_delete(0, "/path"), MUSTER_OK);
    child = do_get(0, "path/to/key2");
    assert_waits(child);
    mu_coord_stop(coord);
    assert_says_so(child, MUSTER_CANCELLED, "KeyValueStore destructed");
    counter_close();
}

COORD_TEST(who_tries_gets_what_is_there_and_nothing_else)
{
    struct asked *a;

    counter_open(1, NULL);
    a = do_try_get(0, "/k");
    assert_says_so(a, MUSTER_NOT_FOUND, "Config key /k not found.");
    assert_int_equal(a->ask.payload, MU_PAYLOAD_SERVICE);
    assert_int_equal(a->ask.origin, -1);
    assert_answer(do_insert(0, "k", "v", false), MUSTER_OK);
    assert_value(do_try_get(0, "k"), "v");
    assert_answer(do_delete(0, "k"), MUSTER_OK);
    assert_answer(do_try_get(0, "k"), MUSTER_NOT_FOUND);
    counter_close();
}

COORD_TEST(numbers_are_counted_up_as_text)
{
    struct asked *waits, *a;

    counter_open(1, NULL);
    assert_answer(do_insert(0, "n", "1", false), MUSTER_OK);
    assert_value(do_increment(0, "n", 3), "4");
    assert_value(do_increment(0, "n", -6), "-2");
    waits = do_get(0, "absent");
    assert_waits(waits);
    assert_value(do_increment(0, "absent", 10), "10");
    assert_value(waits, "10");
    assert_answer(do_insert(0, "bad", "bad_value", false), MUSTER_OK);
    a = do_increment(0, "bad", 1);
    assert_says_so(a, MUSTER_FAILED_PRECONDITION, "Failed to parse value \"bad_value\"");
    assert_int_equal(a->ask.payload, MU_PAYLOAD_SERVICE);
    assert_value(do_get(0, "bad"), "bad_value");
    assert_value(do_increment(0, "large", INT64_C(1) << 40), "1099511627776");
    assert_value(do_increment(0, "large", 1), "1099511627777");
    counter_close();
}

/* The version that an answer says. */
static uint64_t version_of(struct asked *a, enum muster_status status)
{
    assert_answer(a, status);
    return (uint64_t)a->ask.version;
}

COORD_TEST(a_value_is_replaced_where_its_version_is_the_expected_one)
{
    struct asked *waits;
    uint64_t first, second;

    counter_open(1, NULL);
    assert_int_equal(version_of(do_compare(0, "k", 77, "none"), MUSTER_ABORTED), 0);
    waits = do_get(0, "k");
    assert_waits(waits);
    first = version_of(do_compare(0, "k", 0, "one"), MUSTER_OK);
    assert_true(first > 0);
    assert_value(waits, "one");
    assert_int_equal(waits->ask.version, first);
    assert_says_so(do_compare(0, "k", 0, "two"), MUSTER_ABORTED, "key k is at version");
    assert_int_equal(version_of(do_compare(0, "k", first + 1000, "two"), MUSTER_ABORTED), first);
    assert_int_equal(version_of(do_try_get(0, "k"), MUSTER_OK), first);
    second = version_of(do_compare(0, "k", first, "two"), MUSTER_OK);
    assert_true(second > first);
    assert_value(do_get(0, "k"), "two");
    assert_int_equal(version_of(do_get(0, "k"), MUSTER_OK), second);
    assert_answer(do_insert(0, "k", "three", true), MUSTER_OK);
    assert_true(version_of(do_get(0, "k"), MUSTER_OK) > second);
    assert_says_so(do_compare(0, "", 1, "v"), MUSTER_ABORTED, "is absent");
    counter_close();
}

COORD_TEST(what_is_appended_says_how_long_it_has_become)
{
    struct asked *a, *waits;

    counter_open(1, NULL);
    waits = do_get(0, "k");
    assert_waits(waits);
    a = do_append(0, "k", "ab");
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->ask.counter, 2);
    assert_value(waits, "ab");
    a = do_append(0, "k", "");
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->ask.counter, 2);
    a = do_append(0, "/k/", "cde");
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->ask.counter, 5);
    assert_value(do_get(0, "k"), "abcde");
    counter_close();
}

/* Its answer says a number. */
static void counter_is(struct asked *a, int64_t number)
{
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->ask.counter, number);
}

COORD_TEST(keys_are_counted_and_those_that_go)
{
    enum { N = 3000 }; /* more than one piece */
    char key[32];

    counter_open(1, NULL);
    counter_is(do_count(0, "dir"), 0);
    counter_is(do_delete(0, "dir"), 0);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "dir/%d/x", i);
        assert_answer(do_insert(0, key, "v", false), MUSTER_OK);
    }
    assert_answer(do_insert(0, "dir", "itself", false), MUSTER_OK);
    assert_answer(do_insert(0, "dir2", "another", false), MUSTER_OK);
    counter_is(do_count(0, "/dir/"), N);
    counter_is(do_count(0, "dir/7"), 1);
    counter_is(do_delete(0, "dir/7"), 1);
    counter_is(do_count(0, "dir"), N - 1);
    counter_is(do_delete(0, "dir"), N);
    counter_is(do_count(0, "dir"), 0);
    counter_is(do_count(0, ""), 0);
    counter_is(do_delete(0, ""), 0);
    assert_value(do_get(0, "dir2"), "another");
    counter_close();
}

static void list_is(const char *directory, const char *keys)
{
    struct asked *a = do_list(0, directory);

    assert_answer(a, MUSTER_OK);
    assert_string_equal(a->keys, keys);
}

COORD_TEST(a_directory_is_listed_with_all_below_it_and_nothing_else)
{
    counter_open(1, NULL);
    list_is("dir", "");
    assert_answer(do_insert(0, "dir/b", "2", false), MUSTER_OK);
    list_is("/dir/", "dir/b\n");
    assert_answer(do_insert(0, "dir/sub/c", "3", false), MUSTER_OK);
    assert_answer(do_insert(0, "dir/a", "1", false), MUSTER_OK);
    assert_answer(do_insert(0, "dir", "itself", false), MUSTER_OK);
    assert_answer(do_insert(0, "wrong_dir/dir", "x", false), MUSTER_OK);
    assert_answer(do_insert(0, "dir_key", "x", false), MUSTER_OK);
    list_is("dir", "dir/a\ndir/b\ndir/sub/c\n");
    list_is("other", "");
    list_is("dir/sub", "dir/sub/c\n");
    list_is("dir_key", "");
    list_is("", "");
    counter_close();
}

COORD_TEST(deleting_nothing_is_fine_and_the_root_is_nothing)
{
    counter_open(1, NULL);
    assert_answer(do_delete(0, "absent"), MUSTER_OK);
    assert_answer(do_insert(0, "k", "v", false), MUSTER_OK);
    assert_answer(do_delete(0, ""), MUSTER_OK);
    assert_answer(do_delete(0, "///"), MUSTER_OK);
    assert_value(do_get(0, "k"), "v");
    counter_close();
}

COORD_TEST(gets_of_one_key_are_answered_in_their_order)
{
    struct asked *a[3], *other;

    counter_open(3, NULL);
    for (int i = 0; i < 3; i++)
        a[i] = do_get(i, "k");
    other = do_get(0, "other");
    for (int i = 0; i < 3; i++)
        assert_waits(a[i]);
    assert_answer(do_insert(2, "k", "v", false), MUSTER_OK);
    for (int i = 0; i < 3; i++)
        assert_value(a[i], "v");
    assert_true(a[0]->order < a[1]->order && a[1]->order < a[2]->order);
    assert_waits(other);
    counter_close();
}

NEAR_TEST(a_get_waits_for_what_a_task_of_the_library_sets)
{
    struct asked *a, *b;

    counter_open(2, NULL);
    counter_enter(0);
    a = do_get(1, "from-c");
    b = do_get(1, "never");
    assert_waits(a);
    assert_status(do_text(0, act_kv_set, "from-c"), MUSTER_OK);
    assert_value(a, "from-c");
    assert_waits(b);
    counter_close();
}

NEAR_TEST(a_task_of_the_library_gets_what_a_guest_inserts)
{
    counter_open(2, NULL);
    counter_enter(0);
    tell_text(0, act_kv_get, "k");
    stage_until_waiting(0, "key k");
    assert_answer(do_insert(1, "k", "from a guest", false), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    counter_close();
}

COORD_TEST(a_get_that_is_dropped_is_gone)
{
    struct asked *a, *b;

    counter_open(1, NULL);
    a = do_get(0, "k");
    b = do_get(0, "k");
    mu_coord_drop(coord, &a->ask);
    mu_coord_drop(coord, &a->ask);
    assert_answer(do_insert(0, "k", "v", false), MUSTER_OK);
    assert_value(b, "v");
    mu_coord_drop(coord, &b->ask);
    assert_false(a->answered);
    counter_close();
}

COORD_TEST(a_line_that_hangs_up_takes_its_gets_along)
{
    struct asked *a, *b;

    counter_open(2, NULL);
    a = do_get(0, "k");
    b = do_get(1, "k");
    hang_up(0, "reset by its peer");
    assert_answer(do_insert(1, "k", "v", false), MUSTER_OK);
    assert_value(b, "v");
    assert_false(a->answered);
    counter_close();
}

/* Within `answered` other asks are made, and dropped. */
static struct asked *victim, *second;

static void drop_and_go_on(struct mu_coord_request *q)
{
    struct asked *a = (struct asked *)q;

    a->answered = true;
    mu_coord_drop(coord, &victim->ask);
    second = do_insert(0, "next", "there", false);
}

COORD_TEST(an_answer_may_lead_to_other_asks)
{
    struct asked *a, *later;

    counter_open(1, NULL);
    a = do_get(0, "k");
    a->ask.answered = drop_and_go_on;
    victim = do_get(0, "k");
    later = do_get(0, "next");
    assert_answer(do_insert(0, "k", "v", false), MUSTER_OK);
    assert_true(a->answered);
    assert_false(victim->answered);
    assert_answer(second, MUSTER_OK);
    assert_value(later, "there");
    counter_close();
}

NEAR_TEST(ten_thousand_gets_wait_on_one_line)
{
    enum { N = 10000 };
    static struct asked *gets[N];
    char key[32];

    counter_open(2, NULL);
    counter_enter(0);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "many/%d", i);
        gets[i] = do_get(1, key);
    }
    assert_waits(gets[0]);
    assert_status(do_text(0, act_kv_set, "many/7777"), MUSTER_OK);
    assert_value(gets[7777], "many/7777");
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "many/%d", i);
        assert_int_equal(gets[i]->answered, i == 7777);
        assert_answer(do_insert(1, key, key, true), MUSTER_OK);
        assert_value(gets[i], key);
    }
    counter_close();
}

COORD_TEST(a_line_with_too_many_gets_is_refused_in_words)
{
    enum { N = 32768 };
    struct mu_coord_request *many = calloc(N + 2, sizeof *many);
    struct asked *other;

    counter_open(2, NULL);
    other = ask(0);
    for (int i = 0; i < N + 2; i++) {
        many[i].answered = other->ask.answered;
        many[i].line = line_of(0);
        if (i < N)
            mu_coord_get(coord, &many[i], "k", 1);
    }
    mu_coord_get(coord, &other->ask, "k", 1);
    assert_says_so(other, MUSTER_RESOURCE_EXHAUSTED, "too many calls of this connection wait");
    assert_waits(do_get(1, "k"));
    for (int i = 0; i < N; i++)
        mu_coord_drop(coord, &many[i]);
    assert_waits(do_get(0, "k"));
    counter_close();
    free(many);
}

COORD_TEST(large_values_are_handed_to_all_who_wait)
{
    size_t len = 5u << 20;
    char *value = malloc(len);
    struct asked *a[3], *put;

    memset(value, 0xA5, len);
    counter_open(1, NULL);
    for (int i = 0; i < 3; i++)
        a[i] = do_get(0, "large");
    put = ask(0);
    mu_coord_insert(coord, &put->ask, "large", 5, value, len, false);
    assert_answer(put, MUSTER_OK);
    for (int i = 0; i < 3; i++) {
        assert_answer(a[i], MUSTER_OK);
        assert_int_equal(a[i]->len, len);
        assert_memory_equal(a[i]->value, value, len);
        assert_true(a[i]->ask.version > 0);
        assert_int_equal(a[i]->ask.version, a[0]->ask.version);
    }
    put = ask(0);
    mu_coord_insert(coord, &put->ask, "larger", 6, value, MUSTER_VALUE_MAX + 1ul, false);
    assert_says_so(put, MUSTER_INVALID_ARGUMENT, "67108864 is the most");
    counter_close();
    free(value);
}

COORD_TEST(bad_keys_are_refused_in_words)
{
    static char key[(1 << 20) + 2];
    struct asked *a;

    counter_open(1, NULL);
    memset(key, 'k', (1 << 20) + 1);
    assert_says_so(do_insert(0, key, "v", false), MUSTER_INVALID_ARGUMENT, "1048577 bytes long; 1048576 is the most");
    assert_says_so(do_get(0, key), MUSTER_INVALID_ARGUMENT, "1048576 is the most");
    assert_answer(do_insert(0, key + 1, "v", false), MUSTER_OK);
    assert_value(do_get(0, key + 1), "v");
    assert_answer(do_insert(0, "a/../b", "dots", false), MUSTER_OK);
    assert_value(do_get(0, "a/../b"), "dots");
    a = ask(0);
    mu_coord_get(coord, &a->ask, "a/../b\0more", 11);
    assert_value(a, "dots");
    counter_close();
}

COORD_TEST(a_key_is_erased_alone)
{
    struct asked *a;

    counter_open(1, NULL);
    assert_answer(do_insert(0, "k", "v", false), MUSTER_OK);
    assert_answer(do_insert(0, "k/below", "stays", false), MUSTER_OK);
    for (int64_t was = 1; was >= 0; was--) {
        a = ask(0);
        mu_coord_erase(coord, &a->ask, "/k/", 3);
        assert_answer(a, MUSTER_OK);
        assert_int_equal(a->ask.counter, was);
    }
    assert_answer(do_try_get(0, "k"), MUSTER_NOT_FOUND);
    assert_value(do_get(0, "k/below"), "stays");
    a = ask(0);
    mu_coord_erase(coord, &a->ask, "", 0);
    assert_answer(a, MUSTER_OK);
    assert_int_equal(a->ask.counter, 0);
    counter_close();
}

/* More than one piece: the loop goes on with it. */
COORD_TEST(a_large_directory_is_deleted_in_pieces)
{
    enum { N = 3000 };
    struct asked *gone;
    char key[32];

    counter_open(1, NULL);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "big/%d", i);
        do_insert(0, key, "v", false);
    }
    gone = do_delete(0, "big");
    assert_false(gone->answered);
    assert_answer(do_insert(0, "other", "v", false), MUSTER_OK);
    assert_answer(gone, MUSTER_OK);
    list_is("big", "");
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "big/%d", i);
        do_insert(0, key, "v", false);
    }
    gone = do_delete(0, "big");
    hang_up(0, "closed by its peer"); /* it goes on without it */
    counter_turn();
    assert_false(gone->answered);
    counter_close();
}

COORD_TEST(a_coord_that_has_stopped_refuses)
{
    struct asked *a;

    counter_open(1, NULL);
    mu_coord_stop(coord);
    a = do_insert(0, "k", "v", false);
    assert_says_so(a, MUSTER_INTERNAL, "Coordination service has been shut down.");
    assert_answer(do_get(0, "k"), MUSTER_INTERNAL);
    assert_answer(do_try_get(0, "k"), MUSTER_INTERNAL);
    assert_answer(do_increment(0, "k", 1), MUSTER_INTERNAL);
    assert_answer(do_compare(0, "k", 0, "v"), MUSTER_INTERNAL);
    assert_answer(do_append(0, "k", "v"), MUSTER_INTERNAL);
    assert_answer(do_list(0, "k"), MUSTER_INTERNAL);
    assert_answer(do_count(0, "k"), MUSTER_INTERNAL);
    assert_answer(do_delete(0, "k"), MUSTER_INTERNAL);
    counter_close();
}
