/*
 * rpc/worker_call.c: one call to a worker: look its name up, connect to one of its addresses after the other, say one
 * request of HTTP/2, and hear the status of the answer. Where the connection is kept, then the next.
 *
 * What the other end says is a stranger's: a bounded number of bytes of it are read, and of its words only what can be
 * printed is kept. The deadline is the caller's.
 */
#include "rpc/worker_private.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "rpc/wire.h"

enum {
    PREFIX = 5,
    ANSWER_MAX = 256 << 10, /* an answer has two hundred bytes */
    AT_ONCE = 4096,
};

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

/* False: no memory. */
static bool call_request_set(struct mu_worker_call *call, const char *path, const void *message, size_t len)
{
    uint8_t *bytes = malloc(PREFIX + len);

    if (!bytes)
        return false;
    bytes[0] = 0;
    for (int i = 0; i < 4; i++)
        bytes[1 + i] = (uint8_t)(len >> (24 - 8 * i));
    if (len > 0)
        memcpy(bytes + PREFIX, message, len);
    free(call->bytes);
    call->bytes = bytes;
    call->path = path;
    call->len = PREFIX + len;
    call->given = 0;
    return true;
}

struct mu_worker_call *mu_worker_call_new(const struct mu_link_name *name, const char *path, const void *message,
                                          size_t len)
{
    struct mu_worker_call *call = calloc(1, sizeof *call);
    bool is_v6 = strchr(name->host, ':') != NULL;

    if (!call || !call_request_set(call, path, message, len)) {
        free(call);
        return NULL;
    }
    call->name = *name;
    snprintf(call->authority, sizeof call->authority, is_v6 ? "[%s]:%s" : "%s:%s", name->host, name->port);
    call->fd = -1;
    return call;
}

static void hang_up(struct mu_worker_call *call)
{
    if (call->session)
        nghttp2_session_del(call->session);
    call->session = NULL;
    if (call->fd >= 0)
        close(call->fd); /* which takes it out of the epoll: nobody else has it */
    call->fd = -1;
}

void mu_worker_call_free(struct mu_worker_call *call)
{
    hang_up(call);
    if (call->lookup) /* its thread may have the descriptor for longer than we do */
        epoll_ctl(call->poll_fd, EPOLL_CTL_DEL, mu_lookup_fd(call->lookup), NULL);
    mu_lookup_abandon(call->lookup);
    if (call->list)
        freeaddrinfo(call->list);
    free(call->bytes);
    free(call);
}

/* The first reason stays. */
static void worker_call_fail(struct mu_worker_call *call, const char *why)
{
    if (!call->why[0])
        snprintf(call->why, sizeof call->why, "%s", why);
    call->is_over = true;
}

static bool socket_watch(struct mu_worker_call *call, int fd, int operation, int events)
{
    struct epoll_event event = {.events = (uint32_t)events, .data.ptr = call};

    if (epoll_ctl(call->poll_fd, operation, fd, &event) == 0)
        return true;
    worker_call_fail(call, strerror(errno));
    return false;
}

bool mu_worker_call_is_well(const struct mu_worker_call *call)
{
    return (call->is_over || call->is_answered) && !call->why[0] && call->http_status == 200 && call->has_status &&
           call->grpc_status == 0;
}

/* ---- HTTP/2 ------------------------------------------------------------------------------------------------------ */

static int on_answer_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                            const uint8_t *value, size_t len, uint8_t flags, void *user)
{
    struct mu_worker_call *call = user;
    size_t shown = len < sizeof call->words - 1 ? len : sizeof call->words - 1;

    (void)session;
    (void)flags;
    if (frame->hd.stream_id != call->stream)
        return 0;
    if (mu_wire_is(name, name_len, ":status")) {
        call->http_status = mu_wire_status(value, len);
    } else if (mu_wire_is(name, name_len, "grpc-status")) {
        call->grpc_status = mu_wire_status(value, len);
        call->has_status = true;
    } else if (mu_wire_is(name, name_len, "grpc-message")) {
        for (size_t i = 0; i < shown; i++)
            call->words[i] = (char)(value[i] >= ' ' && value[i] <= '~' ? value[i] : '?');
        call->words[shown] = 0;
    }
    return 0;
}

static int on_answer_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct mu_worker_call *call = user;

    (void)session;
    if (id != call->stream)
        return 0;
    *(call->keeps ? &call->is_answered : &call->is_over) = true;
    if (error != NGHTTP2_NO_ERROR && !call->has_status)
        snprintf(call->why, sizeof call->why, "it took the call back: %s", nghttp2_http2_strerror(error));
    else if (call->http_status != 200)
        snprintf(call->why, sizeof call->why, "it answers as no gRPC server does: HTTP status %u", call->http_status);
    else if (!call->has_status)
        snprintf(call->why, sizeof call->why, "its answer has no status");
    else if (call->grpc_status != 0)
        snprintf(call->why, sizeof call->why, "it answers %s%s%.*s",
                 call->grpc_status <= MUSTER_DATA_LOSS ? muster_status_name((enum muster_status)call->grpc_status)
                                                       : "an error",
                 call->words[0] ? ": " : "", (int)sizeof call->words - 1, call->words);
    return 0;
}

static ssize_t on_request_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t size, uint32_t *flags,
                               nghttp2_data_source *source, void *user)
{
    struct mu_worker_call *call = source->ptr;
    size_t left = call->len - call->given, part = left < size ? left : size;

    (void)session;
    (void)id;
    (void)user;
    memcpy(to, call->bytes + call->given, part);
    call->given += part;
    if (call->given == call->len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)part;
}

static nghttp2_nv header_of(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

/* False: no memory. */
static bool worker_call_submit(struct mu_worker_call *call)
{
    char timeout[32];
    nghttp2_nv nv[8];
    nghttp2_data_provider provider = {.source.ptr = call, .read_callback = on_request_read};

    if (!nghttp2_session_check_request_allowed(call->session)) /* the other end has said that it will close it */
        return false;
    snprintf(timeout, sizeof timeout, "%llum", (unsigned long long)call->time_ms);
    nv[0] = header_of(":method", "POST");
    nv[1] = header_of(":scheme", "http");
    nv[2] = header_of(":path", call->path);
    nv[3] = header_of(":authority", call->authority);
    nv[4] = header_of("content-type", "application/grpc");
    nv[5] = header_of("te", "trailers");
    nv[6] = header_of("grpc-timeout", timeout);
    nv[7] = header_of("user-agent", "muster");
    call->stream = nghttp2_submit_request(call->session, NULL, nv, sizeof nv / sizeof *nv, &provider, NULL);
    return call->stream > 0;
}

static ssize_t on_send(nghttp2_session *session, const uint8_t *bytes, size_t len, int flags, void *user)
{
    const struct mu_worker_call *call = user;
    ssize_t n;

    (void)session;
    (void)flags;
    do
        n = send(call->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return n;
    return errno == EAGAIN ? NGHTTP2_ERR_WOULDBLOCK : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static bool begin_session(struct mu_worker_call *call)
{
    nghttp2_session_callbacks *c;
    bool ok;

    if (nghttp2_session_callbacks_new(&c))
        return false;
    nghttp2_session_callbacks_set_send_callback(c, on_send);
    nghttp2_session_callbacks_set_on_header_callback(c, on_answer_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_answer_stream_close);
    ok = nghttp2_session_client_new(&call->session, c, call) == 0 &&
         nghttp2_submit_settings(call->session, NGHTTP2_FLAG_NONE, NULL, 0) == 0 &&
         (!call->path || worker_call_submit(call));
    nghttp2_session_callbacks_del(c);
    return ok;
}

/* ---- its connection ---------------------------------------------------------------------------------------------- */

static void connect_next(struct mu_worker_call *call);

/* Say what there is to be said, and wait for what there is to be heard. */
static void worker_call_speak(struct mu_worker_call *call)
{
    int error = nghttp2_session_send(call->session), events;

    if (error)
        worker_call_fail(call,
                         error == NGHTTP2_ERR_CALLBACK_FAILURE ? "it closed the connection" : nghttp2_strerror(error));
    else if (!nghttp2_session_want_read(call->session) && !nghttp2_session_want_write(call->session))
        worker_call_fail(call, "it does not speak HTTP/2"); /* it has been told so */
    if (call->is_over)
        return;
    events = EPOLLIN | (nghttp2_session_want_write(call->session) ? EPOLLOUT : 0);
    if (events != call->polled && socket_watch(call, call->fd, EPOLL_CTL_MOD, events))
        call->polled = events;
}

bool mu_worker_call_again(struct mu_worker_call *call, const char *path, const void *message, size_t len)
{
    if (!call_request_set(call, path, message, len))
        return false;
    call->is_answered = call->has_status = false;
    call->why[0] = call->words[0] = 0;
    call->came = 0;
    call->stream = 0;
    if (!call->is_connected || call->is_over) /* it is said as soon as it can be */
        return true;
    if (worker_call_submit(call))
        worker_call_speak(call);
    else
        worker_call_fail(call, "the connection takes no more calls");
    return true;
}

static void worker_call_hear(struct mu_worker_call *call)
{
    uint8_t bytes[AT_ONCE];
    ssize_t n = recv(call->fd, bytes, sizeof bytes, MSG_DONTWAIT), taken;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        worker_call_fail(call, n == 0 ? "it closed the connection" : strerror(errno));
        return;
    }
    call->came += (size_t)n;
    taken = nghttp2_session_mem_recv(call->session, bytes, (size_t)n);
    if (call->is_over)
        return;
    if (taken < 0)
        worker_call_fail(call, "it does not speak HTTP/2");
    else if (call->came > ANSWER_MAX)
        worker_call_fail(call, "its answer has no end");
}

static void on_worker_connected(struct mu_worker_call *call)
{
    int error = 0, one = 1;
    socklen_t size = sizeof error;

    if (getsockopt(call->fd, SOL_SOCKET, SO_ERROR, &error, &size))
        error = errno;
    if (error) {
        snprintf(call->why, sizeof call->why, "%s", strerror(error));
        hang_up(call);
        connect_next(call);
        return;
    }
    call->is_connected = true;
    call->why[0] = 0;
    setsockopt(call->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (begin_session(call))
        worker_call_speak(call);
    else
        worker_call_fail(call, "no memory for the call");
}

/* The last address's reason is told. */
static void connect_next(struct mu_worker_call *call)
{
    while (call->at) {
        const struct addrinfo *a = call->at;

        call->at = a->ai_next;
        call->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (call->fd >= 0 && (connect(call->fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS)) {
            call->polled = EPOLLOUT;
            socket_watch(call, call->fd, EPOLL_CTL_ADD, EPOLLOUT);
            return;
        }
        snprintf(call->why, sizeof call->why, "%s", strerror(errno));
        hang_up(call);
    }
    worker_call_fail(call, "it has no address");
}

static void looked_up(struct mu_worker_call *call)
{
    struct mu_lookup *lookup = call->lookup;
    int error;

    epoll_ctl(call->poll_fd, EPOLL_CTL_DEL, mu_lookup_fd(lookup), NULL);
    call->lookup = NULL;
    error = mu_lookup_end(lookup, &call->list);
    if (error) {
        worker_call_fail(call, gai_strerror(error));
        return;
    }
    call->at = call->list;
    connect_next(call);
}

void mu_worker_call_begin(struct mu_worker_call *call, int poll_fd)
{
    call->poll_fd = poll_fd;
    call->lookup = mu_lookup_begin(&call->name);
    if (!call->lookup)
        worker_call_fail(call, "no memory to look its name up");
    else
        socket_watch(call, mu_lookup_fd(call->lookup), EPOLL_CTL_ADD, EPOLLIN);
}

void mu_worker_call_go(struct mu_worker_call *call)
{
    if (call->is_over)
        return;
    if (call->lookup) {
        looked_up(call);
    } else if (!call->is_connected) {
        on_worker_connected(call);
    } else {
        worker_call_hear(call);
        if (!call->is_over)
            worker_call_speak(call);
    }
}
