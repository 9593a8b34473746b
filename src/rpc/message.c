/*
 * rpc/message.c: gRPC's messages in the bytes of a call: a flag, a length of four bytes, the message.
 *
 * Memory is taken for what has come, not for what is announced. What is compressed is inflated when all of it is here,
 * into a buffer that grows up to the bound of a message.
 */
#include "rpc/private.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define FIRST_BYTES (64u << 10)

void mu_rpc_message_drop(struct mu_rpc_call *call)
{
    if (call->body != call->small) {
        mu_conn_unhold(call->conn, call->room);
        free(call->body);
    }
    call->body = call->small;
    call->room = sizeof call->small;
    call->have = call->size = 0;
    call->prefix_len = 0;
}

static void too_large(struct mu_rpc_call *call, size_t size)
{
    mu_rpc_call_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "a message of %s%zu bytes; %zu are the most that are taken",
                       size ? "" : "more than ", size ? size : call->conn->rpc->options.message_max,
                       call->conn->rpc->options.message_max);
}

/* Room for what is known to come, at most twice what is there. False: it is refused. */
static bool make_room(struct mu_rpc_call *call, size_t wanted)
{
    size_t room = 2 * wanted < FIRST_BYTES ? FIRST_BYTES : 2 * wanted;
    bool own = call->body != call->small;
    size_t held = own ? call->room : 0;
    uint8_t *larger;

    if (wanted <= call->room)
        return true;
    if (room > call->size)
        room = call->size;
    if (!mu_conn_hold(call->conn, room - held)) {
        mu_rpc_call_refuse(call, MUSTER_RESOURCE_EXHAUSTED,
                           "too much is held for this client already, or for all: ask for less at once");
        return false;
    }
    larger = realloc(own ? call->body : NULL, room);
    if (!larger) {
        mu_conn_unhold(call->conn, room - held);
        mu_rpc_call_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", call->size);
        return false;
    }
    if (!own)
        memcpy(larger, call->body, call->have);
    call->body = larger;
    call->room = room;
    return true;
}

/* The five bytes are here. False: it is refused. */
static bool take_prefix(struct mu_rpc_call *call)
{
    call->size = (size_t)call->prefix[1] << 24 | (size_t)call->prefix[2] << 16 | (size_t)call->prefix[3] << 8 |
                 (size_t)call->prefix[4];
    if (call->has_message)
        mu_rpc_call_refuse(call, MUSTER_INTERNAL, "a second message; this call takes one");
    else if (call->prefix[0] > 1)
        mu_rpc_call_refuse(call, MUSTER_INTERNAL, "a message with the flags %u; only 0 and 1 mean something",
                           call->prefix[0]);
    else if (call->prefix[0] == 1 && call->encoding == MU_ENCODING_IDENTITY)
        mu_rpc_call_refuse(call, MUSTER_INTERNAL, "a message is compressed, and no grpc-encoding says how");
    else if (call->prefix[0] == 1 && call->encoding == MU_ENCODING_OTHER)
        mu_rpc_call_refuse(call, MUSTER_UNIMPLEMENTED, "messages compressed with gzip or deflate are taken, no others");
    else if (call->size > call->conn->rpc->options.message_max)
        too_large(call, call->size);
    else
        return true;
    return false;
}

void mu_rpc_message_take(struct mu_rpc_call *call, const uint8_t *bytes, size_t len)
{
    while (call->phase != MU_CALL_ANSWERED) {
        size_t n = call->prefix_len < 5 ? 5u - call->prefix_len : call->size - call->have;

        if (n > len)
            n = len;
        if (call->prefix_len < 5) {
            if (len == 0)
                return;
            memcpy(call->prefix + call->prefix_len, bytes, n);
            call->prefix_len = (uint8_t)(call->prefix_len + n);
            if (call->prefix_len == 5 && !take_prefix(call))
                return;
        } else {
            if (!make_room(call, call->have + n))
                return;
            memcpy(call->body + call->have, bytes, n);
            call->have += n;
        }
        bytes += n;
        len -= n;
        if (call->prefix_len < 5 || call->have < call->size) {
            if (len == 0)
                return;
        } else if (call->method->last) {
            mu_rpc_message_begin(call);
        } else {
            call->has_message = true;
            if (len > 0)
                mu_rpc_call_refuse(call, MUSTER_INTERNAL, "a second message; this call takes one");
            return;
        }
    }
}

void mu_rpc_message_last(struct mu_rpc_call *call)
{
    if (call->phase == MU_CALL_ANSWERED)
        return;
    if (call->prefix_len > 0 && !call->has_message)
        mu_rpc_call_refuse(call, MUSTER_INTERNAL, "the call ends within a message");
    else if (call->method->last)
        call->method->last(call);
    else if (!call->has_message)
        mu_rpc_call_refuse(call, MUSTER_INTERNAL, "the call ends without a message");
    else
        mu_rpc_call_ready(call);
}

/* ---- compressed ones --------------------------------------------------------------------------------------------- */

static z_stream *inflater_of(struct mu_rpc *rpc, bool gzip)
{
    z_stream **z = &rpc->inflate[!gzip];

    if (*z)
        return inflateReset(*z) == Z_OK ? *z : NULL;
    *z = calloc(1, sizeof **z);
    if (*z && inflateInit2(*z, gzip ? 15 + 16 : 15) == Z_OK)
        return *z;
    free(*z);
    *z = NULL;
    return NULL;
}

/* The inflated message; NULL: it is refused. What it takes is held for its connection while the method is called. */
static uint8_t *message_inflated(struct mu_rpc_call *call, size_t *ret_len, size_t *ret_room)
{
    struct mu_rpc *rpc = call->conn->rpc;
    size_t max = rpc->options.message_max, room = 0, len = 0;
    z_stream *z = inflater_of(rpc, call->encoding == MU_ENCODING_GZIP);
    uint8_t *to = NULL;
    int said = Z_OK;

    *ret_room = 0;
    if (!z) {
        mu_rpc_call_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory to inflate a message");
        return NULL;
    }
    z->next_in = call->body;
    z->avail_in = (unsigned)call->have;
    while (said == Z_OK && len <= max) {
        size_t more = room == 0 ? 4 * call->have + 1024 : 2 * room;
        uint8_t *larger;

        if (more > max + 1)
            more = max + 1; /* one byte above what may be, so that the bomb is told from the message */
        if (!mu_conn_hold(call->conn, more - room) || !(larger = realloc(to, more))) {
            mu_rpc_call_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory to inflate a message of more than %zu bytes",
                               room);
            mu_conn_unhold(call->conn, room);
            free(to);
            return NULL;
        }
        to = larger;
        room = more;
        z->next_out = to + len;
        z->avail_out = (unsigned)(room - len);
        said = inflate(z, Z_NO_FLUSH);
        len = room - z->avail_out;
    }
    *ret_len = len;
    *ret_room = room;
    if (said == Z_STREAM_END && z->avail_in == 0 && len <= max)
        return to;
    if (len > max)
        too_large(call, 0);
    else
        mu_rpc_call_refuse(call, MUSTER_INTERNAL, "a message that is said to be compressed cannot be inflated");
    mu_conn_unhold(call->conn, room);
    free(to);
    return NULL;
}

void mu_rpc_message_begin(struct mu_rpc_call *call)
{
    struct mu_rpc_conn *conn = call->conn;
    uint8_t *body = call->body, *own = call->body == call->small ? NULL : call->body, *large = NULL;
    size_t len = call->have, held = own ? call->room : 0, room = 0;
    uint8_t small[sizeof call->small];

    if (call->prefix[0] == 1 && !(large = message_inflated(call, &len, &room)))
        return;
    if (large) {
        body = large;
    } else if (!own) { /* the call may be freed, or take its next message, before the method returns */
        memcpy(small, body, len);
        body = small;
    }
    call->body = call->small;
    call->room = sizeof call->small;
    call->have = call->size = 0;
    call->prefix_len = 0;
    call->phase = MU_CALL_BEGUN;
    call->method->begin(call, body, len);
    mu_conn_unhold(conn, held + room);
    free(own);
    free(large);
}

void mu_rpc_message_free_all(struct mu_rpc *rpc)
{
    for (int i = 0; i < 2; i++)
        if (rpc->inflate[i]) {
            inflateEnd(rpc->inflate[i]);
            free(rpc->inflate[i]);
        }
}
