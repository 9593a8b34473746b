/*
 * tests/task/guest_company_test.c: tasks that speak through an agent, beside tasks that have joined by themselves: what
 * each learns of the other, and what becomes of guests whose agent dies or leaves. The director is the agent, unless a
 * player is, to be killed.
 */
#include "guests.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "barrier/named_steps.h"
#include "segment/handle.h"
#include "task/alive.h"
#include "task/task.h"

/* ---- with others ------------------------------------------------------------------------------------------------- */

/* The guest arrives: its call as it is now. */
static void arrive(const char *id, uint32_t task, uint64_t counter, struct mu_call *c)
{
    struct mu_call *const only = c;
    struct mu_named n;
    struct mu_ctx *ctx;

    *c = (struct mu_call){.task = task,
                          .attempt = stage_task((int32_t)task).attempt,
                          .asked = counter,
                          .name = MU_CALLS_NONE,
                          .untold = MU_CALLS_NONE};
    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    assert_int_equal(mu_named_begin(&n, muster_segment_of(stage_observer), ctx, id), MUSTER_OK);
    assert_int_equal(mu_barrier_call_take_list(c, &n, NULL, 0), MUSTER_OK);
    assert_int_equal(mu_named_arrive(&n, &only, 1), MUSTER_OK);
    mu_named_done(&n);
    mu_exit(ctx);
}

STAGE_TEST(a_barrier_waits_for_a_guest_and_fails_when_it_is_lost)
{
    struct mu_call c;
    struct reply r;

    guests_open(2);
    stage_enter(0, 0);
    assert_int_equal(guest_comes_as(1, 1, 0), MUSTER_OK);
    tell_barrier(0, "b", 0);
    stage_until_waiting(0, "barrier b");
    arrive("b", 1, 0, &c);
    assert_false(c.waiting);
    assert_int_equal(c.result, MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    mu_barrier_call_done(&c);
    tell_barrier(0, "b", 1);
    stage_until_waiting(0, "barrier b::1");
    guest_is_lost(1, 1, "its connection was reset by its peer");
    r = stage_hear(0);
    assert_int_equal(r.status, MUSTER_INTERNAL);
    assert_says(r.text, "task 1 (a guest on host");
    assert_says(r.text, "its connection was reset by its peer");
    stage_close();
}

STAGE_TEST(a_guest_that_comes_again_has_not_arrived)
{
    struct mu_call c;

    guests_open(2);
    stage_enter(0, 0);
    assert_int_equal(guest_comes_as(1, 1, MUSTER_JOIN_RECOVERABLE), MUSTER_OK);
    arrive("b", 1, 0, &c);
    assert_true(c.waiting);
    mu_barrier_call_done(&c);
    assert_int_equal(guest_comes_as(1, 2, MUSTER_JOIN_RECOVERABLE), MUSTER_OK);
    tell_barrier(0, "b", 0);
    stage_until_waiting(0, "barrier b");
    assert_false(stage_has_answered(0));
    arrive("b", 1, 0, &c);
    assert_false(c.waiting);
    assert_int_equal(c.result, MUSTER_OK);
    assert_status(stage_hear(0), MUSTER_OK);
    mu_barrier_call_done(&c);
    assert_int_equal(guest_goes(1), MUSTER_OK);
    stage_close();
}

static void ask_who_is_alive(uint32_t task, struct mu_alive_call *c)
{
    static const int32_t ids[] = {0, 1};
    struct mu_alive_call *const only = c;
    struct mu_alive a;
    struct mu_ctx *ctx;

    uint64_t incarnations[2] = {stage_task(0).incarnation, stage_task(1).incarnation};

    *c = (struct mu_alive_call){.task = task, .name = MU_ALIVE_NONE};
    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    assert_int_equal(mu_alive_begin(&a, muster_segment_of(stage_observer), ctx, ids, 2), MUSTER_OK);
    assert_int_equal(mu_alive_step(&a, &only, 1), MUSTER_OK);
    for (uint32_t i = 0; i < 2 && c->answered; i++)
        assert_int_equal(mu_alive_incarnation(&a, i), incarnations[i]);
    mu_alive_done(&a);
    mu_exit(ctx);
}

STAGE_TEST(guests_and_others_are_told_who_is_alive)
{
    struct alive_act act = {.tasks = {0, 1}, .count = 2};
    struct alive_answer answer;
    struct mu_alive_call c;
    struct reply r;

    guests_open(2);
    stage_enter(0, 0);
    assert_int_equal(guest_comes_as(1, INCARNATION, 0), MUSTER_OK);
    stage_tell(0, act_alive, &act, sizeof act);
    stage_until_waiting(0, "the tasks alive");
    ask_who_is_alive(1, &c);
    assert_true(c.answered);
    r = stage_hear(0);
    assert_status(r, MUSTER_OK);
    memcpy(&answer, r.data, sizeof answer);
    assert_int_equal(answer.count, 2);
    assert_int_equal(answer.incarnations[1], INCARNATION);
    /* and that one is gone */
    stage_tell(0, act_alive, &act, sizeof act);
    stage_until_waiting(0, "the tasks alive");
    guest_is_lost(1, INCARNATION, "gone");
    r = stage_hear(0);
    assert_status(r, MUSTER_OK);
    memcpy(&answer, r.data, sizeof answer);
    assert_int_equal(answer.count, 1);
    stage_close();
}

/* ---- agents, and processes --------------------------------------------------------------------------------------- */

static int act_come(void *arg, struct reply *reply)
{
    const struct mu_client *g = arg;
    struct mu_ctx *ctx;
    int status = mu_enter(me, &ctx);

    (void)reply;
    if (status)
        return status;
    status = mu_client_register(ctx, g);
    mu_exit(ctx);
    return status;
}

/* A player is the agent of tasks 1 and 2. */
static int agent_with_two(uint32_t flags)
{
    int p = stage_player();

    assert_status(do_plain(p, act_observe), MUSTER_OK);
    for (uint32_t i = 1; i <= 2; i++) {
        struct mu_client g = {.task = i, .incarnation = i, .flags = i == 2 ? flags : 0};

        assert_status(stage_do(p, act_come, &g, sizeof g), MUSTER_OK);
    }
    return p;
}

STAGE_TEST(guests_go_with_their_agent)
{
    struct reply r;
    char words[96];
    int p, agent;

    guests_open(3);
    p = stage_enter(0, 0);
    agent = agent_with_two(MUSTER_JOIN_RECOVERABLE);
    snprintf(words, sizeof words, "the agent through which it spoke (pid %d) died", stage_pid(agent));
    tell_barrier(p, "b", 0);
    stage_until_waiting(0, "barrier b");
    stage_kill(agent);
    r = stage_hear(p); /* its own look every 100 ms finds the dead */
    assert_int_equal(r.status, MUSTER_INTERNAL);
    assert_says(r.text, "task 1 (a guest on host");
    assert_says(r.text, words);
    stage_until_state(2, MUSTER_TASK_ERROR);
    assert_says(stage_task(2).message, words);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    /* the next agent's */
    assert_int_equal(guest_comes_as(2, 2, 0), MUSTER_OK);
    assert_int_equal(guest_comes_as(1, 1, 0), MUSTER_ABORTED);
    stage_close();
}

STAGE_TEST(a_registration_finds_that_the_agent_has_died)
{
    struct join_act join = {.task = 1};
    struct reply r;
    int agent, p;

    guests_open(3);
    agent = agent_with_two(MUSTER_JOIN_RECOVERABLE);
    p = stage_player();
    stage_kill(agent);
    assert_int_equal(guest_comes_as(2, 3, MUSTER_JOIN_RECOVERABLE), MUSTER_OK);
    assert_int_equal(stage_task(2).attempt, 2);
    r = stage_do(p, act_join, &join, sizeof join);
    assert_int_equal(r.status, MUSTER_ABORTED);
    assert_says(r.text, "the agent through which it spoke");
    assert_int_equal(guest_goes(2), MUSTER_OK);
    stage_close();
}

STAGE_TEST(an_agent_that_leaves_has_no_guests)
{
    struct join_act join = {.task = 1, .flags = MUSTER_JOIN_NO_HEARTBEAT}; /* whose thread would check all */
    struct mu_beat beats[3] = {0};
    struct mu_ctx *ctx;
    struct reply r;
    uint64_t last = 0;
    int agent;

    guests_open(3);
    agent = agent_with_two(0);
    assert_status(do_plain(agent, act_leave), MUSTER_OK);
    assert_false(stage_task(1).alive);
    /* who wants the id, or who checks heartbeats: whoever comes first says so */
    r = stage_do(stage_player(), act_join, &join, sizeof join);
    assert_int_equal(r.status, MUSTER_ABORTED);
    assert_says(r.text, "the agent through which it spoke is gone");
    assert_int_equal(stage_task(2).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(mu_enter(stage_observer, &ctx), MUSTER_OK);
    mu_beats_check(ctx, beats, &last);
    mu_exit(ctx);
    assert_int_equal(stage_task(2).state, MUSTER_TASK_ERROR);
    assert_says(stage_task(2).message, "the agent through which it spoke is gone");
    stage_close();
}

STAGE_TEST(the_launcher_says_how_its_process_ended)
{
    struct mu_client g = {.task = 0, .incarnation = 1};
    int p;

    guests_open(2);
    p = stage_player(); /* that has not joined anything */
    g.pid = (uint32_t)stage_pid(p);
    assert_int_equal(guest_comes(&g), MUSTER_OK);
    g.task = 1;
    assert_int_equal(guest_comes(&g), MUSTER_OK);
    stage_kill(p);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED); /* that alone tells nobody anything */
    assert_int_equal(mu_task_process_ended(stage_observer, 0, g.pid + 1, SIGKILL, true), MUSTER_OK);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_CONNECTED);
    assert_int_equal(mu_task_process_ended(stage_observer, 0, g.pid, SIGKILL, true), MUSTER_OK);
    assert_int_equal(stage_task(0).state, MUSTER_TASK_ERROR);
    assert_int_equal(stage_task(0).cause, MUSTER_CAUSE_DIED);
    assert_string_equal(stage_task(0).message, "killed by signal 9 (Killed)");
    /* of the other one the connection went first */
    guest_is_lost(1, 1, "its connection was reset");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mu_task_process_ended(stage_observer, 1, g.pid, 3 << 8, true), MUSTER_OK);
        assert_string_equal(stage_task(1).message,
                            "exited with status 3 without leaving the job; before it: its connection was reset");
    }
    assert_int_equal(stage_task(1).cause, MUSTER_CAUSE_EXITED);
    stage_close();
}
