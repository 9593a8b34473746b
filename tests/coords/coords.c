/*
 * tests/coords/coords.c: the loop, the engines, what they tell each other, and the asks of guests.
 */
#include "coords.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bridge/call/lanes.h"
#include "segment/hosts.h"
#include "task/task.h"

enum { GUESTS = 64, TICK_MS = 20 };

struct word {
    struct word *next;
    uint32_t from, to;
    struct mu_coord_news news;
    char text[8192], brief[1024];
};

struct mu_coord *coords[HOSTS_MAX];
static struct muster *observers[HOSTS_MAX];
static struct mu_lanes *lanes[HOSTS_MAX];
static struct mu_beat *beats[HOSTS_MAX];
static uint64_t last_check[HOSTS_MAX];
static uint32_t num_hosts;
static uv_loop_t loop;
static uv_timer_t guard; /* so that no turn of the loop lasts for ever */
static struct mu_line *lines[GUESTS];
static struct asked *asks;
static struct word *words, **words_end = &words;
static bool is_held;

/* ---- what they tell each other ---- */

static void put_word(uint32_t from, uint32_t to, const struct mu_coord_news *news)
{
    struct word *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->from = from;
    w->to = to;
    w->news = *news;
    snprintf(w->text, sizeof w->text, "%s", news->text);
    snprintf(w->brief, sizeof w->brief, "%s", news->brief ? news->brief : "");
    w->news.text = w->text;
    w->news.brief = w->brief[0] ? w->brief : NULL;
    *words_end = w;
    words_end = &w->next;
}

static void tell(void *arg, uint32_t host, const struct mu_coord_news *news)
{
    uint32_t from = (uint32_t)((struct mu_coord **)arg - coords);

    for (uint32_t i = 0; i < num_hosts; i++)
        if (i != from && (host == UINT32_MAX || host == i))
            put_word(from, i, news);
}

static struct word *take_word(void)
{
    struct word *w = words;

    if (!w)
        return NULL;
    words = w->next;
    if (!words)
        words_end = &words;
    return w;
}

void coords_tell_all(void)
{
    struct word *w;

    while (!is_held && (w = take_word())) {
        mu_coord_told(coords[w->to], w->from, &w->news);
        free(w);
    }
}

int32_t coords_first_error(uint32_t host)
{
    struct muster_error error = {.task_id = -1};

    return muster_error_wait(observers[host], muster_after_ns(0), &error) ? -1 : error.task_id;
}

void coords_hold(bool hold)
{
    is_held = hold;
}

void coords_say(uint32_t from, const struct mu_coord_news *news)
{
    tell(&coords[from], from ? 0 : UINT32_MAX, news);
}

/* ---- the loop ---- */

/* What each agent's loop does for its host. */
static void tick(uv_timer_t *timer)
{
    struct mu_ctx *ctx;

    (void)timer;
    for (uint32_t i = 0; i < num_hosts; i++)
        if (observers[i] && !mu_enter(observers[i], &ctx)) {
            mu_beats_check(ctx, beats[i], &last_check[i]);
            mu_exit(ctx);
        }
}

void coords_turn(void)
{
    coords_tell_all();
    uv_run(&loop, UV_RUN_NOWAIT);
    coords_tell_all();
}

void coords_step(void)
{
    uv_ref((uv_handle_t *)&guard);
    uv_run(&loop, UV_RUN_ONCE);
    uv_unref((uv_handle_t *)&guard);
    coords_tell_all();
}

static struct mu_lanes *make_lanes(uint32_t host)
{
    struct mu_core *core = hosts_lock(cast_hosts, host);

    assert_non_null(core);
    assert_status(MUSTER_OK, mu_lanes_make(core, &lanes[host]));
    hosts_unlock(cast_hosts, host);
    return lanes[host];
}

static void free_lanes(uint32_t host)
{
    struct mu_core *core = hosts_lock(cast_hosts, host);

    mu_lanes_free(lanes[host]);
    lanes[host] = NULL;
    if (core)
        hosts_unlock(cast_hosts, host);
}

void coords_open(const struct hosts_config *config, const struct mu_coord_options *options)
{
    cast_open(config);
    num_hosts = hosts_count(cast_hosts);
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &guard);
    uv_timer_start(&guard, tick, TICK_MS, TICK_MS);
    uv_unref((uv_handle_t *)&guard);
    is_held = false;
    for (uint32_t i = 0; i < num_hosts; i++) {
        struct mu_coord_options o = *options;

        observers[i] = hosts_observer(cast_hosts, i);
        beats[i] = calloc(hosts_segment(cast_hosts, i)->num_tasks, sizeof *beats[i]);
        last_check[i] = 0;
        o.loop = &loop;
        o.m = observers[i];
        o.lanes = make_lanes(i);
        o.tell = tell;
        o.arg = &coords[i];
        assert_status(MUSTER_OK, mu_coord_open(&o, &coords[i]));
    }
}

static void close_coords(void)
{
    struct word *w;

    for (uint32_t i = 0; i < GUESTS; i++)
        if (lines[i])
            hang_up(i);
    for (uint32_t i = 0; i < num_hosts; i++) {
        mu_coord_free(coords[i]);
        coords[i] = NULL;
    }
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    while ((w = take_word()))
        free(w);
    for (uint32_t i = 0; i < num_hosts; i++) {
        free_lanes(i);
        muster_leave(observers[i]);
        observers[i] = NULL;
        free(beats[i]);
    }
    while (asks) {
        struct asked *a = asks;

        asks = a->next;
        free(a);
    }
}

void coords_close(void)
{
    close_coords();
    cast_close();
}

int coords_strike(void)
{
    if (coords[0]) {
        close_coords();
        hosts_close(cast_hosts);
    }
    return 0;
}

/* ---- guests ---- */

static void answered(struct mu_coord_request *q)
{
    struct asked *a = (struct asked *)q;

    if (a->answered)
        fail_msg("answered twice");
    a->answered = true;
    snprintf(a->text, sizeof a->text, "%s", q->text);
}

static uint32_t host_of(uint32_t guest)
{
    return mu_host_of(hosts_segment(cast_hosts, 0), guest);
}

static struct asked *ask_at(uint32_t host, uint32_t guest)
{
    struct asked *a = calloc(1, sizeof *a);
    char name[32];

    assert_non_null(a);
    snprintf(name, sizeof name, "127.0.0.1:%u", 50000 + guest);
    if (!lines[guest] && host == host_of(guest))
        lines[guest] = mu_coord_line(coords[host], 0, name);
    a->ask.answered = answered;
    a->ask.line = host == host_of(guest) ? lines[guest] : NULL;
    a->next = asks;
    asks = a;
    return a;
}

static struct asked *ask(uint32_t guest)
{
    return ask_at(host_of(guest), guest);
}

void hang_up(uint32_t guest)
{
    struct mu_line *line = lines[guest];

    assert_non_null(line);
    lines[guest] = NULL;
    mu_coord_hang_up(line, "closed by its peer");
}

struct asked *do_register(uint32_t guest, uint64_t incarnation)
{
    struct asked *a = ask(guest);

    mu_coord_register(coords[host_of(guest)], &a->ask, (int32_t)guest, incarnation, false);
    return a;
}

struct asked *do_register_at(uint32_t host, uint32_t guest)
{
    struct asked *a = ask_at(host, guest);

    mu_coord_register(coords[host], &a->ask, (int32_t)guest, INCARNATION(guest), false);
    return a;
}

struct asked *do_shutdown(uint32_t guest)
{
    struct asked *a = ask(guest);

    mu_coord_shutdown(coords[host_of(guest)], &a->ask, (int32_t)guest);
    return a;
}

struct asked *do_poll(uint32_t guest)
{
    struct asked *a = ask(guest);

    mu_coord_poll_error(coords[host_of(guest)], &a->ask, (int32_t)guest);
    return a;
}

struct asked *do_report_error(uint32_t guest, const char *text)
{
    struct asked *a = ask(guest);

    mu_coord_report_error(coords[host_of(guest)], &a->ask, (int32_t)guest, MUSTER_INTERNAL, text, strlen(text));
    return a;
}

struct asked *do_reset(uint32_t guest)
{
    struct asked *a = ask(guest);

    mu_coord_reset(coords[host_of(guest)], &a->ask, (int32_t)guest);
    return a;
}

/* ---- looking ---- */

enum muster_task_state state_at(uint32_t host, uint32_t task)
{
    struct muster_task_info info;

    assert_status(MUSTER_OK, muster_task_get(observers[host], (int32_t)task, &info));
    return (enum muster_task_state)info.state;
}

void until_state_at(uint32_t host, uint32_t task, enum muster_task_state state)
{
    coords_await(state_at(host, task) == state, "the task is in that state");
}

void coords_waits(struct asked *a, const char *file, int line)
{
    coords_turn();
    if (!a->answered)
        return;
    print_error("it does not wait: %s, %s\n", muster_status_name(a->ask.status), a->text);
    _fail(file, line);
}

void coords_answer(struct asked *a, enum muster_status status, const char *part, const char *file, int line)
{
    coords_await(a->answered, "the ask is answered");
    if (a->ask.status != status) {
        print_error("%s (%s), not %s\n", muster_status_name(a->ask.status), a->text, muster_status_name(status));
        _fail(file, line);
    }
    if (part && !strstr(a->text, part)) {
        print_error("'%s' does not say '%s'\n", a->text, part);
        _fail(file, line);
    }
}
