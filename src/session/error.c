/*
 * session/error.c: why something is not so, and what a client is told then; what it has sent, read with a bound.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "rpc/codec.h"
#include "session/private.h"

bool mu_ss_fail(struct mu_ss_error *error, enum muster_status status, const char *format, ...)
{
    va_list args;

    if (error->status)
        return false;
    error->status = status;
    va_start(args, format);
    if (vasprintf(&error->text, format, args) < 0)
        error->text = NULL;
    va_end(args);
    return false;
}

void mu_ss_error_clear(struct mu_ss_error *error)
{
    free(error->text);
    *error = (struct mu_ss_error){0};
}

const char *mu_ss_text(const struct mu_ss_error *error)
{
    return error->text ? error->text : "no memory for the reason";
}

bool mu_ss_grow(void *array, size_t element, size_t needed, uint32_t *room)
{
    void **at = array, *grown;
    size_t more = *room ? *room : 8;

    if (needed <= *room)
        return true;
    while (more < needed)
        more *= 2;
    grown = more <= UINT32_MAX ? realloc(*at, more * element) : NULL;
    if (!grown)
        return false;
    *at = grown;
    *room = (uint32_t)more;
    return true;
}

void mu_ss_refuse(struct mu_rpc_call *call, struct mu_ss_error *error)
{
    mu_rpc_refuse(call, error->status, mu_ss_text(error), NULL, 0);
    mu_ss_error_clear(error);
}

void mu_ss_answer(struct mu_rpc_call *call, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(len + 1);

    if (!bytes) {
        mu_rpc_refuse(call, MUSTER_RESOURCE_EXHAUSTED, "no memory for the reply", NULL, 0);
        return;
    }
    protobuf_c_message_pack(message, bytes);
    mu_rpc_answer(call, bytes, len);
    free(bytes);
}

void *mu_ss_message_read(const ProtobufCMessageDescriptor *kind, ProtobufCBinaryData bytes, const char *damaged,
                         struct mu_ss_error *error)
{
    static const char *const not_text[] = {"config",         "tensor",     "feed", "library", "s",
                                           "tensor_content", "string_val", "func", NULL};
    ProtobufCMessage *message;
    enum muster_status status = mu_codec_read(kind, not_text, bytes.data, bytes.len, &message);

    if (!status)
        return message;
    mu_ss_fail(error, status, "%s", status == MUSTER_INVALID_ARGUMENT ? damaged : muster_last_error());
    return NULL;
}
