/*
 * tests/coord/bell_threads_test.c: the engine in its loop, its listener's thread, and tasks of the C library as threads
 * of the same process, for ThreadSanitizer: what one does while the other looks.
 */
#include "counter.h"
#include "share.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 200 };

struct task {
    pthread_t thread;
    enum muster_status (*work)(struct muster *m);
    enum muster_status status;
    atomic_bool ended;
};

static void *run(void *arg)
{
    struct task *t = arg;
    struct muster *m = share_join(0, MUSTER_JOIN_NO_HEARTBEAT);

    t->status = m ? t->work(m) : MUSTER_UNKNOWN;
    if (m && muster_leave(m))
        t->status = MUSTER_UNKNOWN;
    atomic_store(&t->ended, true);
    return NULL;
}

static void begin(struct task *t, enum muster_status (*work)(struct muster *m))
{
    atomic_store(&t->ended, false);
    t->work = work;
    assert_int_equal(pthread_create(&t->thread, NULL, run, t), 0);
}

static void end(struct task *t)
{
    counter_await(atomic_load(&t->ended), "the thread ends");
    pthread_join(t->thread, NULL);
    assert_int_equal(t->status, MUSTER_OK);
}

static enum muster_status call_and_listen(struct muster *m)
{
    enum muster_status status = MUSTER_OK;

    for (int i = 0; i < ROUNDS && !status; i++) {
        char call[32], answer[32], value[32];

        snprintf(call, sizeof call, "call/%d", i);
        snprintf(answer, sizeof answer, "answer/%d", i);
        status = muster_kv_set(m, call, MUSTER_NTS, call, MUSTER_NTS, NULL);
        if (!status)
            status = muster_kv_get(m, answer, MUSTER_NTS, MUSTER_FOREVER, value, sizeof value, NULL, NULL);
    }
    return status;
}

COORD_TEST(keys_go_to_and_fro)
{
    struct task t;

    counter_open(2, NULL);
    begin(&t, call_and_listen);
    for (int i = 0; i < ROUNDS; i++) {
        char call[32], answer[32];

        snprintf(call, sizeof call, "call/%d", i);
        snprintf(answer, sizeof answer, "answer/%d", i);
        assert_value(do_get(1, call), call);
        assert_answer(do_insert(1, answer, "yes", false), MUSTER_OK);
    }
    end(&t);
    counter_close();
}

static enum muster_status meet_often(struct muster *m)
{
    enum muster_status status = MUSTER_OK;

    for (uint64_t i = 0; i < ROUNDS && !status; i++)
        status = muster_barrier_wait(m, "b", i, NULL, 0, 0, MUSTER_FOREVER);
    return status;
}

COORD_TEST(barriers_are_met_from_both_sides)
{
    struct task t;

    counter_open(2, NULL);
    begin(&t, meet_often);
    for (int64_t i = 0; i < ROUNDS; i++)
        assert_answer(do_meet(1, "b", i), MUSTER_OK);
    end(&t);
    counter_close();
}

static enum muster_status come_and_fail(struct muster *m)
{
    enum muster_status status = muster_kv_get(m, "go", MUSTER_NTS, MUSTER_FOREVER, NULL, 0, NULL, NULL);

    if (status != MUSTER_OUT_OF_RANGE) /* it is there, and longer than nothing */
        return MUSTER_UNKNOWN;
    return muster_error_report(m, 0, MUSTER_DATA_LOSS, "bits fell off");
}

COORD_TEST(an_error_of_a_thread_reaches_who_polls_and_watches)
{
    struct asked *poll, *watch;
    struct task t;

    counter_open(2, NULL);
    register_guests(1, 1);
    poll = do_poll(1);
    begin(&t, come_and_fail);
    watch = do_watch(1, -1);
    assert_answer(do_insert(1, "go", "go", false), MUSTER_OK);
    assert_says_so(poll, MUSTER_DATA_LOSS, "bits fell off");
    assert_answer(do_watch(1, watch->ask.version), MUSTER_OK);
    end(&t);
    counter_close();
}
