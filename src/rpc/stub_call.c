/*
 * rpc/stub_call.c: a call of a stub: a stream, from its request to its answer.
 *
 * Answers are put together as their prefix says how long they are: a server that is called is one that is trusted with
 * that much memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "rpc/stub_private.h"
#include "rpc/wire.h"

enum {
    PREFIX = MU_STUB_PREFIX,
    WORDS_MAX = 8192, /* of an error's text */
    WINDOW = 16 << 20,
};

/* ---- calls ------------------------------------------------------------------------------------------------------- */

void mu_stub_call_free(struct mu_stub_call *call)
{
    if (call->stream > 0 && call->stub->session)
        nghttp2_session_set_stream_user_data(call->stub->session, call->stream, NULL);
    MU_LIST_DROP(call->stub->calls, call);
    free(call->message);
    free(call->answer);
    free(call->words);
    free(call);
}

static void stub_call_end(struct mu_stub_call *call, const struct mu_stub_answer *answer)
{
    mu_stub_done *done = call->done;
    void *arg = call->arg;
    uint8_t *bytes = call->answer;
    char *words = call->words;

    call->answer = NULL;
    call->words = NULL;
    mu_stub_call_free(call);
    done(arg, answer);
    free(bytes);
    free(words);
}

void mu_stub_call_fail(struct mu_stub_call *call, enum muster_status status, const char *why)
{
    stub_call_end(call, &(struct mu_stub_answer){.status = status, .text = why, .is_lost = true});
}

/* ---- HTTP/2 ------------------------------------------------------------------------------------------------------ */

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* grpc-message, decoded. */
static void words_take(struct mu_stub_call *call, const uint8_t *value, size_t len)
{
    size_t n = 0;

    len = len < WORDS_MAX ? len : WORDS_MAX;
    free(call->words);
    call->words = malloc(len + 1);
    for (size_t i = 0; call->words && i < len; i++) {
        if (value[i] == '%' && i + 2 < len && hex_digit(value[i + 1]) >= 0 && hex_digit(value[i + 2]) >= 0) {
            call->words[n++] = (char)(hex_digit(value[i + 1]) * 16 + hex_digit(value[i + 2]));
            i += 2;
        } else {
            call->words[n++] = (char)value[i];
        }
    }
    if (call->words)
        call->words[n] = 0;
}

static int on_stub_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                          const uint8_t *value, size_t len, uint8_t flags, void *user)
{
    struct mu_stub_call *call = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)flags;
    (void)user;
    if (!call)
        return 0;
    if (mu_wire_is(name, name_len, ":status")) {
        call->http_status = mu_wire_status(value, len);
    } else if (mu_wire_is(name, name_len, "grpc-status")) {
        call->grpc_status = mu_wire_status(value, len);
        call->has_status = true;
    } else if (mu_wire_is(name, name_len, "grpc-message")) {
        words_take(call, value, len);
    }
    return 0;
}

/* The prefix says how long the answer is. */
static void answer_begin(struct mu_stub_call *call)
{
    size_t len = 0;

    for (int i = 1; i < PREFIX; i++)
        len = len << 8 | call->head[i];
    call->size = PREFIX + len;
    call->answer = malloc(len ? len : 1);
    call->is_bad = !call->answer || call->head[0] != 0; /* compressed: we have not said that we would take that */
}

static int on_stub_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len,
                        void *user)
{
    struct mu_stub_call *call = nghttp2_session_get_stream_user_data(session, id);

    (void)flags;
    (void)user;
    while (call && !call->is_bad && len > 0) {
        size_t part = call->have < PREFIX ? PREFIX - call->have : call->size - call->have;
        uint8_t *to = call->have < PREFIX ? call->head + call->have : call->answer + (call->have - PREFIX);

        part = part < len ? part : len;
        if (!part) {
            call->is_bad = true; /* more than one message */
            break;
        }
        memcpy(to, bytes, part);
        call->have += part;
        bytes += part;
        len -= part;
        if (call->have == PREFIX)
            answer_begin(call);
    }
    return 0;
}

static int on_stub_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
    struct mu_stub_call *call = nghttp2_session_get_stream_user_data(session, id);
    struct mu_stub_answer a = {.status = MUSTER_OK, .text = ""};

    (void)user;
    if (!call)
        return 0;
    if (call->has_status && call->grpc_status != 0) {
        a.status = call->grpc_status <= MUSTER_DATA_LOSS ? (enum muster_status)call->grpc_status : MUSTER_UNKNOWN;
        a.text = call->words ? call->words : "";
    } else if (error != NGHTTP2_NO_ERROR && !call->has_status) {
        a = (struct mu_stub_answer){MUSTER_UNAVAILABLE, nghttp2_http2_strerror(error), .is_lost = true};
    } else if (call->http_status != 200 || !call->has_status) {
        a = (struct mu_stub_answer){MUSTER_UNAVAILABLE, "it answers as no gRPC server does", .is_lost = true};
    } else if (call->is_bad || call->have < PREFIX || call->have != call->size) {
        a = (struct mu_stub_answer){MUSTER_INTERNAL, "its answer is damaged, or too long for the memory there is",
                                    .is_lost = true};
    } else {
        a.bytes = call->answer;
        a.len = call->size - PREFIX;
    }
    stub_call_end(call, &a);
    return 0;
}

static ssize_t on_message_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t size, uint32_t *flags,
                               nghttp2_data_source *source, void *user)
{
    struct mu_stub_call *call = nghttp2_session_get_stream_user_data(session, id);
    size_t n = 0;

    (void)source;
    (void)user;
    if (!call)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    while (call->given < PREFIX && n < size)
        to[n++] = call->prefix[call->given++];
    if (call->given >= PREFIX && n < size) {
        size_t left = PREFIX + call->len - call->given, part = left < size - n ? left : size - n;

        if (part)
            memcpy(to + n, call->message + (call->given - PREFIX), part);
        call->given += part;
        n += part;
    }
    if (call->given == PREFIX + call->len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        free(call->message);
        call->message = NULL;
    }
    return (ssize_t)n;
}

static nghttp2_nv stub_header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NONE};
}

bool mu_stub_say(struct mu_stub_call *call)
{
    struct mu_stub *s = call->stub;
    char timeout[32];
    nghttp2_nv nv[7];
    size_t n = 0;
    nghttp2_data_provider provider = {.read_callback = on_message_read};

    if (!nghttp2_session_check_request_allowed(s->session))
        return false;
    nv[n++] = stub_header(":method", "POST");
    nv[n++] = stub_header(":scheme", "http");
    nv[n++] = stub_header(":path", call->path);
    nv[n++] = stub_header(":authority", s->authority);
    nv[n++] = stub_header("content-type", "application/grpc");
    nv[n++] = stub_header("te", "trailers");
    if (call->timeout_ms) {
        snprintf(timeout, sizeof timeout, "%um", (unsigned)(call->timeout_ms < 99999999 ? call->timeout_ms : 99999999));
        nv[n++] = stub_header("grpc-timeout", timeout);
        call->until_ms = mu_stub_now() + call->timeout_ms + 1000; /* it answers itself, if it is there */
    }
    call->stream = nghttp2_submit_request(s->session, NULL, nv, n, &provider, call);
    return call->stream > 0;
}

static ssize_t on_stub_send(nghttp2_session *session, const uint8_t *bytes, size_t len, int flags, void *user)
{
    struct mu_stub *s = user;

    (void)session;
    (void)flags;
    if (len > sizeof s->out - s->out_len)
        len = sizeof s->out - s->out_len;
    if (!len)
        return NGHTTP2_ERR_WOULDBLOCK;
    memcpy(s->out + s->out_len, bytes, len);
    s->out_len += len;
    return (ssize_t)len;
}

bool mu_stub_session(struct mu_stub *s)
{
    nghttp2_session_callbacks *c;
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                         {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
                                         {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 1 << 20}};
    bool ok;

    if (nghttp2_session_callbacks_new(&c))
        return false;
    nghttp2_session_callbacks_set_send_callback(c, on_stub_send);
    nghttp2_session_callbacks_set_on_header_callback(c, on_stub_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_stub_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stub_stream_close);
    ok = nghttp2_session_client_new(&s->session, c, s) == 0 &&
         nghttp2_submit_settings(s->session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof *settings) == 0 &&
         nghttp2_session_set_local_window_size(s->session, NGHTTP2_FLAG_NONE, 0, WINDOW * 4) == 0;
    nghttp2_session_callbacks_del(c);
    return ok;
}
