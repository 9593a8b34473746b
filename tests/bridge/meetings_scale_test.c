/*
 * tests/bridge/meetings_scale_test.c: the leader's agent at barriers, alone with frames that the test makes: 1,024
 * hosts of 8 tasks, and calls that are sent again to an agent that was restarted.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "barrier/named_steps.h"
#include "base/clock.h"
#include "bridge/core/modules.h"
#include "job.h"
#include "segment/cluster.h"
#include "segment/file.h"
#include "task/task.h"

enum { PER_HOST = 8, HOSTS = 1024 };

static struct world {
    char job[128];
    struct muster_segment *seg;
    struct muster *m;
    struct mu_core core;
    uint32_t hosts;
    uint32_t answers; /* since it was last set to 0 */
    /* the last one */
    enum muster_status status;
    uint64_t instance;
    bool counted[HOSTS * PER_HOST]; /* by task: answered */
} w;

static bool wire_send(void *arg, uint32_t host, uint8_t type, const void *payload, size_t len)
{
    struct mu_unpack u = mu_unpack_of(payload, len);
    uint32_t slot;
    char text[1000];

    (void)arg;
    if (type != MU_FRAME_ANSWER)
        return true;
    slot = mu_unpack_u32(&u);
    mu_unpack_u64(&u);
    assert_int_equal(mu_unpack_u8(&u), 0); /* not put off */
    w.status = (enum muster_status)mu_unpack_u32(&u);
    mu_unpack_text(&u, text, sizeof text);
    w.instance = mu_unpack_u64(&u);
    w.answers++;
    assert_false(w.counted[(host - 1) * PER_HOST + slot]);
    w.counted[(host - 1) * PER_HOST + slot] = true;
    return true;
}

static void wire_drop(void *arg, uint32_t host, const char *why)
{
    (void)arg;
    fail_msg("host %u was dropped: %s", host, why);
}

static void forget_answers(void)
{
    w.answers = 0;
    memset(w.counted, 0, sizeof w.counted);
}

static bool connect_task(struct mu_task_change *change)
{
    change->record.state = MUSTER_TASK_CONNECTED;
    change->record.attempt = 1;
    change->record.incarnation = change->task + 1;
    return true;
}

/* An agent, to which all hosts have come. */
static void start(void)
{
    static const struct mu_core_wire wire = {.send = wire_send, .drop = wire_drop};

    memset(&w.core, 0, sizeof w.core);
    w.core.timeout = UINT64_MAX / 2;
    assert_ok(mu_task_join_open(w.seg, &w.m));
    assert_ok(mu_core_init(&w.core, &mu_bridge_tables, w.m, &wire, mu_now()));
    for (uint32_t h = 1; h < w.hosts; h++)
        mu_core_up(&w.core, h, mu_now());
}

static void stop(void)
{
    mu_core_done(&w.core);
    assert_ok(muster_leave(w.m));
}

static void turns(void)
{
    while (mu_core_turn(&w.core, mu_now()))
        ;
}

/* A leader without tasks, and hosts whose tasks it knows as connected. */
static void open_world(uint32_t hosts)
{
    struct muster_segment_config c = {.num_slots = 64,
                                      .num_buckets = 1024,
                                      .num_events = 64,
                                      .heap_bytes = 256u << 20,
                                      .heartbeat_timeout_ns = 600000000000u};
    uint32_t *tasks = calloc(hosts, sizeof *tasks), *ids;
    struct mu_hosts_config config = {.num_hosts = hosts, .num_tasks = tasks, .run_id = {1, 2}};
    struct mu_ctx *ctx;

    memset(&w, 0, sizeof w);
    w.hosts = hosts;
    for (uint32_t h = 1; h < hosts; h++)
        tasks[h] = PER_HOST;
    c.num_tasks = (hosts - 1) * PER_HOST;
    test_name(w.job, "scale");
    assert_ok(mu_segment_create_hosts(w.job, &c, &config, true, &w.seg));
    start();
    ids = calloc(c.num_tasks, sizeof *ids);
    for (uint32_t i = 0; i < c.num_tasks; i++)
        ids[i] = i;
    assert_ok(mu_enter(w.m, &ctx));
    assert_ok(mu_cluster_edit_many(ctx, ids, c.num_tasks, connect_task, NULL));
    mu_exit(ctx);
    free(ids);
    free(tasks);
}

static void close_world(void)
{
    stop();
    assert_int_equal(test_audit(w.job), 0);
    assert_ok(muster_segment_remove(w.job));
    muster_segment_close(w.seg);
}

/* One task's call, as its host's agent sends it; the request follows. */
static void begin_call(struct mu_pack *p, uint32_t task, enum mu_op op, uint64_t number, bool resent)
{
    mu_pack_u32(p, task % PER_HOST);
    mu_pack_u64(p, number);
    mu_pack_u32(p, op);
    mu_pack_u32(p, task + 1);
    mu_pack_u32(p, 0);
    mu_pack_u32(p, 1);
    mu_pack_u64(p, task + 1);
    mu_pack_u8(p, resent);
}

static void send_call(struct mu_pack *p, uint32_t task)
{
    uint32_t host = task / PER_HOST + 1;

    mu_core_frame(&w.core, host, MU_FRAME_CALL, p->bytes, p->len, mu_now());
    assert_int_equal(w.core.peers[host].state, MU_PEER_UP);
    mu_pack_done(p);
}

static void call(uint32_t task, enum mu_op op, const char *id, uint64_t number, uint64_t counter, bool resent)
{
    struct mu_call c = {
        .name = (uint32_t)number & MU_CALLS_MASK, .untold = MU_CALLS_NONE, .asked = counter, .all = true};
    struct mu_pack p = {0};

    begin_call(&p, task, op, number, resent);
    mu_barrier_call_pack(&p, id, &c);
    send_call(&p, task);
}

static uint64_t commits(const char *id)
{
    struct mu_table t = mu_table_cells(w.seg);
    struct mu_walk none = {0};
    struct mu_bucket_info info;
    char bytes[64];
    struct mu_key k;

    snprintf(bytes, sizeof bytes, "B%s", id);
    mu_key_make(&k, w.seg, bytes, strlen(bytes));
    assert_ok(mu_table_walk(&t, NULL, (uint32_t)(mu_table_bucket(&t, &k) - t.buckets), &none, &info));
    return info.commits;
}

TEST(eight_thousand_calls_arrive_by_one_commit_a_turn)
{
    enum { TURN = 64, ROUNDS = 6 };
    uint32_t tasks = (HOSTS - 1) * PER_HOST;
    uint64_t before;
    clock_t took;

    open_world(HOSTS);
    turns();
    before = commits("b");
    took = clock();
    for (uint64_t round = 0; round < ROUNDS; round++) {
        forget_answers();
        for (uint32_t i = 0; i < tasks; i++) {
            if (i % (TURN * PER_HOST) == 0)
                turns();
            call(i, MU_OP_BARRIER_WAIT, "b", round + 1, MUSTER_BARRIER_NEXT, false);
        }
        assert_int_equal(w.answers, 0);
        turns();
        assert_int_equal(w.answers, tasks);
        assert_int_equal(w.instance, round);
        assert_int_equal(w.status, MUSTER_OK);
    }
    took = clock() - took;
    printf("%u tasks on %u hosts: %.2f ms of a processor a barrier\n", tasks, HOSTS - 1,
           (double)took * 1e3 / CLOCKS_PER_SEC / ROUNDS);
    assert_in_range(commits("b") - before, ROUNDS, ROUNDS * (HOSTS / TURN + 1));
    close_world();
}

TEST(a_call_sent_again_is_taken_up_in_its_own_instance)
{
    enum { TASKS = 2 * PER_HOST };

    open_world(3);
    for (uint32_t i = 0; i < TASKS - 1; i++)
        call(i, MU_OP_BARRIER_WAIT, "b", 1, MUSTER_BARRIER_NEXT, false);
    turns();
    stop(); /* it had let them arrive, and dies */
    start();
    for (uint32_t i = 0; i < TASKS - 1; i++)
        call(i, MU_OP_BARRIER_WAIT, "b", 1, MUSTER_BARRIER_NEXT, true);
    turns();
    assert_int_equal(w.answers, 0);
    call(TASKS - 1, MU_OP_BARRIER_WAIT, "b", 1, MUSTER_BARRIER_NEXT, true); /* its first came to nobody */
    turns();
    assert_int_equal(w.answers, TASKS);
    assert_int_equal(w.instance, 0);
    stop(); /* and the answers of the second half are lost with it */
    start();
    for (uint64_t instance = 1; instance < 12; instance++) {
        forget_answers();
        /* the first half goes on; a late one is always one instance behind, and hears of that */
        for (uint32_t i = 0; i < TASKS / 2; i++)
            call(i, MU_OP_BARRIER_WAIT, "b", instance + 1, MUSTER_BARRIER_NEXT, false);
        turns();
        assert_int_equal(w.answers, 0);
        for (uint32_t i = TASKS / 2; i < TASKS; i++)
            call(i, MU_OP_BARRIER_WAIT, "b", instance, MUSTER_BARRIER_NEXT, true);
        turns();
        assert_int_equal(w.answers, TASKS / 2);
        assert_int_equal(w.instance, instance - 1);
        assert_int_equal(w.status, MUSTER_OK);
        forget_answers();
        for (uint32_t i = TASKS / 2; i < TASKS; i++)
            call(i, MU_OP_BARRIER_WAIT, "b", instance + 1, MUSTER_BARRIER_NEXT, false);
        turns();
        assert_int_equal(w.answers, TASKS);
        assert_int_equal(w.instance, instance);
        stop();
        start();
    }
    close_world();
}

TEST(a_failure_is_heard_again_and_not_counted_for_the_next)
{
    open_world(2);
    call(0, MU_OP_BARRIER_WAIT, "b", 1, 0, false);
    call(1, MU_OP_BARRIER_WAIT, "b", 1, 3, false); /* at another instance: it fails for both */
    turns();
    assert_int_equal(w.answers, 2);
    call(2, MU_OP_BARRIER_WAIT, "b", 1, MUSTER_BARRIER_NEXT, false); /* late: it hears of it */
    turns();
    assert_int_equal(w.status, MUSTER_INTERNAL);
    assert_int_equal(w.instance, 0);
    stop();
    start();
    call(3, MU_OP_BARRIER_WAIT, "b", 1, 1, false); /* opens the next */
    turns();
    forget_answers();
    for (uint32_t i = 0; i < 3; i++) {
        call(i, MU_OP_BARRIER_WAIT, "b", 1, i == 1 ? 3 : i ? MUSTER_BARRIER_NEXT : 0, true);
        turns();
        assert_int_equal(w.answers, i + 1);
        assert_int_equal(w.status, MUSTER_INTERNAL);
        assert_int_equal(w.instance, 0);
    }
    for (uint32_t i = 0; i < PER_HOST; i++)
        if (i != 3)
            call(i, MU_OP_BARRIER_WAIT, "b", 2, MUSTER_BARRIER_NEXT, false);
    forget_answers();
    turns();
    assert_int_equal(w.answers, PER_HOST);
    assert_int_equal(w.status, MUSTER_OK);
    assert_int_equal(w.instance, 1);
    close_world();
}

TEST(cancelling_twice_is_once)
{
    open_world(2);
    for (int again = 0; again < 2; again++) {
        struct mu_pack p = {0};

        forget_answers();
        if (!again) {
            call(0, MU_OP_BARRIER_WAIT, "b", 1, 0, false);
            turns();
        }
        begin_call(&p, 1, MU_OP_BARRIER_CANCEL, 7, again);
        mu_pack_text(&p, "b");
        mu_pack_u64(&p, MUSTER_BARRIER_NEXT);
        send_call(&p, 1);
        turns();
        assert_true(w.counted[1]);
        assert_int_equal(w.answers, again ? 1 : 2);
        if (again) {
            assert_int_equal(w.status, MUSTER_OK);
            break;
        }
        stop();
        start();
        forget_answers();
        call(0, MU_OP_BARRIER_WAIT, "b", 2, 1, false); /* the next instance, which must not be cancelled */
        turns();
        assert_int_equal(w.answers, 0);
    }
    close_world();
}

/* A list of all tasks with each call is more than the agent keeps until the turn's end. */
TEST(long_lists_arrive_before_they_are_many)
{
    enum { MANY = 128, TASKS = (MANY - 1) * PER_HOST };
    struct mu_call c = {.untold = MU_CALLS_NONE, .num = TASKS, .ids = malloc(TASKS * sizeof *c.ids)};
    uint64_t before;

    assert_non_null(c.ids);
    for (uint32_t i = 0; i < TASKS; i++)
        c.ids[i] = i;
    open_world(MANY);
    turns();
    before = commits("b");
    for (uint32_t i = 0; i < TASKS; i++) {
        struct mu_pack p = {0};

        begin_call(&p, i, MU_OP_BARRIER_WAIT, 1, false);
        mu_barrier_call_pack(&p, "b", &c);
        send_call(&p, i);
    }
    turns();
    assert_int_equal(w.answers, TASKS);
    assert_int_equal(w.status, MUSTER_OK);
    assert_in_range(commits("b") - before, 4, 8); /* 4 MiB of lists, by 1 MiB */
    free(c.ids);
    close_world();
}

static void ask_alive_of(uint32_t count, uint32_t task, uint64_t number, bool resent)
{
    struct mu_pack p = {0};

    begin_call(&p, task, MU_OP_TASK_ALIVE, number, resent);
    mu_pack_u32(&p, (uint32_t)number);
    mu_pack_u32(&p, count);
    for (uint32_t i = 0; i < count; i++)
        mu_pack_u32(&p, i);
    send_call(&p, task);
}

static void ask_alive(uint32_t task, uint64_t number, bool resent)
{
    ask_alive_of(PER_HOST, task, number, resent);
}

TEST(who_is_alive_is_answered_again_and_asked_once)
{
    open_world(2);
    for (uint32_t i = 0; i < PER_HOST - 1; i++)
        ask_alive(i, 1, false);
    turns();
    stop();
    start();
    for (uint32_t i = 0; i < PER_HOST - 1; i++)
        ask_alive(i, 1, true);
    turns();
    assert_int_equal(w.answers, 0);
    ask_alive(PER_HOST - 1, 1, false);
    turns();
    assert_int_equal(w.answers, PER_HOST);
    stop(); /* and the answers are lost with it */
    start();
    forget_answers();
    for (uint32_t i = 1; i < PER_HOST; i++) {
        ask_alive(i, 1, true);
        turns();
        assert_int_equal(w.answers, i);
        assert_int_equal(w.status, MUSTER_OK);
    }
    forget_answers();
    for (uint32_t i = 0; i < PER_HOST; i++) { /* none of those was taken for a question of the next round */
        assert_int_equal(w.answers, 0);
        ask_alive(i, 2, false);
        turns();
    }
    assert_int_equal(w.answers, PER_HOST);
    close_world();
}

TEST(more_than_a_thousand_ask_who_of_them_is_alive)
{
    enum { MANY = 160, TASKS = (MANY - 1) * PER_HOST };

    open_world(MANY);
    for (uint32_t i = 0; i < TASKS - 1; i++)
        ask_alive_of(TASKS, i, 1, false);
    turns();
    stop();
    start();
    for (uint32_t i = 0; i < TASKS - 1; i++)
        ask_alive_of(TASKS, i, 1, true);
    turns();
    assert_int_equal(w.answers, 0);
    ask_alive_of(TASKS, TASKS - 1, 1, false);
    turns();
    assert_int_equal(w.answers, TASKS);
    assert_int_equal(w.status, MUSTER_OK);
    close_world();
}
