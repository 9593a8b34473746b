/*
 * tests/bridge/events_test.c: one order of events on all hosts, without holes, each once, whatever connections and
 * agents do meanwhile.
 */
#include "cm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "child.h"
#include "event/ring.h"
#include "crowd.h"
#include "segment/handle.h"
#include "segment/table.h"

enum { MOST = 4, EVENTS = 300, RING = 64 };

static uint64_t tail_at(uint32_t host)
{
    uint64_t tail;

    assert_ok(muster_event_next(eyes[host], &tail));
    return tail;
}

static void until_tail(uint32_t host, uint64_t tail)
{
    hosts_await(h, tail_at(host) == tail, "host %u has %llu events (it has %llu)", host, (unsigned long long)tail,
                (unsigned long long)tail_at(host));
}

/* ---- what tasks do ---- */

/* Sends numbers in a row; each is there for the sender when it returns. */
static int send_numbers(struct muster *m, void *arg)
{
    uint32_t task = (uint32_t)muster_task_id(m);

    (void)arg;
    for (uint32_t i = 0; i < EVENTS; i++) {
        uint64_t sequence, next, position, lost;
        struct muster_event e;
        uint32_t number;

        CHECK(muster_event_send(m, task, &i, sizeof i, &sequence) == MUSTER_OK);
        board->numbers[task * EVENTS + i] = sequence;
        CHECK(muster_event_next(m, &next) == MUSTER_OK && next > sequence);
        position = sequence;
        if (muster_event_read(m, &position, 0, &e, &number, sizeof number, &lost) == MUSTER_OK)
            CHECK(e.sequence == sequence && e.task_id == (int32_t)task && number == i);
    }
    return 0;
}

/* Reads all that all send, and checks that nothing is lost, doubled or out of its sender's order. */
static int read_numbers(struct muster *m, void *arg)
{
    uint32_t tasks = *(uint32_t *)arg, next[MOST] = {0};
    uint64_t position = 0;

    for (uint32_t i = 0; i < tasks * EVENTS; i++) {
        struct muster_event e;
        uint32_t number;

        CHECK(muster_event_read(m, &position, MUSTER_FOREVER, &e, &number, sizeof number, NULL) == MUSTER_OK);
        CHECK(e.sequence == i && e.type < tasks && e.task_id == (int32_t)e.type && e.len == sizeof number);
        if (number != next[e.type])
            printf("event %llu of task %u is its %u, not its %u\n", (unsigned long long)e.sequence, e.type, number,
                   next[e.type]);
        CHECK(number == next[e.type]++);
    }
    return 0;
}

/* ---- the tests ---- */

TEST(all_hosts_read_the_same_events_whatever_breaks)
{
    struct test_random r = {test_seed()};
    pid_t senders[3], readers[3];
    uint32_t tasks = 3;
    uint8_t seen[3 * EVENTS] = {0};

    crowd_open(&(struct hosts_config){.tasks = {1, 1, 1}, .segment = {.num_events = 4096}});
    for (uint32_t i = 0; i < 3; i++) {
        readers[i] = hosts_visitor(h, i, read_numbers, &tasks);
        senders[i] = hosts_task(h, i, send_numbers, NULL);
    }
    for (int i = 0; i < 60; i++) {
        uint32_t host = (uint32_t)test_below(&r, 3);

        switch (test_below(&r, 4)) {
        case 0: hosts_cut(h, host ? host : 1); break;
        case 1: hosts_kill(h, host); break;
        case 2: hosts_kill_after(h, host, 1 + (uint32_t)test_below(&r, 30)); break;
        default: hosts_cut_after(h, host ? host : 2, (uint32_t)test_below(&r, 30)); break;
        }
        usleep((useconds_t)test_below(&r, 3000)); /* sleep: the fault is to fall somewhere in the work */
        hosts_mend(h);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(hosts_reap(h, senders[i]), 0);
    hosts_mend(h);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(hosts_reap(h, readers[i]), 0);
    for (uint32_t i = 0; i < 3 * EVENTS; i++) { /* and each sender was told its own numbers */
        assert_true(board->numbers[i] < 3 * EVENTS);
        assert_int_equal(seen[board->numbers[i]]++, 0);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(tail_at(i), 3 * EVENTS);
    crowd_close();
}

static void send_some(uint32_t host, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_ok(muster_event_send(eyes[host], i, NULL, 0, NULL));
}

TEST(who_was_away_for_longer_than_the_ring_is_told_what_is_lost)
{
    static const uint32_t missed[] = {RING - 5, RING - 4, RING, 3 * RING + 7, 1000};
    uint64_t position = 0, lost;
    struct muster_event e;

    crowd_open(&(struct hosts_config){.tasks = {1, 1}, .segment = {.num_events = RING}});
    for (size_t i = 0; i < sizeof missed / sizeof *missed; i++) {
        uint64_t before;

        send_some(0, 5);
        until_tail(1, tail_at(0));
        before = tail_at(1);
        position = before;
        hosts_cut(h, 1);
        send_some(0, missed[i]);
        hosts_join(h, 1);
        until_tail(1, before + missed[i]);
        if (missed[i] <= RING) {
            assert_ok(muster_event_read(eyes[1], &position, 0, &e, NULL, 0, &lost));
            assert_int_equal(e.sequence, before);
        } else {
            assert_status(MUSTER_OUT_OF_RANGE, muster_event_read(eyes[1], &position, 0, &e, NULL, 0, &lost));
            assert_int_equal(lost, missed[i] - RING);
            assert_int_equal(position, before + lost);
        }
        while (position < before + missed[i])
            assert_ok(muster_event_read(eyes[1], &position, 0, &e, NULL, 0, &lost));
        send_some(1, 1);
        assert_int_equal(tail_at(0), before + missed[i] + 1);
    }
    crowd_close();
}

static int send_one(struct muster *m, void *arg)
{
    const char *expected = arg;
    enum muster_status status = muster_event_send(m, 4711, "once", 4, &board->numbers[0]);

    if (!*expected)
        CHECK(status == MUSTER_OK);
    else
        CHECK(status == MUSTER_UNAVAILABLE && strstr(muster_last_error(), expected));
    return 0;
}

/* The leader's agent has sent the event and dies before it can say so; then so many more are sent. */
static void send_and_die(uint32_t more, const char *expected)
{
    uint32_t before;
    struct test_random r = {test_seed()};
    pid_t pid;

    crowd_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true, .segment = {.num_events = RING}});
    send_some(0, 10);
    hosts_settle(h, &r);
    before = (uint32_t)tail_at(0);
    pid = hosts_task(h, 1, send_one, (void *)(uintptr_t)expected);
    while (tail_at(0) == before) { /* by single steps, up to just behind the commit */
        hosts_step(h, 1);
        if (tail_at(0) == before)
            hosts_step(h, 0);
    }
    hosts_kill(h, 0);
    hosts_settle(h, &r);
    send_some(0, more);
    hosts_mend(h);
    assert_int_equal(hosts_reap(h, pid), 0);
    hosts_settle(h, &r);
    assert_int_equal(tail_at(0), before + 1 + more); /* not twice */
    assert_int_equal(tail_at(1), before + 1 + more);
    if (!*expected)
        assert_int_equal(board->numbers[0], before);
    crowd_close();
}

TEST(an_event_is_sent_once_though_the_leaders_agent_dies_of_it)
{
    send_and_die(0, "");
    send_and_die(RING - 1, "");
}

TEST(what_nobody_can_know_is_said)
{
    send_and_die(RING, "whether the event was sent cannot be told");
}

/* A ring whose host has no memory left stands still, and goes on where it stood. */
static enum mu_verdict put(struct mu_edit *e)
{
    e->value = e->arg;
    e->len = 16384;
    return MU_PUT;
}

static enum mu_verdict delete (struct mu_edit *e) { e->status = MUSTER_OK; return e->version ? MU_DELETE : MU_KEEP; }

static uint32_t edit_all(uint32_t host, mu_edit_fn fn, uint32_t count)
{
    static uint8_t value[16384];
    struct mu_table t = mu_table_kv(eyes[host]->seg);
    struct mu_ctx *ctx;
    uint32_t i;

    assert_ok(mu_enter(eyes[host], &ctx));
    for (i = 0; i < count; i++) {
        struct mu_edit e = {.arg = value};
        struct mu_key k;

        mu_key_make(&k, eyes[host]->seg, &i, sizeof i);
        if (mu_table_edit(&t, ctx, &k, 0, fn, &e, NULL))
            break;
    }
    mu_exit(ctx);
    return i;
}

TEST(a_host_without_memory_gets_its_events_later)
{
    static char large[MUSTER_EVENT_MAX];
    uint32_t filled;

    crowd_open(&(struct hosts_config){.tasks = {1, 1}, .segment = {.num_events = RING, .heap_bytes = 4 << 20}});
    send_some(0, 1);
    until_tail(1, 1); /* a new connection empties a follower's table of keys */
    filled = edit_all(1, put, UINT32_MAX);
    for (uint32_t i = 1; i < RING; i++)
        assert_ok(muster_event_send(eyes[0], i, large, sizeof large, NULL));
    hosts_await(h, hosts_frames(h, 1, MU_FRAME_EVENTS_FROM) > 2, "the follower asks again");
    assert_true(tail_at(1) < RING);
    edit_all(1, delete, filled);
    until_tail(1, RING);
    crowd_close();
}

static int send_and_look(struct muster *m, void *arg)
{
    uint64_t sequence, next;

    (void)arg;
    CHECK(muster_event_send(m, 4711, NULL, 0, &sequence) == MUSTER_OK);
    CHECK(muster_event_next(m, &next) == MUSTER_OK && next > sequence);
    return 0;
}

/* More than may be on its way to a host at once; and an answer is not there before the event that it is about. */
TEST(who_was_away_for_long_is_told_piece_by_piece)
{
    static uint8_t large[MUSTER_EVENT_MAX];
    struct muster_event e;
    uint64_t position = 0;
    uint32_t count = 512;
    char why[700];
    pid_t pid;

    crowd_open(&(struct hosts_config){
        .tasks = {1, 1}, .queue_bytes = 2 << 20, .segment = {.num_events = 1024, .heap_bytes = 32 << 20}});
    hosts_cut(h, 1);
    for (uint32_t i = 0; i < count; i++) {
        memset(large, (int)i, sizeof large);
        assert_ok(muster_event_send(eyes[0], i, large, sizeof large, NULL));
    }
    pid = hosts_task(h, 1, send_and_look, NULL);
    hosts_join(h, 1);
    assert_int_equal(hosts_reap(h, pid), 0);
    assert_string_equal(hosts_dropped(h, why), "");
    assert_int_equal(tail_at(1), count + 1);
    for (uint32_t i = 0; i < count; i++) {
        assert_ok(muster_event_read(eyes[1], &position, 0, &e, large, sizeof large, NULL));
        assert_true(e.sequence == i && e.type == i && e.len == sizeof large);
        assert_true(large[0] == (uint8_t)i && large[sizeof large - 1] == (uint8_t)i);
    }
    crowd_close();
}

/* Who does not say that it has taken its events, and has much decided for it meanwhile, is let go, and comes again. */
TEST(what_waits_behind_events_is_bounded)
{
    static uint8_t large[MUSTER_EVENT_MAX];
    enum { COUNT = 200, PIECE = 60 << 20 };
    uint8_t *piece = calloc(1, PIECE);
    struct mu_core *core;
    char why[700];

    crowd_open(&(struct hosts_config){
        .tasks = {1, 1}, .stepped = true, .segment = {.num_events = 1024, .heap_bytes = 32 << 20}});
    hosts_settle(h, NULL);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_ok(muster_event_send(eyes[0], i, large, sizeof large, NULL));
    for (int i = 0; i < 5; i++) {
        while (hosts_step(h, 0))
            ; /* the other does nothing */
        assert_string_equal(hosts_dropped(h, why), "");
        core = hosts_lock(h, 0);
        mu_core_send(core, 1, MU_FRAME_ANSWER, piece, PIECE);
        hosts_unlock(h, 0);
    }
    free(piece);
    hosts_step(h, 0);
    assert_non_null(strstr(hosts_dropped(h, why), "it does not say that it has taken its events, and asks on"));
    hosts_mend(h);
    hosts_settle(h, NULL);
    assert_int_equal(tail_at(1), COUNT);
    crowd_close();
}

TEST(bad_events_break_the_connection)
{
    static const struct {
        uint64_t sequence;
        uint32_t task, len;
        const char *why;
    } bad[] = {
        {0, 9, 4, "event 0 cannot be"},
        {UINT64_MAX, 1, 4, "event 18446744073709551615 cannot be"},
        {0, 1, 5, "event 0 cannot be"},
        {0, 1, UINT32_MAX, "event 0 cannot be"},
    };
    uint64_t never = 1, nothing = 0;
    char why[700];

    crowd_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true});
    hosts_settle(h, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mu_pack p = {0};

        mu_pack_u64(&p, bad[i].sequence);
        mu_pack_u64(&p, 0);
        mu_pack_u32(&p, bad[i].task);
        mu_pack_u32(&p, 7);
        mu_pack_u32(&p, bad[i].len);
        mu_pack_raw(&p, "text", 4);
        hosts_inject(h, 0, 1, MU_FRAME_EVENTS, p.bytes, p.len);
        mu_pack_done(&p);
        hosts_settle(h, NULL);
        hosts_dropped(h, why);
        assert_non_null(strstr(why, "host node0 sent a EVENTS frame"));
        assert_non_null(strstr(why, bad[i].why));
        hosts_mend(h);
        hosts_settle(h, NULL);
        assert_int_equal(tail_at(1), 0);
    }
    hosts_inject(h, 1, 0, MU_FRAME_EVENTS_FROM, &never, sizeof never);
    hosts_settle(h, NULL);
    hosts_dropped(h, why);
    assert_non_null(strstr(why, "it has event 0, which was never sent"));
    hosts_mend(h);
    hosts_settle(h, NULL);
    hosts_inject(h, 1, 0, MU_FRAME_EVENTS_TAKEN, &nothing, sizeof nothing);
    hosts_inject(h, 1, 0, MU_FRAME_EVENTS_TAKEN, &never, sizeof never);
    hosts_settle(h, NULL);
    hosts_dropped(h, why);
    assert_non_null(strstr(why, "it cannot have taken 1 bytes of events"));
    crowd_close();
}

int main(void)
{
    return test_run(crowd_begin, NULL);
}
