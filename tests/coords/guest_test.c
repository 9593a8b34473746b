/*
 * tests/coords/guest_test.c: the register barrier and the shutdown barrier of guests of several hosts: one outcome for
 * all, whoever comes last, fails, gives up or hears late.
 */
#include "coords.h"

#include <stdio.h>
#include <string.h>

static const struct hosts_config two = {.tasks = {2, 2}}, three = {.tasks = {1, 1, 1}};
static const struct mu_coord_options both = {.register_barrier = true, .shutdown_timeout_ns = 600000000000u};
static const struct mu_coord_options impatient = {
    .register_barrier = true, .register_timeout_ns = 300000000, .shutdown_timeout_ns = 300000000};
static const struct mu_coord_options slower = {.register_barrier = true, .register_timeout_ns = 3000000000u};

/* In this order, each when the one before it waits. */
static void register_all(const uint32_t *order, uint32_t count)
{
    struct asked *a[16];

    for (uint32_t i = 0; i < count; i++) {
        a[i] = do_register(order[i], INCARNATION(order[i]));
        if (i + 1 < count)
            assert_waits(a[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_answer(a[i], MUSTER_OK, NULL);
}

static const uint32_t in_order[] = {0, 1, 2, 3};

/* ---- registering ---- */

COORDS_TEST(all_of_two_hosts_wait_for_the_last_wherever_it_is)
{
    static const uint32_t orders[][4] = {{0, 1, 2, 3}, {2, 3, 0, 1}, {3, 1, 0, 2}};

    for (uint32_t i = 0; i < 3; i++) {
        coords_open(&two, &both);
        register_all(orders[i], 4);
        for (uint32_t task = 0; task < 4; task++) /* at host 0 all are there before anybody is told */
            assert_int_equal(state_at(0, task), MUSTER_TASK_CONNECTED);
        assert_answer(do_register(3, INCARNATION(3)), MUSTER_OK, NULL); /* nobody waits again */
        coords_close();
    }
}

COORDS_TEST(tasks_of_the_library_count_on_every_host)
{
    struct asked *a, *b;

    coords_open(&three, &both);
    a = do_register(1, INCARNATION(1));
    b = do_register(2, INCARNATION(2));
    assert_waits(a);
    cast_enter(0, 0); /* nobody waits at host 0's engine, and it sees who comes there */
    assert_answer(a, MUSTER_OK, NULL);
    assert_answer(b, MUSTER_OK, NULL);
    assert_answer(do_reset(1), MUSTER_OK, NULL);
    assert_answer(do_register(1, 7), MUSTER_OK, NULL); /* for the barrier passes once */
    coords_close();
    coords_open(&three, &both);
    a = do_register(0, INCARNATION(0));
    b = do_register(2, INCARNATION(2));
    assert_waits(a);
    cast_enter(1, 0);
    assert_answer(a, MUSTER_OK, NULL);
    assert_answer(b, MUSTER_OK, NULL);
    coords_close();
}

COORDS_TEST(it_times_out_for_all_and_names_who_is_missing_anywhere)
{
    struct asked *a, *b;

    coords_open(&two, &slower); /* two come before its time is over */
    a = do_register(2, INCARNATION(2));
    assert_waits(a);
    b = do_register(1, INCARNATION(1));
    assert_answer(a, MUSTER_DEADLINE_EXCEEDED, "Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0");
    assert_answer(a, MUSTER_DEADLINE_EXCEEDED, "The first task at the barrier: 2.");
    assert_answer(a, MUSTER_DEADLINE_EXCEEDED, "\ntask 0\ntask 3");
    assert_int_equal(a->ask.payload, MU_PAYLOAD_BARRIER);
    assert_answer(b, MUSTER_DEADLINE_EXCEEDED, a->text);
    until_state_at(0, 2, MUSTER_TASK_DISCONNECTED);
    a = do_register(3, INCARNATION(3)); /* begins it anew, alone */
    assert_answer(a, MUSTER_DEADLINE_EXCEEDED, "1/4");
    coords_close();
}

COORDS_TEST(what_is_said_of_a_round_that_is_over_counts_for_nobody)
{
    struct asked *a[4];

    coords_open(&two, &impatient);
    coords_hold(true);
    a[0] = do_register(0, INCARNATION(0));
    a[1] = do_register(1, INCARNATION(1));
    a[2] = do_register(2, INCARNATION(2)); /* host 0's engine will hear too late */
    a[3] = do_register(3, INCARNATION(3));
    until_state_at(0, 2, MUSTER_TASK_CONNECTED);
    until_state_at(0, 3, MUSTER_TASK_CONNECTED);
    assert_answer(a[0], MUSTER_DEADLINE_EXCEEDED, "2/4");
    assert_answer(a[1], MUSTER_DEADLINE_EXCEEDED, NULL);
    a[0] = do_register(0, INCARNATION(0)); /* of a second round, to which the two others do not belong */
    a[1] = do_register(1, INCARNATION(1));
    coords_hold(false);
    assert_answer(a[2], MUSTER_DEADLINE_EXCEEDED, "2/4");
    assert_answer(a[3], MUSTER_DEADLINE_EXCEEDED, NULL);
    assert_answer(a[0], MUSTER_DEADLINE_EXCEEDED, "2/4");
    until_state_at(0, 3, MUSTER_TASK_DISCONNECTED);
    coords_close();
}

COORDS_TEST(who_hangs_up_at_its_host_has_not_come)
{
    struct asked *a, *b;

    coords_open(&three, &both);
    a = do_register(0, INCARNATION(0));
    assert_waits(do_register(1, INCARNATION(1)));
    until_state_at(0, 1, MUSTER_TASK_CONNECTED);
    hang_up(1);
    until_state_at(0, 1, MUSTER_TASK_DISCONNECTED);
    b = do_register(2, INCARNATION(2));
    assert_waits(b);
    assert_answer(do_register(1, 7), MUSTER_OK, NULL);
    assert_answer(a, MUSTER_OK, NULL);
    assert_answer(b, MUSTER_OK, NULL);
    coords_close();
}

COORDS_TEST(a_newer_registration_takes_the_place_of_the_older)
{
    struct asked *a, *b;

    coords_open(&three, &both);
    a = do_register(1, INCARNATION(1));
    assert_waits(a);
    b = do_register(1, 7);
    assert_answer(a, MUSTER_ALREADY_EXISTS, "newer incarnation");
    assert_waits(b);
    assert_waits(do_register(2, INCARNATION(2)));
    assert_answer(do_register(0, INCARNATION(0)), MUSTER_OK, NULL);
    assert_answer(b, MUSTER_OK, NULL);
    assert_answer(do_register(1, INCARNATION(1)), MUSTER_ABORTED, "different incarnation");
    coords_close();
}

COORDS_TEST(who_dies_on_any_host_ends_the_waiting_for_all)
{
    struct asked *a, *b;

    coords_open(&three, &both);
    cast_enter(2, 0);
    a = do_register(1, INCARNATION(1));
    assert_waits(a);
    b = do_register(0, INCARNATION(0));
    assert_answer(a, MUSTER_OK, NULL);
    assert_answer(b, MUSTER_OK, NULL);
    coords_close();
    coords_open(&three, &both);
    cast_enter(2, 0);
    cast_until_known(2, true);
    a = do_register(1, INCARNATION(1));
    assert_waits(a);
    cast_kill(2);
    assert_answer(a, MUSTER_INTERNAL, "task is set to ERROR: task 2");
    assert_int_equal(a->ask.payload, MU_PAYLOAD_BARRIER);
    coords_close();
}

/* Who waited when it failed is not in error for that, and may come again when the one who was is reset. */
COORDS_TEST(who_waited_for_one_in_error_may_come_again)
{
    struct asked *a;

    coords_open(&two, &both);
    a = do_register(2, INCARNATION(2));
    assert_waits(do_register(3, INCARNATION(3)));
    until_state_at(0, 3, MUSTER_TASK_CONNECTED);
    assert_answer(do_report_error(3, "it broke"), MUSTER_OK, NULL);
    assert_answer(a, MUSTER_INTERNAL, "task is set to ERROR: task 3");
    until_state_at(0, 2, MUSTER_TASK_DISCONNECTED);
    assert_answer(do_reset(3), MUSTER_OK, NULL);
    until_state_at(0, 3, MUSTER_TASK_DISCONNECTED);
    register_all(in_order, 4);
    coords_close();
}

COORDS_TEST(heartbeats_are_brought_for_those_who_wait)
{
    const struct mu_coord_options o = {.register_barrier = true, .register_timeout_ns = 1500000000};
    const struct hosts_config quick = {.tasks = {1, 1}, .segment = {.heartbeat_timeout_ns = 400000000}};
    struct asked *a;

    coords_open(&quick, &o);
    a = do_register(1, INCARNATION(1));
    assert_answer(a, MUSTER_DEADLINE_EXCEEDED, "1/2"); /* and not silent, which would be an error */
    coords_close();
}

COORDS_TEST(a_task_of_another_host_is_sent_there)
{
    struct asked *a;

    coords_open(&two, &both);
    a = do_register_at(0, 2);
    assert_answer(a, MUSTER_INVALID_ARGUMENT, "task 2 is a task of host");
    a = do_register_at(1, 0);
    assert_answer(a, MUSTER_INVALID_ARGUMENT, "task 0 is a task of host");
    a = do_register_at(1, 4);
    assert_answer(a, MUSTER_INVALID_ARGUMENT, "it is not in the cluster, of 4 tasks");
    register_all(in_order, 4);
    coords_close();
}

COORDS_TEST(nobody_speaks_for_other_hosts)
{
    struct asked *a;

    coords_open(&three, &both);
    a = do_register(2, INCARNATION(2));
    assert_waits(a);
    cast_enter(0, 0);
    for (uint32_t word = 0; word < 20; word++) { /* host 1's engine, of what is not its own to say */
        coords_say(1, &(struct mu_coord_news){.word = (enum mu_coord_word)word, .task = 2, .attempt = 1, .text = "x"});
        coords_say(1, &(struct mu_coord_news){.word = (enum mu_coord_word)word, .task = 9, .attempt = 1, .text = "x"});
        coords_say(1, &(struct mu_coord_news){.word = (enum mu_coord_word)word, .task = 0, .attempt = 1, .text = "x"});
    }
    coords_say(1, &(struct mu_coord_news){.word = MU_WORD_COMES, .round = 1, .task = 1, .attempt = 1, .text = ""});
    assert_waits(a);
    assert_answer(do_register(1, INCARNATION(1)), MUSTER_OK, NULL);
    assert_answer(a, MUSTER_OK, NULL);
    coords_close();
}

static char said[2][400];

static void hear(void *arg, int32_t task, const char *sentence)
{
    (void)task;
    snprintf(said[(struct mu_coord **)arg != coords], sizeof said[0], "%s", sentence);
}

COORDS_TEST(people_are_told_once_who_is_missing_anywhere)
{
    const struct mu_coord_options o = {
        .register_barrier = true, .shutdown_timeout_ns = 100000000000u, .said = hear, .say_ns = 20000000};
    static const uint32_t order[] = {3, 0, 1, 2};
    struct asked *a;

    memset(said, 0, sizeof said);
    coords_open(&two, &o);
    a = do_register(3, INCARNATION(3));
    coords_await(said[0][0], "somebody is missing");
    assert_string_equal(said[0], "3 of 4 tasks have not registered yet: task 0, task 1 ...");
    for (uint32_t i = 1; i < 4; i++)
        do_register(order[i], INCARNATION(order[i]));
    assert_answer(a, MUSTER_OK, NULL);
    memset(said, 0, sizeof said);
    for (uint32_t i = 0; i < 3; i++)
        a = do_shutdown(order[i]);
    coords_await(said[0][0], "somebody is missing");
    assert_in(said[0], "1 of 4 tasks have not called for the shutdown yet: task 2");
    assert_answer(do_shutdown(2), MUSTER_OK, NULL);
    assert_answer(a, MUSTER_OK, NULL);
    assert_string_equal(said[1], ""); /* by host 0's engine alone */
    coords_close();
}

/* ---- the shutdown ---- */

COORDS_TEST(nobody_leaves_before_all_of_both_hosts_have_called)
{
    struct asked *a[4], *poll;

    coords_open(&two, &both);
    for (uint32_t round = 0; round < 4; round++) {
        register_all(in_order, round ? 0 : 4);
        for (uint32_t i = 0; round && i < 4; i++)
            assert_answer(do_register(i, INCARNATION(i)), MUSTER_OK, NULL);
        for (uint32_t i = 0; i < 4; i++)
            until_state_at(0, i, MUSTER_TASK_CONNECTED);
        poll = do_poll(2);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t who = (i + round) % 4;

            a[i] = do_shutdown(who);
            if (i < 3)
                assert_waits(a[i]);
        }
        for (uint32_t i = 0; i < 4; i++)
            assert_answer(a[i], MUSTER_OK, NULL);
        assert_answer(poll, MUSTER_CANCELLED, "task has disconnected");
        for (uint32_t i = 0; i < 4; i++)
            until_state_at(0, i, MUSTER_TASK_DISCONNECTED);
    }
    assert_answer(do_shutdown(3), MUSTER_INTERNAL, "already disconnected");
    coords_close();
}

/* A task of the library that leaves when the key comes. */
static int stay_until(struct muster *m, void *key)
{
    char value[8];
    size_t len;

    return muster_kv_get(m, key, MUSTER_NTS, muster_after_ms(60000), value, sizeof value, &len, NULL) != MUSTER_OK;
}

static void leaves(pid_t pid, const char *key)
{
    assert_status(MUSTER_OK, muster_kv_set(cast_leader, key, MUSTER_NTS, "x", 1, NULL));
    assert_int_equal(hosts_reap(cast_hosts, pid), 0);
}

COORDS_TEST(it_waits_for_tasks_of_the_library_on_any_host)
{
    struct asked *a, *b;
    pid_t pids[2];

    coords_open(&two, &both);
    pids[0] = hosts_task(cast_hosts, 0, stay_until, (void *)"go/0");
    pids[1] = hosts_task(cast_hosts, 3, stay_until, (void *)"go/3");
    a = do_register(1, INCARNATION(1));
    b = do_register(2, INCARNATION(2));
    assert_answer(a, MUSTER_OK, NULL);
    assert_answer(b, MUSTER_OK, NULL);
    a = do_shutdown(2);
    leaves(pids[1], "go/3");
    b = do_shutdown(1);
    assert_waits(a);
    leaves(pids[0], "go/0");
    assert_answer(a, MUSTER_OK, NULL);
    assert_answer(b, MUSTER_OK, NULL);
    coords_close();
}

COORDS_TEST(a_shutdown_that_times_out_fails_for_all_and_all_are_told)
{
    struct asked *a, *polls[4];

    coords_open(&two, &impatient);
    register_all(in_order, 4);
    for (uint32_t i = 0; i < 4; i++)
        polls[i] = do_poll(i);
    a = do_shutdown(3); /* nobody calls on host 0 */
    assert_answer(a, MUSTER_INTERNAL, "Shutdown barrier has failed.\nBarrier result: 'DEADLINE_EXCEEDED");
    assert_in(a->text, "1/4");
    assert_in(a->text, "task 0");
    for (uint32_t i = 0; i < 4; i++)
        assert_answer(polls[i], MUSTER_INTERNAL, "Shutdown barrier has failed.\nBarrier result: 'DEADLINE_EXCEEDED");
    for (uint32_t i = 0; i < 4; i++)
        until_state_at(0, i, MUSTER_TASK_ERROR);
    assert_int_equal(coords_first_error(0), 3); /* on whatever host it is, the one that waited alone is to blame */
    assert_answer(do_shutdown(0), MUSTER_INTERNAL, "timed out"); /* stragglers */
    assert_answer(do_shutdown(2), MUSTER_INTERNAL, "timed out");
    assert_answer(do_reset(1), MUSTER_OK, NULL);
    assert_answer(do_reset(3), MUSTER_OK, NULL);
    until_state_at(0, 3, MUSTER_TASK_DISCONNECTED); /* the job is well again, on all hosts */
    until_state_at(1, 1, MUSTER_TASK_DISCONNECTED);
    for (uint32_t i = 0; i < 4; i++)
        assert_answer(do_register(i, 100 + i), MUSTER_OK, NULL);
    coords_close();
}

/* Host 0 blames a task of host 1, whose record comes there by another way than host 0's word of the shutdown. */
COORDS_TEST(who_polls_is_told_by_the_word_or_late_by_the_record)
{
    for (int comes = 1; comes >= 0; comes--) {
        struct asked *a, *poll;

        coords_open(&two, &impatient);
        register_all(in_order, 4);
        poll = do_poll(2);
        a = do_shutdown(3);
        coords_turn();
        coords_hold(true);
        until_state_at(1, 3, MUSTER_TASK_ERROR);
        assert_int_equal(coords_first_error(0), 3);
        coords_turn();
        assert_waits(poll);
        coords_hold(!comes);
        if (comes) {
            assert_answer(poll, MUSTER_INTERNAL, "Shutdown barrier has failed.\nBarrier result: 'DEADLINE_EXCEEDED");
        } else {
            assert_answer(poll, MUSTER_INTERNAL, "task 3 (");
            assert_in(poll->text, " is in error: the shutdown has timed out: task 3 (");
        }
        coords_hold(false);
        assert_answer(a, MUSTER_INTERNAL, "Shutdown barrier has failed");
        coords_close();
    }
}

COORDS_TEST(an_error_on_any_host_fails_the_shutdown)
{
    struct asked *a, *b;

    coords_open(&two, &both);
    register_all(in_order, 4);
    do_poll(3); /* so that the others are not put in error with it */
    a = do_shutdown(0);
    b = do_shutdown(2);
    assert_waits(a);
    assert_answer(do_report_error(3, "it broke"), MUSTER_OK, NULL);
    assert_answer(a, MUSTER_INTERNAL, "task is set to ERROR: task 3");
    assert_answer(b, MUSTER_INTERNAL, "it broke");
    assert_answer(do_shutdown(1), MUSTER_INTERNAL, "Shutdown barrier has failed");
    coords_close();
}

COORDS_TEST(who_has_called_may_hang_up_and_come_again)
{
    struct asked *a;

    coords_open(&two, &both);
    register_all(in_order, 4);
    assert_waits(do_shutdown(2));
    hang_up(2);
    until_state_at(0, 2, MUSTER_TASK_DISCONNECTED);
    a = do_shutdown(0);
    assert_waits(do_shutdown(1));
    assert_answer(do_register(2, 7), MUSTER_OK, NULL); /* and is waited for again */
    until_state_at(0, 2, MUSTER_TASK_CONNECTED);
    assert_waits(do_shutdown(3));
    assert_waits(a);
    assert_answer(do_shutdown(2), MUSTER_OK, NULL);
    assert_answer(a, MUSTER_OK, NULL);
    coords_close();
}

/* What it said before it came again is heard afterwards: it is waited for all the same. */
COORDS_TEST(a_late_word_of_who_has_come_again_counts_for_nobody)
{
    struct asked *a;

    coords_open(&two, &both);
    register_all(in_order, 4);
    coords_hold(true);
    assert_waits(do_shutdown(2));
    hang_up(2);
    until_state_at(0, 2, MUSTER_TASK_DISCONNECTED);
    assert_answer(do_register(2, 7), MUSTER_OK, NULL);
    until_state_at(0, 2, MUSTER_TASK_CONNECTED);
    a = do_shutdown(0);
    assert_waits(do_shutdown(1));
    coords_hold(false);
    coords_turn();
    assert_waits(do_shutdown(3));
    assert_waits(a);
    assert_answer(do_shutdown(2), MUSTER_OK, NULL);
    assert_answer(a, MUSTER_OK, NULL);
    coords_close();
}

COORDS_TEST(a_call_made_twice_counts_once)
{
    struct asked *a, *b;

    coords_open(&two, &both);
    register_all(in_order, 4);
    a = do_shutdown(3);
    b = do_shutdown(3);
    assert_answer(a, MUSTER_CANCELLED, "more recent call");
    assert_waits(b);
    for (uint32_t i = 0; i < 3; i++)
        a = do_shutdown(i);
    assert_answer(a, MUSTER_OK, NULL);
    assert_answer(b, MUSTER_OK, NULL);
    coords_close();
}

COORDS_TEST(a_coord_that_stops_answers_its_own)
{
    struct asked *a, *b;

    coords_open(&two, &both);
    a = do_register(0, INCARNATION(0));
    b = do_register(2, INCARNATION(2));
    assert_waits(b);
    mu_coord_stop(coords[1]);
    assert_answer(b, MUSTER_ABORTED, "service is shutting down");
    assert_waits(a);
    mu_coord_stop(coords[0]);
    assert_answer(a, MUSTER_ABORTED, "service is shutting down");
    coords_close();
}
