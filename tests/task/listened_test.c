/*
 * tests/task/listened_test.c: in a job whose segment was made for somebody who listens, everything that a call may wait
 * for rings the bell; in any other job nothing looks at it. The director arms it and does not sleep: what it says after
 * each act is what the act did.
 */
#include "stage.h"

#include <string.h>

#include "segment/hosts.h"
#include "task/task.h"

static struct muster_segment *seg;

static void open_job(uint32_t tasks, int listened)
{
    struct muster_segment_config c = {.num_buckets = 1024,
                                      .num_events = 64,
                                      .heap_bytes = 64u << 20,
                                      .heartbeat_timeout_ns = 3600000000000u,
                                      .listened = listened};

    stage_open(tasks, &c);
    seg = muster_segment_of(stage_observer);
    assert_int_equal(seg->listened, listened);
}

enum change { SET, SET_AGAIN, INSERT, INCREMENT, APPEND, COMPARE, LARGE, DELETE, EVENT, CHANGES };

static int act_change(void *arg, struct reply *reply)
{
    static char large[200000];
    uint64_t version = 0;

    (void)reply;
    switch (*(enum change *)arg) {
    case SET: return muster_kv_set(me, "d/k", MUSTER_NTS, "1", 1, NULL);
    case SET_AGAIN:
        /* the second by the short way of an overwrite */
        return muster_kv_set(me, "d/k", MUSTER_NTS, "2", 1, NULL) ?: muster_kv_set(me, "d/k", MUSTER_NTS, "3", 1, NULL);
    case INSERT: return muster_kv_insert(me, "d/i", MUSTER_NTS, "1", 1);
    case INCREMENT: return muster_kv_increment(me, "d/n", MUSTER_NTS, 1, NULL);
    case APPEND: return muster_kv_append(me, "d/k", MUSTER_NTS, "4", 1, NULL);
    case COMPARE:
        muster_kv_try_get(me, "d/k", MUSTER_NTS, large, 10, NULL, &version);
        return muster_kv_compare_and_set(me, "d/k", MUSTER_NTS, version, "5", 1, NULL);
    case LARGE: return muster_kv_set(me, "d/l", MUSTER_NTS, large, sizeof large, NULL);
    case DELETE: return muster_kv_delete(me, "d", MUSTER_NTS, NULL);
    case EVENT: return muster_event_send(me, 1, "e", 1, NULL);
    default: return MUSTER_UNIMPLEMENTED;
    }
}

/* Since it was armed. */
static bool has_rung(void)
{
    uint32_t bell = mu_load32_acquire(&seg->header->bell);

    assert_true(bell == MU_BELL_RUNG || bell == MU_BELL_ARMED);
    return bell == MU_BELL_RUNG;
}

STAGE_TEST(each_change_of_keys_and_each_event_rings)
{
    open_job(1, 1);
    stage_enter(0, 0);
    for (enum change c = SET; c < CHANGES; c++) {
        mu_bell_arm(seg);
        assert_false(has_rung());
        assert_status(stage_do(0, act_change, &c, sizeof c), MUSTER_OK);
        if (!has_rung())
            fail_msg("change %d has not rung", (int)c);
        assert_true(mu_bell_wait(seg, MUSTER_FOREVER)); /* asleep for no instant */
    }
    mu_bell_arm(seg);
    assert_false(mu_bell_disarm(seg));
    stage_close();
}

STAGE_TEST(a_change_rings_nobody_who_has_not_asked)
{
    enum change c = SET;

    open_job(1, 1);
    stage_enter(0, 0);
    assert_status(stage_do(0, act_change, &c, sizeof c), MUSTER_OK);
    assert_int_equal(mu_load32_acquire(&seg->header->bell), MU_BELL_OFF);
    stage_close();
}

STAGE_TEST(without_a_listener_nobody_looks_at_the_bell)
{
    open_job(1, 0);
    stage_enter(0, 0);
    mu_bell_arm(seg); /* it is nobody's */
    for (enum change c = SET; c < CHANGES; c++)
        assert_status(stage_do(0, act_change, &c, sizeof c), MUSTER_OK);
    assert_status(do_barrier(0, "b", 0), MUSTER_OK);
    assert_status(do_report(0, 0, MUSTER_INTERNAL, "wrong"), MUSTER_OK);
    assert_false(has_rung());
    stage_close();
}

STAGE_TEST(the_end_of_a_barrier_rings_and_an_arrival_does_not)
{
    struct barrier_act late = {.id = "late", .timeout_ns = 1};
    struct cancel_act cancel = {.id = "c"};

    open_job(2, 1);
    stage_enter_all();
    mu_bell_arm(seg);
    tell_barrier(0, "b", 0);
    stage_until_waiting(0, "barrier b");
    assert_false(has_rung());
    assert_status(do_barrier(1, "b", 0), MUSTER_OK);
    assert_true(has_rung());
    assert_status(stage_hear(0), MUSTER_OK);
    mu_bell_arm(seg);
    assert_status(stage_do(0, act_barrier, &late, sizeof late), MUSTER_DEADLINE_EXCEEDED);
    assert_true(has_rung());
    tell_barrier(0, "c", 0);
    stage_until_waiting(0, "barrier c");
    mu_bell_arm(seg);
    assert_status(stage_do(1, act_cancel, &cancel, sizeof cancel), MUSTER_OK);
    assert_true(has_rung());
    assert_status(stage_hear(0), MUSTER_CANCELLED);
    stage_close();
}

STAGE_TEST(each_change_of_a_task_rings)
{
    struct alive_act alive = {.tasks = {0}, .count = 1};
    int32_t task = 0;

    open_job(2, 1);
    mu_bell_arm(seg);
    stage_enter_all();
    assert_true(has_rung());
    mu_bell_arm(seg);
    assert_status(stage_do(0, act_alive, &alive, sizeof alive), MUSTER_OK);
    assert_true(has_rung());
    mu_bell_arm(seg);
    assert_status(do_report(0, 0, MUSTER_INTERNAL, "wrong"), MUSTER_OK);
    assert_true(has_rung());
    mu_bell_arm(seg);
    assert_status(stage_do(0, act_reset, &task, sizeof task), MUSTER_OK);
    assert_true(has_rung());
    mu_bell_arm(seg);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    assert_true(has_rung());
    stage_close();
}

/* Between its commit and its ring, for all that anybody knows. */
STAGE_TEST(a_death_rings_whoever_it_was)
{
    int p;

    open_job(1, 1);
    p = stage_player();
    assert_status(do_plain(p, act_observe), MUSTER_OK);
    assert_status(do_text(p, act_kv_set, "k"), MUSTER_OK); /* it has a slot */
    mu_bell_arm(seg);
    stage_kill(p);
    assert_false(has_rung());
    assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
    assert_true(has_rung());
    stage_close();
}
