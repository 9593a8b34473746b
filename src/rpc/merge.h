/* rpc/merge.h: a message with parts that come twice. */
#ifndef MU_RPC_MERGE_H
#define MU_RPC_MERGE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether some sub-message, at whatever depth, comes twice where the kind has one. Bytes that are no message: false. */
bool mu_merge_is_due(const ProtobufCMessageDescriptor *kind, const void *bytes, size_t size);

/* The same message with each of them once, malloc()ed and not longer than it was. NULL: no memory. */
void *mu_merge(const ProtobufCMessageDescriptor *kind, const void *bytes, size_t size, size_t *ret_size);

#endif
