/*
 * topology/message.h: LocalTopologyProto and GlobalTopologyProto of either form, read and written.
 */
#ifndef MU_TOPOLOGY_MESSAGE_H
#define MU_TOPOLOGY_MESSAGE_H

#include <muster/topology.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/* What the ids of devices hang on, whatever the form. Points into the message. */
struct mu_local {
    ProtobufCMessage *message;
    int32_t process_id;
    bool has_partition_index;
    int32_t partition_index;
    ProtobufCBinaryData boot_id;
    const ProtobufCBinaryData *network_nodes;
    size_t num_network_nodes;
    size_t num_devices;
};

/* All locals of one topology, and the memory that they may take. */
struct mu_locals {
    enum muster_topology_form form;
    struct mu_local *locals;
    size_t count;
    size_t left; /* bytes */
};

/* A device of one of them: what is read, and where its numbers go. */
struct mu_local_device {
    int32_t ordinal;
    ProtobufCBinaryData fabric;
    int32_t *id;
    int32_t *partition_index; /* NULL: the form has none */
};

/* "today's XLA", "2020"; NULL: there is no such form. */
const char *mu_form_name(enum muster_topology_form form);

/* Read them all, in the order given. Whatever it returns, mu_locals_done() frees. */
enum muster_status mu_locals_read(struct mu_locals *set, enum muster_topology_form form, const void *const *locals,
                                  const size_t *sizes, size_t count);
void mu_locals_done(struct mu_locals *set);

struct mu_local_device mu_local_device(const struct mu_locals *set, const struct mu_local *local, size_t index);

/* The global topology: the locals as they are now, in this order (`order[i]` is a place in the set). malloc()ed. */
enum muster_status mu_locals_pack(const struct mu_locals *set, const size_t *order, void **ret_bytes, size_t *ret_size);

/* What messages are read into: no more than *left bytes, which becomes 0 for good once that is not enough. */
ProtobufCAllocator mu_message_allocator(size_t *left);

/* Any message, malloc()ed; room for one byte at least. */
enum muster_status mu_message_pack(const ProtobufCMessage *message, void **ret_bytes, size_t *ret_size);

/*
 * Whether proto3's own readers would refuse it: text that is not UTF-8 (`bytes` of our messages are text, but in fields
 * with one of the names not_text, which end with NULL; NULL: in all), a field number out of range.
 * ret_why: "a name is not UTF-8".
 */
bool mu_message_fault(const ProtobufCMessage *message, const char *const *not_text, char *ret_why, size_t size);

#endif
