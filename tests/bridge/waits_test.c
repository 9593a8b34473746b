/*
 * tests/bridge/waits_test.c: who waits on any host, for a key or at a barrier, is told the name of the task that is in
 * error on another, with its pid and its host.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <muster/muster.h>

#include "child.h"
#include "crowd.h"

/* Task 1, on node1, is the culprit. These wait: on the leader's host, on the culprit's, on a third. */
enum { WAITERS = 3 };
static const struct hosts_config three = {.tasks = {1, 2, 1}};
static const uint32_t tasks[WAITERS] = {0, 2, 3};
static pid_t culprit, waiters[WAITERS];

static int told(struct muster *m, enum muster_status status)
{
    int32_t task = muster_task_id(m);

    snprintf(board->words[task], sizeof board->words[task], "%s", muster_last_error());
    return (int)status;
}

static int get_a_key(struct muster *m, void *arg)
{
    char value[8];
    size_t len;

    (void)arg;
    return told(m, muster_kv_get(m, "never/set", MUSTER_NTS, MUSTER_FOREVER, value, sizeof value, &len, NULL));
}

static int watch_a_key(struct muster *m, void *arg)
{
    char value[8];
    size_t len;

    (void)arg;
    return told(m, muster_kv_watch(m, "never/set", MUSTER_NTS, 0, MUSTER_FOREVER, value, sizeof value, &len, NULL));
}

static int meet(struct muster *m, void *arg)
{
    (void)arg;
    return told(m, muster_barrier_wait(m, "all", 0, NULL, 0, 0, MUSTER_FOREVER));
}

static int meet_some(struct muster *m, void *arg)
{
    static const int32_t some[] = {0, 1, 2, 3};

    (void)arg;
    return told(m, muster_barrier_wait(m, "some", 0, some, 4, 0, MUSTER_FOREVER));
}

struct wait {
    const char *what; /* as its task's row shows it */
    int (*fn)(struct muster *m, void *arg);
    enum muster_status status;
};
static const struct wait waits[] = {
    {"key never/set", get_a_key, MUSTER_UNAVAILABLE},
    {"key never/set", watch_a_key, MUSTER_UNAVAILABLE},
    {"barrier all", meet, MUSTER_INTERNAL},
    {"barrier some", meet_some, MUSTER_INTERNAL},
};

static bool all_wait(const struct wait *w)
{
    for (int i = 0; i < WAITERS; i++)
        if (!strstr(crowd_look((uint32_t)i, (int32_t)tasks[i]).waiting, w->what))
            return false;
    return true;
}

static void begin(const struct hosts_config *config, const struct wait *w)
{
    crowd_open(config);
    culprit = crowd_start(1);
    crowd_until_everywhere(1, MUSTER_TASK_CONNECTED, 1);
    for (int i = 0; i < WAITERS; i++)
        waiters[i] = hosts_task(h, tasks[i], w->fn, NULL);
    hosts_await(h, all_wait(w), "all wait for \"%s\" (task 0 for \"%s\", task 2 for \"%s\", task 3 for \"%s\")",
                w->what, crowd_look(0, 0).waiting, crowd_look(1, 2).waiting, crowd_look(2, 3).waiting);
}

/* All were told this of the culprit. */
static void expect(const struct wait *w, const char *why)
{
    char name[128];

    snprintf(name, sizeof name, "task 1 (pid %d on host node1)", (int)culprit);
    for (int i = 0; i < WAITERS; i++) {
        int status = hosts_reap(h, waiters[i]);
        const char *words = board->words[tasks[i]];

        if (status != (int)w->status || !strstr(words, name) || !strstr(words, why))
            fail_msg("waiting for %s, task %u got %d: %s", w->what, tasks[i], status, words);
    }
}

TEST(a_death_elsewhere_ends_waits)
{
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        begin(&three, &waits[i]);
        crowd_murder(culprit, 1);
        expect(&waits[i], "its process died");
        crowd_close();
    }
}

TEST(an_error_reported_from_a_third_host_does)
{
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        begin(&three, &waits[i]);
        assert_ok(muster_error_report(eyes[2], 1, MUSTER_ABORTED, "it computes nonsense"));
        expect(&waits[i], "it computes nonsense");
        crowd_end(culprit);
        crowd_close();
    }
}

/* Its host falls silent: who is with it learns that the leader is lost. */
TEST(the_loss_of_its_host_does)
{
    const struct hosts_config soon = {.tasks = {1, 2, 1}, .timeout_ns = 300000000};

    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        begin(&soon, &waits[i]);
        hosts_cut(h, 1);
        assert_int_equal(hosts_reap(h, waiters[1]), (int)MUSTER_UNAVAILABLE);
        if (!strstr(board->words[2], "host node0") || !strstr(board->words[2], "lost"))
            fail_msg("waiting for %s, task 2 was told: %s", waits[i].what, board->words[2]);
        for (int k = 0; k < WAITERS; k += 2) {
            int status = hosts_reap(h, waiters[k]);
            const char *words = board->words[tasks[k]];

            if (status != (int)waits[i].status || !strstr(words, " on host node1)") ||
                !strstr(words, "host node1 is lost"))
                fail_msg("waiting for %s, task %u got %d: %s", waits[i].what, tasks[k], status, words);
        }
        crowd_end(culprit);
        crowd_close();
    }
}

int main(void)
{
    return test_run(crowd_begin, NULL);
}
