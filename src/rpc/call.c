/*
 * rpc/call.c: a call, from its headers to the end of its stream.
 *
 * ARRIVING -> READY -> BEGUN -> ANSWERED; a call may be answered from each. The method that answers does not see the
 * call again, but it stays until HTTP/2 has sent the answer and closed the stream, or the connection is gone. Calls are
 * kept for the next ones. Nothing here writes: what is to be said is left with nghttp2, and the connection is marked.
 */
#include "rpc/private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "rpc/wire.h"

#define SPARE_MAX 1024u
/* Trailers stay below 8 KiB in all: what clients of gRPC take. HPACK counts 32 bytes beside each name and value. */
#define TRAILERS_MAX 7600u
#define DETAILS_MAX  4096u
#define TEXT_LEAST   1024u
/* An open call's memory beside its messages: here, in nghttp2, and in the method that will answer it. */
#define CALL_BYTES (sizeof(struct mu_rpc_call) + 1536u)
/* Of an answer beside its bytes: a stream has any number of the same. */
#define PIECE_BYTES  (sizeof(struct mu_rpc_piece) + 16u)
#define PREFIX       5u
#define SHARED_LEAST 4096u /* bytes of an answer: of less a copy costs less than to look */

struct mu_rpc_call *mu_rpc_call_new(struct mu_rpc_conn *conn, int32_t id)
{
    struct mu_rpc *rpc = conn->rpc;
    struct mu_rpc_call *call = rpc->spare;

    if (!mu_conn_hold(conn, CALL_BYTES))
        return NULL;
    if (call) {
        rpc->spare = call->next;
        rpc->num_spare--;
    } else if (!(call = malloc(sizeof *call))) {
        mu_conn_unhold(conn, CALL_BYTES);
        return NULL;
    }
    memset(call, 0, offsetof(struct mu_rpc_call, small));
    call->conn = conn;
    call->id = id;
    call->body = call->small;
    call->room = sizeof call->small;
    call->timeout_ns = UINT64_MAX;
    MU_LIST_PUSH(conn->calls, call);
    conn->count++;
    return call;
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

/* Out of the one that it is in, if it is in one. */
static void call_unqueue(struct mu_rpc_call *call)
{
    struct mu_rpc_conn *conn = call->conn;

    if (call->prior)
        call->prior->after = call->after;
    else if (conn->arriving == call)
        conn->arriving = call->after;
    else if (conn->ready == call)
        conn->ready = call->after;
    else if (conn->longs == call)
        conn->longs = call->after;
    if (call->after)
        call->after->prior = call->prior;
    else if (conn->arriving_last == call)
        conn->arriving_last = call->prior;
    else if (conn->ready_last == call)
        conn->ready_last = call->prior;
    else if (conn->longs_last == call)
        conn->longs_last = call->prior;
    call->prior = call->after = NULL;
}

static void call_queue(struct mu_rpc_call *call, struct mu_rpc_call **first, struct mu_rpc_call **last)
{
    call_unqueue(call);
    call->prior = *last;
    if (call->prior)
        call->prior->after = call;
    else
        *first = call;
    *last = call;
}

void mu_rpc_call_arrives(struct mu_rpc_call *call)
{
    /* more may come of a stream of requests: a client that leaves it open and says nothing more is closed, too */
    if (call->phase != MU_CALL_ARRIVING && !(call->phase == MU_CALL_BEGUN && call->method->last))
        return;
    call->moved_ms = mu_rpc_now(call->conn->rpc);
    if (call->conn->arriving_last != call)
        call_queue(call, &call->conn->arriving, &call->conn->arriving_last);
}

void mu_rpc_call_ready(struct mu_rpc_call *call)
{
    struct mu_rpc_conn *conn = call->conn;

    call->phase = MU_CALL_READY;
    if (call->method->is_long)
        call_queue(call, &conn->longs, &conn->longs_last);
    else
        call_queue(call, &conn->ready, &conn->ready_last);
}

void mu_rpc_call_dispatch(struct mu_rpc_conn *conn)
{
    struct mu_rpc_call *call;

    while ((call = conn->ready) != NULL) {
        call_unqueue(call);
        mu_rpc_message_begin(call);
    }
    if (conn->longs && mu_conn_takes(conn))
        mu_rpc_turn(conn, MU_TURN_LONG);
}

void mu_rpc_call_begin_long(struct mu_rpc_conn *conn)
{
    struct mu_rpc_call *call = conn->longs;

    if (!call || conn->is_leaving || !mu_conn_takes(conn))
        return;
    call_unqueue(call);
    mu_rpc_message_begin(call);
    mu_conn_dirty(conn);
    if (conn->longs && mu_conn_takes(conn))
        mu_rpc_turn(conn, MU_TURN_LONG);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void mu_rpc_call_drop_piece(struct mu_rpc_call *call)
{
    struct mu_rpc_piece *piece = call->first;

    call->first = piece->next;
    if (!call->first)
        call->last = NULL;
    call->conn->pieces -= piece->bytes.len;
    call->conn->held -= piece->held; /* for all it is held while anybody has it */
    mu_blob_drop(piece->bytes.blob);
    mu_conn_unhold(call->conn, PIECE_BYTES);
    free(piece);
}

static void tell_ended(struct mu_rpc_call *call)
{
    void (*ended)(void *arg) = call->ended;

    call->ended = NULL;
    if (ended && call->phase == MU_CALL_BEGUN)
        ended(call->ended_arg);
}

void mu_rpc_call_end(struct mu_rpc_call *call)
{
    struct mu_rpc_conn *conn = call->conn;
    struct mu_rpc *rpc = conn->rpc;

    tell_ended(call);
    call_unqueue(call);
    mu_deadline_remove(call);
    while (call->first)
        mu_rpc_call_drop_piece(call);
    mu_rpc_message_drop(call);
    free(call->trailers);
    mu_conn_unhold(conn, CALL_BYTES + call->text_len + call->details_len);
    MU_LIST_DROP(conn->calls, call);
    conn->count--;
    if (rpc->num_spare >= SPARE_MAX) {
        free(call);
        return;
    }
    call->next = rpc->spare;
    rpc->spare = call;
    rpc->num_spare++;
}

void mu_rpc_call_free_all(struct mu_rpc *rpc)
{
    for (struct mu_rpc_call *call; (call = rpc->spare) != NULL;) {
        rpc->spare = call->next;
        free(call);
    }
    free(rpc->deadlines);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* HTTP/2 has something new of it to send. */
static void call_respond(struct mu_rpc_call *call)
{
    int said = 0;

    if (!call->is_responding) {
        call->is_responding = true;
        said = mu_session_respond(call, call->first != NULL);
    } else if (call->is_asleep) {
        call->is_asleep = false;
        said = nghttp2_session_resume_data(call->conn->session, call->id);
    }
    if (nghttp2_is_fatal(said))
        mu_conn_dismiss(call->conn, NGHTTP2_INTERNAL_ERROR, "no memory for an answer");
    mu_conn_dirty(call->conn);
}

static void on_response_answered(struct mu_rpc_call *call)
{
    call->phase = MU_CALL_ANSWERED;
    call->ended = NULL;
    call_unqueue(call);
    mu_deadline_remove(call);
    mu_rpc_message_drop(call);
    call_respond(call);
}

/* Text and details as they are sent. Without memory for them the number has to do. */
static void make_trailers(struct mu_rpc_call *call, const char *text, const void *details, size_t len)
{
    size_t encoded = MU_WIRE_BASE64(len), room;

    if (encoded > DETAILS_MAX || !details) /* nobody could take them */
        encoded = len = 0;
    room = TRAILERS_MAX - encoded;
    call->trailers = malloc(room + encoded);
    if (!call->trailers)
        return;
    call->text_len = mu_wire_text(text, call->trailers, room);
    if (len > 0)
        call->details_len = mu_wire_base64(details, len, call->trailers + call->text_len);
    /* Counted, whatever the bound: it is what says that something was too much. New calls are refused then. */
    call->conn->held += call->text_len + call->details_len;
    call->conn->rpc->account->held += call->text_len + call->details_len;
    text = realloc(call->trailers, call->text_len + call->details_len + 1);
    if (text)
        call->trailers = (char *)text;
}
_Static_assert(DETAILS_MAX + TEXT_LEAST < TRAILERS_MAX, "details leave room for a text");

void mu_rpc_refuse(struct mu_rpc_call *call, enum muster_status status, const char *text, const void *details,
                   size_t len)
{
    call->status = status == MUSTER_OK ? MUSTER_INTERNAL : (uint8_t)status;
    make_trailers(call, text ? text : "", details, len);
    on_response_answered(call);
}

void mu_rpc_call_refuse(struct mu_rpc_call *call, enum muster_status status, const char *format, ...)
{
    char text[400];
    va_list list;

    if (call->phase == MU_CALL_ANSWERED)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    mu_rpc_refuse(call, status, text, NULL, 0);
}

void mu_rpc_call_abort(struct mu_rpc_call *call, enum muster_status status, const char *text)
{
    if (call->phase == MU_CALL_ANSWERED)
        return;
    tell_ended(call);
    mu_rpc_refuse(call, status, text, NULL, 0);
}

static void put_prefix(uint8_t *to, size_t len)
{
    to[0] = 0;
    to[1] = (uint8_t)(len >> 24);
    to[2] = (uint8_t)(len >> 16);
    to[3] = (uint8_t)(len >> 8);
    to[4] = (uint8_t)len;
}

/* The one that was answered last, if it is the same: what thousands wait for is there once. */
static struct mu_blob *same_body(const struct mu_rpc *rpc, const void *message, size_t len)
{
    struct mu_blob *body = rpc->last_body;

    return body && body->len == len + PREFIX && memcmp(body->bytes + PREFIX, message, len) == 0 ? mu_blob_hold(body)
                                                                                                : NULL;
}

/* A prefix for a message of so many bytes, and what is copied of it. */
static struct mu_blob *new_body(struct mu_rpc_conn *conn, const void *message, size_t len, size_t whole)
{
    struct mu_blob *body;

    if (whole > UINT32_MAX || !mu_conn_hold(conn, len + PREFIX))
        return NULL;
    body = mu_blob_new(len + PREFIX);
    if (!body) {
        mu_conn_unhold(conn, len + PREFIX);
        return NULL;
    }
    body->account = conn->rpc->account; /* it is counted there already */
    put_prefix(body->bytes, whole);
    if (len > 0)
        memcpy(body->bytes + PREFIX, message, len);
    return body;
}

/* The bytes are the piece's, or, where there is no room for it, gone. */
static bool add_piece(struct mu_rpc_call *call, const struct mu_slice *bytes, size_t held)
{
    struct mu_rpc_conn *conn = call->conn;
    struct mu_rpc_piece *piece = malloc(sizeof *piece);

    if (!piece || !mu_conn_hold(conn, PIECE_BYTES)) {
        free(piece);
        conn->held -= held;
        mu_blob_drop(bytes->blob);
        return false;
    }
    *piece = (struct mu_rpc_piece){.bytes = *bytes, .held = held};
    if (conn->pieces == 0)
        conn->taken_ms = mu_rpc_now(conn->rpc);
    conn->pieces += bytes->len;
    if (call->last)
        call->last->next = piece;
    else
        call->first = piece;
    call->last = piece;
    return true;
}

static bool add_message(struct mu_rpc_call *call, const void *message, size_t len)
{
    struct mu_rpc *rpc = call->conn->rpc;
    struct mu_slice bytes = {same_body(rpc, message, len), 0, len + PREFIX};
    size_t held = bytes.blob ? 0 : bytes.len;

    if (!bytes.blob)
        bytes.blob = new_body(call->conn, message, len, len);
    if (bytes.blob && held && len >= SHARED_LEAST)
        mu_blob_sit(bytes.blob, &rpc->last_body);
    return bytes.blob && add_piece(call, &bytes, held);
}

static bool add_with(struct mu_rpc_call *call, const void *head, size_t len, const struct mu_slice *tail)
{
    struct mu_slice first = {new_body(call->conn, head, len, len + tail->len), 0, len + PREFIX};

    if (!first.blob || !add_piece(call, &first, first.len))
        return false;
    mu_blob_hold(tail->blob);
    if (add_piece(call, tail, 0))
        return true;
    mu_rpc_call_drop_piece(call);
    return false;
}

static void refuse_answer(struct mu_rpc_call *call, size_t len)
{
    mu_rpc_call_refuse(
        call, MUSTER_RESOURCE_EXHAUSTED,
        "no room for an answer of %zu bytes: %zu are held for this client, and %zu for all, that have not "
        "been taken",
        len, call->conn->held, call->conn->rpc->account->held);
}

/* False: it has been refused instead. */
static bool message_add(struct mu_rpc_call *call, const void *message, size_t len)
{
    bool is_there = add_message(call, message, len);

    if (!is_there)
        refuse_answer(call, len);
    return is_there;
}

void mu_rpc_answer_with(struct mu_rpc_call *call, const void *head, size_t len, const struct mu_slice *tail)
{
    if (add_with(call, head, len, tail))
        on_response_answered(call);
    else
        refuse_answer(call, len + tail->len);
}

void mu_rpc_answer(struct mu_rpc_call *call, const void *message, size_t len)
{
    if (message_add(call, message, len))
        on_response_answered(call);
}

bool mu_rpc_send(struct mu_rpc_call *call, const void *message, size_t len)
{
    if (!message_add(call, message, len))
        return false;
    call_respond(call);
    return true;
}

void mu_rpc_finish(struct mu_rpc_call *call)
{
    on_response_answered(call);
}

/* ---- what the methods ask ---------------------------------------------------------------------------------------- */

void mu_rpc_wait(struct mu_rpc_call *call, void (*ended)(void *arg), void *arg)
{
    call->ended = ended;
    call->ended_arg = arg;
}

void *mu_rpc_arg(const struct mu_rpc_call *call)
{
    return call->conn->rpc->options.arg;
}

const struct mu_rpc_method *mu_rpc_method_of(const struct mu_rpc_call *call)
{
    return call->method;
}

struct mu_rpc_conn *mu_rpc_conn_of(const struct mu_rpc_call *call)
{
    return call->conn;
}
