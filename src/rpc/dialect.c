/*
 * rpc/dialect.c: a visit: from the bytes of a request to those of its answer.
 *
 * mu_visit_begin() reads the request and lets its method ask the engine; the engine answers now or later; then the
 * method's reply ends the visit, or `next`, where several things are to be asked, or the refusal. A client that gives
 * up ends it, too: the engine is told, and nothing is written. So each visit is freed once, in one of two places:
 * visit_end(), or visit_ended().
 */
#include "rpc/dialect.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "rpc/xla_coordination.pb-c.h"
#include "topology/message.h"

enum {
    LONG_VALUE = 4096,    /* bytes: of a shorter one a copy costs less */
    TEXT_MAX = 1024,      /* of a sentence of our own */
    BARRIER_ID_MAX = 512, /* of an id in a payload: trailers stay small, and clients look at the counter */
};

struct mu_visit_timer {
    uv_timer_t timer; /* first: uv_close()d */
    struct mu_visit *visit;
    void (*late)(struct mu_visit *visit);
};

/* ---- connections ------------------------------------------------------------------------------------------------- */

/* Its line at the engine, from its first request on. NULL: no memory. */
static struct mu_caller *caller_of(struct mu_service *s, struct mu_rpc_conn *conn)
{
    void **data = mu_rpc_conn_data(conn);
    struct mu_caller *caller = *data;

    if (caller)
        return caller;
    caller = calloc(1, sizeof *caller);
    if (!caller)
        return NULL;
    caller->line = mu_coord_line(s->coord, mu_rpc_peer_pid(conn), mu_rpc_peer_name(conn));
    if (!caller->line) {
        free(caller);
        return NULL;
    }
    *data = caller;
    return caller;
}

struct mu_caller *mu_visit_caller(struct mu_visit *visit)
{
    return *mu_rpc_conn_data(mu_rpc_conn_of(visit->call));
}

void mu_caller_gone(void *arg, struct mu_rpc_conn *conn, const char *why)
{
    struct mu_caller *caller = *mu_rpc_conn_data(conn);

    (void)arg;
    if (!caller)
        return;
    mu_coord_hang_up(caller->line, why);
    free(caller->nodes);
    free(caller);
    *mu_rpc_conn_data(conn) = NULL;
}

/* ---- a visit ----------------------------------------------------------------------------------------------------- */

static void timer_closed(uv_handle_t *handle)
{
    free(handle);
}

static void stop_timer(struct mu_visit *v)
{
    if (v->timer)
        uv_close((uv_handle_t *)&v->timer->timer, timer_closed);
    v->timer = NULL;
}

static void visit_count(struct mu_service *s, struct mu_rpc_call *call, enum muster_status status)
{
    unsigned code = (unsigned)status < MU_CODES ? (unsigned)status : MUSTER_UNKNOWN;

    s->ended[mu_rpc_method_of(call) - s->methods][code]++;
}

/* Nobody waits for it: it has been answered, or given up. */
static void visit_end(struct mu_visit *v)
{
    v->service->num_visits--;
    if (v->gather)
        mu_gather_left(v);
    stop_timer(v);
    free(v->name);
    free(v);
}

/* The client does not wait any more. */
static void visit_ended(void *arg)
{
    struct mu_visit *v = arg;

    visit_count(v->service, v->call, MUSTER_CANCELLED);
    mu_coord_drop(v->coord, &v->request);
    visit_end(v);
}

static void on_visit_answered(struct mu_coord_request *answered)
{
    struct mu_visit *v = (struct mu_visit *)answered;

    if (v->next)
        v->next(v);
    else if (answered->status)
        mu_visit_refuse(v);
    else
        v->method->reply(v);
}

void mu_visit_begin(struct mu_rpc_call *call, const void *body, size_t len)
{
    const struct mu_method *method = mu_rpc_method_of(call)->data;
    struct mu_service *s = mu_rpc_arg(call);
    struct mu_caller *caller = caller_of(s, mu_rpc_conn_of(call));
    struct mu_visit *v = caller ? calloc(1, sizeof *v) : NULL;
    ProtobufCMessage *request;
    enum muster_status status;

    if (!v) {
        visit_count(s, call, MUSTER_RESOURCE_EXHAUSTED);
        mu_rpc_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "the service has no memory for another call", NULL, 0);
        return;
    }
    status = mu_codec_read(method->request, method->dialect->not_text, body, len, &request);
    if (status) {
        visit_count(s, call, status);
        mu_rpc_refuse(call, status, muster_last_error(), NULL, 0);
        free(v);
        return;
    }
    v->request = (struct mu_coord_request){.answered = on_visit_answered, .line = caller->line, .origin = -1};
    s->num_visits++;
    v->service = s;
    v->coord = s->coord;
    v->call = call;
    v->method = method;
    mu_rpc_wait(call, visit_ended, v);
    if (!method->dialect->admit || method->dialect->admit(v, request))
        method->ask(v, request);
    mu_codec_free(request);
}

struct mu_coord_request *mu_visit_again(struct mu_visit *v, void (*next)(struct mu_visit *visit))
{
    struct mu_line *line = v->request.line;

    v->request = (struct mu_coord_request){.answered = on_visit_answered, .line = line, .origin = -1};
    v->next = next;
    return &v->request;
}

bool mu_visit_name(struct mu_visit *v, ProtobufCBinaryData bytes)
{
    v->name = malloc(bytes.len + 1);
    if (!v->name) {
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for another call");
        return false;
    }
    if (bytes.len)
        memcpy(v->name, bytes.data, bytes.len);
    v->name[bytes.len] = 0;
    v->name_len = bytes.len;
    return true;
}

static void timer_rang(uv_timer_t *timer)
{
    struct mu_visit_timer *t = (struct mu_visit_timer *)timer;

    mu_coord_drop(t->visit->coord, &t->visit->request);
    t->late(t->visit);
}

bool mu_visit_until(struct mu_visit *v, uint64_t ms, void (*late)(struct mu_visit *visit))
{
    struct mu_visit_timer *t = calloc(1, sizeof *t);

    if (!t || uv_timer_init(v->service->loop, &t->timer)) {
        free(t);
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for another timer");
        return false;
    }
    t->visit = v;
    t->late = late;
    v->timer = t;
    uv_timer_start(&t->timer, timer_rang, ms, 0);
    return true;
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

void mu_visit_answer_bytes(struct mu_visit *v, const void *bytes, size_t len)
{
    visit_count(v->service, v->call, MUSTER_OK);
    mu_rpc_answer(v->call, bytes, len);
    visit_end(v);
}

void mu_visit_answer_with(struct mu_visit *v, const void *head, size_t len, const struct mu_slice *tail)
{
    visit_count(v->service, v->call, MUSTER_OK);
    mu_rpc_answer_with(v->call, head, len, tail);
    visit_end(v);
}

void mu_visit_answer(struct mu_visit *v, const ProtobufCMessage *message)
{
    void *bytes;
    size_t len;

    if (mu_message_pack(message, &bytes, &len)) {
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "%s", muster_last_error());
        return;
    }
    mu_visit_answer_bytes(v, bytes, len);
    free(bytes);
}

void mu_visit_refuse_with(struct mu_visit *v, enum muster_status status, const char *text, const void *details,
                          size_t len)
{
    visit_count(v->service, v->call, status);
    mu_rpc_refuse(v->call, status, text, details, len);
    visit_end(v);
}

void mu_visit_refuse(struct mu_visit *v)
{
    Mu__XlaCoordination__BarrierError barrier = MU__XLA_COORDINATION__BARRIER_ERROR__INIT;
    struct mu_codec_payload more = {"BarrierError", &barrier.base};
    size_t num_more = v->request.payload == MU_PAYLOAD_BARRIER;
    void *details = NULL;
    size_t len = 0;

    if (num_more) {
        barrier.barrier_id = mu_reply_text(v->request.barrier_id);
        barrier.barrier_id.len = mu_utf8_cut(barrier.barrier_id.data, barrier.barrier_id.len, BARRIER_ID_MAX);
        barrier.counter = v->request.counter;
    }
    /* Without memory for them, the error goes without. */
    if (v->request.payload != MU_PAYLOAD_NONE && v->method->dialect->error)
        v->method->dialect->error(v, &more, num_more, &details, &len);
    mu_visit_refuse_with(v, v->request.status, v->request.text ? v->request.text : "", details, len);
    free(details);
}

void mu_visit_fail(struct mu_visit *v, enum muster_status status, unsigned payload, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list words;

    va_start(words, format);
    vsnprintf(text, sizeof text, format, words);
    va_end(words);
    v->request.status = status;
    v->request.payload = payload;
    v->request.text = text;
    v->request.origin = -1;
    mu_visit_refuse(v);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

void mu_reply_empty(struct mu_visit *v)
{
    mu_visit_answer_bytes(v, "", 0);
}

void mu_reply_incarnation(struct mu_visit *v)
{
    Mu__XlaCoordination__HeartbeatResponse r = MU__XLA_COORDINATION__HEARTBEAT_RESPONSE__INIT;

    r.service_incarnation = mu_coord_incarnation(v->coord);
    mu_visit_answer(v, &r.base);
}

void mu_reply_counter(struct mu_visit *v)
{
    Mu__XlaCoordination__BarrierResponse r = MU__XLA_COORDINATION__BARRIER_RESPONSE__INIT;

    r.counter = v->request.counter;
    mu_visit_answer(v, &r.base);
}

/* ---- fields of bytes, by hand: what is long is not copied ---- */

static size_t put_varint(uint8_t *to, uint64_t n)
{
    size_t len = 1;

    for (; n >= 0x80; n >>= 7, len++)
        if (to)
            *to++ = (uint8_t)(n | 0x80);
    if (to)
        *to = (uint8_t)n;
    return len;
}

/* A field of bytes; none of no bytes, as protobuf has it. */
static size_t put_bytes(uint8_t *to, unsigned field, const void *bytes, size_t len)
{
    size_t n;

    if (len == 0)
        return 0;
    n = 1 + put_varint(to ? to + 1 : NULL, len);
    if (to) {
        to[0] = (uint8_t)(field << 3 | 2);
        memcpy(to + n, bytes, len);
    }
    return n + len;
}

void mu_reply_value(struct mu_visit *v, const void *head, size_t len, unsigned field)
{
    const struct mu_slice tail = {v->request.blob, 0, v->request.len};
    uint8_t *bytes = malloc(len + 16);

    if (!bytes) {
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for an answer");
        return;
    }
    if (len)
        memcpy(bytes, head, len);
    bytes[len++] = (uint8_t)(field << 3 | 2);
    len += put_varint(bytes + len, tail.len);
    mu_visit_answer_with(v, bytes, len, &tail);
    free(bytes);
}

/* An entry with a long value. */
static void reply_long_entry(struct mu_visit *v)
{
    size_t key = put_bytes(NULL, 1, v->name, v->name_len),
           inner = key + 1 + put_varint(NULL, v->request.len) + v->request.len;
    uint8_t *head = malloc(16 + key);
    size_t len = 1;

    if (!head) {
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for an answer");
        return;
    }
    head[0] = 1 << 3 | 2;
    len += put_varint(head + 1, inner);
    len += put_bytes(head + len, 1, v->name, v->name_len);
    mu_reply_value(v, head, len, 2);
    free(head);
}

void mu_reply_entry(struct mu_visit *v)
{
    Mu__XlaCoordination__GetKeyValueResponse r = MU__XLA_COORDINATION__GET_KEY_VALUE_RESPONSE__INIT;
    Mu__XlaCoordination__KeyValueEntry kv = MU__XLA_COORDINATION__KEY_VALUE_ENTRY__INIT;

    if (v->request.blob && v->request.len >= LONG_VALUE) {
        reply_long_entry(v);
        return;
    }
    kv.key = mu_reply_bytes(v->name, v->name_len);
    kv.value = mu_reply_bytes(v->request.value, v->request.len);
    r.kv = &kv;
    mu_visit_answer(v, &r.base);
}

/* ---- directories: field 2 of the answer, repeated, is a KeyValueEntry {1: key, 2: value} ---- */

/* A key that is not UTF-8 (tasks of the C library may have such) is left out: clients would refuse the whole answer. */
size_t mu_write_entry(const struct muster_kv_entry *stored, uint8_t *to)
{
    struct muster_kv_entry entry, *e = &entry;
    size_t inner, head;

    mu_coord_entry(stored, e);
    if (!mu_is_utf8(e->key, e->key_len))
        return 0;
    inner = put_bytes(NULL, 1, e->key, e->key_len) + put_bytes(NULL, 2, e->value, e->value_len);
    head = 1 + put_varint(to ? to + 1 : NULL, inner);
    if (to) {
        to[0] = 2 << 3 | 2;
        put_bytes(to + head + put_bytes(to + head, 1, e->key, e->key_len), 2, e->value, e->value_len);
    }
    return head + inner;
}

/* The engine has written it, or another host's, which has only listed it. */
void mu_reply_directory(struct mu_visit *v)
{
    const struct mu_coord_request *request = &v->request;
    size_t len = 0, at = 0;
    uint8_t *bytes;

    if (!request->num_entries && request->blob) {
        mu_visit_answer_with(v, NULL, 0, &(struct mu_slice){request->blob, 0, request->len});
        return;
    }
    for (size_t i = 0; i < request->num_entries; i++)
        len += mu_write_entry(&request->entries[i], NULL);
    bytes = malloc(len + 1);
    for (size_t i = 0; bytes && i < request->num_entries; i++)
        at += mu_write_entry(&request->entries[i], bytes + at);
    if (bytes)
        mu_visit_answer_bytes(v, bytes, len);
    else
        mu_visit_fail(v, MUSTER_RESOURCE_EXHAUSTED, MU_PAYLOAD_NONE, "the service has no memory for an answer");
    free(bytes);
}

ProtobufCBinaryData mu_reply_text(const char *text)
{
    size_t len = text ? strlen(text) : 0, good = 0, size;

    for (; good < len; good += size) {
        size = mu_utf8_length(text + good, len - good);
        if (!size)
            break;
    }
    return mu_reply_bytes(text, good);
}

int mu_reply_state(enum muster_task_state state)
{
    switch (state) {
    case MUSTER_TASK_DISCONNECTED: return MU__XLA_COORDINATION__TASK_STATE__TASK_DISCONNECTED;
    case MUSTER_TASK_CONNECTED: return MU__XLA_COORDINATION__TASK_STATE__TASK_CONNECTED;
    case MUSTER_TASK_ERROR: return MU__XLA_COORDINATION__TASK_STATE__TASK_ERROR;
    }
    return MU__XLA_COORDINATION__TASK_STATE__TASK_UNSPECIFIED;
}

enum muster_status mu_reply_payloads(const ProtobufCMessage *service_error, const struct mu_codec_payload *more,
                                     size_t count, void **ret_bytes, size_t *ret_size)
{
    struct mu_codec_payload payloads[MU_CODEC_PAYLOADS_MAX] = {{"CoordinationServiceError", service_error}};

    for (size_t i = 0; i < count; i++)
        payloads[1 + i] = more[i];
    return mu_codec_payloads(payloads, 1 + count, ret_bytes, ret_size);
}
