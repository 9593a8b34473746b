/*
 * tests/bridge/meetings_test.c: named barriers and questions who is alive, over two and three hosts: the rules of
 * tests/coord/scenarios_test.c where hosts could make a difference.
 */
#include "cast.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "barrier/view.h"

static const struct hosts_config two = {.tasks = {2, 2}}, three = {.tasks = {1, 2, 1}};

TEST(nobody_is_released_before_the_last_of_three_hosts)
{
    cast_open(&three);
    cast_enter_all();
    for (uint64_t instance = 0; instance < 5; instance++) {
        uint32_t last = (uint32_t)instance % 4;

        for (uint32_t i = 0, n = 0; i < 4; i++)
            if (i != last) {
                cast_tell_wait(i, "b", instance ? MUSTER_BARRIER_NEXT : 0);
                cast_until_arrived("b", ++n);
            }
        for (uint32_t i = 0; i < 4; i++)
            assert_false(i != last && cast_has_answered(i));
        assert_reply(cast_do_wait(last, "b", instance), MUSTER_OK);
        for (uint32_t i = 0; i < 4; i++)
            if (i != last)
                assert_reply(cast_hear(i), MUSTER_OK);
    }
    cast_close();
}

static struct cast_act with(const char *id, int32_t x, int32_t y)
{
    struct cast_act a = cast_wait(id, 0);

    a.tasks[0] = x;
    a.tasks[1] = y;
    a.count = 2;
    return a;
}

TEST(different_lists_fail_it_for_all_also_when_all_are_on_one_host)
{
    struct cast_act a = with("b", 2, 3), b = with("b", 0, 2);
    struct cast_reply r;

    cast_open(&two);
    cast_enter_all();
    cast_tell(2, &a); /* both of the list are on host 1 */
    cast_until_arrived("b", 1);
    r = cast_do(0, &b); /* and this one uses the id elsewhere */
    assert_reply(r, MUSTER_INVALID_ARGUMENT);
    assert_in(r.text, "Conflicting tasks");
    assert_reply(cast_hear(2), MUSTER_INVALID_ARGUMENT);
    r = cast_do(3, &a); /* late, it hears the same */
    assert_reply(r, MUSTER_INVALID_ARGUMENT);
    assert_in(r.text, "Conflicting tasks");
    a = with("c", 2, 3);
    cast_tell(2, &a);
    cast_until_arrived("c", 1);
    b = cast_wait("c", 0);
    assert_reply(cast_do(3, &b), MUSTER_INVALID_ARGUMENT);
    assert_reply(cast_hear(2), MUSTER_INVALID_ARGUMENT);
    a = with("d", 2, 3);
    cast_tell(2, &a);
    cast_until_arrived("d", 1);
    r = cast_do(1, &a);
    assert_reply(r, MUSTER_INVALID_ARGUMENT);
    assert_in(r.text, "non-participating task");
    assert_reply(cast_hear(2), MUSTER_INVALID_ARGUMENT);
    a = with("e", 2, 4);
    r = cast_do(2, &a);
    assert_reply(r, MUSTER_INVALID_ARGUMENT);
    assert_in(r.text, "Unexpected task (4) that is not in the cluster");
    cast_close();
}

TEST(a_timeout_names_the_missing_and_is_the_same_for_all)
{
    struct cast_act a = cast_wait("b", 0);
    struct cast_reply r, q;

    cast_open(&two);
    cast_enter_all();
    a.timeout_ns = 400000000;
    cast_tell(2, &a);
    cast_until_arrived("b", 1);
    cast_tell(0, &a);
    r = cast_hear(2);
    q = cast_hear(0);
    assert_reply(r, MUSTER_DEADLINE_EXCEEDED);
    assert_reply(q, MUSTER_DEADLINE_EXCEEDED);
    assert_string_equal(r.text, q.text);
    assert_in(r.text, "The first task at the barrier: 2");
    assert_in(r.text, "/4");
    assert_in(r.text, "task 1 (pid");
    assert_in(r.text, "task 3 (pid");
    assert_in(r.text, "running, not at the barrier");
    q = cast_do(3, &a); /* the straggler's rule */
    assert_reply(q, MUSTER_DEADLINE_EXCEEDED);
    assert_string_equal(r.text, q.text);
    assert_reply(cast_do(3, &a), MUSTER_DEADLINE_EXCEEDED);
    cast_close();
}

TEST(counters_are_kept_across_hosts)
{
    struct cast_reply r;

    cast_open(&two);
    cast_enter_all();
    cast_tell_wait(2, "b", 0);
    cast_until_arrived("b", 1);
    r = cast_do_wait(3, "b", 1);
    assert_reply(r, MUSTER_INTERNAL);
    assert_in(r.text, "instance 0");
    assert_reply(cast_hear(2), MUSTER_INTERNAL);
    assert_reply(cast_do_wait(0, "b", 0), MUSTER_INTERNAL);
    r = cast_do_wait(2, "unknown", 7);
    assert_reply(r, MUSTER_INTERNAL);
    assert_in(r.text, "nobody has used this id yet");
    for (uint32_t i = 0; i < 4; i++)
        cast_tell_wait(i, "c", 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_reply(cast_hear(i), MUSTER_OK);
    assert_reply(cast_do_wait(3, "c", 0), MUSTER_OK); /* replayed */
    assert_reply(cast_do_wait(3, "c", 2), MUSTER_INTERNAL);
    assert_reply(cast_do_wait(2, "c", 0), MUSTER_OK); /* what passed stays so */
    cast_close();
}

TEST(cancelling_from_any_host_ends_the_waits)
{
    struct cast_act cancel = {.kind = CAST_CANCEL, .id = "b"};
    struct cast_reply r;

    cast_open(&two);
    cast_enter_all();
    cast_tell_wait(0, "b", 0);
    cast_tell_wait(2, "b", 0);
    cast_until_arrived("b", 2);
    assert_reply(cast_do(3, &cancel), MUSTER_OK);
    r = cast_hear(0);
    assert_reply(r, MUSTER_CANCELLED);
    assert_in(r.text, "cancelled by task 3");
    assert_reply(cast_hear(2), MUSTER_CANCELLED);
    r = cast_do(3, &cancel);
    assert_reply(r, MUSTER_FAILED_PRECONDITION);
    assert_in(r.text, "already been passed");
    assert_reply(cast_do_wait(1, "b", 0), MUSTER_CANCELLED);
    assert_reply(cast_do_wait(3, "b", 0), MUSTER_CANCELLED);
    cancel.counter = 3;
    assert_reply(cast_do(2, &cancel), MUSTER_FAILED_PRECONDITION);
    snprintf(cancel.id, sizeof cancel.id, "unused");
    cancel.counter = MUSTER_BARRIER_NEXT;
    assert_reply(cast_do(2, &cancel), MUSTER_OK);
    assert_reply(cast_do_wait(2, "unused", 0), MUSTER_CANCELLED);
    cast_close();
}

TEST(a_death_on_either_host_fails_it_with_the_name)
{
    for (uint32_t victim = 1; victim < 4; victim += 2) {
        struct cast_reply r, q;
        char name[32];

        cast_open(&two);
        cast_enter_all();
        snprintf(name, sizeof name, "task %u (pid %d", victim, (int)cast_pid(victim));
        cast_tell_wait(0, "b", 0);
        cast_tell_wait(2, "b", 0);
        cast_tell_wait(victim, "b", 0); /* it had come, and dies all the same */
        cast_until_arrived("b", 3);
        cast_kill(victim);
        r = cast_hear(0);
        q = cast_hear(2);
        assert_reply(r, MUSTER_INTERNAL);
        assert_in(r.text, name);
        assert_string_equal(r.text, q.text);
        cast_close();
    }
}

TEST(a_lost_host_fails_it_and_a_lost_leader_ends_the_calls)
{
    struct cast_reply r;

    cast_open(&three);
    cast_enter_all();
    cast_tell_wait(0, "b", 0);
    cast_tell_wait(1, "b", 0);
    cast_tell_wait(3, "b", 0);
    cast_until_arrived("b", 3);
    hosts_cut(cast_hosts, 1); /* whose task 2 has not come */
    hosts_lose(cast_hosts, 0, 1, "it has been silent for 10 s");
    r = cast_hear(0);
    assert_reply(r, MUSTER_INTERNAL);
    assert_in(r.text, "Barrier failed because: task ");
    assert_in(r.text, "is lost");
    assert_string_equal(cast_hear(3).text, r.text);
    assert_false(cast_has_answered(1)); /* it cannot know yet */
    hosts_lose(cast_hosts, 1, 0, "it has been silent for 10 s");
    r = cast_hear(1);
    assert_reply(r, MUSTER_UNAVAILABLE);
    assert_in(r.text, "barrier b::0: the leader of the job, host ");
    cast_close();
}

TEST(a_recoverable_task_may_die_and_come_again)
{
    cast_open(&two);
    for (uint32_t i = 0; i < 4; i++)
        cast_enter(i, i == 3 ? MUSTER_JOIN_RECOVERABLE : 0);
    cast_tell_wait(0, "b", 0);
    cast_tell_wait(1, "b", 0);
    cast_tell_wait(3, "b", 0);
    cast_until_arrived("b", 3);
    cast_kill(3);
    cast_until_arrived("b", 2);
    assert_false(cast_has_answered(0));
    cast_enter(3, MUSTER_JOIN_RECOVERABLE);
    cast_tell_wait(3, "b", 0);
    cast_until_arrived("b", 3);
    assert_reply(cast_do_wait(2, "b", 0), MUSTER_OK);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2)
            assert_reply(cast_hear(i), MUSTER_OK);
    cast_close();
}

TEST(who_gives_up_is_told_by_its_next_call)
{
    struct cast_act a = cast_wait("b", MUSTER_BARRIER_NEXT);

    cast_open(&two);
    cast_enter_all();
    a.patience_ns = 1;
    for (int i = 0; i < 3; i++) /* the arrival stands, and is one */
        assert_reply(cast_do(2, &a), MUSTER_DEADLINE_EXCEEDED);
    cast_until_arrived("b", 1);
    a.patience_ns = 100000000;
    assert_reply(cast_do(2, &a), MUSTER_DEADLINE_EXCEEDED);
    cast_until_arrived("b", 1);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2)
            cast_tell_wait(i, "b", 0);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2)
            assert_reply(cast_hear(i), MUSTER_OK);
    a.patience_ns = 0;
    assert_reply(cast_do(2, &a), MUSTER_OK); /* instance 0, which it had not heard of */
    cast_tell(2, &a);
    cast_until_arrived("b", 1); /* and now instance 1 */
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2)
            cast_tell_wait(i, "b", 1);
    for (uint32_t i = 0; i < 4; i++)
        assert_reply(cast_hear(i), MUSTER_OK);
    cast_close();
}

TEST(an_interrupt_ends_the_wait)
{
    cast_open(&two);
    cast_enter_all();
    cast_tell_wait(2, "b", 0);
    cast_until_arrived("b", 1);
    cast_interrupt(2);
    assert_reply(cast_hear(2), MUSTER_CANCELLED);
    cast_close();
}

TEST(a_hosts_own_barrier_never_leaves_it)
{
    char id[64] = MUSTER_BARRIER_HOST "b";
    struct cast_act a = with(id, 0, 2);
    uint64_t calls;
    struct cast_reply r;

    cast_open(&two);
    cast_enter_all();
    calls = hosts_frames(cast_hosts, 1, MU_FRAME_CALL);
    for (uint64_t i = 0; i < 3; i++) {
        cast_tell_wait(2, id, i);
        assert_reply(cast_do_wait(3, id, i), MUSTER_OK);
        assert_reply(cast_hear(2), MUSTER_OK);
    }
    cast_tell_wait(1, id, 0); /* the other host has one of that name, at its instance 0 */
    assert_reply(cast_do_wait(0, id, 0), MUSTER_OK);
    assert_reply(cast_hear(1), MUSTER_OK);
    assert_int_equal(hosts_frames(cast_hosts, 1, MU_FRAME_CALL), calls);
    r = cast_do(2, &a);
    assert_reply(r, MUSTER_INVALID_ARGUMENT);
    assert_in(r.text, "task 0 is on another host");
    cast_close();
}

static struct cast_act alive(uint32_t count)
{
    struct cast_act a = {.kind = CAST_ALIVE, .count = count};

    for (uint32_t i = 0; i < count; i++)
        a.tasks[i] = (int32_t)i;
    return a;
}

static void assert_alive(const struct cast_reply *r, const int32_t *tasks, uint32_t count)
{
    assert_reply(*r, MUSTER_OK);
    assert_int_equal(r->count, count);
    for (uint32_t i = 0; i < count; i++) {
        struct muster_task_info info;

        assert_ok(muster_task_get(cast_leader, tasks[i], &info));
        assert_int_equal(r->tasks[i], tasks[i]);
        assert_int_equal(r->incarnations[i], info.incarnation);
    }
}

TEST(who_is_alive_is_agreed_across_hosts)
{
    static const int32_t all[] = {0, 1, 2, 3}, without[] = {0, 2, 3};
    struct cast_act a = alive(4), b = alive(2);
    struct cast_reply r;

    cast_open(&two);
    cast_enter_all();
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 4; i++)
            cast_tell(i, &a);
        for (uint32_t i = 0; i < 4; i++) {
            r = cast_hear(i);
            assert_alive(&r, all, 4);
        }
    }
    for (uint32_t i = 0; i < 4; i++)
        if (i != 1)
            cast_tell(i, &a);
    cast_kill(1); /* then it is not waited for */
    for (uint32_t i = 0; i < 4; i++)
        if (i != 1) {
            r = cast_hear(i);
            assert_alive(&r, without, 3);
        }
    assert_reply(cast_do(3, &b), MUSTER_INVALID_ARGUMENT); /* it is not among them */
    a.patience_ns = 1;
    assert_reply(cast_do(3, &a), MUSTER_DEADLINE_EXCEEDED);
    cast_close();
}

struct sighting {
    struct muster *m;
    bool waiting; /* or passed */
    bool seen;
};

static bool is_seen(struct sighting *s)
{
    struct mu_barrier_view *list;
    size_t count;

    s->seen = false;
    assert_ok(mu_barrier_view_list(s->m, &list, &count));
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i].id, "b") && (list[i].state == MU_VIEW_WAITING) == s->waiting) {
            s->seen = true;
            assert_int_equal(list[i].participants, 4);
            if (s->waiting) {
                s->seen = list[i].arrived == 2;
                if (s->seen) {
                    assert_int_equal(list[i].missing[0], 1);
                    assert_int_equal(list[i].missing[1], 3);
                    assert_true(list[i].deadline_ns > list[i].since_ns && list[i].deadline_ns < MUSTER_FOREVER);
                }
            } else {
                assert_int_equal(list[i].code, MUSTER_OK);
            }
        }
    mu_barrier_view_free(list, count);
    return s->seen;
}

TEST(every_host_sees_who_is_missing)
{
    struct sighting s = {.waiting = true};
    struct cast_act a = cast_wait("b", 0);

    cast_open(&two);
    s.m = hosts_observer(cast_hosts, 1);
    cast_enter_all();
    a.timeout_ns = 600000000000u;
    cast_tell(0, &a);
    cast_until_arrived("b", 1);
    cast_tell(2, &a);
    hosts_await(cast_hosts, is_seen(&s), "the barrier is seen");
    hosts_cut(cast_hosts, 1);
    hosts_join(cast_hosts, 1); /* what it sees is made anew */
    hosts_await(cast_hosts, is_seen(&s), "the barrier is seen");
    cast_tell(1, &a);
    cast_tell(3, &a);
    for (uint32_t i = 0; i < 4; i++)
        assert_reply(cast_hear(i), MUSTER_OK);
    s.waiting = false;
    hosts_await(cast_hosts, is_seen(&s), "the barrier is seen");
    assert_ok(muster_leave(s.m));
    cast_close();
}
