/*
 * rpc/conn.c: a connection: its socket, what is read and written at once, and its end.
 *
 * What has come is handed to HTTP/2, then the calls that are complete are begun, and what they answered is written when
 * the round of the loop is over: one read, one write, whatever the number of calls. What the socket does not take is
 * kept, and until it is gone nothing more is asked of HTTP/2, which holds the rest of the answers back. If much waits,
 * nothing is read either. A connection that takes nothing for stall_ms is closed.
 *
 * The end: mu_conn_close() tells the calls, then the user; memory goes when libuv has closed the handle, so that those
 * above on the stack find it. mu_conn_dismiss() only marks: GOAWAY is written, what still comes is thrown away, and the
 * rest is the timer's. Half-open peers are the kernel's to find, by its probes: a peer that is stopped answers them.
 */
#include "rpc/private.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "bridge/link/address.h"

#define QUEUE_MAX      4096u /* frames that wait in a connection that takes none: then it is not read any more */
#define LINGER_MS      1000u
#define STOP_LINGER_MS 200u /* when the server's end waits for it */
#define PROBE_S        30   /* a TCP connection is silent: the kernel asks, */
#define PROBES         3    /* so often, */
#define PROBES_S       10   /* with so much between, and then it is gone */

static void on_event(uv_poll_t *poll, int status, int events);

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

static void name_peer(struct mu_rpc_conn *conn)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    int one = 1, idle = PROBE_S, probes = PROBES, between = PROBES_S;
    unsigned user_ms = (PROBE_S + PROBES * PROBES_S) * 1000;
    struct ucred peer;

    if (conn->rpc->listen.is_unix) {
        size = sizeof peer;
        if (getsockopt(conn->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0)
            conn->pid = (uint32_t)peer.pid;
        snprintf(conn->name, sizeof conn->name, conn->pid ? "pid %u" : "a process of another pid namespace", conn->pid);
        return;
    }
    if (getpeername(conn->fd, (struct sockaddr *)&name, &size) == 0)
        mu_link_print((struct sockaddr *)&name, conn->name, sizeof conn->name);
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(conn->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(conn->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof user_ms);
}

static void free_conn(struct mu_rpc_conn *conn)
{
    nghttp2_session_del(conn->session);
    if (conn->ssl)
        mu_rpc_tls_end(conn);
    if (conn->fd >= 0)
        close(conn->fd);
    free(conn->out);
    free(conn);
}

static void on_conn_closed(uv_handle_t *handle)
{
    struct mu_rpc_conn *conn = (struct mu_rpc_conn *)handle;
    struct mu_rpc *rpc = conn->rpc;

    free_conn(conn);
    rpc->released(rpc);
}

static void poll_for(struct mu_rpc_conn *conn, int events)
{
    if (conn->polled == events || conn->is_closed)
        return;
    conn->polled = events;
    if (uv_poll_start(&conn->poll, events, on_event))
        mu_conn_close(conn, "the loop does not take it");
}

/* Takes the descriptor. NULL: no memory. */
struct mu_rpc_conn *mu_conn_new(struct mu_rpc *rpc, int fd)
{
    struct mu_rpc_conn *conn = calloc(1, sizeof *conn);

    if (!conn) {
        close(fd);
        return NULL;
    }
    conn->rpc = rpc;
    conn->fd = fd;
    conn->since_ms = conn->taken_ms = mu_rpc_now(rpc);
    conn->is_secure = !rpc->tls;
    name_peer(conn);
    if ((rpc->tls && !mu_rpc_tls_begin(conn)) || mu_session_begin(conn) ||
        uv_poll_init(rpc->options.loop, &conn->poll, fd)) {
        free_conn(conn);
        return NULL;
    }
    uv_unref((uv_handle_t *)&conn->poll);
    rpc->open++;
    rpc->count++;
    MU_LIST_PUSH(rpc->conns, conn);
    poll_for(conn, UV_READABLE);
    return conn;
}

static void conn_forget(struct mu_rpc_conn *conn)
{
    struct mu_rpc *rpc = conn->rpc;

    MU_LIST_DROP(rpc->conns, conn);
    rpc->count--;
    if (conn->is_dirty)
        MU_CHAIN_DROP(rpc->dirty, conn, next_dirty);
    conn->is_dirty = true; /* so that nobody puts it there again */
    for (int i = 0; i < MU_TURNS; i++)
        if (conn->has_turn[i])
            MU_LINE_DROP(rpc->first_turn[i], rpc->last_turn[i], conn, next_turn[i]);
}

void mu_conn_close(struct mu_rpc_conn *conn, const char *why)
{
    struct mu_rpc *rpc = conn->rpc;

    if (conn->is_closed)
        return;
    conn->is_closed = true;
    conn_forget(conn);
    while (conn->calls)
        mu_rpc_call_end(conn->calls);
    if (rpc->options.closed)
        rpc->options.closed(rpc->options.arg, conn, conn->why[0] ? conn->why : why);
    uv_poll_stop(&conn->poll);
    uv_close((uv_handle_t *)&conn->poll, on_conn_closed);
    if (!conn->ssl) { /* the peer need not wait for our loop */
        close(conn->fd);
        conn->fd = -1;
    }
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

static long bytes_put(struct mu_rpc_conn *conn, const uint8_t *from, size_t len)
{
    long n;

    do
        n = conn->ssl ? mu_rpc_tls_write(conn, from, len) : send(conn->fd, from, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Write what there is; the rest of it stays. False: the connection is closed. */
static bool put_all(struct mu_rpc_conn *conn, const uint8_t *from, size_t len, size_t *ret_left)
{
    size_t at = 0;

    while (at < len) {
        long n = bytes_put(conn, from + at, len - at);

        if (n < 0 && errno != EAGAIN) {
            mu_conn_close(conn, errno == EPIPE || errno == ECONNRESET ? "reset by its peer" : strerror(errno));
            return false;
        }
        if (n <= 0)
            break;
        at += (size_t)n;
        conn->taken_ms = mu_rpc_now(conn->rpc);
    }
    *ret_left = len - at;
    return true;
}

/* What HTTP/2 has to say, up to the server's buffer. 0: nothing; -1: it is broken. */
static long frames_gather(struct mu_rpc_conn *conn)
{
    struct mu_rpc *rpc = conn->rpc;
    size_t n = 0;

    while (n + (32u << 10) <= sizeof rpc->out) { /* frames have 16 KiB at most */
        const uint8_t *bytes;
        ssize_t len = nghttp2_session_mem_send(conn->session, &bytes);

        if (len < 0 || (size_t)len > sizeof rpc->out - n)
            return -1;
        if (len == 0)
            break;
        memcpy(rpc->out + n, bytes, (size_t)len);
        n += (size_t)len;
    }
    return (long)n;
}

/* 1: more may be written, 0: not now, -1: it is closed. */
static int flush_some(struct mu_rpc_conn *conn)
{
    size_t left;
    long n;

    if (conn->out_len > 0) {
        if (!put_all(conn, conn->out + conn->out_at, conn->out_len, &left))
            return -1;
        conn->out_at += conn->out_len - left;
        conn->out_len = left;
        if (left > 0)
            return 0;
        free(conn->out);
        conn->out = NULL;
        return 1;
    }
    n = frames_gather(conn);
    if (n < 0) {
        mu_conn_close(conn, "no memory");
        return -1;
    }
    if (n == 0)
        return 0;
    if (!put_all(conn, conn->rpc->out, (size_t)n, &left))
        return -1;
    if (left == 0)
        return 1;
    conn->out = malloc(left);
    if (!conn->out) {
        mu_conn_close(conn, "no memory");
        return -1;
    }
    memcpy(conn->out, conn->rpc->out + n - left, left);
    conn->out_at = 0;
    conn->out_len = left;
    return 0;
}

/* Nothing more will be said on either side. */
static bool is_over(const struct mu_rpc_conn *conn)
{
    return conn->out_len == 0 && !nghttp2_session_want_write(conn->session) &&
           (!nghttp2_session_want_read(conn->session) || (conn->rpc->is_stopping && conn->count == 0));
}

void mu_conn_flush(struct mu_rpc_conn *conn)
{
    bool waits;
    int more = 1;

    if (conn->is_closed || !conn->is_secure)
        return;
    for (unsigned turn = 0; more > 0 && turn < MU_RPC_TURN; turn++)
        more = flush_some(conn);
    if (more < 0)
        return;
    if (is_over(conn) && !conn->is_leaving) {
        conn->is_leaving = true; /* its GOAWAY must not be overtaken by a reset: what it still sends is read */
        conn->since_ms = mu_rpc_now(conn->rpc);
    }
    if (conn->is_leaving && conn->out_len == 0 && !nghttp2_session_want_write(conn->session))
        shutdown(conn->fd, SHUT_WR);
    if (conn->longs && mu_conn_takes(conn))
        mu_rpc_turn(conn, MU_TURN_LONG);
    waits = more > 0 || conn->out_len > 0 || conn->is_unread;
    conn->is_full = conn->out_len > 0 && nghttp2_session_get_outbound_queue_size(conn->session) > QUEUE_MAX;
    poll_for(conn, (waits ? UV_WRITABLE : 0) | (conn->is_full ? 0 : UV_READABLE));
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

/* It speaks something else: say so where that is likely to be read. */
static void strange_answer(struct mu_rpc_conn *conn, const uint8_t *bytes, size_t len)
{
    static const char answer[] =
        "HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Type: text/plain\r\nContent-Length: 51\r\n"
        "Connection: close\r\n\r\nmuster serves gRPC here: HTTP/2 with prior knowledge\n";

    if (len > 2 && bytes[0] == 0x16 && bytes[1] == 3) {
        snprintf(conn->why, sizeof conn->why, "it speaks TLS, and this server has no certificate");
    } else {
        snprintf(conn->why, sizeof conn->why, "it does not speak HTTP/2");
        bytes_put(conn, (const uint8_t *)answer, sizeof answer - 1);
    }
    mu_rpc_say(conn->rpc, "gRPC: %s is sent away: %s", conn->name, conn->why);
    mu_conn_close(conn, conn->why);
}

static void bytes_take(struct mu_rpc_conn *conn, const uint8_t *bytes, size_t len)
{
    bool is_first = !conn->is_greeted;
    ssize_t n;

    if (conn->is_leaving)
        return;
    n = nghttp2_session_mem_recv(conn->session, bytes, len);
    if (n == NGHTTP2_ERR_BAD_CLIENT_MAGIC && is_first) {
        strange_answer(conn, bytes, len);
        return;
    }
    if (n < 0) {
        mu_conn_dismiss(conn, n == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_INTERNAL_ERROR, "%s",
                        nghttp2_strerror((int)n));
        return;
    }
    if (!conn->is_leaving)
        mu_rpc_call_dispatch(conn);
    mu_conn_dirty(conn);
}

static const char *error_words(int error)
{
    return error == ECONNRESET || error == EPIPE ? "reset by its peer"
           : error == ETIMEDOUT                  ? "its host does not answer"
                                                 : strerror(error);
}

void mu_conn_receive(struct mu_rpc_conn *conn)
{
    struct mu_rpc *rpc = conn->rpc;
    unsigned turns = conn->ssl ? 4 * MU_RPC_TURN : MU_RPC_TURN; /* TLS gives 16 KiB at once */

    conn->is_unread = false;
    for (unsigned turn = 0; turn < turns && !conn->is_closed; turn++) {
        long n = conn->ssl ? mu_rpc_tls_read(conn, rpc->in, sizeof rpc->in)
                           : recv(conn->fd, rpc->in, sizeof rpc->in, MSG_DONTWAIT);

        if (n > 0) {
            bytes_take(conn, rpc->in, (size_t)n);
            if ((size_t)n < sizeof rpc->in && !conn->ssl)
                return;
        } else if (n == 0) {
            mu_conn_close(conn, "closed by its peer");
        } else if (errno == EINTR) {
            continue;
        } else {
            if (errno != EAGAIN)
                mu_conn_close(conn, error_words(errno));
            return;
        }
    }
    conn->is_unread = conn->ssl != NULL; /* OpenSSL may have it in its hands */
}

static void handshake_go_on(struct mu_rpc_conn *conn)
{
    int said = mu_rpc_tls_shake(conn);

    if (said < 0) {
        if (!conn->why[0])
            snprintf(conn->why, sizeof conn->why, "closed by its peer");
        mu_rpc_say(conn->rpc, "gRPC: %s is sent away: %s", conn->name, conn->why);
        mu_conn_close(conn, conn->why);
        return;
    }
    if (said != MU_TLS_DONE) {
        poll_for(conn, said == MU_TLS_WRITES ? UV_WRITABLE : UV_READABLE);
        return;
    }
    poll_for(conn, UV_READABLE);
    conn->is_secure = true;
    mu_conn_receive(conn);
    if (!conn->is_closed)
        mu_conn_dirty(conn);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct mu_rpc_conn *conn = (struct mu_rpc_conn *)poll;

    if (status < 0) {
        int error = 0;
        socklen_t size = sizeof error;

        getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        mu_conn_close(conn, error ? error_words(error) : "closed by its peer");
    } else if (!conn->is_secure) {
        handshake_go_on(conn);
    } else {
        if (events & UV_READABLE || conn->is_unread)
            mu_rpc_turn(conn, MU_TURN_READ);
        if (events & UV_WRITABLE && !conn->is_closed)
            mu_conn_dirty(conn);
    }
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

void mu_conn_tick(struct mu_rpc_conn *conn)
{
    const struct mu_rpc_options *o = &conn->rpc->options;
    uint64_t now = mu_rpc_now(conn->rpc);
    char why[100] = "";

    if (conn->is_leaving) {
        if (now >= conn->since_ms + (conn->rpc->is_stopping ? STOP_LINGER_MS : LINGER_MS))
            mu_conn_close(conn, conn->rpc->is_stopping ? "the server stopped" : "its calls are over");
        return;
    }
    if (!conn->is_greeted && now >= conn->since_ms + o->handshake_ms)
        snprintf(why, sizeof why, "it did not greet within %u ms", o->handshake_ms);
    else if (conn->headers_ms && now >= conn->headers_ms + o->handshake_ms)
        snprintf(why, sizeof why, "its headers did not end within %u ms", o->handshake_ms);
    else if ((conn->out_len > 0 || conn->pieces > 0) && now >= conn->taken_ms + o->stall_ms)
        snprintf(why, sizeof why, "it took nothing of what it had asked for within %u ms", o->stall_ms);
    if (why[0] && conn->is_secure) {
        mu_conn_dismiss(conn, NGHTTP2_ENHANCE_YOUR_CALM, "%s", why);
        return;
    }
    if (why[0]) {
        mu_conn_close(conn, why);
        return;
    }
    while (conn->arriving && now >= conn->arriving->moved_ms + o->stall_ms)
        mu_rpc_call_refuse(conn->arriving, MUSTER_DEADLINE_EXCEEDED, "nothing of the request came within %u ms",
                           o->stall_ms);
}

uint32_t mu_rpc_peer_pid(const struct mu_rpc_conn *conn)
{
    return conn->pid;
}

const char *mu_rpc_peer_name(const struct mu_rpc_conn *conn)
{
    return conn->name;
}

void **mu_rpc_conn_data(struct mu_rpc_conn *conn)
{
    return &conn->data;
}
