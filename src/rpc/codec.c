/*
 * rpc/codec.c: bounded reading, and the container of an error's payloads.
 *
 * A request of two bytes can become a structure of a hundred, many times over, so the size of the bytes bounds nothing:
 * protobuf-c takes its memory from here, where it is counted. One message is read at a time in a thread, and freed
 * before the next: what it may take is the thread's, not the connection's.
 */
#include "rpc/codec.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "rpc/merge.h"
#include "rpc/payload.pb-c.h"
#include "topology/message.h"

enum {
    MORE_MAX = 64 << 20, /* beyond the message's own size */
    NAME_MAX_LEN = 128,  /* of a payload's type URL */
};

/* protobuf-c's reading, of the merged message where one is to be. */
static ProtobufCMessage *message_unpack(const ProtobufCMessageDescriptor *kind, const void *bytes, size_t size,
                                        size_t *left)
{
    ProtobufCAllocator allocator = mu_message_allocator(left);
    ProtobufCMessage *message;
    void *merged;

    if (!size || !mu_merge_is_due(kind, bytes, size))
        return protobuf_c_message_unpack(kind, &allocator, size, size ? bytes : (const void *)"");
    merged = mu_merge(kind, bytes, size, &size);
    if (!merged) {
        *left = 0;
        return NULL;
    }
    message = protobuf_c_message_unpack(kind, &allocator, size, merged);
    free(merged);
    return message;
}

enum muster_status mu_codec_read(const ProtobufCMessageDescriptor *kind, const char *const *not_text, const void *bytes,
                                 size_t size, ProtobufCMessage **ret_message)
{
    size_t left = size + MORE_MAX;
    ProtobufCMessage *message = message_unpack(kind, bytes, size, &left);
    char why[128];

    if (!message && !left)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "the %s (%zu bytes): read, it takes more than %d MiB beyond its size",
                       kind->short_name, size, MORE_MAX >> 20);
    if (!message)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "these %zu bytes are no %s: damaged, or of another protocol", size,
                       kind->short_name);
    if (mu_message_fault(message, not_text, why, sizeof why)) {
        mu_codec_free(message);
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the %s: %s", kind->short_name, why);
    }
    *ret_message = message;
    return MUSTER_OK;
}

void mu_codec_free(ProtobufCMessage *message)
{
    size_t none = 0;
    ProtobufCAllocator allocator = mu_message_allocator(&none);

    protobuf_c_message_free_unpacked(message, &allocator);
}

enum muster_status mu_codec_payloads(const struct mu_codec_payload *payloads, size_t count, void **ret_bytes,
                                     size_t *ret_size)
{
    char names[MU_CODEC_PAYLOADS_MAX][NAME_MAX_LEN];
    Mu__Payload__Container container = MU__PAYLOAD__CONTAINER__INIT;
    Mu__Payload__Entry entries[MU_CODEC_PAYLOADS_MAX], *each[MU_CODEC_PAYLOADS_MAX];
    void *values[MU_CODEC_PAYLOADS_MAX];
    enum muster_status status = MUSTER_OK;
    size_t made = 0;

    if (count > MU_CODEC_PAYLOADS_MAX)
        return mu_fail(MUSTER_INTERNAL, "%zu payloads for one error", count);
    for (; made < count && !status; made += !status) {
        size_t size;

        status = mu_message_pack(payloads[made].message, &values[made], &size);
        if (status)
            break;
        mu__payload__entry__init(&entries[made]);
        entries[made].key.data = (uint8_t *)names[made];
        entries[made].key.len =
            (size_t)snprintf(names[made], NAME_MAX_LEN, "type.googleapis.com/tensorflow.%s", payloads[made].name);
        entries[made].value = (ProtobufCBinaryData){size, values[made]};
        each[made] = &entries[made];
    }
    container.n_payloads = count;
    container.payloads = each;
    if (!status)
        status = mu_message_pack(&container.base, ret_bytes, ret_size);
    while (made > 0)
        free(values[--made]);
    return status;
}
