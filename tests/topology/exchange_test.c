/*
 * tests/topology/exchange_test.c: exchanges of topologies between real processes: all get the same, what muster makes
 * of the same locals in one process; who is late is named, and of nonsense all are told.
 */
#include "exchanging.h"

#include <pthread.h>

#include "topology/exchange.h"

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

STAGE_TEST(all_get_the_same_whatever_their_number)
{
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

STAGE_TEST(exchanges_of_two_names_do_not_meet)
{
    struct exchange_act one[4], other[4];
    struct reply wanted, second;

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
STAGE_TEST(an_event_loop_speaks_for_tasks_of_others)
{
    struct exchange_act acts[3];
    struct reply wanted;
    void *bytes;
    size_t size;

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

STAGE_TEST(who_is_late_is_named_and_may_still_come)
{
    struct exchange_act acts[4];
    struct reply wanted, r;

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

STAGE_TEST(large_ones_arrive_whole)
{
    struct exchange_act acts[2];
    struct reply wanted, r;

    stage_open(2, NULL);
    stage_enter_all();
    for (int i = 0; i < 2; i++) {
        acts[i] = local("large", MUSTER_FORM_XLA, i, 1);
        acts[i].padding = 3000000 + (uint32_t)i;
    }
    wanted = expected(acts, 2);
    tell_and_wait(0, acts[0]);
    assert_same(ask(1, acts[1]), &wanted);
    assert_same(stage_hear(0), &wanted);
    acts[0].padding = MUSTER_VALUE_MAX;
    r = ask(0, acts[0]);
    assert_status(r, MUSTER_INVALID_ARGUMENT);
    assert_says(r.text, "is the most");
    stage_close();
}

/* The locals fit into the segment, the global topology does not. */
STAGE_TEST(a_full_segment_is_told_to_all)
{
    struct muster_segment_config config = {.num_buckets = 64, .num_events = 8, .heap_bytes = 4u << 20};
    struct exchange_act acts[3];

    stage_open(3, &config);
    stage_enter_all();
    for (int i = 0; i < 3; i++) {
        acts[i] = local("full", MUSTER_FORM_XLA, i, 1);
        acts[i].padding = 900000;
        if (i < 2)
            tell_and_wait(i, acts[i]);
    }
    assert_status(ask(2, acts[2]), MUSTER_RESOURCE_EXHAUSTED);
    assert_status(stage_hear(0), MUSTER_RESOURCE_EXHAUSTED);
    assert_status(stage_hear(1), MUSTER_RESOURCE_EXHAUSTED);
    stage_close();
}

STAGE_TEST(what_somebody_deletes_is_given_again)
{
    struct exchange_act acts[3];
    struct reply wanted;

    stage_open(3, NULL);
    stage_enter_all();
    for (int i = 0; i < 3; i++)
        acts[i] = local("deleted", MUSTER_FORM_XLA, i, 1);
    wanted = expected(acts, 3);
    tell_and_wait(0, acts[0]);
    tell_and_wait(1, acts[1]);
    assert_int_equal(muster_kv_delete(stage_observer, "muster/topology", MUSTER_NTS, NULL), MUSTER_OK);
    for (int i = 2; i >= 0; i--)
        assert_same(i == 2 ? ask(2, acts[2]) : stage_hear(i), &wanted);
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

STAGE_TEST(one_task_s_nonsense_is_told_to_all_in_the_same_words)
{
    struct exchange_act twice[3], bad[3], mixed[3];

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

STAGE_TEST(a_name_serves_once)
{
    struct exchange_act acts[2], other;
    struct reply wanted, r;

    stage_open(2, NULL);
    stage_enter_all();
    for (int i = 0; i < 2; i++)
        acts[i] = local("once", MUSTER_FORM_XLA, i, 1);
    other = local("once", MUSTER_FORM_XLA, 1, 2);
    wanted = expected(acts, 2);
    acts[1].patience_ns = 1;
    assert_status(ask(1, acts[1]), MUSTER_DEADLINE_EXCEEDED);
    acts[1].form = MUSTER_FORM_2020; /* the same bytes, and another message */
    assert_status(ask(1, acts[1]), MUSTER_FAILED_PRECONDITION);
    acts[1].form = MUSTER_FORM_XLA;
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
