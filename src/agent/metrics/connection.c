/*
 * agent/metrics/connection.c: one client of the metrics: its requests, the answers, and the end of both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/metrics/private.h"

#include "base/list.h"

#define FRESH_MS     100  /* an answer serves all requests within this time */
#define REQUEST_MS   5000 /* from the first byte of a request to its last */
#define IDLE_MS      60000
#define ANSWER_MS    10000
#define LINGER_MS    1000
#define LINGER_BYTES 65536u

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer);
static void request_answer(struct mu_connection *c, int status, const char *type, struct mu_body *body, int is_head);

void mu_body_drop(struct mu_body *body)
{
    if (!body || --body->users > 0)
        return;
    if (body->account)
        mu_account_give(body->account, body->len);
    free(body->text);
    free(body);
}

struct mu_connection *mu_connection_new(const struct mu_metrics *metrics)
{
    struct mu_connection *c;

    if (metrics->account && !mu_account_take(metrics->account, 0, sizeof *c))
        return NULL;
    c = calloc(1, sizeof *c);
    if (!c && metrics->account)
        mu_account_give(metrics->account, sizeof *c);
    return c;
}

void mu_connection_free(const struct mu_metrics *metrics, struct mu_connection *c)
{
    if (c && metrics->account)
        mu_account_give(metrics->account, sizeof *c);
    free(c);
}

void mu_connection_closed(uv_handle_t *handle)
{
    struct mu_connection *c = (struct mu_connection *)handle;
    struct mu_metrics *metrics = c->metrics;

    mu_body_drop(c->body);
    mu_connection_free(metrics, c);
    mu_metrics_release(metrics);
}

void mu_connection_end(struct mu_connection *c)
{
    if (c->phase == MU_CLOSING)
        return;
    c->phase = MU_CLOSING;
    MU_LIST_DROP(c->metrics->connections, c);
    c->metrics->count--;
    uv_close(&c->handle.any, mu_connection_closed);
}

static void set_phase(struct mu_connection *c, enum mu_phase phase, uint64_t ms)
{
    c->phase = phase;
    c->since = uv_now(c->metrics->loop);
    c->deadline = c->since + ms;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct mu_connection *c = (struct mu_connection *)handle;

    (void)suggested;
    if (c->phase == MU_LINGERING)
        c->have = 0;
    *ret_buffer = uv_buf_init(c->in + c->have, (unsigned)(sizeof c->in - c->have));
}

static void on_shut(uv_shutdown_t *request, int status)
{
    (void)request;
    (void)status; /* the deadline ends it either way */
}

static struct mu_body *make_body(struct mu_metrics *metrics)
{
    struct mu_body *body = calloc(1, sizeof *body);
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

/* The metrics, not older than FRESH_MS: many requests at once cost one rendering. */
static struct mu_body *current_body(struct mu_metrics *metrics)
{
    if (!metrics->body || uv_now(metrics->loop) - metrics->body->made_at > FRESH_MS) {
        struct mu_body *body = make_body(metrics);

        if (!body)
            return NULL;
        mu_body_drop(metrics->body);
        metrics->body = body;
        metrics->looked_at = uv_now(metrics->loop);
    }
    metrics->body->users++;
    return metrics->body;
}

static void request_route(struct mu_connection *c, const struct mu_http_request *request)
{
    static const char plain[] = "text/plain; charset=utf-8";
    int is_head = strcmp(request->method, "HEAD") == 0;
    struct mu_body *body;

    c->keep_alive = request->keep_alive && !request->has_body;
    if (!is_head && strcmp(request->method, "GET") != 0) {
        request_answer(c, 405, plain, NULL, 0);
    } else if (request->has_body) {
        request_answer(c, 400, plain, NULL, is_head);
    } else if (strcmp(request->path, "/healthz") == 0) {
        request_answer(c, 200, plain, NULL, is_head);
    } else if (strcmp(request->path, "/metrics") == 0) {
        body = current_body(c->metrics);
        request_answer(c, body ? 200 : 503, body ? "text/plain; version=0.0.4; charset=utf-8" : plain, body, is_head);
    } else {
        request_answer(c, 404, plain, NULL, is_head);
    }
}

/* The next request, when it is there whole. */
static void look_for_request(struct mu_connection *c)
{
    struct mu_http_request request;
    long used;

    if (c->have == 0) {
        set_phase(c, MU_READING, IDLE_MS);
    } else if ((used = mu_http_parse(c->in, c->have, &request)) < 0) {
        c->have = 0;
        c->keep_alive = 0;
        request_answer(c, (int)-used, "text/plain; charset=utf-8", NULL, 0);
    } else if (used > 0) {
        c->have -= (size_t)used;
        memmove(c->in, c->in + used, c->have);
        request_route(c, &request);
    }
}

static void on_written(uv_write_t *write, int status)
{
    struct mu_connection *c = write->data;

    mu_body_drop(c->body);
    c->body = NULL;
    if (c->phase != MU_WRITING)
        return;
    if (status < 0) {
        mu_connection_end(c);
    } else if (!c->keep_alive) {
        c->drained = 0;
        set_phase(c, MU_LINGERING, LINGER_MS);
        if (uv_shutdown(&c->shutdown, &c->handle.stream, on_shut) ||
            uv_read_start(&c->handle.stream, on_alloc, on_read))
            mu_connection_end(c);
    } else {
        set_phase(c, MU_READING, c->have ? REQUEST_MS : IDLE_MS);
        if (uv_read_start(&c->handle.stream, on_alloc, on_read))
            mu_connection_end(c);
        else
            look_for_request(c);
    }
}

/* Takes the reference to `body`; without one the body is the status's name. */
static void request_answer(struct mu_connection *c, int status, const char *type, struct mu_body *body, int is_head)
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
    set_phase(c, MU_WRITING, ANSWER_MS);
    c->write.data = c;
    if (uv_write(&c->write, &c->handle.stream, buffers, count, on_written))
        mu_connection_end(c);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct mu_connection *c = (struct mu_connection *)stream;

    (void)buffer;
    if (count == 0)
        return;
    if (count < 0) {
        mu_connection_end(c);
    } else if (c->phase == MU_LINGERING) {
        c->drained += (size_t)count;
        if (c->drained > LINGER_BYTES)
            mu_connection_end(c);
    } else {
        if (c->have == 0) /* only the first byte sets the clock */
            set_phase(c, MU_READING, REQUEST_MS);
        c->have += (size_t)count;
        look_for_request(c);
    }
}

void mu_connection_begin(struct mu_connection *c)
{
    set_phase(c, MU_READING, REQUEST_MS);
    if (uv_read_start(&c->handle.stream, on_alloc, on_read))
        mu_connection_end(c);
}
