/*
 * compat/tcpstore_conn.c: a connection: its socket, its bytes, and its end.
 *
 * A connection that says nothing has no buffers. What comes is read into the server's, carried out from there, and
 * only what is left of a request that is not whole is copied. A long request is read into memory of its own, which
 * grows with what has come, not with what was announced. A client that does not take its answers is not read, nor
 * served any more.
 */
#include "compat/tcpstore_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "bridge/link/address.h"

#define GROWTH 4 /* times what has come of a request is held for it, at most */

#define ASKS_MAX  (2 * MU_TS_KEYS_MAX + 64) /* of a connection, that wait at the engine: the longest WAIT's, */
#define BYTES_MAX (256u << 20)              /* and bytes of theirs: half of what all may have */

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_room);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *room);

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

static void read_or_not(struct mu_ts_conn *conn, bool reads)
{
    if (conn->reads == reads || conn->is_closed)
        return;
    conn->reads = reads;
    conn->has_filled = false;
    if (!reads)
        uv_read_stop((uv_stream_t *)&conn->tcp);
    else if (uv_read_start((uv_stream_t *)&conn->tcp, on_room, on_read))
        mu_ts_close(conn);
}

static bool is_read(const struct mu_ts_conn *conn)
{
    return !conn->step && !conn->has_turn && !conn->is_full && !conn->is_ended && !conn->wants;
}

void mu_ts_read_or_not(struct mu_ts_conn *conn)
{
    read_or_not(conn, is_read(conn));
}

static void on_conn_closed(uv_handle_t *handle)
{
    struct mu_ts_conn *conn = (struct mu_ts_conn *)handle;
    struct mu_tcpstore *store = conn->store;

    free(conn);
    store->released(store);
}

struct mu_ts_conn *mu_ts_conn_new(struct mu_tcpstore *store, int fd, const struct sockaddr *peer)
{
    struct mu_ts_conn *conn = calloc(1, sizeof *conn);

    if (!conn)
        return NULL;
    conn->store = store;
    mu_link_print(peer, conn->name, sizeof conn->name);
    conn->line = mu_coord_line(store->options.coord, 0, conn->name);
    if (!conn->line) {
        free(conn);
        return NULL;
    }
    mu_coord_line_may(conn->line, ASKS_MAX, BYTES_MAX);
    uv_tcp_init(store->options.loop, &conn->tcp);
    store->open++;
    if (uv_tcp_open(&conn->tcp, fd)) {
        uv_close((uv_handle_t *)&conn->tcp, on_conn_closed);
        mu_coord_hang_up(conn->line, "it cannot be read");
        return NULL;
    }
    conn->fd = fd;
    uv_unref((uv_handle_t *)&conn->tcp);
    store->stats.connections++;
    store->stats.accepted++;
    MU_LIST_PUSH(store->conns, conn);
    read_or_not(conn, true);
    return conn;
}

static void drop_own(struct mu_ts_conn *conn)
{
    if (conn->own)
        mu_ts_unhold(conn, conn->room);
    free(conn->own);
    conn->own = NULL;
    conn->room = 0;
}

static void leave_lists(struct mu_ts_conn *conn)
{
    struct mu_tcpstore *store = conn->store;

    MU_LIST_DROP(store->conns, conn);
    if (conn->is_dirty)
        MU_CHAIN_DROP(store->dirty, conn, next_dirty);
    if (conn->has_turn)
        MU_LINE_DROP(store->first_turn, store->last_turn, conn, next_turn);
}

void mu_ts_drop_waits(struct mu_ts_conn *conn)
{
    while (conn->waits)
        conn->waits->drop(conn->waits);
}

void mu_ts_close(struct mu_ts_conn *conn)
{
    if (conn->is_closed)
        return;
    conn->is_closed = true;
    leave_lists(conn);
    conn->store->stats.connections--;
    mu_coord_drop(conn->store->options.coord, &conn->request);
    mu_ts_drop_waits(conn);
    mu_coord_hang_up(conn->line, "it is closed");
    mu_ts_room_leave(conn);
    free(conn->kept);
    conn->kept = NULL;
    mu_ts_out_drop(conn);
    drop_own(conn);
    uv_close((uv_handle_t *)&conn->tcp, on_conn_closed); /* the socket, too: the peer need not wait for our loop */
    conn->fd = -1;
}

/* Of a request of this kind nothing is left but its answer. */
static bool only_reads(enum mu_ts_op op)
{
    switch (op) {
    case MU_TS_GET:
    case MU_TS_MULTI_GET:
    case MU_TS_CHECK:
    case MU_TS_WAIT:
    case MU_TS_NUM_KEYS:
    case MU_TS_LIST_KEYS:
    case MU_TS_PING:
    case MU_TS_QUEUE_LEN: return true;
    default: return false;
    }
}

void mu_ts_lost(struct mu_ts_conn *conn)
{
    if (!conn->step || only_reads(conn->scan.op)) {
        mu_ts_close(conn);
        return;
    }
    conn->is_ended = conn->is_lost = true;
    conn->is_full = false; /* it may have stood still for its answers */
    mu_ts_out_drop(conn);
    read_or_not(conn, false);
    mu_ts_turn(conn);
}

void mu_ts_dismiss(struct mu_ts_conn *conn, const char *format, ...)
{
    char why[300];
    va_list list;

    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    mu_ts_say(conn->store, "TCPStore: %s is sent away: %s", conn->name, why);
    mu_ts_close(conn);
}

void mu_ts_want(struct mu_ts_conn *conn, size_t bytes)
{
    if (!mu_ts_room_wait(conn, bytes))
        mu_ts_dismiss(conn, "it wants %zu bytes more: no more than %zu MiB are held for one client (--client-memory)",
                      bytes, mu_ts_room_for_one(conn->store) >> 20);
}

/* ---- in ---------------------------------------------------------------------------------------------------------- */

/* Much of a request has come, and more of it is to: it has memory of its own. */
static bool is_long(const struct mu_ts_conn *conn)
{
    return conn->own && conn->len >= MU_TS_BUFFER / 2 && conn->scan.need > MU_TS_BUFFER / 2;
}

/* Its memory, which counts already. False: there is none, and the connection is closed. */
static bool enlarge_own(struct mu_ts_conn *conn, size_t more)
{
    uint8_t *larger = realloc(conn->own, conn->room + more);

    if (!larger) {
        mu_ts_unhold(conn, more);
        mu_ts_dismiss(conn, "no memory for its request");
        return false;
    }
    conn->own = conn->bytes = larger;
    conn->room += more;
    return true;
}

/* Room for more of a long request, all of it if much of it has come: here, for on_room() may close nothing, and has to
 * find some. Where there is none the connection waits. False: it is closed. */
static bool grow_own(struct mu_ts_conn *conn)
{
    size_t room = GROWTH * conn->len;

    if (!is_long(conn) || !is_read(conn))
        return true;
    if (room > conn->scan.need || conn->store->favoured == conn)
        room = conn->scan.need;
    if (conn->at > 0)
        memmove(conn->own, conn->own + conn->at, conn->len);
    conn->at = 0;
    conn->bytes = conn->own;
    if (conn->len < conn->room)
        return true;
    if (mu_ts_hold(conn, room - conn->room))
        return enlarge_own(conn, room - conn->room);
    mu_ts_want(conn, conn->scan.need - conn->room);
    return !conn->is_closed;
}

void mu_ts_roomy(struct mu_ts_conn *conn, size_t more)
{
    if (enlarge_own(conn, more))
        mu_ts_read_or_not(conn);
}

/* What is left when the turn is over. False: the connection is closed. */
static bool keep_rest(struct mu_ts_conn *conn)
{
    struct mu_tcpstore *store = conn->store;

    if (conn->len == 0) {
        drop_own(conn);
        conn->at = 0;
        return true;
    }
    if (conn->bytes != store->in)
        return grow_own(conn);
    conn->own = mu_ts_hold_rest(conn, conn->len) ? malloc(conn->len) : NULL;
    if (!conn->own) {
        mu_ts_dismiss(conn, "no memory for its request");
        return false;
    }
    conn->room = conn->len;
    memcpy(conn->own, store->in + conn->at, conn->len);
    conn->bytes = conn->own;
    conn->at = 0;
    return grow_own(conn);
}

/* Where the next bytes go to: behind what there is of the request. */
static void prepare_in(struct mu_ts_conn *conn, uint8_t **ret_to, size_t *ret_room)
{
    struct mu_tcpstore *store = conn->store;

    if (is_long(conn)) { /* grow_own() has made room */
        *ret_to = conn->own + conn->at + conn->len;
        *ret_room = conn->room - conn->at - conn->len;
        return;
    }
    if (conn->own)
        memcpy(store->in, conn->own + conn->at, conn->len);
    drop_own(conn);
    conn->bytes = store->in;
    conn->at = 0;
    *ret_to = store->in + conn->len;
    *ret_room = sizeof store->in - conn->len;
}

void mu_ts_go_on(struct mu_ts_conn *conn)
{
    if (conn->is_closed)
        return;
    conn->store->run(conn);
    if (!conn->is_closed && keep_rest(conn))
        mu_ts_flush(conn);
}

/* One piece in a round of the loop: after a piece that fills its room libuv asks for more of it at once. */
static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_room)
{
    struct mu_ts_conn *conn = (struct mu_ts_conn *)handle;
    uint8_t *to;
    size_t room;

    (void)suggested;
    *ret_room = uv_buf_init(NULL, 0);
    if (conn->has_filled || !is_read(conn))
        return;
    prepare_in(conn, &to, &room);
    *ret_room = uv_buf_init((char *)to, (unsigned)room);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *room)
{
    struct mu_ts_conn *conn = (struct mu_ts_conn *)stream;

    if (n == UV_ENOBUFS || conn->is_closed) {
        conn->has_filled = false;
        return;
    }
    if (n < 0 && n != UV_EOF) {
        mu_ts_lost(conn);
        return;
    }
    conn->has_filled = n > 0 && (size_t)n == room->len;
    if (n == UV_EOF) {
        conn->is_ended = true; /* what it has asked for it may still read */
    } else if (n > 0) {
        conn->len += (size_t)n;
        mu_ts_room_moved(conn);
        conn->store->stats.bytes_in += (uint64_t)n;
        if (conn->waits && conn->scan.dialect == MU_TS_A)
            mu_ts_drop_waits(conn); /* it asks one thing at a time: it has given up waiting */
    }
    mu_ts_go_on(conn);
}
