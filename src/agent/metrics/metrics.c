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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/metrics/http.h"
#include "agent/metrics/address.h"
#include "agent/metrics/text.h"
#include "base/account.h"
#include "base/unix_socket.h"
#include "bridge/link/address.h"

#define CONNECTIONS_MAX 64
#define TICK_MS         250  /* deadlines are kept this exactly */
#define LOOK_MS         1000 /* heartbeats are looked at */
#define FRESH_MS        100  /* an answer serves all who ask within this time */
#define REQUEST_MS      5000 /* from the first byte of a request to its last */
#define IDLE_MS         60000
#define ANSWER_MS       10000
#define LINGER_MS       1000
#define LINGER_BYTES    65536u

/* An answer's body, shared by the connections that send it. */
struct body {
    unsigned users;
    struct mu_account *account; /* that it counts against; NULL: none */
    uint64_t made_at;
    size_t len;
    char *text;
};

union handle {
    uv_handle_t any;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

enum phase { READING, WRITING, LINGERING, CLOSING };

struct connection {
    union handle handle; /* first: a handle is its connection */
    struct mu_metrics *metrics;
    struct connection *next, *before;
    enum phase phase;
    uint64_t deadline, since; /* of the loop's clock, in ms */
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct body *body;
    int keep_alive;
    size_t have, drained;
    char head[320];
    char in[MU_HTTP_HEAD_MAX];
};

struct mu_metrics {
    uv_loop_t *loop;
    union handle listener, refused;
    uv_timer_t timer;
    struct mu_metrics_view *view;
    struct connection *connections;
    unsigned count, open; /* connections; handles that are not closed */
    int stopping, refusing;
    uint64_t looked_at, restarts;
    struct body *body; /* the last */
    struct mu_account *account;
    char address[160], path[MU_UNIX_PATH_MAX]; /* the latter of a Unix socket that we made; "": none */
    dev_t device;
    ino_t file;
    int is_open;
};

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer);
static void answer(struct connection *c, int status, const char *type, struct body *body, int is_head);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void drop(struct body *body)
{
    if (!body || --body->users > 0)
        return;
    if (body->account)
        mu_account_give(body->account, body->len);
    free(body->text);
    free(body);
}

static void release(struct mu_metrics *metrics)
{
    if (--metrics->open > 0 || !metrics->stopping)
        return;
    drop(metrics->body);
    mu_metrics_view_free(metrics->view);
    free(metrics);
}

static void on_listener_closed(uv_handle_t *handle)
{
    release(handle->data);
}

/* NULL: no memory, or others hold too much. */
static struct connection *take_connection(const struct mu_metrics *metrics)
{
    struct connection *c;

    if (metrics->account && !mu_account_take(metrics->account, 0, sizeof *c))
        return NULL;
    c = calloc(1, sizeof *c);
    if (!c && metrics->account)
        mu_account_give(metrics->account, sizeof *c);
    return c;
}

static void give_connection(const struct mu_metrics *metrics, struct connection *c)
{
    if (c && metrics->account)
        mu_account_give(metrics->account, sizeof *c);
    free(c);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *c = (struct connection *)handle;
    struct mu_metrics *metrics = c->metrics;

    drop(c->body);
    give_connection(metrics, c);
    release(metrics);
}

static void end(struct connection *c)
{
    if (c->phase == CLOSING)
        return;
    c->phase = CLOSING;
    if (c->before)
        c->before->next = c->next;
    else
        c->metrics->connections = c->next;
    if (c->next)
        c->next->before = c->before;
    c->metrics->count--;
    uv_close(&c->handle.any, on_closed);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void set_phase(struct connection *c, enum phase phase, uint64_t ms)
{
    c->phase = phase;
    c->since = uv_now(c->metrics->loop);
    c->deadline = c->since + ms;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct connection *c = (struct connection *)handle;

    (void)suggested;
    if (c->phase == LINGERING)
        c->have = 0;
    *ret_buffer = uv_buf_init(c->in + c->have, (unsigned)(sizeof c->in - c->have));
}

static void on_shut(uv_shutdown_t *request, int status)
{
    (void)request;
    (void)status; /* the deadline ends it either way */
}

static struct body *make_body(struct mu_metrics *metrics)
{
    struct body *body = calloc(1, sizeof *body);
    const char *why;

    if (body)
        body->text = mu_metrics_render(metrics->view, metrics->restarts, &body->len, &why);
    if (!body || !body->text || (metrics->account && !mu_account_take(metrics->account, 0, body->len))) {
        if (body)
            free(body->text);
        free(body);
        return NULL;
    }
    body->account = metrics->account;
    body->users = 1;
    body->made_at = uv_now(metrics->loop);
    return body;
}

/* The metrics, not older than FRESH_MS: many who ask at once cost one rendering. */
static struct body *current_body(struct mu_metrics *metrics)
{
    if (!metrics->body || uv_now(metrics->loop) - metrics->body->made_at > FRESH_MS) {
        struct body *body = make_body(metrics);

        if (!body)
            return NULL;
        drop(metrics->body);
        metrics->body = body;
        metrics->looked_at = uv_now(metrics->loop);
    }
    metrics->body->users++;
    return metrics->body;
}

static void route(struct connection *c, const struct mu_http_request *request)
{
    static const char plain[] = "text/plain; charset=utf-8";
    int is_head = strcmp(request->method, "HEAD") == 0;
    struct body *body;

    c->keep_alive = request->keep_alive && !request->has_body;
    if (!is_head && strcmp(request->method, "GET") != 0) {
        answer(c, 405, plain, NULL, 0);
    } else if (request->has_body) {
        answer(c, 400, plain, NULL, is_head);
    } else if (strcmp(request->path, "/healthz") == 0) {
        answer(c, 200, plain, NULL, is_head);
    } else if (strcmp(request->path, "/metrics") == 0) {
        body = current_body(c->metrics);
        answer(c, body ? 200 : 503, body ? "text/plain; version=0.0.4; charset=utf-8" : plain, body, is_head);
    } else {
        answer(c, 404, plain, NULL, is_head);
    }
}

/* The next request, when it is there whole. */
static void look_for_request(struct connection *c)
{
    struct mu_http_request request;
    long used;

    if (c->have == 0) {
        set_phase(c, READING, IDLE_MS);
    } else if ((used = mu_http_parse(c->in, c->have, &request)) < 0) {
        c->have = 0;
        c->keep_alive = 0;
        answer(c, (int)-used, "text/plain; charset=utf-8", NULL, 0);
    } else if (used > 0) {
        c->have -= (size_t)used;
        memmove(c->in, c->in + used, c->have);
        route(c, &request);
    }
}

static void on_written(uv_write_t *write, int status)
{
    struct connection *c = write->data;

    drop(c->body);
    c->body = NULL;
    if (c->phase != WRITING)
        return;
    if (status < 0) {
        end(c);
    } else if (!c->keep_alive) {
        c->drained = 0;
        set_phase(c, LINGERING, LINGER_MS);
        if (uv_shutdown(&c->shutdown, &c->handle.stream, on_shut) ||
            uv_read_start(&c->handle.stream, on_alloc, on_read))
            end(c);
    } else {
        set_phase(c, READING, c->have ? REQUEST_MS : IDLE_MS);
        if (uv_read_start(&c->handle.stream, on_alloc, on_read))
            end(c);
        else
            look_for_request(c);
    }
}

/* Takes the reference to `body`; without one the body is the status's name. */
static void answer(struct connection *c, int status, const char *type, struct body *body, int is_head)
{
    const char *word = status == 200 ? "ok" : mu_http_reason(status);
    size_t len = body ? body->len : strlen(word) + 1;
    uv_buf_t buffers[2];
    unsigned count = 1;
    int n;

    uv_read_stop(&c->handle.stream);
    c->body = body;
    n = snprintf(c->head, sizeof c->head,
                 "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sConnection: %s\r\n\r\n%s%s", status,
                 mu_http_reason(status), type, len, status == 405 ? "Allow: GET, HEAD\r\n" : "",
                 c->keep_alive ? "keep-alive" : "close", is_head || body ? "" : word, is_head || body ? "" : "\n");
    buffers[0] = uv_buf_init(c->head, (unsigned)n);
    if (body && !is_head)
        buffers[count++] = uv_buf_init(body->text, (unsigned)body->len);
    set_phase(c, WRITING, ANSWER_MS);
    c->write.data = c;
    if (uv_write(&c->write, &c->handle.stream, buffers, count, on_written))
        end(c);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct connection *c = (struct connection *)stream;

    (void)buffer;
    if (count == 0)
        return;
    if (count < 0) {
        end(c);
    } else if (c->phase == LINGERING) {
        c->drained += (size_t)count;
        if (c->drained > LINGER_BYTES)
            end(c);
    } else {
        if (c->have == 0) /* only the first byte sets the clock */
            set_phase(c, READING, REQUEST_MS);
        c->have += (size_t)count;
        look_for_request(c);
    }
}

/* Room for one more: the one that has been silent longest goes. Those that are being answered stay. */
static int make_room(struct mu_metrics *metrics)
{
    struct connection *oldest = NULL;

    if (metrics->count < CONNECTIONS_MAX)
        return 0;
    for (struct connection *c = metrics->connections; c; c = c->next)
        if (c->phase != WRITING &&
            (!oldest || c->since <= oldest->since)) /* of equals the last in the list: it came first */
            oldest = c;
    if (!oldest)
        return -1;
    end(oldest);
    return 0;
}

static int init_handle(struct mu_metrics *metrics, union handle *handle)
{
    return metrics->listener.any.type == UV_TCP ? uv_tcp_init(metrics->loop, &handle->tcp)
                                                : uv_pipe_init(metrics->loop, &handle->pipe, 0);
}

static void on_refused(uv_handle_t *handle)
{
    struct mu_metrics *metrics = handle->data;

    metrics->refusing = 0;
    release(metrics);
}

/* No memory for a connection. It must be accepted all the same: until then libuv takes no other. */
static void refuse(struct mu_metrics *metrics)
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
    struct connection *c;

    if (status < 0 || metrics->stopping)
        return; /* libuv has dropped it, and has freed a descriptor for that when there was none */
    c = take_connection(metrics);
    if (!c || init_handle(metrics, &c->handle)) {
        give_connection(metrics, c);
        refuse(metrics);
        return;
    }
    metrics->open++;
    c->metrics = metrics;
    if (uv_accept(listener, &c->handle.stream) || make_room(metrics)) {
        c->phase = CLOSING;
        uv_close(&c->handle.any, on_closed);
        return;
    }
    uv_unref(&c->handle.any);
    c->next = metrics->connections; /* the newest first */
    if (c->next)
        c->next->before = c;
    metrics->connections = c;
    metrics->count++;
    set_phase(c, READING, REQUEST_MS);
    if (uv_read_start(&c->handle.stream, on_alloc, on_read))
        end(c);
}

static void on_tick(uv_timer_t *timer)
{
    struct mu_metrics *metrics = timer->data;
    uint64_t now = uv_now(metrics->loop);

    for (struct connection *c = metrics->connections, *next; c; c = next) {
        next = c->next;
        if (now >= c->deadline)
            end(c);
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

int mu_metrics_is_open(const struct mu_metrics *metrics)
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
        end(metrics->connections);
    remove_socket(metrics);
    uv_close((uv_handle_t *)&metrics->timer, on_listener_closed);
    uv_close(&metrics->listener.any, on_listener_closed);
}
