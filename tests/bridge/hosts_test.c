/* tests/bridge/hosts_test.c: the hosts of a test do what they promise: calls go to the leader and back, under
 * cuts, deaths of agents, and stepped. */
#include "cm.h"
#include "child.h"
#include "hosts.h"
#include "segment/host_view.h"
#include "segment/remote.h"

#include <string.h>
#include <signal.h>

/* One call whose answer proves that the leader was asked. */
static enum muster_status ask_leader(struct muster *m, enum mu_op op)
{
    struct mu_remote_call call = {.op = op, .deadline = muster_after_ns(60000000000u), .what = "the leader"};
    struct mu_answer answer;
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(m, &ctx);

    if (status)
        return status;
    status = mu_remote_call(m, ctx, &call, &answer);
    mu_answer_done(&answer);
    mu_exit(ctx);
    return status;
}

static int ask_often(struct muster *m, void *arg)
{
    for (int n = *(int *)arg; n; n--)
        CHECK(ask_leader(m, MU_OP_SYNC) == MUSTER_OK);
    CHECK(ask_leader(m, (enum mu_op)60) == MUSTER_UNIMPLEMENTED);
    return 0;
}

TEST(calls_go_to_the_leader_and_back)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 2, HOSTS_NONE, 1}});
    int often = 200;
    pid_t pids[3];

    assert_int_equal(hosts_count(h), 4);
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = hosts_task(h, i + 1, ask_often, &often);
    for (int i = 0; i < 3; i++)
        assert_int_equal(hosts_reap(h, pids[i]), 0);
    /* a first call may be sent twice: found by the connection that comes up, and again by its bit */
    assert_in_range(hosts_frames(h, 1, MU_FRAME_CALL), 402, 404);
    assert_int_equal(hosts_frames(h, 2, MU_FRAME_CALL), 0);
    assert_int_equal(hosts_close(h), 0);
}

TEST(agents_that_die_are_replaced_and_calls_go_on)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}});
    struct test_random r = {test_seed()};
    int often = 500;
    pid_t pid = hosts_task(h, 1, ask_often, &often);

    for (int i = 0; i < 40; i++) {
        uint32_t host = (uint32_t)test_below(&r, 2);

        switch (test_below(&r, 4)) {
        case 0: hosts_cut(h, 1); break;
        case 1: hosts_kill(h, host); break;
        case 2: hosts_kill_after(h, host, (uint32_t)test_below(&r, 20)); break;
        default: hosts_cut_after(h, 1, (uint32_t)test_below(&r, 20)); break;
        }
        hosts_mend(h);
    }
    assert_int_equal(hosts_reap(h, pid), 0);
    assert_int_equal(hosts_close(h), 0);
}

TEST(stepped_agents_do_nothing_by_themselves)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true});
    struct test_random r = {test_seed()};
    struct mu_host_view view;
    int often = 3;
    pid_t pid;

    hosts_settle(h, &r); /* before there is a call that it could carry out */
    pid = hosts_task(h, 1, ask_often, &often);
    test_until_asleep(pid); /* it has called, and waits */
    assert_int_equal(hosts_frames(h, 1, MU_FRAME_CALL), 0);
    while (!hosts_frames(h, 1, MU_FRAME_CALL))
        hosts_step(h, 1);
    mu_host_look(hosts_segment(h, 1), 1, &view);
    assert_int_equal(view.asking, 1);
    hosts_cut(h, 1); /* the call is lost */
    hosts_settle(h, &r);
    assert_int_equal(hosts_frames(h, 0, MU_FRAME_ANSWER), 0);
    hosts_join(h, 1);
    hosts_settle(h, &r);
    assert_int_equal(hosts_reap(h, pid), 0);
    mu_host_look(hosts_segment(h, 1), 1, &view);
    assert_int_equal(view.asking, 0);
    assert_int_equal(hosts_close(h), 0);
}

TEST(calls_end_when_the_leader_is_lost)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .apart = true});
    struct muster *m = hosts_observer(h, 1);

    hosts_lose(h, 1, 0, "it has been silent");
    assert_status(MUSTER_UNAVAILABLE, ask_leader(m, MU_OP_SYNC));
    assert_says("the leader of the job");
    assert_ok(muster_leave(m));
    assert_int_equal(hosts_close(h), 0);
}

TEST(a_bad_frame_breaks_the_connection_with_a_sentence)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true});
    uint8_t zeros[64] = {0};
    char why[700];

    hosts_settle(h, NULL);
    hosts_inject(h, 1, 0, MU_FRAME_CALL, zeros, sizeof zeros);
    hosts_settle(h, NULL);
    hosts_dropped(h, why);
    assert_non_null(strstr(why, "host node1 sent a CALL frame (64 bytes) that is not well formed: call 0 of slot 0"));
    hosts_join(h, 1);
    hosts_settle(h, NULL);
    hosts_inject(h, 1, 0, MU_FRAME_ANSWER, zeros, sizeof zeros);
    hosts_settle(h, NULL);
    hosts_dropped(h, why);
    assert_non_null(strstr(why, "that only a leader sends"));
    hosts_inject(h, 1, 0, 200, zeros, 1); /* not connected now */
    hosts_settle(h, NULL);
    hosts_dropped(h, why);
    assert_non_null(strstr(why, "host node1 is down"));
    assert_int_equal(hosts_close(h), 0);
}
