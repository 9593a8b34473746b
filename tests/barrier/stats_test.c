/*
 * tests/barrier/stats_test.c: what is counted, by whom, and that it stays: after waits, barriers, writes and deaths.
 * Durations are compared with each other and with what this process has seen pass, never with what should be quick.
 */
#include "crew.h"

#include <signal.h>
#include <string.h>

static struct muster_stats stats_of(int32_t task)
{
    struct muster_stats s;

    assert_int_equal(muster_stats_get(stage_observer, task, &s), MUSTER_OK);
    return s;
}

/* The buckets add up, and hold what the time in all allows. */
static void check_buckets(const struct muster_stats *s)
{
    uint64_t n = 0, least = 0;

    for (unsigned i = 0; i < MUSTER_STATS_BUCKETS; i++) {
        n += s->barrier_wait_buckets[i];
        least += i ? s->barrier_wait_buckets[i] * MUSTER_STATS_BOUND_NS(i - 1) : 0;
    }
    assert_int_equal(n, s->barrier_waits);
    assert_true(s->barrier_wait_ns >= least);
}

STAGE_TEST(writes_and_slept_reads_are_counted_by_task)
{
    uint64_t before;
    struct muster_stats s;

    stage_open(2, NULL);
    stage_enter_all();
    for (int i = 0; i < 3; i++)
        assert_status(do_text(0, act_kv_set, "a"), MUSTER_OK);
    assert_status(do_text(1, act_kv_get, "a"), MUSTER_OK); /* it is there: no sleep */
    s = stats_of(0);
    assert_int_equal(s.kv_writes, 3);
    assert_int_equal(s.kv_waits, 0);
    assert_true(s.slots >= 1);
    assert_int_equal(stats_of(1).kv_waits, 0);
    before = muster_now_ns();
    tell_text(1, act_kv_get, "b");
    stage_until_waiting(1, "key b");
    assert_status(do_text(0, act_kv_set, "b"), MUSTER_OK);
    assert_status(stage_hear(1), MUSTER_OK);
    s = stats_of(1);
    assert_int_equal(s.kv_waits, 1);
    assert_true(s.kv_wait_ns > 0 && s.kv_wait_ns < muster_now_ns() - before);
    assert_int_equal(s.kv_writes, 0);
    assert_int_equal(s.barrier_waits + s.other_waits, 0);
    assert_int_equal(stats_of(-1).kv_writes, 4);
    stage_close();
}

STAGE_TEST(a_wait_for_neither_key_nor_barrier_is_another_one)
{
    stage_open(2, NULL);
    stage_enter_all();
    tell_plain(0, act_error_wait);
    stage_until_waiting(0, "an error of any task");
    assert_status(do_report(1, 1, MUSTER_INTERNAL, "on purpose"), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    assert_int_equal(stats_of(0).other_waits, 1);
    assert_int_equal(stats_of(0).kv_waits + stats_of(0).barrier_waits, 0);
    assert_int_equal(stats_of(-1).deaths, 0); /* an error is no death */
    stage_close();
}

STAGE_TEST(named_barriers_count_for_all_and_sleep_counts_for_who_slept)
{
    struct muster_stats s;
    uint64_t before, now;

    stage_open(2, NULL);
    stage_enter_all();
    before = muster_now_ns();
    for (int i = 0; i < 4; i++) {
        tell_barrier(0, "b", MUSTER_BARRIER_NEXT);
        stage_until_waiting(0, "barrier b");
        assert_status(do_barrier(1, "b", MUSTER_BARRIER_NEXT), MUSTER_OK);
        assert_status(stage_hear(0), MUSTER_OK);
    }
    now = muster_now_ns();
    s = stats_of(0);
    assert_int_equal(s.named_barriers, 4);
    assert_int_equal(s.barrier_waits, 4);
    assert_true(s.barrier_wait_ns > 0 && s.barrier_wait_ns < now - before);
    check_buckets(&s);
    s = stats_of(1);
    assert_int_equal(s.named_barriers, 4);
    assert_int_equal(s.barrier_waits, 0);
    assert_int_equal(s.group_barriers, 0);
    tell_barrier(0, "bad", 0); /* one that fails is not passed, but waited for */
    stage_until_waiting(0, "barrier bad");
    assert_int_equal(muster_barrier_cancel(stage_observer, "bad", 0), MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_CANCELLED);
    assert_int_equal(stats_of(0).named_barriers, 4);
    assert_int_equal(stats_of(0).barrier_waits, 5);
    stage_close();
}

STAGE_TEST(group_barriers_count_to_the_last_one_spinning_or_asleep)
{
    struct run_act r = {.first = 1, .rounds = 5000, .kind = RUN_ANY, .max_len = 64, .seed = 7};
    struct muster_stats s;

    crew_open(3, NULL);
    stage_enter_all();
    crew_create("g", 3, 64);
    for (int i = 0; i < 3; i++)
        stage_tell(i, act_run, &r, sizeof r);
    for (int i = 0; i < 3; i++)
        assert_status(stage_hear(i), MUSTER_OK);
    for (int i = 0; i < 3; i++) {
        s = stats_of(i);
        assert_int_equal(s.group_barriers, 5000);
        assert_int_equal(s.named_barriers, 0);
        check_buckets(&s);
    }
    s = stats_of(-1);
    assert_int_equal(s.group_barriers, 15000);
    check_buckets(&s);
    crew_close();
}

STAGE_TEST(a_dead_task_s_counts_stay_and_its_successor_goes_on_from_them)
{
    struct muster_stats s;
    int successor;

    stage_open(2, NULL);
    stage_enter(0, 0);
    stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    for (int i = 0; i < 5; i++)
        assert_status(do_text(1, act_kv_set, "a"), MUSTER_OK);
    stage_kill(1);
    assert_int_equal(stats_of(1).kv_writes, 5); /* dead, not buried */
    stage_until_state(1, MUSTER_TASK_ERROR);
    assert_int_equal(stats_of(1).kv_writes, 5);
    successor = stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    assert_int_equal(stats_of(1).kv_writes, 5);
    assert_status(do_text(successor, act_kv_set, "a"), MUSTER_OK);
    assert_int_equal(stats_of(1).kv_writes, 6);
    s = stats_of(-1);
    assert_int_equal(s.deaths, 1); /* who recorded it lives, so it has been counted */
    assert_true(s.burials >= 1);
    stage_close();
}

static void writes(const char *job, int32_t task)
{
    struct muster *m;
    struct muster_options o;

    muster_options_init(&o);
    o.job = job;
    o.task_id = task;
    o.flags = MUSTER_JOIN_NO_HEARTBEAT;
    assert_int_equal(muster_join(&o, &m), MUSTER_OK);
    assert_int_equal(muster_kv_set(m, "k", 1, "v", 1, NULL), MUSTER_OK);
    assert_int_equal(muster_leave(m), MUSTER_OK);
}

STAGE_TEST(a_slot_of_another_task_is_taken_over_last_and_counts_anew)
{
    struct muster_segment_config config = {.num_slots = 4};

    stage_open(4, &config); /* one slot is the observer's */
    for (int round = 0; round < 3; round++)
        for (int32_t task = 0; task < 3; task++) {
            writes(stage_job, task);
            assert_int_equal(stats_of(task).kv_writes, round + 1);
        }
    assert_int_equal(stats_of(-1).kv_writes, 9);
    writes(stage_job, 3); /* there is no slot left that nobody had */
    assert_int_equal(stats_of(3).kv_writes, 1);
    assert_int_equal(stats_of(-1).kv_writes, 7);
    stage_close();
}

STAGE_TEST(a_read_only_handle_reads_them_and_no_other_task_exists)
{
    struct muster_options o;
    struct muster *m;
    struct muster_stats s = {.slots = 77};

    stage_open(1, NULL);
    stage_enter_all();
    assert_status(do_text(0, act_kv_set, "a"), MUSTER_OK);
    muster_options_init(&o);
    o.job = stage_job;
    o.flags = MUSTER_JOIN_READ_ONLY;
    assert_int_equal(muster_join(&o, &m), MUSTER_OK);
    assert_int_equal(muster_stats_get(m, 1, &s), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(muster_stats_get(m, -2, &s), MUSTER_INVALID_ARGUMENT);
    assert_int_equal(s.slots, 77); /* left alone */
    assert_int_equal(muster_stats_get(NULL, 0, &s), MUSTER_INVALID_ARGUMENT);
    stage_signal(0, SIGSTOP);
    assert_int_equal(muster_stats_get(m, 0, &s), MUSTER_OK);
    assert_int_equal(s.kv_writes, 1);
    stage_signal(0, SIGCONT);
    assert_int_equal(muster_leave(m), MUSTER_OK);
    stage_close();
}
