/*
 * mindspore/conn.c: connections: their sockets, what has come and is not done with, and which protocol they speak.
 *
 * Memory for a request grows with what has come of it, and never by what was announced.
 */
#include "mindspore/private.h"

#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "bridge/link/address.h"

#define PIECE 4096u

static void on_closed(uv_handle_t *handle)
{
    struct mu_ms_conn *conn = (struct mu_ms_conn *)handle;
    struct mu_mindspore *server = conn->server;

    if (server->options.account)
        mu_account_give(server->options.account, conn->room);
    free(conn->bytes);
    free(conn);
    mu_ms_released(server);
}

void mu_ms_conn_close(struct mu_ms_conn *conn)
{
    struct mu_mindspore *server = conn->server;
    struct mu_ms_node *node = conn->node;

    if (conn->is_closing)
        return;
    conn->is_closing = true;
    conn->node = NULL;
    MU_LIST_DROP(server->conns, conn);
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
    if (server->is_stopping)
        return;
    if (node && node->conn == conn)
        mu_ms_cluster_lost(&server->cluster, node, "has closed its connection", mu_now());
    mu_ms_rpc0_closed(&server->topology, conn, mu_now());
}

size_t mu_ms_conn_refuse(struct mu_ms_conn *conn, const char *format, ...)
{
    char sentence[MU_MS_SENTENCE];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    mu_ms_said(conn->server, "MindSpore: the connection from %s is closed: %s", conn->name, sentence);
    mu_ms_conn_close(conn);
    return MU_MS_BAD;
}

/* ---- out --------------------------------------------------------------------------------------------------------- */

struct ms_answer {
    uv_write_t request;
    uint8_t bytes[];
};

static void on_written(uv_write_t *request, int status)
{
    uv_stream_t *stream = request->handle;
    struct mu_ms_conn *conn = (struct mu_ms_conn *)stream;

    free(request->data);
    if (!conn->is_closing && (status < 0 || (conn->is_last && uv_stream_get_write_queue_size(stream) == 0)))
        mu_ms_conn_close(conn);
}

void mu_ms_conn_send(struct mu_ms_conn *conn, const void *head, size_t head_len, const void *body, size_t len)
{
    struct ms_answer *answer;
    uv_buf_t buf;

    if (conn->is_closing || conn->is_broken)
        return;
    if (uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp) > MU_MS_OUT_MAX) {
        mu_ms_said(conn->server, "MindSpore: the connection from %s is closed: it has not taken %u MiB of answers",
                   conn->name, MU_MS_OUT_MAX >> 20);
        conn->is_broken = true;
        return;
    }
    answer = malloc(sizeof *answer + head_len + len);
    conn->is_broken = !answer;
    if (!answer)
        return;
    memcpy(answer->bytes, head, head_len);
    if (len)
        memcpy(answer->bytes + head_len, body, len);
    answer->request.data = answer;
    buf = uv_buf_init((char *)answer->bytes, (unsigned)(head_len + len));
    if (uv_write(&answer->request, (uv_stream_t *)&conn->tcp, &buf, 1, on_written)) {
        free(answer);
        conn->is_broken = true;
    }
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

/* By its first four bytes. */
static size_t protocol_take(struct mu_ms_conn *conn, const uint8_t *bytes, size_t len)
{
    if (len < 4)
        return 0;
    if (memcmp(bytes, "RPC0", 4) == 0)
        conn->take = mu_ms_rpc0_take;
    else if (bytes[0] <= 2 && !bytes[1] && !bytes[2] && !bytes[3])
        conn->take = mu_ms_seed_take;
    else if (bytes[0] >= 'A' && bytes[0] <= 'Z' && bytes[1] >= 'A' && bytes[1] <= 'Z')
        conn->take = mu_ms_rest_take;
    else
        return mu_ms_conn_refuse(conn, "it speaks neither ps core, nor RPC0, nor HTTP");
    return conn->take(conn, bytes, len);
}

/* It has not said for long what it speaks. */
bool mu_ms_conn_is_mute(const struct mu_ms_conn *conn)
{
    return conn->take == protocol_take && mu_now() - conn->since_ns > 30000000000ull;
}

/* False: it is closed by now. */
static bool requests_take(struct mu_ms_conn *conn)
{
    size_t at = 0;

    while (at < conn->len && !conn->is_last && !conn->is_broken) {
        size_t n = conn->take(conn, conn->bytes + at, conn->len - at);

        if (n == MU_MS_BAD || conn->is_closing)
            return false;
        if (n == 0)
            break;
        at += n;
    }
    conn->len -= at;
    memmove(conn->bytes, conn->bytes + at, conn->len);
    return true;
}

static void on_conn_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct mu_ms_conn *conn = (struct mu_ms_conn *)stream;

    (void)buf;
    if (conn->is_closing || n == 0)
        return;
    if (n == UV_ENOBUFS) {
        mu_ms_conn_refuse(conn, "there is no memory for its request");
    } else if (n < 0) {
        mu_ms_conn_close(conn);
    } else {
        conn->len += (size_t)n;
        requests_take(conn);
    }
}

static void on_conn_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_room)
{
    struct mu_ms_conn *conn = (struct mu_ms_conn *)handle;
    struct mu_account *account = conn->server->options.account;
    size_t room = conn->room ? conn->room * 2 : PIECE;
    uint8_t *grown;

    (void)suggested;
    *ret_room = uv_buf_init(NULL, 0);
    if (conn->is_closing)
        return;
    if (conn->len == conn->room) {
        if (account && !mu_account_take(account, conn->room, room - conn->room))
            return;
        grown = realloc(conn->bytes, room);
        if (!grown) {
            if (account)
                mu_account_give(account, room - conn->room);
            return;
        }
        conn->bytes = grown;
        conn->room = room;
    }
    *ret_room = uv_buf_init((char *)conn->bytes + conn->len, (unsigned)(conn->room - conn->len));
}

/* ---- new ones ---------------------------------------------------------------------------------------------------- */

static bool may_come(struct mu_ms_conn *conn)
{
    uid_t user = MU_PEER_UNKNOWN;
    char why[80];
    int fd;

    if (conn->server->options.insecure)
        return true;
    if (uv_fileno((uv_handle_t *)&conn->tcp, &fd) == 0 && mu_rpc_peer_may_come(&conn->server->peers, fd, &user))
        return true;
    mu_rpc_peer_why(user, why, sizeof why);
    mu_ms_conn_refuse(conn, "%s", why);
    return false;
}

void mu_ms_conn_accept(struct mu_mindspore *server, uv_stream_t *listener)
{
    struct mu_ms_conn *conn = calloc(1, sizeof *conn);
    struct sockaddr_storage peer;
    int len = sizeof peer, rc;

    server->is_deaf = !conn; /* the clock tries again */
    if (!conn)
        return;
    conn->since_ns = mu_now();
    conn->server = server;
    conn->take = protocol_take;
    uv_tcp_init(server->options.loop, &conn->tcp);
    server->handles++;
    MU_LIST_PUSH(server->conns, conn);
    uv_unref((uv_handle_t *)&conn->tcp);
    rc = uv_accept(listener, (uv_stream_t *)&conn->tcp);
    if (!rc)
        rc = uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&peer, &len);
    if (rc) {
        mu_ms_conn_close(conn);
        return;
    }
    mu_link_print((struct sockaddr *)&peer, conn->name, sizeof conn->name);
    uv_tcp_nodelay(&conn->tcp, 1);
    uv_tcp_keepalive(&conn->tcp, 1, 30);
    if (may_come(conn) && uv_read_start((uv_stream_t *)&conn->tcp, on_conn_room, on_conn_read))
        mu_ms_conn_close(conn);
}
