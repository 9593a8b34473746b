/*
 * rpc/callee.c: the calls to each server wait in a queue, of which the first is on its connection.
 *
 * A connection that ends is made again at once, with or without calls: so a server that has died is noticed while
 * nothing is wanted of it. One that was there and now refuses is given up without another try; one that has never been
 * there may be about to listen.
 */
#include "rpc/callee.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "rpc/worker_private.h"

enum {
    EVENTS_A_TURN = 256,
    LOOK_MS = 50, /* how often deadlines are looked at, and a server is tried that is not there yet */
};
#define REACH_MS  2000u
#define ANSWER_MS 15000u

struct callee_call {
    struct callee_call *next;
    uint64_t tag;
    const char *path;
    size_t len;
    uint8_t bytes[];
};

struct mu_callee {
    struct mu_callees *callees;
    struct mu_callee *next, *prev;
    void *owner;
    struct mu_link_name name;
    struct mu_worker_call *wire; /* NULL: there is no connection */
    struct callee_call *first, *last;
    bool is_calling; /* the first call is on the wire */
    bool was_there, is_closing;
    uint64_t until_ms, tried_ms; /* until_ms: for what is under way; 0: nothing */
    char why[300];
};

struct mu_callees {
    struct mu_callees_options o;
    struct mu_callee *all;
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned open; /* handles that are not closed */
    int poll_fd;
    bool is_closed;
};

static uint64_t callee_now(void)
{
    return mu_now() / 1000000;
}

static void callee_free(struct mu_callee *c)
{
    MU_LIST_DROP(c->callees->all, c);
    while (c->first) {
        struct callee_call *call = c->first;

        c->first = call->next;
        free(call);
    }
    if (c->wire)
        mu_worker_call_free(c->wire);
    free(c);
}

static void wire_drop(struct mu_callee *c)
{
    if (c->wire)
        mu_worker_call_free(c->wire);
    c->wire = NULL;
    c->is_calling = false;
}

static void callee_give_up(struct mu_callee *c, const char *why)
{
    struct mu_callees *all = c->callees;
    bool was_said = c->is_calling && c->wire && c->wire->stream > 0;

    snprintf(c->why, sizeof c->why, "%s", why);
    wire_drop(c);
    c->until_ms = 0;
    if (c->is_closing) {
        callee_free(c);
        return;
    }
    all->o.lost(all->o.arg, c, was_said, c->why);
}

/* ---- its connection ---------------------------------------------------------------------------------------------- */

static void timer_need(struct mu_callees *all)
{
    if (!uv_is_active((uv_handle_t *)&all->timer))
        uv_timer_again(&all->timer);
}

/* A connection, for the first call where there is one. */
static void wire_begin(struct mu_callee *c)
{
    const struct callee_call *call = c->first;

    c->tried_ms = callee_now();
    c->wire = mu_worker_call_new(&c->name, call ? call->path : NULL, call ? call->bytes : NULL, call ? call->len : 0);
    if (!c->wire)
        return; /* the timer tries again, until the time is over */
    c->wire->owner = c;
    c->wire->keeps = true;
    c->wire->time_ms = c->callees->o.answer_ms;
    c->is_calling = call != NULL;
    mu_worker_call_begin(c->wire, c->callees->poll_fd);
}

/* The first call goes out, if it can. */
static void calls_go_on(struct mu_callee *c)
{
    struct mu_callees *all = c->callees;
    const struct callee_call *call = c->first;

    if (!call || c->is_calling)
        return;
    timer_need(all);
    c->until_ms = callee_now() + (c->was_there ? all->o.answer_ms : all->o.reach_ms);
    if (!c->wire)
        wire_begin(c);
    else if (mu_worker_call_again(c->wire, call->path, call->bytes, call->len))
        c->is_calling = true;
}

static void wire_reached(struct mu_callee *c)
{
    int on = 1, idle = 10, each = 5, times = 3;

    c->was_there = true;
    c->until_ms = c->first ? callee_now() + c->callees->o.answer_ms : 0;
    setsockopt(c->wire->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(c->wire->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(c->wire->fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof each);
    setsockopt(c->wire->fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

/* Its connection is over. A call that was on it may have come there, and is not made twice. */
static void wire_ended(struct mu_callee *c)
{
    struct mu_worker_call *wire = c->wire;
    bool was_connected = wire->is_connected;
    char why[sizeof wire->why];

    memcpy(why, wire->why, sizeof why);
    if (c->is_calling && wire->stream > 0) {
        callee_give_up(c, why);
    } else if (c->was_there && !was_connected) {
        callee_give_up(c, why);
    } else {
        snprintf(c->why, sizeof c->why, "%s", why);
        wire_drop(c);
        timer_need(c->callees);
        if (was_connected) { /* a server that does not like to be idle, or that is dying */
            c->until_ms = callee_now() + c->callees->o.reach_ms;
            if (callee_now() >= c->tried_ms + LOOK_MS)
                wire_begin(c);
        }
    }
}

static void call_answered(struct mu_callee *c)
{
    struct mu_callees *all = c->callees;
    struct callee_call *call = c->first;
    uint64_t tag = call->tag;
    bool is_well = mu_worker_call_is_well(c->wire), is_closing = c->is_closing;
    char why[sizeof c->wire->why];

    memcpy(why, c->wire->why, sizeof why);
    c->wire->is_answered = false;
    c->is_calling = false;
    c->until_ms = 0;
    c->first = call->next;
    c->last = c->first ? c->last : NULL;
    free(call);
    if (is_closing && !c->first) {
        callee_free(c);
        return;
    }
    calls_go_on(c);
    if (!is_closing)
        all->o.answered(all->o.arg, c, tag, is_well ? NULL : why);
}

static void callee_look(struct mu_callee *c)
{
    bool was_connected = c->wire->is_connected;

    mu_worker_call_go(c->wire);
    if (!was_connected && c->wire->is_connected)
        wire_reached(c);
    if (c->wire->is_answered && c->is_calling)
        call_answered(c);
    else if (c->wire->is_over)
        wire_ended(c);
}

static void on_callee_poll(uv_poll_t *poll, int status, int events)
{
    struct mu_callees *all = poll->data;
    struct epoll_event event;

    (void)status;
    (void)events;
    for (int i = 0; i < EVENTS_A_TURN && !all->is_closed && epoll_wait(all->poll_fd, &event, 1, 0) == 1; i++)
        callee_look(((struct mu_worker_call *)event.data.ptr)->owner);
}

/* Time is over, a connection failed as it began, or it is to be tried again. True: the list may have changed. */
static bool callee_due(struct mu_callee *c, uint64_t now)
{
    char why[400];

    if (c->wire && c->wire->is_over) {
        wire_ended(c);
        return true;
    }
    if (c->until_ms && now >= c->until_ms && !c->was_there && !c->first) { /* nothing is wanted of it */
        wire_drop(c);
        c->until_ms = 0;
        return false;
    }
    if (c->until_ms && now >= c->until_ms) {
        snprintf(why, sizeof why, "it %s within %llu ms%s%s", c->was_there ? "did not answer" : "could not be reached",
                 (unsigned long long)(c->was_there ? c->callees->o.answer_ms : c->callees->o.reach_ms),
                 !c->was_there && c->why[0] ? ": " : "", c->was_there ? "" : c->why);
        callee_give_up(c, why);
        return true;
    }
    if (c->until_ms && !c->wire && now >= c->tried_ms + LOOK_MS)
        wire_begin(c);
    return false;
}

static void on_callee_timer(uv_timer_t *timer)
{
    struct mu_callees *all = timer->data;
    uint64_t now = callee_now();
    bool is_busy = false;

    for (struct mu_callee *c = all->all; !all->is_closed && c;) {
        if (callee_due(c, now)) {
            c = all->all;
            is_busy = false;
            continue;
        }
        is_busy = is_busy || c->until_ms;
        c = c->next;
    }
    if (!all->is_closed && !is_busy)
        uv_timer_stop(timer);
}

/* ---- for its owner ----------------------------------------------------------------------------------------------- */

bool mu_callee_call(struct mu_callee *c, uint64_t tag, const char *path, const void *message, size_t len)
{
    struct callee_call *call = malloc(sizeof *call + len);

    if (!call || c->is_closing) {
        free(call);
        return false;
    }
    *call = (struct callee_call){.tag = tag, .path = path, .len = len};
    if (len)
        memcpy(call->bytes, message, len);
    if (c->last)
        c->last->next = call;
    else
        c->first = call;
    c->last = call;
    calls_go_on(c);
    return true;
}

void mu_callee_watch(struct mu_callee *c)
{
    if (c->wire)
        return;
    c->until_ms = callee_now() + c->callees->o.reach_ms;
    timer_need(c->callees);
    wire_begin(c);
}

bool mu_callee_was_there(const struct mu_callee *c)
{
    return c->was_there;
}

void *mu_callee_owner(const struct mu_callee *c)
{
    return c->owner;
}

enum muster_status mu_callee_new(struct mu_callees *all, const char *address, void *owner,
                                 struct mu_callee **ret_callee)
{
    struct mu_callee *c = calloc(1, sizeof *c);

    if (!c)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for calls to %.300s", address);
    c->callees = all;
    c->owner = owner;
    if (mu_link_name_parse(address, &c->name) || !c->name.host[0] || strcmp(c->name.port, "0") == 0) {
        free(c);
        return mu_fail(MUSTER_INVALID_ARGUMENT, "'%.300s' is no address of a server", address);
    }
    MU_LIST_PUSH(all->all, c);
    *ret_callee = c;
    return MUSTER_OK;
}

void mu_callee_close(struct mu_callee *c)
{
    c->is_closing = true;
    if (!c->first || (!c->wire && !c->until_ms))
        callee_free(c);
}

static void callees_done(struct mu_callees *all)
{
    if (all->poll_fd >= 0)
        close(all->poll_fd);
    free(all);
}

enum muster_status mu_callees_open(const struct mu_callees_options *options, struct mu_callees **ret_callees)
{
    struct mu_callees *all = calloc(1, sizeof *all);

    if (!all)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for calls to servers");
    all->o = *options;
    all->o.reach_ms = options->reach_ms ? options->reach_ms : REACH_MS;
    all->o.answer_ms = options->answer_ms ? options->answer_ms : ANSWER_MS;
    all->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (all->poll_fd < 0 || uv_poll_init(options->loop, &all->poll, all->poll_fd)) {
        enum muster_status status =
            mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no epoll for calls to servers: %s", strerror(errno));

        callees_done(all);
        return status;
    }
    uv_timer_init(options->loop, &all->timer);
    all->poll.data = all->timer.data = all;
    all->open = 2;
    uv_poll_start(&all->poll, UV_READABLE, on_callee_poll);
    uv_timer_start(&all->timer, on_callee_timer, LOOK_MS, LOOK_MS);
    uv_timer_stop(&all->timer); /* it knows how often: uv_timer_again() */
    uv_unref((uv_handle_t *)&all->poll);
    uv_unref((uv_handle_t *)&all->timer);
    *ret_callees = all;
    return MUSTER_OK;
}

static void on_callees_closed(uv_handle_t *handle)
{
    struct mu_callees *all = handle->data;

    if (--all->open == 0)
        callees_done(all);
}

void mu_callees_close(struct mu_callees *all)
{
    if (!all || all->is_closed)
        return;
    all->is_closed = true;
    while (all->all)
        callee_free(all->all);
    uv_close((uv_handle_t *)&all->poll, on_callees_closed);
    uv_close((uv_handle_t *)&all->timer, on_callees_closed);
}
