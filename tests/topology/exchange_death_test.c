/*
 * tests/topology/exchange_death_test.c: exchanges of topologies of which tasks die, leave, or are replaced, at chosen
 * moments and at random ones: nobody hangs, and who has no topology has the name of who is at fault.
 */
#include "exchanging.h"

#include <signal.h>

#include "seed.h"

enum end { DIES, LEAVES, REPORTS };

static void ends_before_it_came(enum end how)
{
    char name[32];
    struct reply r;

    stage_open(4, NULL);
    stage_enter_all();
    snprintf(name, sizeof name, "task 2 (pid %d ", stage_pid(2));
    tell_and_wait(0, local("x", MUSTER_FORM_XLA, 0, 1));
    tell_and_wait(1, local("x", MUSTER_FORM_XLA, 1, 1));
    if (how == DIES)
        stage_kill(2);
    else if (how == LEAVES)
        assert_status(do_plain(2, act_leave), MUSTER_OK);
    else
        assert_status(do_report(2, 2, MUSTER_INTERNAL, "out of order"), MUSTER_OK);
    for (int i = 0; i < 2; i++) {
        r = stage_hear(i);
        assert_status(r, MUSTER_UNAVAILABLE);
        assert_says(r.text, "topology exchange x: ");
        assert_says(r.text, name);
        assert_says(r.text, how == DIES ? "is in error" : how == LEAVES ? "has left the job" : "out of order");
    }
    r = ask(3, local("x", MUSTER_FORM_XLA, 3, 1)); /* who comes only now, too */
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, name);
    stage_close();
}

STAGE_TEST(who_dies_leaves_or_is_in_error_ends_it_for_all_by_name)
{
    ends_before_it_came(DIES);
    ends_before_it_came(LEAVES);
    ends_before_it_came(REPORTS);
}

/* What has been exchanged can be had also when its givers are gone. */
STAGE_TEST(the_outcome_outlives_those_who_made_it)
{
    struct exchange_act acts[3];
    struct reply wanted;

    stage_open(3, NULL);
    stage_enter_all();
    for (int i = 0; i < 3; i++)
        acts[i] = local("o", MUSTER_FORM_XLA, i, 1);
    wanted = expected(acts, 3);
    tell_and_wait(0, acts[0]);
    tell_and_wait(1, acts[1]);
    stage_signal(0, SIGSTOP);
    assert_same(ask(2, acts[2]), &wanted);
    assert_status(do_plain(2, act_leave), MUSTER_OK);
    assert_same(stage_hear(1), &wanted);
    kill_task(1, 1);
    stage_signal(0, SIGCONT);
    assert_same(stage_hear(0), &wanted);
    stage_close();
}

/* ---- processes that are replaced --------------------------------------------------------------------------------- */

/* It gave something and died before anybody was told; its successor gives what it likes. */
STAGE_TEST(a_successor_gives_anew_until_somebody_was_told)
{
    struct exchange_act acts[3];
    struct reply wanted, r;
    int successor;

    stage_open(3, NULL);
    for (int i = 0; i < 3; i++) {
        stage_enter(i, MUSTER_JOIN_RECOVERABLE);
        acts[i] = local("s", MUSTER_FORM_XLA, i, 1);
    }
    tell_and_wait(0, acts[0]);
    tell_and_wait(1, local("s", MUSTER_FORM_XLA, 1, 7));
    kill_task(1, 1);
    assert_false(stage_has_answered(0));
    successor = stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    tell(successor, acts[1]);
    stage_until_waiting(1, "topology exchange");
    wanted = expected(acts, 3);
    assert_same(ask(2, acts[2]), &wanted);
    assert_same(stage_hear(0), &wanted);
    assert_same(stage_hear(successor), &wanted);
    kill_task(successor, 1); /* and once everybody was told: the same, or nothing */
    successor = stage_enter(1, MUSTER_JOIN_RECOVERABLE);
    r = ask(successor, local("s", MUSTER_FORM_XLA, 1, 6));
    assert_status(r, MUSTER_FAILED_PRECONDITION);
    assert_same(ask(successor, acts[1]), &wanted);
    stage_close();
}

/* It leaves as if all were done, and may come again. */
STAGE_TEST(of_a_recoverable_task_that_has_left_the_successor_is_waited_for)
{
    struct exchange_act acts[2];
    struct reply wanted, r;

    stage_open(2, NULL);
    for (int i = 0; i < 2; i++) {
        stage_enter(i, MUSTER_JOIN_RECOVERABLE);
        acts[i] = local("l", MUSTER_FORM_XLA, i, 1);
    }
    wanted = expected(acts, 2);
    assert_status(do_plain(1, act_leave), MUSTER_OK);
    acts[0].patience_ns = 30000000;
    r = ask(0, acts[0]);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_says(r.text, "has left");
    acts[0].patience_ns = FOREVER;
    tell_and_wait(0, acts[0]);
    assert_same(ask(stage_enter(1, MUSTER_JOIN_RECOVERABLE), acts[1]), &wanted);
    assert_same(stage_hear(0), &wanted);
    stage_close();
}

/* ---- killed at any moment ---------------------------------------------------------------------------------------- */

static void spin(uint64_t ns)
{
    uint64_t until = muster_now_ns() + ns;

    while (muster_now_ns() < until)
        ;
}

/* Whoever survives has the right topology, or the name of the dead one. Recoverable: its successor brings it about. */
static void kill_one_at_random(struct test_random *r, bool recoverable, unsigned *told)
{
    enum { TASKS = 5 };
    struct exchange_act acts[TASKS];
    struct reply wanted, got;
    int victim = (int)test_below(r, TASKS), successor = -1;
    char name[32];

    stage_open(TASKS, NULL);
    for (int i = 0; i < TASKS; i++) {
        stage_enter(i, recoverable ? MUSTER_JOIN_RECOVERABLE : 0);
        acts[i] = local("k", MUSTER_FORM_XLA, i, 2);
    }
    snprintf(name, sizeof name, "task %d (pid %d ", victim, stage_pid(victim));
    wanted = expected(acts, TASKS);
    for (int i = 0, at = (int)test_below(r, TASKS); i < TASKS; i++)
        tell((at + i) % TASKS, acts[(at + i) % TASKS]);
    spin(test_below(r, 400000));
    if (!recoverable) {
        stage_kill(victim);
    } else {
        kill_task(victim, victim);
        successor = stage_enter(victim, MUSTER_JOIN_RECOVERABLE);
        assert_same(ask(successor, acts[victim]), &wanted);
    }
    for (int i = 0; i < TASKS; i++) {
        if (i == victim)
            continue;
        got = stage_hear(i);
        if (got.status == MUSTER_OK || recoverable) {
            assert_same(got, &wanted);
            (*told)++;
        } else {
            assert_status(got, MUSTER_UNAVAILABLE);
            assert_says(got.text, name);
        }
    }
    stage_close();
}

STAGE_TEST(nobody_hangs_whoever_is_killed_at_whatever_moment)
{
    struct test_random r = {test_seed()};
    const char *said = getenv("TEST_CASES");
    int rounds = said ? (int)strtol(said, NULL, 0) : 40;
    unsigned told = 0;

    for (int i = 0; i < rounds; i++)
        kill_one_at_random(&r, i % 2, &told);
    printf("%d rounds, %u survivors had the topology\n", rounds, told);
}
