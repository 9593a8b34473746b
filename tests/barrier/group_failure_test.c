/*
 * tests/barrier/group_failure_test.c: groups whose members are killed, stopped, leave, err or lose patience: all who
 * return from one instance return the same (invariant I16), whatever the moment; and the group can be built again.
 *
 * Each member writes on the board which instance was the last that passed and which one failed, and how. What a killed
 * member wrote before its death counts too.
 */
#include "crew.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task/task.h"

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static void let_run(uint64_t instances)
{
    uint64_t until = atomic_load(&board->places[0].at) + instances;

    await(atomic_load(&board->places[0].at) >= until, "the group goes on");
}

/* No synchronisation: some instructions go by, so that deaths come at all moments. */
static void dawdle(uint64_t most)
{
    for (volatile uint64_t i = draw(most + 1); i; i--)
        ;
}

/* Among the members that returned, one failed instance and one status; nobody passed it, nobody missed one before. */
static void assert_one_outcome(uint32_t members, const bool *returned)
{
    uint64_t failed = 0;
    uint32_t status = 0;

    for (uint32_t i = 0; i < members; i++)
        if (returned[i]) {
            failed = failed ? failed : board->places[i].failed;
            status = status ? status : board->places[i].status;
        }
    assert_true(failed > 0);
    for (uint32_t i = 0; i < members; i++) {
        struct place *p = &board->places[i];
        bool is_odd = returned[i] ? p->failed != failed || p->last_ok != failed - 1 || p->status != status
                                  : p->last_ok >= failed || (p->failed && (p->failed != failed || p->status != status));

        if (is_odd)
            fail_msg("member %u: passed %llu, failed %llu with %s; others failed %llu with %s", i,
                     (unsigned long long)p->last_ok, (unsigned long long)p->failed,
                     muster_status_name((enum muster_status)p->status), (unsigned long long)failed,
                     muster_status_name((enum muster_status)status));
    }
}

static struct run_act endless(uint64_t patience_ns)
{
    return (struct run_act){.first = 1, .kind = RUN_ANY, .max_len = 64, .patience_ns = patience_ns, .seed = 5};
}

static void tell_all_run(uint32_t members, struct run_act a)
{
    for (uint32_t i = 0; i < members; i++)
        stage_tell((int)i, act_run, &a, sizeof a);
}

/* A member is killed at a random moment; round after round, in jobs of their own. */
static void rounds_of_kills(uint32_t members, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        uint32_t victim = (uint32_t)draw(members);
        bool returned[CREW_MAX];

        crew_open(members, NULL);
        stage_enter_all();
        crew_create("g", members, 64);
        tell_all_run(members, endless(0));
        let_run(draw(20));
        dawdle(30000);
        stage_kill((int)victim);
        if (round % 4) /* an agent looks at once; else they find it themselves, in a tenth of a second */
            assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
        for (uint32_t i = 0; i < members; i++) {
            returned[i] = i != victim;
            if (i != victim) {
                struct reply r = stage_hear((int)i);
                char name[32];

                assert_status(r, MUSTER_UNAVAILABLE);
                snprintf(name, sizeof name, "task %u (pid", victim);
                assert_says(r.text, name);
            }
        }
        assert_one_outcome(members, returned);
        for (uint32_t i = 0; i < members; i++)
            if (i != victim)
                assert_status(do_plain((int)i, act_group_free), MUSTER_OK);
        stage_audit();
        assert_int_equal(crew_areas(), 0);
        crew_close();
    }
}

STAGE_TEST(two_members_of_whom_one_is_killed_agree_with_the_dead)
{
    rounds_of_kills(2, 40);
}

STAGE_TEST(four_members_agree_when_one_is_killed_at_any_moment)
{
    rounds_of_kills(4, 40);
}

STAGE_TEST(nine_members_agree_when_one_is_killed_at_any_moment)
{
    rounds_of_kills(9, 8);
}

/* Everybody's patience is about as long as an instance takes: some give up, some have passed, and all agree. */
STAGE_TEST(who_loses_patience_and_who_does_not_agree)
{
    bool all[CREW_MAX];

    memset(all, 1, sizeof all);
    crew_open(4, NULL);
    stage_enter_all();
    for (int round = 0; round < 60; round++) {
        crew_wipe();
        crew_create("g", 4, 64);
        for (int i = 0; i < 4; i++) {
            struct run_act a = endless(2000 + draw(300000));

            a.halving = 64;
            stage_tell(i, act_run, &a, sizeof a);
        }
        for (int i = 0; i < 4; i++)
            assert_status(stage_hear(i), MUSTER_DEADLINE_EXCEEDED);
        assert_one_outcome(4, all);
        for (int i = 0; i < 4; i++)
            assert_status(do_plain(i, act_group_free), MUSTER_OK);
        assert_int_equal(crew_areas(), 0);
    }
    crew_close();
}

STAGE_TEST(a_past_deadline_fails_at_once_and_for_all_and_names_the_missing)
{
    struct run_act once = {.first = 1, .rounds = 1, .patience_ns = 1}, for_ever = {.first = 1, .rounds = 1};
    struct reply r;

    crew_open(3, NULL);
    stage_enter_all();
    crew_create("g", 3, 0);
    r = stage_do(0, act_run, &once, sizeof once);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_says(r.text, "task 1 (pid");
    assert_says(r.text, "task 2 (pid");
    assert_says(r.text, "had not arrived");
    assert_null(strstr(r.text, "task 0"));
    assert_status(stage_do(1, act_run, &for_ever, sizeof for_ever), MUSTER_DEADLINE_EXCEEDED);
    assert_status(stage_do(2, act_run, &for_ever, sizeof for_ever), MUSTER_DEADLINE_EXCEEDED);
    r = stage_do(1, act_run, &for_ever, sizeof for_ever);
    assert_status(r, MUSTER_FAILED_PRECONDITION); /* it stays failed */
    assert_says(r.text, "make a new one");
    crew_close();
}

STAGE_TEST(a_stopped_member_learns_when_it_goes_on_what_the_others_decided)
{
    bool all[CREW_MAX];
    struct run_act a = endless(200000000);

    memset(all, 1, sizeof all);
    for (int round = 0; round < 5; round++) {
        crew_open(3, NULL);
        stage_enter_all();
        crew_create("g", 3, 64);
        tell_all_run(3, a);
        let_run(draw(50));
        stage_signal(2, SIGSTOP);
        assert_status(stage_hear(0), MUSTER_DEADLINE_EXCEEDED);
        assert_status(stage_hear(1), MUSTER_DEADLINE_EXCEEDED);
        stage_signal(2, SIGCONT);
        assert_status(stage_hear(2), MUSTER_DEADLINE_EXCEEDED);
        assert_one_outcome(3, all);
        crew_close();
    }
}

/* Ways for member 1 to be lost to the others who wait; all end with UNAVAILABLE and name it. */
static void lose(act_fn act, const void *arg, size_t len, bool killed)
{
    struct run_act once = {.first = 1, .rounds = 1};

    crew_open(3, NULL);
    stage_enter_all();
    crew_create("g", 3, 0);
    stage_tell(0, act_run, &once, sizeof once);
    stage_tell(2, act_run, &once, sizeof once);
    stage_until_waiting(0, "group g");
    stage_until_waiting(2, "group g");
    if (killed)
        stage_kill(1);
    else
        assert_status(stage_do(1, act, arg, len), MUSTER_OK);
    for (int i = 0; i < 3; i += 2) {
        struct reply r = stage_hear(i);

        assert_status(r, MUSTER_UNAVAILABLE);
        assert_says(r.text, "task 1 (pid");
    }
    crew_close();
}

STAGE_TEST(a_member_that_gives_its_group_back_is_lost)
{
    lose(act_group_free, NULL, 0, false);
}

STAGE_TEST(a_member_that_leaves_the_job_is_lost)
{
    lose(act_leave, NULL, 0, false);
}

STAGE_TEST(a_member_in_error_is_lost)
{
    struct report_act a = {.task = 1, .code = MUSTER_INTERNAL, .message = "broken"};

    lose(act_report, &a, sizeof a, false);
}

STAGE_TEST(a_member_that_dies_is_lost)
{
    lose(NULL, NULL, 0, true);
}

STAGE_TEST(members_that_had_all_arrived_pass_though_one_dies_right_after)
{
    struct run_act once = {.first = 1, .rounds = 1};

    for (int round = 0; round < 10; round++) {
        crew_open(2, NULL);
        stage_enter_all();
        crew_create("g", 2, 0);
        stage_tell(0, act_run, &once, sizeof once);
        stage_until_waiting(0, "group g");
        stage_signal(0, SIGSTOP);
        assert_status(stage_do(1, act_run, &once, sizeof once), MUSTER_OK);
        stage_kill(1);
        stage_until_state(1, MUSTER_TASK_CONNECTED); /* nobody has looked yet */
        assert_int_equal(muster_scavenge(stage_observer, NULL), MUSTER_OK);
        stage_signal(0, SIGCONT);
        assert_status(stage_hear(0), MUSTER_OK);
        once.first = 2;
        assert_status(stage_do(0, act_run, &once, sizeof once), MUSTER_UNAVAILABLE);
        once.first = 1;
        crew_close();
    }
}

STAGE_TEST(survivors_build_a_smaller_group_under_the_same_name)
{
    static const int32_t rest[] = {0, 2, 3};
    struct run_act a = {.first = 1, .rounds = 100, .kind = RUN_ANY, .max_len = 64};

    crew_open(4, NULL);
    stage_enter_all();
    crew_create("g", 4, 0);
    tell_all_run(4, endless(0));
    let_run(10);
    stage_kill(1);
    for (int i = 0; i < 4; i++)
        if (i != 1) {
            assert_status(stage_hear(i), MUSTER_UNAVAILABLE);
            assert_status(do_plain(i, act_group_free), MUSTER_OK);
        }
    crew_wipe();
    for (int i = 0; i < 4; i++)
        if (i != 1)
            tell_create(i, "g", rest, 3);
    for (int i = 0; i < 4; i++)
        if (i != 1)
            assert_status(stage_hear(i), MUSTER_OK);
    for (int i = 0; i < 4; i++)
        if (i != 1)
            stage_tell(i, act_run, &a, sizeof a);
    for (int i = 0; i < 4; i++)
        if (i != 1)
            assert_status(stage_hear(i), MUSTER_OK);
    crew_close();
}

STAGE_TEST(a_restarted_member_and_the_survivors_build_it_again_under_the_same_name)
{
    struct run_act a = {.first = 1, .rounds = 50, .kind = RUN_ANY, .max_len = 64};
    int last = 2;

    crew_open(3, NULL);
    stage_enter(0, 0);
    stage_enter(1, 0);
    stage_enter(2, MUSTER_JOIN_RECOVERABLE);
    for (int round = 0; round < 10; round++) {
        int crew[] = {0, 1, last};

        crew_wipe();
        for (int i = 0; i < 3; i++)
            tell_create(crew[i], "g", NULL, 0);
        for (int i = 0; i < 3; i++)
            assert_status(stage_hear(crew[i]), MUSTER_OK);
        for (int i = 0; i < 3; i++)
            stage_tell(crew[i], act_run, &a, sizeof a);
        for (int i = 0; i < 3; i++)
            assert_status(stage_hear(crew[i]), MUSTER_OK);
        stage_kill(last);
        for (int i = 0; i < 2; i++)
            assert_status(do_plain(i, act_group_free), MUSTER_OK);
        last = stage_enter(2, MUSTER_JOIN_RECOVERABLE);
    }
    stage_audit();
    crew_close();
}

STAGE_TEST(a_group_that_cannot_be_built_says_who_is_missing)
{
    struct reply r;

    crew_open(3, NULL);
    stage_enter_all();
    tell_create(0, "g", NULL, 0);
    stage_until_waiting(0, "the members of group g");
    r = create_on(1, "g", NULL, 0, 1);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_says(r.text, "not there: task 2 (pid ");
    r = stage_hear(0); /* one gave up: this group will never be */
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "task 1");
    assert_int_equal(crew_areas(), 0);
    /* the next attempt is a new one */
    for (int i = 0; i < 3; i++)
        tell_create(i, "g", NULL, 0);
    for (int i = 0; i < 3; i++)
        assert_status(stage_hear(i), MUSTER_OK);
    crew_close();
}

STAGE_TEST(a_group_is_not_built_with_a_member_that_has_ended)
{
    struct reply r;

    crew_open(2, NULL);
    stage_enter(0, 0);
    tell_create(0, "g", NULL, 0);
    stage_until_waiting(0, "the members of group g");
    assert_int_equal(mu_task_process_ended(stage_observer, 1, 4711, 0, true), MUSTER_OK);
    r = stage_hear(0);
    assert_status(r, MUSTER_UNAVAILABLE);
    assert_says(r.text, "task 1 (pid 4711 on host ");
    assert_says(r.text, "has ended (exited with status 0) without joining");
    crew_close();
}

STAGE_TEST(a_death_while_the_group_is_being_built_ends_it)
{
    struct reply r;

    crew_open(3, NULL);
    stage_enter_all();
    tell_create(0, "g", NULL, 0);
    tell_create(1, "g", NULL, 0);
    stage_until_waiting(0, "the members of group g");
    stage_until_waiting(1, "the members of group g");
    stage_kill(2);
    for (int i = 0; i < 2; i++) {
        r = stage_hear(i);
        assert_status(r, MUSTER_UNAVAILABLE);
        assert_says(r.text, "task 2 (pid");
    }
    stage_audit();
    assert_int_equal(crew_areas(), 0);
    crew_close();
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : muster_now_ns() | 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    return test_run(NULL, NULL);
}
