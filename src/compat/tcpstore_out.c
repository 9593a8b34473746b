/*
 * compat/tcpstore_out.c: a connection's answers, until its socket has them.
 *
 * Answers are gathered in the server's buffer, which a connection keeps only while it is in its turn; what the socket
 * does not take is copied. A long value goes from where it lies.
 */
#include "compat/tcpstore_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

static void blob_let_go(struct mu_ts_conn *conn, struct mu_blob *blob)
{
    conn->store->held -= blob ? blob->len : 0;
    mu_blob_drop(blob);
}

static void drop_value(struct mu_ts_conn *conn)
{
    blob_let_go(conn, conn->value.blob);
    conn->value = (struct mu_slice){NULL, 0, 0};
}

void mu_ts_out_drop(struct mu_ts_conn *conn)
{
    drop_out(conn);
    drop_value(conn);
}

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
static bool output_push(struct mu_ts_conn *conn)
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
    if (len > conn->out_room - conn->out_at - conn->out_len && conn->has_spare && !output_push(conn))
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
    blob_let_go(conn, conn->going_value);
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

void mu_ts_flush(struct mu_ts_conn *conn)
{
    if (conn->is_closed || !output_push(conn))
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
    mu_ts_read_or_not(conn);
}
