/*
 * rpc/session.c: what HTTP/2 says, heard from nghttp2, and the headers of requests and answers.
 *
 * nghttp2 keeps the protocol: states of streams, flow control, HPACK. Here its events become calls. What a request's
 * headers lack is remembered, and said when they are complete. Flow control is left to open: what comes is held for its
 * connection up to a bound, and a call that goes beyond is refused; held back it could never end.
 */
#include "rpc/private.h"

#include <string.h>

#include "rpc/wire.h"

#define WINDOW      (4 << 20)  /* of a stream, in bytes */
#define CONN_WINDOW (16 << 20) /* of a connection */
/* Streams that a client resets, or that are no requests: in one go all that it may have open, and then so many a second
 * (it may poll with short deadlines). Frames that ask for nothing (PING, SETTINGS, PRIORITY, empty DATA) likewise. */
#define RESETS_MS 1u /* one more each */
#define IDLE_MAX  20000u

static bool header_is(const uint8_t *bytes, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(bytes, word, len) == 0;
}

/* ---- headers of a request ---------------------------------------------------------------------------------------- */

/* No call comes of it: gRPC's clients may make it again. */
static void stream_refuse(struct mu_rpc_conn *conn, int32_t id)
{
    if (!conn->is_leaving)
        mu_rpc_say(conn->rpc, "gRPC: a call of %s is refused: too much is held for it, or for all", conn->name);
    nghttp2_submit_rst_stream(conn->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct mu_rpc_conn *conn = user;
    struct mu_rpc_call *call;

    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        call = conn->is_leaving ? NULL : mu_rpc_call_new(conn, frame->hd.stream_id);
        if (!call)
            stream_refuse(conn, frame->hd.stream_id);
        else
            nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call); /* the stream is there */
    }
    conn->headers_ms = mu_rpc_now(conn->rpc);
    conn->headers = 0;
    return 0;
}

/* One more of a block of headers, whatever becomes of it: a byte that names an entry of HPACK's table is as long as
 * that. Past the bound, which we have announced, nothing more of the connection is looked at. */
static int count_header(struct mu_rpc_conn *conn, size_t name_len, size_t len)
{
    conn->headers += (uint32_t)(name_len + len + 32);
    if (conn->headers <= MU_RPC_HEADERS)
        return 0;
    mu_conn_dismiss(conn, NGHTTP2_ENHANCE_YOUR_CALM, "the headers of a call have more than %u bytes", MU_RPC_HEADERS);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static void take_header(struct mu_rpc_call *call, const uint8_t *name, size_t name_len, const uint8_t *value,
                        size_t len)
{
    static const char grpc[] = "application/grpc";

    if (header_is(name, name_len, ":path")) {
        call->method = mu_rpc_find(call->conn->rpc, (const char *)value, len);
    } else if (header_is(name, name_len, ":method")) {
        call->is_post = header_is(value, len, "POST");
    } else if (header_is(name, name_len, "content-type")) {
        call->is_grpc = len >= strlen(grpc) && memcmp(value, grpc, strlen(grpc)) == 0 &&
                        (len == strlen(grpc) || value[strlen(grpc)] == '+' || value[strlen(grpc)] == ';');
    } else if (header_is(name, name_len, "grpc-timeout")) {
        call->is_late = !mu_wire_timeout((const char *)value, len, &call->timeout_ns);
    } else if (header_is(name, name_len, "grpc-encoding")) {
        call->encoding = header_is(value, len, "gzip")       ? MU_ENCODING_GZIP
                         : header_is(value, len, "identity") ? MU_ENCODING_IDENTITY
                         : header_is(value, len, "deflate")  ? MU_ENCODING_DEFLATE
                                                             : MU_ENCODING_OTHER;
    }
}

static int on_request_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                             const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    struct mu_rpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags;
    if (count_header(user, name_len, value_len))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (call && !call->has_headers)
        take_header(call, name, name_len, value, value_len);
    return 0;
}

/* It means nothing in HTTP, and is left out. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                             const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
    (void)session;
    (void)frame;
    (void)name;
    (void)value;
    (void)flags;
    return count_header(user, name_len, value_len);
}

/* All headers are here. */
static void take_request(struct mu_rpc_call *call)
{
    call->has_headers = true;
    if (!call->is_post || !call->is_grpc)
        mu_rpc_call_refuse(call, MUSTER_INVALID_ARGUMENT,
                           "no call of gRPC: it wants POST, and content-type application/grpc");
    else if (!call->method)
        mu_rpc_call_refuse(call, MUSTER_UNIMPLEMENTED, "there is no such method here");
    else if (call->is_late)
        mu_rpc_call_refuse(call, MUSTER_INVALID_ARGUMENT,
                           "its grpc-timeout is none: up to 8 digits, and one of H M S m u n");
    else if (call->timeout_ns != UINT64_MAX && mu_deadline_add(call))
        mu_rpc_call_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory");
    else if (call->conn->rpc->is_stopping)
        mu_rpc_call_refuse(call, MUSTER_UNAVAILABLE, "the server is stopping");
    else
        mu_rpc_call_arrives(call);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static void budget_spend(struct mu_rpc_conn *conn, struct mu_rpc_budget *budget, uint32_t burst, const char *what)
{
    if (!mu_rpc_spend(conn->rpc, budget, burst, RESETS_MS))
        mu_conn_dismiss(conn, NGHTTP2_ENHANCE_YOUR_CALM, "too many %s", what);
}

static void spend_reset(struct mu_rpc_conn *conn)
{
    budget_spend(conn, &conn->resets, 2 * conn->rpc->options.streams_max, "calls that were reset");
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct mu_rpc_conn *conn = user;
    struct mu_rpc_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    bool is_last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        conn->headers_ms = 0;
        if (call && !call->has_headers)
            take_request(call);
        break;
    case NGHTTP2_DATA:
        if (frame->hd.length == 0 && !is_last)
            budget_spend(conn, &conn->idle, IDLE_MAX, "empty frames");
        break;
    case NGHTTP2_RST_STREAM:
        if (!call || call->phase != MU_CALL_ANSWERED)
            spend_reset(conn);
        return 0;
    case NGHTTP2_SETTINGS:
        conn->is_greeted = true;
        budget_spend(conn, &conn->idle, IDLE_MAX, "SETTINGS");
        return 0;
    case NGHTTP2_PING:
    case NGHTTP2_PRIORITY: budget_spend(conn, &conn->idle, IDLE_MAX, "frames that ask for nothing"); return 0;
    default: return 0;
    }
    if (call && is_last && !call->is_half_closed) {
        call->is_half_closed = true;
        mu_rpc_message_last(call);
    }
    return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
    struct mu_rpc_conn *conn = user;

    (void)session;
    (void)error;
    if (frame->hd.type == NGHTTP2_HEADERS) /* which are not heard of any more: on_frame() is not called for them */
        conn->headers_ms = 0;
    spend_reset(conn);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len, void *user)
{
    struct mu_rpc_call *call = nghttp2_session_get_stream_user_data(session, id);

    (void)flags;
    (void)user;
    if (call && len > 0 && call->phase != MU_CALL_ANSWERED) {
        mu_rpc_call_arrives(call);
        mu_rpc_message_take(call, bytes, len);
    }
    return 0;
}

static int on_request_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct mu_rpc_call *call = nghttp2_session_get_stream_user_data(session, id);

    (void)error;
    (void)user;
    if (call)
        mu_rpc_call_end(call);
    return 0;
}

/* An answer before the request's end: the rest of the request is not wanted. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct mu_rpc_call *call;

    (void)user;
    if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (call && !call->is_half_closed)
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

#define FIXED (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)
#define HEADER(name, value)                                                                                            \
    {                                                                                                                  \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1, FIXED                              \
    }

/* grpc-status and, of an error, what belongs to it. They are copied, or as lasting as the call. */
static size_t fill_trailers(const struct mu_rpc_call *call, nghttp2_nv nv[3])
{
    static const char numbers[17][3] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                        "9", "10", "11", "12", "13", "14", "15", "16"};
    const char *number = numbers[call->status <= 16 ? call->status : 2];
    nghttp2_nv status = {(uint8_t *)"grpc-status", (uint8_t *)number, 11, strlen(number), FIXED};
    size_t n = 0;

    nv[n++] = status;
    if (call->text_len > 0)
        nv[n++] = (nghttp2_nv){(uint8_t *)"grpc-message", (uint8_t *)call->trailers, 12, call->text_len,
                               NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_INDEX};
    if (call->details_len > 0)
        nv[n++] = (nghttp2_nv){(uint8_t *)"grpc-status-details-bin", (uint8_t *)call->trailers + call->text_len, 23,
                               call->details_len, NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_INDEX};
    return n;
}

static ssize_t on_response_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t size, uint32_t *flags,
                                nghttp2_data_source *source, void *user)
{
    struct mu_rpc_call *call = source->ptr;
    struct mu_rpc_conn *conn = user;
    struct mu_rpc_piece *piece;
    nghttp2_nv nv[3];
    size_t n = 0;

    while ((piece = call->first) != NULL && n < size) {
        size_t left = piece->bytes.len, part = left < size - n ? left : size - n;

        memcpy(to + n, mu_slice_bytes(&piece->bytes), part);
        n += part;
        piece->bytes.at += part;
        piece->bytes.len -= part;
        conn->pieces -= part;
        if (piece->bytes.len > 0)
            break;
        mu_rpc_call_drop_piece(call);
    }
    conn->taken_ms = n > 0 ? mu_rpc_now(conn->rpc) : conn->taken_ms;
    if (call->first)
        return (ssize_t)n;
    if (call->phase == MU_CALL_ANSWERED) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(session, id, nv, fill_trailers(call, nv)))
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        return (ssize_t)n;
    }
    if (n == 0) {
        call->is_asleep = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)n;
}

int mu_session_respond(struct mu_rpc_call *call, bool with_body)
{
    static const nghttp2_nv first[] = {HEADER(":status", "200"), HEADER("content-type", "application/grpc"),
                                       HEADER("grpc-accept-encoding", "identity,deflate,gzip")};
    static const nghttp2_nv strange = HEADER(":status", "415");
    nghttp2_data_provider provider = {.source.ptr = call, .read_callback = on_response_read};
    nghttp2_nv nv[6];
    size_t n = 3;

    memcpy(nv, first, sizeof first);
    if (call->has_headers && !call->is_grpc)
        nv[0] = strange;
    if (!with_body)
        n += fill_trailers(call, nv + n);
    return nghttp2_submit_response(call->conn->session, call->id, nv, n, with_body ? &provider : NULL);
}

/* ---- a session --------------------------------------------------------------------------------------------------- */

int mu_session_callbacks(nghttp2_session_callbacks **ret_callbacks)
{
    nghttp2_session_callbacks *c;

    if (nghttp2_session_callbacks_new(&c))
        return -1;
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, on_request_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(c, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_invalid_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_request_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_sent);
    *ret_callbacks = c;
    return 0;
}

int mu_session_begin(struct mu_rpc_conn *conn)
{
    const struct mu_rpc *rpc = conn->rpc;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, rpc->options.streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, MU_RPC_HEADERS},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1}, /* a tree that a client could make deep */
    };

    conn->resets.left = 2 * rpc->options.streams_max;
    conn->idle.left = IDLE_MAX;
    conn->resets.filled_ms = conn->idle.filled_ms = mu_rpc_now(rpc);
    if (nghttp2_session_server_new2(&conn->session, rpc->callbacks, conn, rpc->http_options))
        return -1;
    return nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings) ||
           nghttp2_session_set_local_window_size(conn->session, NGHTTP2_FLAG_NONE, 0, CONN_WINDOW);
}

void mu_session_stop(struct mu_rpc_conn *conn)
{
    nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(conn->session),
                          NGHTTP2_NO_ERROR, (const uint8_t *)"the server is stopping", 22);
    mu_conn_dirty(conn);
}
