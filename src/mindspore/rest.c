/*
 * mindspore/rest.c: the paths of HTTP by which people scale a cluster and look at it. The words are the protocol's.
 */
#include "mindspore/private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "rpc/http.h"
#include "rpc/json.h"

#define IDS_MAX 4096u

/* ---- answers ----------------------------------------------------------------------------------------------------- */

struct rest_text {
    char *at;
    size_t len;
    FILE *file; /* NULL: no memory */
};

static void text_begin(struct rest_text *text)
{
    text->at = NULL;
    text->file = open_memstream(&text->at, &text->len);
}

void mu_ms_quoted_put(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(to, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, to);
    fputc('"', to);
}

/* The reason is "Client" with every status, as clients know it. */
static void body_send(struct mu_ms_conn *conn, int status, const char *body, size_t len)
{
    char head[256];
    int n =
        snprintf(head, sizeof head, "HTTP/1.1 %d Client\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n", status,
                 status == 200 ? "application/json" : "text/html", len, conn->is_last ? "Connection: close\r\n" : "");

    mu_ms_conn_send(conn, head, (size_t)n, body, conn->is_head ? 0 : len);
}

static void text_send(struct mu_ms_conn *conn, int status, struct rest_text *text)
{
    if (!text->file || fclose(text->file)) {
        mu_ms_conn_refuse(conn, "there is no memory for an answer");
    } else {
        body_send(conn, status, text->at, text->len);
    }
    free(text->at);
}

static void message_send(struct mu_ms_conn *conn, int status, const char *name, const char *message)
{
    struct rest_text text;

    text_begin(&text);
    if (text.file) {
        fprintf(text.file, "{\"%s\":", name);
        mu_ms_quoted_put(text.file, message);
        fputc('}', text.file);
    }
    text_send(conn, status, &text);
}

static void error_send(struct mu_ms_conn *conn, int status, const char *why)
{
    message_send(conn, status, "error_message", why);
}

/* ---- paths ------------------------------------------------------------------------------------------------------- */

static void nodes_send(struct mu_ms_conn *conn, const char *body)
{
    struct rest_text text;
    const char *comma = "";

    (void)body;
    text_begin(&text);
    if (text.file) {
        fputs("{\"message\":\"Get nodes info successful.\",\"node_ids\":[", text.file);
        for (const struct mu_ms_node *n = conn->server->cluster.nodes; n; n = n->next) {
            fprintf(text.file, "%s{\"alive\":\"%s\",\"node_id\":", comma, n->is_alive ? "true" : "false");
            mu_ms_quoted_put(text.file, n->id);
            fprintf(text.file, ",\"rank_id\":\"%u\",\"role\":\"%s\"}", n->rank, mu_ms_role_name(n->role));
            comma = ",";
        }
        fputs("]}", text.file);
    }
    text_send(conn, 200, &text);
}

static void state_send(struct mu_ms_conn *conn, const char *body)
{
    struct rest_text text;

    (void)body;
    text_begin(&text);
    if (text.file)
        fprintf(text.file, "{\"cluster_state\":\"%s\",\"message\":\"Get cluster state successful.\"}",
                mu_ms_state_name(conn->server->cluster.state));
    text_send(conn, 200, &text);
}

/* The whole body is one object. */
static bool is_object(const char *body)
{
    mu_json_blank(&body);
    if (*body != '{' || !mu_json_skip(&body))
        return false;
    mu_json_blank(&body);
    return !*body;
}

/* False: it is said why. */
static bool number_take(struct mu_ms_conn *conn, const char *body, const char *name, int64_t *ret_number)
{
    char why[MU_MS_SENTENCE], *end;

    if (!mu_json_find(&body, name)) {
        snprintf(why, sizeof why, "The json is not contain the key:%s", name);
        error_send(conn, 400, why);
        return false;
    }
    mu_json_blank(&body);
    *ret_number = strtoll(body, &end, 10);
    if (end != body && *end && strchr(" \t\r\n,}", *end))
        return true;
    snprintf(why, sizeof why, "Illegal JSON format: the value of %s is no whole number", name);
    error_send(conn, 400, why);
    return false;
}

static void scaleout_serve(struct mu_ms_conn *conn, const char *body)
{
    int64_t workers, servers;
    const char *why;

    if (!number_take(conn, body, "worker_num", &workers) || !number_take(conn, body, "server_num", &servers))
        return;
    why = mu_ms_scale_out(&conn->server->cluster, workers, servers, mu_now());
    if (why)
        error_send(conn, 400, why);
    else
        message_send(conn, 200, "message", "Cluster begin to scale out.");
}

/* The strings of an array, malloc()ed each. Their number; -1: it is none, or too long. */
static long ids_take(const char *at, char **ids)
{
    const char *text;
    size_t len;
    long count = 0;

    if (!mu_json_take(&at, '['))
        return -1;
    if (mu_json_take(&at, ']'))
        return 0;
    do {
        if (count == IDS_MAX || !mu_json_string(&at, &text, &len) || memchr(text, '\\', len) ||
            !(ids[count] = strndup(text, len))) {
            while (count > 0)
                free(ids[--count]);
            return -1;
        }
        count++;
    } while (mu_json_take(&at, ','));
    return count;
}

static void scalein_serve(struct mu_ms_conn *conn, const char *body)
{
    char **ids = calloc(IDS_MAX, sizeof *ids);
    const char *why = "There is no memory.";
    long count = 0;

    if (ids && !mu_json_find(&body, "node_ids"))
        why = "The json is not contain the key:node_ids";
    else if (ids && (count = ids_take(body, ids)) < 0)
        why = "Illegal JSON format: node_ids is no list of strings";
    else if (ids)
        why = mu_ms_scale_in(&conn->server->cluster, ids, (size_t)count, mu_now());
    if (why)
        error_send(conn, 400, why);
    else
        message_send(conn, 200, "message", "Cluster begin to scale in.");
    while (count > 0)
        free(ids[--count]);
    free(ids);
}

static void unserved_send(struct mu_ms_conn *conn, const char *body)
{
    (void)body;
    error_send(conn, 400, "muster serves no federated learning plans: its servers answer this path, or nobody.");
}

static const struct {
    const char *path;
    void (*serve)(struct mu_ms_conn *conn, const char *body);
    bool has_body;
} rest_paths[] = {
    {"/nodes", nodes_send, false},          {"/state", state_send, false},
    {"/scaleout", scaleout_serve, true},    {"/scalein", scalein_serve, true},
    {"/newInstance", unserved_send, false}, {"/queryInstance", unserved_send, false},
    {"/enableFLS", unserved_send, false},   {"/disableFLS", unserved_send, false},
};

/* A body is text: a NUL in it ends it, and what is behind makes it no JSON. */
static void request_serve(struct mu_ms_conn *conn, const struct mu_http_request *request, const uint8_t *bytes)
{
    size_t len = (size_t)request->body_len;
    char *body;

    for (size_t i = 0; i < sizeof rest_paths / sizeof rest_paths[0]; i++) {
        if (strcmp(rest_paths[i].path, request->path) != 0)
            continue;
        body = malloc(len + 1);
        if (body) {
            memcpy(body, bytes, len);
            body[len] = 0;
        }
        if (!body)
            mu_ms_conn_refuse(conn, "there is no memory for its request");
        else if (rest_paths[i].has_body && len == 0)
            error_send(conn, 400, "The post message size is invalid.");
        else if (rest_paths[i].has_body && (strlen(body) != len || !is_object(body)))
            error_send(conn, 400, "Illegal JSON format: the body is no object");
        else
            rest_paths[i].serve(conn, body);
        free(body);
        return;
    }
    error_send(conn, 404, "There is no such path; there are /nodes, /state, /scaleout and /scalein.");
}

size_t mu_ms_rest_take(struct mu_ms_conn *conn, const uint8_t *bytes, size_t len)
{
    struct mu_http_request request;
    long head = mu_http_parse((const char *)bytes, len, &request);

    if (head == 0)
        return 0;
    conn->is_last = head < 0 || !request.keep_alive || request.is_chunked || request.body_len > MU_MS_FRAME_MAX;
    if (head < 0 || request.is_chunked || request.body_len > MU_MS_FRAME_MAX) {
        error_send(conn, head < 0 ? (int)-head : 400, "The request cannot be read; its body has a Content-Length.");
        return len;
    }
    if (len - (size_t)head < request.body_len) {
        conn->is_last = false;
        return 0;
    }
    conn->is_head = strcmp(request.method, "HEAD") == 0;
    request_serve(conn, &request, bytes + head);
    return conn->is_closing ? MU_MS_BAD : (size_t)head + (size_t)request.body_len;
}
