/*
 * tests/object/object_test.c: objects of one host: what is sealed, seen, held, and left by the dead.
 */
#include "acts.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

STAGE_TEST(what_one_puts_another_gets)
{
    struct muster_object_info info;
    muster_object object;
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    object = put(0, "twenty bytes or so");
    r = get(1, object);
    assert_status(r, MUSTER_OK);
    assert_int_equal(r.len, 18);
    assert_memory_equal(r.data, "twenty bytes or so", 18);
    assert_int_equal(muster_object_info(stage_observer, object, &info), MUSTER_OK);
    assert_int_equal(info.holders, 2);
    assert_int_equal(info.task, 0);
    assert_int_equal(info.len, 18);
    assert_true(info.sealed);
    assert_int_equal(do_with(0, act_drop, object), MUSTER_OK);
    assert_int_equal(holders(object), 1); /* the view holds it */
    assert_int_equal(do_with(1, act_unview, 0), MUSTER_OK);
    assert_int_equal(holders(object), 0);
    assert_status(get(1, object), MUSTER_NOT_FOUND);
    assert_status(get(1, object + 0x1234), MUSTER_NOT_FOUND);
    assert_status(get(1, 0), MUSTER_INVALID_ARGUMENT);
    assert_status(get(1, UINT64_MAX), MUSTER_INVALID_ARGUMENT);
    stage_close();
}

STAGE_TEST(a_get_waits_until_it_is_sealed)
{
    muster_object object;
    struct piece p = {.patience_ns = 1};
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    object = create(0, "sealed later");
    p.object = object;
    r = stage_do(1, act_get, &p, sizeof p);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_says(r.text, ", of task 0 (pid ");
    assert_int_equal(holders(object), 1);
    tell_get(1, object);
    until_waiting(1, object);
    assert_int_equal(do_with(0, act_seal, object), MUSTER_OK);
    r = stage_hear(1);
    assert_status(r, MUSTER_OK);
    assert_memory_equal(r.data, "sealed later", 12);
    assert_int_equal(do_with(0, act_seal, object), MUSTER_FAILED_PRECONDITION); /* again */
    assert_int_equal(do_with(1, act_unview, 0), MUSTER_OK);
    stage_close();
}

STAGE_TEST(an_error_is_what_its_producer_says)
{
    muster_object object;
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    object = create(0, "never read");
    assert_int_equal(do_with(1, act_retain, object), MUSTER_OK);
    assert_int_equal(do_with(1, act_seal, object), MUSTER_FAILED_PRECONDITION); /* another's */
    assert_int_equal(do_with(1, act_fail, object), MUSTER_FAILED_PRECONDITION);
    tell_get(1, object);
    until_waiting(1, object);
    assert_int_equal(do_with(0, act_fail, object), MUSTER_OK);
    r = stage_hear(1);
    assert_status(r, MUSTER_ABORTED);
    assert_says(r.text, "of task 0 (pid ");
    assert_says(r.text, ": the file has no such line");
    assert_status(get(1, object), MUSTER_ABORTED); /* and again */
    assert_int_equal(do_with(0, act_drop, object), MUSTER_OK);
    assert_int_equal(do_with(1, act_drop, object), MUSTER_OK);
    assert_int_equal(do_with(1, act_drop, object), MUSTER_NOT_FOUND);
    assert_int_equal(holders(object), 0);
    stage_close();
}

STAGE_TEST(who_writes_through_a_view_is_ended_and_nothing_is_torn)
{
    muster_object object;
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    object = put(0, "not to be written");
    assert_status(get(1, object), MUSTER_OK);
    tell_plain(1, act_scribble);
    assert_int_equal(WTERMSIG(stage_end(1)), SIGSEGV);
    until_holders(object, 1);
    r = get(0, object);
    assert_memory_equal(r.data, "not to be written", 17);
    assert_int_equal(do_with(0, act_unview, 0), MUSTER_OK);
    stage_close();
}

STAGE_TEST(the_dead_hold_nothing_and_their_unsealed_are_errors)
{
    muster_object sealed, open, both;
    struct reply r;

    stage_open(3, NULL);
    stage_enter_all();
    sealed = put(0, "only the dead one's");
    both = put(0, "the survivor's, too");
    open = create(0, "half written");
    assert_int_equal(do_with(1, act_retain, both), MUSTER_OK);
    assert_status(get(2, both), MUSTER_OK);
    assert_int_equal(holders(both), 3);
    tell_get(1, open);
    until_waiting(1, open);
    stage_kill(0);
    r = stage_hear(1);
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "will not come: task 0 (");
    until_holders(sealed, 0);
    until_holders(both, 2);
    until_holders(open, 0); /* the get that failed held it last */
    stage_kill(2);          /* with its view */
    until_holders(both, 1);
    r = get(1, both);
    assert_memory_equal(r.data, "the survivor's, too", 19);
    assert_int_equal(do_with(1, act_unview, 0), MUSTER_OK);
    stage_close();
}

STAGE_TEST(who_leaves_holds_nothing)
{
    muster_object open, sealed;
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    sealed = put(0, "kept by nobody");
    open = create(0, "not to be sealed");
    assert_int_equal(do_with(1, act_retain, open), MUSTER_OK);
    assert_status(stage_do(0, act_leave, NULL, 0), MUSTER_OK);
    assert_int_equal(holders(sealed), 0);
    assert_int_equal(holders(open), 1);
    r = get(1, open);
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "ended before it was sealed");
    stage_close();
}

static int act_get_both(void *arg, struct reply *reply)
{
    struct muster_object_view views[2];
    size_t at = 9;
    int status = muster_object_get(me, arg, 2, MUSTER_FOREVER, views, &at);

    reply->data[0] = (uint8_t)at;
    reply->len = 1;
    return status;
}

STAGE_TEST(a_get_of_several_ends_with_the_first_error)
{
    muster_object b[2];
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    b[0] = create(0, "never sealed");
    b[1] = create(0, "to be an error");
    stage_tell(1, act_get_both, b, sizeof b);
    stage_until_waiting(1, "2 objects");
    assert_int_equal(do_with(0, act_fail, b[1]), MUSTER_OK);
    r = stage_hear(1);
    assert_status(r, MUSTER_ABORTED);
    assert_int_equal(r.data[0], 1);
    assert_int_equal(holders(b[0]), 1);
    assert_int_equal(holders(b[1]), 1);
    stage_close();
}

/* Without the heartbeat thread: the waiter itself has to look for the dead. */
STAGE_TEST(more_than_can_be_slept_on_are_waited_for)
{
    muster_object many[200];
    unsigned char ready[200];
    size_t count = 0;
    struct muster *m;

    stage_open(2, NULL);
    assert_int_equal(stage_enter(0, MUSTER_JOIN_NO_HEARTBEAT), 0);
    m = test_join(stage_job, 1, 0);
    for (int i = 0; i < 200; i++)
        many[i] = create(0, "x");
    assert_int_equal(muster_object_retain(m, many, 200, NULL), MUSTER_OK);
    stage_signal(0, SIGKILL);
    assert_int_equal(muster_object_wait(m, many, 200, 200, muster_after_ms(60000), ready, &count), MUSTER_OK);
    assert_int_equal(count, 200);
    stage_end(0);
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

STAGE_TEST(some_of_many_are_waited_for)
{
    struct several s = {.count = 3, .want = 2};
    struct reply r;

    stage_open(2, NULL);
    stage_enter_all();
    s.objects[0] = create(0, "first");
    s.objects[1] = put(0, "second");
    s.objects[2] = create(0, "third");
    s.patience_ns = 1;
    r = stage_do(1, act_wait, &s, sizeof s);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_says(r.text, "2 of 3 objects: 0x");
    assert_memory_equal(r.data, "\0\1\0", 3);
    s.patience_ns = 0;
    stage_tell(1, act_wait, &s, sizeof s);
    stage_until_waiting(1, "2 of 3 objects");
    assert_int_equal(do_with(0, act_seal, s.objects[2]), MUSTER_OK);
    r = stage_hear(1);
    assert_status(r, MUSTER_OK);
    assert_memory_equal(r.data, "\0\1\1", 3);
    s.want = 3;
    stage_tell(1, act_wait, &s, sizeof s);
    stage_until_waiting(1, "3 of 3 objects");
    stage_kill(0); /* what it had not sealed is gone, and so ready */
    assert_status(stage_hear(1), MUSTER_OK);
    s.want = 4;
    assert_status(stage_do(1, act_wait, &s, sizeof s), MUSTER_INVALID_ARGUMENT);
    stage_close();
}

STAGE_TEST(a_wait_for_any_tells_the_first_that_is_ready)
{
    muster_object objects[4];
    unsigned char ready[4];
    struct muster *m;
    size_t count, at = 9;

    stage_open(2, NULL);
    assert_int_equal(stage_enter(0, 0), 0);
    m = test_join(stage_job, 1, TEST_WITH_HEARTBEAT);
    assert_non_null(m);
    objects[0] = create(0, "first");
    for (int i = 1; i < 4; i++)
        objects[i] = put(0, "ready");
    assert_int_equal(muster_object_wait(m, objects, 4, 2, 0, ready, &count), MUSTER_OK); /* all that are there */
    assert_int_equal(count, 3);
    assert_memory_equal(ready, "\0\1\1\1", 4);
    assert_int_equal(muster_object_wait_any(m, objects, 4, 0, &at), MUSTER_OK);
    assert_int_equal(at, 1);
    assert_int_equal(muster_object_wait_any(m, objects, 1, muster_after_ms(1), &at), MUSTER_DEADLINE_EXCEEDED);
    assert_non_null(strstr(muster_last_error(), "1 of 1 objects: 0x"));
    assert_int_equal(muster_object_wait_any(m, objects, 0, 0, &at), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(at, 1);
    assert_int_equal(do_with(0, act_seal, objects[0]), MUSTER_OK);
    assert_int_equal(muster_object_wait_any(m, objects, 4, muster_after_ms(60000), &at), MUSTER_OK);
    assert_int_equal(at, 0);
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

static void a_producer_in_error_ends_waits(uint32_t flags)
{
    struct several s = {.count = 1, .want = 1};
    struct reply r;

    stage_open(2, NULL);
    stage_enter(0, flags);
    stage_enter(1, flags);
    s.objects[0] = create(0, "never sealed");
    tell_get(1, s.objects[0]);
    until_waiting(1, s.objects[0]);
    assert_status(do_report(0, 0, MUSTER_INTERNAL, "out of ideas"), MUSTER_OK);
    r = stage_hear(1);
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "task 0 (pid ");
    assert_says(r.text, "out of ideas");
    assert_status(stage_do(1, act_wait, &s, sizeof s), MUSTER_OK); /* ready: the get says so */
    stage_close();
}

STAGE_TEST(a_get_ends_with_an_error_of_its_producer)
{
    a_producer_in_error_ends_waits(0);
}

STAGE_TEST(a_get_ends_with_an_error_of_a_recoverable_producer)
{
    a_producer_in_error_ends_waits(MUSTER_JOIN_RECOVERABLE);
}

STAGE_TEST(gets_and_waits_end_with_an_error_of_another_task)
{
    struct several s = {.count = 1, .want = 1};
    struct reply r;

    stage_open(4, NULL);
    stage_enter_all();
    s.objects[0] = create(0, "never sealed");
    tell_get(1, s.objects[0]);
    stage_tell(2, act_wait, &s, sizeof s);
    until_waiting(1, s.objects[0]);
    stage_until_waiting(2, "1 of 1 objects");
    assert_status(do_report(3, 3, MUSTER_INTERNAL, "out of ideas"), MUSTER_OK);
    for (int i = 1; i < 3; i++) {
        r = stage_hear(i);
        assert_status(r, MUSTER_UNAVAILABLE);
        assert_says(r.text, "task 3 (pid ");
    }
    stage_close();
}

/* ---- alone ---- */

static struct muster *alone(const struct muster_segment_config *config)
{
    struct muster *m;

    stage_open(1, config);
    m = test_join(stage_job, 0, 0);
    assert_non_null(m);
    return m;
}

STAGE_TEST(sizes_and_metadata_come_back)
{
    static const size_t sizes[] = {0, 1, 7, 8, 9, 20, 63, 64, 65, 511, 4096, 40000, 65472};
    static unsigned char bytes[65472];
    struct muster *m = alone(NULL);

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t meta = 0; meta < 1000 && sizes[i] + meta + 8 <= 65472; meta = meta * 3 + 1) {
            struct muster_object_view v;
            muster_object object;

            assert_int_equal(muster_object_put(m, bytes, sizes[i], bytes + 1, meta, 0, &object), MUSTER_OK);
            assert_int_equal(muster_object_get(m, &object, 1, 0, &v, NULL), MUSTER_OK);
            assert_int_equal(v.len, sizes[i]);
            assert_int_equal(v.meta_len, meta);
            assert_int_equal((uintptr_t)v.data % ((v.len + 7) / 8 * 8 + meta <= 48 ? 16 : 64), 0);
            assert_memory_equal(v.data ? v.data : "", bytes, v.len);
            assert_memory_equal(v.meta ? v.meta : "", bytes + 1, meta);
            assert_int_equal(muster_object_drop(m, &object, 1), MUSTER_OK);
            assert_memory_equal(v.data ? v.data : "", bytes, v.len); /* the view holds it */
            muster_object_unview(m, &v, 1);
            assert_int_equal(muster_object_get(m, &object, 1, 0, &v, NULL), MUSTER_NOT_FOUND);
        }
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

STAGE_TEST(many_are_held_and_all_come_back)
{
    enum { MANY = 20000 };
    muster_object *objects = calloc(MANY, sizeof *objects);
    struct muster *m = alone(NULL);
    size_t at = 0;

    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < MANY; i++)
            assert_int_equal(muster_object_put(m, &i, sizeof i, NULL, 0, 0, &objects[i]), MUSTER_OK);
        assert_int_equal(muster_object_retain(m, objects, MANY, &at), MUSTER_OK);
        for (uint32_t i = 0; i < MANY; i += 7) {
            struct muster_object_view v;

            assert_int_equal(muster_object_get(m, &objects[i], 1, 0, &v, NULL), MUSTER_OK);
            assert_int_equal(*(const uint32_t *)v.data, i);
            muster_object_unview(m, &v, 1);
        }
        assert_int_equal(muster_object_drop(m, objects, MANY), MUSTER_OK);
        assert_int_equal(stage_audit().problems, 0);
        assert_int_equal(muster_object_drop(m, objects, MANY), MUSTER_OK);
        assert_int_equal(muster_object_drop(m, objects, MANY), MUSTER_NOT_FOUND);
    }
    free(objects);
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_full_segment_says_so_and_loses_nothing)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20};
    static char bytes[4000];
    static muster_object objects[4096];
    struct muster *m = alone(&config);
    struct muster_object_view v;
    enum muster_status status = MUSTER_OK;
    size_t count = 0, before;

    for (int round = 0; round < 3; round++) {
        for (count = 0; !status && count < 4096; count++) {
            memset(bytes, (int)count, sizeof bytes);
            status = muster_object_put(m, bytes, sizeof bytes, NULL, 0, 0, &objects[count]);
        }
        assert_int_equal(status, MUSTER_RESOURCE_EXHAUSTED);
        before = --count;
        assert_true(before > 100);
        assert_int_equal(objects[count], 0);
        for (size_t i = 0; i < before; i += 10) {
            assert_int_equal(muster_object_get(m, &objects[i], 1, 0, &v, NULL), MUSTER_OK);
            assert_int_equal(*(const unsigned char *)v.data, i & 255);
            muster_object_unview(m, &v, 1);
        }
        assert_int_equal(muster_object_drop(m, objects, before), MUSTER_OK);
        status = MUSTER_OK;
    }
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

STAGE_TEST(an_observer_looks_and_holds_nothing)
{
    struct muster *m = alone(NULL);
    muster_object object, none;

    assert_int_equal(muster_object_put(m, "x", 1, NULL, 0, 0, &object), MUSTER_OK);
    assert_int_equal(holders(object), 1);
    assert_int_equal(muster_object_put(stage_observer, "x", 1, NULL, 0, 0, &none), MUSTER_FAILED_PRECONDITION);
    assert_non_null(strstr(muster_last_error(), "join as a task"));
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_full_segment_lets_a_producer_end_its_writing)
{
    struct muster_segment_config config = {.heap_bytes = 1 << 20};
    static char bytes[4000];
    struct muster *m = alone(&config);
    muster_object first, object, gone = 0;
    struct muster_object_room room_of_first;
    unsigned char ready;
    size_t count;

    assert_int_equal(muster_object_create(m, 100, 0, 0, &first, &room_of_first), MUSTER_OK);
    for (size_t size = sizeof bytes; size; size /= 2)
        while (!muster_object_put(m, bytes, size, NULL, 0, 0, &object))
            gone = object;
    assert_says(muster_last_error(), "is full");
    assert_int_equal(muster_object_seal(m, first), MUSTER_OK);
    assert_int_equal(muster_object_drop(m, &gone, 1), MUSTER_OK);
    assert_int_equal(muster_object_drop(m, &gone, 1), MUSTER_NOT_FOUND);
    assert_int_equal(muster_object_wait(m, &gone, 1, 1, 0, &ready, &count), MUSTER_OK);
    assert_says(muster_last_error(), "has no reference"); /* a call that succeeds leaves it as it was */
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}

STAGE_TEST(a_small_object_takes_256_bytes_besides_its_own)
{
    enum { MANY = 20000 };
    struct muster *m = alone(NULL);
    struct muster_segment_info before, after;
    static muster_object all[MANY];

    assert_int_equal(muster_segment_info(muster_segment_of(m), &before), MUSTER_OK);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(muster_object_put(m, "8 bytes ", 8, NULL, 0, 0, &all[i]), MUSTER_OK);
    assert_int_equal(muster_segment_info(muster_segment_of(m), &after), MUSTER_OK);
    assert_true(after.committed_bytes - before.committed_bytes <= (256 + 8) * (uint64_t)MANY);
    assert_int_equal(muster_object_drop(m, all, MANY), MUSTER_OK);
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}
