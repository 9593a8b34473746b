/*
 * tests/bridge/exchange_test.c: topologies are exchanged between tasks of several hosts: all get the same bytes, or the
 * same fault, whoever comes last, and also when connections break meanwhile.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/muster.h>

#include "child.h"
#include "hosts.h"

enum { TASKS = 5 };
static const struct hosts_config config = {.tasks = {2, 2, 1}};

struct gift {
    const char *name;
    enum muster_topology_form form; /* of task 4; the others give MUSTER_FORM_XLA */
    int last;                       /* the task that comes when all others wait */
    enum muster_status expected;
};

static void result_key(char key[64], const char *name, int32_t task)
{
    snprintf(key, 64, "result/%s/%d", name, task);
}

/* A task with two devices and an id of its own: field 1 the id, field 2 the boot id, field 3 each device. */
static int give(struct muster *m, void *arg)
{
    const struct gift *g = arg;
    int32_t task = muster_task_id(m);
    const uint8_t local[] = {0x08, (uint8_t)task, 0x12, 1, (uint8_t)('a' + task / 2), 0x1a, 2, 0x08, 0, 0x1a,
                             2,    0x08,          1};
    enum muster_topology_form form = task == 4 ? g->form : MUSTER_FORM_XLA;
    muster_deadline patience = muster_after_ns(50000000000u);
    char key[64];
    void *global = NULL;
    size_t size = 0, here = 0;
    enum muster_status status;

    if (task == g->last)
        while (here < TASKS - 1)
            CHECK(muster_kv_count(m, "came", MUSTER_NTS, &here) == MUSTER_OK);
    snprintf(key, sizeof key, "came/%d", task);
    CHECK(muster_kv_set(m, key, MUSTER_NTS, "", 0, NULL) == MUSTER_OK);
    status = muster_topology_exchange(m, g->name, form, local, sizeof local, patience, &global, &size);
    if (status != g->expected)
        printf("task %d: %s\n", task, status ? muster_last_error() : "no fault");
    CHECK(status == g->expected);
    if (status) { /* a fault is told in the same words to all */
        global = strdup(muster_last_error());
        size = strlen(global);
    } else { /* the same once more changes nothing; another is refused */
        void *again;
        size_t more;

        CHECK(muster_topology_exchange(m, g->name, form, local, sizeof local, patience, &again, &more) == MUSTER_OK);
        CHECK(more == size && !memcmp(again, global, size));
        free(again);
        CHECK(muster_topology_exchange(m, g->name, form, local, sizeof local - 4, patience, &again, &more) ==
              MUSTER_FAILED_PRECONDITION);
    }
    result_key(key, g->name, task);
    CHECK(muster_kv_set(m, key, MUSTER_NTS, global, size, NULL) == MUSTER_OK);
    free(global);
    return 0;
}

/* All have got the same bytes. */
static void assert_one_result(struct hosts *h, const char *name)
{
    struct muster *m = hosts_observer(h, 0);
    void *first = NULL, *other;
    size_t len = 0, more;
    char key[64];

    for (int32_t i = 0; i < TASKS; i++) {
        result_key(key, name, i);
        assert_ok(muster_kv_get_alloc(m, key, MUSTER_NTS, 0, i ? &other : &first, i ? &more : &len, NULL));
        if (!i)
            continue;
        assert_int_equal(more, len);
        assert_memory_equal(other, first, len);
        free(other);
    }
    assert_true(len > 20);
    free(first);
    muster_leave(m);
}

static void exchange(struct gift *g, bool faults)
{
    struct hosts *h = hosts_open(&config);
    pid_t pids[TASKS];

    for (uint32_t i = 0; i < TASKS; i++)
        pids[i] = hosts_task(h, i, give, g);
    for (int i = 0; faults && i < 6; i++) {
        uint32_t host = 1 + (uint32_t)i % 2;

        hosts_cut(h, host);
        hosts_join(h, host);
    }
    if (faults) {
        hosts_kill(h, 1);
        hosts_start(h, 1);
    }
    for (uint32_t i = 0; i < TASKS; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_one_result(h, g->name);
    assert_int_equal(hosts_close(h), 0);
}

TEST(test_all_get_the_same)
{
    for (int last = 0; last < TASKS; last += 2) { /* one of each host */
        struct gift g = {"one", MUSTER_FORM_XLA, last, MUSTER_OK};

        exchange(&g, false);
    }
}

TEST(test_a_fault_is_everybodys)
{
    struct gift g = {"mixed", MUSTER_FORM_2020, 2, MUSTER_INVALID_ARGUMENT};

    exchange(&g, false);
}

/* Whoever was to make the outcome has died: the turns are taken, and nothing is there. */
TEST(test_the_next_has_a_turn)
{
    struct gift g = {"turns", MUSTER_FORM_XLA, 4, MUSTER_OK};
    struct hosts *h = hosts_open(&config);
    struct muster *m = hosts_observer(h, 0);
    pid_t pids[TASKS];

    for (int turn = 0; turn < 2; turn++) {
        char key[64];

        snprintf(key, sizeof key, "muster/topology/turns/turn/%d", turn);
        assert_ok(muster_kv_insert(m, key, MUSTER_NTS, "", 0));
    }
    for (uint32_t i = 0; i < TASKS; i++)
        pids[i] = hosts_task(h, i, give, &g);
    for (uint32_t i = 0; i < TASKS; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_one_result(h, g.name);
    muster_leave(m);
    assert_int_equal(hosts_close(h), 0);
}

TEST(test_broken_connections_change_nothing)
{
    struct gift g = {"broken", MUSTER_FORM_XLA, -1, MUSTER_OK};

    exchange(&g, true);
}

static int alone(struct muster *m, void *arg)
{
    const uint8_t local[] = {0x08, 2};
    void *global;
    size_t size;

    (void)arg;
    CHECK(muster_topology_exchange(m, "alone", MUSTER_FORM_XLA, local, sizeof local, muster_after_ns(30000000), &global,
                                   &size) == MUSTER_DEADLINE_EXCEEDED);
    CHECK(strstr(muster_last_error(), "4 of 5 tasks are missing"));
    return 0;
}

TEST(test_the_deadline_counts_the_missing)
{
    struct hosts *h = hosts_open(&config);

    assert_int_equal(hosts_reap(h, hosts_task(h, 2, alone, NULL)), 0);
    assert_int_equal(hosts_close(h), 0);
}
