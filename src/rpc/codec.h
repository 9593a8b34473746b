/*
 * rpc/codec.h: what the dialects share of reading requests and writing what travels beside an error. Knows nothing of
 * connections, tasks or keys.
 */
#ifndef MU_RPC_CODEC_H
#define MU_RPC_CODEC_H

#include <muster/status.h>
#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/*
 * Read a message from anybody's bytes, with memory that is counted: its size and 64 MiB more. mu_codec_free() frees.
 * not_text: the names of fields of `bytes` that are not text, as of mu_message_fault().
 * MUSTER_INVALID_ARGUMENT: it is no such message, or text in it is not UTF-8; MUSTER_RESOURCE_EXHAUSTED: read, it takes
 * more. The sentence holds no byte of it.
 */
enum muster_status mu_codec_read(const ProtobufCMessageDescriptor *kind, const char *const *not_text, const void *bytes,
                                 size_t size, ProtobufCMessage **ret_message);
/* NULL is allowed. */
void mu_codec_free(ProtobufCMessage *message);

/* One payload of an error: "BarrierError" and the message. */
struct mu_codec_payload {
    const char *name; /* what follows type.googleapis.com/tensorflow. */
    const ProtobufCMessage *message;
};
#define MU_CODEC_PAYLOADS_MAX 4

/* The bytes of grpc-status-details-bin, in the order given; malloc()ed. */
enum muster_status mu_codec_payloads(const struct mu_codec_payload *payloads, size_t count, void **ret_bytes,
                                     size_t *ret_size);

#endif
