/*
 * tests/coord/abuse_test.c: guests that do anything, in any order: calls with good and bad arguments, given up at any
 * time, lines that break, asks that are made and dropped within answers. Nothing is answered twice or after it was
 * dropped; when the engine stops everything that waits has its answer, and the segment passes the audit.
 */
#include "counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed.h"

enum { TASKS = 6, LINES = 8, ASKS = 400, STEPS = 6000, ROUNDS = 4 };

enum { FREE, OUT, DONE };

struct bold {
    struct mu_coord_request ask;
    int state;
};

static struct mu_line *lines[LINES];
static struct bold bolds[ASKS];
static unsigned depth;
static uint64_t answers;
static unsigned steps;
static struct test_random chance;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)test_below(&chance, n);
}

static void act(void);

static void answered(struct mu_coord_request *q)
{
    struct bold *b = (struct bold *)q;

    assert_int_equal(b->state, OUT);
    assert_non_null(q->text);
    if (q->status) /* what it points to can be read */
        assert_true(strlen(q->text) < 8192);
    else if (q->len && q->value)
        assert_true(((const char *)q->value)[q->len - 1] != 1);
    for (size_t i = 0; !q->status && i < q->num_entries; i++)
        assert_true(strlen(q->entries[i].key) == q->entries[i].key_len);
    b->state = DONE;
    answers++;
    if (depth < 3 && !pick(4)) {
        depth++;
        act();
        depth--;
    }
}

static struct bold *new_ask(void)
{
    for (int tries = 0; tries < 20; tries++) {
        struct bold *b = &bolds[pick(ASKS)];

        if (b->state == OUT) {
            b->state = FREE; /* before: what is answered by the drop may take it */
            mu_coord_drop(coord, &b->ask);
        }
        if (b->state != OUT) {
            memset(b, 0, sizeof *b);
            b->state = OUT;
            b->ask.answered = answered;
            b->ask.line = pick(8) ? lines[pick(LINES)] : NULL;
            return b;
        }
    }
    return NULL;
}

static void drop_some(void)
{
    struct bold *b = &bolds[pick(ASKS)];

    if (b->state != OUT)
        return;
    b->state = FREE;
    mu_coord_drop(coord, &b->ask);
}

/* Its asks are dropped before, as the server does, or with it. */
static void break_line(void)
{
    uint32_t i = pick(LINES);
    struct mu_line *line = lines[i];
    bool before = pick(2);

    lines[i] = mu_coord_line(coord, 0, "another"); /* before: what is answered by a drop asks on it */
    assert_non_null(lines[i]);
    for (int k = 0; k < ASKS; k++)
        if (bolds[k].state == OUT && bolds[k].ask.line == line) {
            bolds[k].state = FREE;
            if (before)
                mu_coord_drop(coord, &bolds[k].ask);
        } else if (bolds[k].ask.line == line) {
            bolds[k].ask.line = NULL;
        }
    mu_coord_hang_up(line, pick(2) ? "closed by its peer" : "reset by its peer");
}

static int32_t some_task(void)
{
    return pick(20) ? (int32_t)pick(TASKS) : (int32_t)test_random(&chance);
}

static void call_about_keys(struct bold *b)
{
    static const char *const keys[] = {"a", "a/b", "/a//b/", "c", "", "a/../b", "n", "d/1", "d/2", "d"};
    const char *key = keys[pick(sizeof keys / sizeof keys[0])];
    size_t len = strlen(key);
    static char value[3000];

    memset(value, '7', sizeof value);
    switch (pick(7)) {
    case 0: mu_coord_insert(coord, &b->ask, key, len, value, pick(sizeof value), pick(2)); break;
    case 1: mu_coord_get(coord, &b->ask, key, len); break;
    case 2: mu_coord_try_get(coord, &b->ask, key, len); break;
    case 3: mu_coord_increment(coord, &b->ask, key, len, (int64_t)pick(100) - 50); break;
    case 4: mu_coord_get_dir(coord, &b->ask, key, len); break;
    case 5: mu_coord_delete(coord, &b->ask, key, len); break;
    default: mu_coord_get(coord, &b->ask, "never", 5); break;
    }
}

/* Most fit, and each barrier is called for a while. */
static void call_a_barrier(struct bold *b)
{
    int32_t tasks[3] = {some_task(), some_task(), some_task()};
    int64_t counter = pick(8) ? 0 : pick(8) ? (int64_t)pick(4) : (int64_t)test_random(&chance);
    char id[24];

    snprintf(id, sizeof id, "b%u", steps / 100 + (pick(9) ? 0 : 1));
    if (pick(12))
        mu_coord_barrier(coord, &b->ask, some_task(), id, strlen(id), 5 + (int64_t)pick(200), tasks,
                         pick(30) ? 0 : pick(4), counter);
    else
        mu_coord_cancel(coord, &b->ask, some_task(), id, strlen(id), counter);
}

static void call_as_a_guest(struct bold *b)
{
    int32_t task = some_task(), tasks[3] = {task, some_task(), some_task()};
    uint64_t incarnation = pick(5) ? 7 : pick(3);

    switch (pick(9)) {
    case 0:
    case 1: mu_coord_register(coord, &b->ask, task, incarnation, pick(2)); break;
    case 2: mu_coord_heartbeat(coord, &b->ask, task, incarnation); break;
    case 3: mu_coord_poll_error(coord, &b->ask, task); break;
    case 4: mu_coord_report_error(coord, &b->ask, task, (int32_t)pick(20), "oh", 2); break;
    case 5: mu_coord_shutdown(coord, &b->ask, task); break;
    case 6: mu_coord_reset(coord, &b->ask, task); break;
    case 7: mu_coord_watch(coord, &b->ask, (int64_t)pick(300) - 1); break;
    default: mu_coord_alive(coord, &b->ask, task, tasks, 1 + pick(3)); break;
    }
}

static void act(void)
{
    struct bold *b;

    switch (pick(12)) {
    case 0: drop_some(); return;
    case 1: depth || pick(8) ? drop_some() : break_line(); return;
    default: break;
    }
    b = new_ask();
    if (!b)
        return;
    switch (pick(3)) {
    case 0: call_about_keys(b); break;
    case 1: call_a_barrier(b); break;
    default: call_as_a_guest(b); break;
    }
}

COORD_TEST(guests_do_anything)
{
    chance.state = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        struct mu_coord_options o = {.register_barrier = round & 1,
                                     .shutdown_timeout_ns = round & 2 ? 20000000 : 0,
                                     .register_timeout_ns = 15000000,
                                     .reconnects = round == 3,
                                     .lost_ns = 5000000};

        counter_open_for(TASKS, &o, 50000000);
        memset(bolds, 0, sizeof bolds);
        answers = 0;
        for (int i = 0; i < LINES; i++)
            lines[i] = mu_coord_line(coord, 0, "one");
        for (steps = 0; steps < STEPS; steps++) {
            act();
            if (!pick(20))
                counter_turn();
            if (!pick(60))
                counter_disturb(pick(4), pick(30));
        }
        mu_coord_stop(coord);
        for (int i = 0; i < ASKS; i++)
            assert_int_not_equal(bolds[i].state, OUT);
        assert_true(answers > STEPS / 4);
        for (int i = 0; i < LINES; i++)
            mu_coord_hang_up(lines[i], "closed by its peer");
        counter_close();
    }
}
