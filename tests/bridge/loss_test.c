/*
 * tests/bridge/loss_test.c: hosts that do not come back, records that come late or twice, and what is not well formed.
 * Stepped, with the agents' clock in the test's hands.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bridge/core/records.h"
#include "child.h"
#include "crowd.h"
#include "segment/cluster.h"
#include "segment/hosts.h"

#define SECOND 1000000000ull
static struct test_random r;
static pid_t pids[4];

/* Task i on host i, and all know it. */
static void begin(uint32_t tasks)
{
    struct hosts_config config = {.stepped = true, .timeout_ns = 10 * SECOND};

    for (uint32_t i = 0; i < tasks; i++)
        config.tasks[i] = 1;
    crowd_open(&config);
    for (uint32_t i = 0; i < tasks; i++)
        pids[i] = crowd_start(i);
    for (uint32_t i = 0; i < tasks; i++)
        crowd_until_everywhere((int32_t)i, MUSTER_TASK_CONNECTED, 1);
    hosts_settle(h, &r);
}

static void finish(void)
{
    for (uint32_t i = 0; i < hosts_count(h); i++)
        if (pids[i])
            crowd_end(pids[i]);
    crowd_close();
}

/* Time goes by in steps in which everybody is awake. */
static void pass(uint64_t ns)
{
    for (uint64_t step = SECOND; ns; ns -= step) {
        step = step < ns ? step : ns;
        hosts_pass(h, step);
        hosts_settle(h, &r);
    }
}

static void expect(uint32_t host, int32_t task, enum muster_task_state state, const char *message)
{
    struct muster_task_info info = crowd_look(host, task);

    if (info.state != state || strcmp(info.message, message))
        fail_msg("on host %u task %d is in state %d: \"%s\"", host, task, info.state, info.message);
    if (state == MUSTER_TASK_ERROR) {
        assert_int_equal(info.cause, MUSTER_CAUSE_HEARTBEAT);
        assert_int_equal(info.error, MUSTER_UNAVAILABLE);
        assert_false(info.alive);
    }
}

static uint64_t host_state(uint32_t at, uint32_t host)
{
    return mu_load_relaxed(&eyes[at]->seg->hosts[host].state); /* relaxed: the agents rest */
}

#define LOST_1 "host node1 is lost: nothing was heard of it for 10.0 s"
#define LOST_0 "host node0 is lost: nothing was heard of it for 10.0 s"

static void expect_1_lost(void)
{
    for (uint32_t host = 0; host < 3; host += 2) { /* everywhere but there */
        expect(host, 1, MUSTER_TASK_ERROR, LOST_1);
        assert_int_equal(host_state(host, 1), MU_HOST_LOST);
        expect(host, 0, MUSTER_TASK_CONNECTED, "");
        expect(host, 2, MUSTER_TASK_CONNECTED, "");
    }
}

static void expect_0_lost(uint32_t at)
{
    for (uint32_t task = 0; task < 3; task++)
        if (task != at)
            expect(at, (int32_t)task, MUSTER_TASK_ERROR, LOST_0);
    expect(at, (int32_t)at, MUSTER_TASK_CONNECTED, "");
    assert_int_equal(host_state(at, 0), MU_HOST_LOST);
    assert_int_equal(mu_host_bridge_state(eyes[at]->seg), MU_BRIDGE_LOST);
}

TEST(a_host_that_is_cut_off_for_the_timeout_is_lost_to_all)
{
    char why[700];

    begin(3);
    hosts_cut(h, 1);
    pass(9 * SECOND);
    assert_int_equal(host_state(0, 1), MU_HOST_DOWN);
    assert_int_equal(host_state(2, 1), MU_HOST_DOWN);
    for (uint32_t host = 0; host < 3; host++)
        for (int32_t task = 0; task < 3; task++)
            expect(host, task, MUSTER_TASK_CONNECTED, "");
    pass(2 * SECOND);
    expect_1_lost();
    expect_0_lost(1);
    assert_status(MUSTER_UNAVAILABLE, muster_task_reset(eyes[1], 2));
    assert_says("the reset of task 2 on host node2: the leader of the job, host node0, is lost");
    hosts_join(h, 1); /* too late */
    hosts_settle(h, &r);
    hosts_dropped(h, why);
    assert_non_null(strstr(why, " is lost"));
    expect_1_lost();
    finish();
}

TEST(a_host_that_comes_back_in_time_is_not)
{
    uint64_t versions[3];

    begin(3);
    for (uint32_t i = 0; i < 3; i++)
        versions[i] = crowd_version(i);
    for (int i = 0; i < 3; i++) { /* each break counts by itself */
        hosts_cut(h, 1);
        pass(9 * SECOND);
        hosts_join(h, 1);
        hosts_settle(h, &r);
        assert_int_equal(host_state(2, 1), MU_HOST_UP);
    }
    pass(60 * SECOND);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(crowd_version(i), versions[i]);
    finish();
}

TEST(silence_counts_from_when_a_host_was_last_heard_of)
{
    struct mu_core *core;
    uint64_t now;

    begin(3);
    pass(60 * SECOND); /* nothing to say, but the link hears heartbeats */
    core = hosts_lock(h, 0);
    now = core->now;
    mu_core_heard(core, 1, now);
    mu_core_heard(core, 2, now);
    hosts_unlock(h, 0);
    pass(4 * SECOND);
    hosts_cut(h, 1); /* so the link found, after 4 s of silence */
    hosts_settle(h, &r);
    pass(5 * SECOND);
    expect(0, 1, MUSTER_TASK_CONNECTED, "");
    pass(2 * SECOND);
    expect(0, 1, MUSTER_TASK_ERROR, LOST_1);
    pass(20 * SECOND);
    hosts_cut(h, 2); /* and this one after 33 s: there is still half the time to come back in */
    pass(4 * SECOND);
    expect(0, 2, MUSTER_TASK_CONNECTED, "");
    hosts_join(h, 2);
    pass(20 * SECOND);
    expect(0, 2, MUSTER_TASK_CONNECTED, "");
    finish();
}

TEST(who_was_late_himself_grants_a_period)
{
    begin(3);
    hosts_cut(h, 1);
    hosts_settle(h, &r);
    hosts_pass(h, 3600 * SECOND); /* everybody was stopped */
    hosts_settle(h, &r);
    expect(0, 1, MUSTER_TASK_CONNECTED, "");
    expect(1, 0, MUSTER_TASK_CONNECTED, "");
    pass(9 * SECOND);
    expect(0, 1, MUSTER_TASK_CONNECTED, "");
    pass(2 * SECOND);
    expect_1_lost();
    expect_0_lost(1);
    finish();
}

TEST(an_agent_that_is_not_replaced_is_a_lost_host)
{
    begin(3);
    hosts_kill(h, 1);
    pass(9 * SECOND);
    expect(2, 1, MUSTER_TASK_CONNECTED, "");
    pass(2 * SECOND);
    expect_1_lost();
    hosts_mend(h); /* its successor is refused, and finds that out */
    pass(11 * SECOND);
    expect_0_lost(1);
    finish();
}

TEST(the_leaders_agent_that_is_not_replaced_ends_the_job)
{
    begin(3);
    hosts_kill(h, 0);
    pass(11 * SECOND);
    expect_0_lost(1);
    expect_0_lost(2);
    expect(0, 1, MUSTER_TASK_CONNECTED, ""); /* nobody looks there */
    finish();
}

TEST(a_new_leaders_agent_knows_who_was_there)
{
    begin(3);
    hosts_kill(h, 0);
    hosts_kill(h, 1);
    pass(5 * SECOND);
    hosts_start(h, 0);
    pass(9 * SECOND);
    expect(0, 1, MUSTER_TASK_CONNECTED, "");
    pass(2 * SECOND);
    expect_1_lost();
    hosts_kill(h, 0); /* the next one remembers whom this one gave up */
    hosts_mend(h);
    pass(11 * SECOND);
    expect_1_lost();
    expect_0_lost(1);
    finish();
}

TEST(a_host_that_leaves_in_order_is_told_so)
{
    begin(3);
    crowd_end(pids[1]);
    pids[1] = 0;
    crowd_until_everywhere(1, MUSTER_TASK_DISCONNECTED, 1);
    hosts_lose(h, 0, 1, MU_CORE_LEFT);
    hosts_settle(h, &r);
    for (uint32_t host = 0; host < 3; host += 2) {
        expect(host, 1, MUSTER_TASK_DISCONNECTED, "");
        assert_int_equal(host_state(host, 1), MU_HOST_LEFT);
    }
    finish();
}

/* ---- records that come late, or twice ---- */

static void pack_record(struct mu_pack *p, uint32_t task, uint64_t version, uint32_t state, const char *text)
{
    const struct mu_said said = {.task = task,
                                 .version = version,
                                 .state = state,
                                 .cause = state == MUSTER_TASK_ERROR ? MUSTER_CAUSE_REPORTED : MUSTER_CAUSE_NONE,
                                 .code = state == MUSTER_TASK_ERROR ? MUSTER_ABORTED : MUSTER_OK,
                                 .pid = 4711,
                                 .attempt = 1,
                                 .incarnation = 7,
                                 .text = text,
                                 .text_len = strlen(text)};
    struct mu_records_out out;

    mu_records_begin(&out, p);
    mu_records_add(&out, &said, task + 1);
}

static void inject(uint32_t from, uint32_t to, uint32_t task, uint64_t version, uint32_t state)
{
    struct mu_pack p = {0};

    mu_pack_u64(&p, 0);
    pack_record(&p, task, version, state, "");
    hosts_inject(h, from, to, MU_FRAME_RECORDS, p.bytes, p.len);
    mu_pack_done(&p);
    hosts_settle(h, &r);
}

TEST(an_error_is_not_undone_by_who_does_not_know_it)
{
    struct mu_core *core;
    uint64_t version;

    begin(3);
    hosts_cut(h, 1);
    hosts_settle(h, &r);
    assert_ok(muster_error_report(eyes[0], 1, MUSTER_ABORTED, "nonsense"));
    hosts_settle(h, &r);
    assert_int_equal(crowd_look(2, 1).state, MUSTER_TASK_ERROR);
    assert_int_equal(crowd_look(1, 1).state, MUSTER_TASK_CONNECTED);
    hosts_join(h, 1); /* it says that the task is connected, and is told better */
    hosts_settle(h, &r);
    for (uint32_t host = 0; host < 3; host++) {
        struct muster_task_info info = crowd_look(host, 1);

        assert_int_equal(info.state, MUSTER_TASK_ERROR);
        assert_string_equal(info.message, "nonsense");
        assert_int_equal(info.error, MUSTER_ABORTED);
        assert_int_equal(info.pid, pids[1]);
    }
    /* what was said before comes again, late: to the leader, and to the third host */
    inject(1, 0, 1, 1, MUSTER_TASK_CONNECTED);
    inject(1, 0, 1, 1000, MUSTER_TASK_CONNECTED); /* however new it says that it is */
    inject(0, 2, 1, 1, MUSTER_TASK_CONNECTED);
    inject(0, 2, 1, 1000, MUSTER_TASK_CONNECTED);
    assert_int_equal(crowd_look(0, 1).state, MUSTER_TASK_ERROR);
    assert_int_equal(crowd_look(2, 1).state, MUSTER_TASK_ERROR);
    /* and what is current comes twice */
    core = hosts_lock(h, 0);
    assert_non_null(core);
    hosts_unlock(h, 0);
    version = crowd_version(0);
    hosts_cut(h, 1);
    hosts_cut(h, 2);
    hosts_mend(h);
    hosts_settle(h, &r);
    assert_int_equal(crowd_version(0), version);
    finish();
}

TEST(a_death_is_not_overwritten_by_an_error_reported_meanwhile)
{
    begin(3);
    hosts_cut(h, 1);
    hosts_settle(h, &r);
    crowd_murder(pids[1], 1);
    pids[1] = 0;
    assert_ok(muster_error_report(eyes[0], 1, MUSTER_ABORTED, "it does not answer"));
    hosts_settle(h, &r);
    assert_string_equal(crowd_look(2, 1).message, "it does not answer");
    hosts_join(h, 1);
    hosts_settle(h, &r);
    for (uint32_t host = 0; host < 3; host++) { /* the task's own host has the first word */
        assert_int_equal(crowd_look(host, 1).cause, MUSTER_CAUSE_DIED);
        assert_string_equal(crowd_look(host, 1).message, "its process died");
    }
    finish();
}

TEST(all_agree_on_the_first_error)
{
    begin(3);
    hosts_cut(h, 1);
    hosts_cut(h, 2);
    hosts_settle(h, &r);
    crowd_murder(pids[1], 1);
    crowd_murder(pids[2], 2);
    pids[1] = pids[2] = 0;
    assert_ok(muster_error_wait(eyes[1], 0, &board->error));
    assert_int_equal(board->error.task_id, 1);
    hosts_join(h, 2);
    hosts_settle(h, &r);
    hosts_join(h, 1);
    hosts_settle(h, &r);
    for (uint32_t host = 0; host < 3; host++) {
        assert_ok(muster_error_wait(eyes[host], 0, &board->error));
        assert_int_equal(board->error.task_id, 2); /* as the leader heard them */
    }
    finish();
}

/* ---- the hosts ---- */

TEST(every_host_knows_the_others)
{
    char name[64], expected[16];

    begin(4);
    mu_store_relaxed(&eyes[0]->seg->hosts[2].rtt, 123456); /* relaxed: as the link measures it, the agents rest */
    pass(5 * SECOND);
    for (uint32_t at = 0; at < 4; at++)
        for (uint32_t host = 0; host < 4; host++) {
            struct mu_host *entry = &eyes[at]->seg->hosts[host];

            mu_host_name(eyes[at]->seg, host, name, sizeof name);
            snprintf(expected, sizeof expected, "node%u", host);
            assert_string_equal(name, expected);
            assert_int_equal(host_state(at, host), MU_HOST_UP);
            assert_int_equal(mu_load_relaxed(&entry->agent_pid), getpid()); /* relaxed: as above */
            if (host == 2 && at != 2)
                assert_int_equal(mu_load_relaxed(&entry->rtt), 123456); /* relaxed: as above */
        }
    finish();
}

/* ---- what is not well formed ---- */

struct bad_record {
    uint32_t from, to, task;
    uint64_t version, first_error;
    uint32_t state;
    const char *text;
    size_t cut;
    const char *why;
};

TEST(bad_records_break_the_connection)
{
    static char long_text[MU_TEXT_MAX + 1];
    const struct bad_record bad[] = {
        {1, 0, 0, 1, 0, 1, "", 0, "the record of task 0 is not its to tell"},
        {1, 0, 2, 1, 0, 1, "", 0, "the record of task 2 is not its to tell"},
        {1, 0, 9, 1, 0, 1, "", 0, "the record of task 9 is not its to tell"},
        {0, 1, 1, 1, 0, 1, "", 0, "the record of task 1 is not its to tell"},
        {1, 0, 1, 0, 0, 1, "", 0, "the record of task 1 cannot be"},
        {1, 0, 1, 1, 0, 3, "", 0, "the record of task 1 cannot be"},
        {1, 0, 1, 1, 2, 1, "", 0, "task 1 cannot be the first in error"},
        {0, 1, 0, 1, 4, 1, "", 0, "task 3 cannot be the first in error"},
        {1, 0, 1, 1, 0, 1, "text", 1, "the record of task 1 is cut off"},
        {1, 0, 1, 1, 0, 1, long_text, 0, "the record of task 1 is cut off"},
    };
    char why[700];

    memset(long_text, 'x', MU_TEXT_MAX);
    begin(3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct bad_record *b = &bad[i];
        struct mu_pack p = {0};

        mu_pack_u64(&p, b->first_error);
        pack_record(&p, b->task, b->version, b->state, b->text);
        hosts_inject(h, b->from, b->to, MU_FRAME_RECORDS, p.bytes, p.len - b->cut);
        mu_pack_done(&p);
        hosts_settle(h, &r);
        hosts_dropped(h, why);
        if (!strstr(why, "sent a RECORDS frame") || !strstr(why, b->why))
            fail_msg("frame %zu gave \"%s\"", i, why);
        hosts_mend(h);
        hosts_settle(h, &r);
    }
    for (uint32_t host = 0; host < 3; host++)
        for (int32_t task = 0; task < 3; task++)
            expect(host, task, MUSTER_TASK_CONNECTED, "");
    finish();
}

TEST(bad_words_about_hosts_and_errands_do_too)
{
    struct mu_pack p = {0};
    char why[700];

    begin(3);
    for (uint32_t i = 0; i < 3; i++) { /* of another host; of none; in a state that there is not */
        mu_pack_reset(&p);
        mu_pack_var(&p, i == 0 ? 2 : i == 1 ? 77 : 1);
        mu_pack_u8(&p, i == 2 ? 9 : 1);
        for (int k = 0; k < 5; k++)
            mu_pack_var(&p, 0);
        mu_pack_u8(&p, 1);
        mu_pack_raw(&p, "x", 1);
        hosts_inject(h, 1, 0, MU_FRAME_HOSTS, p.bytes, p.len);
        hosts_settle(h, &r);
        hosts_dropped(h, why);
        assert_non_null(strstr(why, "what it says of host "));
        hosts_mend(h);
        hosts_settle(h, &r);
    }
    mu_pack_reset(&p);
    for (int k = 0; k < 64; k++)
        mu_pack_u8(&p, 0);
    hosts_inject(h, 0, 1, MU_FRAME_TO_OWNER, p.bytes, p.len);
    hosts_settle(h, &r);
    hosts_dropped(h, why);
    assert_non_null(strstr(why, "op 0 for task 0 cannot be"));
    hosts_mend(h);
    mu_pack_done(&p);
    finish();
}

int main(void)
{
    r.state = test_seed();
    return test_run(crowd_begin, NULL);
}
