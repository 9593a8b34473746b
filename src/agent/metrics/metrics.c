/*
 * agent/metrics/metrics.c: the HTTP server behind agent/metrics/metrics.h.
 *
 * A connection reads a request, writes its answer, and only then reads on: so what it holds is one buffer, and an
 * answer that all share. Its deadline is set by the server's timer and never moved by a client that sends byte by byte.
 * When there are CONNECTIONS_MAX, a new one pushes out the one that has been silent longest. After an error the answer
 * is followed by half a close, and what still comes is thrown away for a while: a reset would take the answer with it.
 */
#include "agent/metrics/metrics.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/metrics/address.h"
#include "agent/metrics/private.h"
#include "base/unix_socket.h"
#include "base/list.h"
#include "bridge/link/address.h"

#define CONNECTIONS_MAX 64
#define TICK_MS         250  /* deadlines are kept this exactly */
#define LOOK_MS         1000 /* heartbeats are looked at */

void mu_metrics_release(struct mu_metrics *metrics)
{
    if (--metrics->open > 0 || !metrics->stopping)
        return;
    mu_body_drop(metrics->body);
    mu_metrics_view_free(metrics->view);
    free(metrics);
}

static void on_listener_closed(uv_handle_t *handle)
{
    mu_metrics_release(handle->data);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

/* Room for one more: the one that has been silent longest goes. Those that are being answered stay. */
static int make_room(struct mu_metrics *metrics)
{
    struct mu_connection *oldest = NULL;

    if (metrics->count < CONNECTIONS_MAX)
        return 0;
    for (struct mu_connection *c = metrics->connections; c; c = c->next)
        if (c->phase != MU_WRITING &&
            (!oldest || c->since <= oldest->since)) /* of equals the last in the list: it came first */
            oldest = c;
    if (!oldest)
        return -1;
    mu_connection_end(oldest);
    return 0;
}

static int init_handle(struct mu_metrics *metrics, union mu_metrics_handle *handle)
{
    return metrics->listener.any.type == UV_TCP ? uv_tcp_init(metrics->loop, &handle->tcp)
                                                : uv_pipe_init(metrics->loop, &handle->pipe, 0);
}

static void on_refused(uv_handle_t *handle)
{
    struct mu_metrics *metrics = handle->data;

    metrics->refusing = 0;
    mu_metrics_release(metrics);
}

/* No memory for a connection. It must be accepted all the same: until then libuv takes no other. */
static void connection_refuse(struct mu_metrics *metrics)
{
    if (metrics->refusing || init_handle(metrics, &metrics->refused))
        return;
    metrics->refusing = 1;
    metrics->open++;
    metrics->refused.any.data = metrics;
    uv_accept(&metrics->listener.stream, &metrics->refused.stream);
    uv_close(&metrics->refused.any, on_refused);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct mu_metrics *metrics = listener->data;
    struct mu_connection *c;

    if (status < 0 || metrics->stopping)
        return; /* libuv has dropped it, and has freed a descriptor for that when there was none */
    c = mu_connection_new(metrics);
    if (!c || init_handle(metrics, &c->handle)) {
        mu_connection_free(metrics, c);
        connection_refuse(metrics);
        return;
    }
    metrics->open++;
    c->metrics = metrics;
    if (uv_accept(listener, &c->handle.stream) || make_room(metrics)) {
        c->phase = MU_CLOSING;
        uv_close(&c->handle.any, mu_connection_closed);
        return;
    }
    uv_unref(&c->handle.any);
    MU_LIST_PUSH(metrics->connections, c); /* the newest first */
    metrics->count++;
    mu_connection_begin(c);
}

static void on_tick(uv_timer_t *timer)
{
    struct mu_metrics *metrics = timer->data;
    uint64_t now = uv_now(metrics->loop);

    for (struct mu_connection *c = metrics->connections, *next; c; c = next) {
        next = c->next;
        if (now >= c->deadline)
            mu_connection_end(c);
    }
    if (now - metrics->looked_at >= LOOK_MS) {
        metrics->looked_at = now;
        mu_metrics_look(metrics->view);
    }
}

/* ---- start and stop ---------------------------------------------------------------------------------------------- */

static int bind_unix(struct mu_metrics *metrics, const char *path)
{
    int fd = mu_unix_listen(path, CONNECTIONS_MAX), rc;
    struct stat st;

    if (fd < 0)
        return uv_translate_sys_error(errno);
    if (lstat(path, &st) == 0) {
        snprintf(metrics->path, sizeof metrics->path, "%s", path);
        metrics->device = st.st_dev;
        metrics->file = st.st_ino;
    }
    snprintf(metrics->address, sizeof metrics->address, "unix:%s", path);
    rc = uv_pipe_open(&metrics->listener.pipe, fd);
    if (rc)
        close(fd);
    return rc;
}

/* While it is served: nobody replaces it meanwhile. */
static void remove_socket(const struct mu_metrics *metrics)
{
    struct stat st;

    if (metrics->path[0] && lstat(metrics->path, &st) == 0 && st.st_dev == metrics->device &&
        st.st_ino == metrics->file)
        unlink(metrics->path);
}

static int bind_tcp(struct mu_metrics *metrics, const struct mu_metrics_address *address)
{
    struct sockaddr_storage bound;
    int size = sizeof bound, rc;
    char text[96];

    rc = uv_tcp_bind(&metrics->listener.tcp, (const struct sockaddr *)&address->socket, 0);
    if (!rc)
        rc = uv_tcp_getsockname(&metrics->listener.tcp, (struct sockaddr *)&bound, &size);
    if (!rc) {
        metrics->is_open = !mu_link_is_loopback((const struct sockaddr *)&bound);
        mu_metrics_address_print(&bound, text, sizeof text);
        snprintf(metrics->address, sizeof metrics->address, "http://%s/metrics", text);
    }
    return rc;
}

int mu_metrics_start(uv_loop_t *loop, const char *addr, struct muster *muster, struct mu_metrics **ret_metrics,
                     char *why, size_t why_size)
{
    struct mu_metrics *metrics;
    struct mu_metrics_address address;
    int rc;

    if (mu_metrics_address_parse(addr, &address, why, why_size))
        return -1;
    metrics = calloc(1, sizeof *metrics);
    if (!metrics || !(metrics->view = mu_metrics_view_new(muster))) {
        snprintf(why, why_size, "no memory");
        free(metrics);
        return -1;
    }
    metrics->loop = loop;
    metrics->open = 2;
    uv_timer_init(loop, &metrics->timer);
    if (address.path[0])
        uv_pipe_init(loop, &metrics->listener.pipe, 0);
    else
        uv_tcp_init(loop, &metrics->listener.tcp);
    metrics->timer.data = metrics->listener.any.data = metrics;
    uv_unref((uv_handle_t *)&metrics->timer);
    uv_unref(&metrics->listener.any);
    rc = address.path[0] ? bind_unix(metrics, address.path) : bind_tcp(metrics, &address);
    if (!rc)
        rc = uv_listen(&metrics->listener.stream, CONNECTIONS_MAX, on_connection);
    if (!rc)
        rc = uv_timer_start(&metrics->timer, on_tick, TICK_MS, TICK_MS);
    if (rc) {
        snprintf(why, why_size, "cannot listen at %.100s: %s", addr, uv_strerror(rc));
        mu_metrics_stop(metrics);
        return -1;
    }
    *ret_metrics = metrics;
    return 0;
}

const char *mu_metrics_address(const struct mu_metrics *metrics)
{
    return metrics->address;
}

bool mu_metrics_is_open(const struct mu_metrics *metrics)
{
    return metrics->is_open;
}

void mu_metrics_count(struct mu_metrics *metrics, struct mu_account *account)
{
    metrics->account = account;
}

void mu_metrics_service(struct mu_metrics *metrics, struct mu_service *service)
{
    if (metrics)
        mu_metrics_view_service(metrics->view, service);
}

void mu_metrics_tcpstore(struct mu_metrics *metrics, struct mu_tcpstore *store)
{
    if (metrics)
        mu_metrics_view_tcpstore(metrics->view, store);
}

void mu_metrics_launcher(struct mu_metrics *metrics, const struct mu_metrics_launcher *launcher)
{
    mu_metrics_view_launcher(metrics->view, launcher);
}

void mu_metrics_restarted(struct mu_metrics *metrics, uint64_t count)
{
    metrics->restarts += count;
}

void mu_metrics_stop(struct mu_metrics *metrics)
{
    if (!metrics || metrics->stopping)
        return;
    metrics->stopping = 1;
    while (metrics->connections)
        mu_connection_end(metrics->connections);
    remove_socket(metrics);
    uv_close((uv_handle_t *)&metrics->timer, on_listener_closed);
    uv_close(&metrics->listener.any, on_listener_closed);
}
