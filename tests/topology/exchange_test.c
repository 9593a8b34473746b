/*
 * tests/topology/exchange_test.c: exchanges of topologies between real processes: all get the same, what muster makes
 * of the same locals in one process; and whoever dies, leaves, is late or gives nonsense, nobody hangs and all are
 * told.
 */
#include "stage.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed.h"
#include "topology/exchange.h"

enum { FOREVER = 0, BYTES_MAX = 400 };

struct exchange_act {
    char name[64];
    enum muster_topology_form form;
    uint32_t size;
    uint64_t patience_ns; /* FOREVER, or that long; 1: not at all */
    uint8_t bytes[BYTES_MAX];
};

/* A local topology, written by hand: the id, today also a boot id, and so many devices. Ids below 128. */
static struct exchange_act local(const char *name, enum muster_topology_form form, int id, int devices)
{
    struct exchange_act a = {.form = form};
    uint8_t *p = a.bytes;

    snprintf(a.name, sizeof a.name, "%s", name);
    *p++ = 0x08;
    *p++ = (uint8_t)id;
    if (form == MUSTER_FORM_XLA) {
        *p++ = 0x12;
        *p++ = 1;
        *p++ = (uint8_t)('a' + id % 3); /* three hosts, in turn */
    }
    for (int i = 0; i < devices; i++) {
        *p++ = form == MUSTER_FORM_XLA ? 0x1a : 0x12;
        *p++ = 2;
        *p++ = 0x08;
        *p++ = (uint8_t)i;
    }
    a.size = (uint32_t)(p - a.bytes);
    return a;
}

/* What one process makes of all of them. */
static struct reply expected(const struct exchange_act *acts, size_t count)
{
    struct reply r = {0};
    const void *locals[64];
    size_t sizes[64];
    void *bytes;

    for (size_t i = 0; i < count; i++) {
        locals[i] = acts[i].bytes;
        sizes[i] = acts[i].size;
    }
    r.status = (int)muster_topology_global(acts[0].form, locals, sizes, count, &bytes, &r.len);
    if (r.status) {
        snprintf(r.text, sizeof r.text, "%s", muster_last_error());
        return r;
    }
    assert_true(r.len > 0 && r.len <= sizeof r.data);
    memcpy(r.data, bytes, r.len);
    free(bytes);
    return r;
}

static int act_exchange(void *arg, struct reply *reply)
{
    const struct exchange_act *a = arg;
    void *bytes;
    int status = (int)muster_topology_exchange(me, a->name[0] ? a->name : NULL, a->form, a->bytes, a->size,
                                               a->patience_ns ? muster_after_ns(a->patience_ns) : MUSTER_FOREVER,
                                               &bytes, &reply->len);

    if (status) {
        reply->len = 0;
        return status;
    }
    if (reply->len > sizeof reply->data)
        return MUSTER_OUT_OF_RANGE;
    memcpy(reply->data, bytes, reply->len);
    free(bytes);
    return MUSTER_OK;
}

static void tell(int player, struct exchange_act a)
{
    stage_tell(player, act_exchange, &a, sizeof a);
}

static struct reply ask(int player, struct exchange_act a)
{
    return stage_do(player, act_exchange, &a, sizeof a);
}

static void tell_and_wait(int player, struct exchange_act a)
{
    tell(player, a);
    stage_until_waiting(player, "topology exchange");
}

/* Killed, and everybody knows. */
static void kill_task(int player, int32_t task)
{
    stage_kill(player);
    muster_scavenge(stage_observer, NULL);
    stage_until_state(task, MUSTER_TASK_ERROR);
}

static void assert_same(struct reply got, const struct reply *wanted)
{
    assert_status(got, wanted->status);
    assert_int_equal(got.len, wanted->len);
    assert_memory_equal(got.data, wanted->data, wanted->len);
}

/* ---- it works ---------------------------------------------------------------------------------------------------- */

static void all_play(uint32_t tasks, enum muster_topology_form form)
{
    struct exchange_act acts[64];
    struct reply wanted;

    stage_open(tasks, NULL);
    stage_enter_all();
    for (uint32_t i = 0; i < tasks; i++)
        acts[i] = local("", form, (int)(tasks - 1 - i), (int)(i % 4)); /* ids need not be those of the tasks */
    wanted = expected(acts, tasks);
    for (uint32_t i = 0; i < tasks; i++)
        tell((int)i, acts[i]);
    for (uint32_t i = 0; i < tasks; i++)
        assert_same(stage_hear((int)i), &wanted);
    for (uint32_t i = 0; i < tasks; i += 7) /* the same once more */
        assert_same(ask((int)i, acts[i]), &wanted);
    stage_close();
}

static void all_get_the_same_whatever_their_number(void **state)
{
    (void)state;
    all_play(1, MUSTER_FORM_XLA);
    all_play(1, MUSTER_FORM_2020);
    all_play(2, MUSTER_FORM_XLA);
    all_play(5, MUSTER_FORM_2020);
    all_play(64, MUSTER_FORM_XLA);
}

struct two_names {
    struct exchange_act acts[2];
};
struct one_thread {
    struct exchange_act *act;
    struct reply reply;
};

static void *exchange_thread(void *arg)
{
    struct one_thread *t = arg;

    t->reply.status = act_exchange(t->act, &t->reply);
    return NULL;
}

/* Both at once, from two threads; the answers' bytes one behind the other. */
static int act_two(void *arg, struct reply *reply)
{
    struct two_names *two = arg;
    static struct one_thread threads[2];
    pthread_t ids[2];

    for (int i = 0; i < 2; i++) {
        threads[i] = (struct one_thread){.act = &two->acts[i]};
        if (pthread_create(&ids[i], NULL, exchange_thread, &threads[i]))
            return MUSTER_INTERNAL;
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(ids[i], NULL);
        if (threads[i].reply.status)
            return threads[i].reply.status;
        memcpy(reply->data + reply->len, threads[i].reply.data, threads[i].reply.len);
        reply->len += threads[i].reply.len;
    }
    return MUSTER_OK;
}

static void exchanges_of_two_names_do_not_meet(void **state)
{
    struct exchange_act one[4], other[4];
    struct reply wanted, second;

    (void)state;
    stage_open(4, NULL);
    stage_enter_all();
    for (int i = 0; i < 4; i++) {
        one[i] = local("cuda", MUSTER_FORM_XLA, i, 2);
        other[i] = local("cpu", MUSTER_FORM_2020, 3 - i, 1);
        stage_tell(i, act_two, &(struct two_names){{one[i], other[i]}}, sizeof(struct two_names));
    }
    wanted = expected(one, 4);
    second = expected(other, 4);
    memcpy(wanted.data + wanted.len, second.data, second.len);
    wanted.len += second.len;
    for (int i = 0; i < 4; i++)
        assert_same(stage_hear(i), &wanted);
    stage_close();
}

/* As a front-end does it: one process, without a task of its own, speaks for all, and never waits. */
static void an_event_loop_speaks_for_tasks_of_others(void **state)
{
    struct exchange_act acts[3];
    struct reply wanted;
    void *bytes;
    size_t size;

    (void)state;
    stage_open(3, NULL);
    for (int i = 0; i < 3; i++)
        acts[i] = local("loop", MUSTER_FORM_2020, i, 2);
    wanted = expected(acts, 3);
    for (int i = 0; i < 6; i++) {
        int task = i % 3;
        enum muster_status status = mu_topology_exchange(stage_observer, task, 77, "loop", acts[task].form,
                                                         acts[task].bytes, acts[task].size, 1, &bytes, &size);

        if (i < 2) {
            assert_int_equal(status, MUSTER_DEADLINE_EXCEEDED);
            continue;
        }
        assert_int_equal(status, MUSTER_OK);
        assert_int_equal(size, wanted.len);
        assert_memory_equal(bytes, wanted.data, size);
        free(bytes);
    }
    assert_int_equal(mu_topology_exchange(stage_observer, 3, 77, "loop", 0, "", 0, 1, &bytes, &size),
                     MUSTER_INVALID_ARGUMENT);
    assert_int_equal(muster_topology_exchange(stage_observer, "loop", 0, "", 0, 1, &bytes, &size),
                     MUSTER_FAILED_PRECONDITION);
    stage_close();
}

/* ---- somebody does not come -------------------------------------------------------------------------------------- */

static void who_is_late_is_named_and_may_still_come(void **state)
{
    struct exchange_act acts[4];
    struct reply wanted, r;

    (void)state;
    stage_open(4, NULL);
    for (int i = 0; i < 3; i++)
        stage_enter(i, 0);
    for (int i = 0; i < 4; i++)
        acts[i] = local("late", MUSTER_FORM_XLA, i, 1);
    wanted = expected(acts, 4);
    acts[0].patience_ns = 30000000;
    r = ask(0, acts[0]);
    assert_status(r, MUSTER_DEADLINE_EXCEEDED);
    assert_says(r.text, "topology exchange late: the deadline passed, and 3 of 4 tasks are missing; task 1 (pid ");
    assert_says(r.text, "): running, has not come to the exchange; task 2 (pid ");
    assert_says(r.text, "; task 3: never joined");
    acts[0].patience_ns = FOREVER;
    tell(1, acts[1]);
    tell(2, acts[2]);
    stage_enter(3, 0);
    assert_same(ask(3, acts[3]), &wanted); /* what 0 gave stands, though it waits no more */
    assert_same(stage_hear(1), &wanted);
    assert_same(stage_hear(2), &wanted);
    assert_same(ask(0, acts[0]), &wanted);
    stage_close();
}

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

static void who_dies_leaves_or_is_in_error_ends_it_for_all_by_name(void **state)
{
    (void)state;
    ends_before_it_came(DIES);
    ends_before_it_came(LEAVES);
    ends_before_it_came(REPORTS);
}

/* What has been exchanged can be had also when its givers are gone. */
static void the_outcome_outlives_those_who_made_it(void **state)
{
    struct exchange_act acts[3];
    struct reply wanted;

    (void)state;
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

/* ---- nonsense ---------------------------------------------------------------------------------------------------- */

/* The same INVALID_ARGUMENT for all three, now and ever. */
static void all_are_told(struct exchange_act acts[3], const char *sentence)
{
    struct reply r;

    stage_open(3, NULL);
    stage_enter_all();
    for (int i = 0; i < 3; i++)
        tell(i, acts[i]);
    for (int i = 0; i < 6; i++) {
        r = i < 3 ? stage_hear(i) : ask(i - 3, acts[i - 3]);
        assert_status(r, MUSTER_INVALID_ARGUMENT);
        assert_string_equal(r.text, sentence);
    }
    stage_close();
}

static void one_task_s_nonsense_is_told_to_all_in_the_same_words(void **state)
{
    struct exchange_act twice[3], bad[3], mixed[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        twice[i] = bad[i] = mixed[i] = local("n", MUSTER_FORM_XLA, i, 1);
    twice[2] = local("n", MUSTER_FORM_XLA, 0, 1);
    all_are_told(twice, "process id 0 is given twice, by local topologies 0 and 2, and 2 is missing");
    bad[1].size--;
    all_are_told(bad, "local topology 1 (8 bytes) is no LocalTopologyProto of the form of today's XLA: damaged, or of "
                      "the other form");
    mixed[1] = local("n", MUSTER_FORM_2020, 1, 1);
    all_are_told(mixed, "topology exchange n: task 0 gave the form of today's XLA, task 1 that of 2020");
}

static void a_name_serves_once(void **state)
{
    struct exchange_act acts[2], other;
    struct reply wanted, r;

    (void)state;
    stage_open(2, NULL);
    stage_enter_all();
    for (int i = 0; i < 2; i++)
        acts[i] = local("once", MUSTER_FORM_XLA, i, 1);
    other = local("once", MUSTER_FORM_XLA, 1, 2);
    wanted = expected(acts, 2);
    acts[1].patience_ns = 1;
    assert_status(ask(1, acts[1]), MUSTER_DEADLINE_EXCEEDED);
    for (int i = 0; i < 2; i++) {
        r = ask(1, other); /* before and after the outcome */
        assert_status(r, MUSTER_FAILED_PRECONDITION);
        assert_says(r.text, "topology exchange once: task 1 has given another local topology before");
        assert_same(ask(0, acts[0]), &wanted);
        assert_same(ask(1, acts[1]), &wanted);
    }
    r = ask(0, local("on/ce", MUSTER_FORM_XLA, 0, 1));
    assert_status(r, MUSTER_INVALID_ARGUMENT);
    assert_says(r.text, "without '/', not \"on/ce\"");
    assert_status(ask(0, local("..", MUSTER_FORM_XLA, 0, 1)), MUSTER_INVALID_ARGUMENT);
    stage_close();
}

/* ---- processes that are replaced --------------------------------------------------------------------------------- */

/* It gave something and died before anybody was told; its successor gives what it likes. */
static void a_successor_gives_anew_until_somebody_was_told(void **state)
{
    struct exchange_act acts[3];
    struct reply wanted, r;
    int successor;

    (void)state;
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

static void nobody_hangs_whoever_is_killed_at_whatever_moment(void **state)
{
    struct test_random r = {test_seed()};
    const char *said = getenv("TEST_CASES");
    int rounds = said ? (int)strtol(said, NULL, 0) : 40;
    unsigned told = 0;

    (void)state;
    for (int i = 0; i < rounds; i++)
        kill_one_at_random(&r, i % 2, &told);
    printf("%d rounds, %u survivors had the topology\n", rounds, told);
}

#define TEST(f) cmocka_unit_test_teardown(f, stage_strike)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_get_the_same_whatever_their_number),
        TEST(exchanges_of_two_names_do_not_meet),
        TEST(an_event_loop_speaks_for_tasks_of_others),
        TEST(who_is_late_is_named_and_may_still_come),
        TEST(who_dies_leaves_or_is_in_error_ends_it_for_all_by_name),
        TEST(the_outcome_outlives_those_who_made_it),
        TEST(one_task_s_nonsense_is_told_to_all_in_the_same_words),
        TEST(a_name_serves_once),
        TEST(a_successor_gives_anew_until_somebody_was_told),
        TEST(nobody_hangs_whoever_is_killed_at_whatever_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
