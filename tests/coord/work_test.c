/*
 * tests/coord/work_test.c: listings and deletes that take many turns of the loop, beside others who are served.
 *
 * Nothing is timed: what is counted is turns, and in each of them others ask and are answered.
 */
#include "counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 40000, TURNS_MAX = 100000 };

static void fill(const char *directory, int count)
{
    char key[64];

    for (int i = 0; i < count; i++) {
        struct asked *a;

        snprintf(key, sizeof key, "%s/%d", directory, (int)(i * 7919L % count));
        a = do_insert(0, key, "v", false);
        assert_true(a->answered);
        assert_int_equal(a->ask.status, MUSTER_OK);
    }
}

static int lines_of(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Who writes, reads and asks for a smaller thing meanwhile has it. */
COORD_TEST(a_large_listing_lets_others_have_their_turns)
{
    struct asked *list, *small = NULL, *gone = NULL;
    int turns = 0, small_turns = 0, gone_turns = 0;
    char last[64] = "", *rest;

    counter_open(2, NULL);
    fill("big", MANY);
    assert_answer(do_insert(1, "small/one", "1", false), MUSTER_OK);
    list = do_list(0, "big");
    assert_false(list->answered);
    for (; !list->answered && turns < TURNS_MAX; turns++) {
        char text[24];
        struct asked *a;

        snprintf(text, sizeof text, "%d", turns);
        a = do_insert(1, "beside", text, true);
        assert_true(a->answered);
        assert_value(do_try_get(1, "beside"), text);
        if (turns == 3) {
            small = do_list(1, "small");
            gone = do_delete(1, "small");
        }
        counter_turn();
        small_turns += small && !small->answered;
        gone_turns += gone && !gone->answered;
    }
    print_message("%d turns; a small one took %d, a small delete %d\n", turns, small_turns, gone_turns);
    assert_true(turns >= 40 && turns < TURNS_MAX);
    assert_true(small_turns < turns / 2 && gone_turns < turns / 2);
    assert_answer(small, MUSTER_OK);
    assert_answer(gone, MUSTER_OK);
    assert_answer(list, MUSTER_OK);
    assert_int_equal(lines_of(list->keys), MANY);
    for (char *key = strtok_r(list->keys, "\n", &rest); key; key = strtok_r(NULL, "\n", &rest)) {
        assert_true(strcmp(last, key) < 0);
        snprintf(last, sizeof last, "%s", key);
    }
    counter_close();
}

/* What a listing says of the keys that move while it is made. */
static struct {
    bool answered;
    int status, x, y, at, num_at;
    size_t count;
} seen;

enum { PAIRS = 8 }; /* big/x-0 to big/y-7: all of them have one value */

static void look(struct mu_coord_request *q)
{
    memset(&seen, 0, sizeof seen);
    seen.answered = true;
    seen.status = (int)q->status;
    seen.count = q->num_entries;
    for (size_t i = 0; i < q->num_entries; i++) {
        const struct muster_kv_entry *e = &q->entries[i];

        if (strncmp(e->key, "big/x-", 6) == 0)
            seen.x = (int)strtol(e->value, NULL, 10);
        else if (strncmp(e->key, "big/y-", 6) == 0)
            seen.y = (int)strtol(e->value, NULL, 10);
        else if (sscanf(e->key, "big/at-%d", &seen.at) == 1)
            seen.num_at++;
        if (seen.x && seen.y && seen.x != seen.y)
            fail_msg("%s is %d beside %d", e->key, seen.y, seen.x);
    }
}

static void set_all(const char *text)
{
    for (int n = 0; n < PAIRS; n++) {
        char key[32];

        snprintf(key, sizeof key, "big/x-%d", n);
        assert_answer(do_insert(1, key, text, true), MUSTER_OK);
        key[4] = 'y';
        assert_answer(do_insert(1, key, text, true), MUSTER_OK);
    }
}

/* Between two turns all have the same value, and there is one key of that name. */
static void move(int i)
{
    char text[24], here[32], before[32];

    snprintf(text, sizeof text, "%d", i);
    snprintf(here, sizeof here, "big/at-%d", i);
    snprintf(before, sizeof before, "big/at-%d", i - 1);
    set_all(text);
    assert_answer(do_insert(1, here, text, true), MUSTER_OK);
    if (i > 1) {
        struct asked *a = ask(1);

        mu_coord_delete(coord, &a->ask, before, strlen(before));
        for (int n = 0; !a->answered && n < TURNS_MAX; n++)
            counter_turn();
        assert_answer(a, MUSTER_OK);
    }
}

COORD_TEST(a_listing_is_of_one_moment)
{
    counter_open(2, NULL);
    fill("big", MANY);
    move(1);
    for (int round = 0; round < 2; round++) {
        struct asked *list = ask(0);
        int i = 1;

        memset(&seen, 0, sizeof seen);
        list->ask.answered = look;
        move(i);
        mu_coord_get_dir(coord, &list->ask, "big", 3);
        assert_false(seen.answered);
        for (; !seen.answered && i < TURNS_MAX; i++) {
            char text[24];

            snprintf(text, sizeof text, "%d", i);
            set_all(text);
            counter_turn();
        }
        assert_int_equal(seen.status, MUSTER_OK);
        assert_true(seen.x > 0 && seen.x <= i && seen.x == seen.y);
        assert_int_equal(seen.count, MANY + 2 * PAIRS + seen.num_at);
    }
    counter_close();
}

/* Keys come and go, in the directory and beside it. */
COORD_TEST(a_listing_sees_a_key_that_moves_once)
{
    struct asked *list;
    int i = 1;

    counter_open(2, NULL);
    fill("big", MANY / 4);
    move(1);
    memset(&seen, 0, sizeof seen);
    list = ask(0);
    list->ask.answered = look;
    mu_coord_get_dir(coord, &list->ask, "big", 3);
    for (; !seen.answered && i < 1000; counter_turn())
        move(++i);
    assert_true(seen.answered);
    assert_int_equal(seen.status, MUSTER_OK);
    assert_int_equal(seen.num_at, 1);
    assert_int_equal(seen.x, seen.y);
    assert_int_equal(seen.x, seen.at);
    assert_int_equal(seen.count, MANY / 4 + 2 * PAIRS + 1);
    counter_close();
}

static int left_of(const char *directory)
{
    struct asked *a = do_list(1, directory);

    assert_answer(a, MUSTER_OK);
    return lines_of(a->keys);
}

/* Others see a directory that is there or one that is not, whatever becomes of who deletes it. */
COORD_TEST(a_delete_goes_on_when_its_client_is_gone)
{
    struct asked *gone;
    int left = MANY;

    counter_open(2, NULL);
    fill("big", MANY / 4);
    gone = do_delete(0, "big");
    assert_false(gone->answered);
    hang_up(0, "closed by its peer");
    for (int i = 0; left > 0 && i < TURNS_MAX; i++, counter_turn())
        left = left_of("big");
    assert_int_equal(left, 0);
    assert_false(gone->answered);
    counter_close();
}

static void ignore(struct mu_coord_request *q)
{
    (void)q;
}

/* As many of the line's asks wait as may. */
static void fill_line(int guest)
{
    static struct mu_coord_request gets[32768];

    for (size_t i = 0; i < sizeof gets / sizeof *gets; i++) {
        gets[i] = (struct mu_coord_request){.answered = ignore, .line = line_of(guest)};
        mu_coord_get(coord, &gets[i], "nothing", strlen("nothing"));
    }
}

COORD_TEST(a_delete_goes_on_when_its_client_may_not_wait)
{
    struct asked *a;
    int turns = 0;

    counter_open(2, NULL);
    fill("big", MANY);
    fill_line(0);
    a = do_delete(0, "big");
    assert_true(a->answered);
    assert_says_so(a, MUSTER_RESOURCE_EXHAUSTED, "too many calls of this connection wait");
    assert_non_null(strstr(a->text, "; this delete has begun, and goes on"));
    do {
        counter_turn();
        a = do_list(1, "big");
        until_answered(a);
    } while (a->ask.num_entries > 0 && turns++ < TURNS_MAX);
    assert_int_equal(a->ask.num_entries, 0);
    /* one that has not begun is as if it had never come */
    assert_answer(do_insert(1, "small/one", "1", false), MUSTER_OK);
    fill("big", MANY);
    for (int i = 0; i < 4; i++)
        do_list(1, "big");
    a = do_delete(0, "small");
    assert_says_so(a, MUSTER_RESOURCE_EXHAUSTED, "too many calls");
    assert_null(strstr(a->text, "begun"));
    assert_value(do_try_get(1, "small/one"), "1");
    counter_close();
}

COORD_TEST(a_delete_that_has_not_begun_is_forgotten_with_its_client)
{
    enum { BEFORE = 4 };
    struct asked *gone[BEFORE + 1];
    char name[16];

    counter_open(3, NULL);
    for (int i = 0; i <= BEFORE; i++) {
        snprintf(name, sizeof name, "dir%d", i);
        fill(name, 2000);
    }
    for (int i = 0; i <= BEFORE; i++) {
        snprintf(name, sizeof name, "dir%d", i);
        gone[i] = do_delete(i < BEFORE ? 0 : 2, name);
        assert_false(gone[i]->answered);
    }
    hang_up(2, "closed by its peer");
    for (int i = 0; i < BEFORE; i++) {
        assert_answer(gone[i], MUSTER_OK);
        snprintf(name, sizeof name, "dir%d", i);
        assert_int_equal(left_of(name), 0);
    }
    assert_int_equal(left_of("dir4"), 2000);
    assert_false(gone[BEFORE]->answered);
    counter_close();
}

COORD_TEST(work_ends_with_the_coord)
{
    struct asked *list, *gone, *lost;

    counter_open(3, NULL);
    fill("big", MANY / 4);
    fill("other", MANY / 8);
    list = do_list(0, "big");
    gone = do_delete(1, "big");
    lost = do_delete(2, "other");
    hang_up(2, "closed by its peer");
    counter_turn();
    mu_coord_stop(coord);
    assert_says_so(list, MUSTER_CANCELLED, "KeyValueStore destructed");
    assert_says_so(gone, MUSTER_CANCELLED, "KeyValueStore destructed");
    assert_false(lost->answered);
    counter_close();
}
