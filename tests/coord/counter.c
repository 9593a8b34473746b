/*
 * tests/coord/counter.c: the loop, the lines, and the asks of guests.
 */
#include "counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task/task.h"

enum { GUESTS = 80 };

struct mu_coord *coord;
uv_loop_t counter_loop;
bool counter_is_far;
static struct mu_line *lines[GUESTS];
static struct asked *asks;
static unsigned answers;
static uv_timer_t guard; /* so that no turn of the loop lasts for ever */

static struct mu_beat *beats;
static uint64_t last_check;
static int kept = -1;

/* What the agent's loop does for its job. */
static void tick(uv_timer_t *timer)
{
    struct mu_ctx *ctx;

    (void)timer;
    if (!stage_observer || mu_enter(stage_observer, &ctx))
        return;
    if (kept >= 0)
        mu_task_beat(ctx, (uint32_t)kept, INCARNATION(kept));
    mu_beats_check(ctx, beats, &last_check);
    mu_exit(ctx);
}

static void open_coord(const struct mu_coord_options *options)
{
    struct mu_coord_options o = {0};

    if (options)
        o = *options;
    o.loop = &counter_loop;
    o.m = stage_observer;
    if (mu_coord_open(&o, &coord))
        fail_msg("no engine: %s", muster_last_error());
}

void counter_begin_loop(uint32_t tasks)
{
    beats = calloc(tasks, sizeof *beats);
    last_check = 0;
    kept = -1;
    assert_int_equal(uv_loop_init(&counter_loop), 0);
    uv_timer_init(&counter_loop, &guard);
    uv_timer_start(&guard, tick, 20, 20);
    uv_unref((uv_handle_t *)&guard);
}

void counter_open_for(uint32_t tasks, const struct mu_coord_options *options, uint64_t heartbeat_ns)
{
    struct muster_segment_config c = {.num_buckets = 1024,
                                      .num_events = 64,
                                      .heap_bytes = 64u << 20,
                                      .listened = 1,
                                      .heartbeat_timeout_ns = heartbeat_ns};

    stage_open(tasks, &c);
    assert_int_equal(stage_player(), 0);
    counter_begin_loop(tasks);
    open_coord(options);
}

void counter_open(uint32_t tasks, const struct mu_coord_options *options)
{
    counter_open_for(tasks, options, 100000000000u);
}

void counter_enter(int32_t task)
{
    struct join_act a = {.task = task};

    assert_status(stage_do(0, act_join, &a, sizeof a), MUSTER_OK);
}

void counter_hang_up(int guest)
{
    if (guest < GUESTS && lines[guest])
        hang_up(guest, "closed by its peer");
}

void counter_hang_up_all(void)
{
    for (int i = 0; i < GUESTS; i++)
        counter_hang_up(i);
}

static void close_coord(void)
{
    counter_hang_up_all();
    mu_coord_free(coord);
    coord = NULL;
    for (int i = 0; i < 3; i++)
        uv_run(&counter_loop, UV_RUN_NOWAIT);
}

void counter_reopen(const struct mu_coord_options *options)
{
    close_coord();
    open_coord(options);
}

static void forget_asks(void)
{
    while (asks) {
        struct asked *a = asks;

        asks = a->next;
        free(a->value);
        free(a->keys);
        free(a->tasks);
        free(a);
    }
}

void counter_end_loop(void)
{
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&counter_loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&counter_loop), 0);
    forget_asks();
    free(beats);
    beats = NULL;
}

static void close_loop(void)
{
    close_coord();
    counter_end_loop();
}

void counter_close(void)
{
    close_loop();
    stage_close();
}

int counter_strike(void)
{
    if (coord)
        close_loop();
    return stage_strike();
}

struct mu_line *line_of_process(int guest, uint32_t pid)
{
    char name[32];

    snprintf(name, sizeof name, "127.0.0.1:%d", 50000 + guest);
    if (!lines[guest])
        lines[guest] = mu_coord_line(coord, pid, name);
    assert_non_null(lines[guest]);
    return lines[guest];
}

struct mu_line *line_of(int guest)
{
    return line_of_process(guest, 0);
}

void hang_up(int guest, const char *why)
{
    struct mu_line *line = lines[guest];

    assert_non_null(line);
    lines[guest] = NULL;
    mu_coord_hang_up(line, why);
}

static void copy_lists(struct asked *a, const struct mu_coord_request *q)
{
    size_t room = 1, used = 0;

    struct muster_kv_entry e;

    for (size_t i = 0; i < q->num_entries; i++) {
        mu_coord_entry(&q->entries[i], &e);
        room += e.key_len + 1;
    }
    a->keys = calloc(1, room);
    for (size_t i = 0; i < q->num_entries; i++) {
        mu_coord_entry(&q->entries[i], &e);
        used += (size_t)snprintf(a->keys + used, room - used, "%.*s\n", (int)e.key_len, e.key);
    }
    if (q->num_tasks) {
        a->tasks = calloc(q->num_tasks, sizeof *a->tasks);
        memcpy(a->tasks, q->tasks, q->num_tasks * sizeof *a->tasks);
    }
    for (size_t i = 0; i < q->num_alive && i < 64; i++) {
        a->alive[i] = q->alive[i];
        a->incarnations[i] = q->incarnations[i];
    }
}

static void answered(struct mu_coord_request *q)
{
    struct asked *a = (struct asked *)q;

    if (a->answered)
        fail_msg("answered twice");
    a->answered = true;
    a->order = ++answers;
    snprintf(a->text, sizeof a->text, "%s", q->text);
    snprintf(a->barrier_id, sizeof a->barrier_id, "%s", q->barrier_id ? q->barrier_id : "");
    if (!q->status && q->value) {
        a->value = calloc(1, q->len + 1);
        a->len = q->len;
        memcpy(a->value, q->value, q->len);
    }
    if (!q->status)
        copy_lists(a, q);
}

struct asked *ask(int guest)
{
    struct asked *a = calloc(1, sizeof *a);

    assert_non_null(a);
    a->ask.answered = answered;
    a->ask.line = guest < 0 || guest >= GUESTS ? NULL : line_of(guest);
    a->next = asks;
    asks = a;
    return a;
}

void counter_turn(void)
{
    uv_run(&counter_loop, UV_RUN_NOWAIT);
}

void counter_step(void)
{
    uv_ref((uv_handle_t *)&guard);
    uv_run(&counter_loop, UV_RUN_ONCE);
    uv_unref((uv_handle_t *)&guard);
}

void until_answered(struct asked *a)
{
    counter_await(a->answered, "the ask is answered");
}

struct reply counter_hear(int player)
{
    counter_await(stage_has_answered(player), "the player answers");
    return stage_hear(player);
}

/* Whatever was asked before has come to the leader. */
static void settle(void)
{
    struct asked *a = ask(-1);

    mu_coord_increment(coord, &a->ask, "settled", 7, 1);
    until_answered(a);
}

void counter_waits(struct asked *a, const char *file, int line)
{
    if (counter_is_far)
        settle();
    counter_turn();
    if (!a->answered)
        return;
    print_error("it does not wait: %s, %s\n", muster_status_name(a->ask.status), a->text);
    _fail(file, line);
}

void counter_answer(struct asked *a, enum muster_status status, const char *part, const char *file, int line)
{
    until_answered(a);
    if (a->ask.status != status) {
        print_error("%s (%s), not %s\n", muster_status_name(a->ask.status), a->text, muster_status_name(status));
        _fail(file, line);
    }
    if (part && !strstr(a->text, part)) {
        print_error("'%s' does not say '%s'\n", a->text, part);
        _fail(file, line);
    }
}

void counter_value(struct asked *a, const char *text, const char *file, int line)
{
    counter_answer(a, MUSTER_OK, NULL, file, line);
    if (a->value && a->len == strlen(text) && !memcmp(a->value, text, a->len))
        return;
    print_error("the value is '%s', not '%s'\n", a->value ? a->value : "(none)", text);
    _fail(file, line);
}

/* ---- short forms ---- */

struct asked *do_insert(int guest, const char *key, const char *value, bool overwrite)
{
    struct asked *a = ask(guest);

    mu_coord_insert(coord, &a->ask, key, strlen(key), value, strlen(value), overwrite);
    return a;
}

struct asked *do_get(int guest, const char *key)
{
    struct asked *a = ask(guest);

    mu_coord_get(coord, &a->ask, key, strlen(key));
    return a;
}

struct asked *do_try_get(int guest, const char *key)
{
    struct asked *a = ask(guest);

    mu_coord_try_get(coord, &a->ask, key, strlen(key));
    return a;
}

struct asked *do_increment(int guest, const char *key, int64_t by)
{
    struct asked *a = ask(guest);

    mu_coord_increment(coord, &a->ask, key, strlen(key), by);
    return a;
}

struct asked *do_compare(int guest, const char *key, uint64_t expected, const char *value)
{
    struct asked *a = ask(guest);

    mu_coord_compare_and_set(coord, &a->ask, key, strlen(key), expected, value, strlen(value));
    return a;
}

struct asked *do_append(int guest, const char *key, const char *value)
{
    struct asked *a = ask(guest);

    mu_coord_append(coord, &a->ask, key, strlen(key), value, strlen(value));
    return a;
}

struct asked *do_list(int guest, const char *key)
{
    struct asked *a = ask(guest);

    mu_coord_get_dir(coord, &a->ask, key, strlen(key));
    return a;
}

struct asked *do_count(int guest, const char *key)
{
    struct asked *a = ask(guest);

    mu_coord_count(coord, &a->ask, key, strlen(key));
    return a;
}

struct asked *do_delete(int guest, const char *key)
{
    struct asked *a = ask(guest);

    mu_coord_delete(coord, &a->ask, key, strlen(key));
    return a;
}

static struct asked *meet(int guest, const char *id, int64_t counter, int64_t timeout_ms, const int32_t *tasks,
                          size_t count)
{
    struct asked *a = ask(guest);

    mu_coord_barrier(coord, &a->ask, guest, id, strlen(id), timeout_ms, tasks, count, counter);
    return a;
}

struct asked *do_meet(int guest, const char *id, int64_t counter)
{
    return meet(guest, id, counter, 60000, NULL, 0);
}

struct asked *do_meet_some(int guest, const char *id, int64_t counter, const int32_t *tasks, size_t count)
{
    return meet(guest, id, counter, 60000, tasks, count);
}

struct asked *do_meet_for(int guest, const char *id, int64_t counter, int64_t timeout_ms)
{
    return meet(guest, id, counter, timeout_ms, NULL, 0);
}

struct asked *do_cancel(int guest, const char *id, int64_t counter)
{
    struct asked *a = ask(guest);

    mu_coord_cancel(coord, &a->ask, guest, id, strlen(id), counter);
    return a;
}

static struct asked *enrol(int guest, uint64_t incarnation, bool recoverable)
{
    struct asked *a = ask(guest);

    mu_coord_register(coord, &a->ask, guest, incarnation, recoverable);
    return a;
}

struct asked *do_register(int guest, uint64_t incarnation)
{
    return enrol(guest, incarnation, false);
}

struct asked *do_register_recoverable(int guest, uint64_t incarnation)
{
    return enrol(guest, incarnation, true);
}

struct asked *do_beat(int guest, uint64_t incarnation)
{
    struct asked *a = ask(guest);

    mu_coord_heartbeat(coord, &a->ask, guest, incarnation);
    return a;
}

struct asked *do_poll(int guest)
{
    struct asked *a = ask(guest);

    mu_coord_poll_error(coord, &a->ask, guest);
    return a;
}

struct asked *do_report_error(int guest, enum muster_status code, const char *text)
{
    struct asked *a = ask(guest);

    mu_coord_report_error(coord, &a->ask, guest, code, text, strlen(text));
    return a;
}

struct asked *do_shutdown(int guest)
{
    struct asked *a = ask(guest);

    mu_coord_shutdown(coord, &a->ask, guest);
    return a;
}

struct asked *do_reset(int guest)
{
    struct asked *a = ask(guest);

    mu_coord_reset(coord, &a->ask, guest);
    return a;
}

struct asked *do_watch(int guest, int64_t version)
{
    struct asked *a = ask(guest);

    mu_coord_watch(coord, &a->ask, version);
    return a;
}

struct asked *do_alive(int guest, const int32_t *tasks, size_t count)
{
    struct asked *a = ask(guest);

    mu_coord_alive(coord, &a->ask, guest, tasks, count);
    return a;
}

void register_guests(int first, int count)
{
    for (int i = first; i < first + count; i++)
        assert_answer(do_register(i, INCARNATION(i)), MUSTER_OK);
}

void counter_keep(int guest)
{
    kept = guest;
}

static bool is_silent(int guest)
{
    struct asked *a = do_beat(guest, INCARNATION(guest));

    assert_true(a->answered);
    return a->ask.status != MUSTER_OK;
}

void until_silent(int guest)
{
    counter_await(is_silent(guest), "heartbeats are refused");
}
