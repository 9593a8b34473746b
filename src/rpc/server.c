/*
 * rpc/server.c: new connections, the rounds of the loop, and the end.
 *
 * Everything is one loop's: sockets are polled, answers leave in the loop's check and prepare phases, so that all that
 * one round brought is answered by one write a connection. A timer looks twice a second for late ones. Where there is
 * no descriptor for a connection that waits, a reserved one is closed for it: it is accepted and closed, and does not
 * wake the loop again and again. Where not even that can be done nobody is accepted until the timer's next look.
 */
#include "rpc/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

#define TICK_MS 500
#define ACCEPTS 64        /* in one round */
#define TURN_NS 10000000u /* of a round, for all that have come; then the loop looks at everything else */

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void free_rpc(struct mu_rpc *rpc)
{
    mu_listen_close(&rpc->listen);
    mu_rpc_call_free_all(rpc);
    mu_rpc_message_free_all(rpc);
    mu_rpc_reflection_done(rpc);
    nghttp2_session_callbacks_del(rpc->callbacks);
    nghttp2_option_del(rpc->http_options);
    mu_rpc_tls_free(rpc);
    if (rpc->reserve_fd >= 0)
        close(rpc->reserve_fd);
    mu_peers_close(&rpc->peers);
    free(rpc->table);
    free(rpc);
}

static void server_release(struct mu_rpc *rpc)
{
    void (*stopped)(void *arg) = rpc->stopped;
    void *arg = rpc->options.arg;

    if (--rpc->open > 0)
        return;
    free_rpc(rpc);
    if (stopped)
        stopped(arg);
}

static void on_server_closed(uv_handle_t *handle)
{
    server_release(handle->data);
}

static void close_handles(struct mu_rpc *rpc)
{
    if (uv_is_closing((uv_handle_t *)&rpc->tick))
        return;
    uv_close((uv_handle_t *)&rpc->check, on_server_closed);
    uv_close((uv_handle_t *)&rpc->prepare, on_server_closed);
    uv_close((uv_handle_t *)&rpc->idle, on_server_closed);
    uv_close((uv_handle_t *)&rpc->deadline_timer, on_server_closed);
    uv_close((uv_handle_t *)&rpc->tick, on_server_closed);
}

static void close_listeners(struct mu_rpc *rpc)
{
    for (unsigned i = 0; i < rpc->listen.count; i++) {
        uv_poll_stop(&rpc->listeners[i]);
        uv_close((uv_handle_t *)&rpc->listeners[i], on_server_closed);
    }
    mu_listen_close(&rpc->listen);
}

static void watch_listeners(struct mu_rpc *rpc);

/* ---- rounds and time --------------------------------------------------------------------------------------------- */

static void flush_dirty(struct mu_rpc *rpc)
{
    struct mu_rpc_conn *conn = rpc->dirty, *next;

    rpc->dirty = NULL; /* each once: what becomes dirty now is the next round's */
    for (; conn; conn = next) {
        next = conn->next_dirty;
        conn->is_dirty = false;
        mu_conn_flush(conn);
    }
}

/* Reads what has come, and gives short answers; then makes long ones, one at a time. A call that finds no time left is
 * the first of the next round, before which the loop looks at signals, ends of tasks and timers. */
static void take_turns(struct mu_rpc *rpc)
{
    uint64_t until = uv_hrtime() + TURN_NS;
    struct mu_rpc_conn *conn;

    do {
        conn = mu_rpc_next_turn(rpc, MU_TURN_READ);
        if (conn)
            mu_conn_receive(conn);
    } while (conn && uv_hrtime() < until);
    do {
        conn = mu_rpc_next_turn(rpc, MU_TURN_LONG);
        if (conn)
            mu_rpc_call_begin_long(conn);
    } while (conn && uv_hrtime() < until);
    if (!rpc->first_turn[MU_TURN_READ] && !rpc->first_turn[MU_TURN_LONG])
        uv_idle_stop(&rpc->idle);
}

static void on_check(uv_check_t *check)
{
    take_turns(check->data);
    flush_dirty(check->data);
}

static void on_prepare(uv_prepare_t *prepare)
{
    flush_dirty(prepare->data);
}

/* The grace is over: waiters are told, and what can be written is. */
static void end_all(struct mu_rpc *rpc)
{
    for (struct mu_rpc_conn *conn = rpc->conns, *next; conn; conn = next) {
        next = conn->next;
        for (struct mu_rpc_call *call = conn->calls, *after; call; call = after) {
            after = call->next;
            mu_rpc_call_abort(call, MUSTER_UNAVAILABLE, "the server is stopping");
        }
        if (conn->is_leaving)
            continue;
        conn->is_leaving = true; /* read on for a moment: a reset would take the last answers with it */
        conn->since_ms = mu_rpc_now(rpc);
        mu_conn_flush(conn);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct mu_rpc *rpc = timer->data;

    for (struct mu_rpc_conn *conn = rpc->conns, *next; conn; conn = next) {
        next = conn->next;
        mu_conn_tick(conn);
    }
    if (rpc->is_stopping) {
        if (mu_rpc_now(rpc) >= rpc->stop_ms)
            end_all(rpc);
        if (!rpc->conns)
            close_handles(rpc);
        return;
    }
    if (rpc->is_paused)
        watch_listeners(rpc);
    else if (!rpc->conns)
        uv_timer_stop(timer);
}

/* ---- new connections --------------------------------------------------------------------------------------------- */

/* GOAWAY with the reason, of at most 120 bytes, as far as a client that has not spoken yet can be told anything. One
 * that gets SETTINGS before it counts as connected, and sends its calls again and again until their deadline; without
 * them (`for_good`) its attempt to connect has failed, which gRPC tells the calls at once. */
static void refuse_client(struct mu_rpc *rpc, int fd, uint8_t error, const char *why, bool for_good)
{
    size_t len = strlen(why) < 120 ? strlen(why) : 120, from = for_good ? 9 : 0;
    uint8_t frames[9 + 9 + 8 + 120] = {[3] = 4, [11] = (uint8_t)(8 + len), [12] = 7, [25] = error};

    memcpy(frames + 26, why, len);
    if (!rpc->tls && send(fd, frames + from, 26 + len - from, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        errno = 0; /* it will find out */
    close(fd);
}

static bool is_open_to(struct mu_rpc *rpc, int fd, uid_t *ret_user)
{
    return rpc->options.any_user || !rpc->listen.is_loopback || rpc->clients_prove ||
           mu_rpc_peer_may_come(&rpc->peers, fd, ret_user);
}

/* A client tries again and again: its user is said once. */
static void refuse_user(struct mu_rpc *rpc, int fd, uid_t user)
{
    char why[80];

    mu_rpc_peer_why(user, why, sizeof why);
    refuse_client(rpc, fd, NGHTTP2_INADEQUATE_SECURITY, why, true);
    if (user != rpc->refused)
        mu_rpc_say(rpc, "gRPC: a client is refused: %s (--grpc-any-user serves every user of this machine)", why);
    rpc->refused = user;
}

static void take_client(struct mu_rpc *rpc, int fd)
{
    uid_t user;

    if (!is_open_to(rpc, fd, &user)) {
        refuse_user(rpc, fd, user);
    } else if (rpc->count >= rpc->options.connections_max) {
        refuse_client(rpc, fd, NGHTTP2_ENHANCE_YOUR_CALM, "too many connections are open here", false);
        mu_rpc_say(rpc, "gRPC: a client is refused: %u connections are open, and more are not taken", rpc->count);
    } else if (!mu_conn_new(rpc, fd)) {
        mu_rpc_say(rpc, "gRPC: a client is refused: no memory");
    } else if (!uv_is_active((uv_handle_t *)&rpc->tick)) {
        uv_timer_start(&rpc->tick, on_tick, TICK_MS, TICK_MS);
    }
}

/* Nobody can be accepted: the connections in the queue would wake the loop for ever. */
static void pause_listeners(struct mu_rpc *rpc, int error)
{
    if (!rpc->was_paused)
        mu_rpc_say(rpc, "gRPC: clients have to wait: %s", strerror(error));
    rpc->is_paused = rpc->was_paused = true;
    for (unsigned i = 0; i < rpc->listen.count; i++)
        uv_poll_stop(&rpc->listeners[i]);
    if (!uv_is_active((uv_handle_t *)&rpc->tick))
        uv_timer_start(&rpc->tick, on_tick, TICK_MS, TICK_MS);
}

static void on_client_came(struct mu_rpc *rpc)
{
    if (rpc->was_paused)
        mu_rpc_say(rpc, "gRPC: clients are taken again");
    rpc->was_paused = false;
}

static void no_descriptor(struct mu_rpc *rpc, int listener)
{
    int fd;

    if (rpc->reserve_fd >= 0)
        close(rpc->reserve_fd);
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        mu_rpc_say(rpc, "gRPC: a client is refused: no file descriptor is left (ulimit -n)");
    } else if (errno != EAGAIN) {
        pause_listeners(rpc, errno);
    }
    rpc->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct mu_rpc *rpc = poll->data;
    int listener = rpc->listen.fds[poll - rpc->listeners], fd;

    (void)events;
    for (int i = 0; status == 0 && i < ACCEPTS; i++) {
        fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            no_descriptor(rpc, listener);
            return;
        }
        if (fd < 0 && mu_listen_is_of_one(errno))
            continue;
        if (fd < 0 && errno != EAGAIN)
            pause_listeners(rpc, errno);
        if (fd < 0)
            return;
        on_client_came(rpc);
        take_client(rpc, fd);
    }
}

static void watch_listeners(struct mu_rpc *rpc)
{
    rpc->is_paused = false;
    for (unsigned i = 0; i < rpc->listen.count; i++)
        if (uv_poll_start(&rpc->listeners[i], UV_READABLE, on_connection))
            rpc->is_paused = true; /* at the next look */
}

/* ---- start and stop ---------------------------------------------------------------------------------------------- */

/* Handles; none of them keeps the loop alive. */
static int server_begin(struct mu_rpc *rpc)
{
    uv_loop_t *loop = rpc->options.loop;
    uv_handle_t *const handles[] = {(uv_handle_t *)&rpc->check, (uv_handle_t *)&rpc->prepare, (uv_handle_t *)&rpc->idle,
                                    (uv_handle_t *)&rpc->deadline_timer, (uv_handle_t *)&rpc->tick};
    int rc = 0;

    uv_check_init(loop, &rpc->check);
    uv_prepare_init(loop, &rpc->prepare);
    uv_idle_init(loop, &rpc->idle);
    uv_timer_init(loop, &rpc->deadline_timer);
    uv_timer_init(loop, &rpc->tick);
    uv_check_start(&rpc->check, on_check);
    uv_prepare_start(&rpc->prepare, on_prepare);
    rpc->open = 5;
    for (int i = 0; i < 5; i++) {
        handles[i]->data = rpc;
        uv_unref(handles[i]);
    }
    for (unsigned i = 0; !rc && i < rpc->listen.count; i++) {
        rc = uv_poll_init(loop, &rpc->listeners[i], rpc->listen.fds[i]);
        if (rc)
            break;
        rpc->open++;
        rpc->listeners[i].data = rpc;
        rc = uv_poll_start(&rpc->listeners[i], UV_READABLE, on_connection);
        uv_unref((uv_handle_t *)&rpc->listeners[i]);
    }
    return rc;
}

static enum muster_status prepare_http(struct mu_rpc *rpc)
{
    rpc->lists[rpc->num_lists++] = rpc->options.methods;
    rpc->lists[rpc->num_lists++] = mu_rpc_health_methods;
    if (rpc->options.described)
        rpc->lists[rpc->num_lists++] = mu_rpc_reflection_methods;
    if (mu_rpc_methods_open(rpc) || mu_session_callbacks(&rpc->callbacks) || nghttp2_option_new(&rpc->http_options))
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a server");
    nghttp2_option_set_no_closed_streams(rpc->http_options, 1);
    nghttp2_option_set_stream_reset_rate_limit(rpc->http_options, UINT64_MAX / 2, 1); /* session.c counts them */
    nghttp2_option_set_max_send_header_block_length(rpc->http_options, 16u << 10);
    return MUSTER_OK;
}

enum muster_status mu_rpc_start(const struct mu_rpc_options *options, struct mu_rpc **ret_rpc)
{
    struct mu_rpc *rpc = calloc(1, sizeof *rpc);
    enum muster_status status;
    int rc;

    if (!rpc)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a server");
    rpc->options = *options;
    rpc->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    mu_peers_open(&rpc->peers);
    rpc->refused = geteuid();
    rpc->clients_prove = options->tls && options->tls->authority;
    rpc->sentences.left = MU_RPC_SENTENCES;
    rpc->released = server_release;
    for (int i = 0; i < MU_TURNS; i++)
        rpc->last_turn[i] = &rpc->first_turn[i];
    status = mu_rpc_bounds(&rpc->options);
    rpc->own.most = rpc->options.total_max;
    rpc->account = options->account ? options->account : &rpc->own;
    if (!status)
        status = prepare_http(rpc);
    if (!status && options->tls)
        status = mu_rpc_tls_open(rpc);
    if (!status)
        status = mu_listen_open(options->address, options->tls || options->insecure, &rpc->listen);
    if (status == MUSTER_FAILED_PRECONDITION && options->insecure_option)
        mu_fail(
            status,
            "%.120s can be reached from other machines, and every program that reaches it may do as the job's tasks "
            "do: write 127.0.0.1, or say that this is meant (%s)",
            options->address, options->insecure_option);
    if (status) {
        free_rpc(rpc);
        return status;
    }
    rc = server_begin(rpc);
    if (rc) { /* what was begun is closed by the loop's next turns */
        mu_fail(MUSTER_UNAVAILABLE, "cannot listen at %.100s: %s", options->address, uv_strerror(rc));
        mu_rpc_stop(rpc, 0, NULL);
        return MUSTER_UNAVAILABLE;
    }
    *ret_rpc = rpc;
    return MUSTER_OK;
}

void mu_rpc_stop(struct mu_rpc *rpc, uint64_t grace_ns, void (*stopped)(void *arg))
{
    if (rpc->is_stopping)
        return;
    rpc->is_stopping = true;
    rpc->stopped = stopped;
    rpc->stop_ms = mu_rpc_now(rpc) + grace_ns / 1000000;
    close_listeners(rpc);
    mu_rpc_health_stop(rpc);
    for (struct mu_rpc_conn *conn = rpc->conns; conn; conn = conn->next)
        mu_session_stop(conn);
    uv_ref((uv_handle_t *)&rpc->tick);
    uv_timer_start(&rpc->tick, on_tick, 0, 20);
}

const char *mu_rpc_address(const struct mu_rpc *rpc)
{
    return rpc->listen.address;
}

uint32_t mu_rpc_connections(const struct mu_rpc *rpc)
{
    return rpc->count;
}
