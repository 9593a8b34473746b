/*
 * tests/bridge/shortcut_stop_test.c: barriers of two hosts by datagrams between tasks, some of which go by the agents,
 * with data: what a member gives is there for all; and tasks and agents that are stopped anywhere, and go on.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

#include "barrier/group.h"
#include "child.h"
#include "gang.h"

static struct test_random dice;

static void dawdle(uint64_t most)
{
    for (volatile uint64_t i = test_below(&dice, most); i; i--)
        ;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 2000 };

/*
 * The broadcast of who has patience without end: commits, asks the agents, and looks for datagrams until its host may
 * pass. The root's host passes by its agents, and is perhaps at the next instance while what it gave is on its way.
 */
static uint64_t listen_for(struct muster_group *g, uint64_t n, uint32_t root)
{
    mu_area_arrive(g->mine, n);
    mu_span_arrived(g, n);
    for (int i = 0; i < 1000 && g->end.committed < n; i++)
        mu_shortcut_turn(g, n);
    mu_shortcut_ask(g, n);
    while (!mu_has_arrived(mu_load_acquire(&g->proxy->arrived), n)) /* acquire: as the members in collective.c */
        mu_shortcut_turn(g, n);
    atomic_store(&g->instance, n);
    return mu_load_relaxed(&g->areas[root]->data[n & 1]); /* relaxed: the proxy has arrived */
}

static int broadcast_now_and_then(struct muster *m, void *arg)
{
    uint32_t own = (uint32_t)muster_task_id(m);
    struct muster_group *g;

    (void)arg;
    CHECK(!muster_group_create(m, "g", NULL, 0, 8, muster_after_ms(50000), &g));
    for (uint64_t n = 1; n <= ROUNDS; n++) {
        uint32_t root = (uint32_t)(n / 2 % 2);
        uint64_t data = root == own ? n : 0;

        if (n % 2)
            CHECK(!muster_group_barrier(g, muster_after_ms(50000)));
        else if (root != own && g->end.is_live)
            data = listen_for(g, n, root);
        else
            CHECK(!muster_group_broadcast(g, root, &data, sizeof data, muster_after_ms(50000)));
        if (n % 2 == 0 && data != n) {
            printf("instance %d: %d from member %u\n", (int)n, (int)data, root);
            fflush(stdout);
            return 3;
        }
    }
    muster_group_free(g);
    return 0;
}

TEST(what_one_gives_is_there_for_who_passes)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .latency = true, .shortcuts = true});
    pid_t pids[2];

    for (uint32_t i = 0; i < 2; i++)
        pids[i] = hosts_task(h, i, broadcast_now_and_then, NULL);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_int_equal(hosts_close(h), 0);
}

/* ---- who is stopped ---------------------------------------------------------------------------------------------- */

/* By chance, the same for nobody: none, or one. */
static unsigned uncertain(uint64_t instance)
{
    return (unsigned)((instance * 2654435761u) >> 13 ^ (uint64_t)getpid()) & 1;
}

struct goal {
    uint32_t count;
    uint64_t wanted;
};

static bool has_gone_on(const struct goal *goal)
{
    for (uint32_t i = 0; i < goal->count; i++)
        if (gang->places[i].last_ok < goal->wanted)
            return false;
    return true;
}

static void let_stop(uint32_t there, unsigned (*fate)(uint64_t instance))
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {2, there}, .latency = true, .shortcuts = true});
    struct gang_work w = {.name = "g", .count = 2 + there, .data_bytes = 256, .rounds = 4000, .kind = GANG_BARRIER};
    pid_t pids[GANG_MAX];

    mu_shortcut_fate = fate;
    for (uint32_t i = 0; i < w.count; i++)
        w.tasks[i] = (int32_t)i;
    gang_wipe();
    for (uint32_t i = 0; i < w.count; i++)
        pids[i] = hosts_task(h, i, gang_member, &w);
    for (uint64_t goal = 1; goal < w.rounds; goal += 40) {
        pid_t victim = pids[test_below(&dice, w.count)];
        uint32_t agent = (uint32_t)test_below(&dice, 4);
        struct goal g = {w.count, goal};

        kill(victim, SIGSTOP);
        if (agent < 2)
            hosts_pause(h, agent);
        dawdle(3000000);
        if (test_below(&dice, 2))
            kill(victim, SIGCONT);
        dawdle(1000000);
        if (agent < 2)
            hosts_resume(h, agent);
        kill(victim, SIGCONT);
        hosts_await(h, has_gone_on(&g), "the group goes on");
    }
    for (uint32_t i = 0; i < w.count; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    assert_int_equal(hosts_close(h), 0);
    mu_shortcut_fate = NULL;
}

TEST(who_is_stopped_and_goes_on_changes_nothing)
{
    let_stop(2, NULL);
    let_stop(1, uncertain);
}

int main(void)
{
    dice = (struct test_random){test_seed()};
    return test_run(NULL, NULL);
}
