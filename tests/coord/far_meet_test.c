/*
 * tests/coord/far_meet_test.c: barriers, who is alive and errors, as guests of two hosts and tasks of the C library on
 * each of them share them. Guests are tasks 0, on the leader's host, and 2 on the other; tasks 1 and 3 are of the
 * library.
 */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/call/lanes.h"

enum { LEADER = 0, TASK = 1, FAR = 2, FAR_TASK = 3 };

static const struct hosts_config two = {.tasks = {2, 2}};
static const int32_t guests[] = {LEADER, FAR}, all[] = {0, 1, 2, 3};

static void open_mixed(void)
{
    cast_open(&two);
    cast_enter(TASK, 0);
    cast_enter(FAR_TASK, 0);
    pair_begin(NULL);
    pair_register_all();
}

static struct asked *meet(int guest, const char *id, int64_t counter)
{
    return do_meet(pair_as(guest), id, counter);
}

static struct asked *meet_guests(int guest, const char *id, int64_t counter)
{
    return do_meet_some(pair_as(guest), id, counter, guests, 2);
}

/* ---- barriers ---- */

PAIR_TEST(guests_and_tasks_of_all_hosts_meet)
{
    struct asked *near, *far;

    open_mixed();
    for (int i = 0; i < 20; i++) {
        int first = i % 4;

        near = far = NULL;
        for (int k = 0; k < 4; k++) {
            int who = (first + k) % 4;

            if (who == LEADER)
                near = meet(LEADER, "b", i);
            else if (who == FAR)
                far = meet(FAR, "b", i);
            else
                cast_tell_wait((uint32_t)who, "b", (uint64_t)i);
        }
        assert_answer(near, MUSTER_OK);
        assert_answer(far, MUSTER_OK);
        assert_int_equal(near->ask.counter, i);
        assert_int_equal(far->ask.counter, i);
        assert_false(far->ask.replayed);
        assert_reply(pair_hear(TASK), MUSTER_OK);
        assert_reply(pair_hear(FAR_TASK), MUSTER_OK);
    }
    pair_close();
}

/* Whoever is told something, it is the same. */
static void assert_alike(struct asked *a, struct asked *b)
{
    until_answered(a);
    until_answered(b);
    if (a->ask.status != b->ask.status || (a->ask.status && strcmp(a->text, b->text) != 0) ||
        a->ask.payload != b->ask.payload || a->ask.counter != b->ask.counter || a->ask.replayed != b->ask.replayed ||
        strcmp(a->barrier_id, b->barrier_id) != 0)
        fail_msg("%d '%s' at the leader's engine, %d '%s' at the other", (int)a->ask.status, a->text,
                 (int)b->ask.status, b->text);
}

PAIR_TEST(what_a_barrier_says_is_the_same_everywhere)
{
    struct asked *near, *far;

    open_mixed();
    near = meet_guests(LEADER, "cancelled", 0);
    far = meet_guests(FAR, "other", 0);
    assert_waits(far);
    cast_until_arrived("other", 1);
    assert_answer(do_cancel(pair_as(FAR), "cancelled", 0), MUSTER_OK);
    assert_says_so(near, MUSTER_CANCELLED, "is cancelled by task 2");
    assert_alike(meet_guests(LEADER, "cancelled", 0), meet_guests(FAR, "cancelled", 0));
    assert_says_so(do_cancel(pair_as(FAR), "cancelled", 0), MUSTER_FAILED_PRECONDITION, "already been passed");
    assert_says_so(do_cancel(pair_as(FAR), "cancelled", 5), MUSTER_FAILED_PRECONDITION, "cannot be cancelled");
    assert_answer(do_cancel(pair_as(LEADER), "other", 0), MUSTER_OK);
    assert_says_so(far, MUSTER_CANCELLED, "is cancelled by task 0");
    assert_alike(meet_guests(LEADER, "other", 0), meet_guests(FAR, "other", 0));

    near = meet_guests(LEADER, "misfit", 0);
    cast_until_arrived("misfit", 1);
    far = do_meet_some(pair_as(FAR), "misfit", 0, all, 4);
    assert_says_so(far, MUSTER_INVALID_ARGUMENT, "Conflicting tasks");
    assert_alike(near, far);

    far = do_meet_for(pair_as(FAR), "late", 0, 300);
    assert_says_so(far, MUSTER_DEADLINE_EXCEEDED, "Barrier timed out. Id: late::0");
    assert_int_equal(far->ask.payload, MU_PAYLOAD_BARRIER);
    assert_alike(meet(LEADER, "late", 0), meet(FAR, "late", 0));
    pair_close();
}

PAIR_TEST(who_asks_for_what_has_ended_is_told_so)
{
    struct asked *near, *far;

    open_mixed();
    near = meet_guests(LEADER, "b", 0);
    far = meet_guests(FAR, "b", 0);
    assert_alike(near, far);
    assert_false(far->ask.replayed);
    far = meet_guests(FAR, "b", 0);
    assert_answer(far, MUSTER_OK);
    assert_true(far->ask.replayed);
    assert_alike(meet_guests(LEADER, "b", 0), far);
    far = meet_guests(FAR, "b", 7); /* an instance that is not due */
    assert_answer(far, MUSTER_INTERNAL);
    assert_int_equal(far->ask.counter, 0);
    pair_close();
}

/* A barrier of a host's own is for its tasks alone, whoever they are. */
PAIR_TEST(each_host_has_barriers_of_its_own)
{
    struct asked *near, *far;

    open_mixed();
    near = meet(LEADER, "muster/host/b", 0);
    far = meet(FAR, "muster/host/b", 0);
    assert_waits(near);
    assert_waits(far);
    cast_tell_wait(FAR_TASK, "muster/host/b", 0);
    assert_answer(far, MUSTER_OK);
    assert_waits(near);
    assert_answer(do_cancel(pair_as(LEADER), "muster/host/b", 0), MUSTER_OK);
    assert_answer(near, MUSTER_CANCELLED);
    assert_reply(pair_hear(FAR_TASK), MUSTER_OK);
    assert_says_so(do_meet_some(pair_as(FAR), "muster/host/c", 0, all, 4), MUSTER_INVALID_ARGUMENT,
                   "is on another host");
    pair_close();
}

PAIR_TEST(a_later_call_takes_the_place_of_the_earlier_one)
{
    struct asked *first, *second;

    open_mixed();
    first = meet_guests(FAR, "b", 0);
    second = meet_guests(FAR, "b", 0);
    assert_says_so(first, MUSTER_CANCELLED, "more recent barrier call");
    assert_int_equal(first->ask.payload, MU_PAYLOAD_NONE);
    assert_waits(second);
    assert_answer(meet_guests(LEADER, "b", 0), MUSTER_OK);
    assert_answer(second, MUSTER_OK);
    pair_close();
}

/* What a client that has gone away called for stands, also when the leader heard of neither. */
PAIR_TEST(who_goes_away_stays_arrived)
{
    struct asked *a;

    open_mixed();
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            hosts_cut(cast_hosts, 1);
        a = meet_guests(FAR, "b", i);
        if (i == 2)
            cast_until_arrived("b", 1);
        mu_coord_drop(coord, &a->ask);
        hosts_join(cast_hosts, 1);
        assert_answer(meet_guests(LEADER, "b", i), MUSTER_OK);
        assert_false(a->answered);
    }
    pair_close();
}

PAIR_TEST(many_who_go_away_leave_no_lane)
{
    struct asked *a[200];
    char id[16];

    open_mixed();
    for (int i = 0; i < 200; i++) {
        snprintf(id, sizeof id, "b%d", i);
        a[i] = meet(FAR, id, 0);
    }
    for (int i = 0; i < 200; i++)
        mu_coord_drop(coord, &a[i]->ask);
    counter_await(mu_lanes_open(pair_lanes[1]) == 0, "all calls have ended");
    pair_close();
}

PAIR_TEST(barriers_go_on_over_broken_connections)
{
    open_mixed();
    for (int i = 0; i < 40; i++) {
        struct asked *near, *far;

        if (i % 4 == 1)
            hosts_cut_after(cast_hosts, 1, (uint32_t)(i % 7));
        far = meet_guests(FAR, "b", i);
        counter_turn();
        near = meet_guests(LEADER, "b", i);
        hosts_mend(cast_hosts);
        assert_answer(near, MUSTER_OK);
        assert_answer(far, MUSTER_OK);
        assert_int_equal(far->ask.counter, i);
        hosts_mend(cast_hosts);
    }
    pair_close();
}

PAIR_TEST(an_agent_that_follows_the_leaders_knows_the_calls)
{
    struct asked *far;

    open_mixed();
    far = meet(FAR, "b", 0);
    cast_until_arrived("b", 1);
    pair_coord_closes(0); /* it goes with its agent */
    hosts_kill(cast_hosts, 0);
    assert_waits(far);
    hosts_start(cast_hosts, 0);
    cast_tell_wait(TASK, "b", 0);
    cast_tell_wait(FAR_TASK, "b", 0);
    cast_until_arrived("b", 3);
    assert_waits(far);
    pair_coord_opens(0, NULL);
    assert_answer(meet(LEADER, "b", 0), MUSTER_OK);
    assert_answer(far, MUSTER_OK);
    assert_reply(pair_hear(TASK), MUSTER_OK);
    assert_reply(pair_hear(FAR_TASK), MUSTER_OK);
    pair_close();
}

PAIR_TEST(a_task_that_dies_anywhere_ends_the_wait)
{
    struct asked *near, *far;

    open_mixed();
    near = meet(LEADER, "b", 0);
    far = meet(FAR, "b", 0);
    cast_until_arrived("b", 2);
    cast_kill(FAR_TASK);
    assert_says_so(far, MUSTER_INTERNAL, "task 3");
    assert_alike(near, far);
    pair_close();
}

/* ---- who is alive ---- */

PAIR_TEST(all_hosts_agree_on_who_is_alive)
{
    struct cast_act alive = {.kind = CAST_ALIVE, .tasks = {0, 1, 2, 3}, .count = 4};
    struct cast_reply r;
    struct asked *near, *far;

    open_mixed();
    for (int i = 0; i < 3; i++) {
        far = do_alive(pair_as(FAR), all, 4);
        cast_tell(FAR_TASK, &alive);
        assert_waits(far);
        near = do_alive(pair_as(LEADER), all, 4);
        cast_tell(TASK, &alive);
        assert_answer(near, MUSTER_OK);
        assert_answer(far, MUSTER_OK);
        assert_int_equal(far->ask.num_alive, 4);
        assert_memory_equal(far->alive, all, sizeof all);
        assert_memory_equal(far->incarnations, near->incarnations, 4 * sizeof far->incarnations[0]);
        assert_int_equal(far->incarnations[FAR], INCARNATION(FAR));
        r = pair_hear(TASK);
        assert_reply(r, MUSTER_OK);
        assert_int_equal(r.count, 4);
        assert_reply(pair_hear(FAR_TASK), MUSTER_OK);
    }
    far = do_alive(pair_as(FAR), guests, 2);
    mu_coord_drop(coord, &far->ask); /* its call stands */
    assert_answer(do_alive(pair_as(LEADER), guests, 2), MUSTER_OK);
    far = do_alive(pair_as(FAR), guests, 2);
    assert_waits(far);
    assert_waits(do_poll(pair_as(LEADER))); /* whose client gives up with its connection */
    hang_up(LEADER, "closed by its peer");
    assert_answer(far, MUSTER_OK); /* nobody else is to be waited for */
    assert_int_equal(far->ask.num_alive, 1);
    assert_int_equal(far->alive[0], FAR);
    far = do_alive(pair_as(FAR), guests, 0);
    near = do_alive(FAR, &guests[0], 1);
    assert_says_so(far, MUSTER_INVALID_ARGUMENT, "which of no tasks are alive");
    assert_says_so(near, MUSTER_INVALID_ARGUMENT, "Requesting task 2 is not one of the tasks");
    pair_close();
}

/* ---- errors, states ---- */

PAIR_TEST(errors_reach_who_polls_on_every_host)
{
    struct asked *near, *far, *watch;

    open_mixed();
    near = do_poll(pair_as(LEADER));
    far = do_poll(pair_as(FAR));
    watch = ask(FAR);
    mu_coord_watch(coord, &watch->ask, -1);
    assert_answer(watch, MUSTER_OK);
    assert_answer(do_report_error(pair_as(LEADER), MUSTER_INTERNAL, "it is broken"), MUSTER_OK);
    assert_says_so(near, MUSTER_INTERNAL, "it is broken");
    assert_alike(near, far);
    assert_int_equal(far->ask.origin, LEADER);
    assert_true(far->ask.reported);
    assert_answer(do_watch(pair_as(FAR), watch->ask.version), MUSTER_OK);
    pair_close();
}

static struct asked *report_of(int guest, int32_t task, const char *text)
{
    struct asked *a = ask(pair_as(guest));

    mu_coord_report_error(coord, &a->ask, task, MUSTER_INTERNAL, text, strlen(text));
    return a;
}

/* The guest's engine knows that the other host's task is connected: its record comes there by itself. */
static void until_seen(int guest, int32_t task)
{
    struct asked *a;
    int64_t version = -1;

    do {
        a = do_watch(pair_as(guest), version);
        assert_answer(a, MUSTER_OK);
        version = a->ask.version;
    } while (a->tasks[task].state != MUSTER_TASK_CONNECTED);
}

PAIR_TEST(errors_of_other_hosts_tasks_can_be_reported)
{
    struct asked *near, *far;

    open_mixed();
    until_seen(FAR, LEADER);
    until_seen(LEADER, FAR);
    near = do_poll(pair_as(LEADER));
    far = do_poll(pair_as(FAR));
    assert_answer(report_of(FAR, LEADER, "seen from afar"), MUSTER_OK);
    assert_says_so(near, MUSTER_INTERNAL, "seen from afar");
    assert_alike(near, far);
    assert_int_equal(far->ask.origin, LEADER);
    assert_says_so(report_of(FAR, LEADER, "once more"), MUSTER_FAILED_PRECONDITION, "already has an error");
    assert_answer(report_of(LEADER, FAR, "and back"), MUSTER_OK);
    assert_says_so(report_of(LEADER, FAR, "once more"), MUSTER_FAILED_PRECONDITION, "already has an error");
    pair_close();
}

/* ---- who is at the wrong engine ---- */

PAIR_TEST(who_is_another_hosts_is_sent_there)
{
    struct asked *a[7];
    int other[2] = {FAR, LEADER};

    open_mixed();
    for (int i = 0; i < 2; i++) {
        int here = other[1 - i], task = other[i];
        struct asked *own;

        pair_as(here);
        own = meet_guests(here, "b", i);
        for (int k = 0; k < 7; k++)
            a[k] = ask(here);
        mu_coord_barrier(coord, &a[0]->ask, task, "b", 1, 60000, guests, 2, i);
        mu_coord_cancel(coord, &a[1]->ask, task, "b", 1, i);
        mu_coord_alive(coord, &a[2]->ask, task, guests, 2);
        mu_coord_poll_error(coord, &a[3]->ask, task);
        mu_coord_heartbeat(coord, &a[4]->ask, task, INCARNATION(task));
        mu_coord_reset(coord, &a[5]->ask, task);
        mu_coord_register(coord, &a[6]->ask, task, INCARNATION(task), false);
        for (int k = 0; k < 7; k++) {
            assert_answer(a[k], MUSTER_INVALID_ARGUMENT);
            assert_in(a[k]->text, i ? "node0" : "node1");
        }
        assert_waits(own);
        assert_answer(meet_guests(task, "b", i), MUSTER_OK);
        assert_answer(own, MUSTER_OK);
    }
    pair_close();
}

/* ---- the end ---- */

PAIR_TEST(who_loses_the_leader_is_told)
{
    struct asked *meets, *alive;

    open_mixed();
    meets = meet(FAR, "b", 0);
    alive = do_alive(pair_as(FAR), all, 4);
    assert_waits(meets);
    hosts_cut(cast_hosts, 1);
    assert_waits(alive);
    hosts_lose(cast_hosts, 1, 0, "the test gives it up");
    assert_says_so(meets, MUSTER_UNAVAILABLE, "barrier b::0: the leader of the job, host node0, is lost");
    assert_int_equal(meets->ask.payload, MU_PAYLOAD_NONE);
    assert_says_so(alive, MUSTER_UNAVAILABLE, "the tasks alive: the leader of the job, host node0, is lost");
    assert_answer(meet(FAR, "b", 0), MUSTER_UNAVAILABLE);
    pair_close();
}

PAIR_TEST(a_coord_that_stops_answers_all)
{
    struct asked *meets, *alive, *gone;

    open_mixed();
    meets = meet(FAR, "b", 0);
    alive = do_alive(pair_as(FAR), all, 4);
    hosts_cut(cast_hosts, 1);
    gone = meet(FAR, "c", 0);
    mu_coord_drop(coord, &gone->ask);
    mu_coord_stop(coord);
    assert_says_so(meets, MUSTER_ABORTED, "Barrier failed because service is shutting down. Barrier_id: b::0");
    assert_int_equal(meets->ask.payload, MU_PAYLOAD_BARRIER);
    assert_says_so(alive, MUSTER_ABORTED, "service is shutting down");
    assert_int_equal(mu_lanes_open(pair_lanes[1]), 0);
    pair_close();
}
