/* tests/bridge/lanes_test.c: calls that an agent makes for others: what they answer, how they are dropped, asked again
 * and lost, and that nothing of them is left at the leader. Faults are lanes_faults_test.c's. */
#include "lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/named_steps.h"
#include "bridge/call/calls.h"
#include "job.h"
#include "kv/remote.h"
#include "segment/cluster.h"

/* Hosts that are slow because this machine is are not given up. */
#define PATIENCE_NS 600000000000u

static struct hosts *open_hosts(bool stepped)
{
    return hosts_open(&(struct hosts_config){.tasks = {1, 2}, .stepped = stepped, .timeout_ns = PATIENCE_NS});
}

static bool nothing_left(const struct caller *c)
{
    struct left left = left_at_leader(c->h, c->host);

    return !left.open && !left.waiters && !left.unsettled;
}

static void end(struct caller *c)
{
    struct hosts *h = c->h;

    lanes_await(c, nothing_left(c), "the leader has nothing left of our calls");
    assert_int_equal(mu_lanes_open(c->lanes), 0);
    caller_end(c);
    assert_int_equal(hosts_close(h), 0);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

enum { MANY = 400 };

static bool all_answered(const struct question *q)
{
    for (int i = 0; i < MANY; i++)
        if (!q[i].answers)
            return false;
    return true;
}

static void many_at_once(struct caller *c)
{
    static struct question q[MANY];
    bool seen[MANY + 1] = {false};

    memset(q, 0, sizeof q);
    for (int i = 0; i < MANY; i++) {
        question_add(&q[i], "n", 1);
        assert_ok(mu_lanes_ask(c->lanes, &q[i].call));
        assert_int_equal(q[i].answers, 0); /* never before it is taken */
    }
    lanes_await(c, all_answered(q), "all are answered");
    for (int i = 0; i < MANY; i++) {
        struct mu_unpack u = mu_unpack_of(q[i].bytes, q[i].len);
        uint64_t n = mu_unpack_u64(&u);

        assert_int_equal(q[i].status, MUSTER_OK);
        assert_string_equal(q[i].text, "");
        assert_true(mu_unpack_end(&u) && n >= 1 && n <= MANY && !seen[n]);
        seen[n] = true;
        question_done(&q[i]);
    }
}

TEST(each_call_is_answered_once_with_what_is_its)
{
    struct caller c;
    uint64_t n;
    struct question q = {.answers = 0};

    caller_begin(&c, open_hosts(false), 1);
    many_at_once(&c);
    question_add(&q, "n", 1); /* lanes are used again */
    assert_status(MUSTER_OK, caller_do(&c, &q, &n));
    assert_int_equal(n, MANY + 1);
    question_append(&q, "n", "x");
    assert_status(MUSTER_OK, caller_do(&c, &q, NULL));
    question_add(&q, "n", 1);
    assert_status(MUSTER_FAILED_PRECONDITION, caller_do(&c, &q, NULL));
    assert_non_null(strstr(q.text, "n"));
    print_message("%s\n", q.text);
    question_done(&q);
    end(&c);
}

/* A name that is not a number's, as the leader's own task is told. */
TEST(a_copy_is_there_before_its_answer)
{
    struct caller c;
    struct question q = {.answers = 0};
    struct muster *m;
    char found[8];
    size_t len;

    caller_begin(&c, open_hosts(false), 1);
    m = hosts_observer(c.h, 0);
    assert_ok(muster_kv_set(m, "key", MUSTER_NTS, "value", 5, NULL));
    assert_ok(muster_leave(m));
    question_get(&q, "key", 0, 0);
    assert_status(MUSTER_OK, caller_do(&c, &q, NULL));
    assert_int_equal(q.bytes[0], MU_READ_COPIED);
    m = hosts_observer(c.h, 1);
    hosts_cut(c.h, 1);
    assert_ok(muster_kv_try_get(m, "key", MUSTER_NTS, found, sizeof found, &len, NULL));
    assert_int_equal(len, 5);
    assert_ok(muster_leave(m));
    hosts_join(c.h, 1);
    question_done(&q);
    end(&c);
}

/* ---- large ones -------------------------------------------------------------------------------------------------- */

enum { LARGE = 10, LARGE_BYTES = 8 << 20 };

static bool all_large_answered(const struct question *q)
{
    for (int i = 0; i < LARGE; i++)
        if (!q[i].answers)
            return false;
    return true;
}

/* More than may be on the way at a time, there and back. */
TEST(large_ones_take_turns)
{
    struct muster_segment_config config = {.heap_bytes = 256u << 20};
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .timeout_ns = PATIENCE_NS, .segment = config});
    static struct question q[LARGE];
    uint8_t *value = malloc(LARGE_BYTES);
    struct caller c;

    assert_non_null(value);
    caller_begin(&c, h, 1);
    for (int i = 0; i < LARGE; i++) {
        memset(value, 'a' + i, LARGE_BYTES);
        question_set(&q[i], "large", value, LARGE_BYTES);
        assert_ok(mu_lanes_ask(c.lanes, &q[i].call));
        assert_int_equal(q[i].call.request.len, 0);
    }
    lanes_await(&c, all_large_answered(q), "all are written");
    for (int i = 0; i < LARGE; i++) {
        assert_int_equal(q[i].status, MUSTER_OK);
        question_get(&q[i], "large", MU_READ_WHOLE, 0);
        assert_ok(mu_lanes_ask(c.lanes, &q[i].call));
    }
    lanes_await(&c, all_large_answered(q), "all are read");
    for (int i = 0; i < LARGE; i++) {
        assert_int_equal(q[i].status, MUSTER_OK);
        assert_int_equal(q[i].bytes[0], MU_READ_VALUE);
        assert_int_equal(q[i].len, 17 + LARGE_BYTES);
        assert_memory_equal(q[i].bytes + 17, value, LARGE_BYTES);
        question_done(&q[i]);
    }
    free(value);
    end(&c);
}

/* Answers that nobody takes: no more of them come than may be unacknowledged. */
TEST(answers_that_are_not_taken_are_bounded)
{
    struct muster_segment_config config = {.heap_bytes = 256u << 20};
    struct hosts *h = hosts_open(
        &(struct hosts_config){.tasks = {1, 1}, .stepped = true, .timeout_ns = PATIENCE_NS, .segment = config});
    static struct question q[LARGE];
    uint8_t *value = calloc(1, LARGE_BYTES);
    struct caller c;
    struct muster *m = hosts_observer(h, 0);

    assert_non_null(value);
    hosts_settle(h, NULL);
    assert_ok(muster_kv_set(m, "large", MUSTER_NTS, value, LARGE_BYTES, NULL));
    caller_begin(&c, h, 1);
    for (int i = 0; i < LARGE; i++) {
        question_get(&q[i], "large", MU_READ_WHOLE, 0);
        assert_ok(mu_lanes_ask(c.lanes, &q[i].call));
    }
    for (int i = 0; i < 50; i++) {
        hosts_settle(h, NULL);
        hosts_pass(h, LATER_NS + 1);
        assert_true(left_at_leader(h, 1).unsettled <= WINDOW);
    }
    assert_true(mu_lanes_open(c.lanes) >= LARGE - WINDOW / LARGE_BYTES);
    for (int i = 0; i < LARGE / 2; i++) { /* some of them will not be taken at all */
        mu_lanes_drop(c.lanes, &q[i].call);
        question_done(&q[i]);
        q[i].answers = 1;
    }
    for (int i = 0; i < 1000 && !all_large_answered(q); i++) {
        mu_lanes_take(c.lanes);
        hosts_settle(h, NULL);
        hosts_pass(h, LATER_NS + 1);
    }
    assert_true(all_large_answered(q));
    for (int i = LARGE / 2; i < LARGE; i++) {
        assert_int_equal(q[i].status, MUSTER_OK);
        assert_int_equal(q[i].len, 17 + LARGE_BYTES);
        question_done(&q[i]);
    }
    hosts_pass(h, 2 * ACK_NS);
    free(value);
    assert_ok(muster_leave(m));
    end(&c);
}

/* ---- given up ---------------------------------------------------------------------------------------------------- */

/* Whether it was on its way or not: its lane goes to the next, who is not given its answer. */
TEST(a_dropped_call_answers_nobody)
{
    struct question q = {.answers = 0}, next = {.answers = 0};
    struct hosts *h = open_hosts(true);
    struct caller c;
    uint32_t lane;
    uint64_t n;

    hosts_settle(h, NULL);
    caller_begin(&c, h, 1);
    for (uint32_t steps = 0; steps < 12; steps++) {
        question_add(&q, "dropped", 1);
        assert_ok(mu_lanes_ask(c.lanes, &q.call));
        lane = q.call.lane;
        for (uint32_t i = 0; i < steps; i++) {
            hosts_step(h, i % 2 ? 0 : 1);
            hosts_step(h, i % 2 ? 0 : 1);
        }
        mu_lanes_drop(c.lanes, &q.call);
        mu_lanes_drop(c.lanes, &q.call); /* again: nothing */
        assert_int_equal(q.call.lane, 0);
        question_add(&next, "next", 1);
        assert_ok(mu_lanes_ask(c.lanes, &next.call));
        assert_int_equal(next.call.lane, lane);
        caller_await(&c, &next);
        assert_int_equal(next.answers, 1);
        assert_int_equal(q.answers, 0);
    }
    question_add(&next, "next", 1);
    assert_status(MUSTER_OK, caller_do(&c, &next, &n));
    assert_int_equal(n, 13);
    question_done(&q);
    question_done(&next);
    end(&c);
}

/* A task of this host, in this process; and what a call says of it. */
static void question_meet(struct question *q, struct muster *m, const char *id, uint32_t name, enum mu_op op)
{
    struct mu_call call = {.name = name, .untold = MU_CALLS_NONE, .all = true, .asked = MUSTER_BARRIER_NEXT};
    struct mu_task_record r;
    struct mu_cluster cluster;

    question_add(q, "", 0);
    mu_pack_reset(&q->call.request);
    mu_barrier_call_pack(&q->call.request, id, &call);
    assert_int_equal(mu_cluster_task(m->seg, (uint32_t)m->task_id, &r, NULL, &cluster), 0);
    q->call.op = op;
    q->call.task = (uint32_t)m->task_id + 1;
    q->call.attempt = r.attempt;
    q->call.flags = m->flags;
    q->call.incarnation = m->incarnation;
}

/* Both tasks of host 1 wait through lanes; one gives up and comes again; then the leader's comes. */
TEST(barriers_are_waited_at_and_given_up)
{
    struct question a = {.answers = 0}, b = {.answers = 0};
    struct muster *one, *two, *own;
    struct caller c;

    caller_begin(&c, open_hosts(false), 1);
    own = test_join(hosts_name(c.h, 0), 0, 0);
    one = test_join(hosts_name(c.h, 1), 1, 0);
    two = test_join(hosts_name(c.h, 1), 2, 0);
    assert_true(own && one && two);
    question_meet(&a, one, "b", 0, MU_OP_BARRIER_WAIT);
    question_meet(&b, two, "b", 0, MU_OP_BARRIER_WAIT);
    assert_ok(mu_lanes_ask(c.lanes, &a.call));
    assert_ok(mu_lanes_ask(c.lanes, &b.call));
    lanes_await(&c, left_at_leader(c.h, 1).waiters == 2, "both wait");
    question_meet(&b, two, "b", 0, MU_OP_BARRIER_GIVE_UP);
    assert_ok(mu_lanes_again(c.lanes, &b.call));
    caller_await(&c, &b);
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.status, MUSTER_OK);
    assert_int_equal(b.bytes[8], 1); /* it would still wait */
    assert_int_equal(left_at_leader(c.h, 1).waiters, 1);
    question_meet(&b, two, "b", 1, MU_OP_BARRIER_WAIT);
    assert_ok(mu_lanes_ask(c.lanes, &b.call));
    lanes_await(&c, left_at_leader(c.h, 1).waiters == 2, "both wait again");
    assert_ok(muster_barrier_wait(own, "b", MUSTER_BARRIER_NEXT, NULL, 0, 0, MUSTER_FOREVER));
    caller_await(&c, &a);
    caller_await(&c, &b);
    assert_int_equal(a.status, MUSTER_OK);
    assert_int_equal(b.status, MUSTER_OK);
    question_done(&a);
    question_done(&b);
    assert_ok(muster_leave(own));
    assert_ok(muster_leave(one));
    assert_ok(muster_leave(two));
    end(&c);
}

/* A call that waits at the leader for long, and an agent that dies with it. */
TEST(what_a_dead_agent_asked_is_ended_by_the_next)
{
    struct question a = {.answers = 0}, b = {.answers = 0};
    struct muster *one, *two;
    struct caller c;
    uint64_t n;

    caller_begin(&c, open_hosts(false), 1);
    one = test_join(hosts_name(c.h, 1), 1, 0);
    two = test_join(hosts_name(c.h, 1), 2, 0);
    assert_true(one && two);
    question_meet(&a, one, "b", 0, MU_OP_BARRIER_WAIT);
    question_meet(&b, two, "b", 0, MU_OP_BARRIER_WAIT);
    assert_ok(mu_lanes_ask(c.lanes, &a.call));
    assert_ok(mu_lanes_ask(c.lanes, &b.call));
    lanes_await(&c, left_at_leader(c.h, 1).waiters == 2, "both wait");
    hosts_kill(c.h, 1);
    caller_await(&c, &a); /* the lanes outlive their core, and say so */
    assert_int_equal(a.status, MUSTER_UNAVAILABLE);
    assert_int_equal(left_at_leader(c.h, 1).waiters,
                     2); /* the dead host may come back as it was, for all the leader knows */
    hosts_start(c.h, 1);
    caller_anew(&c);
    lanes_await(&c, left_at_leader(c.h, 1).waiters == 0, "the leader forgets both");
    assert_int_equal(left_at_leader(c.h, 1).open, 0);
    question_add(&a, "n", 1);
    assert_status(MUSTER_OK, caller_do(&c, &a, &n));
    assert_int_equal(n, 1);
    question_done(&a);
    question_done(&b);
    assert_ok(muster_leave(one));
    assert_ok(muster_leave(two));
    end(&c);
}

/* The same where only the lanes end. */
TEST(what_is_open_when_lanes_end_is_ended)
{
    struct question a = {.answers = 0};
    struct muster *one;
    struct caller c;

    caller_begin(&c, open_hosts(false), 1);
    one = test_join(hosts_name(c.h, 1), 1, 0);
    assert_non_null(one);
    question_meet(&a, one, "b", 0, MU_OP_BARRIER_WAIT);
    assert_ok(mu_lanes_ask(c.lanes, &a.call));
    lanes_await(&c, left_at_leader(c.h, 1).waiters == 1, "it waits");
    caller_anew(&c);
    lanes_await(&c, left_at_leader(c.h, 1).waiters == 0, "the leader forgets it");
    assert_int_equal(a.answers, 0);
    question_done(&a);
    assert_ok(muster_leave(one));
    end(&c);
}

/* Also those that wait for a connection, or go once more, whatever lanes they have. */
TEST(calls_go_in_the_order_in_which_they_were_asked)
{
    enum { CALLS = 4 };
    struct question q[CALLS] = {{.answers = 0}};
    struct hosts *h = open_hosts(true);
    struct muster *m = hosts_observer(h, 0);
    struct caller c;
    char text[2] = "a", found[16];
    size_t len;

    hosts_settle(h, NULL);
    caller_begin(&c, h, 1);
    for (int i = 0; i < CALLS; i++) { /* the last lane is the first to be used again */
        question_add(&q[i], "n", 1);
        assert_ok(mu_lanes_ask(c.lanes, &q[i].call));
    }
    for (int i = 0; i < CALLS; i++)
        caller_await(&c, &q[i]);
    for (int i = 0; i < CALLS; i++, text[0]++) {
        question_append(&q[i], "log", text);
        assert_ok(mu_lanes_ask(c.lanes, &q[i].call));
        if (i == CALLS / 2 - 1) { /* these are on their way */
            hosts_step(h, 1);
            hosts_cut(h, 1);
        }
    }
    assert_true(q[0].call.lane > q[1].call.lane && q[2].call.lane > q[3].call.lane);
    hosts_join(h, 1);
    for (int i = 0; i < CALLS; i++)
        caller_await(&c, &q[i]);
    assert_ok(muster_kv_try_get(m, "log", MUSTER_NTS, found, sizeof found, &len, NULL));
    assert_int_equal(len, CALLS);
    assert_memory_equal(found, "abcd", CALLS);
    for (int i = 0; i < CALLS; i++)
        question_done(&q[i]);
    hosts_pass(h, 2 * ACK_NS);
    assert_ok(muster_leave(m));
    end(&c);
}

/* ---- refused, and lost ------------------------------------------------------------------------------------------- */

TEST(the_leader_s_agent_asks_nobody)
{
    struct question q = {.answers = 0};
    struct caller c;

    caller_begin(&c, open_hosts(true), 0);
    question_add(&q, "n", 1);
    assert_status(MUSTER_FAILED_PRECONDITION, mu_lanes_ask(c.lanes, &q.call));
    assert_says("asks nobody");
    question_done(&q);
    end(&c);
}

TEST(lanes_run_out_and_come_back)
{
    struct hosts *h = hosts_open(&(struct hosts_config){
        .tasks = {1, 1}, .stepped = true, .apart = true, .timeout_ns = PATIENCE_NS, .segment = {.num_slots = 15990}});
    uint32_t most = 16384 - hosts_segment(h, 1)->num_slots;
    struct question *q = calloc(most + 1, sizeof *q);
    struct caller c;

    assert_non_null(q);
    caller_begin(&c, h, 1);
    for (uint32_t i = 0; i < most; i++) {
        question_add(&q[i], "n", 1);
        assert_ok(mu_lanes_ask(c.lanes, &q[i].call));
    }
    assert_int_equal(mu_lanes_open(c.lanes), most);
    question_add(&q[most], "n", 1);
    assert_status(MUSTER_RESOURCE_EXHAUSTED, mu_lanes_ask(c.lanes, &q[most].call));
    assert_says("at a time");
    assert_int_equal(q[most].call.lane, 0);
    mu_lanes_drop(c.lanes, &q[most].call);
    mu_lanes_drop(c.lanes, &q[7].call);
    assert_ok(mu_lanes_ask(c.lanes, &q[most].call));
    hosts_join(h, 1);
    caller_await(&c, &q[most]);
    assert_int_equal(q[most].status, MUSTER_OK);
    caller_await(&c, &q[most - 1]);
    assert_int_equal(q[7].answers, 0);
    for (uint32_t i = 0; i <= most; i++)
        question_done(&q[i]);
    free(q);
    hosts_settle(h, NULL);
    hosts_pass(h, 2 * ACK_NS);
    end(&c);
}

TEST(when_the_leader_is_lost_all_are_told)
{
    struct question a = {.answers = 0}, b = {.answers = 0};
    struct hosts *h =
        hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true, .apart = true, .timeout_ns = PATIENCE_NS});
    struct caller c;

    caller_begin(&c, h, 1);
    question_add(&a, "n", 1);
    assert_ok(mu_lanes_ask(c.lanes, &a.call));
    hosts_settle(h, NULL);
    mu_lanes_take(c.lanes);
    assert_int_equal(a.answers, 0); /* without a connection it waits */
    hosts_lose(h, 1, 0, "the test gives it up");
    caller_await(&c, &a);
    assert_int_equal(a.status, MUSTER_UNAVAILABLE);
    assert_non_null(strstr(a.text, "the test: the leader of the job, host"));
    assert_non_null(strstr(a.text, "is lost"));
    question_add(&b, "n", 1); /* and who asks now, but not within the asking */
    assert_ok(mu_lanes_ask(c.lanes, &b.call));
    assert_int_equal(b.answers, 0);
    caller_await(&c, &b);
    assert_int_equal(b.status, MUSTER_UNAVAILABLE);
    question_add(&b, "n", 1);
    assert_ok(mu_lanes_ask(c.lanes, &b.call));
    mu_lanes_drop(c.lanes, &b.call);
    mu_lanes_take(c.lanes);
    assert_int_equal(b.answers, 0);
    question_done(&a);
    question_done(&b);
    caller_end(&c);
    assert_int_equal(hosts_close(h), 0);
}

/* ---- what cannot be ---------------------------------------------------------------------------------------------- */

static void inject_answer(struct hosts *h, uint32_t slot, uint64_t number)
{
    struct mu_pack p = {0};

    mu_pack_u32(&p, slot);
    mu_pack_u64(&p, number);
    mu_pack_u8(&p, 0);
    mu_pack_u32(&p, 0);
    mu_pack_text(&p, "");
    hosts_inject(h, 0, 1, MU_FRAME_ANSWER, p.bytes, p.len);
    mu_pack_done(&p);
}

TEST(answers_that_cannot_be_break_the_connection)
{
    struct question q = {.answers = 0};
    struct hosts *h = open_hosts(true);
    struct caller c;
    char why[700];
    uint64_t n;

    caller_begin(&c, h, 1);
    question_add(&q, "n", 1);
    assert_status(MUSTER_OK, caller_do(&c, &q, &n));
    inject_answer(h, MU_FRAME_SLOTS - 1, 1); /* older: passed over */
    inject_answer(h, MU_FRAME_SLOTS - 9, 1); /* of a lane that was never used */
    hosts_settle(h, NULL);
    assert_true(hosts_connected(h, 1));
    inject_answer(h, MU_FRAME_SLOTS - 1, UINT64_MAX);
    hosts_settle(h, NULL);
    assert_false(hosts_connected(h, 1));
    assert_non_null(strstr(hosts_dropped(h, why), "was not asked"));
    hosts_join(h, 1);
    inject_answer(h, MU_FRAME_SLOTS, 1);
    hosts_settle(h, NULL);
    assert_false(hosts_connected(h, 1));
    hosts_join(h, 1);
    question_add(&q, "n", 1);
    assert_status(MUSTER_OK, caller_do(&c, &q, &n));
    assert_int_equal(n, 2);
    question_done(&q);
    hosts_pass(h, 2 * ACK_NS);
    end(&c);
}
