/*
 * compat/tcpstore_conn.c: a connection: its socket, its bytes, and its end.
 *
 * A connection that says nothing has no buffers. What comes is read into the server's, carried out from there, and
 * only what is left of a request that is not whole is copied. A long request is read into memory of its own, which
 * grows with what has come, not with what was announced. Answers are gathered in the server's other buffer, which
 * a connection keeps only while it is in its turn; what the socket does not take is copied. Whoever does not take its
 * answers is not read, nor served any more.
 */
#include "compat/tcpstore_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void on_closed(uv_handle_t *handle)
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
        uv_close((uv_handle_t *)&conn->tcp, on_closed);
        mu_coord_hang_up(conn->line, "it cannot be read");
        return NULL;
    }
    conn->fd = fd;
    uv_unref((uv_handle_t *)&conn->tcp);
    store->stats.connections++;
    store->stats.accepted++;
    conn->next = store->conns;
    if (conn->next)
        conn->next->before = conn;
    store->conns = conn;
    read_or_not(conn, true);
    return conn;
}

static void drop_out(struct mu_ts_conn *conn)
{
    if (conn->has_spare && !conn->store->spare)
        conn->store->spare = conn->out;
    else if (conn->has_spare)
        free(conn->out);
    else if (conn->out && conn->out != conn->few) {
        mu_ts_unhold(conn, conn->out_room);
        free(conn->out);
    }
    conn->has_spare = false;
    conn->out = NULL;
    conn->out_at = conn->out_len = conn->out_room = 0;
}

static void let_go(struct mu_ts_conn *conn, struct mu_blob *blob)
{
    conn->store->held -= blob ? blob->len : 0;
    mu_blob_drop(blob);
}

static void drop_value(struct mu_ts_conn *conn)
{
    let_go(conn, conn->value.blob);
    conn->value = (struct mu_slice){NULL, 0, 0};
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

    *(conn->before ? &conn->before->next : &store->conns) = conn->next;
    if (conn->next)
        conn->next->before = conn->before;
    for (struct mu_ts_conn **at = &store->dirty; conn->is_dirty && *at; at = &(*at)->next_dirty)
        if (*at == conn) {
            *at = conn->next_dirty;
            break;
        }
    for (struct mu_ts_conn **at = &store->first_turn; conn->has_turn && *at; at = &(*at)->next_turn)
        if (*at == conn) {
            *at = conn->next_turn;
            if (store->last_turn == &conn->next_turn)
                store->last_turn = at;
            break;
        }
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
    mu_coord_drop(conn->store->options.coord, &conn->ask);
    mu_ts_drop_waits(conn);
    mu_coord_hang_up(conn->line, "it is closed");
    mu_ts_room_leave(conn);
    free(conn->kept);
    conn->kept = NULL;
    drop_out(conn);
    drop_value(conn);
    drop_own(conn);
    uv_close((uv_handle_t *)&conn->tcp, on_closed); /* the socket, too: the peer need not wait for our loop */
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
    drop_out(conn);
    drop_value(conn);
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

/* ---- out --------------------------------------------------------------------------------------------------------- */

static ssize_t send_some(const struct mu_ts_conn *conn)
{
    struct iovec parts[2] = {{conn->out + conn->out_at, conn->out_len},
                             {(uint8_t *)(uintptr_t)mu_slice_bytes(&conn->value), conn->value.len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    if (conn->out_len == 0)
        parts[0] = parts[1];
    if (conn->out_len == 0 || conn->value.len == 0)
        message.msg_iovlen = 1;
    return sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Behind what is under way. False: the connection is closed, or lost. */
static bool push(struct mu_ts_conn *conn)
{
    while (conn->out_len + conn->value.len > 0 && !conn->going) {
        ssize_t n = send_some(conn);
        size_t first;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            mu_ts_lost(conn);
        if (n < 0)
            return !conn->is_closed && !conn->is_lost;
        first = (size_t)n < conn->out_len ? (size_t)n : conn->out_len;
        conn->out_at += first;
        conn->out_len -= first;
        conn->value.at += (size_t)n - first;
        conn->value.len -= (size_t)n - first;
        conn->store->stats.bytes_out += (uint64_t)n;
    }
    if (conn->out_len == 0)
        conn->out_at = 0;
    if (conn->value.len == 0)
        drop_value(conn);
    return true;
}

/* Memory of its own for so many bytes of answers; what there is goes there. */
static bool grow_out(struct mu_ts_conn *conn, size_t room)
{
    size_t at = conn->out_at, len = conn->out_len;
    uint8_t *larger = mu_ts_hold(conn, room) ? malloc(room) : NULL;

    if (!larger) {
        mu_ts_dismiss(conn, "no memory for what it has asked for");
        return false;
    }
    if (len)
        memcpy(larger, conn->out + at, len);
    drop_out(conn);
    conn->out = larger;
    conn->out_room = room;
    conn->out_len = len;
    return true;
}

static void begin_out(struct mu_ts_conn *conn)
{
    struct mu_tcpstore *store = conn->store;

    if (conn->is_running && !store->spare)
        store->spare = malloc(MU_TS_BUFFER);
    if (conn->is_running && store->spare) {
        conn->out = store->spare;
        conn->out_room = MU_TS_BUFFER;
        conn->has_spare = true;
        store->spare = NULL;
    } else {
        conn->out = conn->few;
        conn->out_room = sizeof conn->few;
    }
}

/* Something is answered behind a value that has not gone: a wait has ended. */
static bool copy_value(struct mu_ts_conn *conn)
{
    struct mu_slice value = conn->value;

    if (!grow_out(conn, conn->out_len + value.len))
        return false;
    if (value.len)
        memcpy(conn->out + conn->out_len, mu_slice_bytes(&value), value.len);
    conn->out_len += value.len;
    drop_value(conn);
    return true;
}

void mu_ts_out_value(struct mu_ts_conn *conn, const struct mu_slice *value)
{
    uint8_t *to = mu_ts_out(conn, 8);

    if (!to)
        return;
    mu_ts_put_u64(to, value->len);
    conn->value = *value;
    mu_blob_hold(value->blob);
    conn->store->held += value->blob->len;
    mu_ts_cost(conn, value->len);
}

uint8_t *mu_ts_out(struct mu_ts_conn *conn, size_t len)
{
    uint8_t *to;

    if (conn->is_closed || conn->is_lost)
        return NULL;
    if (conn->value.blob && !copy_value(conn))
        return NULL;
    if (!conn->out)
        begin_out(conn);
    if (len > conn->out_room - conn->out_at - conn->out_len && conn->has_spare && !push(conn))
        return NULL;
    if (len > conn->out_room - conn->out_at - conn->out_len && !grow_out(conn, 2 * conn->out_len + len))
        return NULL;
    to = conn->out + conn->out_at + conn->out_len;
    conn->out_len += len;
    return to;
}

static void drop_going(struct mu_ts_conn *conn)
{
    mu_ts_unhold(conn, conn->going_room);
    free(conn->going);
    let_go(conn, conn->going_value);
    conn->going = NULL;
    conn->going_value = NULL;
}

static void on_written(uv_write_t *write, int status)
{
    struct mu_ts_conn *conn = (struct mu_ts_conn *)write->handle;

    drop_going(conn);
    if (status)
        mu_ts_lost(conn);
    else
        mu_ts_flush(conn);
}

/* What the socket did not take goes when it does; what is answered meanwhile waits behind it. */
static void leave_to_loop(struct mu_ts_conn *conn)
{
    uv_buf_t rest[2];

    if ((!conn->out || conn->has_spare || conn->out == conn->few) && !grow_out(conn, conn->out_len + 1))
        return;
    if (conn->going || conn->out_len + conn->value.len == 0)
        return;
    rest[0] = uv_buf_init((char *)conn->out + conn->out_at, (unsigned)conn->out_len);
    rest[1] = uv_buf_init((char *)(uintptr_t)mu_slice_bytes(&conn->value), (unsigned)conn->value.len);
    conn->going = conn->out;
    conn->going_room = conn->out_room;
    conn->going_value = conn->value.blob;
    conn->store->stats.bytes_out += conn->out_len + conn->value.len;
    conn->out = NULL;
    conn->out_at = conn->out_len = conn->out_room = 0;
    conn->value = (struct mu_slice){NULL, 0, 0};
    if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, rest, 2, on_written)) {
        drop_going(conn);
        mu_ts_lost(conn);
    }
}

static bool is_read(const struct mu_ts_conn *conn)
{
    return !conn->step && !conn->has_turn && !conn->is_full && !conn->is_ended && !conn->wants;
}

void mu_ts_flush(struct mu_ts_conn *conn)
{
    if (conn->is_closed || !push(conn))
        return;
    if (conn->out_len + conn->value.len == 0)
        drop_out(conn);
    else
        leave_to_loop(conn);
    if (conn->is_closed)
        return;
    if (conn->is_ended && !conn->step && !conn->has_turn && conn->out_len + conn->value.len == 0 && !conn->going) {
        mu_ts_close(conn);
        return;
    }
    if (conn->is_full && !conn->going && !conn->value.blob) {
        conn->is_full = false;
        mu_ts_turn(conn);
    }
    read_or_not(conn, is_read(conn));
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
        read_or_not(conn, is_read(conn));
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
