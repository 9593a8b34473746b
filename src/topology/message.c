/*
 * topology/message.c: reading and writing the messages of both forms.
 *
 * What comes from others is read by protobuf-c with memory that is counted: two bytes can be a device of two hundred,
 * so the size of the bytes bounds nothing. Fields that are not in our .proto files stay with their message, wherever in
 * it they are, and are written again behind the known ones. Text is checked: proto3's own readers refuse a whole
 * message for one string that is not UTF-8, so one task's would be every task's failure, without its name.
 */
#include "topology/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "topology/xla.pb-c.h"
#include "topology/xla2020.pb-c.h"

enum {
    MEMORY_MAX = 256 << 20,
    ALLOCATION = 16,          /* what malloc() keeps of its own, about */
    FIELD_MAX = (1 << 29) - 1 /* the highest number of a field */
};

static const char *const form_names[] = {
    [MUSTER_FORM_XLA] = "today's XLA",
    [MUSTER_FORM_2020] = "2020",
};

const char *mu_form_name(enum muster_topology_form form)
{
    return (unsigned)form < sizeof form_names / sizeof form_names[0] ? form_names[form] : NULL;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* How many values of the field the message has, and where the first is. */
static size_t values_of(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const void **ret_first)
{
    const uint8_t *base = (const uint8_t *)message, *at = base + field->offset;

    *ret_first = at;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t count;

        memcpy(&count, base + field->quantifier_offset, sizeof count);
        memcpy(ret_first, at, sizeof *ret_first);
        return count;
    }
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t which;

        memcpy(&which, base + field->quantifier_offset, sizeof which);
        return which == field->id;
    }
    return 1;
}

static bool is_text(const ProtobufCBinaryData *text)
{
    return mu_is_utf8(text->data, text->len);
}

/* protobuf-c reads numbers that are none, and then writes what nobody reads. */
static bool is_well_numbered(const ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        if (message->unknown_fields[i].tag < 1 || message->unknown_fields[i].tag > FIELD_MAX)
            return false;
    return true;
}

static bool is_among(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

/* Recursion ends: no message of ours holds its own kind. */
bool mu_message_fault(const ProtobufCMessage *message, const char *const *not_text, char *ret_why, size_t size)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;

    if (!is_well_numbered(message)) {
        snprintf(ret_why, size, "a field has a number that is none");
        return true;
    }
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &d->fields[i];
        const void *values;
        size_t count = values_of(message, field, &values);

        for (size_t k = 0; k < count; k++) {
            if (field->type == PROTOBUF_C_TYPE_BYTES && !is_among(not_text, field->name) &&
                !is_text((const ProtobufCBinaryData *)values + k)) {
                snprintf(ret_why, size, "a %s is not UTF-8", field->name);
                return true;
            }
            if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
                const ProtobufCMessage *inner = ((ProtobufCMessage *const *)values)[k];

                if (inner && mu_message_fault(inner, not_text, ret_why, size))
                    return true;
            }
        }
    }
    return false;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void *message_take(void *data, size_t size)
{
    size_t *left = data;

    if (size > SIZE_MAX - ALLOCATION || size + ALLOCATION > *left) {
        *left = 0; /* for good: what follows is not read either */
        return NULL;
    }
    *left -= size + ALLOCATION;
    return malloc(size ? size : 1);
}

static void message_give(void *data, void *memory)
{
    (void)data;
    free(memory);
}

ProtobufCAllocator mu_message_allocator(size_t *left)
{
    return (ProtobufCAllocator){message_take, message_give, left};
}

static void view_xla(struct mu_local *l)
{
    const Mu__Xla__LocalTopologyProto *m = (const void *)l->message;

    l->process_id = m->process_id;
    l->has_partition_index = m->has_partition_index_case != MU__XLA__LOCAL_TOPOLOGY_PROTO__HAS_PARTITION_INDEX__NOT_SET;
    l->partition_index = l->has_partition_index ? m->partition_index : 0;
    l->boot_id = m->boot_id;
    l->network_nodes = m->network_nodes;
    l->num_network_nodes = m->n_network_nodes;
    l->num_devices = m->n_devices;
}

static void view_2020(struct mu_local *l)
{
    const Mu__Xla2020__LocalTopologyProto *m = (const void *)l->message;

    l->process_id = m->node_id;
    l->num_devices = m->n_devices;
}

/* Field 2 of the form of 2020 is a device: its first byte is a tag below ' '; in today's it is the boot id. */
static bool is_other_form(const struct mu_local *l)
{
    for (size_t i = 0; i < l->boot_id.len; i++)
        if (l->boot_id.data[i] < ' ')
            return true;
    return false;
}

static enum muster_status read_one(struct mu_locals *set, size_t index, const void *bytes, size_t size)
{
    ProtobufCAllocator allocator = mu_message_allocator(&set->left);
    struct mu_local *l = &set->locals[index];
    const ProtobufCMessageDescriptor *descriptor = set->form == MUSTER_FORM_XLA
                                                       ? &mu__xla__local_topology_proto__descriptor
                                                       : &mu__xla2020__local_topology_proto__descriptor;
    char why[128];

    if (!bytes && size)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "local topology %zu is NULL but %zu bytes long", index, size);
    l->message = protobuf_c_message_unpack(descriptor, &allocator, size, bytes ? bytes : (const void *)"");
    if (!l->message && !set->left)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED,
                       "local topology %zu (%zu bytes): read, the topologies take more than %d MiB", index, size,
                       MEMORY_MAX >> 20);
    if (!l->message)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "local topology %zu (%zu bytes) is no LocalTopologyProto of the form of %s: damaged, or of the "
                       "other form",
                       index, size, mu_form_name(set->form));
    (set->form == MUSTER_FORM_XLA ? view_xla : view_2020)(l);
    if (is_other_form(l))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "local topology %zu: its boot id has control characters: it seems to be of the form of 2020",
                       index);
    if (mu_message_fault(l->message, NULL, why, sizeof why))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "local topology %zu: %s", index, why);
    return MUSTER_OK;
}

enum muster_status mu_locals_read(struct mu_locals *set, enum muster_topology_form form, const void *const *locals,
                                  const size_t *sizes, size_t count)
{
    enum muster_status status = MUSTER_OK;

    *set = (struct mu_locals){.form = form, .left = MEMORY_MAX};
    if (!mu_form_name(form))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%d is no form of the topology messages", (int)form);
    if (!locals || !sizes || !count || count > INT32_MAX)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%zu local topologies make no global one", count);
    set->locals = calloc(count, sizeof *set->locals);
    if (!set->locals)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu local topologies", count);
    set->count = count;
    for (size_t i = 0; i < count && !status; i++)
        status = read_one(set, i, locals[i], sizes[i]);
    return status;
}

void mu_locals_done(struct mu_locals *set)
{
    ProtobufCAllocator allocator = mu_message_allocator(&set->left);

    for (size_t i = 0; i < set->count; i++)
        protobuf_c_message_free_unpacked(set->locals[i].message, &allocator);
    free(set->locals);
    *set = (struct mu_locals){0};
}

struct mu_local_device mu_local_device(const struct mu_locals *set, const struct mu_local *local, size_t index)
{
    if (set->form == MUSTER_FORM_XLA) {
        const Mu__Xla__LocalTopologyProto *m = (const void *)local->message;
        Mu__Xla__DeviceProto *d = m->devices[index];

        return (struct mu_local_device){d->local_device_ordinal, d->fabric_uuid, &d->global_device_id,
                                        &d->partition_index};
    } else {
        const Mu__Xla2020__LocalTopologyProto *m = (const void *)local->message;
        Mu__Xla2020__DeviceProto *d = m->devices[index];

        return (struct mu_local_device){.ordinal = d->local_device_ordinal, .id = &d->global_device_id};
    }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

enum muster_status mu_message_pack(const ProtobufCMessage *message, void **ret_bytes, size_t *ret_size)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size ? size : 1);

    if (!bytes)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", size);
    *ret_size = protobuf_c_message_pack(message, bytes);
    *ret_bytes = bytes;
    return MUSTER_OK;
}

enum muster_status mu_locals_pack(const struct mu_locals *set, const size_t *order, void **ret_bytes, size_t *ret_size)
{
    ProtobufCMessage **messages = calloc(set->count, sizeof *messages);
    Mu__Xla__GlobalTopologyProto today;
    Mu__Xla2020__GlobalTopologyProto of_2020;
    enum muster_status status;

    if (!messages)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for %zu local topologies", set->count);
    for (size_t i = 0; i < set->count; i++)
        messages[i] = set->locals[order[i]].message;
    mu__xla__global_topology_proto__init(&today);
    today.n_processes = set->count;
    today.processes = (Mu__Xla__LocalTopologyProto **)messages;
    mu__xla2020__global_topology_proto__init(&of_2020);
    of_2020.n_nodes = set->count;
    of_2020.nodes = (Mu__Xla2020__LocalTopologyProto **)messages;
    status = mu_message_pack(set->form == MUSTER_FORM_XLA ? &today.base : &of_2020.base, ret_bytes, ret_size);
    free(messages);
    return status;
}
