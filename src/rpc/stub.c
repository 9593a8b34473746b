/*
 * rpc/stub.c: the connection of a stub.
 *
 * What is to be said is collected and sent in one go, before the loop sleeps. A connection that ends takes its calls
 * with it: they may have been carried out, so none is made twice. Calls that were not said yet wait for the next
 * connection.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "rpc/stub_private.h"

enum { TICK_MS = 50 };

/* ---- its connection ---------------------------------------------------------------------------------------------- */

static void on_stub_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void stub_unwatch(struct mu_stub *s)
{
    if (s->poll)
        uv_close((uv_handle_t *)s->poll, on_stub_poll_closed);
    s->poll = NULL;
    s->polled = 0;
}

static void on_stub_poll(uv_poll_t *poll, int status, int events);

static bool stub_watch(struct mu_stub *s, int fd, int events)
{
    if (!s->poll) {
        s->poll = malloc(sizeof *s->poll);
        if (!s->poll)
            return false;
        if (uv_poll_init(s->loop, s->poll, fd)) {
            free(s->poll);
            s->poll = NULL;
            return false;
        }
        s->poll->data = s;
        uv_unref((uv_handle_t *)s->poll);
    }
    if (events != s->polled && uv_poll_start(s->poll, events, on_stub_poll))
        return false;
    s->polled = events;
    return true;
}

static void stub_hang_up(struct mu_stub *s)
{
    stub_unwatch(s);
    if (s->session)
        nghttp2_session_del(s->session);
    s->session = NULL;
    s->is_connected = false;
    s->out_len = s->out_at = 0;
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* The connection is over: so are the calls that were said on it. */
static void stub_break(struct mu_stub *s, const char *why)
{
    bool was_there = s->is_connected;
    char text[200];

    snprintf(text, sizeof text, "%s", why);
    snprintf(s->why, sizeof s->why, "%s", why);
    for (struct mu_stub_call *c = s->calls; c; c = c->next)
        c->is_broken = c->stream > 0; /* those alone: `done` may make others */
    stub_hang_up(s);
    for (struct mu_stub_call *c = s->calls; c && !s->is_closed;) {
        if (c->is_broken) {
            mu_stub_call_fail(c, MUSTER_UNAVAILABLE, text);
            c = s->calls;
        } else {
            c = c->next;
        }
    }
    if (was_there && !s->is_closed && s->lost)
        s->lost(s->arg, text);
}

/* Whether the socket took all that was collected. -1: it is broken. */
static int out_flush(struct mu_stub *s)
{
    while (s->out_at < s->out_len) {
        ssize_t n = send(s->fd, s->out + s->out_at, s->out_len - s->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        s->out_at += (size_t)n;
    }
    s->out_len = s->out_at = 0;
    return 1;
}

/* Say what there is to be said, and wait for what there is to be heard. */
static void stub_speak(struct mu_stub *s)
{
    int flushed = 1;

    while (flushed > 0 && (s->out_len || nghttp2_session_want_write(s->session))) {
        int error = nghttp2_session_send(s->session);

        if (error) {
            stub_break(s, nghttp2_strerror(error));
            return;
        }
        if (!s->out_len)
            break; /* what is left waits for the peer's window */
        flushed = out_flush(s);
    }
    if (flushed < 0)
        stub_break(s, "it closed the connection");
    else if (!nghttp2_session_want_read(s->session) && !nghttp2_session_want_write(s->session))
        stub_break(s, "it has ended the connection");
    else if (!stub_watch(s, s->fd, UV_READABLE | (flushed ? 0 : UV_WRITABLE)))
        stub_break(s, "no memory to wait for it");
}

static void stub_hear(struct mu_stub *s)
{
    for (int i = 0; i < 8 && s->is_connected; i++) {
        ssize_t n = recv(s->fd, s->in, sizeof s->in, MSG_DONTWAIT), taken;

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            stub_break(s, n == 0 ? "it closed the connection" : strerror(errno));
            return;
        }
        taken = nghttp2_session_mem_recv(s->session, s->in, (size_t)n);
        if (taken < 0) {
            stub_break(s, "it does not speak HTTP/2");
            return;
        }
        if ((size_t)n < sizeof s->in)
            return;
    }
}

/* Calls that are not said yet, now that there is a connection. */
static void stub_calls_say(struct mu_stub *s)
{
    for (struct mu_stub_call *c = s->calls; c; c = c->next)
        if (!c->stream && !mu_stub_say(c)) {
            stub_break(s, "the connection takes no more calls");
            return;
        }
    stub_speak(s);
}

static void stub_connect_next(struct mu_stub *s)
{
    while (s->at) {
        const struct addrinfo *a = s->at;

        s->at = a->ai_next;
        s->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (s->fd >= 0 && (connect(s->fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS) &&
            stub_watch(s, s->fd, UV_WRITABLE))
            return;
        snprintf(s->why, sizeof s->why, "%s", strerror(errno));
        stub_hang_up(s);
    }
}

static void stub_connected(struct mu_stub *s)
{
    int error = 0, one = 1, buffer = 4 << 20;
    socklen_t size = sizeof error;

    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size))
        error = errno;
    if (error) {
        snprintf(s->why, sizeof s->why, "%s", strerror(error));
        stub_hang_up(s);
        stub_connect_next(s);
        return;
    }
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    s->is_connected = mu_stub_session(s);
    if (s->is_connected)
        stub_calls_say(s);
    else
        stub_hang_up(s);
}

static void stub_looked_up(struct mu_stub *s)
{
    struct mu_lookup *lookup = s->lookup;
    int error;

    stub_unwatch(s);
    s->lookup = NULL;
    if (s->list)
        freeaddrinfo(s->list);
    s->list = s->at = NULL;
    error = mu_lookup_end(lookup, &s->list);
    if (error)
        snprintf(s->why, sizeof s->why, "%s", gai_strerror(error));
    else
        s->at = s->list;
    stub_connect_next(s);
}

static void on_stub_poll(uv_poll_t *poll, int status, int events)
{
    struct mu_stub *s = poll->data;

    (void)status;
    if (s->is_closed)
        return;
    if (s->lookup) {
        stub_looked_up(s);
    } else if (!s->is_connected) {
        stub_connected(s);
    } else {
        if (events & UV_READABLE || status < 0)
            stub_hear(s);
        if (s->is_connected)
            stub_speak(s);
    }
}

static void stub_connect(struct mu_stub *s)
{
    if (s->is_connected || s->lookup || s->fd >= 0)
        return;
    s->tried_ms = mu_stub_now();
    s->lookup = mu_lookup_begin(&s->name);
    if (s->lookup && !stub_watch(s, mu_lookup_fd(s->lookup), UV_READABLE)) {
        mu_lookup_abandon(s->lookup);
        s->lookup = NULL;
    }
}

static bool stub_call_is_late(const struct mu_stub_call *c, uint64_t now)
{
    return c->stream > 0 ? c->until_ms && now >= c->until_ms : now >= c->reach_until;
}

static void on_stub_timer(uv_timer_t *timer)
{
    struct mu_stub *s = timer->data;
    uint64_t now = mu_stub_now();
    bool is_waiting = false;
    char why[300];

    for (struct mu_stub_call *c = s->calls; c && !s->is_closed;) {
        if (!stub_call_is_late(c, now)) {
            is_waiting = true;
            c = c->next;
            continue;
        }
        if (c->stream > 0) {
            nghttp2_submit_rst_stream(s->session, NGHTTP2_FLAG_NONE, c->stream, NGHTTP2_CANCEL);
            mu_stub_call_fail(c, MUSTER_DEADLINE_EXCEEDED, "it did not answer in time");
        } else {
            snprintf(why, sizeof why, "it cannot be reached%s%s", s->why[0] ? ": " : "", s->why);
            mu_stub_call_fail(c, MUSTER_UNAVAILABLE, why);
        }
        c = s->calls;
        is_waiting = false;
    }
    if (s->is_closed)
        return;
    if (is_waiting && !s->is_connected)
        stub_connect(s);
    if (!is_waiting && !s->calls)
        uv_timer_stop(timer);
}

static void on_stub_prepare(uv_prepare_t *prepare)
{
    struct mu_stub *s = prepare->data;

    uv_prepare_stop(prepare);
    if (s->is_connected)
        stub_speak(s);
}

/* ---- for its owner ----------------------------------------------------------------------------------------------- */

struct mu_stub_call *mu_stub_call(struct mu_stub *s, const char *path, void *message, size_t len, uint64_t reach_ms,
                                  uint64_t timeout_ms, mu_stub_done *done, void *arg)
{
    struct mu_stub_call *call = len <= UINT32_MAX ? calloc(1, sizeof *call) : NULL;

    if (!call) {
        free(message);
        return NULL;
    }
    *call = (struct mu_stub_call){.stub = s,
                                  .path = path,
                                  .done = done,
                                  .arg = arg,
                                  .message = message,
                                  .len = len,
                                  .reach_until = mu_stub_now() + reach_ms,
                                  .timeout_ms = timeout_ms};
    for (int i = 0; i < 4; i++)
        call->prefix[1 + i] = (uint8_t)(len >> (24 - 8 * i));
    MU_LIST_PUSH(s->calls, call);
    if (!uv_is_active((uv_handle_t *)&s->timer))
        uv_timer_start(&s->timer, on_stub_timer, TICK_MS, TICK_MS);
    if (!s->is_connected)
        stub_connect(s);
    else if (mu_stub_say(call))
        uv_prepare_start(&s->prepare, on_stub_prepare);
    return call; /* one that was not said waits for the next connection, until its time is over */
}

void mu_stub_cancel(struct mu_stub_call *call)
{
    struct mu_stub *s = call->stub;

    if (call->stream > 0 && s->session) {
        nghttp2_submit_rst_stream(s->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
        uv_prepare_start(&s->prepare, on_stub_prepare);
    }
    mu_stub_call_free(call);
}

enum muster_status mu_stub_open(uv_loop_t *loop, const char *address, void (*lost)(void *arg, const char *why),
                                void *arg, struct mu_stub **ret_stub)
{
    struct mu_stub *s = calloc(1, sizeof *s);

    if (!s)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for calls to %.300s", address);
    if (mu_link_name_parse(address, &s->name) || !s->name.host[0] || strcmp(s->name.port, "0") == 0) {
        free(s);
        return mu_fail(MUSTER_INVALID_ARGUMENT, "'%.300s' is no address of a server", address);
    }
    s->loop = loop;
    s->lost = lost;
    s->arg = arg;
    s->fd = -1;
    snprintf(s->authority, sizeof s->authority, strchr(s->name.host, ':') ? "[%s]:%s" : "%s:%s", s->name.host,
             s->name.port);
    uv_timer_init(loop, &s->timer);
    uv_prepare_init(loop, &s->prepare);
    s->timer.data = s->prepare.data = s;
    s->open = 2;
    uv_unref((uv_handle_t *)&s->timer);
    uv_unref((uv_handle_t *)&s->prepare);
    *ret_stub = s;
    return MUSTER_OK;
}

static void on_stub_closed(uv_handle_t *handle)
{
    struct mu_stub *s = handle->data;

    if (--s->open == 0)
        free(s);
}

void mu_stub_close(struct mu_stub *s)
{
    if (!s || s->is_closed)
        return;
    s->is_closed = true;
    while (s->calls)
        mu_stub_call_free(s->calls);
    stub_hang_up(s);
    mu_lookup_abandon(s->lookup);
    if (s->list)
        freeaddrinfo(s->list);
    uv_close((uv_handle_t *)&s->timer, on_stub_closed);
    uv_close((uv_handle_t *)&s->prepare, on_stub_closed);
}
