/*
 * compat/tcpstore.c: new connections, the rounds of the loop, and the end.
 *
 * A connection has its turn when something has come, and answers at the end of it, by one write. Work that does not fit
 * a turn goes on in the next round of the loop, when all others have had theirs. Waiters that another one's turn has
 * woken are told in the round's check phase.
 *
 * Sockets of loopback inherit what was set for their listener. Where there is no descriptor for a connection that
 * waits, a reserved one is closed for it: it is accepted and closed, and does not wake the loop again and again; where
 * not even that can be done nobody is accepted until the timer's next look.
 */
#include "compat/tcpstore_private.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLIENTS     65536u
#define ACCEPTS     64 /* in one round */
#define PAUSE_MS    500
#define SHORTAGE_MS 100 /* between two looks at connections with memory that others wait for */
#define PROBE_S     30  /* a connection is silent: the kernel asks, */
#define PROBES      3   /* so often, */
#define PROBES_S    10  /* with so much between, and then it is gone */

const char *mu_tcpstore_call_name(unsigned call)
{
    return mu_ts_op_name((enum mu_ts_op)call);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void free_store(struct mu_tcpstore *store)
{
    mu_listen_close(&store->listen);
    mu_peers_close(&store->peers);
    if (store->reserve_fd >= 0)
        close(store->reserve_fd);
    free(store->spare);
    free(store);
}

static void store_release(struct mu_tcpstore *store)
{
    void (*stopped)(void *arg) = store->stopped;
    void *arg = store->stopped_arg;

    if (--store->open > 0)
        return;
    free_store(store);
    if (stopped)
        stopped(arg);
}

static void on_listener_closed(uv_handle_t *handle)
{
    store_release(handle->data);
}

void mu_tcpstore_stop(struct mu_tcpstore *store, void (*stopped)(void *arg), void *arg)
{
    if (store->is_stopping)
        return;
    store->is_stopping = true;
    mu_ts_looks_end(store);
    store->stopped = stopped;
    store->stopped_arg = arg;
    for (struct mu_ts_conn *conn = store->conns, *next; conn; conn = next) {
        next = conn->next;
        mu_ts_close(conn);
    }
    for (unsigned i = 0; i < store->listen.count; i++)
        if (store->listeners[i].data)
            uv_close((uv_handle_t *)&store->listeners[i], on_listener_closed);
    mu_listen_close(&store->listen);
    uv_close((uv_handle_t *)&store->check, on_listener_closed);
    uv_close((uv_handle_t *)&store->prepare, on_listener_closed);
    uv_close((uv_handle_t *)&store->idle, on_listener_closed);
    uv_close((uv_handle_t *)&store->tick, on_listener_closed);
    uv_close((uv_handle_t *)&store->shortage, on_listener_closed);
    uv_close((uv_handle_t *)&store->sleepers.timer, on_listener_closed);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* A request that waits for memory is read on; a step that does is made again, and takes it itself. */
static void give_room(struct mu_tcpstore *store)
{
    struct mu_ts_conn *conn;
    size_t bytes;

    while ((conn = mu_ts_room_next(store, &bytes))) {
        if (!conn->step) {
            mu_ts_roomy(conn, bytes);
            continue;
        }
        mu_ts_unhold(conn, bytes);
        mu_ts_turn(conn);
        return;
    }
}

static void on_shortage(uv_timer_t *timer)
{
    struct mu_tcpstore *store = timer->data;

    for (struct mu_ts_conn *conn = store->conns, *next; conn; conn = next) {
        next = conn->next;
        if (mu_ts_room_stalled(conn))
            mu_ts_dismiss(conn,
                          "nothing of its request or its answers has moved for %u ms, and others wait for the memory",
                          store->options.stall_ms);
    }
    give_room(store);
}

/* Each of those that wait for it now has a turn; what they have to do then is the next round's. */
static void take_turns(struct mu_tcpstore *store)
{
    struct mu_ts_conn *conn, *next;

    if (store->first_short)
        give_room(store);
    conn = store->first_turn;
    store->first_turn = NULL;
    store->last_turn = &store->first_turn;
    for (; conn; conn = next) {
        next = conn->next_turn;
        conn->has_turn = false;
        mu_ts_go_on(conn);
    }
    conn = store->dirty;
    store->dirty = NULL;
    for (; conn; conn = next) {
        next = conn->next_dirty;
        conn->is_dirty = false;
        mu_ts_flush(conn);
    }
    if (!store->first_turn && !uv_is_closing((uv_handle_t *)&store->idle))
        uv_idle_stop(&store->idle);
}

static void on_check(uv_check_t *check)
{
    take_turns(check->data);
}

static void on_prepare(uv_prepare_t *prepare)
{
    take_turns(prepare->data);
}

/* ---- new connections --------------------------------------------------------------------------------------------- */

static void watch_listeners(uv_timer_t *timer);

/* Nobody can be accepted: the connections in the queue would wake the loop for ever. */
static void pause_listeners(struct mu_tcpstore *store, int error)
{
    if (!store->was_paused)
        mu_ts_say(store, "TCPStore: clients have to wait: %s", strerror(error));
    store->is_paused = store->was_paused = true;
    for (unsigned i = 0; i < store->listen.count; i++)
        uv_poll_stop(&store->listeners[i]);
    uv_timer_start(&store->tick, watch_listeners, PAUSE_MS, 0);
}

static void no_descriptor(struct mu_tcpstore *store, int listener)
{
    int fd;

    if (store->reserve_fd >= 0)
        close(store->reserve_fd);
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        store->stats.refused++;
        mu_ts_say(store, "TCPStore: a client is refused: no file descriptor is left (ulimit -n)");
    } else if (errno != EAGAIN) {
        pause_listeners(store, errno);
    }
    store->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool may_come(struct mu_tcpstore *store, int fd)
{
    char why[80];
    uid_t user;

    if (store->options.insecure || mu_rpc_peer_may_come(&store->peers, fd, &user))
        return true;
    mu_rpc_peer_why(user, why, sizeof why);
    mu_ts_say(store, "TCPStore: a client is refused: %s", why);
    return false;
}

static void conn_welcome(struct mu_tcpstore *store, int fd, const struct sockaddr *peer)
{
    if (store->was_paused)
        mu_ts_say(store, "TCPStore: clients are taken again");
    store->was_paused = false;
    if (store->stats.connections >= store->options.clients) {
        mu_ts_say(store, "TCPStore: a client is refused: %u connections are open, and more are not taken",
                  store->stats.connections);
    } else if (may_come(store, fd)) {
        if (mu_ts_conn_new(store, fd, peer))
            return;
        mu_ts_say(store, "TCPStore: a client is refused: no memory");
    }
    store->stats.refused++;
    close(fd);
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct mu_tcpstore *store = poll->data;
    int listener = store->listen.fds[poll - store->listeners];

    (void)events;
    for (int i = 0; status == 0 && i < ACCEPTS; i++) {
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        int fd = accept4(listener, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            no_descriptor(store, listener);
            return;
        }
        if (fd < 0 && mu_listen_is_of_one(errno))
            continue;
        if (fd < 0 && errno != EAGAIN)
            pause_listeners(store, errno);
        if (fd < 0)
            return;
        conn_welcome(store, fd, (struct sockaddr *)&peer);
    }
}

static void watch_listeners(uv_timer_t *timer)
{
    struct mu_tcpstore *store = timer->data;

    store->is_paused = false;
    if (store->reserve_fd < 0)
        store->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; i < store->listen.count; i++)
        if (uv_poll_start(&store->listeners[i], UV_READABLE, on_connection))
            uv_timer_start(&store->tick, watch_listeners, PAUSE_MS, 0);
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static int store_begin(struct mu_tcpstore *store)
{
    uv_loop_t *loop = store->options.loop;
    uv_handle_t *const handles[] = {(uv_handle_t *)&store->check, (uv_handle_t *)&store->prepare,
                                    (uv_handle_t *)&store->idle, (uv_handle_t *)&store->tick,
                                    (uv_handle_t *)&store->shortage};
    int rc = 0;

    uv_check_init(loop, &store->check);
    uv_prepare_init(loop, &store->prepare);
    uv_idle_init(loop, &store->idle);
    uv_timer_init(loop, &store->tick);
    uv_timer_init(loop, &store->shortage);
    uv_timer_start(&store->shortage, on_shortage, SHORTAGE_MS, SHORTAGE_MS);
    uv_timer_stop(&store->shortage); /* until somebody waits */
    uv_check_start(&store->check, on_check);
    uv_prepare_start(&store->prepare, on_prepare);
    mu_ts_looks_begin(store);
    mu_ts_room_begin(store);
    store->open = 6;
    for (int i = 0; i < 5; i++) { /* none of them keeps the loop alive */
        handles[i]->data = store;
        uv_unref(handles[i]);
    }
    for (unsigned i = 0; !rc && i < store->listen.count; i++) {
        rc = uv_poll_init(loop, &store->listeners[i], store->listen.fds[i]);
        if (rc)
            break;
        store->open++;
        store->listeners[i].data = store;
        rc = uv_poll_start(&store->listeners[i], UV_READABLE, on_connection);
        uv_unref((uv_handle_t *)&store->listeners[i]);
    }
    return rc;
}

static void prepare_listener(struct mu_tcpstore *store, unsigned i)
{
    int fd = store->listen.fds[i], one = 1, idle = PROBE_S, probes = PROBES, between = PROBES_S;
    unsigned user_ms = (PROBE_S + PROBES * PROBES_S) * 1000;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms, sizeof user_ms);
}

static enum muster_status open_listeners(struct mu_tcpstore *store)
{
    const char *address = store->options.address;
    enum muster_status status;

    if (strncmp(address, "unix:", 5) == 0)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "clients of TCPStore come over TCP, not to %.120s", address);
    status = mu_listen_open(address, true, &store->listen);
    if (status)
        return status;
    if (!store->listen.is_loopback && !store->options.insecure) {
        mu_listen_close(&store->listen);
        return mu_fail(MUSTER_FAILED_PRECONDITION,
                       "%.120s can be reached from other machines, and TCPStore's protocol has no password: whoever "
                       "reaches it may do as the job's tasks do; say that it is meant to be insecure "
                       "(--tcpstore-insecure)",
                       address);
    }
    for (unsigned i = 0; i < store->listen.count; i++)
        prepare_listener(store, i);
    return MUSTER_OK;
}

enum muster_status mu_tcpstore_start(const struct mu_tcpstore_options *options, struct mu_tcpstore **ret_store)
{
    struct mu_tcpstore *store = calloc(1, sizeof *store);
    enum muster_status status;
    int rc;

    if (!store)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a TCPStore");
    store->options = *options;
    store->options.clients = options->clients ? options->clients : CLIENTS;
    store->last_turn = &store->first_turn;
    store->sentences = MU_TS_SENTENCES;
    store->released = store_release;
    store->run = mu_ts_run;
    store->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    mu_peers_open(&store->peers);
    status = open_listeners(store);
    if (status) {
        free_store(store);
        return status;
    }
    rc = store_begin(store);
    if (rc) { /* what was begun is closed by the loop's next turns */
        mu_fail(MUSTER_UNAVAILABLE, "cannot listen at %.100s: %s", options->address, uv_strerror(rc));
        mu_tcpstore_stop(store, NULL, NULL);
        return MUSTER_UNAVAILABLE;
    }
    *ret_store = store;
    return MUSTER_OK;
}

const char *mu_tcpstore_address(const struct mu_tcpstore *store)
{
    return store->listen.address;
}

void mu_tcpstore_stats(const struct mu_tcpstore *store, struct mu_tcpstore_stats *ret_stats)
{
    *ret_stats = store->stats;
    ret_stats->held = store->held;
}
